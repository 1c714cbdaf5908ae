"""The paper's claims and the verdicts on them."""

import json
import math
import textwrap
from dataclasses import dataclass
from pathlib import Path

from . import parameters

WIDTH = 110  # columns of everything printed here


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, or its negative control, with the number predicted and the number measured.

    relation "=": |measured - predicted| <= tolerance. relation "<" or ">": predicted is a bound that measured
    must keep, by `margin` at least. kind "control": a case built to come out differently if the claim means anything.
    Raises ValueError for arguments that do not make a claim.
    """

    paper: str  # where, e.g. "Theorem 2", or "beyond the paper"
    says: str  # one sentence
    predicted: float
    measured: float
    tolerance: float | None = None
    relation: str = "="
    margin: float = 0.0
    digits: int = 3  # significant digits printed; the verdict is taken on all of them
    kind: str = "claim"

    def __post_init__(self):
        for name in ("paper", "says"):
            text = getattr(self, name)
            if not text.strip() or "\n" in text:
                raise ValueError(f"{name} must be one line of text, not {text!r}")
        where = f"{self.paper}: {self.says}: "
        if self.relation not in ("=", "<", ">"):
            raise ValueError(f"{where}relation must be one of =, <, >, not {self.relation!r}")
        if self.kind not in ("claim", "control"):
            raise ValueError(f"{where}kind must be claim or control, not {self.kind!r}")
        if not math.isfinite(self.predicted):
            raise ValueError(f"{where}predicted must be a finite number, not {self.predicted}")
        if self.relation == "=" and (self.tolerance is None or not 0 <= self.tolerance < math.inf):
            raise ValueError(f"{where}relation = wants a tolerance of at least 0, not {self.tolerance}")
        if self.relation != "=" and self.tolerance is not None:
            raise ValueError(f"{where}relation {self.relation} has no tolerance: use margin")
        if not 0 <= self.margin < math.inf or (self.relation == "=" and self.margin != 0):
            raise ValueError(f"{where}margin must be at least 0, and 0 with relation =, not {self.margin}")
        if isinstance(self.digits, bool) or not isinstance(self.digits, int) or self.digits < 1:
            raise ValueError(f"{where}digits must be an int of at least 1, not {self.digits!r}")

    @property
    def holds(self) -> bool:
        """The verdict, on full precision; a measured NaN does not hold."""
        if self.relation == "=":
            return bool(abs(self.measured - self.predicted) <= self.tolerance)
        if self.relation == "<":
            return bool(self.measured <= self.predicted - self.margin)
        return bool(self.measured >= self.predicted + self.margin)

    @property
    def where(self) -> str:
        """The place in the paper, marked if this is a negative control."""
        return f"{self.paper}, control" if self.kind == "control" else self.paper

    @property
    def sentence(self) -> str:
        """Where and what, in one line."""
        return f"{self.where}: {self.says}"

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        return "holds" if self.holds else "DOES NOT HOLD"

    @property
    def shown(self) -> tuple[str, str]:
        """(predicted, measured) as they are printed, e.g. ("0.110 ± 0.005", "0.109") or ("< 0.0500", "0.0012")."""
        # Next to the prediction or its tolerance the rest is rounding noise, which differs between machines.
        scale = max(abs(self.predicted), self.tolerance) if self.relation == "=" else 0.0
        measured = _number(self.measured, self.digits, scale)
        if self.relation == "=":
            return f"{_number(self.predicted, self.digits)} ± {self.tolerance:.2g}", measured
        bound = self.predicted + (self.margin if self.relation == ">" else -self.margin)
        return f"{self.relation} {_number(bound, self.digits)}", measured


_claims: dict[tuple[str, str], Claim] = {}
_claims_run: parameters.Run | None = None


def check(claim: Claim) -> None:
    """Print the verdict on a claim in one line and remember it; the same claim checked again replaces its row."""
    _forget_other_runs()
    _claims[claim.paper, claim.says] = claim
    predicted, measured = claim.shown
    line = f"{claim.verdict:<13}  {claim.sentence} | predicted {predicted}, measured {measured}"
    print(textwrap.fill(line, WIDTH, subsequent_indent=15 * " ", break_long_words=False, break_on_hyphens=False))


def write_table(folder: Path) -> None:
    """Print the table of all claims checked in this run; write it to folder as claims_NN.md and claims_NN.json.

    Raises RuntimeError if no claim was checked, or `check_parameters` has not said which notebook is running.
    """
    run = parameters.current_run()
    _forget_other_runs()
    if run is None or not _claims:
        missing = "check_parameters(notebook, globals())" if run is None else "check(claim)"
        raise RuntimeError(f"there is no table of claims to write yet: call {missing} first")
    claims = list(_claims.values())
    print("\n".join(_table(claims)))

    rows = [
        {
            "paper": claim.paper,
            "says": claim.says,
            "relation": claim.relation,
            "predicted": _rounded(claim.predicted),
            "measured": _rounded(claim.measured),
            "tolerance": _rounded(claim.tolerance),
            "margin": _rounded(claim.margin),
            "digits": claim.digits,
            "kind": claim.kind,
            "holds": claim.holds,
        }
        for claim in claims
    ]
    values = {name: value for name, value in run.values.items() if name != "figures_dir"}
    record = {"notebook": run.notebook, "parameters": values, "claims": rows}
    lines = ["| paper | claim | predicted | measured | verdict |", "|---|---|---|---|---|"]
    for claim in claims:
        cells = [cell.replace("|", r"\|") for cell in (claim.where, claim.says, *claim.shown, claim.verdict)]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", _summary(claims)]

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    name = f"claims_{run.notebook[:2]}"
    for ending, text in (("md", "\n".join(lines)), ("json", json.dumps(record, indent=1, ensure_ascii=False))):
        parameters.write_whole(folder / f"{name}.{ending}", f"{text}\n".encode())


def _forget_other_runs() -> None:
    # Verdicts belong to the parameters they were measured with.
    global _claims_run
    if _claims_run != parameters.current_run():
        _claims_run = parameters.current_run()
        _claims.clear()


def _table(claims: list[Claim]) -> list[str]:
    cells = [("claim", "predicted", "measured", "verdict")]
    cells += [(claim.sentence, *claim.shown, claim.verdict) for claim in claims]
    widths = [max(len(row[column]) for row in cells) for column in range(4)]
    widths[0] = max(20, min(widths[0], WIDTH - sum(widths[1:]) - 9))
    lines = []
    for row in cells:
        wrapped = textwrap.wrap(row[0], widths[0], break_on_hyphens=False)
        for number, text in enumerate(wrapped):
            parts = (text, *(row[1:] if number == 0 else ("", "", "")))
            lines.append(" | ".join(part.ljust(width) for part, width in zip(parts, widths, strict=True)).rstrip(" |"))
        if row is cells[0]:
            lines.append("-+-".join("-" * width for width in widths))
    return [*lines, "", _summary(claims)]


def _summary(claims: list[Claim]) -> str:
    return f"{sum(claim.holds for claim in claims)} of {len(claims)} claims hold"


def _number(value: float, digits: int, scale: float = 0.0) -> str:
    """`digits` significant digits of value, counted from the first digit of scale if that is larger."""
    if not math.isfinite(value):
        return str(float(value))
    largest = max(abs(value), scale)
    if largest == 0:
        return "0"
    exponent = math.floor(math.log10(largest))
    decimals = digits - 1 - exponent
    rounded = round(float(value), decimals)
    if rounded == 0:
        return "0"
    if not -5 <= exponent < 7:
        return f"{rounded:.{digits - 1}e}"
    return f"{rounded:.{max(decimals, 0)}f}"


def _rounded(value: float | None) -> float | None:
    """Six significant digits for the JSON file, which has no NaN."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}") + 0.0
