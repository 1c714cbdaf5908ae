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
from topiclib.book.run import KERNELSPEC

NOTEBOOKS = sorted((parameters.ROOT / "notebooks").glob("*.ipynb"))
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


def kinds(output):
    """The MIME types of an output's data."""
    return set(output.get("data", {}))


def tagged(path, tag):
    return [cell for cell in read(path).cells if tag in cell.metadata.get("tags", [])]


def defaults(path):
    values = {name: parameter.default for name, parameter in parameters.read_parameters(path).items()}
    values.pop("figures_dir")
    return values


def record(path):
    """What the notebook's last run wrote of its statements."""
    return json.loads((parameters.ROOT / "figures" / f"statements_{path.stem[:2]}.json").read_text(encoding="utf-8"))


def test_there_are_notebooks():
    assert NOTEBOOKS, "a rule that is tested on nothing holds for nothing"


@every_notebook
def test_cells_were_run_once_in_order(path):
    got = [cell.execution_count for cell in code_cells(path)]
    how = f"nbval skips a cell without a count; commit what `python -m topiclib run {path.stem[:2]}` wrote"
    assert got == list(range(1, len(got) + 1)), how


@every_notebook
def test_every_line_of_the_parameters_cell_is_documented(path):
    (cell,) = tagged(path, "parameters")
    names = [re.match(r"\w*", line).group() for line in cell.source.splitlines() if line.strip()]
    seen = papermill.inspect_notebook(str(path))
    assert names == list(seen), "papermill cannot read a line with two equals signs or a value over several lines"
    for name, found in seen.items():
        assert found["inferred_type_name"] in parameters.TYPES and found["help"], (
            f"expected `{name}: type = value  # comment`, got {found}"
        )
    ours = parameters.read_parameters(path)
    theirs = {n: (x["inferred_type_name"], ast.literal_eval(x["default"]), x["help"]) for n, x in seen.items()}
    assert {n: (x.type.__name__, x.default, x.help) for n, x in ours.items()} == theirs
    assert "figures_dir" in ours


@every_notebook
def test_parameters_are_checked_in_the_next_cell(path):
    cells = code_cells(path)
    after = cells[cells.index(tagged(path, "parameters")[0]) + 1].source
    expected = f'book = tl.begin("{path.stem}", globals())'
    assert expected in after, "a copied name?"


@every_notebook
def test_metadata_does_not_change_from_run_to_run(path):
    how = f"`python -m topiclib run {path.stem[:2]}` strips what JupyterLab and papermill add"
    assert read(path).metadata == {"kernelspec": KERNELSPEC, "language_info": {"name": "python"}}, how
    assert not {key for cell in read(path).cells for key in cell.metadata} & {"papermill", "execution", "widgets"}, how


@every_notebook
def test_no_injected_parameters(path):
    assert not tagged(path, "injected-parameters"), "a run with other values was copied from runs/"


@every_notebook
@pytest.mark.parametrize(
    "is_wrong, mistake",
    [
        (lambda x: x.output_type == "error" or x.get("name") == "stderr", "a warning is fixed at its cause"),
        (lambda x: "text/html" in kinds(x), "print a fixed-width table, not a data frame"),
        (
            lambda x: x.output_type != "display_data" and any(kind.startswith("image/") for kind in kinds(x)),
            "the last line of the cell returns the figure",
        ),
        (lambda x: any("widget" in kind for kind in kinds(x)), "`python -m topiclib run` leaves text in its place"),
    ],
    ids=["error", "html", "returned-image", "widget"],
)
def test_outputs_of_no_such_kind(path, is_wrong, mistake):
    got = [output for output in outputs(path) if is_wrong(output)]
    assert not got, f"{mistake}: {got[:1]}"


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
    assert not got, f"{mistake}: {got[:1]}"


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
    assert not got, f"{mistake}: {got[:1]}"


@every_notebook
def test_nbval_compares_enough(path):
    def compared(output):
        return output.output_type == "stream" or ("text/plain" in kinds(output) and "image/png" not in kinds(output))

    got = sum(any(map(compared, cell.outputs)) for cell in code_cells(path))
    assert got >= 5, "text from at least 5 cells is wanted: nbval skips images; print a digest beside them"


