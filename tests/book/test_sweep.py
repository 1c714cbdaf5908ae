"""`python -m topiclib sweep`: a row for each run, what is missing is run, what is done is kept.

The notebooks are tiny ones in a project of their own.
"""

import itertools
import json
import os
import re
import signal
import statistics
import sys

import nbformat
import pytest
from click.testing import CliRunner
from projects import Command, build, left_over, rows, until

from topiclib.__main__ import main
from topiclib.book import parameters, sweep

PARAMETERS = """
n: int = 2  # a number (at least 1)
scale: float = 1.0  # a factor (above 0)
words: str = "a"  # words joined by commas
kind: str = "x"  # a kind (x | y)
switch: bool = False  # a switch
seed: int = 0  # random seed (at least 0)
figures_dir: str = ""  # folder for figures and tables
"""
BODY = """
import time
nothing = None if n == 3 else scale
state("Theorem 1", "n is two", ("check", "n, with noise", n + seed, n + seed == 2))
state("Theorem 2", "scale is positive", ("check", "s", nothing, n != 3), ("control", "s", -scale, True))
state("Theorem 2", "scale is positive, again", ("check", "s", scale, True))
slow = pathlib.Path("../slow")
if n == 4 and slow.exists():  # the first time only
    slow.unlink()
    time.sleep(60)
if n == 5:
    os.kill(os.getppid(), 9)
if n == 13:
    raise RuntimeError("first line\\nunlucky")
"""
NOISE, POSITIVE, CONTROL = "Theorem 1 · n, with noise", "Theorem 2 · s", "Theorem 2 · control: s"
AGAIN = "Theorem 2 · scale is positive, again · s"


def invoke(*words):
    return CliRunner().invoke(main, ["sweep", *map(str, words)])


def said(result):
    """The lines of a sweep, sorted but for the first and the last; seconds and counts left out."""
    first, *lines, last = re.sub(r"\d+ s\b", "t s", result if isinstance(result, str) else result.stdout).splitlines()
    assert [line.split()[2] for line in lines] == [first.split()[0]] * len(lines)
    return [first.partition(";")[0], *sorted(line.partition("  ")[2] for line in lines), last]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    root = tmp_path_factory.mktemp("project")
    build(root, PARAMETERS, {"01_tiny": BODY, "02_other": "pass"})
    for module in ("data", "book/sweep"):
        (root / "topiclib" / f"{module}.py").write_text("a = 1\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parameters, "ROOT", root)
        yield root


@pytest.fixture(scope="module")
def out(project, tmp_path_factory):
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="module")
def first(out):
    return invoke("1", "n=2,3", "seed=0:1", "scale=1e0,1", "--jobs", "2", "--out", out)


def test_every_run_has_its_row(first, out):
    assert first.exit_code == 0 and first.stderr == "", first.output
    assert said(first) == [
        "4 runs of 01_tiny, 0 of them finished already",
        "n=2, seed=0, scale=1.0  t s  3 of 3 statements as expected",
        "n=2, seed=1, scale=1.0  t s  2 of 3 statements as expected",
        "n=3, seed=0, scale=1.0  t s  1 of 3 statements as expected",
        "n=3, seed=1, scale=1.0  t s  1 of 3 statements as expected",
        "4 of 4 runs done in t s",
    ]
    table = rows(out / "sweep.csv")
    checks = [column for check in (NOISE, POSITIVE, CONTROL, AGAIN) for column in (check, f"{check} [holds]")]
    assert list(table[0]) == [*"n scale words kind switch seed seconds error version".split(), *checks]
    measured = [[row[name] for name in ("n", "seed", "error", *checks)] for row in table]
    assert measured == [
        ["2", "0", "", "2", "True", "1.0", "True", "-1.0", "True", "1.0", "True"],
        ["2", "1", "", "3", "False", "1.0", "True", "-1.0", "True", "1.0", "True"],
        ["3", "0", "", "3", "False", "", "False", "-1.0", "True", "1.0", "True"],
        ["3", "1", "", "4", "False", "", "False", "-1.0", "True", "1.0", "True"],
    ]
    assert all(float(row["seconds"]) > 0 for row in table) and {len(row["version"]) for row in table} == {12}


