"""What every committed notebook keeps to: run from top to bottom, checked by nbval, the same bytes each time."""

import ast
import itertools
import json
import re
from collections import Counter
from functools import cache

import nbformat
import papermill
import pytest
from prose import unsupported

from topiclib.book import parameters

NOTEBOOKS = sorted((parameters.ROOT / "notebooks").glob("*.ipynb"))
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
# Numbers in a notebook's prose that it does not measure: notebook -> {number: why}.
ELSEWHERE: dict[str, dict[str, str]] = {}
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@cache
def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(path):
    return [cell for cell in read(path).cells if cell.cell_type == "code" and cell.source.strip()]


def outputs(path):
    return [output for cell in code_cells(path) for output in cell.outputs]


def text_of(output):
    """What an output shows as text: a stream, or the text/plain of a result."""
    return output.get("text", "") or output.get("data", {}).get("text/plain", "")


def tagged(path, tag):
    return [cell for cell in read(path).cells if tag in cell.metadata.get("tags", [])]


def defaults(path):
    values = {name: parameter.default for name, parameter in parameters.read_parameters(path).items()}
    values.pop("figures_dir")
    return values


def test_there_are_notebooks():
    assert NOTEBOOKS, "expected notebooks in notebooks/, got none: a rule that is tested on nothing holds for nothing"


@every_notebook
def test_cells_were_run_once_in_order(path):
    got = [cell.execution_count for cell in code_cells(path)]
    expected = list(range(1, len(got) + 1))
    assert got == expected, (
        f"expected execution counts {expected}, got {got}: nbval does not compare a cell without a count; "
        f"commit what `python -m topiclib run {path.stem[:2]}` wrote"
    )


@every_notebook
def test_every_line_of_the_parameters_cell_is_documented(path):
    cells = tagged(path, "parameters")
    assert len(cells) == 1, f"expected one cell tagged parameters, got {len(cells)}"
    lines = [line for line in cells[0].source.splitlines() if line.strip()]
    names = [re.match(r"\w*", line).group() for line in lines]
    seen = papermill.inspect_notebook(str(path))
    assert names == list(seen), (
        f"expected every line to be a parameter that papermill sees, got {names} in the cell and {list(seen)} from "
        "papermill, which cannot read a line with two equals signs or a value over several lines"
    )
    for name, found in seen.items():
        assert found["inferred_type_name"] in parameters.TYPES and found["help"], (
            f"expected `{name}: type = value  # comment`, got {found}: a line without a comment says nothing in "
            "`papermill --help-notebook`"
        )
    ours = parameters.read_parameters(path)
    theirs = {n: (x["inferred_type_name"], ast.literal_eval(x["default"]), x["help"]) for n, x in seen.items()}
    assert {n: (x.type.__name__, x.default, x.help) for n, x in ours.items()} == theirs, (
        "expected topiclib.parameters to read the cell as papermill does"
    )
    assert "figures_dir" in ours, "expected the parameter figures_dir, got none"


@every_notebook
def test_parameters_are_checked_in_the_next_cell(path):
    cells = code_cells(path)
    after = cells[cells.index(tagged(path, "parameters")[0]) + 1].source
    expected = f'book = tl.begin("{path.stem}", globals())'
    assert expected in after, f"expected {expected} in the cell after the parameters, got {after!r}: a copied name?"


@every_notebook
def test_metadata_does_not_change_from_run_to_run(path):
    notebook = read(path)
    expected = {"kernelspec": KERNELSPEC, "language_info": {"name": "python"}}
    how = f"`python -m topiclib run {path.stem[:2]}` strips what JupyterLab and papermill add"
    assert notebook.metadata == expected, f"expected {expected}, got {dict(notebook.metadata)}: {how}"
    noise = {key for cell in notebook.cells for key in cell.metadata} & {"papermill", "execution", "widgets"}
    assert not noise, f"expected no timings or widgets in cell metadata, got {sorted(noise)}: {how}"


@every_notebook
def test_no_injected_parameters(path):
    got = [cell.source for cell in tagged(path, "injected-parameters")]
    assert not got, f"expected the default parameters, got {got}: a run with other values was copied from runs/"


