"""What an eye sees is seen: a flipped sign, a missing curve, a changed label. What it does not see is left alone."""

import io

import matplotlib.pyplot as plt
import numpy as np
import pytest

from topiclib.book.pictures import VISIBLE, difference, looks_same, save_figure


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
    assert not looks_same(png(draw()), png(draw(**changes)))


@pytest.mark.parametrize("draw, changes", [(heat, {"noise": 1e-4}), (curves, {"shift": 2e-5})])
def test_what_an_eye_does_not_see(draw, changes):
    old, new = png(draw()), png(draw(**changes))
    assert old != new and difference(new, old) < VISIBLE / 2 and looks_same(new, old)


def test_sizes_and_broken_files():
    small, large = (png(plt.figure(figsize=(n, n))) for n in (1, 2))
    assert difference(small, small) == 0 and difference(small, large) == np.inf
    assert not looks_same(small, small[:100]) and not looks_same(b"", small)


def test_a_saved_figure_is_replaced_only_if_it_changed(tmp_path):
    def files():
        return {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    save_figure(curves(), tmp_path, "fig")
    first = files()
    assert sorted(first) == ["fig.pdf", "fig.png"]
    save_figure(curves(shift=2e-5), tmp_path, "fig")
    assert files() == first, "it looks the same: left as it was"
    save_figure(curves(number=2), tmp_path, "fig")
    second = files()
    assert second["fig.png"] != first["fig.png"] and second["fig.pdf"] != first["fig.pdf"]
    (tmp_path / "fig.pdf").unlink()
    save_figure(curves(number=2), tmp_path, "fig")
    assert files() == second, "the same bytes each time; a missing half comes back"
