"""`python -m topiclib run`: checked before it starts, moved into place when it is done, nothing touched when it fails.

The notebooks here are tiny ones in a project of their own, with a copy of the modules that the runner needs.
"""

import json
import os
import re
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

from topiclib.__main__ import main
from topiclib.book import parameters, runner
from topiclib.book.run import _joined, plan

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
    for module in ("parameters", "claims", "processes", "runner", "sweep", "scoreboard", "report", "__main__"):
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
    assert lines[1].startswith("02_raises       failed  ")
    assert lines[1].endswith("RuntimeError in cell [4]: the last line")
    assert lines[4] == "    ----> 2 raise RuntimeError('first line\\nthe last line')", "the end of the traceback"
    assert lines[6] == "    kept: runs/02_raises.failed.ipynb"
    assert lines[7].startswith("03_false_claim  failed  ") and lines[7].endswith("does not hold: Theorem 3: n is three")
    assert lines[8] == "    kept: runs/03_false_claim.failed.ipynb"
    assert lines[9].startswith("1 of 3 notebooks ok in ")
    assert lines[9].endswith("; 02_raises failed; 03_false_claim failed")
    assert len(lines) == 10 and result.stderr == ""


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
    lines = result.stdout.splitlines()
    assert lines[0].endswith("0 of 1 claims hold") and lines[1] == "    in runs/01_good/n=3,scale=2"
    after = contents(project)
    assert {name: after[name] for name in before} == before, "the committed run was overwritten"
    folder = "runs/01_good/n=3,scale=2"
    added = ["01_good.ipynb", "claims_01.json", "claims_01.md", "fig01.txt"]
    assert sorted(set(after) - set(before)) == [f"{folder}/{name}" for name in added]
    notebook = nbformat.reads(after[f"{folder}/01_good.ipynb"].decode(), as_version=4)
    injected = notebook.cells[3]
    assert (injected.id, injected.source) == ("injected-parameters", "# Parameters\nn = 3\nscale = 2\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_stopping_it_touches_nothing_and_keeps_the_partial_notebook(project, tmp_path, number):
    """Ctrl-C, kill, and even kill -9: the notebook runs in a process that Linux tells when its parent is gone."""
    if number == signal.SIGKILL and sys.platform != "linux":
        pytest.skip("only Linux tells a process that its parent is gone")
    before = contents(project)
    out, started = tmp_path / "out", project / "started"
    started.unlink(missing_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "topiclib", "run", "04", "01", "--out", str(out)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(project)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: started.is_file() and started.read_text(), "the notebook did not start")
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=120)
    kept = out / "04_slow.failed.ipynb"
    if number == signal.SIGKILL:
        wait_until(lambda: [path.name for path in out.iterdir()] == [kept.name], "staging was not cleaned up")
    else:
        assert process.returncode == 1, stdout + stderr
        lines = stdout.splitlines()
        assert lines[0].startswith("04_slow  interrupted  ") and lines[0].endswith("04_slow.failed.ipynb")
        assert lines[1].startswith("0 of 2 notebooks ok in ") and lines[1].endswith("; 04_slow interrupted")
        assert len(lines) == 2 and stderr == ""
        assert [path.name for path in out.iterdir()] == [kept.name], "staging was not cleaned up"
    assert b"pathlib.Path('../started')" in kept.read_bytes()
    assert contents(project) == before
    wait_until(lambda: not alive(int(started.read_text())), "the kernel outlived the run")


