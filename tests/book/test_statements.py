"""A statement is printed once, with its checks; the verdict follows from them; the record says what was printed."""

import json
import math

import matplotlib.pyplot as plt
import pytest
import torch

import topiclib as tl
from topiclib.book import parameters
from topiclib.book.statements import Book, number


@pytest.fixture
def book(tmp_path):
    return Book("03_example", {"seed": 0, "figures_dir": "x"}, tmp_path)


def stated(book, *checks, **options):
    """A statement with these checks, (method, measured, expected), each; it is in the book afterwards."""
    with book.statement("Theorem 2", "All is well", **options) as s:
        for i, (kind, measured, expected) in enumerate(checks):
            getattr(s, kind)(f"number {i}", measured, **expected)
    return s


@pytest.mark.parametrize(
    "measured, expected, holds, printed",
    [
        (0.1023, {"equals": 0.101, "within": 0.003}, True, ("0.102", "0.101 ± 0.003")),
        (0.1041, {"equals": 0.101, "within": 0.003}, False, ("0.104", "0.101 ± 0.003")),
        (0.0979, {"equals": 0.101, "within": 0.003}, False, ("0.098", "0.101 ± 0.003")),
        (0.104, {"equals": 0.101, "within": 0.003 + 1e-12}, True, ("0.104", "0.101 ± 0.003")),
        (6, {"equals": 6, "within": 0}, True, ("6", "6 exactly")),
        (6 + 1e-9, {"equals": 6, "within": 0}, False, ("6", "6 exactly")),
        (3e-16, {"equals": 0, "within": 1e-12}, True, ("0", "0 ± 1e-12")),
        (0.06, {"above": 0.05}, True, ("0.0600", "> 0.05")),
        (0.05, {"above": 0.05}, False, ("0.0500", "> 0.05")),
        (15.03, {"below": 1.05, "digits": 2}, False, ("15", "< 1.05")),
        (0.05, {"below": 0.05}, False, ("0.0500", "< 0.05")),
        (-0.2, {"below": 0.05}, True, ("-0.200", "< 0.05")),
        (math.nan, {"below": 0.05}, False, ("nan", "< 0.05")),
        (math.nan, {"equals": 1, "within": 1}, False, ("nan", "1.00 ± 1")),
        (math.inf, {"above": 1}, True, ("inf", "> 1")),
    ],
)
@pytest.mark.parametrize("kind", ["check", "control"])
def test_a_check(book, capsys, kind, measured, expected, holds, printed):
    s = stated(book, ("check", 1, {"above": 0}), (kind, measured, expected))
    assert (s.checks[1].holds, s.as_expected) == (holds, holds)
    assert s.verdict == ("holds" if holds else "NOT AS EXPECTED")
    assert (s.checks[1].measured, s.checks[1].expected) == printed
    line = capsys.readouterr().out.splitlines()[2]
    assert line.split("  ")[1].startswith("control: " if kind == "control" else "number")
    assert line.endswith(f"{printed[0]}   {printed[1]}") and (" !! " in line) != holds


@pytest.mark.parametrize(
    "options, kinds, verdict",
    [
        ({}, ["check", "control"], "holds"),
        ({"only": "weak L2"}, ["check", "outside"], "holds only: weak L2"),
        ({"instead": "something else"}, ["check"], "does not hold"),
    ],
)
def test_verdicts(book, capsys, options, kinds, verdict):
    fine = [(kind, 1, {"above": 0}) for kind in kinds]
    assert stated(book, *fine, **options).verdict == verdict
    assert f"Theorem 2 · All is well [{verdict}]" in capsys.readouterr().out
    for i in range(len(kinds)):  # whichever check fails
        wrong = [(kind, 1, {"above": 2 if j == i else 0}) for j, kind in enumerate(kinds)]
        assert stated(book, *wrong, **options).verdict == "NOT AS EXPECTED"


@pytest.mark.parametrize(
    "expected, error",
    [
        ({}, TypeError),
        ({"equals": 1}, TypeError),
        ({"within": 1}, TypeError),
        ({"above": 1, "below": 2}, TypeError),
        ({"above": 1, "within": 1}, TypeError),
        ({"equals": 1, "within": -1}, ValueError),
        ({"equals": math.nan, "within": 1}, ValueError),
        ({"below": math.inf}, ValueError),
        ({"above": 1, "digits": 1}, ValueError),
    ],
)
def test_an_expectation_that_is_none(book, expected, error):
    with pytest.raises(error, match="Theorem 2: number 0: "):
        stated(book, ("check", 1, expected))
    assert not book.statements


