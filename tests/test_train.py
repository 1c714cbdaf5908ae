"""The training loop against gradients written by hand, the exact optimum, and the clock."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

import topiclib as tl
from topiclib.model import batches, loss_sum

TOPICS = tl.TopicModel(T=4, v=3)
MASKING = tl.Masking()


@pytest.fixture(scope="module")
def documents():
    return tl.sample_documents(TOPICS, 400, tl.DirichletTopics(), (20, 30), np.random.default_rng(0))


@pytest.mark.parametrize("optimizer, learning_rate", [("sgd", 1.0), ("adam", 0.01)])
@pytest.mark.parametrize("trained", [("W_V",), ("W_K", "W_Q", "W_V")])
def test_same_seed_same_run(documents, optimizer, learning_rate, trained):
    def run(seed):
        model = tl.TopicTransformer(TOPICS, trained, seed=seed)
        history = tl.train(
            model, documents, MASKING, optimizer=optimizer, learning_rate=learning_rate, epochs=2, seed=seed
        )
        return model.numpy("W_V"), history

    (first, history), (second, again), (other, _) = run(1), run(1), run(2)
    assert np.array_equal(first, second) and np.array_equal(history.loss, again.loss), "same seed, same bits"
    assert not np.array_equal(first, other)


def first_batches(documents, masking, epochs, batch_size, model, seed):
    """The batches that `train` sees, drawn again from its seed."""
    rng = np.random.default_rng([seed, 1])
    for _ in range(epochs):
        masked = tl.mask_documents(documents[rng.permutation(len(documents))], masking, rng)
        yield from batches(masked, model, batch_size)


@pytest.mark.parametrize("loss", ["squared", "cross-entropy"])
@pytest.mark.parametrize("decay", ["none", "linear"])
def test_sgd_step_by_step(documents, loss, decay):
    """Every step is theta -= lr (mean gradient + 2 lambda theta), with the penalty on every trained part."""
    weight_decay, learning_rate, epochs, batch_size = 0.01, 0.5, 2, 50
    trained = ("W_V", "W_K", "W_Q", "b_pred")
    model = tl.TopicTransformer(TOPICS, trained, scale=0.3)
    tl.train(
        model, documents, MASKING, loss=loss, learning_rate=learning_rate, epochs=epochs, batch_size=batch_size,
        weight_decay=weight_decay, decay=decay, seed=9,
    )  # fmt: skip
    slow = tl.TopicTransformer(TOPICS, trained, scale=0.3)
    steps = epochs * 8
    for step, queries in enumerate(first_batches(documents, MASKING, epochs, batch_size, slow, 9)):
        parts = [getattr(slow, name) for name in trained]
        objective = loss_sum(slow(queries), queries.labels, loss) / queries.labels.sum()
        objective = objective + weight_decay * sum((part**2).sum() for part in parts)
        gradients = torch.autograd.grad(objective, parts)
        rate = learning_rate * (1 - step / steps) if decay == "linear" else learning_rate
        with torch.no_grad():
            for part, gradient in zip(parts, gradients, strict=True):
                part -= rate * gradient
    for name in trained:
        assert np.abs(model.numpy(name) - slow.numpy(name)).max() < 1e-12, name


def test_weight_decay_is_not_a_detached_norm(documents):
    norms = []
    for weight_decay in (0.0, 0.01, 0.1):
        model = tl.TopicTransformer(TOPICS)
        tl.train(model, documents, MASKING, learning_rate=2.0, weight_decay=weight_decay, epochs=5)
        norms.append(np.linalg.norm(model.numpy("W_V")))
    assert norms[0] > 1.1 * norms[1] > 2 * norms[2], norms


def test_training_reaches_the_exact_optimum(documents):
    moments = tl.corpus_moments(documents.counts, MASKING)
    wanted = tl.corpus_optimum(moments, 1e-2)
    model = tl.TopicTransformer(TOPICS)
    tl.train(model, documents, MASKING, learning_rate=1.0, weight_decay=1e-2, epochs=60, decay="linear")
    distance = tl.relative_distance(model.numpy("W_V"), wanted)
    assert distance < 0.05, f"relative distance to the exact optimum {distance:.3f}"
    start = tl.TopicTransformer(TOPICS).numpy("W_V")
    assert tl.relative_distance(start, wanted) > 0.5, "the start must not pass already"


def test_history(documents):
    model = tl.TopicTransformer(TOPICS)
    history = tl.train(
        model, documents, MASKING, epochs=2, record_every=6, measure=lambda m: {"corner": m.numpy("W_V")[:2, :2]}
    )
    assert history.steps.tolist() == [0, 6, 12, 18, 20]
    assert history.loss.shape == history.norms["W_V"].shape == (5,) and np.isfinite(history.loss).all()
    assert history.measured["corner"].shape == (5, 2, 2)
    assert history.norms["W_V"][-1] == pytest.approx(np.linalg.norm(model.numpy("W_V")))
    assert history.norms["W_V"][0] == pytest.approx(np.linalg.norm(tl.TopicTransformer(TOPICS).numpy("W_V")))


def test_evaluate_does_not_depend_on_batches(documents):
    masked = tl.mask_documents(documents, MASKING, np.random.default_rng(3))
    model = tl.TopicTransformer(TOPICS, ("W_K", "W_Q", "W_V"), scale=0.5)
    for loss in ("squared", "cross-entropy"):
        values = [tl.evaluate(model, masked, loss, batch_size) for batch_size in (7, 100, 1000)]
        assert np.ptp(values) < 1e-12


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"loss": "hinge"}, "loss = 'hinge' is not allowed: choose one of squared, cross-entropy"),
        ({"optimizer": "sdg"}, "optimizer = 'sdg' is not allowed: choose one of sgd, adam"),
        ({"decay": "cosine"}, "decay = 'cosine' is not allowed"),
        ({"learning_rate": -1}, "learning_rate = -1 is not allowed: a number above 0"),
        ({"epochs": 0}, "epochs = 0 is not allowed: a whole number, at least 1"),
        ({"epochs": 1.5}, "epochs = 1.5 is not allowed"),
        ({"batch_size": True}, "batch_size = True is not allowed"),
        ({"weight_decay": -0.1}, "weight_decay = -0.1 is not allowed: a number, at least 0"),
        ({"record_every": 0}, "record_every = 0 is not allowed"),
    ],
)
def test_errors(documents, arguments, message):
    with pytest.raises(ValueError, match=message):
        tl.train(tl.TopicTransformer(TOPICS), documents, MASKING, **arguments)


def test_nothing_to_train(documents):
    with pytest.raises(ValueError, match="no trained part"):
        tl.train(tl.TopicTransformer(TOPICS, ()), documents, MASKING)


def test_divergence_is_said(documents):
    with pytest.raises(FloatingPointError, match=r"at step [0-9]+: try a smaller learning rate"):
        tl.train(tl.TopicTransformer(TOPICS), documents, MASKING, learning_rate=1e4, epochs=20)


def test_a_huge_loss_is_divergence_before_it_is_infinite(documents):
    with pytest.raises(FloatingPointError, match=r"the loss is [0-9.]+e[+]"):
        tl.train(tl.TopicTransformer(TOPICS), documents, MASKING, learning_rate=20.0, epochs=20)


@pytest.mark.parametrize("batch_size", [0, -1])
def test_evaluate_wants_a_batch_size(documents, batch_size):
    masked = tl.mask_documents(documents, MASKING, np.random.default_rng(0))
    with pytest.raises(ValueError, match=f"batch_size = {batch_size} is not allowed"):
        tl.evaluate(tl.TopicTransformer(TOPICS), masked, batch_size=batch_size)


@pytest.mark.parametrize("trained, seconds", [(("W_V",), 0.25), (("W_K", "W_Q", "W_V"), 0.6)])
def test_speed_of_an_epoch(trained, seconds):
    """10,000 documents of the paper's size. Processor time, best of three, the bound doubled for a busy machine."""
    topics = tl.TopicModel()
    documents = tl.sample_documents(topics, 10_000, tl.DirichletTopics(), (100, 150), np.random.default_rng(0))
    model, taken = tl.TopicTransformer(topics, trained), []
    for _ in range(3):
        start = time.process_time()
        tl.train(model, documents, MASKING, epochs=1, learning_rate=0.1)
        taken.append(time.process_time() - start)
    assert min(taken) < 2 * seconds, f"an epoch took {min(taken):.2f} s, wanted {seconds} s"


