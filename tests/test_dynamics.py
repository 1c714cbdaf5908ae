"""topiclib.dynamics against autograd on full (V+1) x (V+1) matrices, over every document and every query word."""

from functools import cache
from itertools import combinations, product
from math import exp, log, sqrt

import numpy as np
import pytest
import torch
from scipy.special import roots_jacobi

from topiclib import dynamics
from topiclib.data import DirichletTopics, FixedTopics, Masking, TopicModel, mask_documents, sample_documents
from topiclib.dynamics import (
    critical_weight_decay,
    fixed_point,
    flow_start,
    mode_rates,
    onset_steps,
    reduced_flow,
    rise_step,
    stage1_numbers,
    to_matrix,
    to_numbers,
    topic_amplitude,
    two_number_flow,
    value_rate,
)
from topiclib.model import KEY_RULES, LOSSES, TopicTransformer, batches, loss_sum
from topiclib.theory import ridge_optimum, stage1_optimum

PAPER = Masking(0.15, 0.1, 0.1)
HEAVY = Masking(0.4, 0.25, 0.2)
NO_RANDOM = Masking(0.3, 0.2, 0.0)
HEADLINE = TopicModel(10, 10)
LDA = DirichletTopics(0.1)
CASES = [(TopicModel(2, 3), FixedTopics(1)), (TopicModel(3, 2), FixedTopics(2)), (TopicModel(4, 1), FixedTopics(2))]
CASES += [(TopicModel(5, 2), FixedTopics(3)), (TopicModel(5, 2), FixedTopics(4)), (TopicModel(3, 3), FixedTopics(1))]
cases = pytest.mark.parametrize(("topics", "mixture"), CASES, ids=str)
rules = pytest.mark.parametrize("rule", KEY_RULES)
losses = pytest.mark.parametrize("loss", LOSSES)


# The truth: documents written out, attention on all words, autograd


@cache
def thetas(topics, mixture):
    """All topic mixtures, (D, T), and their probabilities: topic sets, or Gauss quadrature of a Dirichlet, T <= 3."""
    if isinstance(mixture, FixedTopics):
        sets = list(combinations(range(topics.T), mixture.tau))
        theta = np.array([[(t in s) / mixture.tau for t in range(topics.T)] for s in sets])
        return theta, np.full(len(sets), 1 / len(sets))

    def beta(a, b):
        x, w = roots_jacobi(24, b - 1, a - 1)
        return (1 + x) / 2, w / w.sum()

    if topics.T == 2:
        x, w = beta(mixture.alpha, mixture.alpha)
        return np.array([x, 1 - x]).T, w
    x, wx = beta(mixture.alpha, 2 * mixture.alpha)
    y, wy = beta(mixture.alpha, mixture.alpha)
    x, y = (grid.ravel() for grid in np.meshgrid(x, y, indexing="ij"))
    return np.array([x, (1 - x) * y, (1 - x) * (1 - y)]).T, np.outer(wx, wy).ravel()


def problems(topics, masking, mixture, rule):
    """Key frequencies (D, V+1) and the probability of each document, query and label (D, V+1, V+1)."""
    theta, share = thetas(topics, mixture)
    T, v, V = topics.T, topics.v, topics.V
    P = np.hstack([np.zeros((len(theta), 1)), np.repeat(theta, v, axis=1) / v])
    kept, replaced = masking.p_c, masking.p_r
    keys = P.copy()
    if rule != "unchosen":
        keys = P * (1 - masking.p_m * (1 - kept)) + masking.p_m * replaced / V
        keys[:, 0] = masking.p_m * (1 - kept - replaced) if rule == "attended" else 0
    joint = np.zeros((len(theta), V + 1, V + 1))
    joint[:, 0] = (1 - kept - replaced) * P
    joint[:, 1:] = replaced / V * P[:, None]
    for i in range(1, V + 1):
        joint[:, i, i] += kept * P[:, i]
    assert T * v == V and abs((share[:, None, None] * joint).sum() - 1) < 1e-12
    return torch.from_numpy(keys), torch.from_numpy(share[:, None, None] * joint)


def population_loss(W_V, S, keys, joint, loss):
    attention = keys[:, :, None] * torch.exp(S)  # document, key, query
    attention = attention / attention.sum(1, keepdim=True)
    f = torch.einsum("il,dlq->dqi", W_V, attention)
    if loss == "squared":
        return (joint.sum(2) * (f**2).sum(2)).sum() - 2 * (joint * f).sum() + joint.sum()
    return -(joint * torch.log_softmax(f, dim=2)).sum()


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


def gradients_at_zero(topics, masking, mixture, rule, loss, W_V):
    keys, joint = problems(topics, masking, mixture, rule)
    W = torch.tensor(W_V, requires_grad=True)
    S = torch.zeros_like(W).requires_grad_()
    return [g.numpy() for g in torch.autograd.grad(population_loss(W, S, keys, joint, loss), (W, S))]


