"""`python -m topiclib`: the command line."""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import click
from tqdm import tqdm

from .book import report
from .book import run as runner
from .book import sweep as sweeper


class OneLine(click.Group):
    """Commands that say in one line what is wrong, and that SIGTERM stops like Ctrl-C."""

    def invoke(self, ctx):
        """Run the command that was asked for."""
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            return super().invoke(ctx)
        except (ValueError, OSError) as error:  # a wrong word; a full disk
            raise click.ClickException(str(error)) from None


@click.group(cls=OneLine)
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
    they go to runs/. A notebook that fails changes nothing: what it did is kept as NAME.failed.ipynb.
    """
    planned, began, done, bad = runner.plan(notebooks, given, out), time.monotonic(), 0, []
    width = max(len(job.label) for job in planned)
    with suppress(KeyboardInterrupt), tqdm(total=len(planned), unit="notebook", leave=False, disable=None) as bar:
        for job, outcome in runner.run_jobs(planned, jobs):
            notes = "\n    ".join(outcome.notes)
            bar.write(f"{job.label:<{width}}  {outcome.status}  {outcome.seconds:.0f} s  {notes}")
            bar.update()
            bad += [] if outcome.status == "ok" else [f"{job.label} failed"]
            done += 1
    end = [] if done == len(planned) else ["interrupted"]
    total = f"{done - len(bad)} of {len(planned)} notebooks ok in {time.monotonic() - began:.0f} s"
    click.echo("; ".join([total, *bad, *end]))
    sys.exit(1 if bad or end else 0)


@main.command()
@click.argument("notebook")
@click.argument("grid", nargs=-1, required=True, metavar="NAME=VALUES...")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for all results [runs/sweep_NOTEBOOK]")
@click.option("--jobs", type=click.IntRange(min=1), default=min(2, os.cpu_count()), help="Runs side by side.")
def sweep(notebook, grid, out, jobs):
    """Run a notebook at every point of a grid of its parameters, e.g. sweep 03 optimizer=sgd,adam seed=0:4

    VALUES are separated by commas; A:B is the range of whole numbers from A to B, both included.

    In the folder, in one of its own for this version of the code, every run has a folder; sweep.csv has a row for each
    check of each run, summary.csv the checks over runs that differ in their seed only. The same command again, or one
    with more values, runs only what is missing or failed.
    """
    sys.exit(0 if sweeper.carry_out(sweeper.plan(notebook, grid, out), jobs) else 1)


@main.command("report")
@click.option("--check", is_flag=True, help="Write nothing; fail if something is out of date.")
def write_report(check):
    """Write figures/statements.md and the README's lists from the records of the committed notebooks."""
    lines = report.update(check)
    click.echo("\n".join(lines) or f"figures/statements.md and README.md: {'up to date' if check else 'written'}")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main(prog_name="python -m topiclib")
