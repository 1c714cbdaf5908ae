"""How the figures look, and how they are saved."""

import io
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns

from .book.parameters import write_whole
from .data import TopicModel

DIVERGING = sns.color_palette("vlag", as_cmap=True).resampled(31)  # odd: zero is white; few colours: small files

AXES = ("word predicted", "word seen")

# One thing, one colour, in every notebook; what is predicted rather than trained is dashed black.
COLOURS = {"W_V": "C0", "W_K": "C3", "W_Q": "C4"}
COLOURS |= {"same word": "C1", "same topic": "C2", "different topic": "C7", "block": "C9", "diagonal": "C5"}
THEORY = {"color": "k", "linestyle": "--", "linewidth": 1.1}

sns.set_theme(
    context="notebook",
    style="ticks",
    palette="colorblind",
    rc={
        "figure.constrained_layout.use": True,
        "figure.dpi": 72,
        "savefig.dpi": 130,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": "medium",
        "legend.frameon": False,
        "lines.linewidth": 1.8,
        "pdf.fonttype": 42,
    },
)


def heat_maps(
    panels: dict[str, np.ndarray], topics: TopicModel, *, columns=4, limit=None, label="entry", names=AXES, axes=None
):
    """Matrices over tokens side by side, one diverging colour scale centred at 0, lines between topics; the figure.

    panels: title -> (V+1) x (V+1) matrix, row = word predicted, column = word seen, row and column 0 = [MASK].
    limit: end of the colour scale; by default the 99.5% quantile of |entries| between words, the largest of all panels.
    names: labels of the two axes, of rows and of columns.
    axes: draw into these instead of a new figure (then the colour bar goes beside them).
    """
    if axes is None:
        rows = -(-len(panels) // columns)
        columns = min(columns, len(panels))
        size = (2.75 * columns + 0.9, 2.95 * rows)
        axes = plt.subplots(rows, columns, figsize=size, squeeze=False, sharex=True, sharey=True)[1]
        for spare in axes.flat[len(panels) :]:
            spare.remove()
    axes = np.ravel(axes)[: len(panels)]
    if limit is None:
        limit = max(np.quantile(np.abs(matrix[1:, 1:]), 0.995) for matrix in panels.values()) or 1.0
    for axis, (title, matrix) in zip(axes, panels.items(), strict=True):
        image = axis.imshow(matrix, cmap=DIVERGING, vmin=-limit, vmax=limit, interpolation="nearest")
        axis.set_title(title)
        edges = np.arange(topics.T + 1) * topics.v + 0.5
        axis.set_xticks(edges, [])
        axis.set_yticks(edges, [])
        if topics.T <= 20:
            axis.hlines(edges, 0.5, topics.V + 0.5, color="0.5", linewidth=0.3)
            axis.vlines(edges, 0.5, topics.V + 0.5, color="0.5", linewidth=0.3)
        axis.tick_params(length=2)
        sns.despine(ax=axis, left=True, bottom=True)
    grid = axes[0].get_subplotspec().get_gridspec()
    for axis in axes:
        place = axis.get_subplotspec()
        if place.colspan.start == 0:
            axis.set_ylabel(names[0])
        if place.rowspan.stop == grid.nrows:
            axis.set_xlabel(names[1])
    axes[0].figure.colorbar(image, ax=list(axes), label=label, fraction=0.03, pad=0.02, extend="both")
    return axes[0].figure


def heat_map_rows(rows: dict[str, dict[str, np.ndarray]], topics: TopicModel, *, label="entry", names=AXES):
    """Rows of heat maps, row title -> {panel title: matrix}, a colour scale for each row; the figure."""
    columns = max(map(len, rows.values()))
    figure = plt.figure(figsize=(2.4 * columns + 1.4, 3.2 * len(rows)))
    for part, (title, panels) in zip(np.ravel(figure.subfigures(len(rows), 1)), rows.items(), strict=True):
        axes = part.subplots(1, columns, squeeze=False)[0]
        for spare in axes[len(panels) :]:
            spare.remove()
        part.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize="medium")
        heat_maps(panels, topics, axes=axes, label=label, names=names)
    return figure


def save_figure(figure, folder: Path, name: str) -> None:
    """Write `name`.png and `name`.pdf into `folder`, the same bytes each time; never a half-written file."""
    for ending, metadata in (("png", {"Software": None}), ("pdf", {"CreationDate": None, "Producer": None})):
        content = io.BytesIO()
        figure.savefig(content, format=ending, metadata=metadata)
        figure.set_layout_engine("none")  # laid out once; the other format and the notebook keep that
        write_whole(Path(folder) / f"{name}.{ending}", content.getvalue())


def save_table(heading: list[str], rows: list[list[str]], folder: Path, name: str, note: str = "") -> None:
    """Write rows of text under a heading, and a note below them, as the Markdown file `name`.md in `folder`."""
    lines = [f"| {' | '.join(row)} |" for row in [heading, ["---"] * len(heading), *rows]]
    lines += ["", note] if note else []
    write_whole(Path(folder) / f"{name}.md", ("\n".join(lines) + "\n").encode())
