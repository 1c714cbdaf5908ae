"""The scoreboard is what the notebooks say: up to date, every verdict with its claims, every link to its cell."""

import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from string import Formatter
from urllib.parse import unquote

import click
import pytest

from topiclib.book import parameters, report, scoreboard
from topiclib.report import BEGIN, END, UNEXPLAINED
from topiclib.scoreboard import HOLDS, NOT, REGIME, ROWS, SLIPS

PAPER = {
    "Section": ("3.1", "3.2", "4", "5.3", "6", "8"),
    "Appendix": ("D.5", "E"),
    "Assumption": ("1", "2"),
    "Lemma": ("1",),
    "Theorem": ("1", "2", "3", "4", "5"),
    "Remark": ("1",),
    "Figure": ("1", "2", "3", "4", "5", "7", "8", "9", "10"),
    "Table": ("1", "2", "3", "4", "5"),
}
QUOTED = ("only slightly worse", "only slightly greater", "sensitive to hyperparameters", "qualitative aspects")
SAME = "03 Figure 2: squared, SGD: same-topic mean"
EQUAL = "05 c4 / (1 + c4 + 1/c7) - 1 / sqrt(v-1) = 0"
OUTSIDE = "03 Figure 9, control: chosen positions not attended, no L2: diagonal excess"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A copy of the notebooks and their records, with a README and both files written."""
    for folder, pattern in (("notebooks", "*.ipynb"), ("figures", "claims_[0-9][0-9].json")):
        (tmp_path / folder).mkdir()
        for path in (parameters.ROOT / folder).glob(pattern):
            shutil.copy(path, tmp_path / folder)
    (tmp_path / "README.md").write_text(f"# Title\n\nbefore\n\n{BEGIN}\nold\n{END}\n\nafter, é\n", encoding="utf-8")
    monkeypatch.setattr(parameters, "ROOT", tmp_path)
    report.write()
    return tmp_path


def texts(project):
    return [(project / name).read_text(encoding="utf-8") for name in ("README.md", "figures/claims.md")]


def change(project, name, **values):
    """Change the claim of that name in its record; without values, remove it."""
    path = project / "figures" / f"claims_{name[:2]}.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    for row in list(record["claims"]):
        where = f"{row['paper']}, control" if row["kind"] == "control" else row["paper"]
        if f"{where}: {row['says']}" == name[3:]:
            row.update(values)
            if not values:
                record["claims"].remove(row)
            path.write_text(json.dumps(record, ensure_ascii=False), encoding="utf-8")
            return
    raise AssertionError(f"no claim {name}")


def row_of(item):
    return next(row for row in ROWS if row.item == item)


def line_of(text, item, of_slips=False):
    """The line of a row, or of a slip, in the written text."""
    table = text.split(report.SLIPS)[of_slips]
    return next(line for line in table.splitlines() if line.startswith(f"| {item} |"))


@pytest.fixture(scope="module")
def evidence():
    return report.read_evidence()


def test_up_to_date_and_nothing_unexplained():
    assert report.check() == [], "run python -m topiclib report, and read what it says"


def test_written_once_it_is_up_to_date(project):
    before = texts(project)
    assert report.check() == [] and report.write() == [] and texts(project) == before
    assert before[0].startswith(f"# Title\n\nbefore\n\n{BEGIN}\n") and before[0].endswith(f"{END}\n\nafter, é\n")
    assert "old" not in before[0].split(BEGIN)[1].split("\n")
    assert not [path for path in project.rglob(".*") if path.is_file()], "a temporary file was left"


def test_rows_and_counts(project):
    readme, board = texts(project)
    for text, rows in ((readme, [row for row in ROWS if row.in_readme]), (board, ROWS)):
        results, slips = (part.count("\n|") - 2 for part in text.split(report.SLIPS))
        assert results == len(rows) and slips == len(SLIPS) + 2 + len(report.read_evidence().notebooks)
        number = Counter(row.verdict for row in rows)
        said = f"{number[HOLDS]} hold, {number[REGIME]} hold only in a regime, {number[NOT]} do not hold. "
        every = sum(path.read_text().count('"holds": true') for path in (project / "figures").glob("claims_*.json"))
        assert f"{len(rows)} statements: {said}{every} of {every} claims hold." in text
    assert [line[20:-2] for line in board.splitlines() if line.startswith("Outside the regime (")] == [
        row.regime for row in ROWS if row.outside
    ]


@pytest.mark.parametrize("name", ["README.md", "figures/claims.md"])
def test_a_file_that_is_changed_or_missing_is_out_of_date(project, name):
    path = project / name
    path.write_text(path.read_text(encoding="utf-8").replace("holds |", "does not hold |", 1), encoding="utf-8")
    assert report.check() == [f"{name} is out of date: run python -m topiclib report"]
    changed = path.read_text(encoding="utf-8")
    assert changed == path.read_text(encoding="utf-8"), "check must not write"
    if name != "README.md":
        path.unlink()
        assert report.check() == [f"{name} is out of date: run python -m topiclib report"]
        assert not path.exists(), "check must not write"


def test_numbers_come_from_the_records(project):
    change(project, SAME, predicted=0.777, tolerance=0.0123, measured=0.888)
    stale = ["README.md is out of date", "figures/claims.md is out of date"]
    assert [line.split(":")[0] for line in report.check()] == stale
    report.write()
    for text in texts(project):
        line = line_of(text, "Figure 2").replace("\N{NO-BREAK SPACE}", " ")
        assert "same topic 0.777 ± 0.012" in line and "| 0.888, " in line
    assert report.check() == []


def test_a_cell_that_moves_takes_its_links_along(project):
    path = project / "notebooks" / "03_stage1_value_matrix.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    counts = [cell["execution_count"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["execution_count"] += 100
    path.write_text(json.dumps(notebook), encoding="utf-8")
    assert len(report.check()) == 2
    report.write()
    found = {int(count) for text in texts(project) for count in re.findall(r"\[03\s\[(\d+)\]\]", text)}
    assert found and found <= {count + 100 for count in counts}


@pytest.mark.parametrize("name, item", [(SAME, "Figure 2"), (OUTSIDE, "Figure 9")])
@pytest.mark.parametrize("values", [{"holds": False}, {"measured": None, "holds": False}, {}])
def test_a_claim_that_stops_holding_leaves_its_row_unexplained(project, name, item, values):
    assert not any(UNEXPLAINED in text for text in texts(project))
    change(project, name, **values)
    lines = [line for line in report.write() if f": {item}: " in line]
    what = "does not hold" if values else "no such claim (renamed to 03 Figure "
    assert len(lines) == 1 and lines[0].startswith(f"{UNEXPLAINED}: {item}: {name}: {what}")
    assert set(lines) <= set(report.check()), "written, but not explained"
    for text in texts(project):
        bad = {line.split(" | ")[0][2:] for line in text.splitlines() if f"| {UNEXPLAINED} |" in line}
        assert bad == {row.item for row in ROWS if name in row.evidence + row.outside} and item in bad


def test_claims_in_no_row_must_hold_too_or_be_explained(project, monkeypatch):
    used = {name for row in ROWS for name in row.evidence + row.outside} | {name for s in SLIPS for name in s.claims}
    name = sorted(set(report.read_evidence().claims) - used)[0]
    change(project, name, holds=False)
    assert report.write() == [f"{UNEXPLAINED}: in no row: {name}: does not hold"]
    monkeypatch.setattr(scoreboard, "EXPLAINED", {name: "a reason"})
    assert report.write() == []
    change(project, name, holds=True)
    assert report.write() == [f"{UNEXPLAINED}: in EXPLAINED: {name}: is no failure"]


@pytest.mark.parametrize(
    "name, text, item",
    [
        (SAME, "Figure 2: squared, SGD: same-topic mean | predicted ", "Figure 2"),
        (EQUAL, "c4 / (1 + c4 + 1/c7) - 1 / sqrt(v-1) = 0", "Theorem 5, proof, c₇"),
    ],
)
@pytest.mark.parametrize("times", [0, 2])
def test_evidence_is_printed_by_one_cell(project, name, text, item, times):
    (path,) = (project / "notebooks").glob(f"{name[:2]}_*.ipynb")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    (place,) = [place for place, cell in enumerate(notebook["cells"]) if text in printed(path, cell["id"])]
    notebook["cells"][place : place + 1] = [notebook["cells"][place]] * times
    path.write_text(json.dumps(notebook), encoding="utf-8")
    assert f"{UNEXPLAINED}: {item}: {name}: printed by {times} cells of the notebook, not by one" in report.write()


def test_a_new_notebook_needs_nothing_but_its_record(project, monkeypatch):
    row = replace(row_of("Figure 2"), item="Section 9", evidence=("08 Figure 2: squared, SGD: same-topic mean",) * 4)
    monkeypatch.setattr(scoreboard, "ROWS", (*ROWS, replace(row, note="")))
    with pytest.raises(
        click.ClickException, match=r"figures/claims_08\.json is missing: run python -m topiclib run 08"
    ):
        report.check()
    record = json.loads((project / "figures" / "claims_03.json").read_text(encoding="utf-8"))
    record["notebook"] = "08_new"
    shutil.copy(project / "notebooks" / "03_stage1_value_matrix.ipynb", project / "notebooks" / "08_new.ipynb")
    (project / "figures" / "claims_08.json").write_text(json.dumps(record), encoding="utf-8")
    assert report.write() == []
    assert "[08\N{NO-BREAK SPACE}[" in line_of(texts(project)[0], "Section 9")


@pytest.mark.parametrize(
    "spoil, said",
    [
        (lambda p: (p / "README.md").write_text("no place"), "README.md has no place for the results"),
        (lambda p: (p / "README.md").write_text(f"{END}{BEGIN}"), "README.md has no place for the results"),
        (lambda p: (p / "README.md").unlink(), "README.md has no place for the results"),
        (lambda p: (p / "figures/claims_03.json").write_text("{"), "figures/claims_03.json cannot be read: run"),
        (lambda p: (p / "figures/claims_03.json").write_text('{"claims": []}'), "figures/claims_03.json cannot be"),
        (lambda p: (p / "notebooks/01_data.ipynb").unlink(), "notebooks/01_data.ipynb is missing: run python -m topic"),
        (lambda p: (p / "notebooks/01_data.ipynb").write_text("[]"), "notebooks/01_data.ipynb cannot be read: run"),
        (
            lambda p: (p / "figures/claims_06.json").unlink(),
            "figures/claims_06.json is missing: run python -m topiclib",
        ),
        (lambda p: shutil.rmtree(p / "figures"), "figures/claims_01.json is missing: run python -m topiclib run 01"),
    ],
)
def test_what_cannot_be_read_is_one_clear_line(project, spoil, said):
    spoil(project)
    for function in (report.write, report.check):
        with pytest.raises(click.ClickException) as error:
            function()
        assert error.value.message.startswith(said) and "\n" not in error.value.message


def test_every_item_of_the_paper_has_a_row_in_the_readme():
    found = set()
    for item in (row.item for row in ROWS if row.in_readme):
        for kind, numbers in re.findall(r"([A-Z][a-z]+?)s? ((?:(?:\d|[A-E]\b)[\d.]*(?:, )?)+)", item):
            found |= {(kind, number) for number in re.findall(r"[^, ]+", numbers)}
    assert not {(kind, number) for kind, numbers in PAPER.items() for number in numbers} - found
    assert not [words for words in QUOTED if not any(f'"{words}"' in row.item for row in ROWS if row.in_readme)]
    assert 20 <= sum(row.in_readme for row in ROWS) <= 32, "the README's table is to stay readable"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.item)
def test_rows_name_their_evidence_and_type_no_number(row, evidence):
    assert row.verdict in (HOLDS, REGIME, NOT) and row.evidence
    assert bool(row.regime) == bool(row.outside) == (row.verdict == REGIME), "a regime has an inside and an outside"
    names = row.evidence + row.outside
    assert max(Counter(names).values()) == 1
    used = {text: {int(k) for _, k, *_ in Formatter().parse(text) if k} for text in (row.predicted, row.measured)}
    assert all(used.values()), "predicted and measured need a number of a claim"
    if row.outside:
        assert any(k >= len(row.evidence) for k in used[row.measured]), "show what is measured outside, too"
    assert not [name for name in names if name not in evidence.claims]
    assert not [file for file in row.figures.values() if not (parameters.ROOT / "figures" / file).is_file()]
    typed = [text for text in (row.predicted, row.measured, row.note) if re.search(r"\d\.\d|\d%", text)]
    assert not typed, "numbers come from the records"


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: slip.item)
def test_slips_are_proved(slip, evidence):
    assert slip.claims or slip.printed
    wrong = [evidence.wrong(name) for name in slip.claims] + [evidence.wrong(name, False) for name in slip.printed]
    assert not any(wrong)
    assert not re.search(r"\d\.\d|\d%", slip.wrong + slip.right), "numbers come from the records"


def test_every_figure_is_linked():
    linked = {file for row in ROWS for file in row.figures.values()}
    there = {
        path.name for path in (parameters.ROOT / "figures").iterdir() if re.match(r"fig.*\.png|tab\d.*\.md", path.name)
    }
    assert linked == there


def test_every_link_leads_to_a_file_and_to_the_cell_that_it_names(project):
    checked = 0
    for path, text in zip((project / "README.md", project / "figures/claims.md"), texts(project), strict=True):
        for label, target, cell_id in re.findall(r"\[(\d\d\s\[\d+\]|[^][]+)\]\(([^)#\s]+)(?:#cell-id=(\S+))?", text):
            file = (path.parent / unquote(target)).resolve()
            assert (parameters.ROOT.parent / file).is_file() or in_repository(project, file), target
            if cell_id:
                number, count = re.match(r"(\d\d)\s\[(\d+)\]", label).groups()
                found = [cell["execution_count"] for cell in cells_of(file) if cell["id"] == cell_id]
                assert file.name.startswith(number) and found == [int(count)]
                checked += 1
    assert checked > 100


def in_repository(project, file):
    """Figures are not copied: look them up where they are."""
    return (Path(report.__file__).resolve().parent.parent / file.relative_to(project.resolve())).is_file()


def test_the_linked_cell_prints_the_evidence(project):
    """Looked up here in another way: from the written text, in the notebook's own lines."""
    text = texts(project)[1].replace("\N{NO-BREAK SPACE}", " ")
    lines = re.findall(
        r"^\* \[\d\d \[\d+\]\]\(\.\./(\S+)#cell-id=(\S+) .*?\) (.+): predicted .+, measured ", text, re.M
    )
    assert len(lines) == sum(len(row.evidence + row.outside) for row in ROWS)
    for path, cell_id, sentence in lines:
        assert sentence.replace("\\", "") in printed(project / path, cell_id)
    for slip in SLIPS:
        links = re.findall(r"\(\.\./(notebooks\S+)#cell-id=(\S+) ", line_of(text, slip.item, of_slips=True))
        cells = [printed(project / path, cell_id) for path, cell_id in links]
        assert all(any(name[3:] in cell for cell in cells) for name in slip.claims + slip.printed)
    assert lines[0][2] not in printed(project / lines[0][0], "c07"), "the control: another cell does not print it"


@cache
def cells_of(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def printed(path, cell_id):
    (outputs,) = [cell.get("outputs", []) for cell in cells_of(path) if cell["id"] == cell_id]
    return " ".join("".join("".join(output.get("text", "")) for output in outputs).split())


def test_claims_are_printed_as_in_their_own_table(evidence):
    table = (parameters.ROOT / "figures" / "claims_03.md").read_text(encoding="utf-8")
    shown = [evidence.fill("{0}", (SAME,), measured).replace("\N{NO-BREAK SPACE}", " ") for measured in (False, True)]
    assert f"| squared, SGD: same-topic mean | {shown[0]} | {shown[1]} |" in table