def topic_space(topics):
    """Orthogonal projectors on topic contrasts and on differences within topics, (V+1, V+1)."""
    same = np.zeros((topics.V + 1, topics.V + 1))
    same[1:, 1:] = np.kron(np.eye(topics.T), np.full((topics.v, topics.v), 1 / topics.v))
    mean, words = np.zeros_like(same), np.zeros_like(same)
    mean[1:, 1:], words[1:, 1:] = 1 / topics.V, np.eye(topics.V)
    return same - mean, words - same


def close(x, y, tol):
    np.testing.assert_allclose(x, y, rtol=0, atol=tol)


# Six numbers a matrix


@pytest.mark.parametrize("topics", [TopicModel(2, 3), TopicModel(3, 2), TopicModel(4, 1)], ids=str)
def test_numbers_are_averages_over_relabellings(topics):
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=6)
    matrix = to_matrix(numbers, topics)
    if topics.v == 1:
        numbers[4] = 0
    close(to_numbers(matrix, topics), numbers, 1e-14)
    assert matrix[0, 0] == numbers[0] and matrix[0, 1] == numbers[1] and matrix[1, 0] == numbers[2]
    assert matrix[1, 1] == numbers[3] and matrix[1, topics.v + 1] == numbers[5]
    W, average = rng.normal(size=matrix.shape), np.zeros(matrix.shape)
    for _ in range(1500):
        words = 1 + np.arange(topics.V).reshape(topics.T, topics.v)[rng.permutation(topics.T)]
        order = np.concatenate([[0], *(rng.permutation(row) for row in words)])
        average += W[np.ix_(order, order)] / 1500
        close(matrix[np.ix_(order, order)], matrix, 0)
    close(average, to_matrix(to_numbers(W, topics), topics), 0.2)
    residual = W - to_matrix(to_numbers(W, topics), topics)
    close(to_numbers(residual, topics), 0, 1e-14)


# The reduced flow is full-matrix gradient descent


@rules
@losses
@cases
@pytest.mark.parametrize("masking", [HEAVY, NO_RANDOM], ids=["heavy", "no random"])
def test_reduced_flow_is_gradient_descent(topics, mixture, masking, loss, rule):
    """18 free numbers, W_K unlike W_Q, far from zero: numbers, norms and loss at every step."""
    start = np.random.default_rng(1).normal(size=(3, 6))
    if topics.v == 1:
        start[:, 4] = 0
    rate, decay, steps = 0.2, 0.03, 6
    flow = reduced_flow(
        topics, masking, mixture, start, learning_rate=rate, steps=steps, loss=loss, mask_keys=rule,
        weight_decay=decay, record_every=1,
    )  # fmt: skip
    matrices = [to_matrix(numbers, topics) for numbers in start]
    values, path = descend(topics, masking, mixture, rule, loss, matrices, rate, steps, decay)
    np.testing.assert_array_equal(flow.steps, np.arange(steps + 1))
    np.testing.assert_allclose(flow.loss, values, rtol=1e-10)
    for i, name in enumerate(("W_V", "W_K", "W_Q")):
        np.testing.assert_allclose(flow.norms[name], np.linalg.norm(path[:, i], axis=(1, 2)), rtol=1e-10)
        for numbers, matrix in zip(flow.numbers[:, i], path[:, i], strict=True):
            numbers = numbers.copy()
            if topics.v == 1:
                numbers[4] = 0
            close(to_numbers(matrix, topics), numbers, 1e-10)
            close(to_matrix(numbers, topics), matrix, 1e-10)  # stays symmetric
    assert np.abs(flow.numbers[-1] - start).max() > 0.01


@rules
@losses
@pytest.mark.parametrize("topics", [TopicModel(2, 2), TopicModel(3, 2)], ids=str)
@pytest.mark.parametrize("alpha", [0.1, 1.5])
def test_reduced_flow_for_dirichlet_topics(topics, alpha, loss, rule):
    mixture, start = DirichletTopics(alpha), 0.7 * np.random.default_rng(2).normal(size=(3, 6))
    options = dict(learning_rate=0.5, steps=3, record_every=1)
    flow = reduced_flow(topics, HEAVY, mixture, start, loss=loss, mask_keys=rule, **options)
    matrices = [to_matrix(numbers, topics) for numbers in start]
    values, path = descend(topics, HEAVY, mixture, rule, loss, matrices, 0.5, 3, 0.0)
    exact = np.array([[to_numbers(W, topics) for W in row] for row in path])
    tolerance = 1e-8 if loss == "squared" else 2e-3  # exact quadrature; a sample of mixtures
    np.testing.assert_allclose(flow.loss, values, rtol=tolerance)
    close(flow.numbers, exact, tolerance * np.abs(exact - start).max())


