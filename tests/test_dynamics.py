"""topiclib.dynamics against gradient descent by autograd on full (V+1) x (V+1) matrices, over every document."""

from itertools import product
from math import exp, log, sqrt

import numpy as np
import pytest
import torch
from cases import NO_RANDOM, PAPER, cases, losses, rules
from cases import UNEVEN as HEAVY
from truth import close, gradients_at_zero, population_loss, problems, projectors

import topiclib as tl
from topiclib.data import DirichletTopics, FixedTopics, Masking, TopicModel
from topiclib.modes import to_numbers

SMALL, TWO = TopicModel(3, 2), FixedTopics(2)


def descend(topics, masking, mixture, rule, loss, matrices, learning_rate, steps, decay):
    """Full-matrix gradient descent: loss before each update, and all matrices, of steps 0..steps."""
    keys, joint = problems(topics, masking, mixture, rule)
    parts = [torch.tensor(W, dtype=torch.float64, requires_grad=True) for W in matrices]
    path, values = [], []
    for _ in range(steps + 1):
        W_V, W_K, W_Q = parts
        mean_loss = population_loss(W_V, W_K.T @ W_Q / sqrt(topics.V + 1), keys, joint, loss)
        path.append([part.detach().numpy().copy() for part in parts])
        values.append(mean_loss.item())
        gradients = torch.autograd.grad(mean_loss + decay * sum((part**2).sum() for part in parts), parts)
        parts = [(p - learning_rate * g).detach().requires_grad_() for p, g in zip(parts, gradients, strict=True)]
    return np.array(values), np.array(path)


@rules
@losses
@cases
@pytest.mark.parametrize("masking", [HEAVY, NO_RANDOM], ids=["heavy", "no random"])
def test_reduced_flow_is_gradient_descent(topics, mixture, masking, loss, rule):
    """18 free numbers, W_K unlike W_Q, far from zero: numbers, norms and loss at every step."""
    start = np.random.default_rng(1).normal(size=(3, 6))
    start[:, 4] *= topics.v > 1
    rate, decay, steps = 0.2, 0.03, 6
    flow = tl.reduced_flow(
        topics, masking, mixture, start, learning_rate=rate, steps=steps, loss=loss, mask_keys=rule,
        weight_decay=decay, record_every=1,
    )  # fmt: skip
    matrices = [tl.to_matrix(numbers, topics) for numbers in start]
    values, path = descend(topics, masking, mixture, rule, loss, matrices, rate, steps, decay)
    np.testing.assert_array_equal(flow.steps, np.arange(steps + 1))
    np.testing.assert_allclose(flow.loss, values, rtol=1e-10)
    for i, name in enumerate(("W_V", "W_K", "W_Q")):
        np.testing.assert_allclose(flow.norms[name], np.linalg.norm(path[:, i], axis=(1, 2)), rtol=1e-10)
        for numbers, matrix in zip(flow.numbers[:, i], path[:, i], strict=True):
            numbers = numbers * [1, 1, 1, 1, topics.v > 1, 1]
            close(to_numbers(matrix, topics), numbers, 1e-10)
            close(tl.to_matrix(numbers, topics), matrix, 1e-10)  # stays symmetric
    assert np.abs(flow.numbers[-1] - start).max() > 0.01


@rules
@losses
@pytest.mark.parametrize("topics", [TopicModel(2, 2), TopicModel(3, 2)], ids=str)
@pytest.mark.parametrize("alpha", [0.1, 1.5])
def test_reduced_flow_for_dirichlet_topics(topics, alpha, loss, rule):
    mixture, start = DirichletTopics(alpha), 0.7 * np.random.default_rng(2).normal(size=(3, 6))
    options = dict(learning_rate=0.5, steps=3, record_every=1)
    flow = tl.reduced_flow(topics, HEAVY, mixture, start, loss=loss, mask_keys=rule, **options)
    matrices = [tl.to_matrix(numbers, topics) for numbers in start]
    values, path = descend(topics, HEAVY, mixture, rule, loss, matrices, 0.5, 3, 0.0)
    exact = np.array([[to_numbers(W, topics) for W in row] for row in path])
    tolerance = 1e-8 if loss == "squared" else 2e-3  # exact quadrature; a sample of mixtures
    np.testing.assert_allclose(flow.loss, values, rtol=tolerance)
    close(flow.numbers, exact, tolerance * np.abs(exact - start).max())


