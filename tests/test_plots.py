"""Figures: what is drawn where. How they are saved is tested elsewhere."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import topiclib as tl
from topiclib import plots

TOPICS = tl.TopicModel(T=3, v=4)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def images(figure):
    return [axis.images[0] for axis in figure.axes if axis.images]


def test_heat_maps_share_a_scale_of_entries_between_words():
    rng = np.random.default_rng(0)
    panels = {f"panel {i}": (i + 1) * rng.normal(size=(13, 13)) for i in range(5)}
    panels["panel 1"][0, 0] = 100.0  # [MASK] does not set the scale
    figure = tl.heat_maps(panels, TOPICS, columns=2)
    limit = max(np.quantile(np.abs(matrix[1:, 1:]), 0.995) for matrix in panels.values())
    assert [image.axes.get_title() for image in images(figure)] == list(panels)
    for image, matrix in zip(images(figure), panels.values(), strict=True):
        assert np.array_equal(image.get_array(), matrix) and image.get_clim() == (-limit, limit)
        assert image.axes.get_xticks().tolist() == [0.5, 4.5, 8.5, 12.5], "lines between topics"
    assert [bool(image.axes.get_ylabel()) for image in images(figure)] == [True, False] * 2 + [True]
    assert [bool(image.axes.get_xlabel()) for image in images(figure)] == [False] * 4 + [True]


def test_heat_maps_of_zeros_and_of_a_given_limit():
    for options, limit in (({}, 1.0), ({"limit": 0.3}, 0.3)):
        (image,) = images(tl.heat_maps({"zeros": np.zeros((13, 13))}, TOPICS, **options))
        assert image.get_clim() == (-limit, limit)


def test_heat_map_rows_have_a_scale_each():
    rows = {"one": {"a": np.eye(13), "b": 2 * np.eye(13)}, "ten": {"c": 10 * np.eye(13)}}
    figure = tl.heat_map_rows(rows, TOPICS)
    ends = [image.get_clim()[1] for part in figure.subfigs for image in images(part)]
    assert ends[0] == ends[1] < ends[2] and [part._suptitle.get_text() for part in figure.subfigs] == list(rows)


def test_the_theme_is_set_when_asked_for():
    with plt.rc_context():
        plt.rcdefaults()
        plots.theme()
        assert all(plt.rcParams[name] == value for name, value in plots.STYLE.items())
