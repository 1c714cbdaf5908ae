"""Verdicts are decided on full precision, printed in few digits, and written in the same bytes each time."""

import json
import math

import pytest

from topiclib import claims, parameters
from topiclib.claims import Claim, check, write_table


@pytest.fixture(autouse=True)
def run(monkeypatch):
    """A run of a notebook, with no claims yet."""
    current = parameters.Run("03_example", {"n_topics": 10, "optimizer": "sgd", "figures_dir": "/somewhere"})
    monkeypatch.setattr(parameters, "_current_run", current)
    monkeypatch.setattr(claims, "_claims", {})
    return current


def claim(predicted=0.1103, measured=0.1098, **options):
    options = {"tolerance": 0.005} | options if options.get("relation", "=") == "=" else options
    return Claim("Theorem 2", "entries of one topic are equal", predicted, measured, **options)


@pytest.mark.parametrize(
    "options, holds",
    [
        (dict(predicted=1.0, measured=1.5, tolerance=0.5), True),
        (dict(predicted=1.0, measured=1.6, tolerance=0.5), False),
        (dict(predicted=1.0, measured=0.9, relation="<"), True),
        (dict(predicted=1.0, measured=0.9, relation="<", margin=0.25), False),
        (dict(predicted=1.0, measured=0.75, relation="<", margin=0.25), True),
        (dict(predicted=1.0, measured=1.25, relation=">", margin=0.25), True),
        (dict(predicted=1.0, measured=1.2, relation=">", margin=0.25), False),
        (dict(measured=math.nan), False),
        (dict(measured=math.nan, relation="<"), False),
        (dict(measured=math.nan, relation=">"), False),
        (dict(measured=math.inf, relation=">"), True),
        (dict(predicted=0.0, measured=0.001, tolerance=0.01, kind="control"), True),
    ],
)
def test_verdicts(options, holds):
    assert claim(**options).holds is holds


@pytest.mark.parametrize(
    "options, said",
    [
        (dict(tolerance=None), "wants a tolerance"),
        (dict(tolerance=-1), "wants a tolerance"),
        (dict(tolerance=math.nan), "wants a tolerance"),
        (dict(relation="<", tolerance=0.1), "has no tolerance: use margin"),
        (dict(relation="<", margin=-0.1), "margin must be at least 0"),
        (dict(margin=0.1), "margin must be at least 0, and 0 with relation ="),
        (dict(relation="<="), "relation must be one of =, <, >"),
        (dict(kind="check"), "kind must be claim or control"),
        (dict(predicted=math.nan), "predicted must be a finite number"),
        (dict(digits=0), "digits must be an int"),
    ],
)
def test_impossible_claims(options, said):
    with pytest.raises(ValueError) as error:
        claim(**options)
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "options, shown",
    [
        (dict(digits=4), ("0.1103 ± 0.005", "0.1098")),
        (dict(), ("0.110 ± 0.005", "0.110")),
        (dict(relation="<", predicted=0.05, measured=0.00123), ("< 0.0500", "0.00123")),
        (dict(relation=">", predicted=2.0, measured=12345.6, margin=0.5), ("> 2.50", "12300")),
        (dict(predicted=0.0, measured=3.2e-17, tolerance=1e-6), ("0 ± 1e-06", "0")),
        (dict(predicted=0.0, measured=-3.2e-17, tolerance=1e-6), ("0 ± 1e-06", "0")),
        (dict(predicted=2e-9, measured=2.04e-9, tolerance=1e-10), ("2.00e-09 ± 1e-10", "2.04e-09")),
        (dict(measured=math.nan), ("0.110 ± 0.005", "nan")),
        (dict(predicted=10, measured=10, tolerance=0, digits=2), ("10 ± 0", "10")),
    ],
)
def test_numbers_are_printed_without_rounding_noise(options, shown):
    assert claim(**options).shown == shown


def test_check_prints_one_line_and_does_not_raise(capsys):
    assert check(claim()) is None
    check(claim(measured=0.2, kind="control"))
    first, second = capsys.readouterr().out.splitlines()
    says = "entries of one topic are equal"
    assert first == f"holds          Theorem 2: {says} | predicted 0.110 ± 0.005, measured 0.110"
    assert second == f"DOES NOT HOLD  Theorem 2, control: {says} | predicted 0.110 ± 0.005, measured 0.200"


def test_the_table_and_its_files(tmp_path, capsys):
    check(claim(measured=0.2))
    check(Claim("beyond the paper", "a|b, " + "a long sentence " * 12, 0.5, 0.123456789, relation="<", margin=0.1))
    check(claim())  # the cell was run again: its row is replaced, in its place
    capsys.readouterr()
    write_table(tmp_path)
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert [part.strip() for part in lines[0].split(" | ")] == ["claim", "predicted", "measured", "verdict"]
    assert lines[-1] == "2 of 2 claims hold"
    assert max(map(len, lines)) <= 110
    assert len({line.index(" | ") for line in (lines[0], lines[2], lines[3])}) == 1, "columns are not aligned"

    record = json.loads((tmp_path / "claims_03.json").read_text())
    assert list(record) == ["notebook", "parameters", "claims"]
    assert record["notebook"] == "03_example"
    assert record["parameters"] == {"n_topics": 10, "optimizer": "sgd"}, "figures_dir is not part of the record"
    assert [row["paper"] for row in record["claims"]] == ["Theorem 2", "beyond the paper"]
    assert record["claims"][1]["measured"] == 0.123457, "expected six significant digits"
    keys = ["paper", "says", "relation", "predicted", "measured", "tolerance", "margin", "digits", "kind", "holds"]
    assert list(record["claims"][0]) == keys
    table = (tmp_path / "claims_03.md").read_text()
    assert table.splitlines()[2] == ("| Theorem 2 | entries of one topic are equal | 0.110 ± 0.005 | 0.110 | holds |")
    assert r"a\|b" in table

    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_table(tmp_path)
    assert capsys.readouterr().out == printed
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert sorted(before) == ["claims_03.json", "claims_03.md"], "a temporary file was left"
    assert all(data.endswith(b"\n") for data in before.values())


def test_a_measured_nan_is_null_in_json(tmp_path):
    check(claim(measured=math.nan))
    write_table(tmp_path)
    row = json.loads((tmp_path / "claims_03.json").read_text())["claims"][0]
    assert row["measured"] is None and row["holds"] is False


def test_claims_of_other_parameters_are_forgotten(tmp_path, monkeypatch, run):
    check(claim())
    monkeypatch.setattr(parameters, "_current_run", parameters.Run(run.notebook, run.values | {"n_topics": 5}))
    with pytest.raises(RuntimeError, match=r"call check\(claim\) first"):
        write_table(tmp_path)
    monkeypatch.setattr(parameters, "_current_run", None)
    with pytest.raises(RuntimeError, match="call check_parameters"):
        write_table(tmp_path)
