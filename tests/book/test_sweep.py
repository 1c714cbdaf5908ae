"""`python -m topiclib sweep` on a real Dask scheduler and two worker processes, which share no folder with the sweep.

The notebooks are tiny ones in a project of their own, of which the workers have a copy.
"""

import csv
import itertools
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
from click.testing import CliRunner
from nbformat.v4 import new_code_cell, new_notebook

from topiclib.book import parameters, plots, sweep

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
import os, pathlib, time
tl.check(tl.Claim("Theorem 1", "n is two, with noise", 2, n + seed, tolerance=0.1))
tl.check(tl.Claim("Theorem 2", f"scale is positive, {words}", 0, scale, relation=">"))
(figures / "fig01.txt").write_text(f"n = {n}, seed = {seed}, words = {words}")
def worker():
    pid = os.getpid()
    while "spawn_main" not in pathlib.Path(f"/proc/{pid}/cmdline").read_text():  # as a Dask nanny starts it
        pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().split()[3])
    return pid
started = pathlib.Path("../started")
if n == 4 and seed == 0 and not started.exists():  # slow, the first time only
    started.write_text(f"{os.getpid()} {worker()}")
    time.sleep(300)
if n == 5:
    os.kill(worker(), 9)
if n == 13:
    raise RuntimeError("first line\\nunlucky")
"""
NOISE, POSITIVE = "Theorem 1: n is two, with noise", "Theorem 2: scale is positive, a"
MODULES = "__main__ claims data parameters plots processes report runner scoreboard sweep".split()
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
SWEEP = "import sys; from topiclib import sweep; sweep.QUIET = 1; sweep.sweep(sys.argv[1:], prog_name='sweep')"


def build(root: Path) -> None:
    package = Path(parameters.__file__).parent
    (root / "topiclib").mkdir(parents=True)
    for module in MODULES:
        shutil.copy(package / f"{module}.py", root / "topiclib")
    imports = "from .claims import Claim, check, write_table\nfrom .parameters import check_parameters\n"
    (root / "topiclib" / "__init__.py").write_text(imports)
    (root / "notebooks").mkdir()
    (root / "figures").mkdir()
    for name, body in {"01_tiny": BODY, "02_false_claim": BODY.replace('"n is two, with noise", 2', '"no", 9')}.items():
        cells = [
            new_code_cell("import topiclib as tl", id="imports"),
            new_code_cell(PARAMETERS.strip(), id="parameters", metadata={"tags": ["parameters"]}),
            new_code_cell(f'figures = tl.check_parameters("{name}", globals())', id="check"),
            new_code_cell(body.strip(), id="body"),
            new_code_cell("tl.write_table(figures)", id="table"),
        ]
        kernelspec = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
        nbformat.write(
            new_notebook(cells=cells, metadata={"kernelspec": kernelspec}), root / "notebooks" / f"{name}.ipynb"
        )


def wait(condition, seconds=180):
    """What `condition` returns once it is true; a failure if that takes too long."""
    for _ in range(seconds * 20):
        if found := condition():
            return found
        time.sleep(0.05)
    pytest.fail(f"waited {seconds} s for nothing")


def gone(pid) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except OSError:
        return True


def rows(out: Path, table="sweep.csv") -> list[dict]:
    with (out / table).open(newline="") as file:
        return list(csv.DictReader(file))


def read_whole(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    root = tmp_path_factory.mktemp("project")
    build(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parameters, "ROOT", root)
        yield root


@pytest.fixture(scope="module")
def far(project, tmp_path_factory):
    """The workers' copy of the project."""
    return shutil.copytree(project, tmp_path_factory.mktemp("far") / "copy")


@pytest.fixture(scope="module")
def start():
    """Start a Python process that is ended with the tests."""
    processes = []

    def start(*words, root, cwd, **options):
        command = [sys.executable, *map(str, words)]
        environment = os.environ | {"PYTHONPATH": str(root), "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
        processes.append(subprocess.Popen(command, cwd=cwd, env=environment, text=True, **options))
        return processes[-1]

    yield start
    for process in reversed(processes):
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def scheduler(start, project, tmp_path_factory):
    """The address of a scheduler without workers."""
    folder = tmp_path_factory.mktemp("scheduler")
    words = "-m distributed.cli.dask_scheduler --host 127.0.0.1 --port 0 --no-dashboard --scheduler-file".split()
    with (folder / "log").open("w") as log:
        start(*words, folder / "file", root=project, cwd=folder, stderr=log)
    wait(lambda: read_whole(folder / "file").rstrip().endswith("}"))
    return json.loads((folder / "file").read_text())["address"]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="module")