def test_records():
    start = np.zeros((3, 6))
    flow = tl.reduced_flow(TopicModel(3, 2), PAPER, FixedTopics(2), start, learning_rate=1.0, steps=25)
    np.testing.assert_array_equal(flow.steps, [0, 10, 20, 25])
    assert flow.loss.shape == (4,) and flow.numbers.shape == (4, 3, 6) and set(flow.norms) == {"W_V", "W_K", "W_Q"}
    assert flow.loss[0] == pytest.approx(1) and (np.diff(flow.loss) < 0).all()


@pytest.mark.parametrize("rule", ["unchosen", "attended"])
@losses
def test_growth_from_a_random_start(loss, rule):
    """Full matrices, W_V at its optimum: each projection of (W_K +- W_Q) / 2 grows by its own factor, step by step."""
    topics, mixture, decay, lr, steps = TopicModel(3, 2), FixedTopics(2), 2e-3, 2.0, 40
    rng = np.random.default_rng(3)
    V = tl.stage1_numbers(topics, HEAVY, mixture, loss, rule, decay)
    K, Q = 1e-6 * rng.normal(size=(2, 7, 7))
    _, path = descend(topics, HEAVY, mixture, rule, loss, [tl.to_matrix(V, topics), K, Q], lr, steps, decay)
    rates = tl.mode_rates(topics, HEAVY, mixture, loss, rule, decay)
    for projector, rate in zip(projectors(topics.T, topics.v), rates[:2], strict=True):
        for sign in (1, -1):
            part = [np.linalg.norm((K + sign * Q) @ projector) for _, K, Q in path]
            factor = 1 + lr * (sign * rate / sqrt(7) - 2 * decay)
            np.testing.assert_allclose(part, part[0] * factor ** np.arange(steps + 1), rtol=1e-6)
    _, G = gradients_at_zero(topics, HEAVY, mixture, rule, loss, tl.to_matrix(V, topics))
    rest = G - sum(projectors(topics.T, topics.v)) @ G
    left, _, right = np.linalg.svd(rest)
    keys, queries = left[:, 0], right[0] * np.sign(left[:, 0] @ rest @ right[0])
    if rule == "attended":
        assert rates.mask < 0
        part = [np.linalg.norm(K @ keys - Q @ queries) for _, K, Q in path]  # W_K - W_Q: that score falls
        factor = 1 + lr * (abs(rates.mask) / sqrt(7) - 2 * decay)
        np.testing.assert_allclose(part, part[0] * factor ** np.arange(steps + 1), rtol=1e-6)

    start = tl.flow_start(tl.to_matrix(V, topics), K, Q, topics)
    for projector in projectors(topics.T, topics.v):
        grows = np.linalg.norm((K + Q) / 2 @ projector)
        assert [np.linalg.norm(tl.to_matrix(x, topics) @ projector) for x in start[1:]] == pytest.approx([grows] * 2)
    contrasts, _ = projectors(topics.T, topics.v)
    grows = np.linalg.norm((K + Q) / 2 @ contrasts)
    assert tl.topic_amplitude(K, Q, topics) == pytest.approx(grows / sqrt(2))
    options = dict(learning_rate=lr, steps=steps, loss=loss, mask_keys=rule, weight_decay=decay)
    flow = tl.reduced_flow(topics, HEAVY, mixture, start, **options)
    reduced = [[tl.to_matrix(numbers, topics) for numbers in pair] for pair in flow.numbers[[0, -1], 1:]]
    ends = [[tl.topic_amplitude(*pair, topics) for pair in pairs] for pairs in (reduced, path[[0, -1], 1:])]
    np.testing.assert_allclose(*ends, rtol=1e-6)
    rotation = np.linalg.qr(rng.normal(size=(7, 7)))[0]
    turned = tl.flow_start(tl.to_matrix(V, topics), rotation @ K, rotation @ Q, topics)
    parts = [tl.to_matrix(numbers, topics) @ contrasts for numbers in (start[1], turned[1])]
    close(*parts, 1e-18)  # only scores matter


