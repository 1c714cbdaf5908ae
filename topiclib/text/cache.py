"""A bounded cache of arrays in the user's cache directory."""

import contextlib
import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .libraries import library

CACHE_BYTES = 1_000_000_000  # the cache holds no more than this
_FORMAT = 2  # raise it when the meaning of a cached array changes
_unwritable: set[Path] = set()


def cache_folder() -> Path:
    """Where results are kept: the environment variable TOPICLIB_CACHE, or topiclib in the user's cache directory."""
    chosen = os.environ.get("TOPICLIB_CACHE")
    return Path(chosen).expanduser() if chosen else Path(library("platformdirs").user_cache_dir("topiclib"))


def cached(key: tuple, compute: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The arrays that compute() returns, from the cache if they are there under this key, else computed and kept.

    key: numbers and text that determine the result. A damaged entry is computed again. When the cache cannot be
    written a warning says so, and nothing is lost but time. Beyond CACHE_BYTES the entries unused longest are removed.
    """
    digest = hashlib.sha256(json.dumps([_FORMAT, *key]).encode()).hexdigest()[:32]
    path = cache_folder() / f"{key[0]}-{digest}.npz"
    try:
        with np.load(path, allow_pickle=False) as entry:
            arrays = {name: entry[name] for name in entry.files}
        with contextlib.suppress(OSError):
            os.utime(path)
        return arrays
    except Exception:  # not there, or damaged in whichever way: zipfile, zlib and NumPy raise many kinds
        arrays = compute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".partial-", delete=False) as file:
            try:
                np.savez(file, **arrays)
                file.close()
                os.replace(file.name, path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
        _bound_cache(path.parent)
    except OSError as error:
        if path.parent not in _unwritable:  # said once
            _unwritable.add(path.parent)
            warnings.warn(f"{path.parent} cannot be written ({error.strerror}): results are not cached", stacklevel=2)
    return arrays


def clear_cache() -> int:
    """Remove what `cached` keeps; the number of bytes freed."""
    entries = _cache_entries(cache_folder())
    for _, _, path in entries:
        path.unlink(missing_ok=True)
    return sum(size for _, size, _ in entries)


def _cache_entries(folder: Path) -> list[tuple[float, int, Path]]:
    """(time of last use, bytes, path) of what is in the cache; other files are none of our business."""
    found = []
    for path in [*folder.glob("*-" + "[0-9a-f]" * 32 + ".npz"), *folder.glob(".partial-*")]:
        with contextlib.suppress(FileNotFoundError):  # another process may have removed it
            found.append((path.stat().st_mtime, path.stat().st_size, path))
    return found


def _bound_cache(folder: Path) -> None:
    total = 0
    for _, size, path in sorted(_cache_entries(folder), reverse=True):
        total += size
        if total > CACHE_BYTES:
            path.unlink(missing_ok=True)


def digest_of(*arrays) -> str:
    """A hash of the arrays' types, shapes and contents, for keys of `cached`."""
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        array = np.ascontiguousarray(array)
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()
