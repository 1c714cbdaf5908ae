"""`python -m topiclib run`: checked before it starts, moved into place when it is done, nothing touched when it fails.

The notebooks here are tiny ones in a project of their own, with a copy of the modules that the runner needs.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import papermill
import pytest
from click.testing import CliRunner
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from topiclib import parameters
from topiclib.__main__ import main
from topiclib.runner import _joined

PARAMETERS = """
n: int = 2  # a number (at least 1)
scale: float = 1.0  # a factor (above 0)
word: str = "a"  # a letter (a | b)
switch: bool = False  # a switch
figures_dir: str = ""  # folder for figures and tables
"""
CLAIM = """
tl.check(tl.Claim("Theorem 1", "n is two", 2, n * scale, tolerance=0.1))
(figures / "fig01.txt").write_text(f"n = {n}")
"""
BODIES = {
    "01_good": CLAIM,
    "02_raises": "(figures / 'fig02.txt').write_text('new')\nraise RuntimeError('first line\\nthe last line')",
    "03_false_claim": CLAIM + "tl.check(tl.Claim('Theorem 3', 'n is three', 3, n, tolerance=0.1))",
    "04_slow": "import os, pathlib, time\npathlib.Path('../started').write_text(str(os.getpid()))\ntime.sleep(60)",
}


def build(root: Path) -> None:
    package = Path(parameters.__file__).parent
    (root / "topiclib").mkdir(parents=True)
    for module in ("parameters", "claims", "runner", "__main__"):
        shutil.copy(package / f"{module}.py", root / "topiclib")
    imports = "from .claims import Claim, check, write_table\nfrom .parameters import check_parameters\n"
    (root / "topiclib" / "__init__.py").write_text(imports)
    (root / "notebooks").mkdir()
    (root / "figures").mkdir()
    for name, body in BODIES.items():
        extra = "only_here: int = 0  # a number\n" if name == "01_good" else ""
        cells = [
            new_markdown_cell(f"# {name}", id="title"),
            new_code_cell("import topiclib as tl", id="imports"),
            new_code_cell((PARAMETERS + extra).strip(), id="parameters", metadata={"tags": ["parameters"]}),
            new_code_cell(f'figures = tl.check_parameters("{name}", globals())', id="check"),
            new_code_cell(body.strip(), id="body"),
            new_code_cell("tl.write_table(figures)", id="table"),
        ]
        kernelspec = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
        nbformat.write(
            new_notebook(cells=cells, metadata={"kernelspec": kernelspec}), root / "notebooks" / f"{name}.ipynb"
        )


def contents(root: Path) -> dict:
    """Every file that a reader sees, with its bytes."""
    files = [path for folder in ("notebooks", "figures", "runs") for path in (root / folder).rglob("*")]
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(files) if path.is_file()}


@pytest.fixture(scope="module")
def environment():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def project(tmp_path_factory, environment):
    root = tmp_path_factory.mktemp("project")
    build(root)
    environment.setattr(parameters, "ROOT", root)
    environment.setenv("PYTHONPATH", str(root))  # the kernels import the copy, whose ROOT is this folder
    return root


def run(*arguments):
    return CliRunner().invoke(main, ["run", *map(str, arguments)])


@pytest.fixture(scope="module")
def first(project):
    """All but the slow notebook, at default values: (result, files before, files after)."""
    before = contents(project)
    result = run("1", "02_raises", "notebooks/03_false_claim.ipynb", "01")
    return result, before, contents(project)


def test_summary_says_what_happened(first):
    result, _, _ = first
    assert result.exit_code == 1, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("01_good         ok  ") and lines[0].endswith("  1 of 1 claims hold")
    assert lines[1].startswith("02_raises       failed  ") and lines[1].endswith(
        "RuntimeError in cell [4]: the last line"
    )
    assert lines[2] == "    kept: runs/02_raises.failed.ipynb"
    assert lines[3].startswith("03_false_claim  failed  ") and lines[3].endswith("does not hold: Theorem 3: n is three")
    assert lines[4] == "    kept: runs/03_false_claim.failed.ipynb"
    assert lines[5].startswith("1 of 3 notebooks ok in ") and lines[5].endswith(
        "; 02_raises failed; 03_false_claim failed"
    )
    assert len(lines) == 6 and result.stderr == ""


def test_success_moves_the_notebook_and_its_figures(first, project):
    _, _, after = first
    assert after["figures/fig01.txt"] == b"n = 2"
    assert json.loads(after["figures/claims_01.json"])["claims"][0]["holds"] is True
    notebook = nbformat.reads(after["notebooks/01_good.ipynb"].decode(), as_version=4)
    assert [cell.execution_count for cell in notebook.cells[1:]] == [1, 2, 3, 4, 5]
    assert notebook.metadata == {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    assert [dict(cell.metadata) for cell in notebook.cells] == [{}, {}, {"tags": ["parameters"]}, {}, {}, {}]


def test_failure_touches_nothing_and_keeps_the_partial_notebook(first, project):
    _, before, after = first
    added = {"figures/claims_01.json", "figures/claims_01.md", "figures/fig01.txt"}
    added |= {"runs/02_raises.failed.ipynb", "runs/03_false_claim.failed.ipynb"}
    assert set(after) - set(before) == added, "a failed notebook left figures, or staging was not cleaned up"
    assert {name for name in before if after[name] != before[name]} == {"notebooks/01_good.ipynb"}
    assert b"the last line" in after["runs/02_raises.failed.ipynb"]
    assert b"1 of 2 claims hold" in after["runs/03_false_claim.failed.ipynb"]


def test_second_run_writes_the_same_bytes(first, project):
    _, _, after = first
    result = run("1", "-p", "n", "2")  # the default, given explicitly, is still the default run
    assert result.exit_code == 0, result.output
    assert contents(project) == after


def test_other_values_go_to_runs_and_their_claims_are_only_reported(first, project):
    before = contents(project)
    result = run("01", "-p", "n", "3", "-p", "scale", "2")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0].endswith("0 of 1 claims hold  in runs/01_good/n=3,scale=2")
    after = contents(project)
    assert {name: after[name] for name in before} == before, "the committed run was overwritten"
    folder = "runs/01_good/n=3,scale=2"
    added = ["01_good.ipynb", "claims_01.json", "claims_01.md", "fig01.txt"]
    assert sorted(set(after) - set(before)) == [f"{folder}/{name}" for name in added]
    notebook = nbformat.reads(after[f"{folder}/01_good.ipynb"].decode(), as_version=4)
    injected = notebook.cells[3]
    assert (injected.id, injected.source) == ("injected-parameters", "# Parameters\nn = 3\nscale = 2\n")


def test_ctrl_c_touches_nothing_and_keeps_the_partial_notebook(project, tmp_path):
    before = contents(project)
    out = tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-m", "topiclib", "run", "04", "01", "--out", str(out)],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(project)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    started = project / "started"
    for _ in range(600):
        if started.is_file() and started.read_text():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 1, stdout + stderr
    lines = stdout.splitlines()
    assert lines[0].startswith("04_slow  interrupted  ") and lines[0].endswith("04_slow.failed.ipynb")
    assert lines[1].startswith("0 of 2 notebooks ok in ") and lines[1].endswith("; 04_slow interrupted")
    assert len(lines) == 2 and stderr == ""
    assert contents(project) == before
    assert [path.name for path in out.iterdir()] == ["04_slow.failed.ipynb"], "staging was not cleaned up"
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)  # the kernel is gone as well


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["7"], "no notebook 7; there are: 01_good, 02_raises, 03_false_claim, 04_slow"),
        (["1", "-p", "n", "0"], "n = 0: must be at least 1"),
        (["1", "-p", "n", "2.0"], "n = 2.0 is a float: an int is wanted, at least 1"),
        (["1", "-p", "scale", "-1"], "scale = -1: must be above 0"),
        (["1", "-p", "scale", "nan"], "scale = nan: must be a finite number, above 0"),
        (["1", "-p", "word", "c"], "word = 'c' is not allowed: choose one of a, b"),
        (["1", "-p", "switch", "yes"], "switch = 'yes' is a str: a bool is wanted"),
        (
            ["1", "-p", "scala", "1"],
            "scala is not a parameter of 01_good: choose one of n, scale, word, switch, only_here",
        ),
        (["-p", "only_her", "1"], "only_her is not a parameter of these notebooks: choose one of n, scale, word"),
        (["1", "4", "-p", "n", "0"], "n = 0: must be at least 1"),
        (["1", "-p", "figures_dir", "x"], "figures_dir is set by the runner: choose the folder with --out"),
        (["1", "--out", "/dev/null/x"], "cannot write to /dev/null/x: Not a directory"),
        (["1", "--out", "notebooks"], "holds the committed run: choose another folder"),
    ],
)
def test_mistakes_are_one_line_before_anything_starts(project, monkeypatch, arguments, said):
    monkeypatch.chdir(project)
    monkeypatch.setattr(papermill, "execute_notebook", lambda *_, **__: pytest.fail("a notebook was started"))
    before = contents(project)
    result = run(*arguments)
    assert result.exit_code != 0 and result.stdout == ""
    assert result.stderr.startswith("Error: ") and said in result.stderr and result.stderr.count("\n") == 1
    assert contents(project) == before


def test_values_reach_the_notebooks_that_have_them_in_the_annotated_type(project, monkeypatch):
    seen = []
    monkeypatch.setattr(papermill, "execute_notebook", lambda *positional, **_: seen.append(positional))
    for word, value in [("true", True), ("True", True), ("false", False)]:
        run("1", "-p", "switch", word, "-p", "scale", "3", "-p", "n", "2")
        assert seen.pop()[2] == ({"switch": value, "scale": 3} if value else {"scale": 3}), "defaults are not injected"
    run("1", "4", "-p", "only_here", "5")
    assert [injected for _, _, injected in seen] == [{"only_here": 5}, {}]


def test_pieces_of_one_stream_are_joined():
    """The kernel cuts a cell's printing into outputs at random moments; that must not show in a diff."""
    pieces = [
        nbformat.v4.new_output("stream", name="stdout", text="a"),
        nbformat.v4.new_output("stream", name="stdout", text="b\n"),
        nbformat.v4.new_output("display_data", data={"text/plain": "figure"}),
        nbformat.v4.new_output("stream", name="stdout", text="c"),
        nbformat.v4.new_output("stream", name="stderr", text="d"),
    ]
    joined = _joined(pieces)
    assert [output.output_type for output in joined] == ["stream", "display_data", "stream", "stream"]
    assert [joined[0].text, joined[2].text, joined[3].text] == ["ab\n", "c", "d"]


def test_a_full_disk_is_one_failed_notebook(project, monkeypatch):
    def half_a_file(source, target, *_, **__):
        Path(target).write_text('{"cells": [')
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(papermill, "execute_notebook", half_a_file)
    before = contents(project)
    result = CliRunner().invoke(main, ["run", "01"])
    assert result.exit_code == 1 and result.exception.__class__ is SystemExit, result.output
    assert "01_good" in result.stdout and "No space left on device" in result.stdout
    assert contents(project) == before