@every_notebook
def test_no_errors_and_nothing_on_stderr(path):
    bad = [output for output in outputs(path) if output.output_type == "error" or output.get("name") == "stderr"]
    assert not bad, f"expected no error and no stderr output, got {bad[:1]}: a warning is fixed at its cause"


@every_notebook
@pytest.mark.parametrize(
    "pattern, mistake",
    [
        (r"0x[0-9a-fA-F]{6,}", "the repr of an object has its address: print what it holds"),
        (r"(?<![\w./])/(root|home|tmp|work|Users)/", "print a path relative to the project"),
        (r"<Figure size|<Axes|\bAxes\(", "end a plot cell with a helper that returns None"),
    ],
    ids=["address", "path", "figure-repr"],
)
def test_text_that_differs_between_machines(path, pattern, mistake):
    # An inline figure carries its repr beside the image; no reader sees that one.
    texts = [text_of(output) for output in outputs(path) if "image/png" not in output.get("data", {})]
    got = [line for text in texts for line in text.splitlines() if re.search(pattern, line)]
    assert not got, f"expected no text like {pattern}, got {got[:1]}: {mistake}"


@every_notebook
def test_no_html(path):
    html = [output for output in outputs(path) if "text/html" in output.get("data", {})]
    assert not html, f"expected text only, got {len(html)} HTML outputs: print a fixed-width table, not a data frame"


@every_notebook
def test_images_are_displayed_not_returned(path):
    images = [output for output in outputs(path) if any(kind.startswith("image/") for kind in output.get("data", {}))]
    got = [output.output_type for output in images if output.output_type != "display_data"]
    assert not got, f"expected display_data for every image, got {got}: the last line of the cell returns the figure"


@every_notebook
@pytest.mark.parametrize(
    "pattern, mistake",
    [
        (r";\s*$", "nbval shows what it hides: end the cell with a helper that returns None"),
        (r"^\s*[!%]", "shell lines and magics do not run everywhere: use Python"),
        (
            r"(filterwarnings|simplefilter)\(\s*[\"']ignore[\"']\s*\)",
            "a blanket filter hides what a reader should see: filter one message, or fix its cause",
        ),
    ],
    ids=["semicolon", "magic", "warnings"],
)
def test_lines_of_code_that_hide_something(path, pattern, mistake):
    lines = [line for cell in code_cells(path) for line in cell.source.splitlines()]
    got = [line for line in lines if re.search(pattern, line)]
    assert not got, f"expected no line like {pattern}, got {got[:1]}: {mistake}"


@every_notebook
def test_nbval_compares_enough(path):
    def compared(output):
        return output.output_type == "stream" or (
            "text/plain" in output.get("data", {}) and "image/png" not in output.data
        )

    got = sum(any(map(compared, cell.outputs)) for cell in code_cells(path))
    assert got >= 5, f"expected text from at least 5 cells, got {got}: nbval skips images; print a digest beside them"


@every_notebook
def test_no_cell_is_hidden_from_nbval(path):
    cells = read(path).cells
    got = [cell.source for cell in cells if "NBVAL_" in cell.source or "nbval" in str(cell.metadata.get("tags", []))]
    got += [cell.source for cell in cells if "raises-exception" in cell.metadata.get("tags", [])]
    assert not got, f"expected every output to be compared, got {got[:1]}: print fewer digits instead"


@every_notebook
def test_no_widget_without_a_kernel(path):
    kinds = {kind for output in outputs(path) for kind in output.get("data", {})}
    got = [kind for kind in kinds if "widget" in kind]
    assert not got, f"expected text in a widget's place, got {got}: `python -m topiclib run {path.stem[:2]}` leaves it"


@every_notebook
def test_first_cell_says_what_this_is(path):
    first = read(path).cells[0]
    title = f"# {path.stem[:2]} · "
    assert first.cell_type == "markdown" and first.source.startswith(title), (
        f"expected a first cell that starts with {title!r}, got {first.source[:40]!r}"
    )
    for wanted in ("arxiv.org/abs/2303.04245", "In this notebook", "Runs in about"):
        assert wanted in first.source, f"expected {wanted!r} in the first cell, got a cell without it"


@every_notebook
def test_size(path):
    size = path.stat().st_size / 1000
    assert size < 800, f"expected less than 800 kB, got {size:.0f} kB: lower the resolution of the inline figures"


