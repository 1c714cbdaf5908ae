"""`python -m topiclib sweep`: a notebook at every point of a grid of its parameters; what holds where."""

import hashlib
import itertools
import math
import re
import time
from pathlib import Path

import click
import pandas as pd

from . import parameters
from .run import Job, check_folder, own_parameters, parse_value, run_jobs, select_notebooks

COMMANDS = ("__main__", "report", "run", "sweep")  # modules that no notebook imports
LIMIT = 10_000  # runs of a sweep: more is a slip of the pen


def plan(wanted: str, words: tuple[str, ...], out: Path | None = None) -> list[Job]:
    """The runs of a notebook that words NAME=VALUES ask for, each with a folder of its own in a folder for this code.

    ValueError with one line for whatever is wrong, before anything has started.
    """
    (notebook,) = select_notebooks((wanted,))
    found, grid = own_parameters(notebook), {}
    for word in words:
        name, sign, text = word.partition("=")
        if not sign:
            raise ValueError(f"{word} is not of the form NAME=V1,V2 or NAME=A:B")
        if name in grid:
            raise ValueError(f"{name} is given more than once: list its values in one, {name}=V1,V2")
        values = []
        for part in map(str.strip, text.split(",")):
            ends = re.fullmatch(r"(-?\d+):(-?\d+)", part)
            numbers = range(int(ends[1]), int(ends[2]) + 1) if ends else [part]
            if not 0 < len(numbers) <= LIMIT:
                raise ValueError(f"{part} is not allowed: A:B wants B at least A, and at most {LIMIT} values")
            values += [parse_value(found, name, str(number), notebook.stem) for number in numbers]
        grid[name] = list(dict.fromkeys(map(found[name].type, values)))  # 1 and 1.0 are one value
    if (runs := math.prod(map(len, grid.values()))) > LIMIT:
        raise ValueError(f"the grid has {runs} points: at most {LIMIT} runs are allowed")
    out = check_folder(out or parameters.ROOT / "runs" / f"sweep_{notebook.stem}") / version(notebook)
    jobs = []
    for values in itertools.product(*grid.values()):
        point = dict(zip(grid, values, strict=True))
        changed = {name: value for name, value in point.items() if value != found[name].default}
        folder = parameters.run_folder(notebook.stem, changed).name if changed else "defaults"
        label = ", ".join(f"{name}={value}" for name, value in point.items())
        jobs.append(Job(notebook, changed, out / folder, False, label))
    return jobs


def version(notebook: Path) -> str:
    """A hash of the code that decides a run's numbers: the notebook's code cells and the modules it imports."""
    code = ["".join(cell["source"]) for cell in parameters.read_cells(notebook)]
    modules = sorted((parameters.ROOT / "topiclib").rglob("*.py"))
    code += [path.read_text(encoding="utf-8") for path in modules if path.stem not in COMMANDS]
    return hashlib.sha256("\0".join(code).encode()).hexdigest()[:12]


def carry_out(jobs: list[Job], number: int) -> bool:
    """Run what has no record yet, `number` at a time, and summarise; does every run have one now? Ctrl-C keeps them."""
    todo, began = [job for job in jobs if not parameters.read_record(job.figures, job.source.stem)], time.monotonic()
    done, out = len(jobs) - len(todo), jobs[0].figures.parent
    click.echo(f"{len(jobs)} runs of {jobs[0].source.stem}, {done} of them finished already; results in {out}")
    try:
        for job, outcome in run_jobs(todo, number):
            done += outcome.status == "ok"
            said = outcome.notes[0] if outcome.status == "ok" else f"failed: {outcome.notes[0]}"
            click.echo(f"{job.label}  {outcome.seconds:.0f} s  {said}")
    except KeyboardInterrupt:
        click.echo("interrupted")
    summarise(jobs, out)
    again = "" if done == len(jobs) else "; the same command runs the rest"
    click.echo(f"{done} of {len(jobs)} runs done in {time.monotonic() - began:.0f} s{again}")
    return done == len(jobs)


def summarise(jobs: list[Job], out: Path) -> None:
    """Write sweep.csv, a row for each check of each run, and summary.csv, over the runs that differ in their seed only.

    Print the checks that do not hold in all of them.
    """
    rows, found = [], own_parameters(jobs[0].source)
    for job in jobs:
        values = {name: one.default for name, one in found.items()} | job.injected
        for statement in parameters.read_record(job.figures, job.source.stem).get("statements", []):
            for check in statement["checks"]:
                said = f"{statement['paper']} · {statement['says']} · {check['kind']}: {check['name']}"
                rows.append(values | {"check": said, "measured": check["measured"], "holds": check["holds"]})
    if not rows:
        return
    table = pd.DataFrame(rows).astype({"measured": float})
    groups = table.groupby([*(name for name in found if name != "seed"), "check"], sort=False)
    columns = {"mean": ("measured", "mean"), "sd": ("measured", "std"), "share": ("holds", "mean")}
    summary = groups.agg(**columns, runs=("holds", "size")).reset_index()
    for name, content in (("sweep", table), ("summary", summary)):
        text = content.to_csv(index=False, float_format="%.6g", lineterminator="\n")
        parameters.write_whole(out / f"{name}.csv", text.encode())
    varied = [name for name in found if name != "seed" and summary[name].nunique() > 1]
    for row in summary[summary.share < 1].to_dict("records"):
        where = "".join(f"{name}={row[name]}  " for name in varied)
        click.echo(f"holds in {row['share'] * row['runs']:.0f} of {row['runs']}: {where}{row['check']}")
    click.echo(f"{(summary.share == 1).sum()} of {len(summary)} checks hold in all runs")
