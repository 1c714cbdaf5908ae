"""Notebooks through papermill: checked before they start, moved into place when done."""

import itertools
import json
import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import click
import nbformat
import papermill

from ..processes import die_with_parent
from . import parameters

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


@dataclass(frozen=True)
class Job:
    """One notebook to run: what to inject, and where the notebook, its figures and a failed copy go."""

    source: Path
    injected: dict
    default: bool  # the values are the committed run's: every claim must hold
    notebook: Path
    figures: Path
    failed: Path

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that it writes to."""
        return self.notebook.parent, self.figures, self.failed.parent

    def relative(self, path: Path) -> str:
        """path as a reader knows it: from the project's folder, if it is in it."""
        root = self.source.parents[1]
        return str(path.relative_to(root) if path.is_relative_to(root) else path)


@dataclass
class Running:
    """A job under way: its process, when it began (time.monotonic), the code cell it is at, of how many."""

    job: Job
    process: multiprocessing.Process
    began: float
    cell: int = 0
    cells: int = 0


class Outcome(NamedTuple):
    """What came of a job: status "ok", "failed" or "interrupted", lines that say more, seconds."""

    status: str
    notes: list[str]
    seconds: float


def select_notebooks(wanted: tuple[str, ...]) -> list[Path]:
    """The notebooks asked for by number or name, each once."""
    paths = sorted((parameters.ROOT / "notebooks").glob("*.ipynb"))
    known = {path.stem: path for path in paths} | {path.stem[:2]: path for path in paths}
    chosen = []
    for word in wanted:
        name = Path(word).name.removesuffix(".ipynb").zfill(2)
        if name not in known:
            raise click.ClickException(f"no notebook {word}; there are: {', '.join(path.stem for path in paths)}")
        chosen.append(known[name])
    chosen = list(dict.fromkeys(chosen)) if wanted else paths
    if not chosen:
        raise click.ClickException(f"there are no notebooks in {parameters.ROOT / 'notebooks'}")
    return chosen


def plan(wanted: tuple[str, ...], given: tuple[tuple[str, str], ...], out: Path | None) -> list[Job]:
    """The notebooks wanted (all that have every given parameter, if none is named), with values and places checked.

    ClickException with one line for whatever is wrong, before anything has started.
    """
    notebooks, root, names = select_notebooks(wanted), parameters.ROOT, [name for name, _ in given]
    for name in sorted({name for name in names if names.count(name) > 1}):
        raise click.ClickException(f"{name} is given more than once: one value is wanted")
    given = dict(given)
    if out is not None:
        out = out.expanduser().resolve()
        if out in (root / "notebooks", root / "figures"):
            raise click.ClickException(f"--out {out} holds the committed run: choose another folder")
    if "figures_dir" in given:
        raise click.ClickException("figures_dir is set by the runner: choose the folder with --out")
    jobs = []
    try:
        known = {path: parameters.read_parameters(path) for path in notebooks}
        everything = {name: parameter for found in known.values() for name, parameter in found.items()}
        everything.pop("figures_dir", None)
        these = notebooks[0].stem if len(notebooks) == 1 else "these notebooks"
        parameters.check_values(everything, {name: None for name in given if name not in everything}, these)
        if not wanted:
            known = {path: found for path, found in known.items() if set(given) <= set(found)}
            if not known:
                raise ValueError(f"no notebook has all of {', '.join(given)}: name the notebooks that are to run")
        for path, found in known.items():
            kinds = {name: found[name].type if name in found else str for name in given}
            values = {name: parse_value(text, kinds[name]) for name, text in given.items()}
            parameters.check_values(found, values, path.stem)
            injected = {name: value for name, value in values.items() if value != found[name].default}
            values = {name: parameter.default for name, parameter in found.items()} | injected
            changed = parameters.changed_values(path.stem, found, values) or injected
            if out is not None or changed:
                folder = out or parameters.run_folder(path.stem, changed)
                places = folder / path.name, folder, folder / f"{path.stem}.failed.ipynb"
            else:
                places = path, root / "figures", root / "runs" / f"{path.stem}.failed.ipynb"
            jobs.append(Job(path, injected, not changed, *places))
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    return jobs


