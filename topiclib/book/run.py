"""Notebooks through papermill: checked before they start, each in a process of its own, moved into place when done."""

import ast
import base64
import json
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import click
import nbformat
import papermill
from nbconvert.preprocessors import CoalesceStreamsPreprocessor

from . import parameters
from .parallel import SIGNALS, each_done
from .pictures import VISIBLE, difference

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


class Job(NamedTuple):
    """One notebook to run, with the values that are not its defaults.

    folder: where the notebook and its figures go; None is the committed run. strict: a statement that does not come out
    as expected is a failure. label: what the reader knows it by.
    """

    source: Path
    injected: dict
    folder: Path | None
    strict: bool
    label: str

    @property
    def figures(self) -> Path:
        """Where its figures, tables and record go."""
        return self.folder or parameters.ROOT / "figures"

    @property
    def failed(self) -> Path:
        """Where the notebook is kept if it fails."""
        return (self.folder or parameters.ROOT / "runs") / f"{self.source.stem}.failed.ipynb"


class Outcome(NamedTuple):
    """What came of a job: status "ok" or "failed", notes that say more, seconds that it took."""

    status: str
    notes: list[str]
    seconds: float


def plan(wanted: tuple[str, ...], given: tuple[tuple[str, str], ...], out: Path | None) -> list[Job]:
    """The notebooks wanted (all if none is named) with the values given, all checked, and places to write to.

    ValueError with one line for whatever is wrong, before anything has started.
    """
    if len(dict(given)) < len(given):
        raise ValueError(f"a parameter is given more than once: {', '.join(name for name, _ in given)}")
    jobs, out = [], out and check_folder(out)
    for path in select_notebooks(wanted):
        found = own_parameters(path)
        values = {name: one.default for name, one in found.items()}
        values |= {name: parse_value(found, name, text, path.stem) for name, text in given}
        injected = {name: value for name, value in values.items() if value != found[name].default}
        changed = parameters.changed_values(path.stem, found, values) or injected
        folder = out or (parameters.run_folder(path.stem, changed) if changed else None)
        jobs.append(Job(path, injected, folder, not changed, path.stem))
    for job in jobs:
        check_writable(job.folder or job.source.parent)
        check_writable(job.figures)
    return jobs


def select_notebooks(wanted: tuple[str, ...]) -> list[Path]:
    """The notebooks asked for by number or name, each once; all if none is. ValueError if there is no such notebook."""
    paths = sorted((parameters.ROOT / "notebooks").glob("*.ipynb"))
    if not paths:
        raise ValueError(f"there are no notebooks in {parameters.ROOT / 'notebooks'}")
    known = {path.stem: path for path in paths} | {path.stem[:2]: path for path in paths}
    names = [Path(word).name.removesuffix(".ipynb").zfill(2) for word in wanted]
    for name, word in zip(names, wanted, strict=True):
        if name not in known:
            raise ValueError(f"no notebook {word}; there are: {', '.join(path.stem for path in paths)}")
    return list(dict.fromkeys(known[name] for name in names)) or paths


def own_parameters(notebook: Path) -> dict[str, parameters.Parameter]:
    """The parameters of a notebook but figures_dir, which is the runner's."""
    return {name: one for name, one in parameters.read_parameters(notebook).items() if name != "figures_dir"}


def parse_value(found: dict[str, parameters.Parameter], name: str, text: str, notebook: str):
    """The value that text spells for a parameter. ValueError if there is none of that name, or it is not allowed."""
    if name == "figures_dir":
        raise ValueError("figures_dir is set by the runner: choose the folder with --out")
    value = text
    if name in found and found[name].type is not str:
        with suppress(ValueError, SyntaxError):
            value = ast.literal_eval(text.title() if text in ("true", "false") else text)
    parameters.check_values(found, {name: value}, notebook)
    return value


def check_folder(folder: Path) -> Path:
    """The whole path of a folder for results; ValueError if it is a committed one, or cannot be written to."""
    folder = folder.expanduser().resolve()
    if folder in (parameters.ROOT / "notebooks", parameters.ROOT / "figures"):
        raise ValueError(f"--out {folder} holds the committed run: choose another folder")
    check_writable(folder)
    return folder