@pytest.mark.parametrize(("T", "v", "tau"), [(3, 1, 2), (3, 2, 2), (5, 2, 3), (6, 3, 5), (10, 10, 2)])
@pytest.mark.parametrize("masking", [PAPER, HEAVY, NO_RANDOM], ids=["paper", "heavy", "no random"])
def test_two_number_flow_is_the_reduced_flow(T, v, tau, masking):
    topics, (b, f, k) = TopicModel(T, v), (0.3, 0.2, 0.4 * sqrt(v))
    contrasts, _ = projectors(topics.T, topics.v)
    W_V = b * contrasts
    W_V[1:, 1:] += f / topics.V
    keys = to_numbers(k * contrasts, topics)
    options = dict(learning_rate=0.4 * topics.V, steps=1000, record_every=10)
    flow = tl.reduced_flow(topics, masking, FixedTopics(tau), [to_numbers(W_V, topics), keys, keys], **options)
    two = tl.two_number_flow(topics, masking, tau, (b, f, k), **options)
    np.testing.assert_array_equal(two.steps, flow.steps)
    np.testing.assert_allclose(two.loss, flow.loss, rtol=1e-12)
    for name in ("W_V", "W_K", "W_Q"):
        np.testing.assert_allclose(two.norms[name], flow.norms[name], rtol=1e-9)
    for i in (1, -1):
        close(tl.to_matrix(flow.numbers[i, 1], topics), two.k[i] * contrasts, 1e-9 * two.k[i])
        W_V = two.b[i] * contrasts
        W_V[1:, 1:] += two.f[i] / topics.V
        close(tl.to_matrix(flow.numbers[i, 0], topics), W_V, 1e-9)
    assert abs(two.k[-1] / two.k[0] - 1) > 0.02


@pytest.mark.parametrize(("T", "v", "tau"), [(3, 1, 2), (5, 2, 3), (10, 10, 2), (10, 10, 7)])
@pytest.mark.parametrize("masking", [PAPER, HEAVY], ids=["paper", "heavy"])
def test_fixed_point(T, v, tau, masking):
    topics, end = TopicModel(T, v), tl.fixed_point(TopicModel(T, v), masking)
    assert end.gamma == pytest.approx(1 + T * masking.p_c / masking.p_r)
    k = end.key_norm / sqrt(T - 1)
    assert exp(k**2 / (v * sqrt(topics.V + 1))) == pytest.approx(end.gamma)
    options = dict(learning_rate=0.2 * topics.V, steps=400)
    flow = tl.two_number_flow(topics, masking, tau, (1, 1, k), **options)
    for name, norm in (("W_V", end.value_norm), ("W_K", end.key_norm), ("W_Q", end.key_norm)):
        np.testing.assert_allclose(flow.norms[name], norm, rtol=1e-12)
    np.testing.assert_allclose(flow.gamma, end.gamma, rtol=1e-12)
    for factor in (0.98, 1.02):  # a neighbouring gamma moves, and towards gamma*
        near = tl.two_number_flow(topics, masking, tau, (1, 1, k * sqrt(1 + log(factor) / log(end.gamma))), **options)
        assert near.gamma[0] == pytest.approx(factor * end.gamma)
        assert 1e-9 < abs(near.gamma[-1] / near.gamma[0] - 1)
        assert abs(near.gamma[-1] - end.gamma) < abs(near.gamma[0] - end.gamma)


