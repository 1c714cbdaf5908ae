"""Settings for all tests, made when pytest starts: before any kernel does."""

import os
import tempfile

# Notebooks that nbval runs write their figures here, never into figures/.
_figures = tempfile.TemporaryDirectory(prefix="topiclib-figures-")
os.environ["TOPICLIB_FIGURES"] = _figures.name

# The inline backend draws the figures that nbval compares; a backend set outside would replace it.
os.environ.pop("MPLBACKEND", None)
