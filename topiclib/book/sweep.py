"""`python -m topiclib sweep`: a notebook at every point of a grid of its parameters; what holds where.

`sweep.csv` has one row for each run, told apart by the values of all parameters; all its rows are of one version of the
code.
"""

import hashlib
import itertools
import json
import math
import os
import re
import textwrap
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import click
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from ..plots import DIVERGING
from . import parameters
from .pictures import save_figure
from .run import (
    Job,
    check_writable,
    checked_out,
    own_parameters,
    parse_value,
    read_statements,
    run_jobs,
    select_notebooks,
)

HOLDS = " [holds]"  # a check's verdict is in the column of this name, its measurement in the one without
COMMANDS = ("__main__", "report", "run", "sweep", "tidy")  # modules that no notebook imports
LIMIT = 10_000  # runs of a sweep: more is a slip of the pen
SHOWN = 60  # rows and columns of the figure


class Sweep(NamedTuple):
    """The notebook, its parameters, values for those in the grid; the folder for results, and the rows in its table."""

    notebook: Path
    found: dict[str, parameters.Parameter]
    grid: dict[str, list]
    out: Path
    rows: dict[tuple, dict]

    @property
    def defaults(self) -> dict:
        """The default of every parameter, in its own type."""
        return {name: one.type(one.default) for name, one in self.found.items()}

    def jobs(self) -> list[Job]:
        """A job for each point of the grid, with a folder of its own."""
        jobs = []
        for values in itertools.product(*self.grid.values()):
            point = dict(zip(self.grid, values, strict=True))
            changed = {name: value for name, value in (self.defaults | point).items() if value != self.defaults[name]}
            name = parameters.run_folder(self.notebook.stem, changed).name if changed else "defaults"
            label = ", ".join(f"{name}={value}" for name, value in point.items())
            jobs.append(Job(self.notebook, changed, self.out / name, False, label))
        return jobs


def plan(words: tuple[str, ...], out: Path | None = None) -> Sweep:
    """What the words of the command line ask for, all checked; ValueError with one line for whatever is wrong."""
    if len(words) < 2:
        raise ValueError("a notebook and a grid are wanted, e.g. sweep 03 optimizer=sgd,adam seed=0:4")
    (notebook,) = select_notebooks(words[:1])
    found, grid = own_parameters(notebook), {}
    for word in words[1:]:
        name, sign, text = word.partition("=")
        if not sign:
            raise ValueError(f"{word} is not of the form NAME=V1,V2 or NAME=A:B")
        if name in grid:
            raise ValueError(f"{name} is given more than once: list its values in one, {name}=V1,V2")
        values = [parse_value(found, name, part, notebook.stem) for part in _parts(name, text, found)]
        grid[name] = list(dict.fromkeys(map(found[name].type, values)))  # 1 and 1.0 are one value
    if (runs := math.prod(map(len, grid.values()))) > LIMIT:
        raise ValueError(f"the grid has {runs} points: at most {LIMIT} runs are allowed")
    out = checked_out(out or parameters.ROOT / "runs" / f"sweep_{notebook.stem}")
    check_writable(out)
    return Sweep(notebook, found, grid, out, finished_rows(out / "sweep.csv", found, version(notebook)))


def _parts(name: str, text: str, found: dict[str, parameters.Parameter]) -> list[str]:
    kind, parts = found[name].type if name in found else None, []
    for part in map(str.strip, text.removesuffix(";").split(";") if ";" in text else text.split(",")):
        ends = re.fullmatch(r"(-?\d+):(-?\d+)", part)
        if not part:
            raise ValueError(f"{name}={text} has an empty value")
        if kind is float and ":" in part:
            raise ValueError(f"{name}={text}: a range is for int parameters: list the values")
        if kind is int and ends:
            first, last = map(int, ends.groups())
            if not 0 <= last - first < LIMIT:
                raise ValueError(f"{name}={text}: A:B wants B at least A, and at most {LIMIT} values")
            parts += map(str, range(first, last + 1))
        else:
            parts.append(part)
    return parts


