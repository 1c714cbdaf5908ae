"""Work in processes of its own, none of which outlives the process that started it."""

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait

import torch


def in_parallel(function: Callable, arguments: Sequence[tuple]) -> list:
    """[function(*a) for a in arguments], two at a time: independent training runs, one for each of two cores.

    On Linux in forked processes, which inherit what they need; elsewhere, or on one core, one after the other. Each run
    must draw from random numbers of its own; the results are then the same. What a run raises is raised here, and
    RuntimeError if its process is killed.
    """
    if sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2 or len(arguments) < 2:
        return [function(*a) for a in arguments]
    torch.optim.SGD([torch.zeros(1)])  # makes torch import what optimizers need: once here, not in each process
    results, running, waiting = [None] * len(arguments), {}, list(enumerate(arguments))
    try:
        while running or waiting:
            while waiting and len(running) < 2:
                i, a = waiting.pop(0)
                connection, process = start(_send_result, function, a)
                running[connection] = i, process
            for connection in wait(running):
                i, process = running[connection]
                try:
                    fine, results[i] = pickle.loads(connection.recv_bytes())
                except EOFError:
                    process.join()
                    raise RuntimeError(f"a parallel run was killed (exit code {process.exitcode})") from None
                if not fine:
                    raise results[i]
                process.join()
                del running[connection]
    finally:
        for _, process in running.values():
            process.kill()
            process.join()
    return results


def _send_result(connection: Connection, function: Callable, arguments: tuple) -> None:
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupted kernel ends this process itself
    try:
        content = pickle.dumps((True, function(*arguments)))  # by value: tensors would be shared through open files
    except Exception as error:
        error.add_note(traceback.format_exc())  # a traceback itself does not travel
        content = pickle.dumps((False, error))
    connection.send_bytes(content)


def start(function: Callable, *arguments) -> tuple[Connection, multiprocessing.Process]:
    """Start function(connection, *arguments) in another process; our end of the pipe to it, and the process."""
    # A forked process has imported all it needs, and needs nothing pickled; on macOS it would not survive.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=function, args=(theirs, *arguments))
    with warnings.catch_warnings():
        # A Jupyter kernel has threads of its own; what runs here takes no locks that one of them could hold.
        warnings.filterwarnings("ignore", message=".*multi-threaded", category=DeprecationWarning)
        process.start()
    theirs.close()  # the pipe ends when the other process does
    return ours, process


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Have Linux send this process the signal `number` when the one that started it is gone; elsewhere nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, number)  # PR_SET_PDEATHSIG
        if os.getppid() != multiprocessing.parent_process().pid:  # gone already
            os.kill(os.getpid(), number)
