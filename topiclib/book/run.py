"""Notebooks through papermill: checked before they start, each in a process of its own, moved into place when done."""

import itertools
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Process
from multiprocessing.connection import Connection, wait
from pathlib import Path

import click
import nbformat
import papermill

from . import parameters
from .parallel import die_with_parent, start
from .tidy import KERNELSPEC, tidy

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Job:
    """One notebook to run, with the values that are not its defaults; notebook, figures, failed: where results go.

    folder: for all of them; None is the committed run. strict: a statement that does not come out as expected is a
    failure. label: what the reader knows it by.
    """

    source: Path
    injected: dict
    folder: Path | None
    strict: bool
    label: str

    @property
    def notebook(self) -> Path:
        return self.folder / self.source.name if self.folder else self.source

    @property
    def figures(self) -> Path:
        return self.folder or parameters.ROOT / "figures"

    @property
    def failed(self) -> Path:
        return (self.folder or parameters.ROOT / "runs") / f"{self.source.stem}.failed.ipynb"


@dataclass
class Run:
    """A job under way, then done: status "ok", "failed" or "interrupted", notes that say more, seconds that it took."""

    job: Job
    process: Process
    began: float = field(default_factory=time.monotonic)
    at: str = "starts"
    status: str = ""
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0


def plan(wanted: tuple[str, ...], given: tuple[tuple[str, str], ...], out: Path | None) -> list[Job]:
    """The notebooks wanted (all that have every given parameter, if none is named), with values and places checked.

    ValueError with one line for whatever is wrong, before anything has started.
    """
    texts, out = dict(given), checked_out(out)
    for name, count in Counter(name for name, _ in given).items():
        if count > 1:
            raise ValueError(f"{name} is given more than once: one value is wanted")
    known = {path: own_parameters(path) for path in select_notebooks(wanted)}
    if not wanted:
        everything = {name: one for found in known.values() for name, one in found.items()}
        for name in set(texts) - set(everything):
            parse_value(everything, name, texts[name], "these notebooks")
        known = {path: found for path, found in known.items() if set(texts) <= set(found)}
        if not known:
            raise ValueError(f"no notebook has all of {', '.join(texts)}: name the notebooks that are to run")
    jobs = []
    for path, found in known.items():
        values = {name: one.default for name, one in found.items()}
        values |= {name: parse_value(found, name, text, path.stem) for name, text in texts.items()}
        injected = {name: value for name, value in values.items() if value != found[name].default}
        changed = parameters.changed_values(path.stem, found, values) or injected
        folder = out or (parameters.run_folder(path.stem, changed) if changed else None)
        jobs.append(Job(path, injected, folder, not changed, path.stem))
    for folder in {folder for job in jobs for folder in (job.notebook.parent, job.figures, job.failed.parent)}:
        check_writable(folder)
    return jobs


def select_notebooks(wanted: tuple[str, ...]) -> list[Path]:
    """The notebooks asked for by number or name, each once; all if none is. ValueError if there is no such notebook."""
    paths = sorted((parameters.ROOT / "notebooks").glob("*.ipynb"))
    if not paths:
        raise ValueError(f"there are no notebooks in {parameters.ROOT / 'notebooks'}")
    known = {path.stem: path for path in paths} | {path.stem[:2]: path for path in paths}
    chosen = []
    for word in wanted:
        name = Path(word).name.removesuffix(".ipynb").zfill(2)
        if name not in known:
            raise ValueError(f"no notebook {word}; there are: {', '.join(path.stem for path in paths)}")
        chosen.append(known[name])
    return list(dict.fromkeys(chosen)) or paths


def own_parameters(notebook: Path) -> dict[str, parameters.Parameter]:
    """The parameters of a notebook but figures_dir, which is the runner's."""
    return {name: one for name, one in parameters.read_parameters(notebook).items() if name != "figures_dir"}


def parse_value(found: dict[str, parameters.Parameter], name: str, text: str, notebook: str = "this notebook"):
    """The value that text spells for a parameter. ValueError if there is none of that name, or it is not allowed."""
    if name == "figures_dir":
        raise ValueError("figures_dir is set by the runner: choose the folder with --out")
    value = text
    if name in found and found[name].type is not str:
        if text.lower() in ("true", "false"):
            value = text.lower() == "true"
        for kind in (float, int):  # the last that can read it
            with suppress(ValueError):
                value = kind(text)
    parameters.check_values(found, {name: value}, notebook)
    return value


def checked_out(out: Path | None) -> Path | None:
    """The whole path of the folder for results; ValueError if it is a folder of the committed run."""
    out = out and out.expanduser().resolve()
    if out in (parameters.ROOT / "notebooks", parameters.ROOT / "figures"):
        raise ValueError(f"--out {out} holds the committed run: choose another folder")
    return out


