"""`python -m topiclib sweep`: a row for each run, what is missing is run, what is done is kept.

The notebooks are tiny ones in a project of their own.
"""

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


TWO = "Theorem 1 · n is two · check: n, with noise"
POSITIVE, CONTROL = "Theorem 2 · scale is positive · check: s", "Theorem 2 · scale is positive · control: s"
AGAIN = "Theorem 2 · scale is positive, again · check: s"


def invoke(*words):
    return CliRunner().invoke(main, ["sweep", *map(str, words)])


def said(result):
    """The lines of a sweep, the runs sorted; seconds left out."""
    text = result if isinstance(result, str) else result.stdout
    lines = re.sub(r"\d+ s\b", "t s", text).splitlines()
    runs = sorted(line for line in lines if "  t s  " in line)
    return [lines[0].partition(";")[0], *runs, *(line for line in lines[1:] if line not in runs)]


def measured(out, *columns):
    """The rows of the table in out, in the order of the runs, these columns only."""
    (table,) = out.rglob("sweep.csv")
    return [tuple(row[column] for column in columns) for row in rows(table)]


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


def test_every_check_of_every_run_has_its_row(first, out):
    assert first.exit_code == 0 and first.stderr == "", first.output
    assert said(first) == [
        "4 runs of 01_tiny, 0 of them finished already",
        "n=2, seed=0, scale=1.0  t s  3 of 3 statements as expected",
        "n=2, seed=1, scale=1.0  t s  2 of 3 statements as expected",
        "n=3, seed=0, scale=1.0  t s  1 of 3 statements as expected",
        "n=3, seed=1, scale=1.0  t s  1 of 3 statements as expected",
        f"holds in 1 of 2: n=2  {TWO}",
        f"holds in 0 of 2: n=3  {TWO}",
        f"holds in 0 of 2: n=3  {POSITIVE}",
        "5 of 8 checks hold in all runs",
        "4 of 4 runs done in t s",
    ]
    got = measured(out, "n", "seed", "check", "measured", "holds")
    assert got[:8] == [
        ("2", "0", TWO, "2", "True"),
        ("2", "0", POSITIVE, "1", "True"),
        ("2", "0", CONTROL, "-1", "True"),
        ("2", "0", AGAIN, "1", "True"),
        ("2", "1", TWO, "3", "False"),
        ("2", "1", POSITIVE, "1", "True"),
        ("2", "1", CONTROL, "-1", "True"),
        ("2", "1", AGAIN, "1", "True"),
    ]
    assert got[9] == ("3", "0", POSITIVE, "", "False") and len(got) == 16


def test_every_run_has_a_folder_of_its_own(first, out, project):
    (version,) = out.iterdir()
    points = {folder.name: {path.name for path in folder.iterdir()} for folder in version.iterdir() if folder.is_dir()}
    results = {"01_tiny.ipynb", "statements_01.json"}
    assert points == {"defaults": results, "seed=1": results, "n=3": results, "n=3,seed=1": results}
    record = json.loads((version / "n=3,seed=1" / "statements_01.json").read_text())
    assert (record["parameters"]["n"], record["parameters"]["seed"]) == (3, 1)
    assert not (project / "runs").exists() and not list((project / "figures").iterdir())


def test_summary_over_seeds(first, out):
    (table,) = out.rglob("summary.csv")
    got = {(row["n"], row["check"]): row for row in rows(table)}
    assert len(got) == 8 and "seed" not in rows(table)[0]
    for key, values, share in [
        (("2", TWO), [2, 3], 0.5),
        (("3", TWO), [3, 4], 0),
        (("2", POSITIVE), [1, 1], 1),
        (("3", POSITIVE), [], 0),
    ]:
        row = got[key]
        assert (row["mean"] == row["sd"] == "") if not values else float(row["mean"]) == statistics.mean(values)
        assert not values or float(row["sd"]) == pytest.approx(statistics.stdev(values), rel=1e-5)
        assert (float(row["share"]), row["runs"]) == (share, "2")


