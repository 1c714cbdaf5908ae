"""The README's lists and figures/statements.md say what the records say, and link to the cells that printed it."""

import json
import re

import pytest

from topiclib.book import report
from topiclib.book.statements import Book

README = "# Title\n\n<!-- headlines -->\nold\n<!-- /headlines -->\n\ntext\n\n<!-- slips -->\n<!-- /slips -->\n\nend\n"


@pytest.fixture
def project(tmp_path, monkeypatch, capsys):
    """One notebook of three cells with three statements, its record and its figure; a README with places."""
    monkeypatch.setattr(report, "ROOT", tmp_path)
    for folder in ("notebooks", "figures"):
        (tmp_path / folder).mkdir()
    (tmp_path / "README.md").write_text(README)
    book, cells = Book("03_example", {"seed": 0}, tmp_path / "figures"), []
    book.saved = {"fig02_value", "tab3_attention"}
    (tmp_path / "figures" / "fig02_value.png").touch()
    (tmp_path / "figures" / "tab3_attention.md").touch()
    statements = [
        ("Figure 2", "Blocks | appear", {"headline": True, "figure": ["fig02_value", "tab3_attention"]}),
        ("Theorem 3", "The bound is λ₁. " * 12, {"instead": "The bound is smaller."}),
        ("Theorem 3", "The bound", {}),
    ]
    for count, (paper, says, options) in enumerate(statements, start=1):
        with book.statement(paper, says.strip(), **options) as s:
            s.check("the first", 2, above=1)
            s.control("another", 0.1, equals=0.1, within=0.01)
        outputs = [{"output_type": "stream", "name": "stdout", "text": capsys.readouterr().out}]
        cells.append({"cell_type": "code", "id": f"c{count}", "execution_count": count, "outputs": outputs})
    book.finish()
    (tmp_path / "notebooks" / "03_example.ipynb").write_text(json.dumps({"cells": cells}))
    return tmp_path


def change(project, function):
    record = project / "figures" / "statements_03.json"
    content = json.loads(record.read_text())
    function(content["statements"])
    record.write_text(json.dumps(content))


def test_what_is_written(project):
    assert report.update(check=True) == [
        "README.md is out of date: run python -m topiclib report",
        "figures/statements.md is out of date: run python -m topiclib report",
    ]
    assert report.update() == [] and report.update(check=True) == []
    readme, everything = (project / "README.md").read_text(), (project / "figures" / "statements.md").read_text()
    link = "[03[{0}]](notebooks/03_example.ipynb#cell-id=c{0})"
    figures = "[fig02](figures/fig02_value.png), [tab3](figures/tab3_attention.md)"
    says = ("The bound is λ₁. " * 12).strip()
    headline = f"* **Figure 2** Blocks | appear. {link.replace('{0}', '1')}, {figures}"
    slip = f"* **Theorem 3** *{says}* The bound is smaller. {link.replace('{0}', '2')}"
    assert readme == README.replace("\nold\n", f"\n{headline}\n").replace("slips -->\n<", f"slips -->\n{slip}\n<")
    assert "3 statements, 6 checks: 2 holds, 1 does not hold." in everything
    assert r"**Figure 2 · Blocks \| appear** *holds*" in everything
    assert "| the first | 2.00 | > 1 |" in everything and "| control: another | 0.100 | 0.100 ± 0.01 |" in everything
    assert "Instead: The bound is smaller." in everything
    for target in re.findall(r"\]\(([^)#]+)", everything):
        assert (project / "figures" / target).resolve().is_file(), target


def test_a_statement_is_found_by_its_whole_sentence(project):
    report.update()
    everything = (project / "figures" / "statements.md").read_text()
    assert re.findall(r"03\[(\d)\]\]\(\S*#cell-id=(\w+)\)", everything) == [("1", "c1"), ("2", "c2"), ("3", "c3")]


@pytest.mark.parametrize(
    "break_it, said",
    [
        (
            lambda root: (root / "figures" / "fig02_value.png").unlink(),
            r"^fig02_value\.png is missing: Figure 2",
        ),
        (lambda root: change(root, lambda s: s[0].update(as_expected=False)), "^not as expected: Figure 2 · Blocks"),
        (lambda root: change(root, lambda s: s[0].update(says="Else")), "^no cell prints it: Figure 2 · Else: run"),
    ],
)
def test_what_is_wrong_is_said(project, break_it, said):
    break_it(project)
    for lines in (report.update(), report.update(check=True)):
        assert len(lines) == 1 and re.search(said, lines[0])


@pytest.mark.parametrize(
    "path, content, said",
    [
        ("figures/statements_03.json", None, r"^03_example has no record in figures/: python -m topiclib run 03$"),
        (
            "figures/statements_03.json",
            '{"statem',
            r"figures/statements_03\.json cannot be read: restore it with git checkout",
        ),
        ("notebooks/03_example.ipynb", '{"cel', r"^03_example\.ipynb is not a notebook"),
        ("README.md", "nothing", "^README.md has no place for headlines"),
        ("README.md", README + README, "^README.md has no place for headlines"),
    ],
)
def test_what_cannot_be_read_stops_before_anything_is_written(project, path, content, said):
    (project / path).unlink()
    if content is not None:
        (project / path).write_text(content)
    before = {file: file.read_bytes() for file in project.rglob("*") if file.is_file()}
    with pytest.raises(ValueError) as error:
        report.update()
    assert re.search(said, str(error.value))
    assert {file: file.read_bytes() for file in project.rglob("*") if file.is_file()} == before