def test_records():
    start = np.zeros((3, 6))
    flow = reduced_flow(TopicModel(3, 2), PAPER, FixedTopics(2), start, learning_rate=1.0, steps=25, record_every=10)
    np.testing.assert_array_equal(flow.steps, [0, 10, 20, 25])
    assert flow.loss.shape == (4,) and flow.numbers.shape == (4, 3, 6) and set(flow.norms) == {"W_V", "W_K", "W_Q"}
    assert flow.loss[0] == pytest.approx(1) and (np.diff(flow.loss) < 0).all()


# Stage 1 and the modes of G


@rules
@cases
@pytest.mark.parametrize(
    ("loss", "masking", "decay"),
    [("squared", HEAVY, 0.0), *product(LOSSES, [PAPER], [1e-4]), *product(LOSSES, [HEAVY, NO_RANDOM], [1e-2])],
    ids=str,
)
def test_modes_of_G(topics, mixture, masking, decay, loss, rule):
    T, v = topics.T, topics.v
    W_V = to_matrix(stage1_numbers(topics, masking, mixture, loss, rule, decay), topics)
    dW, G = gradients_at_zero(topics, masking, mixture, rule, loss, W_V)
    close(dW + 2 * decay * W_V, 0, 1e-12)  # W_V is the optimum
    rates = mode_rates(topics, masking, mixture, loss, rule, decay)

    contrasts, within = topic_space(topics)
    scale = np.abs(G).max() + 1e-7  # relative to G, down to roundoff
    close(contrasts @ G, -rates.topic * contrasts, 1e-8 * scale)
    close(within @ G, -rates.within * within, 1e-8 * scale)
    rest = G - contrasts @ G - within @ G
    assert np.linalg.svd(rest)[1][1] < 1e-8 * scale  # one mode is left
    assert np.linalg.norm(rest) == pytest.approx(abs(rates.mask), rel=1e-8, abs=1e-8 * scale)
    assert rest[0, 0] * rates.mask <= 1e-20 and (rule == "attended" or rates.mask == 0)
    singular = [abs(rates.topic)] * (T - 1) + [abs(rates.within)] * (T * (v - 1)) + [abs(rates.mask), 0]
    close(np.sort(np.linalg.svd(G)[1]), np.sort(singular), 1e-8 * scale)
    if rates.topic > 1e-9:
        assert np.abs(contrasts @ G + rates.topic / 2 * contrasts).max() > 1e-3 * rates.topic  # sigma / 2 is not


@rules
@cases
def test_squared_optimum_of_each_rule(topics, mixture, rule):
    """Topic eigenvalue 1/a, (1-mu)/a, 1 without weight decay; Theorem 2 for attended keys; blocks of 1/v unchosen."""
    a, mu, v = HEAVY.a, HEAVY.mu, topics.v
    W = to_matrix(stage1_numbers(topics, HEAVY, mixture, "squared", rule), topics)
    contrasts, within = topic_space(topics)
    close(contrasts @ W, {"attended": 1 / a, "excluded": (1 - mu) / a, "unchosen": 1}[rule] * contrasts, 1e-10)
    close(within @ W, 0, 1e-12)
    if rule == "attended":
        close(W, stage1_optimum(topics, HEAVY), 1e-10)
        for decay in (1e-3, 0.1):
            numbers = stage1_numbers(topics, HEAVY, mixture, "squared", rule, decay)
            close(to_matrix(numbers, topics), ridge_optimum(topics, HEAVY, mixture, decay), 1e-10)
    else:
        keys, joint = problems(topics, HEAVY, mixture, rule)
        p = (keys / keys.sum(1, keepdim=True)).numpy()
        weight, target = joint.sum((1, 2)).numpy(), joint.sum(1).numpy()
        close(W, np.linalg.pinv((p.T * weight) @ p, rcond=1e-11) @ p.T @ target, 1e-10)  # of least norm
    if rule == "unchosen":
        block = np.zeros_like(W)
        block[1:, 1:] = np.kron(np.eye(topics.T), np.full((v, v), 1 / v))
        close(W, block, 1e-10)
    for other in set(KEY_RULES) - {rule}:
        dW, _ = gradients_at_zero(topics, HEAVY, mixture, other, "squared", W)
        assert np.abs(dW).max() > 1e-3 * np.abs(W).max() * HEAVY.mu / topics.V  # not the optimum of another rule


@cases
@pytest.mark.parametrize("masking", [PAPER, HEAVY, NO_RANDOM], ids=["paper", "heavy", "no random"])
def test_closed_forms_for_fixed_tau(topics, mixture, masking):
    T, v, tau, p_c, a = topics.T, topics.v, mixture.tau, masking.p_c, masking.a
    p_1 = a / (tau * v) + masking.p_m * masking.p_r / topics.V
    unchosen = 2 * p_c * (tau - 1) / (v**2 * tau**2 * (T - 1))
    others = 2 * p_c * p_1 / a * (tau - 1) / (v * tau * (T - 1))
    for rule, sigma in zip(KEY_RULES, (others, others, unchosen), strict=True):
        close(mode_rates(topics, masking, mixture, mask_keys=rule), (sigma, 0, 0), 1e-14)
    theorem2 = to_numbers(stage1_optimum(topics, masking), topics)
    close(mode_rates(topics, masking, mixture, value=theorem2).topic, unchosen / a, 1e-14)
    kappa_B = (T - tau) / (tau * T * (T - 1)) / v
    assert value_rate(topics, masking, mixture) == pytest.approx(2 * kappa_B)
    ratio = unchosen / sqrt(topics.V + 1) / value_rate(topics, masking, mixture)
    assert ratio == pytest.approx(p_c * T * (tau - 1) / (tau * v * sqrt(topics.V + 1) * (T - tau)))


