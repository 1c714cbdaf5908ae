"""Figures as files: written whole, and left alone where a new one would look the same.

Another processor changes the last digits of a trained matrix, and with them a few pixels and the bytes of a file.
"""

import io
from pathlib import Path

import numpy as np
from PIL import Image

from .parameters import write_whole

TILE = 12  # pixels: about as large as a letter
VISIBLE = 20.0  # root mean square of one tile, on a scale of 255


def looks_same(new: bytes, old: bytes) -> bool:
    """Do two PNG images look alike? False if their sizes differ or one cannot be read."""
    return difference(new, old) < VISIBLE


def difference(new: bytes, old: bytes) -> float:
    """The largest root mean square difference, over tiles, of two PNG images (0 to 255); inf for unequal sizes.

    Over the whole of a figure a changed label or a lost curve would drown in the white around it.
    """
    try:
        a, b = (np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), dtype=float) for png in (new, old))
    except (OSError, ValueError):
        return np.inf
    if a.shape != b.shape:
        return np.inf
    squares = ((a - b) ** 2).mean(axis=2)
    starts = [np.arange(0, size, TILE) for size in squares.shape]
    sums = np.add.reduceat(np.add.reduceat(squares, starts[0], axis=0), starts[1], axis=1)
    pixels = np.outer(*(np.diff(start, append=size) for start, size in zip(starts, squares.shape, strict=True)))
    return float(np.sqrt((sums / pixels).max()))


def save_figure(figure, folder: Path, name: str) -> None:
    """Write `name`.png and `name`.pdf into `folder`, the same bytes each time, unless they would look as they do now.

    Also lays the figure out for good: the other format, and the notebook, keep the layout.
    """
    contents = {}
    for ending, metadata in (("png", {"Software": None}), ("pdf", {"CreationDate": None, "Producer": None})):
        content = io.BytesIO()
        figure.savefig(content, format=ending, metadata=metadata)
        figure.set_layout_engine("none")
        contents[Path(folder) / f"{name}.{ending}"] = content.getvalue()
    replace_figure(contents)


def replace_figure(contents: dict[Path, bytes]) -> None:
    """Write the files of one figure, path -> content, unless all are there and the PNG looks the same."""
    picture = next(path for path in contents if path.suffix == ".png")
    there = all(path.is_file() for path in contents)
    if not (there and looks_same(contents[picture], picture.read_bytes())):
        for path, content in contents.items():
            write_whole(path, content)
