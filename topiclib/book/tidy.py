"""A notebook that ran, as it was before wherever a reader sees no difference."""

import base64
from pathlib import Path

import nbformat

from .pictures import looks_same

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def tidy(notebook: Path, before: Path | None) -> None:
    """Leave in a notebook what it says, and nothing that differs from one run to the next.

    before: the same notebook from an earlier run, whose pictures are kept where the new ones look the same.
    """
    content = nbformat.read(notebook, as_version=4)
    content.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC, "language_info": {"name": "python"}})
    old = {cell.id: cell.outputs for cell in _code_cells(nbformat.read(before, as_version=4))} if before else {}
    for cell in content.cells:
        for noise in ("papermill", "execution", "widgets"):
            cell.metadata.pop(noise, None)
        if not cell.metadata.get("tags", True):
            del cell.metadata["tags"]
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell.id = "injected-parameters"  # papermill draws a random one
    for cell in _code_cells(content):
        cell.outputs = joined(cell.outputs)
        for output in cell.outputs:  # a widget that no kernel stands behind is an error message in JupyterLab
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
        for new, kept in zip(cell.outputs, old.get(cell.id, []), strict=False):
            pictures = [output.get("data", {}).get("image/png") for output in (new, kept)]
            if all(pictures) and looks_same(*map(base64.b64decode, pictures)):
                new.data["image/png"] = pictures[1]
    nbformat.write(content, notebook)


def _code_cells(content: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in content.cells if cell.cell_type == "code"]


def joined(outputs: list) -> list:
    """The outputs with neighbouring pieces of one stream joined: where the kernel cuts them is a matter of timing."""
    whole = []
    for output in outputs:
        if whole and output.output_type == whole[-1].output_type == "stream" and output.name == whole[-1].name:
            whole[-1].text += output.text
        else:
            whole.append(output)
    return whole
