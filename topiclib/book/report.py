"""The scoreboard: figures/claims.md and the README's results, from the committed notebooks and their records.

Numbers come from figures/claims_NN.json and are printed as in the tables of claims; cells are found by what they print.
A verdict stands while every claim that its row names holds; otherwise the row is UNEXPLAINED.
"""

import difflib
import json
import math
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

import click

from . import parameters, scoreboard
from .claims import Claim
from .scoreboard import HOLDS, NOT, REGIME, Row

BEGIN, END = "<!-- results: written by python -m topiclib report -->", "<!-- results: end -->"
UNEXPLAINED = "UNEXPLAINED"
SLIPS = "Where the paper or the released code does not check out"
PLURAL = {HOLDS: "hold", REGIME: "hold only in a regime", NOT: "do not hold", UNEXPLAINED: "are unexplained"}
LEGEND = (
    "A prediction has its tolerance (±) or is a bound (<, >). `05 [18]` is the cell of notebook 05 that JupyterLab "
    "numbers [18]. Written from the notebooks' records by `python -m topiclib report`."
)


class Cell(NamedTuple):
    """A code cell."""

    count: int  # execution count
    id: str
    heading: str  # the last one above
    printed: str  # in one line


@dataclass(frozen=True)
class Notebook:
    """A committed notebook and its record."""

    path: Path
    title: str
    claims: list[tuple[Claim, bool]]  # and whether it holds, as recorded: decided on all digits
    cells: list[Cell]


@dataclass(frozen=True)
class Evidence:
    """All notebooks by number; all claims by name, such as "03 Figure 2: squared, SGD: same-topic mean"."""

    notebooks: dict[str, Notebook]
    claims: dict[str, Claim]
    failed: list[str]  # names of the claims that do not hold

    def cells(self, name: str) -> list[Cell]:
        """The cells that check the claim, or print the text, of that name; one, if all is well."""
        text, book = name[3:] + (" | predicted " if name in self.claims else ""), self.notebooks.get(name[:2])
        return [cell for cell in book.cells if text in cell.printed] if book else []

    def wrong(self, name: str, is_claim: bool = True) -> str:
        """What is wrong with a claim or a printed text as evidence; empty if nothing is."""
        if name in self.failed:
            return "does not hold"
        if is_claim and name not in self.claims:
            near = difflib.get_close_matches(name, self.claims, n=1)
            return f"no such claim (renamed to {near[0]}?)" if near else "no such claim"
        found = len(self.cells(name))
        return "" if found == 1 else f"printed by {found} cells of the notebook, not by one"

    def fill(self, text: str, names: tuple[str, ...], measured: bool) -> str:
        """The text with the number of claim k for {k}, rounded as in the tables of claims."""
        shown = [self.claims[name].shown[measured] if name in self.claims else "?" for name in names]
        return text.format(*(number.removesuffix(" ± 0").replace(" ", "\N{NO-BREAK SPACE}") for number in shown))


def write() -> list[str]:
    """Write both files; return what is unexplained, one line each. ClickException if an input cannot be read."""
    texts, lines = _render()
    for path, text in texts.items():
        parameters.write_whole(path, text.encode())
    return lines


def check() -> list[str]:
    """Return what is unexplained or out of date, one line each; write nothing. ClickException as in `write`."""
    texts, lines = _render()
    stale = [path for path, text in texts.items() if not path.is_file() or path.read_bytes() != text.encode()]
    return lines + [f"{_relative(path)} is out of date: run python -m topiclib report" for path in stale]


def read_evidence() -> Evidence:
    """Every record in figures/, and every one that is wanted, with its notebook.

    ClickException with one line if one of them is missing or cannot be read.
    """
    figures = parameters.ROOT / "figures"
    numbers = {path.stem[-2:] for path in figures.glob("claims_[0-9][0-9].json")} | {
        name[:2] for _, name, _ in _wanted()
    }
    notebooks = {number: _read_notebook(figures / f"claims_{number}.json") for number in sorted(numbers)}
    named = [(f"{n} {claim.sentence}", claim, holds) for n in notebooks for claim, holds in notebooks[n].claims]
    return Evidence(notebooks, {name: x for name, x, _ in named}, [name for name, _, holds in named if not holds])


