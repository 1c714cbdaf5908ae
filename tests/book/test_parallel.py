"""`in_parallel` against one after the other; what happens when a process fails, is killed, or loses its parent."""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from projects import until

from topiclib.book.parallel import in_parallel

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="one after the other, in this process"
)
WAIT = """
import os, time, warnings
warnings.simplefilter("error")
import threading; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()  # as a Jupyter kernel has
from topiclib.book.parallel import in_parallel
def wait(i):
    open(f"{FOLDER}/{os.getpid()}", "w").close()
    time.sleep(60)
in_parallel(wait, [(0,), (1,), (2,)])
"""


def test_runs_are_those_one_after_the_other_in_processes_two_at_a_time():
    weight = torch.arange(3.0)  # inherited, not pickled

    def one(seed, scale):
        draws = torch.randn(3, generator=torch.Generator().manual_seed(seed))
        return os.getpid(), time.monotonic(), time.sleep(0.2), time.monotonic(), scale * draws + weight

    arguments = [(seed, 2.0) for seed in range(5)]
    done = in_parallel(one, arguments)
    for (_, _, _, _, got), a in zip(done, arguments, strict=True):
        assert torch.equal(got, one(*a)[-1]), "expected the same run bit for bit, in the order asked for"
        assert not got.is_shared(), "expected a tensor sent by value"
    assert os.getpid() not in {pid for pid, *_ in done}
    together = [sum(begin <= time < end for _, begin, _, end, _ in done) for _, time, *_ in done]
    assert max(together) == 2
    assert in_parallel(one, []) == [] and in_parallel(one, arguments[:1])[0][0] == os.getpid()


def test_what_a_run_raises_is_raised_here_and_the_others_are_ended(tmp_path):
    def one(i):
        if i == 1:
            until(lambda: list(tmp_path.iterdir()))
            raise FloatingPointError("try a smaller learning rate")
        (tmp_path / str(os.getpid())).touch()
        time.sleep(60)

    with pytest.raises(FloatingPointError, match="try a smaller learning rate") as error:
        in_parallel(one, [(0,), (1,), (2,)])
    assert "in one\n" in error.value.__notes__[0], "expected where it was raised"
    (path,) = tmp_path.iterdir()
    assert not os.path.exists(f"/proc/{path.name}"), "expected the other run ended, and the third not begun"


def test_a_killed_run_and_a_result_that_cannot_be_sent_are_clear_errors():
    with pytest.raises(RuntimeError, match=r"its process was ended from outside"):
        in_parallel(lambda i: os.kill(os.getpid(), signal.SIGKILL), [(0,), (1,)])
    with pytest.raises(Exception, match="lambda"):
        in_parallel(lambda i: lambda: i, [(0,), (1,)])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_parent_leaves_no_process_behind(tmp_path, number):
    """Killed, or interrupted as a kernel is, with the whole of its process group."""
    command = [sys.executable, "-c", f"FOLDER = {str(tmp_path)!r}\n{WAIT}"]
    parent = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    until(lambda: len(list(tmp_path.iterdir())) == 2)
    if number == signal.SIGINT:
        os.killpg(parent.pid, number)
    else:
        parent.kill()
    _, stderr = parent.communicate(timeout=30)
    assert stderr.count("Traceback") == (number == signal.SIGINT), stderr
    until(lambda: not any(os.path.exists(f"/proc/{path.name}") for path in tmp_path.iterdir()), seconds=10)
    assert len(list(tmp_path.iterdir())) == 2, "expected that the third did not begin"
