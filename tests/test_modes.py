"""topiclib.modes against autograd on full (V+1) x (V+1) matrices, over every document and every query word."""

from itertools import combinations, product
from math import sqrt

import numpy as np
import pytest
import torch
from cases import NO_RANDOM, PAPER, cases, losses, rules
from cases import UNEVEN as HEAVY
from truth import close, gradients_at_zero, problems, projectors

from topiclib import modes
from topiclib.data import DirichletTopics, FixedTopics, Masking, TopicModel, mask_documents, sample_documents
from topiclib.dynamics import fixed_point, reduced_flow
from topiclib.model import KEY_RULES, LOSSES, TopicTransformer, batches, loss_sum
from topiclib.modes import critical_weight_decay, mode_rates, stage1_numbers, to_matrix, to_numbers, value_rate
from topiclib.theory import ridge_optimum, stage1_optimum

SMALL, TWO = TopicModel(3, 2), FixedTopics(2)
HEADLINE, LDA = TopicModel(10, 10), DirichletTopics(0.1)


@pytest.mark.parametrize("topics", [TopicModel(2, 3), TopicModel(3, 2), TopicModel(4, 1)], ids=str)
def test_numbers_are_averages_over_relabellings(topics):
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=6)
    matrix = to_matrix(numbers, topics)
    numbers[4] *= topics.v > 1
    close(to_numbers(matrix, topics), numbers, 1e-14)
    entries = matrix[0, 0], matrix[0, 1], matrix[1, 0], matrix[1, 1], matrix[1, topics.v + 1]
    assert entries == tuple(numbers[[0, 1, 2, 3, 5]])
    W, average = rng.normal(size=matrix.shape), np.zeros(matrix.shape)
    for _ in range(1500):
        words = 1 + np.arange(topics.V).reshape(topics.T, topics.v)[rng.permutation(topics.T)]
        order = np.concatenate([[0], *(rng.permutation(row) for row in words)])
        average += W[np.ix_(order, order)] / 1500
        close(matrix[np.ix_(order, order)], matrix, 0)
    close(average, to_matrix(to_numbers(W, topics), topics), 0.2)
    close(to_numbers(W - to_matrix(to_numbers(W, topics), topics), topics), 0, 1e-14)


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

    contrasts, within = projectors(topics.T, topics.v)
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
    contrasts, within = projectors(topics.T, topics.v)
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
        population, identity = (TopicModel(T, v), PAPER, DirichletTopics(alpha)), np.eye(1 + T * v)
        _, G = gradients_at_zero(*population, "unchosen", "squared", identity)
        rates = mode_rates(*population, value=to_numbers(identity, TopicModel(T, v)))
        contrasts, within = projectors(T, v)
        close(contrasts @ G, -rates.topic * contrasts, 1e-10)
        close(within @ G, -rates.within * within, 1e-10)


@rules
def test_value_rate_is_how_fast_stage_1_ends(rule):
    topics, mixture, lr = TopicModel(4, 2), FixedTopics(2), 0.5
    start = np.zeros((3, 6))
    flow = reduced_flow(topics, HEAVY, mixture, start, learning_rate=lr, steps=50, mask_keys=rule, record_every=1)
    contrasts, _ = projectors(topics.T, topics.v)
    b = np.array([(contrasts @ to_matrix(V, topics)).trace() / (topics.T - 1) for V in flow.numbers[:, 0]])
    best = {"attended": 1 / HEAVY.a, "excluded": (1 - HEAVY.mu) / HEAVY.a, "unchosen": 1}[rule]
    factor = 1 - lr * value_rate(topics, HEAVY, mixture, rule)
    np.testing.assert_allclose(b, best * (1 - factor**flow.steps), rtol=1e-12)
    assert (flow.norms["W_K"] == 0).all()