def one_run(seed, learning_rate):
    """A model and its history; what the notebooks train several of."""
    topics, masking = tl.TopicModel(3, 2), tl.Masking()
    documents = tl.sample_documents(topics, 40, tl.DirichletTopics(), 20, np.random.default_rng(seed))
    model = tl.TopicTransformer(topics, ("W_V", "W_K", "W_Q"), seed=seed)
    return model, tl.train(model, documents, masking, learning_rate=learning_rate, epochs=2, seed=seed)


def test_runs_in_parallel_are_the_runs_one_after_the_other():
    arguments = [(seed, 1.0) for seed in range(5)]
    for (model, history), a in zip(tl.in_parallel(one_run, arguments), arguments, strict=True):
        expected_model, expected = one_run(*a)
        assert np.array_equal(model.numpy("W_V"), expected_model.numpy("W_V")), "expected the same run bit for bit"
        assert np.array_equal(history.loss, expected.loss)


def test_a_parallel_run_that_fails_says_why():
    with pytest.raises(FloatingPointError, match="try a smaller learning rate"):
        tl.in_parallel(one_run, [(0, 1.0), (1, 1e9)])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there are no processes to leave behind")
def test_a_killed_parent_leaves_no_process_behind(tmp_path):
    code = f"""
import os, time, topiclib
def wait(i):
    open({str(tmp_path)!r} + f"/{{os.getpid()}}", "w").close()
    time.sleep(60)
topiclib.in_parallel(wait, [(0,), (1,)])
"""
    parent = subprocess.Popen([sys.executable, "-c", code])
    until(lambda: len(list(tmp_path.iterdir())) == 2)
    workers = [int(path.name) for path in tmp_path.iterdir()]
    parent.kill()
    parent.wait()
    until(lambda: not any(os.path.exists(f"/proc/{worker}") for worker in workers))


def until(condition, seconds=60):
    """Wait for a condition; fail after so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "expected the condition to come true, it did not"
        time.sleep(0.1)