def verdict(row: Row, evidence: Evidence) -> str:
    """The row's verdict; UNEXPLAINED if a claim that it rests on is missing, does not hold or is not found."""
    return UNEXPLAINED if any(map(evidence.wrong, row.evidence + row.outside)) else row.verdict


def unexplained(evidence: Evidence) -> list[str]:
    """One line for everything that stands in the way of a verdict, a proof, or "all claims hold"."""
    others = set(evidence.failed) - {name for _, name, _ in _wanted()} - set(scoreboard.EXPLAINED)
    wrong = [(item, name, evidence.wrong(name, is_claim)) for item, name, is_claim in _wanted()]
    wrong += [("in no row", name, "does not hold") for name in sorted(others)]
    wrong += [("in EXPLAINED", x, "is no failure") for x in scoreboard.EXPLAINED if x not in evidence.failed]
    return [f"{UNEXPLAINED}: {item}: {name}: {what}" for item, name, what in wrong if what]


def _wanted() -> list[tuple[str, str, bool]]:
    """What rows and slips rest on: item, name, is it a claim (or a printed text)."""
    wanted = [(row.item, name, True) for row in scoreboard.ROWS for name in row.evidence + row.outside]
    wanted += [(slip.item, name, True) for slip in scoreboard.SLIPS for name in slip.claims]
    return wanted + [(slip.item, name, False) for slip in scoreboard.SLIPS for name in slip.printed]


def _read_notebook(record: Path) -> Notebook:
    path, known = record, {field.name for field in fields(Claim)}
    try:
        content = json.loads(record.read_text(encoding="utf-8"))
        claims, cells, headings = [], [], []
        for row in content["claims"]:
            measured = math.nan if row["measured"] is None else row["measured"]
            of_claim = {name: value for name, value in row.items() if name in known}
            claims.append((Claim(**of_claim | {"measured": measured}), row["holds"]))
        path = parameters.ROOT / "notebooks" / f"{content['notebook']}.ipynb"
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "markdown":
                headings += re.findall(r"^#+ +(.+)$", "".join(cell["source"]), re.MULTILINE)
            else:
                printed = "".join("".join(output.get("text", "")) for output in cell["outputs"])
                cells.append(Cell(cell["execution_count"], cell["id"], headings[-1], " ".join(printed.split())))
        return Notebook(path, headings[0], claims, cells)
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        wrong = "is missing" if isinstance(error, FileNotFoundError) else "cannot be read"
        again = f"run python -m topiclib run {record.stem[-2:]}"
        raise click.ClickException(f"{_relative(path)} {wrong}: {again}") from None


def _render() -> tuple[dict[Path, str], list[str]]:
    """The text that each file should have, and what is unexplained."""
    readme, figures, evidence = parameters.ROOT / "README.md", parameters.ROOT / "figures", read_evidence()
    parts = re.split(f"({re.escape(BEGIN)}|{re.escape(END)})", readme.read_text("utf-8") if readme.is_file() else "")
    if parts[1::2] != [BEGIN, END]:
        raise click.ClickException(f"README.md has no place for the results: {BEGIN} and {END} are wanted, once each")
    shown = [row for row in scoreboard.ROWS if row.in_readme]
    more = "More statements, and the claims that each verdict rests on: [figures/claims.md](figures/claims.md)."
    parts[2] = "\n\n".join(["", *_sections(evidence, shown, parameters.ROOT, "###"), more, ""])
    board = ["# Scoreboard", *_sections(evidence, scoreboard.ROWS, figures, "##")]
    board += ["## What each verdict rests on", *(_grounds(row, evidence, figures) for row in scoreboard.ROWS)]
    return {readme: "".join(parts), figures / "claims.md": "\n\n".join(board) + "\n"}, unexplained(evidence)