@losses
def test_critical_weight_decay(loss):
    topics, mixture = TopicModel(5, 2), FixedTopics(2)
    critical = critical_weight_decay(topics, PAPER, mixture, loss)
    sigma = mode_rates(topics, PAPER, mixture, loss, weight_decay=critical).topic
    assert critical == pytest.approx(sigma / (2 * sqrt(11)), rel=1e-7)
    for factor, sign in ((0.9, 1), (1.1, -1)):
        decay = factor * critical
        start = np.array([stage1_numbers(topics, PAPER, mixture, loss, weight_decay=decay)] * 3)
        start[1:] = to_numbers(1e-4 * projectors(topics.T, topics.v)[0], topics)
        flow = reduced_flow(topics, PAPER, mixture, start, learning_rate=5.0, steps=500, loss=loss, weight_decay=decay)
        assert sign * (flow.norms["W_K"][-1] - flow.norms["W_K"][0]) > 0
    with pytest.raises(ValueError, match="no weight decay is critical"):
        critical_weight_decay(topics, PAPER, FixedTopics(1))  # squared loss: sigma is 0


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
    return [-np.trace(p @ G.numpy()) / max(round(np.trace(p)), 1) for p in projectors(topics.T, topics.v)]


@rules
@losses
@pytest.mark.parametrize(("T", "v", "tau", "length"), [(2, 2, 1, 3), (3, 1, 2, (2, 3))])
def test_finite_documents_exactly(T, v, tau, length, rule, loss, monkeypatch):
    topics, value = TopicModel(T, v), np.array([0.1, -0.2, 0.3, 1.5, 0.6, -0.4])
    monkeypatch.setattr(modes, "DOCUMENTS", 2**17)
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
    monkeypatch.setattr(modes, "DOCUMENTS", 2**14)
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
        contrasts, within = projectors(topics.T, topics.v)
        sample.append([-np.trace(contrasts @ G) / 3, -np.trace(within @ G) / 4, G[0, 0]])
    mean, error = np.mean(sample, axis=0), np.std(sample, axis=0, ddof=1) / sqrt(len(sample))
    z = (np.array(rates[:2]) - mean[:2]) / error[:2]
    assert np.abs(z).max() < 4, (rates, mean, error)
    assert rates.topic / error[0] > 8  # sharp enough to tell
    assert rule != "attended" or np.sign(rates.mask) == -np.sign(mean[2])
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


def test_headline_numbers():
    headline, small = (HEADLINE, PAPER, LDA, "cross-entropy"), dict(weight_decay=1e-5)
    assert np.linalg.norm(to_matrix(stage1_numbers(*headline, **small), HEADLINE)) == pytest.approx(130.6, rel=5e-3)
    infinite, finite = (mode_rates(*headline, **small, length=n).topic / sqrt(101) - 2e-5 for n in (None, (100, 150)))
    assert infinite == pytest.approx(3.94e-5, rel=5e-3) and finite == pytest.approx(3.87e-5, rel=5e-3)
    attended = mode_rates(*headline, "attended", **small)
    assert -attended.mask == pytest.approx(0.038, rel=0.01) and attended.topic == pytest.approx(6.3e-4, rel=0.01)
    assert mode_rates(HEADLINE, PAPER, LDA).topic == pytest.approx(2.75e-5, rel=1e-6)
    assert critical_weight_decay(*headline) == pytest.approx(2.54e-5, rel=5e-3)
    assert critical_weight_decay(HEADLINE, PAPER, LDA) == pytest.approx(1.37e-6, rel=5e-3)
    assert fixed_point(HEADLINE, PAPER).key_norm == pytest.approx(46.571, abs=5e-4)


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
            reduced_flow(start=np.zeros((3, 6)), **arguments, learning_rate=1.0, steps=1)


def test_wrong_shape_and_rule():
    with pytest.raises(ValueError, match=r"a matrix of shape \(6, 6\) is not allowed: \(7, 7\) is wanted"):
        to_numbers(np.eye(6), SMALL)
    with pytest.raises(ValueError, match="mask_keys = 'all' is not allowed"):
        value_rate(SMALL, PAPER, TWO, "all")
