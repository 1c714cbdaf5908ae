"""A checked notebook: begin, state, draw, finish. A statement is written once, beside the cell that measures it."""

import json
import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from threadpoolctl import threadpool_limits

from .. import plots
from .parameters import check_parameters, recorded_values, write_whole
from .pictures import save_figure

WIDTH = 100  # columns of everything printed here
NAME = 62  # of these, for the name of a check


class Check(NamedTuple):
    """A measured number against what is expected of it.

    kind: "check"; "outside", where the statement stops holding; "control", a case that must come out differently if
    the statement means anything. measured, expected: as printed, a prediction "0.110 ± 0.005" or a bound "> 0.05".
    """

    kind: str
    name: str
    measured: str
    expected: str
    holds: bool


class Statement:
    """One sentence on the paper and the checks it rests on; made by `Book.statement`, printed when its block ends."""

    def __init__(self, paper, says, only, instead, headline, figures):
        self.paper, self.says, self.only, self.instead = paper, says, only, instead
        self.headline, self.figures, self.checks = headline, list(figures), []

    def check(
        self, name: str, measured, *, equals=None, within=None, above=None, below=None, digits: int = 3, kind="check"
    ) -> None:
        """Measured is to equal a prediction within a tolerance, or to keep a bound: above or below a number.

        digits: significant digits printed, at least 2; what is below a tolerance's last digit prints as 0. The verdict
        is taken on full precision; NaN does not hold. TypeError or ValueError for anything that is not one of these.
        """
        where = f"{self.paper}: {name}"
        if sum(x is not None for x in (equals, above, below)) != 1 or (equals is None) != (within is None):
            raise TypeError(f"{where}: give one of equals= (with within=), above= and below=")
        if any(one.kind == kind and one.name == name for one in self.checks):
            raise ValueError(f"{where}: there is a check of this name already")
        if any(x is not None and not math.isfinite(x) for x in (equals, within, above, below)) or (within or 0) < 0:
            raise ValueError(f"{where}: what is expected must be a finite number, and a tolerance at least 0")
        if digits < 2:
            raise ValueError(f"{where}: digits = {digits} is not allowed: one digit misreports, at least 2 are wanted")
        measured = float(measured)
        if equals is not None:
            holds, scale = abs(measured - equals) <= within, max(abs(equals), within)
            expected = f"{number(equals, digits)} ± {within:.2g}" if within else f"{equals:g} exactly"
        elif above is not None:
            holds, scale, expected = measured > above, 0.0, f"> {above:.4g}"
        else:
            holds, scale, expected = measured < below, 0.0, f"< {below:.4g}"
        shown = f"{measured:g}" if within == 0 else number(measured, digits, scale)
        self.checks.append(Check(kind, name, shown, expected, bool(holds)))

    def outside(self, name: str, measured, **expected) -> None:
        """What shows that the statement stops holding outside its `only`; arguments as for `check`."""
        self.check(name, measured, kind="outside", **expected)

    def control(self, name: str, measured, **expected) -> None:
        """A case that must come out differently if the statement means anything; arguments as for `check`."""
        self.check(name, measured, kind="control", **expected)

    @property
    def as_expected(self) -> bool:
        """Did every check come out as expected?"""
        return all(check.holds for check in self.checks)

    @property
    def verdict(self) -> str:
        """holds | holds only: ... | does not hold | NOT AS EXPECTED."""
        if not self.as_expected:
            return "NOT AS EXPECTED"
        return f"holds only: {self.only}" if self.only else "does not hold" if self.instead else "holds"

    def __str__(self) -> str:
        wrap = textwrap.TextWrapper(WIDTH, subsequent_indent=4 * " ", break_on_hyphens=False)
        lines = wrap.wrap(f"{self.paper} · {self.says} [{self.verdict}]")
        lines += wrap.wrap(f"    instead: {self.instead}") if self.instead else []
        for check in self.checks:
            title = check.name if check.kind == "check" else f"{check.kind}: {check.name}"
            *most, last = textwrap.wrap(title, NAME, subsequent_indent="  ", break_on_hyphens=False)
            lines += [f"  {line}" for line in most]
            lines.append(f"  {last:<{NAME}}{'' if check.holds else '!!':>3} {check.measured:>10}   {check.expected}")
        return "\n".join(lines)


