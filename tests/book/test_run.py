"""`python -m topiclib run`: checked before it starts, moved into place when it is done, nothing touched when it fails.

The notebooks here are tiny ones in a project of their own.
"""

import base64
import io
import json
import os
import re
import signal
import sys
from pathlib import Path

import nbformat
import papermill
import pytest
from click.testing import CliRunner
from nbformat.v4 import new_code_cell, new_notebook, new_output
from PIL import Image
from projects import KERNELSPEC, Command, build, contents, left_over, until

from topiclib.__main__ import main
from topiclib.book import parameters
from topiclib.book import run as runner

PARAMETERS = """
n: int = 2  # a number (at least 1)
scale: float = 1.0  # a factor (above 0)
word: str = "a"  # a letter (a | b)
switch: bool = False  # a switch
figures_dir: str = ""  # folder for figures and tables
"""
GOOD = """
state("Theorem 1", "n is two", ("check", "n", n * scale, abs(n * scale - 2) < 0.1))
(figures / "fig01.txt").write_text(f"n = {n}")
"""
BODIES = {
    "01_good": GOOD,
    "02_raises": "(figures / 'fig02.txt').write_text('new')\nraise RuntimeError('first line\\nthe last line')",
    "03_false": GOOD + "state('Theorem 3', 'n is three', ('check', 'n', n, n == 3))",
    "04_slow": "import time\npathlib.Path('../started').write_text(str(os.getpid()))\ntime.sleep(60)",
}
RESULTS = ["01_good.ipynb", "fig01.txt", "statements_01.json"]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    root = tmp_path_factory.mktemp("project")
    build(root, PARAMETERS, BODIES, last="only_here: int = 0  # a number")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parameters, "ROOT", root)
        yield root


def run(*arguments):
    return CliRunner().invoke(main, ["run", *map(str, arguments)])


@pytest.fixture(scope="module")
def first(project):
    """All but the slow notebook, at default values: (result, files before, files after)."""
    before = contents(project)
    result = run("1", "02_raises", "notebooks/03_false.ipynb", "01")
    return result, before, contents(project)


def test_summary_says_what_happened(first):
    result, _, _ = first
    assert result.exit_code == 1, result.output
    lines = re.sub(r"\d+ s\b", "t s", result.stdout).splitlines()
    assert lines[:2] == [
        "01_good    ok  t s  1 of 1 statements as expected",
        "02_raises  failed  t s  RuntimeError in cell [3]: the last line",
    ]
    assert lines[4] == "    ----> 2 raise RuntimeError('first line\\nthe last line')", "the end of the traceback"
    assert lines[6:] == [
        "    kept: runs/02_raises.failed.ipynb",
        "03_false   failed  t s  not as expected: Theorem 3: n is three",
        "    kept: runs/03_false.failed.ipynb",
        "1 of 3 notebooks ok in t s; 02_raises failed; 03_false failed",
    ]
    assert result.stderr == ""


def test_success_moves_the_notebook_and_its_figures(first):
    _, _, after = first
    assert after["figures/fig01.txt"] == b"n = 2"
    assert json.loads(after["figures/statements_01.json"])["statements"][0]["as_expected"] is True
    notebook = nbformat.reads(after["notebooks/01_good.ipynb"].decode(), as_version=4)
    assert [cell.execution_count for cell in notebook.cells[1:]] == [1, 2, 3, 4]
    assert notebook.metadata == {"kernelspec": KERNELSPEC, "language_info": {"name": "python"}}
    assert [dict(cell.metadata) for cell in notebook.cells] == [{}, {}, {"tags": ["parameters"]}, {}, {}]


def test_failure_touches_nothing_and_keeps_the_partial_notebook(first):
    _, before, after = first
    added = {"figures/statements_01.json", "figures/fig01.txt"}
    added |= {"runs/02_raises.failed.ipynb", "runs/03_false.failed.ipynb"}
    assert set(after) - set(before) == added, "a failed notebook left figures, or staging was not cleaned up"
    assert {name for name in before if after[name] != before[name]} == {"notebooks/01_good.ipynb"}
    assert b"the last line" in after["runs/02_raises.failed.ipynb"]


def test_second_run_writes_the_same_bytes(first, project):
    _, _, after = first
    result = run("1", "-p", "n", "2")  # the default, given explicitly, is still the default run
    assert result.exit_code == 0, result.output
    assert contents(project) == after