def first(start, scheduler, project, far, out, tmp_path_factory):
    """A sweep that waits for its workers and loses one of the two: (lines, stderr, exit code, the workers' folder)."""
    if sys.platform != "linux":
        pytest.skip("the processes of a run are found through /proc")
    words = ["1", "n=2,4", "seed=0:1", "scale=1e0,1", "--scheduler", scheduler, "--out", out]
    process = start("-c", SWEEP, *words, root=project, cwd=project, **PIPES)
    lines = [process.stdout.readline(), process.stdout.readline()]
    folder = tmp_path_factory.mktemp("workers")
    command = ["-m", "distributed.cli.dask_worker", scheduler, "--nthreads", "1", "--no-dashboard"]
    with (folder / "log").open("w") as log:
        for _ in range(2):
            start(*command, "--local-directory", folder, root=far, cwd=folder, stderr=log)
    kernel, worker = wait(lambda: read_whole(far / "started").split())
    os.kill(int(worker), signal.SIGKILL)
    wait(lambda: gone(kernel), 60)
    stdout, stderr = process.communicate(timeout=300)
    return lines + stdout.splitlines(keepends=True), stderr, process.returncode, folder


def invoke(*words):
    return CliRunner().invoke(sweep.sweep, list(map(str, words)))


def test_every_run_has_its_row_also_the_one_whose_worker_was_killed(first, out):
    _, stderr, code, folder = first
    assert code == 0 and stderr == "", stderr
    assert read_whole(folder / "log").count("Start worker at") == 3, "two workers and the one after the kill"
    table = rows(out)
    assert [(row["n"], row["seed"], row["scale"], row["error"]) for row in table] == [
        ("2", "0", "1.0", ""), ("2", "1", "1.0", ""), ("4", "0", "1.0", ""), ("4", "1", "1.0", ""),
    ]  # fmt: skip
    assert [(float(row[NOISE]), row[f"{NOISE} [holds]"]) for row in table] == [
        (2, "True"), (3, "False"), (4, "False"), (5, "False"),
    ]  # fmt: skip
    assert {(row[POSITIVE], row[f"{POSITIVE} [holds]"]) for row in table} == {("1.0", "True")}
    columns = [*"n scale words kind switch seed seconds error version".split(), NOISE, f"{NOISE} [holds]"]
    assert list(table[0]) == [*columns, POSITIVE, f"{POSITIVE} [holds]"]
    assert all(float(row["seconds"]) > 0 for row in table) and {len(row["version"]) for row in table} == {12}


def test_lines_say_what_happens(first, out):
    lines, _, _, _ = first
    assert lines[0] == f"4 runs of 01_tiny, 0 of them finished already; results in {out}\n"
    assert lines[1].startswith("waiting for a worker at tcp://")
    runs = [re.sub(r"\d+ s ", "t s ", line) for line in lines[2:6]]
    assert [line[:7] for line in runs] == ["1 of 4 ", "2 of 4 ", "3 of 4 ", "4 of 4 "]
    assert sorted(line[8:] for line in runs) == [
        "n=2, seed=0, scale=1.0  t s  2 of 2 claims hold\n",
        "n=2, seed=1, scale=1.0  t s  1 of 2 claims hold\n",
        "n=4, seed=0, scale=1.0  t s  1 of 2 claims hold\n",
        "n=4, seed=1, scale=1.0  t s  1 of 2 claims hold\n",
    ]
    assert re.fullmatch(r"4 of 4 runs done in \d+ s\n", lines[6]) and len(lines) == 7


def test_files_travel_and_nothing_stays_with_the_workers(first, out, far):
    names = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    run = {"01_tiny.ipynb", "claims_01.json", "claims_01.md", "fig01.txt"}
    wanted = {f"{point}/{name}" for point in ("defaults", "seed=1", "n=4", "n=4,seed=1") for name in run}
    assert names == wanted | {"sweep.csv", "summary.csv", "sweep.png", "sweep.pdf"}
    assert (out / "n=4,seed=1" / "fig01.txt").read_text() == "n = 4, seed = 1, words = a"
    assert not (far / "runs").exists() and not list((far / "figures").iterdir())
    _, _, _, folder = first
    left = [path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(("lock", "log"))]
    assert left == [], "a run left files in its worker's folder"


def test_summary_over_seeds(first, out):
    got = {(row["n"], row["claim"]): row for row in rows(out, "summary.csv")}
    assert set(got) == {(n, claim) for n in "24" for claim in (NOISE, POSITIVE)}
    for (n, claim), measured, share in [
        (("2", NOISE), [2, 3], 0.5),
        (("4", NOISE), [4, 5], 0),
        (("4", POSITIVE), [1, 1], 1),
    ]:
        row = got[n, claim]
        assert float(row["mean"]) == pytest.approx(statistics.mean(measured))
        assert float(row["sd"]) == pytest.approx(statistics.stdev(measured), rel=1e-2)
        assert (float(row["holds"]), row["runs"]) == (share, "2")


