"""What an eye sees is seen: a flipped sign, a missing curve, a changed label. What it does not see is left alone."""

import io

import matplotlib.pyplot as plt
import numpy as np
import pytest

from topiclib.book import pictures
from topiclib.book.pictures import VISIBLE, difference, save_figure


def heat(sign=1.0, noise=0.0):
    matrix = np.kron(np.eye(10), np.ones((10, 10))) * 0.1
    matrix[33, 33] = 0.1 * sign
    matrix += noise * np.random.default_rng(0).standard_normal(matrix.shape)
    figure, axis = plt.subplots(figsize=(4, 3.5))
    axis.imshow(matrix, cmap="RdBu", vmin=-0.2, vmax=0.2)
    return figure


def curves(number=3, label="loss", shift=0.0, text="step"):
    x = np.linspace(0, 1, 200)
    figure, axis = plt.subplots(figsize=(8, 5))
    for k in range(number):
        axis.plot(x, np.exp(-(k + 1) * x) + shift, linewidth=1, label=f"run {k}")
    axis.set(xlabel=text, ylabel=label, ylim=(0, 1))
    return figure


def png(figure):
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=130)
    plt.close(figure)
    return content.getvalue()


@pytest.mark.parametrize(
    "draw, changes",
    [(heat, {"sign": -1.0}), (curves, {"number": 2}), (curves, {"label": "loan"}), (curves, {"text": "stop"})],
    ids=["flipped sign of one entry", "missing curve", "changed label", "one letter of a label"],
)
def test_what_an_eye_sees(draw, changes):
    assert difference(png(draw()), png(draw(**changes))) > VISIBLE


@pytest.mark.parametrize("draw, changes", [(heat, {"noise": 1e-4}), (curves, {"shift": 2e-5})])
def test_what_an_eye_does_not_see(draw, changes):
    old, new = png(draw()), png(draw(**changes))
    assert old != new and difference(new, old) < VISIBLE / 2


def test_sizes_and_broken_files():
    small, large = (png(plt.figure(figsize=(n, n))) for n in (1, 2))
    assert difference(small, small) == 0 and difference(small, large) == np.inf
    assert difference(small, small[:100]) == difference(b"", small) == np.inf


def test_a_figure_that_looks_as_the_committed_one_is_saved_as_that(tmp_path, monkeypatch):
    def saved(folder, **changes):
        figure = curves(**changes)
        save_figure(figure, folder, "fig")
        plt.close(figure)
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    monkeypatch.setattr(pictures, "ROOT", tmp_path)
    (committed := tmp_path / "figures").mkdir()
    (elsewhere := tmp_path / "runs").mkdir()
    first = saved(committed)
    assert sorted(first) == ["fig.pdf", "fig.png"]
    assert saved(committed, shift=2e-5) == saved(elsewhere, shift=2e-5) == first
    changed = saved(elsewhere, number=2)
    assert all(changed[name] != first[name] for name in first)
    assert saved(committed, number=2) == changed, "the same bytes each time"
    (committed / "fig.pdf").unlink()
    assert saved(committed, number=2) == changed, "a missing half comes back"
