"""One training loop: fresh masks every epoch, SGD or Adam, squared loss or cross-entropy, real L2."""

import multiprocessing
import os
import pickle
import sys
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import torch

from . import checks
from .data import Documents, MaskedDocuments, Masking, mask_documents
from .model import LOSSES, TopicTransformer, batches, loss_sum
from .processes import die_with_parent

OPTIMIZERS = ("sgd", "adam")
DECAYS = ("none", "linear")


@dataclass
class History:
    """What was recorded at each of `steps` (updates done so far): arrays of shape (records,) or (records, ...).

    loss: mean training loss per chosen position, without the penalty, over the batches since the previous record,
        each taken before its update. norms: Frobenius norm of each trained part. measured: what `measure` returned.
    """

    steps: np.ndarray
    loss: np.ndarray
    norms: dict[str, np.ndarray] = field(default_factory=dict)
    measured: dict[str, np.ndarray] = field(default_factory=dict)


def train(
    model: TopicTransformer,
    documents: Documents,
    masking: Masking,
    *,
    loss: str = "squared",
    optimizer: str = "sgd",
    learning_rate: float = 1.0,
    epochs: int = 10,
    batch_size: int = 40,
    weight_decay: float = 0.0,
    decay: str = "none",
    seed: int = 0,
    record_every: int | None = None,
    measure: Callable[[TopicTransformer], dict] | None = None,
) -> History:
    """Train the trained parts of `model` in place; the same seed gives the same run, bit for bit on one machine.

    Each epoch shuffles the documents and masks them afresh. Minimised is the mean loss over a batch's chosen positions
    plus weight_decay ||theta||^2, theta all trained parts (equation 2). decay "linear" lets the learning rate fall to 0
    over the run. A record is made every `record_every` steps (by default every epoch) and at the end.
    ValueError for an impossible argument, FloatingPointError when the loss explodes.
    """
    checks.choice("loss", loss, LOSSES)
    checks.choice("optimizer", optimizer, OPTIMIZERS)
    checks.choice("decay", decay, DECAYS)
    checks.positive("learning_rate", learning_rate)
    checks.number("weight_decay", weight_decay)
    checks.integer("epochs", epochs)
    checks.integer("batch_size", batch_size)
    steps_an_epoch = -(-len(documents) // batch_size)
    record_every = steps_an_epoch if record_every is None else record_every
    checks.integer("record_every", record_every)
    rng = np.random.default_rng([seed, 1])  # not the stream of a model's initial values with the same seed
    parts = {name: part for name, part in model.named_parameters() if part.requires_grad}
    if not parts:
        raise ValueError("the model has no trained part: name at least one in TopicTransformer(..., trained=...)")
    kind = torch.optim.SGD if optimizer == "sgd" else torch.optim.Adam
    # torch adds weight_decay * theta to the gradient, half of what the penalty gives
    update = kind(parts.values(), lr=learning_rate, weight_decay=2 * weight_decay, fused=True)
    total, step, first, pending, records = epochs * steps_an_epoch, 0, 0.0, [], []

    def record():
        norms = {name: part.detach().norm().item() for name, part in parts.items()}
        records.append((step, np.mean(pending), norms, measure(model) if measure else {}))
        pending.clear()

    for _ in range(epochs):
        masked = mask_documents(documents[rng.permutation(len(documents))], masking, rng)
        for queries in batches(masked, model, batch_size):
            mean = loss_sum(model(queries), queries.labels, loss) / queries.labels.sum()
            pending.append(mean.item())
            first = pending[-1] if step == 0 else first
            if not pending[-1] < 1e6 * (1 + first):  # NaN, too
                raise FloatingPointError(f"the loss is {pending[-1]:.3g} at step {step}: try a smaller learning rate")
            if step % record_every == 0:
                record()
            if decay == "linear":
                update.param_groups[0]["lr"] = learning_rate * (1 - step / total)
            for part, gradient in zip(parts.values(), torch.autograd.grad(mean, parts.values()), strict=True):
                part.grad = gradient
            update.step()
            step += 1
    if not pending:  # the last step was recorded before its update
        pending.append(records[-1][1])
    record()

    steps, losses, norms, measured = zip(*records, strict=True)
    columns = [{key: np.array([row[key] for row in rows]) for key in rows[0]} for rows in (norms, measured)]
    return History(np.array(steps), np.array(losses), *columns)


def evaluate(model: TopicTransformer, masked: MaskedDocuments, loss: str = "squared", batch_size: int = 1000) -> float:
    """Mean loss per chosen position on masked documents, without the penalty (squared, or cross-entropy in nats)."""
    checks.integer("batch_size", batch_size)
    with torch.no_grad():
        sums = [loss_sum(model(queries), queries.labels, loss).item() for queries in batches(masked, model, batch_size)]
    return sum(sums) / len(masked.label)


_task: tuple[Callable, Sequence[tuple]] | None = None  # what a forked process finds to do


def in_parallel(function: Callable, arguments: Sequence[tuple]) -> list:
    """[function(*a) for a in arguments], two at a time: independent training runs, one for each of two cores.

    On Linux in forked processes, which inherit what they need; elsewhere, or on one core, one after the other. Each run
    must draw from random numbers of its own; the results are then the same. What a run raises is raised here.
    """
    global _task
    if sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2 or len(arguments) < 2:
        return [function(*a) for a in arguments]
    _task = function, arguments
    torch.optim.SGD([torch.zeros(1)])  # makes torch import what optimizers need: once here, not in each process
    try:
        fork = multiprocessing.get_context("fork")
        with warnings.catch_warnings(), ProcessPoolExecutor(2, fork, initializer=die_with_parent) as pool:
            # A killed kernel must not leave two processes waiting for work.
            # A kernel has threads of its own; the runs take no locks that one of them could hold.
            warnings.filterwarnings("ignore", message=".*multi-threaded", category=DeprecationWarning)
            return [pickle.loads(result) for result in pool.map(_run, range(len(arguments)))]
    finally:
        _task = None


def _run(i):
    function, arguments = _task
    return pickle.dumps(function(*arguments[i]))  # by value: tensors would be shared through open files
