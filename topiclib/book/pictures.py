"""Figures as files: written whole, and left alone where a new one looks the same.

Another processor changes the last digits of a trained matrix, and with them a few pixels and the bytes of a file.
"""

import io
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.ndimage import uniform_filter

from .parameters import ROOT, write_whole

TILE = 12  # pixels: about as large as a letter
VISIBLE = 20.0  # root mean square of one tile, on a scale of 255


def difference(new: bytes, old: bytes) -> float:
    """The largest root mean square difference, over tiles, of two PNG images, 0 to 255; inf if there is no comparing.

    Over the whole of a figure a changed label or a lost curve would drown in the white around it.
    """
    try:
        a, b = (np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), dtype=float) for png in (new, old))
    except (OSError, ValueError):
        return np.inf
    if a.shape != b.shape:
        return np.inf
    squares = ((a - b) ** 2).mean(axis=2)
    return float(np.sqrt(uniform_filter(squares, TILE).max()))


def save_figure(figure, folder: Path, name: str) -> None:
    """Write `name`.png and `name`.pdf into `folder`: the committed files, if the figure looks as the committed one.

    Also lays the figure out for good: the other format, and the notebook, keep the layout.
    """
    contents = []
    for ending, metadata in (("png", {"Software": None}), ("pdf", {"CreationDate": None, "Producer": None})):
        content = io.BytesIO()
        figure.savefig(content, format=ending, metadata=metadata)
        figure.set_layout_engine("none")
        contents.append(content.getvalue())
    committed = [ROOT / "figures" / f"{name}.{ending}" for ending in ("png", "pdf")]
    if all(path.is_file() for path in committed) and difference(contents[0], committed[0].read_bytes()) < VISIBLE:
        contents = [path.read_bytes() for path in committed]
    for path, content in zip(committed, contents, strict=True):
        write_whole(Path(folder) / path.name, content)
