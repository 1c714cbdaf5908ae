"""Sliders over a picture, and a still picture where nothing runs."""

import base64
import io
from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt


def explore(draw: Callable, **controls: Sequence) -> None:
    """Show the figure that `draw(**values)` returns, with a slider (buttons for texts) for each control.

    controls: name -> values to choose from; the first ones are drawn first. One output holds the live view and the
    picture of the first values: JupyterLab with a running kernel shows the sliders, a page without one the picture.
    ValueError without a control, or for one without values.
    """
    import ipywidgets
    from IPython.display import display

    if not controls or not all(len(values) for values in controls.values()):
        raise ValueError("explore wants at least one control, each with the values to choose from: name=[first, ...]")
    widgets = {}
    for name, values in controls.items():
        options = [(value if isinstance(value, str) else f"{value:g}", value) for value in values]
        style = {"options": options, "description": name, "style": {"description_width": "initial"}}
        if isinstance(values[0], str):
            widgets[name] = ipywidgets.ToggleButtons(**style)
        else:
            widgets[name] = ipywidgets.SelectionSlider(continuous_update=False, **style)

    def picture() -> tuple[bytes, int]:
        figure, content = draw(**{name: widget.value for name, widget in widgets.items()}), io.BytesIO()
        figure.savefig(content, format="png", dpi=144)
        plt.close(figure)  # or the notebook shows it once more
        return content.getvalue(), round(72 * figure.get_figwidth())

    still, width = picture()
    view, wrong = ipywidgets.Image(value=still, width=width), ipywidgets.Label()

    def redraw(_):
        try:
            view.value, wrong.value = picture()[0], ""
        except Exception as error:  # a callback's traceback is seen by nobody
            wrong.value = f"{type(error).__name__}: {error}"

    for widget in widgets.values():
        widget.observe(redraw, "value")
    box = ipywidgets.VBox([*widgets.values(), wrong, view])
    bundle = box._repr_mimebundle_() | {"text/plain": "", "image/png": base64.b64encode(still).decode()}
    display(bundle, metadata={"image/png": {"width": width}}, raw=True)