def test_fixed_point_of_full_matrices():
    """From an aligned start, full-matrix gradient descent ends there. It is not stable: once W_V tells apart words of a
    topic, so do W_K and W_Q; while it does not, they stay (to first order), unlike from a saddle."""
    topics, mixture = TopicModel(3, 2), FixedTopics(2)
    end = tl.fixed_point(topics, HEAVY)
    contrasts, within = projectors(topics.T, topics.v)
    block = contrasts.copy()
    block[1:, 1:] += 1 / 6
    K = 0.7 * end.key_norm / sqrt(2) * contrasts
    _, path = descend(topics, HEAVY, mixture, "unchosen", "squared", [block, K, K], 3.0, 1500, 0.0)
    norms = np.linalg.norm(path[-1], axis=(1, 2))
    np.testing.assert_allclose(norms, [end.value_norm, end.key_norm, end.key_norm], rtol=1e-5)
    K = end.key_norm / sqrt(2) * contrasts + 1e-4 * within
    for nudge, low, high in ((0.0, 0.99, 1.01), (0.1, 5, 10), (-0.1, 0.1, 0.2)):
        start = [to_numbers(W, topics) for W in (block + nudge * within, K, K)]
        flow = tl.reduced_flow(topics, HEAVY, mixture, start, learning_rate=3.0, steps=500)
        parts = [np.linalg.norm(tl.to_matrix(flow.numbers[i, 1], topics) @ within) for i in (0, -1)]
        assert low < parts[1] / parts[0] < high


def test_small_functions():
    assert tl.onset_steps(1e-3, 1.0, 4e-5, 50) == pytest.approx(log(1e3) / 2e-3)
    assert tl.onset_steps(1e-3, 1.0, 0.0, 50) == tl.onset_steps(1e-3, 1.0, -1e-5, 50) == np.inf
    steps, values = np.arange(0, 50, 10), np.array([1.0, 0.8, 1.4, 5.0, 11.0])
    assert tl.rise_step(steps, values) == pytest.approx(20 + 10 * 0.6 / 3.6)
    assert tl.rise_step(steps, values, 0.7) == pytest.approx(30 + 10 * 3 / 6)
    assert np.isnan(tl.rise_step(steps, values[::-1])) and np.isnan(tl.rise_step(steps, np.ones(5)))


def flow(masking=PAPER, start=None, **options):
    start = np.zeros((3, 6)) if start is None else start
    tl.reduced_flow(SMALL, masking, TWO, start, **dict(learning_rate=1.0, steps=10) | options)


def two_numbers(tau=2, **options):
    tl.two_number_flow(SMALL, PAPER, tau, (0, 0, 1), **dict(learning_rate=1.0, steps=10) | options)


WRONG = {"learning_rate": (0.0, float("inf")), "steps": (0, 2.5), "record_every": (0,)}
ERRORS = [
    *product((flow, two_numbers), [({name: x}, f"{name} = {x} is not") for name, bad in WRONG.items() for x in bad]),
    *((flow, ({"start": np.zeros(n)}, r"start of .* six numbers a matrix, \(3, 6\)")) for n in ((6,), (2, 6), (3, 7))),
    (two_numbers, ({"tau": 1}, "tau = 1 is not allowed")),
    (two_numbers, ({"tau": 3}, "tau = 3 is not allowed with T = 3")),
]


@pytest.mark.parametrize(("call", "wrong"), ERRORS)
def test_errors(call, wrong):
    options, message = wrong
    with pytest.raises(ValueError, match=message):
        call(**options)


def test_other_errors():
    with pytest.raises(FloatingPointError, match=r"the loss is 3\.99e[+]06 at step 8: try a smaller learning rate"):
        flow(start=np.ones((3, 6)), learning_rate=10, steps=100, record_every=1)
    for topics, masking in ((TopicModel(1, 3), PAPER), (SMALL, NO_RANDOM), (SMALL, Masking(0.2, 0.0, 0.1))):
        with pytest.raises(ValueError, match="T of at least 2 and rates above 0 are wanted"):
            tl.fixed_point(topics, masking)
    with pytest.raises(ValueError, match="T = 1 is not allowed: a whole number, at least 2"):
        tl.topic_amplitude(np.eye(4), np.eye(4), TopicModel(1, 3))