def test_other_values_go_to_runs_and_their_statements_are_only_reported(first, project):
    before = contents(project)
    result = run("01", "-p", "n", "3", "-p", "scale", "2")
    assert result.exit_code == 0, result.output
    folder = "runs/01_good/n=3,scale=2"
    lines = result.stdout.splitlines()
    assert lines[0].endswith("  0 of 1 statements as expected") and lines[1] == f"    in {folder}"
    after = contents(project)
    assert {name: after[name] for name in before} == before, "the committed run was overwritten"
    assert sorted(set(after) - set(before)) == [f"{folder}/{name}" for name in RESULTS]
    injected = nbformat.reads(after[f"{folder}/01_good.ipynb"].decode(), as_version=4).cells[3]
    assert (injected.id, injected.source) == ("injected-parameters", "# Parameters\nn = 3\nscale = 2\n")


def test_a_default_run_elsewhere_is_strict_and_shows_what_it_did(project, tmp_path):
    result = run("3", "--out", tmp_path)
    assert result.exit_code == 1 and "failed" in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["03_false.failed.ipynb"]


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found through /proc")
@pytest.mark.parametrize("what", ["INT", "KILL", "TERM early", "KILL early", "kernel"])
def test_stopping_it_touches_nothing_and_keeps_the_partial_notebook(project, tmp_path, what):
    """Ctrl-C, kill, and even kill -9, while a cell runs or before one does; kill -9 of the kernel."""
    before = contents(project)
    out, started = tmp_path / "out", project / "started"
    started.unlink(missing_ok=True)
    command = Command(project, "run", "04", "01", "--out", out)
    if "early" in what:
        until(lambda: list(out.glob(".staging-*")))
    else:
        until(lambda: started.is_file() and started.read_text())
    if what == "kernel":
        os.kill(int(started.read_text()), signal.SIGKILL)
    else:
        os.kill(command.process.pid, signal.Signals[f"SIG{what.split()[0]}"])
    code, stdout, stderr = command.finish()
    until(lambda: not left_over(project), seconds=10)
    kept = [path.name for path in out.iterdir()]
    assert contents(project) == before
    if what == "kernel":
        assert stdout.startswith("04_slow  failed  ") and "DeadKernelError" in stdout
        assert stdout.splitlines()[-1].startswith("1 of 2 notebooks ok in ")
        assert sorted(kept) == ["01_good.ipynb", "04_slow.failed.ipynb", "fig01.txt", "statements_01.json"]
        return
    assert kept == ["04_slow.failed.ipynb"] or (not kept and "early" in what), "staging was not cleaned up"
    if "KILL" not in what:
        lines = re.sub(r"\d+ s\b", "t s", stdout).splitlines()
        assert code == 1 and stderr == "", stdout + stderr
        assert lines == ["0 of 2 notebooks ok in t s; interrupted"]


def test_two_at_a_time_and_two_runs_at_once(project):
    """--jobs 2 gives what one after the other gives, also while another run writes the same files."""
    run("01")
    before = contents(project)
    for command in [Command(project, "run", "1", "3", "--jobs", "2") for _ in range(2)]:
        lines = command.finish()[1].splitlines()
        assert sorted(line.split()[1] for line in lines if line[:2] in ("01", "03")) == ["failed", "ok"], lines
        assert lines[-1].startswith("1 of 2 notebooks ok in "), lines
    after = contents(project)
    assert after.pop("runs/03_false.failed.ipynb")
    before.pop("runs/03_false.failed.ipynb", None)
    assert after == before