@pytest.mark.parametrize(("T", "v"), [(2, 2), (3, 1), (10, 10)])
@pytest.mark.parametrize("alpha", [0.1, 1.3])
def test_closed_form_for_dirichlet_topics(T, v, alpha):
    """2 p_c T / (v^2 (T-1)) E[x^2 (1 - 2x + ||theta||^2)], x = theta_t; moments by rising factorials."""
    total = T * alpha
    two = alpha * (alpha + 1) / (total * (total + 1))  # E[x^2]
    three = two * (alpha + 2) / (total + 2)  # E[x^3]
    four = three * (alpha + 3) / (total + 3)  # E[x^4]
    cross = (alpha * (alpha + 1)) ** 2 / (total * (total + 1) * (total + 2) * (total + 3))  # E[x^2 y^2]
    sigma = 2 * PAPER.p_c * T / (v**2 * (T - 1)) * (two - 2 * three + four + (T - 1) * cross)
    rates = mode_rates(TopicModel(T, v), PAPER, DirichletTopics(alpha))
    assert rates.topic == pytest.approx(sigma, rel=1e-9)
    close(rates[1:], 0, 1e-15)
    if T == 2:
        _, G = gradients_at_zero(
            TopicModel(T, v), PAPER, DirichletTopics(alpha), "unchosen", "squared", np.eye(1 + T * v)
        )
        rates = mode_rates(
            TopicModel(T, v), PAPER, DirichletTopics(alpha), value=to_numbers(np.eye(1 + T * v), TopicModel(T, v))
        )
        contrasts, within = topic_space(TopicModel(T, v))
        close(contrasts @ G, -rates.topic * contrasts, 1e-10)
        close(within @ G, -rates.within * within, 1e-10)


@rules
def test_value_rate_is_how_fast_stage_1_ends(rule):
    topics, mixture, lr = TopicModel(4, 2), FixedTopics(2), 0.5
    start = np.zeros((3, 6))
    flow = reduced_flow(topics, HEAVY, mixture, start, learning_rate=lr, steps=50, mask_keys=rule, record_every=1)
    contrasts, _ = topic_space(topics)
    b = np.array([(contrasts @ to_matrix(V, topics)).trace() / (topics.T - 1) for V in flow.numbers[:, 0]])
    best = {"attended": 1 / HEAVY.a, "excluded": (1 - HEAVY.mu) / HEAVY.a, "unchosen": 1}[rule]
    factor = 1 - lr * value_rate(topics, HEAVY, mixture, rule)
    np.testing.assert_allclose(b, best * (1 - factor**flow.steps), rtol=1e-12)
    assert (flow.norms["W_K"] == 0).all()


# From small starts: the growth that the rates predict


@pytest.mark.parametrize("rule", ["unchosen", "attended"])
@losses
def test_growth_from_a_random_start(loss, rule):
    """Full matrices, W_V at its optimum: each projection of (W_K +- W_Q) / 2 grows by its own factor, step by step."""
    topics, mixture, decay, lr, steps = TopicModel(3, 2), FixedTopics(2), 2e-3, 2.0, 40
    rng = np.random.default_rng(3)
    V = stage1_numbers(topics, HEAVY, mixture, loss, rule, decay)
    K, Q = 1e-6 * rng.normal(size=(2, 7, 7))
    _, path = descend(topics, HEAVY, mixture, rule, loss, [to_matrix(V, topics), K, Q], lr, steps, decay)
    rates = mode_rates(topics, HEAVY, mixture, loss, rule, decay)
    for projector, rate in zip(topic_space(topics), rates[:2], strict=True):
        for sign in (1, -1):
            part = [np.linalg.norm((K + sign * Q) @ projector) for _, K, Q in path]
            factor = 1 + lr * (sign * rate / sqrt(7) - 2 * decay)
            np.testing.assert_allclose(part, part[0] * factor ** np.arange(steps + 1), rtol=1e-6)
    _, G = gradients_at_zero(topics, HEAVY, mixture, rule, loss, to_matrix(V, topics))
    rest = G - sum(topic_space(topics)) @ G
    left, _, right = np.linalg.svd(rest)
    keys, queries = left[:, 0], right[0] * np.sign(left[:, 0] @ rest @ right[0])
    if rule == "attended":
        assert rates.mask < 0
        part = [np.linalg.norm(K @ keys - Q @ queries) for _, K, Q in path]  # W_K - W_Q: that score falls
        factor = 1 + lr * (abs(rates.mask) / sqrt(7) - 2 * decay)
        np.testing.assert_allclose(part, part[0] * factor ** np.arange(steps + 1), rtol=1e-6)

    start = flow_start(to_matrix(V, topics), K, Q, topics)
    assert topic_amplitude(K, Q, topics) == pytest.approx(
        np.linalg.norm((K + Q) / 2 @ topic_space(topics)[0]) / sqrt(2)
    )
    flow = reduced_flow(
        topics, HEAVY, mixture, start, learning_rate=lr, steps=steps, loss=loss, mask_keys=rule, weight_decay=decay
    )
    ends = [[topic_amplitude(*map(lambda n: to_matrix(n, topics), pair), topics) for pair in flow.numbers[[0, -1], 1:]]]
    ends.append([topic_amplitude(K, Q, topics) for _, K, Q in path[[0, -1]]])
    np.testing.assert_allclose(*ends, rtol=1e-6)
    rotation = np.linalg.qr(rng.normal(size=(7, 7)))[0]
    turned = flow_start(to_matrix(V, topics), rotation @ K, rotation @ Q, topics)
    S = [to_matrix(numbers, topics) @ topic_space(topics)[0] for numbers in (*start[1:], *turned[1:])]
    close(S[0], S[2], 1e-18)  # only scores matter