@every_notebook
def test_no_cell_is_hidden_from_nbval(path):
    cells = read(path).cells
    got = [cell.source for cell in cells if "NBVAL_" in cell.source or "nbval" in str(cell.metadata.get("tags", []))]
    got += [cell.source for cell in cells if "raises-exception" in cell.metadata.get("tags", [])]
    assert not got, "every output is compared: print fewer digits instead"


@every_notebook
def test_first_cell_says_what_this_is(path):
    first = read(path).cells[0]
    assert first.cell_type == "markdown" and first.source.startswith(f"# {path.stem[:2]} · ")
    for wanted in ("arxiv.org/abs/2303.04245", "In this notebook", "Runs in about"):
        assert wanted in first.source


@every_notebook
def test_size(path):
    assert path.stat().st_size < 800_000, "lower the resolution of the inline figures"


@every_notebook
def test_statements_come_out_as_expected_and_as_printed(path):
    last = code_cells(path)[-1]
    assert last.source.strip() == "book.finish()"
    how = f"commit the notebook and figures/ as `python -m topiclib run {path.stem[:2]}` wrote them, together"
    written = record(path)
    assert written["notebook"] == path.stem, how
    assert written["parameters"] == defaults(path), f"if a default was changed on purpose, delete the record; {how}"
    statements = written["statements"]
    failed = [one["says"] for one in statements if not one["as_expected"]]
    assert statements and not failed, f"not as expected: {failed}"
    checks = sum(len(one["checks"]) for one in statements)
    summary = f"{len(statements)} of {len(statements)} statements as expected, {checks} checks"
    assert text_of(last.outputs[-1]).splitlines()[-1] == summary, how

    printed = " ".join(" ".join(map(text_of, outputs(path))).split())
    for one in statements:
        rows = [f"{check['measured']} {check['expected']}" for check in one["checks"]]
        for wanted in (f"{one['paper']} · {one['says']} [{one['verdict']}]", one["instead"], *rows):
            assert " ".join(wanted.split()) in printed, f"not printed: {wanted!r}; {how}"


@every_notebook
def test_what_shows_that_a_statement_stops_holding(path):
    for one in record(path)["statements"]:
        outside = [check["name"] for check in one["checks"] if check["kind"] == "outside"]
        assert bool(one["only"]) == bool(outside), f"only= and s.outside(...) come together: {one['says']}"


def not_measured(path):
    """Numbers in the prose of a notebook that no output or parameter rounds to."""
    markdown = [cell.source for cell in read(path).cells if cell.cell_type == "markdown"]
    return unsupported(markdown, [*map(text_of, outputs(path)), *(cell.source for cell in tagged(path, "parameters"))])


@every_notebook
def test_every_number_in_the_prose_is_measured(path):
    got = [number for number in not_measured(path) if number not in ELSEWHERE.get(path.stem[:2], {})]
    assert not got, f"print these, or cut them: {got}"


def test_every_exception_is_needed():
    for number, exceptions in ELSEWHERE.items():
        (path,) = (path for path in NOTEBOOKS if path.stem.startswith(number))
        assert set(exceptions) <= set(not_measured(path)), f"{path.stem} measures these, or is without them"


def test_every_figure_belongs_to_one_notebook():
    text = {path.stem: path.read_text(encoding="utf-8") for path in NOTEBOOKS}
    names = {path.stem for path in (parameters.ROOT / "figures").glob("[ft]*")}
    owners = {name: Counter(stem for stem in text if f'\\"{name}\\"' in text[stem]) for name in names}
    got = {name: list(found) for name, found in owners.items() if len(found) != 1}
    assert names and not got


@every_notebook
def test_a_stream_is_one_output(path):
    how = f"commit what `python -m topiclib run {path.stem[:2]}` wrote, which joins the pieces"
    for cell in code_cells(path):
        streams = [output.get("name") for output in cell.outputs]
        assert not [name for name, following in itertools.pairwise(streams) if name and name == following], how
