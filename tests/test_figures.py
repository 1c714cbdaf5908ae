"""The test of figures that conftest.py adds to each notebook finds what it is there for, and shows it."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from conftest import compare_figures
from PIL import Image

from topiclib.book.pictures import save_figure

NOTEBOOK = '"book.save(figure, \\"fig_a\\")", "book.table(\\"tab_a\\")"'


def draw(folder, sign=1, curves=2, label="loss", row="| 1 |"):
    folder.mkdir(exist_ok=True)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
    matrix = np.kron(np.eye(5), np.ones((5, 5)))
    matrix[0, 0] *= sign
    left.imshow(matrix, cmap="RdBu", vmin=-2, vmax=2)
    x = np.linspace(0, 1, 50)
    for k in range(curves):
        right.plot(x, x ** (k + 1))
    right.set_ylabel(label)
    save_figure(figure, folder, "fig_a")
    plt.close(figure)
    (folder / "tab_a.md").write_text(row)


@pytest.fixture
def compare(tmp_path):
    drawn, committed, kept = (tmp_path / name for name in ("drawn", "committed", "kept"))
    draw(committed)
    draw(drawn)
    return lambda: compare_figures(NOTEBOOK, drawn, committed, kept), drawn, kept


@pytest.mark.parametrize(
    "change", [{"sign": -1}, {"curves": 1}, {"label": "loan"}], ids=["flipped sign", "missing curve", "changed label"]
)
def test_a_figure_that_changed(compare, change):
    compared, drawn, kept = compare
    assert compared() == []
    draw(drawn, **change)
    (line,) = compared()
    assert line.startswith("fig_a.png: a part of it differs by ")
    assert Image.open(kept / "differs_fig_a.png").width == 3 * Image.open(drawn / "fig_a.png").width


def test_a_table_that_changed_and_a_figure_that_is_missing(compare):
    compared, drawn, _ = compare
    draw(drawn, row="| 2 |")
    assert compared() == ["tab_a.md: expected\n| 1 |\ngot\n| 2 |"]
    for path in drawn.iterdir():
        path.rename(path.with_stem("fig_b"))
    lines = compared()
    assert [line for line in lines if "did not draw" in line] == [
        f"{name}: the notebook did not draw it" for name in ("fig_a.pdf", "fig_a.png", "tab_a.md")
    ]
    assert "fig_b.png is drawn, but not committed" in lines


def test_each_notebook_has_a_test_of_its_figures(pytestconfig, request):
    notebooks = {item.path.stem for item in request.session.items if item.path.suffix == ".ipynb"}
    compared = {item.path.stem for item in request.session.items if item.name == "figures"}
    assert compared == notebooks