@pytest.mark.parametrize("loss", LOSSES)
def test_critical_weight_decay(loss):
    topics, mixture = TopicModel(5, 2), FixedTopics(2)
    critical = critical_weight_decay(topics, PAPER, mixture, loss)
    sigma = mode_rates(topics, PAPER, mixture, loss, weight_decay=critical).topic
    assert critical == pytest.approx(sigma / (2 * sqrt(11)), rel=1e-7)
    for factor, sign in ((0.9, 1), (1.1, -1)):
        decay = factor * critical
        start = np.array([stage1_numbers(topics, PAPER, mixture, loss, weight_decay=decay)] * 3)
        start[1:] = to_numbers(1e-4 * topic_space(topics)[0], topics)
        flow = reduced_flow(topics, PAPER, mixture, start, learning_rate=5.0, steps=500, loss=loss, weight_decay=decay)
        assert sign * (flow.norms["W_K"][-1] - flow.norms["W_K"][0]) > 0
    with pytest.raises(ValueError, match="no weight decay is critical"):
        critical_weight_decay(topics, PAPER, FixedTopics(1))  # squared loss: sigma is 0


# Two numbers


@pytest.mark.parametrize(("T", "v", "tau"), [(3, 1, 2), (3, 2, 2), (5, 2, 3), (6, 3, 5), (10, 10, 2)])
@pytest.mark.parametrize("masking", [PAPER, HEAVY, NO_RANDOM], ids=["paper", "heavy", "no random"])
def test_two_number_flow_is_the_reduced_flow(T, v, tau, masking):
    topics, (b, f, k) = TopicModel(T, v), (0.3, 0.2, 0.4 * sqrt(v))
    contrasts, _ = topic_space(topics)
    W_V = b * contrasts
    W_V[1:, 1:] += f / topics.V
    keys = to_numbers(k * contrasts, topics)
    options = dict(learning_rate=0.4 * topics.V, steps=1000, record_every=10)
    flow = reduced_flow(topics, masking, FixedTopics(tau), [to_numbers(W_V, topics), keys, keys], **options)
    two = two_number_flow(topics, masking, tau, (b, f, k), **options)
    np.testing.assert_array_equal(two.steps, flow.steps)
    np.testing.assert_allclose(two.loss, flow.loss, rtol=1e-12)
    for name in ("W_V", "W_K", "W_Q"):
        np.testing.assert_allclose(two.norms[name], flow.norms[name], rtol=1e-9)
    for i in (1, -1):
        close(to_matrix(flow.numbers[i, 1], topics), two.k[i] * contrasts, 1e-9 * two.k[i])
        W_V = two.b[i] * contrasts
        W_V[1:, 1:] += two.f[i] / topics.V
        close(to_matrix(flow.numbers[i, 0], topics), W_V, 1e-9)
    assert abs(two.k[-1] / two.k[0] - 1) > 0.02


