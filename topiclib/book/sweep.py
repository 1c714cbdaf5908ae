"""`python -m topiclib sweep`: a grid of one notebook's parameters, one run for each point, on Dask workers.

No disk is shared: a worker has its own copy of the project, and a run's files travel back as bytes. `sweep.csv` has one
row for each run, told apart by the values of all parameters; all its rows are of one version of the code.
"""

import asyncio
import csv
import hashlib
import io
import itertools
import json
import logging
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
import warnings
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path

import click

from . import parameters

HOLDS = " [holds]"  # a claim's verdict is in the column of this name, its measurement in the one without
COMMANDS = ("__main__", "report", "runner", "scoreboard", "sweep")  # modules that no notebook imports
LIMIT = 10_000  # runs of a sweep: more is a slip of the pen
SHOWN = 60  # rows and columns of the figure
PATIENCE = 10  # seconds for a scheduler to answer
QUIET = 5  # seconds to wait for a worker without saying so
START = """import runpy, sys
runpy.run_path("topiclib/processes.py")["die_with_parent"]()  # before the seconds that imports take
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)"""


@click.command()
@click.argument("words", nargs=-1, metavar="NOTEBOOK NAME=VALUES...")
@click.option("--scheduler", metavar="ADDRESS", help="A running Dask scheduler; without it, workers on this machine.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for all results [runs/sweep_NOTEBOOK].")
@click.option("--workers", type=click.IntRange(min=1), help="Workers on this machine [2, or 1 on one core].")
def sweep(words, scheduler, out, workers):
    """Run a notebook at every point of a grid of its parameters, e.g. sweep 03 optimizer=sgd,adam seed=0:4

    VALUES are separated by commas, or by semicolons if a value contains a comma ("models=a,b;c", or "models=a,b;" for
    one value). A:B is the range of whole numbers from A to B, both included, for int parameters only. A point given
    twice is run once.

    The folder gets sweep.csv (a row for each run: parameters, seconds, error, every claim's measurement and verdict),
    summary.csv with sweep.png and sweep.pdf (every claim over the runs that differ in the parameter seed only: mean,
    standard deviation, share of runs in which it holds), and a folder for each run with its notebook and figures.
    Rows are written as runs finish. The same command again, or one with more values, runs only what is missing or
    failed. After a change of the notebook or of topiclib everything is run again, and the old table is kept as
    sweep_VERSION.csv.

    Workers of a scheduler need the same commit of this project installed, but no disk shared with this machine.
    """
    notebook, found, grid, out = plan(words, out)
    if scheduler and workers:
        raise click.ClickException("--workers is for workers on this machine: a scheduler has its own")
    current = version(notebook)
    rows = _finished(out / "sweep.csv", found, current)
    defaults = {name: parameter.type(parameter.default) for name, parameter in found.items()}
    points = [defaults | dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    todo = [point for point in points if rows.get(tuple(point.values()), {"error": "new"})["error"]]
    done, failed, interrupted, began = len(points) - len(todo), 0, False, time.monotonic()
    click.echo(f"{len(points)} runs of {notebook.stem}, {done} of them finished already; results in {out}")
    try:
        with closing(_results(notebook.name, current, found, todo, scheduler, workers)) as results:
            for point, files, seconds, error in results:
                claims = _keep(out, notebook.stem, _changed(point, found), files)
                row = {**point, "seconds": f"{seconds:.1f}", "error": error[:1000], "version": current, **claims}
                rows[tuple(point.values())] = {column: str(value) for column, value in row.items()}
                _write(out / "sweep.csv", [rows[key] for key in sorted(rows)])
                done, failed = done + 1, failed + bool(error)
                verdicts = [value for column, value in claims.items() if column.endswith(HOLDS)]
                held = f"failed: {error}" if error else f"{sum(verdicts)} of {len(verdicts)} claims hold"
                where = ", ".join(f"{name}={point[name]}" for name in grid)
                click.echo(f"{done} of {len(points)}  {where}  {seconds:.0f} s  {held}")
    except KeyboardInterrupt:
        interrupted = True
    except OSError as error:  # a full disk
        raise click.ClickException(f"after {done} of {len(points)} runs: {error}") from None
    summarise(out, notebook.stem, found, [rows[key] for key in sorted(rows)])
    end = f"; {failed} failed" if failed else ""
    end += "; interrupted, the same command goes on from here" if interrupted else ""
    click.echo(f"{done} of {len(points)} runs done in {time.monotonic() - began:.0f} s{end}")
    sys.exit(1 if failed or interrupted else 0)


def plan(words: tuple[str, ...], out: Path | None = None) -> tuple[Path, dict, dict[str, list], Path]:
    """(notebook, its parameters, the values of each name in the grid, folder for results), all checked.

    ClickException with one line for whatever is wrong, before anything has started.
    """
    from . import run as runner  # here: it imports papermill, which the workers do not need

    if len(words) < 2:
        raise click.ClickException("a notebook and a grid are wanted, e.g. sweep 03 optimizer=sgd,adam seed=0:4")
    (notebook,) = runner.select_notebooks(words[:1])
    grid = {}
    try:
        found = parameters.read_parameters(notebook)
        found.pop("figures_dir", None)
        for word in words[1:]:
            name, sign, text = word.partition("=")
            if not sign:
                raise ValueError(f"{word} is not of the form NAME=V1,V2 or NAME=A:B")
            if name == "figures_dir":
                raise ValueError("figures_dir is set by the runner: choose the folder with --out")
            if name in grid:
                raise ValueError(f"{name} is given more than once: list its values in one, {name}=V1,V2")
            parameters.check_values(found, {} if name in found else {name: None}, notebook.stem)
            grid[name] = _values(found[name], text)
        if (runs := math.prod(map(len, grid.values()))) > LIMIT:
            raise ValueError(f"the grid has {runs} points: at most {LIMIT} runs are allowed")
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    out = (out or parameters.ROOT / "runs" / f"sweep_{notebook.stem}").expanduser().resolve()
    if out in (parameters.ROOT / "notebooks", parameters.ROOT / "figures"):
        raise click.ClickException(f"--out {out} holds the committed run: choose another folder")
    runner.check_writable(out)
    return notebook, found, grid, out


def _values(parameter: parameters.Parameter, text: str) -> list:
    texts = []
    for part in map(str.strip, text.removesuffix(";").split(";") if ";" in text else text.split(",")):
        ends = re.fullmatch(r"(-?\d+):(-?\d+)", part)
        if not part:
            raise ValueError(f"{parameter.name}={text} has an empty value")
        if parameter.type is float and ":" in part:
            raise ValueError(f"{parameter.name}={text}: a range is for int parameters: list the values")
        if parameter.type is int and ends:
            first, last = map(int, ends.groups())
            if not 0 <= last - first < LIMIT:
                raise ValueError(f"{parameter.name}={text}: A:B wants B at least A, and at most {LIMIT} values")
            texts += map(str, range(first, last + 1))
        else:
            texts.append(part)
    return list(dict.fromkeys(_value(parameter, part) for part in texts))


def _value(parameter: parameters.Parameter, text: str):
    from . import run as runner

    value = runner.parse_value(text, parameter.type)
    parameters.check_values({parameter.name: parameter}, {parameter.name: value})
    return parameter.type(value)  # 1 and 1.0 are one value


def _changed(point: dict, found: dict) -> dict:
    return {name: value for name, value in point.items() if value != found[name].default}


def version(notebook: Path) -> str:
    """A hash of the code that decides a run's numbers: the notebook's code cells and the modules it imports."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    package = parameters.ROOT / "topiclib"
    modules = sorted([*package.glob("*.py"), *package.glob("[!.]*/*.py")])
    code += [path.read_text(encoding="utf-8") for path in modules if path.stem not in COMMANDS]
    return hashlib.sha256("\0".join(code).encode()).hexdigest()[:12]


def _results(notebook: str, current: str, found: dict, todo: list[dict], scheduler: str | None, workers: int | None):
    """(point, files, seconds, error) of every run, as they finish; the rest is cancelled if the caller stops."""
    if not todo:
        return
    from distributed import KilledWorker, as_completed

    for name in ("distributed", "distributed.client", "tornado.application", "asyncio"):  # what matters is said here
        logging.getLogger(name).setLevel(logging.CRITICAL)
    here = _workers(min(workers or min(2, os.cpu_count()), len(todo)))
    with nullcontext(scheduler) if scheduler else here as address, _client(address) as client:
        try:
            client.wait_for_workers(1, timeout=QUIET)
        except TimeoutError:
            click.echo(f"waiting for a worker at {address}")
            client.wait_for_workers(1)
        for worker, error in client.run(_check_copy, notebook, current, on_error="return").items():
            if error is not None:
                raise click.ClickException(f"worker {worker}: {error}")
        given = [[("-p", name, str(value)) for name, value in _changed(point, found).items()] for point in todo]
        futures = client.map(_run_point, given, notebook=notebook, current=current, pure=False)
        waiting = dict(zip(futures, todo, strict=True))
        del futures  # a worker keeps a run's files until nobody holds its future
        try:
            for future in as_completed(list(waiting)):
                point, status = waiting.pop(future), future.status
                if status == "finished":
                    yield point, *future.result()
                elif status == "error" and isinstance(error := future.exception(), KilledWorker):
                    yield point, {}, 0.0, f"its worker died {error.allowed_failures + 1} times"
                elif status == "error":
                    yield point, {}, 0.0, f"{type(error).__name__}: {error}"
                else:
                    raise click.ClickException(f"lost the scheduler with {len(waiting) + 1} runs to go")
        finally:
            client.cancel(list(waiting), force=True)


@contextmanager
def _workers(number: int):
    """The address of a scheduler in this process that has workers on this machine."""
    from distributed import LocalCluster

    options = {"processes": True, "dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with LocalCluster(n_workers=0, **options) as cluster:
        command = [sys.executable, "-c", START, "distributed.cli.dask_worker", cluster.scheduler_address]
        command += ["--nworkers", str(number), "--nthreads", "1", "--no-dashboard"]
        quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        # A session of their own: Ctrl-C in a terminal is not for the workers.
        with _ended(subprocess.Popen(command, cwd=parameters.ROOT, start_new_session=True, **quiet)):
            yield cluster.scheduler_address


@contextmanager
def _ended(process: subprocess.Popen):
    """When the block is left, the process is asked to end, and made to if it does not."""
    try:
        yield
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()


@contextmanager
def _client(address: str):
    from distributed import Client, Security
    from distributed.comm import connect

    async def probe():  # Client itself waits for ever if something else is at that address, and says nothing
        async with asyncio.timeout(PATIENCE):
            await (await connect(address, **Security().get_connection_args("client"))).close()

    try:
        asyncio.run(probe())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            client = Client(address, timeout=PATIENCE)
    except Exception as error:  # whatever comes of talking to something else
        why = f" ({error})" if str(error) else ""
        what = f"no Dask scheduler answers at {address} within {PATIENCE} s{why}"
        raise click.ClickException(what.splitlines()[0]) from None
    with client:
        yield client


def _check_copy(notebook: str, current: str) -> None:
    """On a worker: ValueError unless its notebook and its topiclib are the same as where the sweep was started."""
    path = parameters.ROOT / "notebooks" / notebook
    if not path.is_file() or version(path) != current:
        copy = f"{platform.node()} has another version of {notebook} or of topiclib"
        raise ValueError(f"{copy}: install the same commit there")


def _run_point(given: list[tuple], notebook: str, current: str) -> tuple[dict[str, bytes], float, str]:
    """On a worker: one run in a process of its own; (its files by name, seconds, error or "")."""
    from distributed import get_worker

    _check_copy(notebook, current)
    worker, began, root = get_worker(), time.monotonic(), parameters.ROOT
    task = worker.state.tasks[worker.get_current_task()]
    # Dask empties a worker's directory, also after the worker was killed.
    with tempfile.TemporaryDirectory(dir=worker.local_directory, ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-c", START, "topiclib", "run", notebook, *itertools.chain(*given), "--out", folder]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "errors": "replace"}
        process = subprocess.Popen(command, cwd=root, env=os.environ | {"PYTHONPATH": str(root)}, **pipes)
        with _ended(process):
            while process.returncode is None:
                with suppress(subprocess.TimeoutExpired):
                    stdout, stderr = process.communicate(timeout=1)
                if task.state == "cancelled" or worker.status.name == "closing":  # nobody waits for it any more
                    raise RuntimeError("cancelled")  # Dask itself would let it run to its end
        files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}
    error = ""
    if process.returncode != 0 and not any(name.startswith("claims_") for name in files):
        said = re.findall(r"  failed  \d+ s  (.*)", stdout) or stderr.strip().splitlines()[-1:]
        error = said[0] if said else f"the run ended with exit code {process.returncode}"
    return files, time.monotonic() - began, error


def _keep(out: Path, stem: str, changed: dict, files: dict[str, bytes]) -> dict:
    """Write a run's files to its folder; the measurement and the verdict of each of its claims."""
    folder = out / (parameters.run_folder(stem, changed).name if changed else "defaults")
    (folder / f"{stem}.failed.ipynb").unlink(missing_ok=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        parameters.write_whole(folder / name, content)
    columns = {}
    for claim in json.loads(files.get(f"claims_{stem[:2]}.json", b'{"claims": []}'))["claims"]:
        name = f"{claim['paper']}: {claim['says']}"
        columns |= {name: "" if claim["measured"] is None else claim["measured"], name + HOLDS: claim["holds"]}
    return columns


def _finished(table: Path, found: dict, current: str) -> dict[tuple, dict]:
    """The rows of sweep.csv by the values of all parameters; a table of another version is set aside."""
    try:
        for other in {row["version"] for row in _read(table)} - {current}:
            os.replace(table, table.with_stem(f"sweep_{other}"))
            with suppress(FileNotFoundError):  # back to a version that was set aside before
                os.replace(table.with_stem(f"sweep_{current}"), table)
        rows = _read(table)
        keys = [tuple(_value(parameter, row[name]) for name, parameter in found.items()) for row in rows]
    except (KeyError, ValueError, AttributeError, csv.Error):
        raise click.ClickException(f"{table} is not the table of a sweep of this notebook: move it away") from None
    return dict(zip(keys, rows, strict=True))


def _read(table: Path) -> list[dict]:
    if not table.is_file():
        return []
    with table.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _write(table: Path, rows: list[dict]) -> None:
    """Write rows under all their columns, in one go; a value that a row does not have is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, dict.fromkeys(itertools.chain(*rows)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    parameters.write_whole(table, text.getvalue().encode())


def summarise(out: Path, stem: str, found: dict, rows: list[dict]) -> None:
    """Write summary.csv and the figure of it: every claim over the runs that differ in their seed only."""
    finished = [row for row in rows if not row["error"]]
    claims = [column[: -len(HOLDS)] for column in dict.fromkeys(itertools.chain(*finished)) if column.endswith(HOLDS)]
    default = {name: str(parameter.type(parameter.default)) for name, parameter in found.items()}
    shown = [name for name in found if name != "seed" and any(row[name] != default[name] for row in finished)]
    settings, table, held = {}, [], {claim: [] for claim in claims}
    for row in finished:
        settings.setdefault(tuple(row[name] for name in shown), []).append(row)
    for (values, members), claim in itertools.product(settings.items(), claims):
        verdicts = [row[claim + HOLDS] == "True" for row in members if row.get(claim + HOLDS)]
        measured = [float(row[claim]) for row in members if row.get(claim)]
        held[claim].append((sum(verdicts), len(verdicts)))
        if verdicts:
            mean = f"{statistics.fmean(measured):.6g}" if measured else ""
            sd = f"{statistics.stdev(measured):.3g}" if len(measured) > 1 else ""
            share = {"holds": f"{statistics.fmean(verdicts):.3g}", "runs": len(verdicts)}
            table.append(dict(zip(shown, values, strict=True)) | {"claim": claim, "mean": mean, "sd": sd, **share})
    if table:
        failed = f", {len(rows) - len(finished)} more failed" if len(rows) > len(finished) else ""
        _write(out / "summary.csv", table)
        _draw(out, f"{stem}: runs in which a claim holds ({len(finished)} runs{failed})", shown, list(settings), held)


def _draw(out: Path, title: str, names: list[str], settings: list[tuple], held: dict[str, list[tuple]]) -> None:
    """sweep.png, .pdf: claims as rows, settings as columns; the claims that hold in all runs are one row."""
    import seaborn as sns
    from matplotlib.figure import Figure

    from ..plots import DIVERGING, save_figure

    broken = [claim for claim, cells in held.items() if any(k < n for k, n in cells)]
    if max(len(broken), len(settings)) > SHOWN:
        title += f"\nonly the first {SHOWN} claims and settings; all are in summary.csv"
    others, settings = len(held) - len(broken), settings[:SHOWN]
    cells = [[(k / n, f"{k}/{n}") if n else (math.nan, "") for k, n in held[claim][:SHOWN]] for claim in broken[:SHOWN]]
    labels = [textwrap.fill(claim, 64, max_lines=2, placeholder=" …") for claim in broken[:SHOWN]]
    if others:
        cells.append([(1.0, "all")] * len(settings))
        labels.append(f"all {others} other claims" if broken else f"all {others} claims")
    headings = [[value if len(value) <= 18 else f"{value[:17]}…" for value in setting] for setting in settings]
    longest = max((len(value) for heading in headings for value in heading), default=0)
    size = 5 + len(settings) * max(0.5, 0.15 + 0.085 * longest), 0.8 + 0.18 * len(names) + 0.38 * len(cells)
    axis = (figure := Figure(figsize=size)).subplots()
    shares, texts = ([[cell[i] for cell in row] for row in cells] for i in (0, 1))
    style = {"linewidths": 1.5, "annot_kws": {"size": 9}, "cbar": False, "cmap": DIVERGING.reversed()}
    sns.heatmap(shares, annot=texts, fmt="", vmin=-0.2, vmax=1.2, ax=axis, **style)
    axis.set_yticks([i + 0.5 for i in range(len(cells))], labels, fontsize=8.5, rotation=0)
    axis.set_xticks([i + 0.5 for i in range(len(settings))], map("\n".join, headings), fontsize=9, rotation=0)
    axis.tick_params(length=0, labelbottom=False, labeltop=True)
    place = {"xycoords": "axes fraction", "textcoords": "offset points", "ha": "right", "va": "bottom"}
    axis.annotate("\n".join(names), (0, 1), (-6, 4), fontsize=9, fontweight="bold", **place)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    save_figure(figure, out, "sweep")
