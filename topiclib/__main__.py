"""`python -m topiclib`: the command line."""

import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path

import click

from .book import parameters, report, sweep
from .book import run as runner


@click.group()
def main():
    """The notebooks of topiclib, run from the command line."""


@main.command()
@click.argument("notebooks", nargs=-1, metavar="[NOTEBOOK]...")
@click.option("-p", "given", nargs=2, multiple=True, metavar="NAME VALUE", help="A parameter; may be repeated.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the notebooks and their figures.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Notebooks run side by side.")
def run(notebooks, given, out, jobs):
    """Run notebooks (by number or name; all without one) and check their claims.

    With default parameters and no --out the results replace those in notebooks/ and figures/; with other values
    they go to runs/. -p without a notebook runs those that have the parameter. A notebook that fails changes nothing:
    what it did is kept as NAME.failed.ipynb.
    """
    planned = runner.plan(notebooks, given, out)
    for folder in dict.fromkeys(folder for job in planned for folder in job.folders):
        runner.check_writable(folder)
    started, done, bad, width = time.monotonic(), 0, [], max(len(job.source.stem) for job in planned)
    for job, outcome in runner.run_jobs(planned, jobs, _show):
        _show([])
        name = job.source.stem
        click.echo(f"{name:<{width}}  {outcome.status}  {outcome.seconds:.0f} s  " + "\n    ".join(outcome.notes))
        bad += [] if outcome.status == "ok" else [f"{name} {outcome.status}"]
        done += 1
    with suppress(OSError):  # only if it is empty
        (parameters.ROOT / "runs").rmdir()
    total = f"{done - len(bad)} of {len(planned)} notebooks ok in {time.monotonic() - started:.0f} s"
    click.echo("; ".join([total, *bad]))
    sys.exit(1 if bad or done < len(planned) else 0)


main.add_command(sweep.sweep)


@main.command("report")
@click.option("--check", is_flag=True, help="Write nothing; fail if something is out of date.")
def write_report(check):
    """Write figures/claims.md and the README's results from the committed notebooks and their claims."""
    lines = report.check() if check else report.write()
    click.echo("\n".join(lines) or f"figures/claims.md and README.md: {'up to date' if check else 'written'}")
    sys.exit(1 if lines else 0)


def _show(running: list[runner.Running]) -> None:
    """One line on the terminal, written over: which notebooks run, code cell k of n, elapsed time."""
    if sys.stderr.isatty():
        now, states = time.monotonic(), []
        for one in running:
            where = f"cell {one.cell} of {one.cells}" if one.cell else "starts"
            states.append(f"{one.job.source.stem} {where}, {now - one.began:.0f} s")
        columns = shutil.get_terminal_size().columns - 1
        click.echo(f"\r\x1b[K{'   '.join(states)[:columns]}", err=True, nl=False)


if __name__ == "__main__":
    main(prog_name="python -m topiclib")