@every_notebook
def test_statements_come_out_as_expected_and_as_printed(path):
    last = code_cells(path)[-1]
    assert last.source.strip() == "book.finish()", f"expected book.finish() in the last cell, got {last.source!r}"

    record = parameters.ROOT / "figures" / f"statements_{path.stem[:2]}.json"
    how = f"commit the notebook and figures/ as `python -m topiclib run {path.stem[:2]}` wrote them, together"
    assert record.is_file(), f"expected figures/{record.name}, got no such file: {how}"
    written = json.loads(record.read_text(encoding="utf-8"))
    assert written["notebook"] == path.stem, f"expected the record of {path.stem}, got {written['notebook']}: {how}"
    assert written["parameters"] == defaults(path), (
        f"expected the defaults {defaults(path)}, got {written['parameters']}: if a default was changed on purpose, "
        f"delete the record, then {how}"
    )
    statements = written["statements"]
    failed = [one["says"] for one in statements if not one["as_expected"]]
    assert statements and not failed, f"expected every statement as expected, got {failed or 'none'}"
    checks = sum(len(one["checks"]) for one in statements)
    summary = f"{len(statements)} of {len(statements)} statements as expected, {checks} checks"
    assert text_of(last.outputs[-1]).splitlines()[-1] == summary, how

    printed = " ".join(" ".join(map(text_of, outputs(path))).split())
    for one in statements:
        for wanted in (f"{one['paper']} · {one['says']} [{one['verdict']}]", one["instead"]):
            assert " ".join(wanted.split()) in printed, f"expected {wanted!r} in an output: {how}"
        for check in one["checks"]:
            row = f"{check['measured']} {check['expected']}"
            assert row in printed, f"expected {row!r} of {check['name']} in an output: {how}"


@every_notebook
def test_what_shows_that_a_statement_stops_holding(path):
    record = parameters.ROOT / "figures" / f"statements_{path.stem[:2]}.json"
    for one in json.loads(record.read_text(encoding="utf-8"))["statements"]:
        outside = [check["name"] for check in one["checks"] if check["kind"] == "outside"]
        assert bool(one["only"]) == bool(outside), (
            f"expected only= and s.outside(...) together, got only={one['only']!r} and {outside} in {one['says']!r}"
        )


@every_notebook
def test_every_number_in_the_prose_is_measured(path):
    markdown = [cell.source for cell in read(path).cells if cell.cell_type == "markdown"]
    sources = [*map(text_of, outputs(path)), *(cell.source for cell in tagged(path, "parameters"))]
    got = [number for number in unsupported(markdown, sources) if number not in ELSEWHERE.get(path.stem[:2], {})]
    assert not got, f"expected numbers that an output or a parameter rounds to, got {got}: print them, or cut them"


def test_every_exception_is_needed():
    for number, exceptions in ELSEWHERE.items():
        (path,) = (path for path in NOTEBOOKS if path.stem.startswith(number))
        markdown = [cell.source for cell in read(path).cells if cell.cell_type == "markdown"]
        sources = [*map(text_of, outputs(path)), *(cell.source for cell in tagged(path, "parameters"))]
        assert set(exceptions) <= set(unsupported(markdown, sources)), f"{path.stem} measures these, or is without them"


def test_every_figure_belongs_to_one_notebook():
    text = {path.stem: path.read_text(encoding="utf-8") for path in NOTEBOOKS}
    names = {path.stem for path in (parameters.ROOT / "figures").glob("[ft]*")}
    owners = {name: Counter(stem for stem in text if f'\\"{name}\\"' in text[stem]) for name in names}
    got = {name: list(found) for name, found in owners.items() if len(found) != 1}
    assert names and not got, f"expected one notebook that saves each figure or table, got {got}"


@every_notebook
def test_a_stream_is_one_output(path):
    for cell in code_cells(path):
        streams = [output.get("name") for output in cell.outputs]
        cut = [name for name, following in itertools.pairwise(streams) if name and name == following]
        assert not cut, (
            f"expected what cell [{cell.execution_count}] printed in one output, got pieces: commit what "
            f"`python -m topiclib run {path.stem[:2]}` wrote, which joins them"
        )