def test_every_run_has_a_folder_of_its_own(first, out, project):
    points = {folder.name: {path.name for path in folder.iterdir()} for folder in out.iterdir() if folder.is_dir()}
    results = {"01_tiny.ipynb", "statements_01.json"}
    assert points == {"defaults": results, "seed=1": results, "n=3": results, "n=3,seed=1": results}
    record = json.loads((out / "n=3,seed=1" / "statements_01.json").read_text())
    assert (record["parameters"]["n"], record["parameters"]["seed"]) == (3, 1)
    assert not (project / "runs").exists() and not list((project / "figures").iterdir())


def test_summary_over_seeds(first, out):
    got = {(row["n"], row["check"]): row for row in rows(out / "summary.csv")}
    assert set(got) == set(itertools.product("23", [NOISE, POSITIVE, CONTROL, AGAIN]))
    for key, measured, share in [
        (("2", NOISE), [2, 3], 0.5),
        (("3", NOISE), [3, 4], 0),
        (("2", POSITIVE), [1, 1], 1),
        (("3", POSITIVE), [], 0),
    ]:
        row = got[key]
        assert (row["mean"] == row["sd"] == "") if not measured else float(row["mean"]) == statistics.mean(measured)
        assert not measured or float(row["sd"]) == pytest.approx(statistics.stdev(measured), rel=1e-5)
        assert (float(row["holds"]), row["runs"]) == (share, "2")
    assert (out / "sweep.png").is_file() and (out / "sweep.pdf").is_file()


def test_a_run_that_fails_is_a_row_and_only_what_is_missing_or_failed_is_run(first, out):
    result = invoke("1", "seed=0", "--out", out, "n=2,13,5")
    assert result.exit_code == 1 and result.stderr == "", result.output
    killed = "its process was ended from outside (exit code -9)"
    assert said(result) == [
        "3 runs of 01_tiny, 1 of them finished already",
        "seed=0, n=13  t s  failed: RuntimeError in cell [4]: unlucky",
        f"seed=0, n=5  t s  failed: {killed}",
        "3 of 3 runs done in t s; 2 failed",
    ]
    assert [(row["n"], row["error"], row[NOISE]) for row in rows(out / "sweep.csv")[4:]] == [
        ("5", killed, ""),
        ("13", "RuntimeError in cell [4]: unlucky", ""),
    ]
    assert b"unlucky" in (out / "n=13" / "01_tiny.failed.ipynb").read_bytes()
    assert {row["n"] for row in rows(out / "summary.csv")} == {"2", "3"}
    again = invoke("1", "seed=0", "--out", out, "n=2,13")
    assert said(again)[:2] == [
        "2 runs of 01_tiny, 1 of them finished already",
        "seed=0, n=13  t s  failed: RuntimeError in cell [4]: unlucky",
    ]
    assert len(rows(out / "sweep.csv")) == 6, "the rows of the first grid are kept, and a failed one is replaced"


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found through /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_sweep_keeps_what_is_finished_and_goes_on(project, tmp_path, number):
    (project / "slow").touch()
    words = ["1", "n=2,4", "--jobs", "1", "--out", tmp_path]
    command = Command(project, "sweep", *words)
    until(lambda: (tmp_path / "sweep.csv").is_file() and not (project / "slow").exists())
    os.kill(command.process.pid, number)
    code, stdout, stderr = command.finish()
    until(lambda: not left_over(project), seconds=10)
    assert [row["n"] for row in rows(tmp_path / "sweep.csv")] == ["2"]
    assert [path.name for path in (tmp_path / "n=4").iterdir()] == ["01_tiny.failed.ipynb"]
    if number == signal.SIGINT:
        assert code == 1 and stderr == "", stdout + stderr
        assert said(stdout)[-1] == "1 of 2 runs done in t s; interrupted, the same command goes on from here"
        assert (tmp_path / "sweep.png").is_file()
    result = invoke(*words)
    assert result.exit_code == 0 and said(result)[0] == "2 runs of 01_tiny, 1 of them finished already"
    assert [path.name for path in (tmp_path / "n=4").iterdir() if "failed" in path.name] == []


