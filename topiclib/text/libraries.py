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
    disabled, bars = logging.root.manager.disable, library("transformers.utils.logging")
    had_bars = bars.is_progress_bar_enabled()
    logging.disable(logging.WARNING)
    bars.disable_progress_bar()  # in a notebook it is a widget, not a line on stderr
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(disabled)
        if had_bars:
            bars.enable_progress_bar()
