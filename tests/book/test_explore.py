"""One output for a live kernel and for a still page; in a real browser see test_browser.py."""

import base64

import matplotlib.pyplot as plt
import pytest
from IPython import display as ipython_display
from ipywidgets.widgets.widget import _instances

import topiclib as tl


@pytest.fixture
def shown(monkeypatch):
    bundles = []
    monkeypatch.setattr(ipython_display, "display", lambda bundle, **options: bundles.append((bundle, options)))
    return bundles


def test_one_bundle_with_sliders_and_a_still_picture(shown):
    drawn, before = [], plt.get_fignums()

    def draw(height, kind):
        drawn.append((height, kind))
        if height == 3.0:
            raise ValueError("too high")
        return plt.figure(figsize=(2, height))

    tl.explore(draw, height=[1.0, 2.0, 3.0], kind=["block", "diagonal"])
    ((bundle, options),) = shown
    still = base64.b64decode(bundle["image/png"])
    assert drawn == [(1.0, "block")] and plt.get_fignums() == before, "drawn once, and not left open to be shown again"
    assert still.startswith(b"\x89PNG") and bundle["text/plain"] == ""
    assert options == {"metadata": {"image/png": {"width": 144}}, "raw": True}

    view = bundle["application/vnd.jupyter.widget-view+json"]["model_id"]
    slider, buttons, message, picture = _instances[view].children
    assert picture.value == still
    slider.value = 2.0
    buttons.value = "diagonal"
    assert drawn[-1] == (2.0, "diagonal") and picture.value != still and message.value == ""
    slider.value = 3.0
    assert message.value == "ValueError: too high"
    slider.value = 1.0
    assert message.value == ""


@pytest.mark.parametrize("controls", [{}, {"x": []}])
def test_controls_are_wanted(controls):
    with pytest.raises(ValueError, match="explore wants at least one control"):
        tl.explore(lambda **values: None, **controls)