@pytest.fixture(scope="module")
def second(first, scheduler, out):
    """More values, with a run that fails and one that kills its worker every time; then some of it again."""
    words = ["1", "seed=0", "--scheduler", scheduler, "--out", out]
    return invoke(*words, "n=2,13,5"), invoke(*words, "n=2,13")


def test_a_run_that_fails_is_a_row_and_so_is_one_that_kills_its_workers(second, out):
    result, _ = second
    assert result.exit_code == 1 and result.stderr == "", result.output
    lines = result.stdout.splitlines()
    assert {re.sub(r"^.* of 3|\d+ s ", "", line) for line in lines[1:3]} == {
        "  seed=0, n=13   failed: RuntimeError in cell [5]: unlucky",
        "  seed=0, n=5   failed: its worker died 2 times",
    }
    assert re.fullmatch(r"3 of 3 runs done in \d+ s; 2 failed", lines[3])
    assert [(row["n"], row["error"], row[NOISE]) for row in rows(out)[4:]] == [
        ("5", "its worker died 2 times", ""),
        ("13", "RuntimeError in cell [5]: unlucky", ""),
    ]
    assert b"unlucky" in (out / "n=13" / "01_tiny.failed.ipynb").read_bytes()
    assert {row["n"] for row in rows(out, "summary.csv")} == {"2", "4"}


def test_only_what_is_missing_or_failed_is_run(second, out):
    for result, runs in zip(second, (3, 2), strict=True):
        lines = result.stdout.splitlines()
        assert lines[0].startswith(f"{runs} runs of 01_tiny, 1 of them finished already;")
        assert len(lines) == runs + 1 and "n=2" not in result.stdout
    assert len(rows(out)) == 6, "the rows of the first grid are kept, and a failed one is replaced"


def test_ctrl_c_keeps_what_is_finished_and_stops_the_rest(first, scheduler, far, tmp_path):
    (far / "started").unlink()

    def interrupt():
        wait(lambda: read_whole(far / "started") and (tmp_path / "sweep.csv").is_file())
        os.kill(os.getpid(), signal.SIGINT)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(interrupt)
        result = invoke("1", "n=2,4", "--scheduler", scheduler, "--out", tmp_path)
    lines = result.stdout.splitlines()
    assert result.exit_code == 1 and result.stderr == "" and len(lines) == 3, result.output
    assert lines[2].startswith("1 of 2 runs done in ")
    assert lines[2].endswith("; interrupted, the same command goes on from here")
    assert [row["n"] for row in rows(tmp_path)] == ["2"] and (tmp_path / "sweep.png").is_file()
    kernel, _ = read_whole(far / "started").split()
    wait(lambda: gone(kernel), 60)


def test_another_version_of_the_notebook(first, scheduler, project, far, out):
    """A worker must have the same; once it has, everything is run again, and the old table is kept."""
    old, notebook = rows(out), project / "notebooks" / "01_tiny.ipynb"
    words = ["1", "n=2", "--scheduler", scheduler, "--out", out]
    notebook.write_text(notebook.read_text().replace("with noise", "with much noise"))
    result = invoke(*words)
    assert result.exit_code == 1 and result.stderr.count("\n") == 1
    assert re.match(
        r"Error: worker tcp://\S+: \S+ has another version of 01_tiny.ipynb or of topiclib: ", result.stderr
    )
    shutil.copy(notebook, far / "notebooks")
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    (row,) = rows(out)
    assert "Theorem 1: n is two, with much noise" in row and row["version"] != old[0]["version"]
    assert rows(out, f"sweep_{old[0]['version']}.csv") == old


def test_workers_on_this_machine_and_a_default_run_whose_claim_does_not_hold(start, project):
    process = start("-c", SWEEP, "2", "seed=0", "--workers", "1", root=project, cwd=project.parent, **PIPES)
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 0 and stderr == "", stdout + stderr
    assert "1 of 2 claims hold" in stdout
    (row,) = rows(project / "runs" / "sweep_02_false_claim")
    assert (row["error"], row["Theorem 1: no"], row["Theorem 1: no [holds]"]) == ("", "2.0", "False")


