"""A process that does not outlive the one that started it."""

import ctypes
import signal
import sys


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Ask Linux to send this process the signal `number` when its parent is gone; nothing on other systems."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, number)  # PR_SET_PDEATHSIG