def version(notebook: Path) -> str:
    """A hash of the code that decides a run's numbers: the notebook's code cells and the modules it imports."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    package = parameters.ROOT / "topiclib"
    modules = sorted([*package.glob("*.py"), *package.glob("[!.]*/*.py")])
    code += [path.read_text(encoding="utf-8") for path in modules if path.stem not in COMMANDS]
    return hashlib.sha256("\0".join(code).encode()).hexdigest()[:12]


def carry_out(sweep: Sweep, parallel: int) -> bool:
    """Run what is missing or failed, `parallel` at a time, and summarise; was everything run, without a failure?

    Rows are written as runs finish. ClickException if the code is changed meanwhile.
    """
    current, jobs, rows = version(sweep.notebook), sweep.jobs(), sweep.rows

    def key(job):
        return tuple((sweep.defaults | job.injected).values())

    todo = [job for job in jobs if rows.get(key(job), {"error": "new"})["error"]]
    done, failed, began = len(jobs) - len(todo), 0, time.monotonic()
    click.echo(f"{len(jobs)} runs of {sweep.notebook.stem}, {done} of them finished already; results in {sweep.out}")
    for run in run_jobs(todo, parallel):
        if run.status == "interrupted":
            continue
        if version(sweep.notebook) != current:
            raise click.ClickException("the notebook or topiclib was changed while the sweep ran: start it again")
        error = run.notes[0] if run.status == "failed" else ""
        row = sweep.defaults | run.job.injected
        row |= {"seconds": f"{run.seconds:.1f}", "error": error[:1000], "version": current}
        if not error:
            row |= check_columns(read_statements(run.job.figures, sweep.notebook))
        rows[key(run.job)] = {column: str(value) for column, value in row.items()}
        write_table(sweep.out / "sweep.csv", [rows[one] for one in sorted(rows)])
        done, failed = done + 1, failed + bool(error)
        said = f"failed: {error}" if error else run.notes[0]
        click.echo(f"{done} of {len(jobs)}  {run.job.label}  {run.seconds:.0f} s  {said}")
    summarise(sweep, [rows[one] for one in sorted(rows)])
    end = f"; {failed} failed" if failed else ""
    end += "; interrupted, the same command goes on from here" if done < len(jobs) else ""
    click.echo(f"{done} of {len(jobs)} runs done in {time.monotonic() - began:.0f} s{end}")
    return done == len(jobs) and not failed


def check_columns(statements: list[dict]) -> dict:
    """The measurement and the verdict of every check of a run, under names that differ."""
    columns = {}
    for statement in statements:
        for check in statement["checks"]:
            kind = "" if check["kind"] == "check" else f"{check['kind']}: "
            name = f"{statement['paper']} · {kind}{check['name']}"
            if name in columns:
                name = f"{statement['paper']} · {statement['says']} · {kind}{check['name']}"
            columns[name] = "" if check["measured"] is None else check["measured"]
            columns[name + HOLDS] = check["holds"]
    return columns


def finished_rows(table: Path, found: dict[str, parameters.Parameter], current: str) -> dict[tuple, dict]:
    """The rows of sweep.csv by the values of all parameters; a table of another version is set aside."""
    try:
        for other in {row["version"] for row in read_table(table)} - {current}:
            os.replace(table, table.with_stem(f"sweep_{other}"))
            with suppress(FileNotFoundError):  # back to a version that was set aside before
                os.replace(table.with_stem(f"sweep_{current}"), table)
        rows = read_table(table)
        keys = [tuple(one.type(parse_value(found, name, row[name])) for name, one in found.items()) for row in rows]
    except (KeyError, ValueError):
        raise ValueError(f"{table} is not the table of a sweep of this notebook: move it away") from None
    return dict(zip(keys, rows, strict=True))


def read_table(table: Path) -> list[dict]:
    """The rows of a table, all values as text; none if there is no such file."""
    return pd.read_csv(table, dtype=str, keep_default_na=False).to_dict("records") if table.is_file() else []


def write_table(table: Path, rows: list[dict] | pd.DataFrame) -> None:
    """Write rows under all their columns, in one go; a value that a row does not have is empty."""
    parameters.write_whole(
        table, pd.DataFrame(rows).to_csv(index=False, float_format="%.6g", lineterminator="\n").encode()
    )


def summarise(sweep: Sweep, rows: list[dict]) -> None:
    """Write summary.csv and the figure of it: every check over the runs that differ in their seed only."""
    finished = pd.DataFrame([row for row in rows if not row["error"]]).fillna("")
    checks = [column.removesuffix(HOLDS) for column in finished if column.endswith(HOLDS)]
    if not checks:
        return
    names = [name for name in sweep.found if name != "seed" and any(finished[name] != str(sweep.defaults[name]))]
    parts = []
    for check in checks:
        part = finished[names].assign(check=check, measured=pd.to_numeric(finished[check]))
        part["held"] = finished[check + HOLDS] == "True"
        parts.append(part[finished[check + HOLDS] != ""])  # not every run makes every check
    groups = pd.concat(parts).groupby([*names, "check"], sort=False)
    columns = {
        "mean": ("measured", "mean"),
        "sd": ("measured", "std"),
        "holds": ("held", "mean"),
        "runs": ("held", "size"),
    }
    summary = groups.agg(**columns).reset_index()
    write_table(sweep.out / "summary.csv", summary)
    failed = f", {len(rows) - len(finished)} more failed" if len(rows) > len(finished) else ""
    _draw(sweep, f"{sweep.notebook.stem}: runs in which a check holds ({len(finished)} runs{failed})", names, summary)


def _draw(sweep: Sweep, title: str, names: list[str], summary: pd.DataFrame) -> None:
    """sweep.png, .pdf: checks as rows, settings as columns; the checks that hold in all runs are one row."""
    values = [tuple(row) for row in summary[names].to_numpy().tolist()]
    settings = list(dict.fromkeys(values))
    broken = list(summary.check[summary.holds < 1].unique())
    others = summary.check.nunique() - len(broken)
    if max(len(broken), len(settings)) > SHOWN:
        title += f"\nonly the first {SHOWN} checks and settings; all are in summary.csv"
        broken, settings = broken[:SHOWN], settings[:SHOWN]
    shares, texts = pd.DataFrame(index=broken), pd.DataFrame(index=broken)
    for i, setting in enumerate(settings):
        here = summary[[one == setting for one in values]].set_index("check").reindex(broken)
        shares[i] = here.holds
        texts[i] = [
            f"{holds * runs:.0f}/{runs:.0f}" if runs > 0 else "" for holds, runs in here[["holds", "runs"]].to_numpy()
        ]
    if others:
        row = f"all {others} other checks" if broken else f"all {others} checks"
        shares.loc[row], texts.loc[row] = 1.0, "all"
    headings = [[textwrap.shorten(value, 18, placeholder="…") for value in setting] for setting in settings]
    longest = max((len(value) for heading in headings for value in heading), default=0)
    size = 5 + len(settings) * max(0.5, 0.15 + 0.085 * longest), 0.8 + 0.18 * len(names) + 0.38 * len(shares)
    axis = (figure := Figure(figsize=size, layout="constrained")).subplots()
    labels = [textwrap.fill(check, 64, max_lines=2, placeholder=" …") for check in shares.index]
    labels = {"yticklabels": labels, "xticklabels": ["\n".join(heading) for heading in headings]}
    style = {"linewidths": 1.5, "annot_kws": {"size": 9}, "cbar": False, "cmap": DIVERGING.reversed()}
    sns.heatmap(shares, annot=texts, fmt="", vmin=-0.2, vmax=1.2, ax=axis, **labels, **style)
    axis.tick_params(length=0, labelbottom=False, labeltop=True, labelsize=9, labelrotation=0)
    axis.set(xlabel="", ylabel="")
    place = {"xycoords": "axes fraction", "textcoords": "offset points", "ha": "right", "va": "bottom"}
    axis.annotate("\n".join(names), (0, 1), (-6, 4), fontsize=9, fontweight="bold", **place)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    save_figure(figure, sweep.out, "sweep")
