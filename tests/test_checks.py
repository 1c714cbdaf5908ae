"""Argument checks: what passes, what does not, and that one line names the argument, its value and what is wanted."""

import numpy as np
import pytest

from topiclib import checks

NONSENSE = ["3", None, True, [1, [2]], 1j, float("nan"), float("inf"), -1, -1e-300]


@pytest.mark.parametrize("value", [*NONSENSE, 1, 2.0, [2]], ids=repr)
def test_integer(value):
    with pytest.raises(ValueError, match=r"n = .* is not allowed: a whole number, at least 2, is wanted"):
        checks.integer("n", value, 2)
    checks.integer("n", 2, 2)
    checks.integer("n", np.int64(1))


@pytest.mark.parametrize("value", [*NONSENSE, 1, 6, 2.5, [2, 6], [1, 2]], ids=repr)
def test_integers(value):
    with pytest.raises(ValueError, match=r"n = .* is not allowed: a whole number, 2 to 5, is wanted"):
        checks.integers("n", value, 2, 5)
    assert checks.integers("n", [2, 5], 2, 5).tolist() == [2, 5] and checks.integers("n", 3.0, 2, 5) == 3


@pytest.mark.parametrize("value", [*NONSENSE, [1, -1]], ids=repr)
def test_numbers(value):
    for call in (checks.number, checks.numbers):
        with pytest.raises(ValueError, match=r"x = .* is not allowed: a number, at least 0, is wanted"):
            call("x", value)
    with pytest.raises(ValueError, match=r"x = .* is not allowed: a number above 0 is wanted"):
        checks.positive("x", value)


def test_the_ends_of_numbers():
    checks.number("x", 0)
    checks.positive("x", 1e-300)
    assert checks.numbers("x", [[0, 1.5]]).tolist() == [[0, 1.5]]
    with pytest.raises(ValueError, match=r"x = 0 is not allowed: a number above 0 is wanted"):
        checks.positive("x", 0)
    for call in (checks.number, checks.positive):
        with pytest.raises(ValueError, match=r"x = \[1, 2\] is not allowed"):
            call("x", [1, 2])


@pytest.mark.parametrize("value", ["c", "A", None, 0, ["a"]], ids=repr)
def test_choice(value):
    with pytest.raises(ValueError, match=r"kind = .* is not allowed: choose one of a, b"):
        checks.choice("kind", value, ("a", "b"))
    checks.choice("kind", "b", ("a", "b"))


def test_shape():
    checks.shape("W", np.eye(2), (2, 2))
    with pytest.raises(ValueError, match=r"^W of shape \(2, 2\) is not allowed: \(3, 3\) is wanted$"):
        checks.shape("W", np.eye(2), (3, 3))
    with pytest.raises(ValueError, match=r"^u of shape \(\) is not allowed: one number a token, \(3,\), is wanted$"):
        checks.shape("u", 1.0, (3,), "one number a token")