def check_writable(folder: Path) -> None:
    """Create folder and write to it, so that a run of minutes cannot end in an error that was there before it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ValueError(f"cannot write to {folder}: {error.strerror}") from None


def run_jobs(jobs: Iterable[Job], parallel: int) -> Iterator[Run]:
    """Run jobs, `parallel` at a time, each in a process of its own; yield each run when it is done.

    Ctrl-C and SIGTERM end those under way as "interrupted", and no more is started. A terminal shows how far they are.
    """
    waiting, running = list(jobs), {}

    def stop(*_):
        waiting.clear()
        for run in running.values():
            if run.process.is_alive():
                os.kill(run.process.pid, signal.SIGINT)

    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        while running or waiting:
            while waiting and len(running) < parallel:
                signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until the child has handlers of its own
                job = waiting.pop(0)
                connection, process = start(_run_in_child, job)
                running[connection] = Run(job, process)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            _show(running.values())
            for connection in wait(running, timeout=1):
                run = running[connection]
                try:
                    message = connection.recv()
                except EOFError:
                    message = None
                if isinstance(message, str):
                    run.at = message
                    continue
                run.process.join()
                run.seconds = time.monotonic() - run.began
                del running[connection]
                if message:
                    run.status, run.notes = message
                else:
                    killed = f"its process was ended from outside (exit code {run.process.exitcode})"
                    run.status, run.notes = "failed", [killed]
                _show([])
                yield run
    finally:
        stop()  # the rest, if nobody asks for it
        for run in running.values():
            run.process.join()
        for number, handler in before.items():
            signal.signal(number, handler)


def _show(running: Iterable[Run]) -> None:
    """One line on the terminal, written over: which jobs run, code cell k of n, elapsed time."""
    if sys.stderr.isatty():
        line = "   ".join(f"{run.job.label} {run.at}, {time.monotonic() - run.began:.0f} s" for run in running)
        columns = shutil.get_terminal_size().columns - 1
        click.echo(f"\r\x1b[K{line[:columns]}", err=True, nl=False)


def _run_in_child(connection: Connection, job: Job) -> None:
    """Run in a staging folder on the destination's file system, then move; send (ok | failed | interrupted, notes).

    "cell 3 of 9" is sent as it proceeds.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()  # Ctrl-C in a terminal reaches the parent only, which passes it on once
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)  # a kernel that is stopped while it starts would print its traceback
    job.failed.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".staging-", dir=job.failed.parent) as staging:
        notebook, figures = Path(staging) / job.source.name, Path(staging) / "figures"
        better = False
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            die_with_parent(signal.SIGINT)
            figures.mkdir()
            _execute(job, notebook, figures, connection.send)
            statements = read_statements(figures, job.source)
            wrong = [f"{one['paper']}: {one['says']}" for one in statements if not one["as_expected"]]
            status, notes = "ok", [f"{len(statements) - len(wrong)} of {len(statements)} statements as expected"]
            if wrong and job.strict:
                status, notes = "failed", [f"not as expected: {one}" for one in wrong]
            better = status == "ok" or job.folder is not None  # nothing worse over the committed run
        except KeyboardInterrupt:
            status, notes = "interrupted", []
        except Exception as error:  # a failing cell, a dead kernel, a full disk: the next notebook is still run
            status, notes = "failed", _last_lines(error)
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # all that follows, or nothing
        try:
            notes += _put_into_place(job, notebook, figures, better)
        except Exception as error:  # half a notebook, as a full disk leaves it
            status, notes = "failed", [*notes, f"the notebook could not be written: {_last_lines(error)[0]}"]
    with suppress(BrokenPipeError):  # nobody there to be told
        connection.send((status, notes))


def read_statements(figures: Path, notebook: Path) -> list[dict]:
    """What a run recorded in statements_NN.json beside its figures; empty if it recorded nothing."""
    record = figures / f"statements_{notebook.stem[:2]}.json"
    return json.loads(record.read_text(encoding="utf-8"))["statements"] if record.is_file() else []


def _execute(job: Job, notebook: Path, figures: Path, tell: Callable[[str], None]) -> None:
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
        on_cell_execute=lambda cell, cell_index: tell(f"cell {next(count)} of {cells}"),
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


def _put_into_place(job: Job, notebook: Path, figures: Path, better: bool) -> list[str]:
    if not notebook.is_file():
        return []
    tidy(notebook, before=job.source if job.folder is None else None)
    if not better:
        os.replace(notebook, job.failed)
        return [f"kept: {_known_as(job.failed)}"]
    for file in sorted(figures.iterdir()):
        os.replace(file, job.figures / file.name)
    os.replace(notebook, job.notebook)
    job.failed.unlink(missing_ok=True)
    return [f"in {_known_as(job.folder)}"] if job.folder else []


def _known_as(path: Path) -> Path:
    """path as a reader knows it: from the project's folder, if it is in it."""
    return path.relative_to(parameters.ROOT) if path.is_relative_to(parameters.ROOT) else path


def _last_lines(error: Exception) -> list[str]:
    # papermill's error carries the cell's; its text would be the whole traceback
    message = str(getattr(error, "evalue", error)).strip().splitlines()
    cell = f" in cell [{error.exec_count}]" if hasattr(error, "exec_count") else ""
    first = f"{getattr(error, 'ename', type(error).__name__)}{cell}: {message[-1] if message else ''}"
    traceback = click.unstyle("\n".join(getattr(error, "traceback", []))).splitlines()
    return [first, *[line for line in traceback if line.strip()][-5:-1]]  # the last line is the message again