def test_another_version_is_run_again_and_the_old_table_is_kept(first, project, out, monkeypatch):
    old, module = rows(out / "sweep.csv"), project / "topiclib" / "data.py"
    module.write_text("a = 2\n")
    result = invoke("1", "n=2", "--out", out)
    assert said(result)[0] == "1 runs of 01_tiny, 0 of them finished already", result.output
    (row,) = rows(out / "sweep.csv")
    assert row["version"] != old[0]["version"] and rows(out / f"sweep_{old[0]['version']}.csv") == old

    def changed(*arguments):
        module.write_text("a = 3\n")
        yield from run_jobs(*arguments)

    run_jobs = sweep.run_jobs
    monkeypatch.setattr(sweep, "run_jobs", changed)
    result = invoke("1", "n=2:3", "--out", out)
    assert result.exit_code == 1 and result.stderr.startswith("Error: the notebook or topiclib was changed while")
    assert rows(out / "sweep.csv") == [row], "a row of two versions"
    module.write_text("a = 1\n")
    assert invoke("1", "n=2,3", "seed=0,1", "--out", out).stdout.startswith("4 runs of 01_tiny, 4 of them finished")
    assert rows(out / "sweep.csv") == old, "back to a version that was set aside"


def test_a_full_disk_is_one_line_and_ends_what_is_under_way(project, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sweep, "write_table", full)
    (project / "slow").touch()
    result = invoke("1", "n=2,4", "--jobs", "2", "--out", tmp_path)
    assert result.exit_code == 1 and result.stderr == "Error: [Errno 28] No space left on device\n"
    until(lambda: not left_over(project), seconds=10)
    (project / "slow").unlink(missing_ok=True)


def test_version_is_of_what_decides_the_numbers(project):
    notebook, module = project / "notebooks" / "02_other.ipynb", project / "topiclib" / "data.py"
    before = sweep.version(notebook)
    content = nbformat.read(notebook, as_version=4)
    content.cells[0].source += "text"
    content.cells[1].outputs = [nbformat.v4.new_output("stream", text="a")]
    nbformat.write(content, notebook)
    (project / "topiclib" / "book" / "sweep.py").write_text("b = 1\n")
    assert sweep.version(notebook) == before
    content.cells[1].source += "\n"
    nbformat.write(content, notebook)
    changed = sweep.version(notebook)
    module.write_text(module.read_text() + "\n")
    assert len({before, changed, sweep.version(notebook)}) == 3


@pytest.mark.parametrize(
    "words, said",
    [
        ([], "a notebook and a grid are wanted, e.g. sweep 03 optimizer=sgd,adam seed=0:4"),
        (["1"], "a notebook and a grid are wanted"),
        (["7", "n=1"], "no notebook 7; there are: 01_tiny, 02_other"),
        (["1", "2", "n=1"], "2 is not of the form NAME=V1,V2 or NAME=A:B"),
        (["1", "n=1", "n=2"], "n is given more than once"),
        (["1", "scal=1"], "scal is not a parameter of 01_tiny: choose one of n, scale, words, kind, switch, seed"),
        (["1", "scal=1"], "(did you mean scale?)"),
        (["1", "n=1,0"], "n = 0: must be at least 1"),
        (["1", "n=-1:2"], "n = -1: must be at least 1"),
        (["1", "n=1.5"], "n = 1.5 is a float: an int is wanted, at least 1"),
        (["1", "n=1:"], "n = '1:' is a str: an int is wanted"),
        (["1", "n=3:2"], "n=3:2: A:B wants B at least A"),
        (["1", "n=1:1000000000000"], "at most 10000 values"),
        (["1", "n=1:1000", "seed=0:1000"], "the grid has 1001000 points: at most 10000 runs are allowed"),
        (["1", "n="], "n= has an empty value"),
        (["1", "n=1,,2"], "n=1,,2 has an empty value"),
        (["1", "scale=0:1"], "scale=0:1: a range is for int parameters: list the values"),
        (["1", "kind=z"], "kind = 'z' is not allowed: choose one of x, y"),
        (["1", "switch=yes"], "switch = 'yes' is a str: a bool is wanted"),
        (["1", "figures_dir=x"], "figures_dir is set by the runner: choose the folder with --out"),
        (["1", "n=1", "--out", "/dev/null/x"], "cannot write to /dev/null/x: Not a directory"),
        (["1", "n=1", "--out", "figures"], "holds the committed run: choose another folder"),
        (["1", "n=1", "--out", "strange"], "is not the table of a sweep of this notebook: move it away"),
        (["1", "n=1", "--out", "empty"], "is not the table of a sweep of this notebook: move it away"),
    ],
)
def test_mistakes_are_one_line_before_anything_starts(project, monkeypatch, words, said):
    monkeypatch.chdir(project)
    monkeypatch.setattr(sweep, "run_jobs", lambda *_: pytest.fail("a notebook was started"))
    for name, content in [("strange", "a,b\n1,2\n"), ("empty", "")]:
        (project / name).mkdir(exist_ok=True)
        (project / name / "sweep.csv").write_text(content)
    result = invoke(*words)
    assert result.exit_code == 1 and said in result.stderr, result.output
    assert result.stderr.startswith("Error: ") and result.stderr.count("\n") == 1 and result.stdout == ""
    assert (project / "strange" / "sweep.csv").read_text() == "a,b\n1,2\n"


