"""Notebooks through papermill: checked before they start, moved into place when done."""

import json
import logging
import os
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click
import nbformat
import papermill

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


def plan(notebooks: list[Path], given: tuple[tuple[str, str], ...], out: Path | None) -> list[Job]:
    """Check every value for every notebook; decide where results go. ClickException before anything has started."""
    root, names = parameters.ROOT, [name for name, _ in given]
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
        names = notebooks[0].stem if len(notebooks) == 1 else "these notebooks"
        parameters.check_values(everything, {name: None for name in given if name not in everything}, names)
        for path, found in known.items():
            values = {name: parse_value(text, found[name].type) for name, text in given.items() if name in found}
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


def run_one(job: Job) -> tuple[str, list[str]]:
    """Run in a staging folder on the destination's file system, then move; (ok | failed | interrupted, notes)."""
    with tempfile.TemporaryDirectory(prefix=".staging-", dir=job.failed.parent) as staging:
        notebook, figures = Path(staging) / job.source.name, Path(staging) / "figures"
        figures.mkdir()
        try:
            _execute(job, notebook, figures)
            claims = _claims(figures / f"claims_{job.source.stem[:2]}.json")
            wrong = [f"does not hold: {claim['paper']}: {claim['says']}" for claim in claims if not claim["holds"]]
            status, notes = ("failed", wrong) if wrong and job.default else ("ok", [_summary(job, claims)])
        except KeyboardInterrupt:
            status, notes = "interrupted", []
        except Exception as error:  # a failing cell, a dead kernel, a full disk: the next notebook is still run
            status, notes = "failed", [_last_line(error)]
        if notebook.is_file():
            try:
                _tidy(notebook)
            except Exception as error:  # half a file, as a full disk leaves it
                return "failed", [*notes, f"the notebook could not be written: {_last_line(error)}"]
            os.replace(notebook, job.notebook if status == "ok" else job.failed)
            notes += [] if status == "ok" else [f"kept: {_relative(job.failed)}"]
        if status != "ok":
            return status, notes
        for file in sorted(figures.iterdir()):
            os.replace(file, job.figures / file.name)
        job.failed.unlink(missing_ok=True)
        return status, notes


def _execute(job: Job, notebook: Path, figures: Path) -> None:
    logging.getLogger("papermill").setLevel(logging.ERROR)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it would report the kernel's end after Ctrl-C
    before = os.environ.get("TOPICLIB_FIGURES", "")  # empty means unset
    os.environ["TOPICLIB_FIGURES"] = str(figures)
    os.environ.pop("MPLBACKEND", None)  # a backend set outside would leave the notebook without its figures
    try:
        papermill.execute_notebook(
            job.source,
            notebook,
            job.injected,
            kernel_name="python3",
            cwd=parameters.ROOT / "notebooks",
            progress_bar=sys.stderr.isatty(),
            # The kernel would log that TCP is not encrypted, and its end after Ctrl-C; a cell's errors are outputs.
            extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
        )
    finally:
        os.environ["TOPICLIB_FIGURES"] = before


def _claims(record: Path) -> list[dict]:
    return json.loads(record.read_text(encoding="utf-8"))["claims"] if record.is_file() else []


def _summary(job: Job, claims: list[dict]) -> str:
    held = f"{sum(claim['holds'] for claim in claims)} of {len(claims)} claims hold" if claims else "no claims"
    return held if job.notebook == job.source else f"{held}  in {_relative(job.figures)}"


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


def _last_line(error: Exception) -> str:
    # papermill's error carries the cell's; its text would be the whole traceback
    message = str(getattr(error, "evalue", error)).strip().splitlines()
    cell = f" in cell [{error.exec_count}]" if hasattr(error, "exec_count") else ""
    return f"{getattr(error, 'ename', type(error).__name__)}{cell}: {message[-1] if message else ''}"


def _relative(path: Path) -> str:
    return str(path.relative_to(parameters.ROOT) if path.is_relative_to(parameters.ROOT) else path)