def parse_value(text: str, kind: type):
    """The value that text spells, of the wanted type if it can be; check_values judges the rest."""
    if kind is str:
        return text
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float):
        with suppress(ValueError):
            return number(text)
    return text


def check_writable(folder: Path) -> None:
    """Create folder and write to it, so that a run of minutes cannot end in an error that was there before it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise click.ClickException(f"cannot write to {folder}: {error.strerror}") from None


def run_jobs(jobs: list[Job], parallel: int, watch: Callable[[list[Running]], None]) -> Iterator[tuple[Job, Outcome]]:
    """Run jobs, `parallel` at a time, each in a process of its own; yield each with its outcome when it is done.

    watch is called with the running ones, at least once a second. Ctrl-C and SIGTERM end them as "interrupted" and no
    more is started.
    """
    # Forked processes have imported all they need; on macOS they would not survive it.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    waiting, running = list(jobs), {}

    def stop(*_):
        waiting.clear()
        for one in running.values():
            one.process.is_alive() and os.kill(one.process.pid, signal.SIGINT)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        while running or waiting:
            while waiting and len(running) < parallel:
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_run_in_child, args=(waiting[0], theirs))
                running[ours] = Running(waiting.pop(0), process, time.monotonic())
                signal.pthread_sigmask(signal.SIG_BLOCK, before)  # until the child has handlers of its own
                process.start()
                signal.pthread_sigmask(signal.SIG_UNBLOCK, before)
                theirs.close()
            watch(list(running.values()))
            for connection in multiprocessing.connection.wait(running, timeout=1):
                one = running[connection]
                try:
                    message = connection.recv()
                except EOFError:
                    one.process.join()
                    stopped = "interrupted", []
                    killed = "failed", [f"its process was ended from outside (exit code {one.process.exitcode})"]
                    message = killed if one.process.exitcode else stopped
                if isinstance(message[0], int):
                    one.cell, one.cells = message
                    continue
                one.process.join()
                del running[connection]
                yield one.job, Outcome(*message, time.monotonic() - one.began)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run_in_child(job: Job, connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()  # Ctrl-C in a terminal reaches the parent only, which passes it on once
    die_with_parent(signal.SIGINT)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)  # a kernel that is stopped while it starts would print its traceback
    with suppress(BrokenPipeError, KeyboardInterrupt):  # nobody there to be told; stopped before it began
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
        connection.send(run_one(job, lambda cell, cells: connection.send((cell, cells))))


def run_one(job: Job, watch: Callable[[int, int], None] = lambda cell, cells: None) -> tuple[str, list[str]]:
    """Run in a staging folder on the destination's file system, then move; (ok | failed | interrupted, notes).

    watch is called with k and n when code cell k of n starts. The environment of this process is changed.
    """
    with tempfile.TemporaryDirectory(prefix=".staging-", dir=job.failed.parent) as staging:
        notebook, figures = Path(staging) / job.source.name, Path(staging) / "figures"
        figures.mkdir()
        move = False
        try:
            _execute(job, notebook, figures, watch)
            claims = _claims(figures / f"claims_{job.source.stem[:2]}.json")
            wrong = [f"does not hold: {claim['paper']}: {claim['says']}" for claim in claims if not claim["holds"]]
            status, notes = ("failed", wrong) if wrong and job.default else ("ok", [_summary(claims)])
            move = status == "ok" or job.notebook != job.source  # never worse over better in the committed run
        except KeyboardInterrupt:
            status, notes = "interrupted", []
        except Exception as error:  # a failing cell, a dead kernel, a full disk: the next notebook is still run
            status, notes = "failed", _last_lines(error)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # all that follows, or nothing
        try:
            return status, notes + _put_into_place(job, notebook, figures, move)
        except Exception as error:  # half a notebook, as a full disk leaves it
            return "failed", [*notes, f"the notebook could not be written: {_last_lines(error)[0]}"]
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def _put_into_place(job: Job, notebook: Path, figures: Path, move: bool) -> list[str]:
    if not notebook.is_file():
        return []
    _tidy(notebook)
    if not move:
        os.replace(notebook, job.failed)
        return [f"kept: {job.relative(job.failed)}"]
    for file in sorted(figures.iterdir()):
        os.replace(file, job.figures / file.name)
    os.replace(notebook, job.notebook)
    job.failed.unlink(missing_ok=True)
    return [] if job.notebook == job.source else [f"in {job.relative(job.figures)}"]


def _execute(job: Job, notebook: Path, figures: Path, watch: Callable[[int, int], None]) -> None:
    logging.getLogger("papermill").setLevel(logging.ERROR)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it would report the kernel's end after Ctrl-C
    os.environ["TOPICLIB_FIGURES"] = str(figures)
    os.environ.pop("MPLBACKEND", None)  # a backend set outside would leave the notebook without its figures
    _offer_own_kernel(figures.parent / "kernel")
    cells = sum(cell.cell_type == "code" for cell in nbformat.read(job.source, as_version=4).cells) + bool(job.injected)
    count = itertools.count(1)
    papermill.execute_notebook(
        job.source,
        notebook,
        job.injected,
        kernel_name="python3",
        cwd=job.source.parent,
        progress_bar=False,
        on_cell_execute=lambda cell, cell_index: watch(next(count), cells),
        # The kernel would log that TCP is not encrypted, and its end after Ctrl-C; a cell's errors are outputs.
        extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
    )


def _offer_own_kernel(folder: Path) -> None:
    # Another Python may be registered as python3, or none: the notebooks want this one.
    spec = folder / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": command, "display_name": KERNELSPEC["display_name"], "language": "python"}))
    os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, [str(folder), os.environ.get("JUPYTER_PATH")]))


def _claims(record: Path) -> list[dict]:
    return json.loads(record.read_text(encoding="utf-8"))["claims"] if record.is_file() else []


def _summary(claims: list[dict]) -> str:
    return f"{sum(claim['holds'] for claim in claims)} of {len(claims)} claims hold" if claims else "no claims"


def _tidy(notebook: Path) -> None:
    """Leave what the notebook says, and nothing that differs from one run to the next."""
    content = nbformat.read(notebook, as_version=4)
    content.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC, "language_info": {"name": "python"}})
    for cell in content.cells:
        for noise in ("papermill", "execution", "widgets"):
            cell.metadata.pop(noise, None)
        if not cell.metadata.get("tags", True):
            del cell.metadata["tags"]
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell.id = "injected-parameters"  # papermill draws a random one
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)
            for output in cell.outputs:  # a widget that no kernel stands behind is an error message in JupyterLab
                output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
    nbformat.write(content, notebook)


def _joined(outputs: list) -> list:
    """The outputs with neighbouring pieces of one stream joined: where the kernel cuts them is a matter of timing."""
    joined = []
    for output in outputs:
        if joined and output.output_type == joined[-1].output_type == "stream" and output.name == joined[-1].name:
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def _last_lines(error: Exception) -> list[str]:
    # papermill's error carries the cell's; its text would be the whole traceback
    message = str(getattr(error, "evalue", error)).strip().splitlines()
    cell = f" in cell [{error.exec_count}]" if hasattr(error, "exec_count") else ""
    first = f"{getattr(error, 'ename', type(error).__name__)}{cell}: {message[-1] if message else ''}"
    traceback = click.unstyle("\n".join(getattr(error, "traceback", []))).splitlines()
    return [first, *[line for line in traceback if line.strip()][-5:-1]]  # the last line is the message again