def test_values(project, tmp_path):
    def grid(*words):
        return sweep.plan(("2", *words), tmp_path).grid

    assert grid("n=1:3,7,2", "scale=1e-3,0.001,2", "switch=true,False") == {
        "n": [1, 2, 3, 7], "scale": [0.001, 2.0], "switch": [True, False],
    }  # fmt: skip
    assert {type(value) for value in grid("scale=1,2")["scale"]} == {float}
    assert grid("words=a,b c")["words"] == ["a", "b c"]
    assert grid("words=a,b; c")["words"] == ["a,b", "c"] and grid("words=a,b;")["words"] == ["a,b"]
    assert grid("words=C:/x=1")["words"] == ["C:/x=1"]


def test_values_that_are_hard_to_write_are_read_back(project, tmp_path):
    found = sweep.plan(("2", "n=2"), tmp_path).found
    row = {name: str(parameter.default) for name, parameter in found.items()} | {"words": 'a "b",\nNA'}
    for words in ('a "b",\nc', "NA", "true", "1.50", ""):
        sweep.write_table(tmp_path / "sweep.csv", [row | {"words": words, "version": "one", "error": ""}])
        assert list(sweep.finished_rows(tmp_path / "sweep.csv", found, "one")) == [(2, 1.0, words, "x", False, 0)]


def test_the_figure_shows_what_does_not_hold_everywhere(project, tmp_path, monkeypatch):
    planned = sweep.plan(("2", "n=2"), tmp_path)
    default = {name: str(value) for name, value in planned.defaults.items()} | {"error": ""}
    checks, table = [f"Theorem {i} · it" for i in range(60)], []
    for n, seed in itertools.product((2, 3), (0, 1)):
        verdicts = {f"{check} [holds]": str(check != checks[7] or n == 2 or seed == 1) for check in checks}
        table.append(default | {"n": str(n), "seed": str(seed)} | dict.fromkeys(checks, "1.0") | verdicts)
    del table[0][f"{checks[7]} [holds]"]
    table.append(default | {"n": "4", "error": "failed"})
    drawn = []
    monkeypatch.setattr(sweep, "save_figure", lambda figure, *_: drawn.append(figure))
    sweep.summarise(planned, table)
    (axis,) = drawn[0].axes
    assert drawn[0].get_suptitle() == "02_other: runs in which a check holds (4 runs, 1 more failed)"
    assert [label.get_text() for label in axis.get_yticklabels()] == ["Theorem 7 · it", "all 59 other checks"]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["2", "3"]
    assert [text.get_text() for text in axis.texts] == ["1/1", "1/2", "all", "all", "n"]