@pytest.mark.parametrize(("T", "v", "tau"), [(3, 1, 2), (5, 2, 3), (10, 10, 2), (10, 10, 7)])
@pytest.mark.parametrize("masking", [PAPER, HEAVY], ids=["paper", "heavy"])
def test_fixed_point(T, v, tau, masking):
    topics, end = TopicModel(T, v), fixed_point(TopicModel(T, v), masking)
    assert end.gamma == pytest.approx(1 + T * masking.p_c / masking.p_r)
    k = end.key_norm / sqrt(T - 1)
    assert exp(k**2 / (v * sqrt(topics.V + 1))) == pytest.approx(end.gamma)
    options = dict(learning_rate=0.2 * topics.V, steps=400)
    flow = two_number_flow(topics, masking, tau, (1, 1, k), **options)
    for name, norm in (("W_V", end.value_norm), ("W_K", end.key_norm), ("W_Q", end.key_norm)):
        np.testing.assert_allclose(flow.norms[name], norm, rtol=1e-12)
    np.testing.assert_allclose(flow.gamma, end.gamma, rtol=1e-12)
    for factor in (0.98, 1.02):  # a neighbouring gamma moves, and towards gamma*
        near = two_number_flow(topics, masking, tau, (1, 1, k * sqrt(1 + log(factor) / log(end.gamma))), **options)
        assert near.gamma[0] == pytest.approx(factor * end.gamma)
        assert 1e-9 < abs(near.gamma[-1] / near.gamma[0] - 1)
        assert abs(near.gamma[-1] - end.gamma) < abs(near.gamma[0] - end.gamma)


def test_fixed_point_of_full_matrices():
    """From an aligned start, full-matrix gradient descent ends there. It is not stable: once W_V tells apart words of a
    topic, so do W_K and W_Q; while it does not, they stay (to first order), unlike from a saddle."""
    topics, mixture = TopicModel(3, 2), FixedTopics(2)
    end = fixed_point(topics, HEAVY)
    contrasts, within = topic_space(topics)
    block = contrasts.copy()
    block[1:, 1:] += 1 / 6
    K = 0.7 * end.key_norm / sqrt(2) * contrasts
    _, path = descend(topics, HEAVY, mixture, "unchosen", "squared", [block, K, K], 3.0, 1500, 0.0)
    norms = np.linalg.norm(path[-1], axis=(1, 2))
    np.testing.assert_allclose(norms, [end.value_norm, end.key_norm, end.key_norm], rtol=1e-5)
    K = end.key_norm / sqrt(2) * contrasts + 1e-4 * within
    for nudge, low, high in ((0.0, 0.99, 1.01), (0.1, 5, 10), (-0.1, 0.1, 0.2)):
        start = [to_numbers(W, topics) for W in (block + nudge * within, K, K)]
        flow = reduced_flow(topics, HEAVY, mixture, start, learning_rate=3.0, steps=500)
        parts = [np.linalg.norm(to_matrix(flow.numbers[i, 1], topics) @ within) for i in (0, -1)]
        assert low < parts[1] / parts[0] < high


def test_small_functions():
    assert onset_steps(1e-3, 1.0, 4e-5, 50) == pytest.approx(log(1e3) / 2e-3)
    assert onset_steps(1e-3, 1.0, 0.0, 50) == onset_steps(1e-3, 1.0, -1e-5, 50) == np.inf
    steps, values = np.arange(0, 50, 10), np.array([1.0, 0.8, 1.4, 5.0, 11.0])
    assert rise_step(steps, values) == pytest.approx(20 + 10 * 0.6 / 3.6)
    assert rise_step(steps, values, 0.7) == pytest.approx(30 + 10 * 3 / 6)
    assert np.isnan(rise_step(steps, values[::-1]))


# Finite documents