def test_only_what_is_missing_or_failed_is_run(first, out):
    result = invoke("1", "seed=0", "--out", out, "n=2,13,5")
    assert result.exit_code == 1 and result.stderr == "", result.output
    assert said(result) == [
        "3 runs of 01_tiny, 1 of them finished already",
        "seed=0, n=13  t s  failed: RuntimeError in cell [4]: unlucky",
        "seed=0, n=5  t s  failed: its process was ended from outside",
        "4 of 4 checks hold in all runs",
        "1 of 3 runs done in t s; the same command runs the rest",
    ]
    assert set(measured(out, "n")) == {("2",)}
    (failed,) = out.rglob("n=13/*.ipynb")
    assert failed.name == "01_tiny.failed.ipynb" and b"unlucky" in failed.read_bytes()
    assert said(invoke("1", "seed=0", "--out", out, "n=2,13"))[0] == "2 runs of 01_tiny, 1 of them finished already"


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found through /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_sweep_keeps_what_is_finished_and_goes_on(project, tmp_path, number):
    (project / "slow").touch()
    words = ["1", "n=2,4", "--jobs", "1", "--out", tmp_path]
    command = Command(project, "sweep", *words)
    until(lambda: list(tmp_path.rglob("statements_01.json")) and not (project / "slow").exists())
    os.kill(command.process.pid, number)
    code, stdout, stderr = command.finish()
    until(lambda: not left_over(project), seconds=10)
    (kept,) = tmp_path.rglob("n=4/*")
    assert kept.name == "01_tiny.failed.ipynb"
    if number == signal.SIGINT:
        assert code == 1 and stderr == "", stdout + stderr
        assert said(stdout)[-1] == "1 of 2 runs done in t s; the same command runs the rest"
        assert set(measured(tmp_path, "n")) == {("2",)}
    result = invoke(*words)
    assert result.exit_code == 0 and said(result)[0] == "2 runs of 01_tiny, 1 of them finished already"
    assert not list(tmp_path.rglob("*.failed.ipynb")) and set(measured(tmp_path, "n")) == {("2",), ("4",)}


def test_another_version_of_the_code_has_a_folder_of_its_own(first, project, out):
    module = project / "topiclib" / "data.py"
    module.write_text("a = 2\n")
    assert invoke("1", "n=2", "--out", out).stdout.startswith("1 runs of 01_tiny, 0 of them finished already")
    assert len(list(out.iterdir())) == 2
    module.write_text("a = 1\n")
    assert invoke("1", "n=2", "--out", out).stdout.startswith("1 runs of 01_tiny, 1 of them finished already")


def test_a_full_disk_is_one_line(project, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parameters, "write_whole", full)
    result = invoke("1", "n=2", "--out", tmp_path)
    assert result.exit_code == 1 and result.stderr == "Error: [Errno 28] No space left on device\n"


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
        ([], "Missing argument 'NOTEBOOK'"),
        (["1"], "Missing argument 'NAME=VALUES...'"),
        (["7", "n=1"], "no notebook 7; there are: 01_tiny, 02_other"),
        (["1", "2", "n=1"], "2 is not of the form NAME=V1,V2 or NAME=A:B"),
        (["1", "n=1", "n=2"], "n is given more than once"),
        (["1", "scal=1"], "scal is not a parameter of 01_tiny: choose one of n, scale, words, kind, switch, seed"),
        (["1", "n=1,0"], "n = 0 is not allowed: an int (at least 1) is wanted"),
        (["1", "n=-1:2"], "n = -1 is not allowed: an int (at least 1) is wanted"),
        (["1", "n=1.5"], "n = 1.5 is not allowed: an int (at least 1) is wanted"),
        (["1", "n=1:"], "n = '1:' is not allowed: an int"),
        (["1", "n=3:2"], "3:2 is not allowed: A:B wants B at least A"),
        (["1", "n=1:1000000000000"], "at most 10000 values"),
        (["1", "n=1:1000", "seed=0:1000"], "the grid has 1001000 points: at most 10000 runs are allowed"),
        (["1", "n="], "n = '' is not allowed: an int"),
        (["1", "n=1,,2"], "n = '' is not allowed: an int"),
        (["1", "scale=0.5:1"], "scale = '0.5:1' is not allowed: a finite float"),
        (["1", "kind=z"], "kind = 'z' is not allowed: a str (x | y) is wanted"),
        (["1", "switch=yes"], "switch = 'yes' is not allowed: a bool is wanted"),
        (["1", "figures_dir=x"], "figures_dir is set by the runner: choose the folder with --out"),
        (["1", "n=1", "--out", "/dev/null/x"], "cannot write to /dev/null/x: Not a directory"),
        (["1", "n=1", "--out", "figures"], "holds the committed run: choose another folder"),
    ],
)
def test_mistakes_are_one_line_before_anything_starts(project, monkeypatch, words, said):
    monkeypatch.chdir(project)
    monkeypatch.setattr(sweep, "run_jobs", lambda *_: pytest.fail("a notebook was started"))
    result = invoke(*words)
    assert result.exit_code != 0 and said in result.stderr and result.stdout == "", result.output
    assert result.stderr.count("\n") == 1 or result.stderr.startswith("Usage: ")  # click's own, of a missing word
    assert result.stderr.splitlines()[-1].startswith("Error: ")


def test_values(project, tmp_path):
    def grid(name, *words):
        default = {"n": 2, "scale": 1.0, "switch": False, "words": "a"}[name]
        return [job.injected.get(name, default) for job in sweep.plan("2", words, tmp_path)]

    assert grid("n", "n=1:3,7,2") == [1, 2, 3, 7]
    assert grid("scale", "scale=1e-3,0.001,2") == [0.001, 2.0] and type(grid("scale", "scale=2")[0]) is float
    assert grid("switch", "switch=true,False") == [True, False]
    assert grid("words", "words=b c,a") == ["b c", "a"]
    assert grid("words", "words=C:/x=1") == ["C:/x=1"]
