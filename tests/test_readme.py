"""Every command of the README works as written: run here in a copy of the project, or by CI."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from topiclib.book import report
from topiclib.book.parameters import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"^```\n(.*?)^```$", README, re.M | re.S) for line in block.splitlines()]
BY_CI = {  # these take minutes: command -> the file that runs it
    "pip install -r requirements.txt && python -m topiclib run": ".github/workflows/tests.yml",
    "python -m pytest": ".ci/run",
}
SAYS = {  # command -> what it must print, what it must leave behind (a pattern of paths)
    "python -m topiclib run 01 -p p_m 0.3 -p p_r 0.2": (
        r"01_data  ok  \d+ s  \d of \d statements as expected",
        "runs/01_data/*/statements_01.json",
    ),
    "papermill --help-notebook notebooks/01_data.ipynb": (r"p_m: float \(default 0\.15\)", "notebooks/01_data.ipynb"),
    "papermill notebooks/01_data.ipynb /tmp/more_masks.ipynb -p p_m 0.3": (
        "",
        "runs/01_data/p_m=0.3/statements_01.json",
    ),
    "python -m topiclib sweep 01 seed=0:1": ("2 of 2 runs done in ", "runs/sweep_01_data/*/sweep.csv"),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    root = tmp_path_factory.mktemp("clone") / "project"
    ignore = shutil.ignore_patterns(".git", ".ci", "runs", "__pycache__", "*.egg-info", ".*_cache", ".venv")
    shutil.copytree(ROOT, root, ignore=ignore)
    return root


def test_length():
    words = re.sub(r"```.*?```", "", README, flags=re.S).split()
    assert len(words) <= 900, f"expected at most 900 words without code, got {len(words)}"


def test_the_lists_are_written_from_the_records():
    assert report.update(check=True) == []


def test_links_lead_somewhere():
    for file in ("README.md", ".github/CONTRIBUTING.md", "figures/statements.md"):
        for target in re.findall(r"\]\((?!http)([^)#]+)", (ROOT / file).read_text(encoding="utf-8")):
            assert (ROOT / file).parent.joinpath(target).exists(), f"{file} links to {target}, which does not exist"


def test_every_command_is_run_somewhere():
    assert COMMANDS, "no commands found: the README's blocks have changed their form"
    assert set(COMMANDS) == set(BY_CI) | set(SAYS)
    for command, file in BY_CI.items():
        assert command in (ROOT / file).read_text(encoding="utf-8"), f"{file} does not run {command}"


@pytest.mark.parametrize("command", SAYS)
def test_command(command, project):
    said, left = SAYS[command]
    environment = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(project),  # in a fresh clone the last line of requirements.txt installs this very folder
    }
    environment.pop("TOPICLIB_FIGURES", None)  # the tests have set it
    process = subprocess.run(
        command, shell=True, cwd=project, env=environment, capture_output=True, text=True, timeout=600
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert re.search(said, process.stdout), process.stdout
    assert list(project.glob(left)), f"{left} was not written"