def exact_finite_rates(topics, masking, tau, lengths, rule, loss, W_V):
    """-G's eigenvalues (topic, within) over every document and mask of these lengths; the first position is chosen."""
    V, v, hidden, eye = topics.V, topics.v, 1 - masking.p_c - masking.p_r, np.eye(topics.V + 1)
    replaced = [(0, hidden)] + [(i, masking.p_r / V) for i in range(1, V + 1)]
    rows = []
    for N in lengths:
        for words in product(range(1, V + 1), repeat=N):
            sets = [set(s) for s in combinations(range(topics.T), tau)]
            law = sum({(w - 1) // v for w in words} <= s for s in sets) / len(sets) / (tau * v) ** N
            fates = [[(True, w, masking.p_c), *((True, *fate) for fate in replaced)] for w in words]
            for i in range(1, N):
                fates[i] = [(True, w, p * masking.p_m) for _, w, p in fates[i]] + [(False, words[i], 1 - masking.p_m)]
            for fate in product(*fates if law else [[]]):
                keys = sum(eye[w] for chosen, w, _ in fate if not (chosen and rule == "unchosen"))
                keys = keys * np.ones(V + 1)
                keys[0] *= rule == "attended"
                rows.append((keys, fate[0][1], words[0], N * law * np.prod([p for _, _, p in fate])))
    keys, query, label, weight = (torch.tensor(np.array(column)) for column in zip(*rows, strict=True))
    S = torch.zeros(V + 1, V + 1, dtype=torch.float64, requires_grad=True)
    attention = keys * torch.exp(S.T[query])
    f = attention / attention.sum(1, keepdim=True).clamp(min=1e-9) @ torch.tensor(W_V).T
    if loss == "squared":
        values = ((f - torch.eye(V + 1, dtype=torch.float64)[label]) ** 2).sum(1)
    else:
        values = torch.nn.functional.cross_entropy(f, label, reduction="none")
    (G,) = torch.autograd.grad((weight * values).sum() / weight.sum(), S)
    return [-np.trace(p @ G.numpy()) / max(round(np.trace(p)), 1) for p in topic_space(topics)]


@rules
@losses
@pytest.mark.parametrize(("T", "v", "tau", "length"), [(2, 2, 1, 3), (3, 1, 2, (2, 3))])
def test_finite_documents_exactly(T, v, tau, length, rule, loss, monkeypatch):
    topics, value = TopicModel(T, v), np.array([0.1, -0.2, 0.3, 1.5, 0.6, -0.4])
    monkeypatch.setattr(dynamics, "DOCUMENTS", 2**17)
    rates = mode_rates(topics, HEAVY, FixedTopics(tau), loss, rule, length=length, value=value)
    exact = exact_finite_rates(topics, HEAVY, tau, np.unique(length), rule, loss, to_matrix(value, topics))
    np.testing.assert_allclose(rates[:2], exact, rtol=0, atol=0.02 * np.abs(exact).max())
    infinite = mode_rates(topics, HEAVY, FixedTopics(tau), loss, rule, value=value)
    assert np.abs(np.array(infinite[:2]) - exact).max() > 0.05 * np.abs(exact).max()


@rules
@losses
@pytest.mark.parametrize("mixture", [DirichletTopics(0.3), FixedTopics(2)], ids=str)
def test_finite_documents_against_sampled_masks(mixture, rule, loss, monkeypatch):
    """G of TopicTransformer by autograd (W_K = I, W_Q = 0: dL/dW_Q = G / sqrt(d)), 30 batches of documents."""
    topics, value = TopicModel(4, 2), np.array([0.1, -0.2, 0.3, 1.5, 0.8, -0.4])
    monkeypatch.setattr(dynamics, "DOCUMENTS", 2**14)
    rates = mode_rates(topics, HEAVY, mixture, loss, rule, length=(10, 30), value=value)
    matrices = {"W_V": to_matrix(value, topics), "W_K": np.eye(9), "W_Q": np.zeros((9, 9))}
    model = TopicTransformer(topics, ("W_Q",), initial=matrices, mask_keys=rule)
    rng, sample = np.random.default_rng(4), []
    for _ in range(30):
        masked = mask_documents(sample_documents(topics, 600, mixture, (10, 30), rng), HEAVY, rng)
        (queries,) = batches(masked, model, len(masked))
        mean_loss = loss_sum(model(queries), queries.labels, loss) / queries.labels.sum()
        (G,) = torch.autograd.grad(mean_loss, model.W_Q)
        G = 3 * G.numpy()
        contrasts, within = topic_space(topics)
        sample.append([-np.trace(contrasts @ G) / 3, -np.trace(within @ G) / 4, G[0, 0]])
    mean, error = np.mean(sample, axis=0), np.std(sample, axis=0, ddof=1) / sqrt(len(sample))
    z = (np.array(rates[:2]) - mean[:2]) / error[:2]
    assert np.abs(z).max() < 4, (rates, mean, error)
    assert rates.topic / error[0] > 8  # sharp enough to tell
    if rule == "attended":
        assert np.sign(rates.mask) == -np.sign(mean[2])
    infinite = mode_rates(topics, HEAVY, mixture, loss, rule, value=value)
    assert np.abs((np.array(infinite[:2]) - mean[:2]) / error[:2]).max() > 6


@rules
def test_stage_1_of_finite_documents(rule):
    topics, mixture, decay = TopicModel(4, 2), DirichletTopics(0.3), 1e-3
    W = to_matrix(stage1_numbers(topics, HEAVY, mixture, "squared", rule, decay, (10, 30)), topics)
    if rule == "attended":
        exact = ridge_optimum(topics, HEAVY, mixture, decay, (10, 30))
        close(W, exact, 0.02 * np.abs(exact).max())
        assert np.abs(W - ridge_optimum(topics, HEAVY, mixture, decay)).max() > 0.1 * np.abs(W).max()
    again = to_matrix(stage1_numbers(topics, HEAVY, mixture, "squared", rule, decay, (10, 30)), topics)
    assert (W == again).all()  # always the same documents


# The run of the paper's size


def test_headline_numbers():
    root_d = sqrt(101)
    W_V = to_matrix(stage1_numbers(HEADLINE, PAPER, LDA, "cross-entropy", weight_decay=1e-5), HEADLINE)
    assert np.linalg.norm(W_V) == pytest.approx(130.6, rel=5e-3)
    infinite = mode_rates(HEADLINE, PAPER, LDA, "cross-entropy", weight_decay=1e-5).topic / root_d - 2e-5
    finite = (
        mode_rates(HEADLINE, PAPER, LDA, "cross-entropy", weight_decay=1e-5, length=(100, 150)).topic / root_d - 2e-5
    )
    assert infinite == pytest.approx(3.94e-5, rel=5e-3) and finite == pytest.approx(3.87e-5, rel=5e-3)
    assert finite < infinite
    attended = mode_rates(HEADLINE, PAPER, LDA, "cross-entropy", "attended", 1e-5)
    assert -attended.mask == pytest.approx(0.038, rel=0.01) and attended.topic == pytest.approx(6.3e-4, rel=0.01)
    assert mode_rates(HEADLINE, PAPER, LDA).topic == pytest.approx(2.75e-5, rel=1e-6)
    assert critical_weight_decay(HEADLINE, PAPER, LDA, "cross-entropy") == pytest.approx(2.54e-5, rel=5e-3)
    assert critical_weight_decay(HEADLINE, PAPER, LDA) == pytest.approx(1.37e-6, rel=5e-3)
    assert fixed_point(HEADLINE, PAPER).key_norm == pytest.approx(46.571, abs=5e-4)


# Errors

SMALL, TWO = TopicModel(3, 2), FixedTopics(2)
FLOW = dict(learning_rate=1.0, steps=10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(loss="hinge"), "loss = 'hinge' is not allowed: choose one of squared, cross-entropy"),
        (dict(mask_keys="all"), "mask_keys = 'all' is not allowed: choose one of attended, excluded, unchosen"),
        (dict(loss="cross-entropy"), "weight_decay = 0 is not allowed with cross-entropy"),
        (dict(weight_decay=-1.0), "weight_decay = -1.0 is not allowed"),
        (dict(weight_decay=float("nan")), "weight_decay = nan is not allowed"),
        (dict(mixture=FixedTopics(3)), "tau = 3 is not allowed with T = 3"),
        (dict(masking=Masking(1.0, 0.2, 0.2)), "p_m = 1 is not allowed with unchosen keys"),
        (dict(masking=Masking(1.0, 0.0, 0.2), mask_keys="attended"), "p_m = 1 is not allowed with"),
        (dict(length=(5, 3)), "the shortest length comes first"),
        (dict(length=0), "length = 0 is not allowed"),
        (dict(topics=TopicModel(1, 3), mixture=LDA), "T = 1 is not allowed"),
    ],
    ids=str,
)
def test_impossible_populations(options, message):
    arguments = dict(topics=SMALL, masking=PAPER, mixture=TWO) | options
    for call in (mode_rates, stage1_numbers):
        with pytest.raises(ValueError, match=message):
            call(**arguments)
    if not {"length", "loss"} & set(options) or options.get("loss") == "hinge":
        with pytest.raises(ValueError, match=message):
            reduced_flow(start=np.zeros((3, 6)), **arguments, **FLOW)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(learning_rate=0.0), "learning_rate = 0.0 is not allowed"),
        (dict(learning_rate=float("inf")), "learning_rate = inf is not allowed"),
        (dict(steps=0), "steps = 0 is not allowed"),
        (dict(steps=2.5), "steps = 2.5 is not allowed"),
        (dict(record_every=0), "record_every = 0 is not allowed"),
    ],
    ids=str,
)
def test_impossible_flows(options, message):
    with pytest.raises(ValueError, match=message):
        reduced_flow(SMALL, PAPER, TWO, np.zeros((3, 6)), **FLOW | options)
    with pytest.raises(ValueError, match=message):
        two_number_flow(SMALL, PAPER, 2, (0, 0, 1), **FLOW | options)