def check_writable(folder: Path) -> None:
    """Create folder and write to it, so that a run of minutes cannot end in an error that was there before it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ValueError(f"cannot write to {folder}: {error.strerror}") from None


def run_jobs(jobs: list[Job], number: int) -> Iterator[tuple[Job, Outcome]]:
    """Run jobs, `number` at a time, each in a process of its own; yield each with its outcome when it is done."""
    began = time.monotonic()
    for index, outcome, error in each_done(run_one, [(job,) for job in jobs], number):
        yield jobs[index], outcome or Outcome("failed", [str(error)], time.monotonic() - began)


def run_one(job: Job) -> Outcome:
    """Run in a staging folder on the destination's file system, then move; for a process of its own, which it changes.

    What fails or is interrupted is kept as NAME.failed.ipynb, and nothing else is touched.
    """
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)  # a kernel that is stopped while it starts would print its traceback
    began = time.monotonic()
    job.failed.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".staging-", dir=job.failed.parent) as staging:
        notebook, figures = Path(staging) / job.source.name, Path(staging) / "figures"
        status, notes = "failed", []
        try:
            figures.mkdir()
            _execute(job, notebook, figures)
            statements = parameters.read_record(figures, job.source.stem).get("statements", [])
            wrong = [f"not as expected: {one['paper']}: {one['says']}" for one in statements if not one["as_expected"]]
            notes = wrong
            if not (wrong and job.strict):
                status, notes = "ok", [f"{len(statements) - len(wrong)} of {len(statements)} statements as expected"]
        except KeyboardInterrupt:
            notes = ["interrupted"]
        except Exception as error:  # a failing cell, a dead kernel, a full disk: the next notebook is still run
            notes = _last_lines(error)
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # all that follows, or nothing
        try:
            notes += _put_into_place(job, notebook, figures, status)
        except Exception as error:  # half a notebook, as a full disk leaves it
            status, notes = "failed", [*notes, f"the notebook could not be written: {_last_lines(error)[0]}"]
    return Outcome(status, notes, time.monotonic() - began)


def _execute(job: Job, notebook: Path, figures: Path) -> None:
    logging.getLogger("papermill").setLevel(logging.ERROR)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it would report the kernel's end after Ctrl-C
    os.environ["TOPICLIB_FIGURES"] = str(figures)
    os.environ.pop("MPLBACKEND", None)  # a backend set outside would leave the notebook without its figures
    # Another Python may be registered as python3, or none: the notebooks want this one.
    spec = figures.parent / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.write_text(json.dumps(KERNELSPEC | {"argv": command}))
    os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, [str(figures.parent), os.environ.get("JUPYTER_PATH")]))
    options = {"kernel_name": "python3", "cwd": job.source.parent, "progress_bar": False}
    # The kernel would log that TCP is not encrypted, and its end after Ctrl-C; a cell's errors are outputs.
    options["extra_arguments"] = ["--IPKernelApp.log_level=CRITICAL"]
    papermill.execute_notebook(job.source, notebook, job.injected, **options)


def _put_into_place(job: Job, notebook: Path, figures: Path, status: str) -> list[str]:
    if not notebook.is_file():
        return []
    tidy(notebook, job.source)
    if status != "ok":
        os.replace(notebook, job.failed)
        said, shown = "kept: ", job.failed
    else:
        for file in sorted(figures.iterdir()):
            os.replace(file, job.figures / file.name)
        os.replace(notebook, (job.folder or job.source.parent) / job.source.name)
        job.failed.unlink(missing_ok=True)
        said, shown = "in ", job.folder
    root = parameters.ROOT
    return [f"{said}{shown.relative_to(root) if shown.is_relative_to(root) else shown}"] if shown else []


def tidy(notebook: Path, committed: Path) -> None:
    """Leave in a notebook what it says; nothing that differs from run to run, no picture that only looks the same.

    committed: the notebook whose pictures are kept where the new ones look like them.
    """
    content = nbformat.read(notebook, as_version=4)
    content.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC, "language_info": {"name": "python"}})
    old = {cell.id: cell.get("outputs", []) for cell in nbformat.read(committed, as_version=4).cells}
    for cell in content.cells:
        kept = {name: cell.metadata[name] for name in ("tags", "jupyter") if cell.metadata.get(name)}
        cell.metadata = nbformat.from_dict(kept)
        if "injected-parameters" in kept.get("tags", []):
            cell.id = "injected-parameters"  # papermill draws a random one
        if cell.cell_type == "code":
            CoalesceStreamsPreprocessor().preprocess_cell(cell, {}, 0)  # where the kernel cuts them is chance
            for output in cell.outputs:  # a widget that no kernel stands behind is an error message in JupyterLab
                output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
            for new, before in zip(cell.outputs, old.get(cell.id, []), strict=False):
                pictures = [output.get("data", {}).get("image/png") for output in (new, before)]
                if all(pictures) and difference(*map(base64.b64decode, pictures)) < VISIBLE:
                    new.data["image/png"] = pictures[1]
    nbformat.write(content, notebook)


def _last_lines(error: Exception) -> list[str]:
    # papermill's error carries the cell's; its text would be the whole traceback
    message = str(getattr(error, "evalue", error)).strip().splitlines()
    cell = f" in cell [{error.exec_count}]" if hasattr(error, "exec_count") else ""
    first = f"{getattr(error, 'ename', type(error).__name__)}{cell}: {message[-1] if message else ''}"
    traceback = click.unstyle("\n".join(getattr(error, "traceback", []))).splitlines()
    return [first, *[line for line in traceback if line.strip()][-5:-1]]  # the last line is the message again