def test_another_kernel_named_python3_is_not_used_and_out_leaves_the_checkout_alone(project, tmp_path, monkeypatch):
    """Not even a temporary file is written there: a read-only checkout will do."""
    spec = tmp_path / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text(json.dumps({"argv": ["/bin/false"], "display_name": "Python 3", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    folders = [project, *(path for path in project.rglob("*") if path.is_dir())]
    before = {folder: folder.stat().st_mtime_ns for folder in folders}
    result = run("01", "--out", "elsewhere")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in Path("elsewhere").iterdir()) == RESULTS
    assert {folder: folder.stat().st_mtime_ns for folder in before} == before
    assert result.stdout.splitlines()[1] == f"    in {tmp_path / 'elsewhere'}"


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["7"], "no notebook 7; there are: 01_good, 02_raises, 03_false, 04_slow"),
        (["1", "-p", "n", "0"], "n = 0 is not allowed: an int (at least 1) is wanted"),
        (["1", "-p", "n", "2", "-p", "n", "3"], "a parameter is given more than once: n, n"),
        (["1", "-p", "n", "2.0"], "n = 2.0 is not allowed: an int (at least 1) is wanted"),
        (["1", "-p", "scale", "-1"], "scale = -1 is not allowed: a finite float (above 0) is wanted"),
        (["1", "-p", "scale", "nan"], "scale = 'nan' is not allowed: a finite float (above 0) is wanted"),
        (["1", "-p", "word", "c"], "word = 'c' is not allowed: a str (a | b) is wanted"),
        (["1", "-p", "switch", "yes"], "switch = 'yes' is not allowed: a bool is wanted"),
        (
            ["1", "-p", "scala", "1"],
            "scala is not a parameter of 01_good: choose one of n, scale, word, switch, only_here",
        ),
        (["-p", "only_here", "1"], "only_here is not a parameter of 02_raises: choose one of n, scale, word"),
        (["1", "4", "-p", "n", "0"], "n = 0 is not allowed: an int (at least 1) is wanted"),
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
        return {job.source.stem: job.injected for job in runner.plan(tuple(words), tuple(given.items()), None)}

    for word, value in [("true", True), ("True", True), ("false", False)]:
        seen = injected("1", {"switch": word, "scale": "3", "n": "2"})
        wanted = {"switch": value, "scale": 3} if value else {"scale": 3}
        assert seen == {"01_good": wanted}, "defaults are not injected"
    assert set(injected({"n": "5"})) == set(BODIES)


def test_a_full_disk_is_one_failed_notebook(project, monkeypatch):
    def half_a_file(source, target, *_, **__):
        Path(target).write_text('{"cells": [')
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(papermill, "execute_notebook", half_a_file)
    before = contents(project)
    ((_, one),) = runner.run_jobs(runner.plan(("01",), (), None), 1)
    assert one.status == "failed" and one.notes[0] == "OSError: [Errno 28] No space left on device"
    assert one.notes[1].startswith("the notebook could not be written: ") and len(one.notes) == 2
    assert contents(project) == before


def test_runs_that_nobody_waits_for_any_more_are_stopped(project, tmp_path):
    """A caller that fails, as on a full disk: its loop ends, and with it what is under way."""
    (project / "started").unlink(missing_ok=True)
    runs = runner.run_jobs(runner.plan(("02", "04"), (), tmp_path), 2)
    assert next(runs)[0].label == "02_raises"
    until(lambda: (project / "started").is_file())
    runs.close()
    assert not list(tmp_path.glob(".staging-*")) and (tmp_path / "04_slow.failed.ipynb").is_file()


def png(colour: int) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (30, 30), (colour, 0, 0)).save(content, "png")
    return content.getvalue()


OLD, ALIKE, NEW = png(100), png(101), png(200)


def picture_notebook(path, png, *texts, **metadata):
    outputs = [new_output("stream", name="stdout", text=text) for text in texts]
    view = {"application/vnd.jupyter.widget-view+json": {}, "image/png": base64.b64encode(png).decode()}
    cell = new_code_cell("draw()", id="draw", outputs=[*outputs, new_output("display_data", data=view)])
    cell.metadata.update(metadata)
    nbformat.write(new_notebook(cells=[cell], metadata={"widgets": {}, "papermill": {}}), path)
    return path


@pytest.mark.parametrize("now, kept", [(ALIKE, True), (NEW, False)])
def test_a_notebook_is_left_with_what_it_says(tmp_path, now, kept):
    """Streams whole, no widget or time of the run, and the committed picture where the new one looks the same."""
    committed = picture_notebook(tmp_path / "committed.ipynb", OLD, "ab")
    notebook = picture_notebook(tmp_path / "new.ipynb", now, "a", "b", papermill={}, tags=[], jupyter={"x": 1})
    runner.tidy(notebook, committed)
    content = nbformat.read(notebook, as_version=4)
    stream, picture = content.cells[0].outputs
    assert stream.text == "ab" and content.cells[0].metadata == {"jupyter": {"x": 1}}
    assert {kind: base64.b64decode(data) for kind, data in picture.data.items()} == {"image/png": OLD if kept else now}
    assert content.metadata == {"kernelspec": KERNELSPEC, "language_info": {"name": "python"}}