def wait_until(condition, message):
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.1)
    pytest.fail(message)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_two_at_a_time_and_two_runs_at_once(project):
    """--jobs 2 gives what one after the other gives, also while another run writes the same files."""
    run("01")
    before = contents(project)
    arguments = [sys.executable, "-m", "topiclib", "run", "1", "3", "--jobs", "2"]
    environment = os.environ | {"PYTHONPATH": str(project)}
    both = [
        subprocess.Popen(arguments, cwd=project, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for process in both:
        lines = process.communicate(timeout=300)[0].splitlines()
        assert sorted(line.split()[1] for line in lines if line[:2] in ("01", "03")) == ["failed", "ok"], lines
        assert lines[-1].startswith("1 of 2 notebooks ok in "), lines
    after = contents(project)
    assert after.pop("runs/03_false_claim.failed.ipynb")
    before.pop("runs/03_false_claim.failed.ipynb", None)
    assert after == before


def test_another_kernel_named_python3_is_not_used(project, tmp_path, monkeypatch):
    spec = tmp_path / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text(json.dumps({"argv": ["/bin/false"], "display_name": "Python 3", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    result = run("01")
    assert result.exit_code == 0, result.output


def test_out_leaves_the_checkout_alone(project, tmp_path, monkeypatch):
    """Not even a temporary file is written: a read-only checkout will do."""
    monkeypatch.chdir(tmp_path)
    folders = [project, *(path for path in project.rglob("*") if path.is_dir() and path.name != "__pycache__")]
    before = {folder: folder.stat().st_mtime_ns for folder in folders if "topiclib" not in folder.parts}
    result = run("01", "--out", "elsewhere")
    assert result.exit_code == 0, result.output
    names = ["01_good.ipynb", "claims_01.json", "claims_01.md", "fig01.txt"]
    assert sorted(path.name for path in Path("elsewhere").iterdir()) == names
    assert {folder: folder.stat().st_mtime_ns for folder in before} == before
    assert result.stdout.splitlines()[1] == f"    in {tmp_path / 'elsewhere'}"


@pytest.mark.skipif(shutil.which("script") is None, reason="no terminal to be had: script(1) is missing")
def test_on_a_terminal_it_shows_how_far_it_is(project):
    arguments = f"{sys.executable} -m topiclib run 01"
    command = ["script", "-q", "-e", "-c", arguments, os.devnull]
    if sys.platform != "linux":
        command = ["script", "-q", os.devnull, *arguments.split()]
    environment = os.environ | {"PYTHONPATH": str(project), "COLUMNS": "80"}
    shown = subprocess.run(command, cwd=project, env=environment, capture_output=True, timeout=120).stdout.decode()
    assert re.search(r"01_good starts, \d+ s\r\x1b\[K", shown), shown
    assert re.search(r"01_good cell 5 of 5, \d+ s\r\x1b\[K", shown), shown
    assert shown.replace("\r\x1b[K", "\n").splitlines()[-1].startswith("1 of 1 notebooks ok in ")


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
        (["1", "4", "-p", "only_here", "1"], "only_here is not a parameter of 04_slow: choose one of n, scale, word"),
        (["1", "--jobs", "0"], "Invalid value for '--jobs': 0 is not in the range x>=1"),
        (["1", "-p", "figures_dir", "x"], "figures_dir is set by the runner: choose the folder with --out"),
        (["1", "--out", "/dev/null/x"], "cannot write to /dev/null/x: Not a directory"),
        (["1", "--out", "notebooks"], "holds the committed run: choose another folder"),
    ],
)
def test_mistakes_are_one_line_before_anything_starts(project, monkeypatch, arguments, said):
    monkeypatch.chdir(project)
    monkeypatch.setattr(runner, "run_jobs", lambda *_: pytest.fail("a notebook was started"))
    before = contents(project)
    result = run(*arguments)
    assert result.exit_code != 0 and result.stdout == ""
    error = result.stderr.splitlines()[-1]  # click explains the usage first if an option is wrong
    assert error.startswith("Error: ") and said in error
    assert "\n" not in result.stderr.strip() or result.stderr.startswith("Usage: ")
    assert contents(project) == before


def test_values_reach_the_notebooks_that_have_them_in_the_annotated_type(project):
    def injected(*arguments):
        *words, given = arguments
        return {job.source.stem: job.injected for job in plan(tuple(words), tuple(given.items()), None)}

    for word, value in [("true", True), ("True", True), ("false", False)]:
        seen = injected("1", {"switch": word, "scale": "3", "n": "2"})
        wanted = {"switch": value, "scale": 3} if value else {"scale": 3}
        assert seen == {"01_good": wanted}, "defaults are not injected"
    assert injected({"only_here": "5"}) == {"01_good": {"only_here": 5}}, "the others do not have it"
    assert set(injected({"n": "5"})) == set(BODIES)


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
    status, notes = runner.run_one(*plan(("01",), (), None))
    assert status == "failed" and notes[0] == "OSError: [Errno 28] No space left on device"
    assert notes[1].startswith("the notebook could not be written: ") and len(notes) == 2
    assert contents(project) == before
