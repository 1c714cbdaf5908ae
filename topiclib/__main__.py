"""`python -m topiclib`: the command line."""

import sys
import time
from contextlib import suppress
from pathlib import Path

import click

from . import parameters, runner


@click.group()
def main():
    """The notebooks of topiclib, run from the command line."""


@main.command()
@click.argument("notebooks", nargs=-1, metavar="[NOTEBOOK]...")
@click.option("-p", "given", nargs=2, multiple=True, metavar="NAME VALUE", help="A parameter; may be repeated.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the notebooks and their figures.")
def run(notebooks, given, out):
    """Run notebooks (by number or name; all without one) and check their claims.

    With default parameters and no --out the results replace those in notebooks/ and figures/; with other values
    they go to runs/. A notebook that fails changes nothing: what it did is kept as NAME.failed.ipynb.
    """
    jobs = runner.plan(runner.select_notebooks(notebooks), given, out)
    for folder in dict.fromkeys(path for job in jobs for path in (job.notebook.parent, job.figures, job.failed.parent)):
        runner.check_writable(folder)
    started, results = time.monotonic(), {}
    width = max(len(job.source.stem) for job in jobs)
    for job in jobs:
        name, began = job.source.stem, time.monotonic()
        results[name], notes = runner.run_one(job)
        click.echo(f"{name:<{width}}  {results[name]}  {time.monotonic() - began:.0f} s  " + "\n    ".join(notes))
        if results[name] == "interrupted":
            break
    with suppress(OSError):  # only if it is empty
        (parameters.ROOT / "runs").rmdir()
    bad = [f"{name} {status}" for name, status in results.items() if status != "ok"]
    total = f"{len(results) - len(bad)} of {len(jobs)} notebooks ok in {time.monotonic() - started:.0f} s"
    click.echo("; ".join([total, *bad]))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main(prog_name="python -m topiclib")
