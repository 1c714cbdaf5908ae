"""Results kept on disk from one run to the next, in the user's cache directory."""

import contextlib
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .libraries import library

CACHE_BYTES = 1_000_000_000  # the cache holds no more than this


def cached(key: tuple, compute: Callable[[], Any]) -> Any:
    """What compute() returns, from the cache if it is there under this key, else computed and kept.

    key: numbers, text and arrays that determine the result. A damaged entry is computed again. When the cache cannot
    be written a warning says so, and nothing is lost but time. Beyond CACHE_BYTES the entries unused longest go.
    """
    key = library("joblib").hash(key)
    try:
        memory = _memory()
        kept = memory.cache(_result, ignore=["compute"])
        there = kept.check_call_in_cache(key, compute)
    except (OSError, ValueError) as error:  # joblib reads and writes a file of its own there
        warnings.warn(f"the cache cannot be used ({error}): results are not kept", stacklevel=1)
        return compute()
    if there:
        with contextlib.suppress(Exception):  # damaged in whichever way, or removed by another process
            return kept.call_and_shelve(key, compute).get()
    result, _ = kept.call(key, compute)
    memory.reduce_size(CACHE_BYTES)
    return result


def clear_cache() -> None:
    """Remove everything that `cached` keeps, and nothing else."""
    _memory().clear(warn=False)


def _memory():
    """joblib's cache, under the environment variable TOPICLIB_CACHE or topiclib in the user's cache directory.

    It has a folder of its own there. It is compressed, because that adds a checksum: no damage goes unseen.
    """
    folder = os.environ.get("TOPICLIB_CACHE") or library("platformdirs").user_cache_dir("topiclib")
    return library("joblib").Memory(Path(folder).expanduser() / "results", verbose=0, compress=1)


def _result(key: str, compute: Callable[[], Any]) -> Any:
    return compute()
