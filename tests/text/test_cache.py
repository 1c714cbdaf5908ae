"""The cache may be empty, damaged, shared, full or not writable: the results are the same."""

import os
import subprocess
import sys
import warnings
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from topiclib import text as wiki
from topiclib.text import cache


@pytest.fixture
def folder():
    return Path(os.environ["TOPICLIB_CACHE"])


@pytest.fixture
def counting():
    calls = []  # an entry each time that the computation runs
    return calls, lambda: calls.append(1) or {"x": np.arange(300), "y": np.array(["a"])}


def test_computes_once_for_each_key(counting):
    calls, compute = counting
    arrays = np.arange(6), np.arange(6.0), np.arange(6).reshape(2, 3), np.arange(1, 7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for key in [("a", 1), ("a", 1), ("a", 2), ("a", 1.5), ("a", 1), *(("a", x) for x in arrays + arrays)]:
            np.testing.assert_array_equal(cache.cached(key, compute)["x"], np.arange(300))
    assert len(calls) == 3 + len(arrays), "expected an array's type, shape and content in the key"


def test_another_process_finds_the_entry(folder):
    cache.cached(("a", 1), lambda: "found")
    code = "from topiclib.text import cache; print(cache.cached(('a', 1), lambda: 'computed again'))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "found\n"


@pytest.mark.parametrize("damage", ["empty", "no archive", "half", "flipped", "gone"])
def test_damaged_entry_is_computed_again(damage, counting, folder, capfd):
    calls, compute = counting
    cache.cached(("a", 1), compute)
    (path,) = folder.rglob("output.pkl")
    content = bytearray(path.read_bytes())
    flipped = content.copy()
    flipped[-20] ^= 4  # inside an array
    path.write_bytes({"no archive": b"?", "half": content[: len(content) // 2], "flipped": flipped}.get(damage, b""))
    if damage == "gone":
        path.unlink()
    for _ in range(2):
        np.testing.assert_array_equal(cache.cached(("a", 1), compute)["x"], np.arange(300))
    assert len(calls) == 2, "expected one more computation, which mends the entry"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("where", ["under a file", "its own record damaged"])
def test_cache_that_cannot_be_used_only_warns(where, monkeypatch, counting, folder):
    calls, compute = counting
    if where == "under a file":
        folder.write_text("")
        monkeypatch.setenv("TOPICLIB_CACHE", str(folder / "cache"))
    else:
        record = folder / "results/topiclib/text/cache/_result/func_code.py"
        record.parent.mkdir(parents=True)
        record.write_bytes(b"\xff")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        assert [cache.cached(("a", number), compute)["y"] for number in range(3)] == ["a"] * 3
    (warning,) = said
    assert str(warning.message).startswith("the cache cannot be used (") and "\n" not in str(warning.message)
    assert len(calls) == 3


def test_full_disk_only_warns(monkeypatch, counting):
    calls, compute = counting
    monkeypatch.setattr("joblib.numpy_pickle.dump", Mock(side_effect=OSError("No space left on device")))
    with pytest.warns(Warning, match="Unable to cache to disk.*No space left on device") as said:
        np.testing.assert_array_equal(cache.cached(("a", 1), compute)["x"], np.arange(300))
    assert len(said) == len(calls) == 1 and "\n" not in str(said[0].message)


def test_an_error_of_the_computation_is_not_hidden():
    compute = Mock(side_effect=OSError("of the computation"))
    with pytest.raises(OSError, match="of the computation"):
        cache.cached(("a", 1), compute)
    assert compute.call_count == 1


def test_cache_is_bounded_and_forgets_the_unused_first(monkeypatch, counting, folder):
    calls, compute = counting
    assert cache.CACHE_BYTES == 10**9
    ages, sizes = (3000, 1000, 2000), []
    for number, age in enumerate(ages):
        before = set(folder.rglob("output.pkl"))
        cache.cached(("a", number), compute)
        (path,) = set(folder.rglob("output.pkl")) - before
        os.utime(path, (1e9 - age, 1e9 - age))
        sizes.append(sum(file.stat().st_size for file in path.parent.iterdir()))
    monkeypatch.setattr(cache, "CACHE_BYTES", 2 * max(sizes) + 10)
    cache.cached(("a", 3), compute)
    assert len(list(folder.rglob("output.pkl"))) == 2
    for number in (3, 1):
        cache.cached(("a", number), compute)
    assert len(calls) == 4, "expected the entries used last to be there"


def test_clear_cache_removes_its_own_files_only(counting, folder):
    calls, compute = counting
    for _ in range(2):
        cache.cached(("a", 1), compute)
        (folder / "notes").mkdir(exist_ok=True)
        (folder / "notes" / "mine.txt").write_text("mine")
        wiki.clear_cache()
        assert not list(folder.rglob("output.pkl")) and (folder / "notes" / "mine.txt").exists()
    assert len(calls) == 2
