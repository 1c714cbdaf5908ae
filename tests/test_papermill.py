"""Notebooks run through papermill from any folder; a wrong parameter is one clear line, there and in the runner.

Each papermill run is a process of its own; two at a time, as there are two cores.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import papermill
import pytest
from click.testing import CliRunner

from topiclib.__main__ import main
from topiclib.book import parameters

NOTEBOOKS = parameters.ROOT / "notebooks"
WRONG = {
    ("optimizer", "sdg"): "optimizer = 'sdg' is not allowed: a str (both | sgd | adam",
    ("n_topics", "2.5"): "n_topics = 2.5 is not allowed: an int (at least ",
    ("unknown", "1"): "unknown is not a parameter of 03_stage1_value_matrix: choose one of ",
    ("learning_rate", "-1"): "learning_rate = -1 is not allowed: a finite float (at least 0",
}


@pytest.fixture(scope="module")
def papermill_runs(tmp_path_factory):
    """What the papermill command line did: {what: (process, folder of its output and figures)}."""
    elsewhere = tmp_path_factory.mktemp("unrelated")

    def start(what):
        folder = tmp_path_factory.mktemp("run")
        if what in WRONG:
            cwd, notebook, options = parameters.ROOT, NOTEBOOKS / "03_stage1_value_matrix.ipynb", list(what)
        else:
            cwd = {"root": parameters.ROOT, "notebooks": NOTEBOOKS, "unrelated": elsewhere}[what]
            notebook, options = NOTEBOOKS / "01_data.ipynb", ["n_documents", "300"]
        arguments = [os.path.relpath(notebook, cwd), folder / "out.ipynb", "-p", *options, "-p", "figures_dir", folder]
        command = [sys.executable, "-m", "papermill", "--no-progress-bar", *map(str, arguments)]
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300), folder

    cases = ["root", "notebooks", "unrelated", *WRONG]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(cases, pool.map(start, cases), strict=True))


@pytest.mark.parametrize("where", ["root", "notebooks", "unrelated"])
def test_papermill_works_from_any_folder(papermill_runs, where):
    process, folder = papermill_runs[where]
    assert process.returncode == 0, f"expected exit code 0 from {where}, got:\n{process.stderr[-3000:]}"
    assert (folder / "out.ipynb").is_file()
    assert (folder / "statements_01.json").is_file(), "expected the figures in figures_dir, got none there"


@pytest.mark.parametrize("name, value", WRONG)
def test_papermill_reports_a_wrong_parameter(papermill_runs, name, value):
    process, folder = papermill_runs[name, value]
    assert process.returncode != 0, "expected a non-zero exit code: papermill itself only warns"
    said = [line for line in process.stderr.splitlines() if line.startswith(f"ValueError: {WRONG[name, value]}")]
    assert said, f"expected a line with {WRONG[name, value]!r}, got:\n{process.stderr[-3000:]}"
    assert [path.name for path in folder.iterdir()] == ["out.ipynb"], "expected no work before the check"


@pytest.mark.parametrize("name, value", WRONG)
def test_the_runner_reports_a_wrong_parameter_before_it_starts(monkeypatch, name, value):
    monkeypatch.setattr(papermill, "execute_notebook", lambda *_, **__: pytest.fail("a kernel was started"))
    result = CliRunner().invoke(main, ["run", "03", "-p", name, value])
    assert result.exit_code != 0 and result.stdout == ""
    assert result.stderr.startswith(f"Error: {WRONG[name, value]}") and result.stderr.count("\n") == 1, result.stderr


def test_the_runner_is_a_command(tmp_path):
    command = [sys.executable, "-m", "topiclib", "run", "03", "-p", "optimizer", "sdg"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert process.returncode != 0 and process.stdout == ""
    assert process.stderr.startswith("Error: optimizer = 'sdg' is not allowed") and process.stderr.count("\n") == 1
