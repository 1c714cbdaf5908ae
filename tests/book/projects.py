"""A project of tiny notebooks, which do not import topiclib and write their records themselves."""

import csv
import multiprocessing
import os
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from topiclib.__main__ import main
from topiclib.book import parameters

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
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


def build(root: Path, cell: str, bodies: dict[str, str], last: str = "") -> None:
    """A project in root: notebooks with this parameters cell (the first one's ends with `last`) and these bodies."""
    for folder in ("notebooks", "figures", "topiclib/book"):
        (root / folder).mkdir(parents=True)
    for i, (name, body) in enumerate(bodies.items()):
        lines = cell.strip().splitlines() + [last] * (i == 0 and last != "")
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


class Command:
    """The command line in root, as a process of its own: forked, as importing torch takes seconds."""

    def __init__(self, root: Path, *words):
        self.output = Path(tempfile.mkdtemp(dir=root))
        self.process = multiprocessing.get_context("fork").Process(target=self._run, args=(root, *words))
        self.process.start()

    def _run(self, root, *words):
        os.chdir(root)
        sys.stdout, sys.stderr = (self.output / "stdout").open("w"), (self.output / "stderr").open("w")
        parameters.ROOT = root
        main([str(word) for word in words])

    def finish(self) -> tuple[int, str, str]:
        """Wait for its end: (exit code, stdout, stderr)."""
        self.process.join(60)
        return self.process.exitcode, *((self.output / name).read_text() for name in ("stdout", "stderr"))


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
    """The command lines of the processes that work in root or a folder of it."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile, or is somebody else's
            if Path(os.readlink(folder / "cwd")).is_relative_to(root):
                found.append((folder / "cmdline").read_text().replace("\0", " "))
    return found
