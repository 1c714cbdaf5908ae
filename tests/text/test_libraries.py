"""What only real text needs is imported when it is used, and named when it is missing."""

import subprocess
import sys

import numpy as np
import pytest

from topiclib import text as wiki


@pytest.mark.parametrize("library, package", [("gensim", "gensim"), ("sklearn", "scikit-learn")])
def test_missing_library_is_named(library, package, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=f"pip install {package}") as caught:
        wiki.load_corpus() if library == "gensim" else wiki.fit_lda(np.eye(2), 2, 0)
    assert "\n" not in str(caught.value)


def test_importing_topiclib_stays_light():
    code = "import sys, topiclib.text; print(*{n.partition('.')[0] for n in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"transformers", "sklearn", "gensim", "datasets"} & set(loaded)