def test_what_makes_no_statement(book):
    with pytest.raises(ValueError, match="nothing was checked"):
        stated(book, ("control", 1, {"above": 0}))
    with pytest.raises(ValueError, match="there is a check of this name already"), book.statement("a", "b") as s:
        s.check("x", 1, above=0)
        s.check("x", 2, above=0)
    for paper, says in (("", "says"), ("paper", " "), ("paper", "two\nlines")):
        with pytest.raises(ValueError, match="must be one line of text"), book.statement(paper, says):
            pass
    with pytest.raises(ValueError, match="contradict"), book.statement("a", "b", only="c", instead="d"):
        pass
    with pytest.raises(ZeroDivisionError), book.statement("a", "b") as s:
        s.check("x", 1 / 0, above=0)
    assert not book.statements
    with pytest.raises(ValueError, match="nothing to finish"):
        book.finish()


def test_a_figure_is_saved_before_it_is_named(book, tmp_path):
    with pytest.raises(ValueError, match="fig_a was not drawn in this run"):
        stated(book, ("check", 1, {"above": 0}), figure="fig_a")
    figure = plt.figure()
    book.save(figure, "fig_a")
    book.table("tab_a", ["x", "y"], [["1", "2"]], note="a note")
    assert stated(book, ("check", 1, {"above": 0}), figure=["fig_a", "tab_a"]).figures == ["fig_a", "tab_a"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fig_a.pdf", "fig_a.png", "tab_a.md"]
    assert (tmp_path / "tab_a.md").read_text() == "| x | y |\n| --- | --- |\n| 1 | 2 |\n\na note\n"


def test_the_record_says_what_was_printed(book, tmp_path, capsys):
    stated(book, ("check", 5, {"above": 9}))
    stated(book, ("check", 0.10234, {"equals": 0.101, "within": 0.003}), ("outside", 2, {"above": 1}), only="here")
    with book.statement("Figure 2", "More " * 40, headline=True) as s:
        s.check("a long name, " * 9, 1e-7, below=1)
    printed = capsys.readouterr().out
    book.finish()
    record = json.loads((tmp_path / "statements_03.json").read_text())
    assert (record["notebook"], record["parameters"]) == ("03_example", {"seed": 0})
    first, second = record["statements"]  # the same statement again has replaced the first
    assert first["verdict"] == "holds only: here" and first["as_expected"] and not first["headline"]
    assert first["checks"][0] == {
        "kind": "check",
        "name": "number 0",
        "measured": "0.102",
        "expected": "0.101 ± 0.003",
        "holds": True,
    }
    assert second["headline"] and second["checks"][0]["measured"] == "1.00e-07"
    summary = capsys.readouterr().out.splitlines()
    assert summary[0] == "holds only ...... Theorem 2 · All is well"
    assert summary[-1] == "2 of 2 statements as expected, 3 checks" and len(summary) == 4
    assert max(map(len, printed.splitlines() + summary)) <= 100


@pytest.mark.parametrize(
    "value, digits, scale, printed",
    [
        (0, 3, 0, "0"),
        (123.456, 3, 0, "123"),
        (0.9996, 3, 0, "1.00"),
        (1.0004, 3, 0, "1.00"),
        (0.9994, 3, 0, "0.999"),
        (-0.00012345, 2, 0, "-0.00012"),
        (1.5e-7, 2, 0, "1.5e-07"),
        (12345678, 3, 0, "1.23e+07"),
        (0.0004, 3, 0.5, "0"),
        (0.0006, 3, 0.5, "0.001"),
        (-1e-20, 3, 1, "0"),
    ],
)
def test_numbers(value, digits, scale, printed):
    assert number(value, digits, scale) == printed


def test_begin_sets_this_process_up(tmp_path, monkeypatch):
    (tmp_path / "notebooks").mkdir()
    cell = {"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": ["seed: int = 0  # seed (at least 0)"]}
    (tmp_path / "notebooks" / "03_example.ipynb").write_text(json.dumps({"cells": [cell]}))
    monkeypatch.setattr(parameters, "ROOT", tmp_path)
    monkeypatch.delenv("TOPICLIB_FIGURES", raising=False)
    torch.set_num_threads(2)
    with plt.rc_context():
        plt.rcParams["lines.linewidth"] = 9
        book = tl.begin("03_example", {"seed": 0})
        assert plt.rcParams["lines.linewidth"] < 9
    assert torch.get_num_threads() == 1
    assert (book.values, book.figures) == ({"seed": 0}, tmp_path / "figures")
    with pytest.raises(ValueError, match="seed = -1 is not allowed"):
        tl.begin("03_example", {"seed": -1})
