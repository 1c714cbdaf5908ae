"""The numbers in a notebook's prose, and whether something in the notebook says so too."""

import re
from bisect import bisect_left
from typing import NamedTuple

COUNTING = 12  # "two panels", "3 of 4": whole numbers up to this need no source

# What is no measurement: formulas, code, links, HTML, and the names of things that have a number.
NAMED = (
    r"(?:Figures?|Tables?|Sections?|Theorems?|Lemmas?|Definitions?|Assumptions?|Appendix|Appendices|Remarks?|Stages?"
)
NAMED += r"|Equations?|equations?|Exercises?|[Nn]otebooks?|Cases?|Propositions?|Part|Step|Python|layers?)"
LEFT_OUT = [
    r"```.*?```",
    r"`[^`]*`",
    r"\$\$.*?\$\$",
    r"\$[^$]*\$",
    r"\]\([^)]*\)",
    r"<[^>]*>",
    r"^#+[^\n]*$",
    r"Runs in about .*?\.",
    r"\b(?:19|20)\d\d\b",  # years
    rf"\b{NAMED}[\s\xa0]+[A-Z]?\.?\d[\d.]*(?:(?:,| and| to|–|-|, and)\s*[A-Z]?\.?\d[\d.]*)*",
    r"\b[A-Za-z]+[-_]?\d[\w.-]*",  # L2, tab1, all-MiniLM-L6
]
NUMBER = re.compile(r"(?<![\w.,])[-−]?(?:\d+(?:[,_]\d{3})*(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?(?:\s?%)?")


class Number(NamedTuple):
    """A number as it is written, its size without sign, and half a unit of its last digit."""

    text: str
    value: float
    half: float


def numbers(text: str) -> list[Number]:
    """The numbers in text; "12%" is 0.12. A sign is left out: prose says "falls by 3"."""
    found = []
    for match in NUMBER.finditer(text):
        written = match.group().strip()
        plain = written.rstrip("% ").replace(",", "").replace("_", "").replace("−", "-")
        if not re.search(r"\d", plain):
            continue
        scale = 0.01 if written.endswith("%") else 1.0
        mantissa, _, exponent = plain.partition("e")
        decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
        found.append(Number(written, abs(float(plain)) * scale, 0.5 * 10.0**-decimals * scale))
    return found


def prose(markdown: str) -> str:
    """The sentences of a markdown cell, without formulas, code, links and the numbers of figures and theorems."""
    for pattern in LEFT_OUT:
        markdown = re.sub(pattern, " ", markdown, flags=re.DOTALL | re.MULTILINE)
    return markdown


def unsupported(markdown: list[str], sources: list[str]) -> list[str]:
    """The numbers in prose that no source (printed output, parameters) rounds to, as they are written."""
    known = sorted(number.value for text in sources for number in numbers(text))
    missing = []
    for cell in markdown:
        for number in numbers(prose(cell)):
            if number.value <= COUNTING and number.value == int(number.value) and "%" not in number.text:
                continue
            at = bisect_left(known, number.value - number.half * 1.001)
            if at == len(known) or known[at] > number.value + number.half * 1.001:
                missing.append(number.text)
    return missing