def test_other_errors():
    for shape in ((6,), (2, 6), (3, 7)):
        with pytest.raises(ValueError, match=r"start of shape .* six numbers a matrix, \(3, 6\)"):
            reduced_flow(SMALL, PAPER, TWO, np.zeros(shape), **FLOW)
    with pytest.raises(FloatingPointError, match=r"the loss is .* try a smaller learning rate"):
        reduced_flow(SMALL, PAPER, TWO, np.ones((3, 6)), learning_rate=1e3, steps=100)
    for tau, message in ((1, "tau = 1 is not allowed"), (3, "tau = 3 is not allowed with T = 3")):
        with pytest.raises(ValueError, match=message):
            two_number_flow(SMALL, PAPER, tau, (0, 0, 1), **FLOW)
    with pytest.raises(ValueError, match=r"a matrix of shape \(6, 6\) is not allowed: \(7, 7\) is wanted"):
        to_numbers(np.eye(6), SMALL)
    for topics, masking in ((TopicModel(1, 3), PAPER), (SMALL, NO_RANDOM), (SMALL, Masking(0.2, 0.0, 0.1))):
        with pytest.raises(ValueError, match="T of at least 2 and rates above 0 are wanted"):
            fixed_point(topics, masking)
    with pytest.raises(ValueError, match="T = 1 is not allowed: a whole number, at least 2"):
        topic_amplitude(np.eye(4), np.eye(4), TopicModel(1, 3))
    with pytest.raises(ValueError, match="mask_keys = 'all' is not allowed"):
        value_rate(SMALL, PAPER, TWO, "all")
