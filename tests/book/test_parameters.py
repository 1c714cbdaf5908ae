"""The parameters cell is the only source of names, types and rules; other values never reach figures/."""

import json

import nbformat
import pytest

from topiclib.book import parameters
from topiclib.book.parameters import check_parameters, check_values, read_parameters

CELL = """
n_topics: int = 10  # topics T (at least 2)
p_m: float = 0.15  # share (in the paper 15 %) of positions chosen for prediction (above 0, at most 1)
learning_rate: float = 0.01  # step size (above 0)
optimizer: str = "sgd"  # optimizer (sgd | adam)
use_bias: bool = False  # train an output bias
figures_dir: str = ""  # folder for figures and tables; empty: the project's own
"""
DEFAULTS = dict(n_topics=10, p_m=0.15, learning_rate=0.01, optimizer="sgd", use_bias=False, figures_dir="")
NAME = "03_example"


def write_notebook(folder, cell):
    path = folder / "notebooks" / f"{NAME}.ipynb"
    path.parent.mkdir(exist_ok=True)
    tagged = nbformat.v4.new_code_cell(cell.strip(), metadata={"tags": ["parameters"]})
    kernelspec = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(nbformat.v4.new_notebook(cells=[tagged], metadata={"kernelspec": kernelspec}), path)
    return path


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A repository with one notebook; its figures are not redirected."""
    monkeypatch.setattr(parameters, "ROOT", tmp_path)
    monkeypatch.delenv("TOPICLIB_FIGURES", raising=False)
    write_notebook(tmp_path, CELL)
    return tmp_path


@pytest.fixture
def known(project):
    return read_parameters(project / "notebooks" / f"{NAME}.ipynb")


def test_read_parameters(known):
    assert {name: parameter.default for name, parameter in known.items()} == DEFAULTS
    assert known["p_m"].rule == "above 0, at most 1", "the rule is the last parenthesised clause of the comment"
    assert known["optimizer"].rule == "sgd | adam"
    assert known["use_bias"].rule == ""


@pytest.mark.parametrize(
    "line, said",
    [
        ("n: list = []  # a list", "is not of the form name: int | float | str | bool = literal  # comment"),
        ("n = 1  # no annotation", "is not of the form"),
        ("n: int = 1", "is not of the form"),
        ("n: int = max(1, 2)  # an expression", "is not of the form"),
        ("n: int = 1  # a number (at leat 2)", "is not of the form"),
        ("n: int = 3  # a number (sgd | adam)", "n = 3 is not allowed: an int (sgd | adam) is wanted"),
        ('s: str = "b"  # a word (at least 2)', "is not of the form"),
        ("b: bool = True  # a switch (on)", "is not of the form"),
        ("n: int = 1  # a number (at least 2)", "n = 1 is not allowed: an int (at least 2) is wanted"),
        ("n: int = 2.0  # a number", "n = 2.0 is not allowed: an int is wanted"),
    ],
)
def test_a_parameters_cell_that_cannot_be_understood(tmp_path, line, said):
    with pytest.raises(ValueError) as error:
        read_parameters(write_notebook(tmp_path, line))
    assert said in str(error.value)


@pytest.mark.parametrize(
    "name, value",
    [("n_topics", 2), ("p_m", 1), ("p_m", 1e-9), ("learning_rate", 3), ("optimizer", "adam"), ("use_bias", True)],
)
def test_allowed_values(known, name, value):
    check_values(known, {name: value})


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("optimizer", "sdg", "optimizer = 'sdg' is not allowed: a str (sgd | adam) is wanted"),
        ("optimizer", "sgd | adam", "optimizer = 'sgd | adam' is not allowed: a str (sgd | adam) is wanted"),
        ("optimizer", 5, "optimizer = 5 is not allowed: a str (sgd | adam) is wanted"),
        ("n_topics", 2.5, "n_topics = 2.5 is not allowed: an int (at least 2) is wanted"),
        ("n_topics", 2.0, "n_topics = 2.0 is not allowed: an int (at least 2) is wanted"),
        ("n_topics", True, "n_topics = True is not allowed: an int (at least 2) is wanted"),
        ("n_topics", 1, "n_topics = 1 is not allowed: an int (at least 2) is wanted"),
        ("learning_rate", -1, "learning_rate = -1 is not allowed: a finite float (above 0) is wanted"),
        ("learning_rate", False, "learning_rate = False is not allowed: a finite float (above 0) is wanted"),
        ("learning_rate", float("inf"), "learning_rate = inf is not allowed: a finite float (above 0) is wanted"),
        ("p_m", 0, "p_m = 0 is not allowed: a finite float (above 0, at most 1) is wanted"),
        ("p_m", 1.01, "p_m = 1.01 is not allowed: a finite float (above 0, at most 1) is wanted"),
        ("p_m", float("nan"), "p_m = nan is not allowed: a finite float (above 0, at most 1) is wanted"),
        ("use_bias", "false", "use_bias = 'false' is not allowed: a bool is wanted"),
        ("use_bias", 1, "use_bias = 1 is not allowed: a bool is wanted"),
    ],
)
def test_forbidden_values(known, name, value, message):
    with pytest.raises(ValueError) as error:
        check_values(known, {name: value}, NAME)
    assert str(error.value) == message


def test_bounds_and_choices_of_numbers(tmp_path):
    lines = "x: float = 0.5  # a share (at least 0, below 1)\nwidth: int = 1  # a width (1 | 2 | 4)"
    known = read_parameters(write_notebook(tmp_path, lines))
    check_values(known, {"x": 0.0, "width": 4})
    for name, value in [("x", 1.0), ("x", -0.1), ("width", 3), ("width", 24)]:
        with pytest.raises(ValueError, match=f"{name} = {value} is not allowed"):
            check_values(known, {name: value})


def test_an_unknown_name_says_what_there_is(known):
    with pytest.raises(ValueError) as error:
        check_values(known, {"n_topic": 3}, NAME)
    names = "n_topics, p_m, learning_rate, optimizer, use_bias, figures_dir"
    assert str(error.value) == f"n_topic is not a parameter of {NAME}: choose one of {names}"


def test_the_message_is_one_line(known):
    with pytest.raises(ValueError) as error:
        check_values(known, {"optimizer": "a\nb" * 100}, NAME)
    assert "\n" not in str(error.value) and len(str(error.value)) < 200


def test_default_values_write_to_figures_and_print_nothing(project, capsys):
    assert check_parameters(NAME, dict(DEFAULTS)) == (DEFAULTS, project / "figures")
    assert (project / "figures").is_dir()
    assert capsys.readouterr().out == ""


def test_other_values_write_to_runs(project, capsys):
    folder = check_parameters(NAME, DEFAULTS | {"optimizer": "adam", "n_topics": 5, "extra": object()})[1]
    assert folder == project / "runs" / NAME / "n_topics=5,optimizer=adam"
    assert folder.is_dir() and not (project / "figures").exists()
    said = f"Not the default parameters: figures and tables go to runs/{NAME}/n_topics=5,optimizer=adam\n"
    assert capsys.readouterr().out == said


def test_figures_dir_comes_before_the_environment_variable(project, monkeypatch):
    monkeypatch.setenv("TOPICLIB_FIGURES", str(project / "environment"))
    assert check_parameters(NAME, DEFAULTS | {"n_topics": 5})[1] == project / "environment"
    chosen = project / "chosen"
    assert check_parameters(NAME, DEFAULTS | {"figures_dir": str(chosen)})[1] == chosen


def test_edited_defaults_do_not_overwrite_the_committed_figures(project):
    (project / "figures").mkdir()
    record = {name: value for name, value in DEFAULTS.items() if name != "figures_dir"}
    (project / "figures" / "statements_03.json").write_text(json.dumps({"parameters": record, "statements": []}))
    assert check_parameters(NAME, dict(DEFAULTS))[1] == project / "figures"

    write_notebook(project, CELL.replace("n_topics: int = 10", "n_topics: int = 12"))  # as JupyterLab saves it
    assert check_parameters(NAME, DEFAULTS | {"n_topics": 12})[1] == project / "runs" / NAME / "n_topics=12"
    assert check_parameters(NAME, dict(DEFAULTS))[1] == project / "figures", "these are the committed run's values"
    both = check_parameters(NAME, DEFAULTS | {"n_topics": 12, "p_m": 0.2})[1]
    assert both == project / "runs" / NAME / "n_topics=12,p_m=0.2", "described against the committed run"


def test_wrong_parameters_stop_before_any_folder_is_made(project):
    for namespace, said in [
        (DEFAULTS | {"n_topics": 1}, "n_topics = 1 is not allowed"),
        ({"n_topics": 10}, "p_m has no value"),
        (DEFAULTS | {"In": ["", "x = 1", "# Parameters\nn_topics = 10\nn_topic = 5\n"]}, "n_topic is not a parameter"),
    ]:
        with pytest.raises(ValueError, match=said):
            check_parameters(NAME, namespace)
    check_parameters(NAME, DEFAULTS | {"In": ["# Parameters\nold = 1\n", "# Parameters\nn_topics = 10\n"]})
    assert sorted(path.name for path in project.iterdir()) == ["figures", "notebooks"]


def test_the_name_of_a_notebook_that_does_not_exist(project):
    with pytest.raises(FileNotFoundError, match=r"04_other\.ipynb does not exist"):
        check_parameters("04_other", dict(DEFAULTS))


def test_run_folders_are_readable_bounded_and_distinct(project):
    slash = parameters.run_folder(NAME, {"path": "a/b"})
    colon = parameters.run_folder(NAME, {"path": "a:b"})
    assert slash.parent == project / "runs" / NAME and slash.name.startswith("path=a_b-") and slash != colon
    long = parameters.run_folder(NAME, {f"parameter_{i}": i for i in range(50)})
    assert len(long.name) <= 120
    assert parameters.run_folder(NAME, {"p_m": 1e-05, "x": -1}).name == "p_m=1e-05,x=-1"


@pytest.mark.parametrize("content", ["", "{}", "[1]", "{broken"])
def test_a_file_that_is_no_notebook(tmp_path, content):
    path = tmp_path / "03_example.ipynb"
    path.write_text(content)
    with pytest.raises(ValueError, match="is not a notebook: it cannot be read as one"):
        read_parameters(path)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"parameters": 3}', "<<<<<<< HEAD"])
def test_an_unreadable_record_is_named(project, content):
    (project / "figures").mkdir()
    (project / "figures" / "statements_03.json").write_text(content)
    with pytest.raises(
        ValueError, match=r"figures/statements_03\.json cannot be read: restore it with git checkout, or"
    ):
        check_parameters(NAME, dict(DEFAULTS))
