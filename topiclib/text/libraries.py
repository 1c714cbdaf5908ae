"""Libraries that only this package needs, imported when they are used: the rest of topiclib does without them."""

import contextlib
import importlib
import io
import logging


def library(name: str):
    """Import a library that only this module needs; ImportError names the package to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = {"sklearn": "scikit-learn"}.get(name.partition(".")[0], name.partition(".")[0].replace("_", "-"))
        raise ImportError(f"topiclib.text wants {package}: pip install {package} ({error})") from None


def first_line(error: Exception) -> str:
    """What an error says, in one line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:150]


@contextlib.contextmanager
def quiet():
    """No progress bars, no log of attempts to reach the network, no report of weights that an encoder leaves out."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(disabled)