class Book:
    """A notebook under way: its parameters, its folder for figures and tables, its statements. Made by `begin`."""

    def __init__(self, notebook: str, values: dict, figures: Path):
        self.notebook, self.values, self.figures = notebook, values, figures
        self.statements: dict[tuple[str, str], Statement] = {}
        self.saved: set[str] = set()

    @contextmanager
    def statement(
        self, paper: str, says: str, *, only="", instead="", headline=False, figure: str | Sequence[str] = ()
    ) -> Iterator[Statement]:
        """A statement of the paper, or beyond it, with its checks: `with book.statement(...) as s: s.check(...)`.

        paper: where, such as "Theorem 2", or "beyond the paper". says: one sentence. only: the regime in which it
        holds. instead: what is right, if it does not hold. headline: it goes into the README. figure: the names of
        figures or tables, saved before, that show it. The same statement again replaces the first. ValueError for empty
        or contradicting texts, and at the end of the block if nothing was checked.
        """
        for name, text in (("paper", paper), ("says", says)):
            if not text.strip() or "\n" in text:
                raise ValueError(f"{name} must be one line of text, not {text!r}")
        if only and instead:
            raise ValueError(f"{paper}: only= and instead= contradict each other: it holds in part, or it does not")
        figures = (figure,) if isinstance(figure, str) else figure
        one = Statement(paper, says, only, instead, headline, figures)
        yield one
        if not any(check.kind == "check" for check in one.checks):
            raise ValueError(f"{paper}: {says}: nothing was checked: s.check(...) is wanted at least once")
        for name in figures:
            if name not in self.saved:
                raise ValueError(f"{paper}: {name} was not drawn in this run: book.save(figure, {name!r}) comes first")
        self.statements[paper, says] = one
        print(one)

    def save(self, figure, name: str) -> None:
        """Write the figure as name.png and name.pdf into the folder of this run."""
        save_figure(figure, self.figures, name)
        self.saved.add(name)

    def table(self, name: str, heading: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> None:
        """Write rows of text under a heading, and a note below them, as name.md into the folder of this run."""
        lines = [f"| {' | '.join(row)} |" for row in [heading, ["---"] * len(heading), *rows]]
        lines += ["", note] if note else []
        write_whole(self.figures / f"{name}.md", ("\n".join(lines) + "\n").encode())
        self.saved.add(name)

    def finish(self) -> None:
        """Print one line a statement; write the record, statements_NN.json. ValueError if nothing was stated."""
        statements = list(self.statements.values())
        if not statements:
            raise ValueError("there is nothing to finish: no statement was made since tl.begin(...)")
        for one in statements:
            verdict = "holds only ..." if one.only and one.as_expected else one.verdict
            print(textwrap.shorten(f"{verdict:.<17} {one.paper} · {one.says}", WIDTH, placeholder=" ..."))
        checks = sum(len(one.checks) for one in statements)
        expected = sum(one.as_expected for one in statements)
        print(f"\n{expected} of {len(statements)} statements as expected, {checks} checks")

        rows = []
        for one in statements:
            row = {name: getattr(one, name) for name in ("paper", "says", "only", "instead", "headline", "figures")}
            row |= {"verdict": one.verdict, "as_expected": one.as_expected}
            rows.append(row | {"checks": [check._asdict() for check in one.checks]})
        record = {"notebook": self.notebook, "parameters": recorded_values(self.values), "statements": rows}
        text = json.dumps(record, indent=1, ensure_ascii=False)
        write_whole(self.figures / f"statements_{self.notebook[:2]}.json", f"{text}\n".encode())


def begin(notebook: str, namespace: dict) -> Book:
    """Check the parameters of the running notebook and set this process up for it: one thread, the figures' theme.

    notebook: its name without .ipynb. namespace: `globals()`. Only the committed values write to figures/.
    ValueError for an unknown, missing, mistyped or impossible parameter, FileNotFoundError for no such notebook.
    """
    values, figures = check_parameters(notebook, namespace)
    # The matrices are small: a second thread costs more than it brings, several times more on a busy machine.
    torch.set_num_threads(1)
    threadpool_limits(1)
    plots.theme()
    return Book(notebook, values, figures)


def number(value: float, digits: int, scale: float = 0.0) -> str:
    """`digits` significant digits of value, counted from the first digit of scale if that is larger."""
    if not math.isfinite(value):
        return str(value)
    exponent = int(f"{max(abs(value), scale) or 1:.{digits - 1}e}".partition("e")[2])  # of 0.9996 as printed, 1.00
    decimals = digits - 1 - exponent
    rounded = round(float(value), decimals)
    if rounded == 0:
        return "0"
    if not -5 <= exponent < 7:
        return f"{rounded:.{digits - 1}e}"
    return f"{rounded:.{max(decimals, 0)}f}"
