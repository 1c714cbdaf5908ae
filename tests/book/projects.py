"""A project of tiny notebooks, which do not import topiclib and write their records themselves."""

import csv
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
MARK = "TOPICLIB_TEST_PROJECT"
RECORD = """
import json, os, pathlib
figures = pathlib.Path(os.environ["TOPICLIB_FIGURES"])
statements = []
def state(paper, says, *checks):
    checks = [dict(kind=k, name=n, measured=m, expected="?", holds=h) for k, n, m, h in checks]
    statements.append(dict(paper=paper, says=says, as_expected=all(c["holds"] for c in checks), checks=checks))
"""
FINISH = """
record = {"parameters": {name: globals()[name] for name in NAMES}, "statements": statements}
(figures / "statements_NN.json").write_text(json.dumps(record))
"""


def build(root: Path, parameters: str, bodies: dict[str, str], last: str = "") -> None:
    """Make a project in root whose notebooks have these parameters and bodies; the first one, `last` as well."""
    for folder in ("notebooks", "figures", "topiclib/book"):
        (root / folder).mkdir(parents=True)
    for i, (name, body) in enumerate(bodies.items()):
        lines = parameters.strip().splitlines() + [last] * (i == 0 and last != "")
        names = [line.partition(":")[0] for line in lines if "figures_dir" not in line]
        finish = FINISH.replace("NAMES", str(names)).replace("NN", name[:2])
        cells = [
            new_markdown_cell(f"# {name}", id="title"),
            new_code_cell(RECORD.strip(), id="imports"),
            new_code_cell("\n".join(lines), id="parameters", metadata={"tags": ["parameters"]}),
            new_code_cell(body.strip(), id="body"),
            new_code_cell(finish.strip(), id="finish"),
        ]
        notebook = new_notebook(cells=cells, metadata={"kernelspec": KERNELSPEC})
        nbformat.write(notebook, root / "notebooks" / f"{name}.ipynb")


def start(root: Path, *words) -> subprocess.Popen:
    """The command line, for the project in root, as a process of its own, marked by an environment variable."""
    project = f"from pathlib import Path; from topiclib.book import parameters; parameters.ROOT = Path({str(root)!r})"
    code = f"{project}; from topiclib.__main__ import main; main(prog_name='topiclib')"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code, *map(str, words)], env=os.environ | {MARK: str(root)}, **pipes)


def contents(root: Path) -> dict[str, bytes]:
    """Every file that a reader sees, with its bytes."""
    files = [path for folder in ("notebooks", "figures", "runs") for path in (root / folder).rglob("*")]
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(files) if path.is_file()}


def rows(table: Path) -> list[dict]:
    """The rows of a CSV file."""
    with table.open(newline="") as file:
        return list(csv.DictReader(file))


def until(condition, seconds: float = 60):
    """What condition returns once it is true; a failure if that takes too long."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"waited {seconds} s for nothing"
        time.sleep(0.05)
    return found


def left_over(root: Path) -> list[str]:
    """The command lines of the processes that `start(root)` has begun and that are still there."""
    mark, found = f"{MARK}={root}\0".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile, or is somebody else's
            if mark in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text().replace("\0", " "))
    return found
