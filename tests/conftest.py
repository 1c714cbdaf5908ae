"""Settings for all tests, made when pytest starts, before any kernel does; and the comparison of figures.

nbval compares what the cells of a notebook print, never what they draw. So each notebook gets one more test, after
its last cell: the figures and tables that this run of it drew look like the committed ones.
"""

import os
import tempfile
from pathlib import Path

import pytest
import torch
from nbval.plugin import IPyNbFile
from PIL import Image, ImageChops
from threadpoolctl import threadpool_limits

from topiclib.book.parameters import ROOT
from topiclib.book.pictures import VISIBLE, difference

# Notebooks that nbval runs write their figures here, never into figures/.
_figures = tempfile.TemporaryDirectory(prefix="topiclib-figures-")
os.environ["TOPICLIB_FIGURES"] = _figures.name

# The inline backend draws the figures that nbval compares; a backend set outside would replace it.
os.environ.pop("MPLBACKEND", None)

torch.set_num_threads(1)
threadpool_limits(1)


class Figures(pytest.Item):
    """Compares what the notebook has drawn in this run with what is committed."""

    def runtest(self):
        wrong = compare_figures(self.path.read_text("utf-8"), Path(_figures.name), ROOT / "figures", ROOT / "runs")
        assert not wrong, "\n".join(wrong)

    def reportinfo(self):
        return self.path, None, f"{self.path.stem}: figures"


def pytest_collection_modifyitems(items):
    """A test of the figures behind the last cell of each notebook, in the same process as the cells."""
    last = {item.parent: position for position, item in enumerate(items) if isinstance(item.parent, IPyNbFile)}
    for file, position in reversed(last.items()):
        cells = [item for item in items if item.parent is file]
        if len(cells) == len([cell for cell in file.nb.cells if cell.cell_type == "code"]):  # not a chosen few
            items.insert(position + 1, Figures.from_parent(file, name="figures"))


def compare_figures(notebook: str, drawn: Path, committed: Path, kept: Path) -> list[str]:
    """One line for each figure or table that `notebook` (its text) saves and that is not as committed.

    Both pictures and their difference are kept as one image in the folder `kept`.
    """
    new = [path.name for path in drawn.glob("[ft]*") if not (committed / path.name).is_file()]
    wrong = [f"{name} is drawn, but not committed" for name in sorted(new)]
    names = {path.name for path in committed.iterdir() if f'\\"{path.stem}\\"' in notebook}
    for name in sorted(names):
        new, old = drawn / name, committed / name
        if not new.is_file():
            wrong.append(f"{name}: the notebook did not draw it")
        elif name.endswith(".md") and new.read_text("utf-8") != old.read_text("utf-8"):
            wrong.append(f"{name}: expected\n{old.read_text('utf-8')}\ngot\n{new.read_text('utf-8')}")
        elif name.endswith(".png") and (by := difference(new.read_bytes(), old.read_bytes())) >= VISIBLE:
            kept.mkdir(exist_ok=True)
            shown = kept / f"differs_{name}"
            side_by_side(old, new).save(shown)
            wrong.append(f"{name}: a part of it differs by {by:.0f} of 255, {VISIBLE:.0f} is allowed; see {shown}")
            wrong[-1] += " (committed, drawn, difference); if it is meant, commit what `python -m topiclib run` writes"
    return wrong


def side_by_side(old: Path, new: Path) -> Image.Image:
    """Two pictures and their difference, from left to right."""
    pictures = [Image.open(path).convert("RGB") for path in (old, new)]
    if pictures[0].size == pictures[1].size:
        pictures.append(ImageChops.invert(ImageChops.difference(*pictures)))
    sheet = Image.new("RGB", (sum(p.width for p in pictures), max(p.height for p in pictures)), "white")
    for i, picture in enumerate(pictures):
        sheet.paste(picture, (sum(p.width for p in pictures[:i]), 0))
    return sheet
