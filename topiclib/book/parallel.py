"""Work in processes of its own, none of which outlives the process that started it."""

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait

import torch

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PATIENCE = 30  # seconds for an interrupted process to tidy up


def each_done(function: Callable, arguments: Sequence[tuple], number: int) -> Iterator[tuple]:
    """function(*a) for all arguments, `number` at a time, a process for each: (index, result, error) as they end.

    Forked on Linux: a process inherits what it needs, and only its result is pickled. A killed one is a RuntimeError.
    Processes that the caller no longer waits for are interrupted, as by Ctrl-C, and killed if that does not end them.
    """
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    waiting, running = list(enumerate(arguments)), {}
    try:
        while running or waiting:
            while waiting and len(running) < number:
                index, a = waiting.pop(0)
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_call, args=(theirs, function, a))
                before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until the process has handlers of its own
                with warnings.catch_warnings():
                    # A Jupyter kernel has threads of its own; what runs here takes no lock that one of them holds.
                    warnings.filterwarnings("ignore", message=".*multi-threaded", category=DeprecationWarning)
                    process.start()
                running[ours] = index, process
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
                theirs.close()  # the pipe ends when the process does
            for connection in wait(running):
                index, process = running[connection]
                try:
                    result, error = pickle.loads(connection.recv_bytes())
                except EOFError:
                    result, error = None, RuntimeError("its process was ended from outside")
                process.join()
                del running[connection]
                yield index, result, error
    finally:
        for _, process in running.values():
            os.kill(process.pid, signal.SIGINT)
        for _, process in running.values():
            process.join(PATIENCE)
            process.kill()


def in_parallel(function: Callable, arguments: Sequence[tuple]) -> list:
    """[function(*a) for a in arguments], two at a time: independent training runs, one for each of two cores.

    On Linux; elsewhere, or on one core, one after the other. Each run must draw from random numbers of its own; the
    results are then the same. What a run raises is raised here, and RuntimeError if its process is killed.
    """
    if sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2 or len(arguments) < 2:
        return [function(*a) for a in arguments]
    torch.optim.SGD([torch.zeros(1)])  # makes torch import what optimizers need: once here, not in each process
    results = {}
    for index, result, error in each_done(function, arguments, 2):
        if error:
            raise error
        results[index] = result
    return [results[index] for index in range(len(arguments))]


def _call(connection: Connection, function: Callable, arguments: tuple) -> None:
    os.setsid()  # Ctrl-C in a terminal reaches the parent only, which passes it on once
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        if sys.platform == "linux":
            # As if by Ctrl-C, so that what this process has begun, such as a kernel, is ended, too.
            ctypes.CDLL(None).prctl(1, signal.SIGINT)  # PR_SET_PDEATHSIG
            if os.getppid() != multiprocessing.parent_process().pid:  # gone already
                return
        content = pickle.dumps((function(*arguments), None))  # by value: tensors would be shared through open files
    except KeyboardInterrupt:
        return
    except Exception as error:
        error.add_note(traceback.format_exc())  # a traceback itself does not travel
        content = pickle.dumps((None, error))
    connection.send_bytes(content)
