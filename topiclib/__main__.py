"""`python -m topiclib`: the command line."""

import os
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from .book import parameters, report
from .book import run as runner
from .book import sweep as sweeper


@contextmanager
def one_line(kind: type[Exception]):
    """An error of this kind is said in one line."""
    try:
        yield
    except kind as error:
        raise click.ClickException(str(error)) from None


@click.group()
def main():
    """The notebooks of topiclib, run from the command line."""


@main.command()
@click.argument("notebooks", nargs=-1, metavar="[NOTEBOOK]...")
@click.option("-p", "given", nargs=2, multiple=True, metavar="NAME VALUE", help="A parameter; may be repeated.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the notebooks and their figures.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Notebooks run side by side.")
def run(notebooks, given, out, jobs):
    """Run notebooks (by number or name; all without one) and check their statements.

    With default parameters and no --out the results replace those in notebooks/ and figures/; with other values
    they go to runs/. -p without a notebook runs those that have the parameter. A notebook that fails changes nothing:
    what it did is kept as NAME.failed.ipynb.
    """
    with one_line(ValueError):
        planned = runner.plan(notebooks, given, out)
    began, done, bad, width = time.monotonic(), 0, [], max(len(job.label) for job in planned)
    for one in runner.run_jobs(planned, jobs):
        click.echo(f"{one.job.label:<{width}}  {one.status}  {one.seconds:.0f} s  " + "\n    ".join(one.notes))
        bad += [] if one.status == "ok" else [f"{one.job.label} {one.status}"]
        done += 1
    with suppress(OSError):  # only if it is empty
        (parameters.ROOT / "runs").rmdir()
    total = f"{done - len(bad)} of {len(planned)} notebooks ok in {time.monotonic() - began:.0f} s"
    click.echo("; ".join([total, *bad]))
    sys.exit(1 if bad or done < len(planned) else 0)


@main.command()
@click.argument("words", nargs=-1, metavar="NOTEBOOK NAME=VALUES...")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for all results [runs/sweep_NOTEBOOK].")
@click.option("--jobs", type=click.IntRange(min=1), default=min(2, os.cpu_count()), help="Runs side by side.")
def sweep(words, out, jobs):
    """Run a notebook at every point of a grid of its parameters, e.g. sweep 03 optimizer=sgd,adam seed=0:4

    VALUES are separated by commas, or by semicolons if a value contains a comma ("models=a,b;c", or "models=a,b;" for
    one value). A:B is the range of whole numbers from A to B, both included, for int parameters only.

    The folder gets sweep.csv (a row for each run: parameters, seconds, error, every check's measurement and verdict),
    summary.csv with sweep.png and sweep.pdf (every check over the runs that differ in the parameter seed only: mean,
    standard deviation, share of runs in which it holds), and a folder for each run with its notebook and figures.
    The same command again, or one with more values, runs only what is missing or failed. After a change of the notebook
    or of topiclib everything is run again, and the old table is kept as sweep_VERSION.csv.
    """
    with one_line(ValueError):
        planned = sweeper.plan(words, out)
    with one_line(OSError):  # a full disk
        fine = sweeper.carry_out(planned, jobs)
    sys.exit(0 if fine else 1)


@main.command("report")
@click.option("--check", is_flag=True, help="Write nothing; fail if something is out of date.")
def write_report(check):
    """Write figures/statements.md and the README's results from the records of the committed notebooks."""
    lines = report.check() if check else report.write()
    click.echo("\n".join(lines) or f"figures/statements.md and README.md: {'up to date' if check else 'written'}")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main(prog_name="python -m topiclib")
