"""Checks of arguments, said once: a ValueError is one line that names the argument, its value and what is allowed."""

import numpy as np


def integer(name: str, value, minimum: int = 1) -> None:
    """One whole number, at least `minimum`; True and 2.0 are none."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < minimum:
        raise ValueError(f"{name} = {value!r} is not allowed: a whole number, at least {minimum}, is wanted")


def integers(name: str, values, minimum: int, maximum: int) -> np.ndarray:
    """A whole number from `minimum` to `maximum`, or an array of them; returned as floats."""
    array = floats(values)
    if not ((array >= minimum) & (array <= maximum) & (array == np.floor(array))).all():
        raise ValueError(f"{name} = {values!r} is not allowed: a whole number, {minimum} to {maximum}, is wanted")
    return array


def number(name: str, value, minimum: float = 0) -> None:
    """One finite number, at least `minimum`."""
    x = floats(value)
    if x.ndim or not minimum <= x < np.inf:
        raise ValueError(f"{name} = {value!r} is not allowed: a number, at least {minimum}, is wanted")


def numbers(name: str, values, minimum: float = 0) -> np.ndarray:
    """A finite number, at least `minimum`, or an array of them; returned as floats."""
    array = floats(values)
    if not ((array >= minimum) & (array < np.inf)).all():
        raise ValueError(f"{name} = {values!r} is not allowed: a number, at least {minimum}, is wanted")
    return array


def positive(name: str, value) -> None:
    """One finite number above 0."""
    x = floats(value)
    if x.ndim or not 0 < x < np.inf:
        raise ValueError(f"{name} = {value!r} is not allowed: a number above 0 is wanted")


def choice(name: str, value, choices: tuple[str, ...]) -> None:
    """One of these words."""
    if not (isinstance(value, str) and value in choices):
        raise ValueError(f"{name} = {value!r} is not allowed: choose one of {', '.join(choices)}")


def shape(name: str, array, wanted: tuple[int, ...], meaning: str = "") -> None:
    """An array of shape `wanted`; the message says what that means."""
    if np.shape(array) != wanted:
        wanted = f"{meaning}, {wanted}, is" if meaning else f"{wanted} is"
        raise ValueError(f"{name} of shape {np.shape(array)} is not allowed: {wanted} wanted")


def floats(x) -> np.ndarray:
    """x as an array of floats; NaN if it is anything but real numbers."""
    try:
        array = np.asarray(x)
    except ValueError:  # rows of different lengths
        return np.array(np.nan)
    return array.astype(float) if array.dtype.kind in "iuf" else np.array(np.nan)
