"""The numbers in prose: which are measurements, and which outputs support them."""

import pytest
from prose import numbers, prose, unsupported


@pytest.mark.parametrize(
    "text, found",
    [
        ("12% of 10,000 documents", [0.12, 10_000]),
        ("from -0.67 to 1e-3, about .5", [0.67, 1e-3, 0.5]),
        ("ratio 1.26–1.35, v1.2, a2", [1.26, 1.35]),
        ("no number", []),
    ],
)
def test_numbers(text, found):
    assert [number.value for number in numbers(text)] == pytest.approx(found)


@pytest.mark.parametrize(
    "text",
    [
        "Figure 14, Sections 13.1 and 23.2, Theorem 22",
        "$x = 37$ and $$\n99\n$$",
        "`code 44` and\n```\n55\n```",
        "[here](notebooks/66.ipynb)",
        "## 33 · A heading",
        "Li et al. (2023)",
        "*Runs in about 50 s on two cores.*",
        "all-MiniLM-L6, L2",
        '<img width="77">',
    ],
)
def test_what_is_no_measurement(text):
    assert numbers(prose(text)) == []


@pytest.mark.parametrize(
    "sentence, missing",
    [
        ("It is 0.12.", []),
        ("It is 12%.", []),
        ("It is 0.119 or 0.1196.", ["0.119"]),
        ("It is 0.13.", ["0.13"]),
        ("3 of 12 panels", []),
        ("3% of 13 panels", ["3%", "13"]),
        ("10,000 documents", []),
    ],
)
def test_unsupported(sentence, missing):
    assert unsupported([sentence], ["measured   0.1196   0 ± 1e-12", "n: int = 10_000  # documents"]) == missing