@pytest.mark.parametrize(
    "words, said",
    [
        ([], "a notebook and a grid are wanted, e.g. sweep 03 optimizer=sgd,adam seed=0:4"),
        (["1"], "a notebook and a grid are wanted"),
        (["7", "n=1"], "no notebook 7; there are: 01_tiny, 02_false_claim"),
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
        (["1", "n=1", "--scheduler", "127.0.0.1:1", "--workers", "1"], "--workers is for workers on this machine"),
        (["1", "n=1", "--scheduler", "127.0.0.1:1"], "no Dask scheduler answers at 127.0.0.1:1 within 1 s"),
    ],
)
def test_mistakes_are_one_line_before_anything_starts(project, monkeypatch, words, said):
    monkeypatch.chdir(project)
    monkeypatch.setattr(sweep, "PATIENCE", 1)
    result = invoke(*words)
    assert result.exit_code == 1 and said in result.stderr, result.output
    assert result.stderr.startswith("Error: ") and result.stderr.count("\n") == 1
    assert result.stdout == "" or "--scheduler" in words


def test_a_table_of_something_else_is_not_touched(project, tmp_path):
    (tmp_path / "sweep.csv").write_text("a,b\n1,2\n")
    result = invoke("1", "n=2", "--out", tmp_path)
    assert result.exit_code == 1 and "is not the table of a sweep of this notebook: move it away" in result.stderr
    assert (tmp_path / "sweep.csv").read_text() == "a,b\n1,2\n"


def test_values(project):
    def grid(*words):
        return sweep.plan(("2", *words))[2]

    assert grid("n=1:3,7,2", "scale=1e-3,0.001,2", "switch=true,False") == {
        "n": [1, 2, 3, 7], "scale": [0.001, 2.0], "switch": [True, False],
    }  # fmt: skip
    assert {type(value) for value in grid("scale=1,2")["scale"]} == {float}
    assert grid("words=a,b c")["words"] == ["a", "b c"]
    assert grid("words=a,b; c")["words"] == ["a,b", "c"] and grid("words=a,b;")["words"] == ["a,b"]
    assert grid("words=C:/x=1")["words"] == ["C:/x=1"]


def test_version_is_of_what_decides_the_numbers(far):
    notebook, module = far / "notebooks" / "02_false_claim.ipynb", far / "topiclib" / "claims.py"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parameters, "ROOT", far)
        before = sweep.version(notebook)
        content = nbformat.read(notebook, as_version=4)
        content.cells[0].outputs = [nbformat.v4.new_output("stream", text="a")]
        nbformat.write(content, notebook)
        (far / "topiclib" / "sweep.py").touch()
        assert sweep.version(notebook) == before
        module.write_text(module.read_text() + "\n")
        changed = sweep.version(notebook)
        content.cells[0].source += "\n"
        nbformat.write(content, notebook)
        assert len({before, changed, sweep.version(notebook)}) == 3


def test_back_to_a_version_that_was_set_aside(project, tmp_path):
    _, found, *_ = sweep.plan(("2", "n=2"))
    row = {name: str(parameter.default) for name, parameter in found.items()}
    table = tmp_path / "sweep.csv"
    sweep._write(table, [row | {"words": 'a "b",\nc', "version": "one", "error": ""}])
    (key,) = sweep._finished(table, found, "one")
    assert key == (2, 1.0, 'a "b",\nc', "x", False, 0)
    assert sweep._finished(table, found, "two") == {} and not table.exists()
    sweep._write(table, [row | {"version": "two", "error": ""}])
    assert list(sweep._finished(table, found, "one")) == [key]
    assert list(sweep._finished(table, found, "two")) == [(2, 1.0, "a", "x", False, 0)]


def test_the_figure_shows_what_does_not_hold_everywhere(project, tmp_path, monkeypatch):
    _, found, *_ = sweep.plan(("2", "n=2"))
    default = {name: str(parameter.default) for name, parameter in found.items()} | {"error": ""}
    claims, table = [f"Theorem {i}: holds" for i in range(60)], []
    for n, seed in itertools.product((2, 3), (0, 1)):
        verdicts = {f"{claim} [holds]": str(claim != claims[7] or n == 2 or seed == 1) for claim in claims}
        table.append(default | {"n": str(n), "seed": str(seed)} | dict.fromkeys(claims, "1.0") | verdicts)
    table.append(default | {"n": "4", "error": "failed"})
    drawn = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, *_: drawn.append(figure))
    sweep.summarise(tmp_path, "02_false_claim", found, table)
    (axis,) = drawn[0].axes
    assert drawn[0].get_suptitle() == "02_false_claim: runs in which a claim holds (4 runs, 1 more failed)"
    assert [label.get_text() for label in axis.get_yticklabels()] == ["Theorem 7: holds", "all 59 other claims"]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["2", "3"]
    assert [text.get_text() for text in axis.texts] == ["2/2", "1/2", "all", "all", "n"]
