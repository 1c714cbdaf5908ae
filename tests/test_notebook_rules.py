"""What every committed notebook keeps to: run from top to bottom, checked by nbval, the same bytes each time."""

import ast
import itertools
import json
import re
from functools import cache

import nbformat
import papermill
import pytest

from topiclib.book import parameters

NOTEBOOKS = sorted((parameters.ROOT / "notebooks").glob("*.ipynb"))
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
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
    expected = f'check_parameters("{path.stem}", globals())'
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
    """But for a widget, whose cell is marked in its first line and says why in the next."""
    cells = read(path).cells
    widgets = [
        cell for cell in cells if cell.source.startswith("# NBVAL_IGNORE_OUTPUT\n# The output is not compared: ")
    ]
    assert all("widgets." in cell.source for cell in widgets) and len(widgets) <= 1, (
        f"expected at most one ignored cell, with a widget, got {[cell.source[:200] for cell in widgets]}"
    )
    others = [cell for cell in cells if cell not in widgets]
    got = [cell.source for cell in others if "NBVAL_" in cell.source or "nbval" in str(cell.metadata.get("tags", []))]
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
def test_claims_hold_and_agree_with_the_last_cell(path):
    last = code_cells(path)[-1]
    assert "write_table(" in last.source, f"expected write_table in the last code cell, got {last.source!r}"

    record = parameters.ROOT / "figures" / f"claims_{path.stem[:2]}.json"
    how = f"commit the notebook and figures/ as `python -m topiclib run {path.stem[:2]}` wrote them, together"
    assert record.is_file(), f"expected figures/{record.name}, got no such file: {how}"
    written = json.loads(record.read_text(encoding="utf-8"))
    assert written["notebook"] == path.stem, f"expected the record of {path.stem}, got {written['notebook']}: {how}"
    assert written["parameters"] == defaults(path), (
        f"expected the defaults {defaults(path)}, got {written['parameters']}: if a default was changed on purpose, "
        f"delete the record, then {how}"
    )
    failed = [claim["says"] for claim in written["claims"] if not claim["holds"]]
    assert written["claims"] and not failed, f"expected that every claim holds, got {failed or 'no claims'}"

    # The printed table, the Markdown table and the record say the same. Long sentences are wrapped in the first.
    printed = "".join(text_of(output) for output in last.outputs).splitlines()
    assert len(printed) > 4, f"expected the table of claims as the output of the last cell, got {printed}: {how}"
    markdown = record.with_suffix(".md").read_text(encoding="utf-8").splitlines()
    assert printed[-1] == markdown[-1] == f"{len(written['claims'])} of {len(written['claims'])} claims hold", how
    in_cell = []
    for line in printed[2:-2]:
        sentence, *numbers = line.rsplit(" | ", 3)
        if numbers:
            in_cell.append([sentence.strip(), *map(str.strip, numbers)])
        else:
            in_cell[-1][0] += f" {sentence.strip()}"
    rows = [[cell.replace(r"\|", "|") for cell in line[2:-2].split(" | ")] for line in markdown[2:-2]]
    in_file = [[f"{paper}: {says}", *numbers] for paper, says, *numbers in rows]
    assert in_cell == in_file, f"expected {in_file} as in figures/{record.stem}.md, got {in_cell}: {how}"
    in_record = [claim["says"] for claim in written["claims"]]
    assert [says for _, says, *_ in rows] == in_record, f"expected the claims of figures/{record.name}: {how}"


@every_notebook
def test_a_stream_is_one_output(path):
    for cell in code_cells(path):
        streams = [output.get("name") for output in cell.outputs]
        cut = [name for name, following in itertools.pairwise(streams) if name and name == following]
        assert not cut, (
            f"expected what cell [{cell.execution_count}] printed in one output, got pieces: commit what "
            f"`python -m topiclib run {path.stem[:2]}` wrote, which joins them"
        )