def _sections(evidence: Evidence, rows: Sequence[Row], base: Path, level: str) -> list[str]:
    """Summary, results, slips and claims, with links relative to the folder `base`."""
    verdicts = [verdict(row, evidence) for row in rows]
    counts = ", ".join(f"{verdicts.count(x)} {many}" for x, many in PLURAL.items() if x in verdicts)
    holds = [x for book in evidence.notebooks.values() for _, x in book.claims]
    summary = f"{len(rows)} statements: {counts}. {sum(holds)} of {len(holds)} claims hold. {LEGEND}"
    results = [("paper", "what it says", "predicted", "measured", "verdict", "cell", "figure")]
    results += [_result(row, evidence, base) for row in rows]
    slips = [("paper", "what is stated, and what is wrong with it", "what is right", "cell")]
    for slip in scoreboard.SLIPS:
        texts = [evidence.fill(text, slip.claims, True) for text in (slip.wrong, slip.right)]
        slips.append((slip.item, *texts, _cells(slip.claims + slip.printed, evidence, base)))
    books = [("notebook", "claims", "negative controls among them", "hold")]
    for number, book in evidence.notebooks.items():
        title = f"[{book.title}]({_link(f'notebooks/{book.path.name}', base)})"
        every = f"[{len(book.claims)}]({_link(f'figures/claims_{number}.md', base)})"
        controls = sum(claim.kind == "control" for claim, _ in book.claims)
        books.append((title, every, str(controls), str(sum(x for _, x in book.claims))))
    return [summary, _table(results), f"{level} {SLIPS}", _table(slips), f"{level} Claims", _table(books)]


def _result(row: Row, evidence: Evidence, base: Path) -> tuple[str, ...]:
    names, said = row.evidence + row.outside, verdict(row, evidence)
    numbers = evidence.fill(row.predicted, names, False), evidence.fill(row.measured, names, True)
    said = f"{said}: {row.regime}" if said == REGIME else said
    first = {}  # of each notebook, the claim named first
    for name in names:
        first.setdefault(name[:2], name)
    figures = [f"[{text}]({_link(f'figures/{file}', base)})" for text, file in row.figures.items()]
    return row.item, row.says, *numbers, said, _cells(first.values(), evidence, base), ", ".join(figures)


def _grounds(row: Row, evidence: Evidence, base: Path) -> str:
    """A row's note, and its claims with their numbers."""
    names = row.evidence + row.outside
    lines = [f"**{row.item}**: {row.says} *{verdict(row, evidence)}.* {evidence.fill(row.note, names, True)}".strip()]
    for name in names:
        lines += ["", f"Outside the regime ({row.regime}):"] if name in row.outside[:1] else []
        lines += [""] if name in (names[0], *row.outside[:1]) else []
        numbers = evidence.fill("predicted {0}, ", (name,), False) + evidence.fill("measured {0}", (name,), True)
        lines.append(f"* {_cells([name], evidence, base)} {_escape(name[3:])}: {numbers}")
    return "\n".join(lines)


def _cells(names: Iterable[str], evidence: Evidence, base: Path) -> str:
    """Links to the cells of claims or printed texts, called by execution count; the heading above is the tooltip."""
    links = []
    for name in names:
        for cell in evidence.cells(name):
            path = _link(f"notebooks/{evidence.notebooks[name[:2]].path.name}", base)
            heading = cell.heading.replace('"', "'")
            links.append(f'[{name[:2]}\N{NO-BREAK SPACE}[{cell.count}]]({path}#cell-id={cell.id} "{heading}")')
    return ", ".join(dict.fromkeys(links))


def _table(rows: Iterable[tuple[str, ...]]) -> str:
    head, *body = (f"| {' | '.join(map(_escape, row))} |" for row in rows)
    return "\n".join([head, re.sub(r"[^|]+", "---", head), *body])


def _escape(text: str) -> str:
    return re.sub(r"([|*])", r"\\\1", text)


def _link(path: str, base: Path) -> str:
    return Path(os.path.relpath(parameters.ROOT / path, base)).as_posix()


def _relative(path: Path) -> str:
    return path.relative_to(parameters.ROOT).as_posix()
