"""topiclib.theory against brute force: every topic set, every document, every mask, then dense linear algebra."""

from fractions import Fraction
from functools import cache
from itertools import combinations, product
from math import ceil, prod, sqrt

import numpy as np
import pytest

from topiclib.data import DirichletTopics, FixedTopics, Masking, TopicModel
from topiclib.theory import (
    constants,
    corpus_loss,
    corpus_moments,
    corpus_optimum,
    diagonal_optimum,
    mode_moments,
    ridge_optimum,
    stage1_family,
    stage1_optimum,
    theorem1_embedding,
    theorem3_interval,
    theorem5_interval,
)

PAPER = Masking(0.15, 0.1, 0.1)
HEAVY = Masking(0.4, 0.25, 0.25)
NO_RANDOM = Masking(0.3, 0.2, 0.0)
ALL_CHOSEN = Masking(1.0, 0.3, 0.2)
RATES = [PAPER, HEAVY, Masking(0.3, 0.0, 0.2), NO_RANDOM, Masking(0.25, 0.0, 0.0), ALL_CHOSEN, Masking(1.0, 0.3, 0.0)]
SHAPES = [TopicModel(2, 1), TopicModel(2, 3), TopicModel(3, 2), TopicModel(4, 1), TopicModel(5, 2)]
DECAYS = [0.0, 1e-3, 0.1]
rates = pytest.mark.parametrize("masking", RATES, ids=str)
shapes = pytest.mark.parametrize("topics", SHAPES, ids=str)


def mixtures(T):
    return [*(FixedTopics(tau) for tau in range(1, T)), DirichletTopics(0.1), DirichletTopics(1.7)]


# The truth, written without topiclib


@cache
def theta_moment(mixture, T, sequence):
    """E[theta_s theta_t ...], the probability of a topic sequence, over all topic sets or by rising factorials."""
    if isinstance(mixture, FixedTopics):
        sets = list(combinations(range(T), mixture.tau))
        return sum(set(sequence) <= set(s) for s in sets) / len(sets) / mixture.tau ** len(sequence)

    def rising(x, n):
        return prod(x + i for i in range(n))

    alpha = mixture.alpha
    return prod(rising(alpha, sequence.count(t)) for t in range(T)) / rising(T * alpha, len(sequence))


def topic(word, v):
    return ceil(word / v) - 1


def words_given_topics(topics, masking):
    """Matrices B, M with P_w = B theta and p = M theta: word frequencies before and after masking, infinite length."""
    B = np.array([[float(i > 0 and topic(i, topics.v) == t) for t in range(topics.T)] for i in range(topics.V + 1)])
    B /= topics.v
    kept, replaced = 1 - masking.p_m + masking.p_m * masking.p_c, masking.p_m * masking.p_r
    M = kept * B + replaced / topics.V
    M[0] = 1 - kept - replaced
    return B, M


def infinite_moments(topics, masking, mixture):
    B, M = words_given_topics(topics, masking)
    S = np.array([[theta_moment(mixture, topics.T, (s, t)) for t in range(topics.T)] for s in range(topics.T)])
    return M @ S @ M.T, B @ S @ M.T


def topic_sets(topics, masking, tau):
    """(p, P_w) of every set of tau topics, one row each."""
    B, M = words_given_topics(topics, masking)
    theta = np.array([[(t in s) / tau for t in range(topics.T)] for s in combinations(range(topics.T), tau)])
    return theta @ M.T, theta @ B.T


@cache
def masked_rows(document, V, masking):
    """(p, x, probability) of every chosen position under every mask of this word sequence."""
    N, eye, hidden = len(document), np.eye(V + 1), 1 - masking.p_c - masking.p_r
    chosen = [(True, 0, masking.p_m * hidden)] + [(True, i, masking.p_m * masking.p_r / V) for i in range(1, V + 1)]
    fates = [[(False, w, 1 - masking.p_m), (True, w, masking.p_m * masking.p_c), *chosen] for w in document]
    masks = [mask for mask in product(*fates) if all(fate[2] > 0 for fate in mask)]
    is_chosen = np.array([[fate[0] for fate in mask] for mask in masks])
    p = eye[np.array([[fate[1] for fate in mask] for mask in masks])].sum(1) / N
    probability = np.array([prod(fate[2] for fate in mask) for mask in masks])
    assert abs(probability.sum() - 1) < 1e-12
    mask, position = np.nonzero(is_chosen)
    return p[mask], eye[np.array(document)[position]], probability[mask]


@cache
def masked_sums(document, V, masking):
    """Sums over chosen positions, averaged over the masks: of p p', of x p', and their number."""
    p, x, probability = masked_rows(document, V, masking)
    return (p.T * probability) @ p, (x.T * probability) @ p, probability.sum()


def finite_moments(topics, masking, mixture, lengths):
    """E[p p'] and E[x p'] over all documents of these lengths (equally likely), every chosen position counting once."""
    PP = XP = number = 0
    for N in lengths:
        for document in product(range(1, topics.V + 1), repeat=N):
            law = theta_moment(mixture, topics.T, tuple(topic(w, topics.v) for w in document)) / topics.v**N
            if law > 0:
                sums = masked_sums(document, topics.V, masking)
                PP, XP, number = PP + law * sums[0], XP + law * sums[1], number + law * sums[2]
    return PP / number, XP / number


def dense_optimum(PP, XP, decay):
    if decay:
        return np.linalg.solve(PP + decay * np.eye(len(PP)), XP.T).T
    return XP @ np.linalg.pinv(PP, rcond=1e-11, hermitian=True)


def null_space(A, tol=1e-10):
    _, singular, Vt = np.linalg.svd(A)
    return Vt[int((singular > tol * singular[0]).sum()) :].T


def close(x, y, tol):
    np.testing.assert_allclose(x, y, rtol=0, atol=tol)


# Infinite documents: Theorems 2 and 4, Definition 2, ridge


def test_constants_are_exact_fractions():
    p_m, p_c, p_r = Fraction(15, 100), Fraction(1, 10), Fraction(1, 10)
    a, mu = 1 - (1 - p_c) * p_m, p_m * (1 - p_c - p_r)
    assert (a, mu) == (Fraction(173, 200), Fraction(3, 25))
    assert p_r / ((1 - p_c - p_r) * a * 100) == p_m * p_r / 100 / (a * mu) == Fraction(1, 692)
    close(constants(TopicModel(10, 10), PAPER), (1 / 692, 22 / 3, 200 / 173), 1e-15)
    close((PAPER.a, PAPER.mu), (173 / 200, 3 / 25), 1e-15)


@rates
@shapes
def test_ridge_optimum_of_infinite_documents(topics, masking):
    for mixture in mixtures(topics.T):
        PP, XP = infinite_moments(topics, masking, mixture)
        for decay in DECAYS:
            close(ridge_optimum(topics, masking, mixture, decay), dense_optimum(PP, XP, decay), 1e-10)


@rates
@shapes
def test_theorem2_is_the_least_norm_minimiser_for_every_mixture(topics, masking):
    W = stage1_optimum(topics, masking)
    for mixture in mixtures(topics.T):
        close(W, dense_optimum(*infinite_moments(topics, masking, mixture), 0.0), 1e-10)
        close(W, ridge_optimum(topics, masking, mixture, 0.0), 1e-10)
        close(W, ridge_optimum(topics, masking, mixture, 1e-9), 1e-4)
    c2 = (1 - masking.mu) / masking.mu
    close(W[1:, 0], 1 / (masking.mu * (c2**2 + topics.V)), 1e-14)
    assert W[1, 0] > 0 and not W[0].any()


@rates
@shapes
def test_theorem4_every_member_attains_the_minimum(topics, masking):
    rng = np.random.default_rng(1)
    T, v, V = topics.T, topics.v, topics.V
    a = 1 - masking.p_m * (1 - masking.p_c)
    u = rng.normal(size=V + 1)
    W = stage1_family(topics, masking, u)
    sums = W[:, 1:].reshape(V + 1, T, v).sum(2)
    expected = v * u[:, None] + np.array([[(i > 0 and topic(i, v) == t) / a for t in range(T)] for i in range(V + 1)])
    close(sums, expected, 1e-12)
    close(W[:, 1:].reshape(V + 1, T, v).std(2), 0, 1e-14)  # spread evenly

    spread = rng.normal(size=(V + 1, T, v))
    spread -= spread.mean(2, keepdims=True)  # differences within topics, free as well
    member = W.copy()
    member[:, 1:] += spread.reshape(V + 1, V)
    for tau in range(1, T):
        p, P = topic_sets(topics, masking, tau)
        for candidate in (W, member, diagonal_optimum(topics, masking), stage1_optimum(topics, masking)):
            close(p @ candidate.T, P, 1e-12)  # loss 0: no smaller one exists
        for i, j in product(range(V + 1), repeat=2):  # 1% off in any entry is no minimiser
            outside = W.copy()
            outside[i, j] *= 1.01
            assert np.abs(p @ outside.T - P).max() > 1e-6 * abs(W[i, j])


@rates
@shapes
def test_theorem4_is_complete(topics, masking):
    """Minimisers differ, row by row, by vectors no document sees: T (v-1) within topics, and (-c2, 1, ..., 1)."""
    T, v, V = topics.T, topics.v, topics.V
    u_direction = np.ones(V + 1)
    u_direction[0] = -(1 - masking.mu) / masking.mu
    within = np.zeros((T * (v - 1), V + 1))
    for row, (t, k) in zip(within, product(range(T), range(1, v)), strict=True):
        row[1 + t * v], row[1 + t * v + k] = 1, -1
    free = np.vstack([within, u_direction])
    for tau in range(1, T):
        p, _ = topic_sets(topics, masking, tau)
        close(p @ free.T, 0, 1e-12)
        assert null_space(p).shape[1] == np.linalg.matrix_rank(free) == V + 1 - T
        assert null_space(infinite_moments(topics, masking, FixedTopics(tau))[0], 1e-12).shape[1] == V + 1 - T
    assert null_space(topic_sets(topics, masking, T)[0]).shape[1] == V  # tau = T: one document, hence excluded

    u = np.random.default_rng(2).normal(size=V + 1)
    zero = np.zeros(V + 1)
    change = stage1_family(topics, masking, u) - stage1_family(topics, masking, zero)
    close(change, np.outer(u, u_direction), 1e-12)


@rates
@shapes
def test_definition2_has_no_entry_off_the_diagonal(topics, masking):
    W = diagonal_optimum(topics, masking)
    expected = np.zeros_like(W)
    a = 1 - masking.p_m + masking.p_m * masking.p_c
    for i in range(1, topics.V + 1):
        expected[i, i], expected[i, 0] = 1 / a, -masking.p_m * masking.p_r / topics.V / (a * masking.mu)
    close(W, expected, 1e-14)


# Theorem 1


@rates
@shapes
def test_theorem1_embedding(topics, masking):
    T, V = topics.T, topics.V
    rng = np.random.default_rng(3)
    E = theorem1_embedding(topics, masking)
    bias = np.full(V + 1, -masking.p_m * masking.p_r / V / (1 - masking.p_m * (1 - masking.p_c)))
    bias[0] = 0
    eigenvalues = np.linalg.eigvalsh(E)
    assert (E == E.T).all() and eigenvalues[0] > -1e-12 and (eigenvalues > 1e-9).sum() == T
    for tau in range(1, T):
        p, P = topic_sets(topics, masking, tau)
        close(p @ E + bias, P, 1e-12)
        assert np.linalg.matrix_rank(P - bias, tol=1e-9) == T  # so every solution has rank T at least
        if masking.p_r > 0:
            assert np.abs(p @ E - P).max() > 1e-6
            E_free = ridge_optimum(topics, masking, FixedTopics(tau), 0.0)  # without a bias the minimum is elsewhere
            close(p @ E_free.T, P, 1e-12)

        # Least trace (= least ||W_E||_F): symmetric solutions are E + F S F', F the directions that no document sees.
        # On the kernel K of E a positive semidefinite solution needs K'F S F'K >= 0, K'F is invertible, so S >= 0.
        F, K = null_space(p), null_space(E)
        assert F.shape == K.shape and np.linalg.svd(K.T @ F)[1].min() > 1e-3
        for _ in range(5):
            S = rng.normal(size=(F.shape[1], F.shape[1]))
            S = S @ S.T
            close(p @ (E + F @ S @ F.T) + bias, P, 1e-11)
            assert np.trace(F @ S @ F.T) > 0
            values, vectors = np.linalg.eigh(S)
            values[0] = -0.01
            assert np.linalg.eigvalsh(E + F @ (vectors * values) @ vectors.T @ F.T)[0] < 0


# Finite documents


FINITE = [
    (2, 2, 1),
    (2, 2, 2),
    (2, 2, 3),
    (2, 2, (1, 3)),
    (3, 1, 3),
    (3, 1, (2, 3)),
    (2, 1, 4),
    (2, 1, (1, 4)),
    (3, 2, 2),
]


@pytest.mark.parametrize(("T", "v", "length"), FINITE)
@rates
def test_finite_documents(T, v, length, masking):
    topics, V = TopicModel(T, v), T * v
    lengths = range(length[0], length[1] + 1) if isinstance(length, tuple) else [length]
    for mixture in mixtures(T):
        PP, XP = finite_moments(topics, masking, mixture, lengths)
        for decay in DECAYS:
            W = ridge_optimum(topics, masking, mixture, decay, length)
            close(W, dense_optimum(PP, XP, decay), 1e-10)
            if decay == 0:
                close(W[1:, 0], 1 / V, 1e-12)

        moments = mode_moments(topics, masking, mixture, length)
        close(moments.m_0, PP[0].sum(), 1e-13)
        close(moments.m_00, PP[0, 0], 1e-13)
        words = np.eye(V)
        same = np.kron(np.eye(T), np.full((v, v), 1 / v))
        contrasts, within = same - 1 / V, words - same
        close(contrasts @ PP[1:, 1:] @ contrasts, moments.X_B * contrasts, 1e-13)
        close(contrasts @ XP[1:, 1:] @ contrasts, moments.Y_B * contrasts, 1e-13)
        close(within @ PP[1:, 1:], moments.X_C * within, 1e-13)
        close(within @ XP[1:, 1:], moments.Y_C * within, 1e-13)


@pytest.mark.parametrize("topics", [TopicModel(2, 1), TopicModel(3, 2)], ids=str)
@rates
def test_infinite_length_is_the_limit(topics, masking):
    for mixture in mixtures(topics.T):
        limit = mode_moments(topics, masking, mixture)
        near, far = (np.array(mode_moments(topics, masking, mixture, N)) - limit for N in (10**4, 10**5))
        close(far, near / 10, 1e-9)
        assert np.abs(far).max() < 1e-4


@pytest.mark.parametrize("masking", [PAPER, HEAVY], ids=str)
def test_diagonal_excess_of_long_documents(masking):
    topics, mixture = TopicModel(10, 10), FixedTopics(2)
    hidden = 1 - masking.p_c - masking.p_r
    limit = masking.p_c / (1 - masking.p_m * hidden)

    def excess(N, decay):
        W = ridge_optimum(topics, masking, mixture, decay, N)
        return W[1, 1] - W[1, 2]

    rate = limit * (1 - masking.p_m) * hidden / (1 - masking.p_m * hidden)
    assert 1e5 * (excess(10**5, 0.0) - limit) == pytest.approx(rate, rel=1e-3)
    assert 1e6 * (excess(10**6, 0.0) - limit) == pytest.approx(rate, rel=1e-3)
    assert 0 < excess(10**6, 1e-5) < 1.1 * masking.p_c / (10**6 * 100 * 1e-5) < 1e-3
    if masking is PAPER:
        assert limit == pytest.approx(0.1136, abs=5e-5)


# A given corpus


CORPUS = [(1,), (2, 2), (1, 3), (4, 1, 1), (1, 2, 3), (3, 3, 3), (4, 1, 4, 2), (2, 2, 2, 2)]


def counts_of(documents, V):
    return np.array([np.bincount(document, minlength=V + 1) for document in documents])


@pytest.mark.parametrize("documents", [CORPUS, CORPUS[:1], CORPUS[3:4], CORPUS[6:7], CORPUS[1:3]], ids=str)
@pytest.mark.parametrize("masking", [*RATES, Masking(1.0, 0.0, 0.2)], ids=str)
def test_corpus(documents, masking):
    V = 4
    moments = corpus_moments(counts_of(documents, V), masking)
    sums = [masked_sums(document, V, masking) for document in documents]
    number = sum(s[2] for s in sums)
    PP, XP = sum(s[0] for s in sums) / number, sum(s[1] for s in sums) / number
    close(moments.PP, PP, 1e-12)
    close(moments.XP, XP, 1e-12)

    p, x, weight = (np.concatenate(part) for part in zip(*(masked_rows(d, V, masking) for d in documents), strict=True))
    weight = weight / weight.sum()
    W = np.random.default_rng(4).normal(size=(V + 1, V + 1))
    assert corpus_loss(moments, W) == pytest.approx(weight @ ((p @ W.T - x) ** 2).sum(1), abs=1e-12)
    for decay in DECAYS:
        rows = np.vstack([np.sqrt(weight)[:, None] * p, sqrt(decay) * np.eye(V + 1)])
        target = np.vstack([np.sqrt(weight)[:, None] * x, np.zeros((V + 1, V + 1))])
        best = np.linalg.lstsq(rows, target, rcond=1e-8)[0].T
        optimum = corpus_optimum(moments, decay)
        close(optimum, best, 1e-10)
        penalised = [corpus_loss(moments, U) + decay * np.sum(U**2) for U in (optimum, optimum + 0.01 * W)]
        assert penalised[0] < penalised[1]


@pytest.mark.parametrize(("T", "v", "tau", "lengths"), [(3, 2, 2, (2,)), (2, 2, 1, (1, 2, 3)), (3, 1, 2, (4, 5))])
def test_corpus_of_all_documents_is_the_population(T, v, tau, lengths):
    """All sets of tau topics, all word sequences from them; short ones repeated until all lengths are as frequent."""
    topics, V, documents = TopicModel(T, v), T * v, []
    for chosen, N in product(combinations(range(T), tau), lengths):
        words = [w for w in range(1, V + 1) if topic(w, v) in chosen]
        documents += list(product(words, repeat=N)) * len(words) ** (max(lengths) - N)
    corpus = corpus_moments(counts_of(documents, V), HEAVY)
    moments = mode_moments(topics, HEAVY, FixedTopics(tau), (min(lengths), max(lengths)))
    same = np.kron(np.eye(T), np.full((v, v), 1 / v))
    PP = moments.X_B * (same - 1 / V) + moments.X_C * (np.eye(V) - same)
    PP += (1 - 2 * moments.m_0 + moments.m_00) / V / V
    XP = moments.Y_B * (same - 1 / V) + moments.Y_C * (np.eye(V) - same) + (1 - moments.m_0) / V / V
    close(corpus.PP[1:, 1:], PP, 1e-13)
    close(corpus.XP[1:, 1:], XP, 1e-13)
    close(corpus.PP[0], [moments.m_00, *[(moments.m_0 - moments.m_00) / V] * V], 1e-13)
    close(corpus.XP[1:, 0], moments.m_0 / V, 1e-13)
    assert not corpus.XP[0].any()
    for decay in DECAYS:
        expected = ridge_optimum(topics, HEAVY, FixedTopics(tau), decay, (min(lengths), max(lengths)))
        close(corpus_optimum(corpus, decay), expected, 1e-10)


# Theorems 3 and 5


@pytest.mark.parametrize("masking", [PAPER, HEAVY, Masking(0.3, 0.0, 0.2)], ids=str)
def test_intervals_follow_the_paper(masking):
    topics, tau = TopicModel(100, 300), np.array([1, 20, 80, 100])
    p_m, p_c, p_r = masking.p_m, masking.p_c, masking.p_r
    a = 1 - (1 - p_c) * p_m
    mu, c4 = p_m * (1 - p_c - p_r), 1 / a
    kappa = (1 - mu) / a
    c7 = 1 / (c4 * sqrt(299) - 1 - c4)
    assert kappa == pytest.approx(1 + p_m * p_r / a, rel=1e-14)
    low, high = theorem3_interval(topics, masking, tau)
    np.testing.assert_allclose(low, kappa * (2 - a) / 2 * (tau - 1), rtol=1e-13)
    np.testing.assert_allclose(high, [100 * (a / (p_m * p_r) + 1) * 100] * 4, rtol=1e-13)
    low, high, ratio = theorem5_interval(topics, masking, tau)
    np.testing.assert_allclose(low, kappa * 300 * tau / (100 * c4), rtol=1e-13)
    np.testing.assert_allclose(high, [c7 * (1 / (c4 * p_m * p_r) + 1) * 300 * 100] * 4, rtol=1e-13)
    np.testing.assert_allclose(ratio, [c4 / 299] * 4, rtol=1e-13)
    for interval in (theorem3_interval, theorem5_interval):
        one = interval(topics, masking, 20)
        assert all(np.ndim(end) == 0 for end in one)
        close(one, [end[1] for end in interval(topics, masking, tau)], 0)


def test_intervals_in_numbers():
    topics = TopicModel(100, 300)
    low, high = theorem3_interval(topics, HEAVY, 80)
    assert low == pytest.approx(Fraction(8, 7) * Fraction(13, 20) * 79, rel=1e-14)  # a = 7/10, mu = 1/5
    assert round(low, 1) == 58.7 and high == pytest.approx(100 * 8 * 100, rel=1e-14)
    assert round(theorem5_interval(topics, HEAVY, 80)[1]) == 10775


# Errors


NOTHING = Masking(0.999, 0.0, 0.1)
HIDDEN = Masking(1.0, 0.0, 0.1)
SMALL = TopicModel(3, 2)


@pytest.mark.parametrize("call", [constants, stage1_optimum, diagonal_optimum, theorem1_embedding])
def test_nothing_to_learn_from(call):
    with pytest.raises(ValueError, match=r"p_m = 1 with p_c = 0 is not allowed"):
        call(SMALL, HIDDEN)
    with pytest.raises(ValueError, match=r"T = 1 is not allowed: at least 2 topics"):
        call(TopicModel(1, 4), PAPER)
    assert np.isfinite(call(SMALL, NOTHING)).all()


@pytest.mark.parametrize("mixture", [FixedTopics(1), DirichletTopics(0.1)], ids=str)
@pytest.mark.parametrize("length", [None, 5])
def test_no_population_to_learn_from(mixture, length):
    with pytest.raises(ValueError, match=r"p_m = 1 with p_c = 0 is not allowed"):
        ridge_optimum(SMALL, HIDDEN, mixture, 0.1, length)
    with pytest.raises(ValueError, match=r"T = 1 is not allowed: at least 2 topics"):
        ridge_optimum(TopicModel(1, 4), PAPER, mixture, 0.1, length)


@pytest.mark.parametrize("tau", [3, 4])
@pytest.mark.parametrize("length", [None, 5])
def test_documents_that_are_all_alike(tau, length):
    for call in (mode_moments, lambda *args: ridge_optimum(*args[:3], 0.1, args[3])):
        with pytest.raises(ValueError, match=rf"tau = {tau} is not allowed with T = 3"):
            call(SMALL, PAPER, FixedTopics(tau), length)


@pytest.mark.parametrize("decay", [-1e-9, -1, float("nan"), float("inf")])
def test_impossible_weight_decay(decay):
    moments = corpus_moments([[0, 1, 2]], PAPER)
    for call in (lambda: ridge_optimum(SMALL, PAPER, FixedTopics(1), decay), lambda: corpus_optimum(moments, decay)):
        with pytest.raises(ValueError, match=r"weight_decay = .* is not allowed: a number, at least 0"):
            call()


@pytest.mark.parametrize("shape", [(), (6,), (8,), (7, 1), (7, 7)])
def test_wrong_shape_of_u(shape):
    with pytest.raises(ValueError, match=r"u of shape .* is not allowed: one number per token, \(7,\)"):
        stage1_family(SMALL, PAPER, np.zeros(shape))


@pytest.mark.parametrize(
    ("length", "message"),
    [
        (0, "length = 0 is not allowed: a whole number, at least 1"),
        (2.5, r"length = 2\.5 is not allowed: a whole number, at least 1"),
        ((0, 4), "length = 0 is not allowed: a whole number, at least 1"),
        ((5, 3), r"length = \(5, 3\) is not allowed: the shortest length comes first"),
    ],
)
def test_impossible_length(length, message):
    for call in (mode_moments, lambda *args: ridge_optimum(*args[:3], 0.1, args[3])):
        with pytest.raises(ValueError, match=message):
            call(SMALL, PAPER, FixedTopics(1), length)


@pytest.mark.parametrize(
    "counts",
    [[[0, 1, 1], [1, 0, 2]], [[0, 1, 1], [0, 0, 0]], [[0, 2, -1]], [[0, np.nan, 1]], np.zeros((0, 3))],
    ids=["[MASK]", "empty", "negative", "nan", "no document"],
)
def test_impossible_counts(counts):
    with pytest.raises(ValueError, match="counts are not allowed: at least 0, column 0"):
        corpus_moments(counts, PAPER)


def test_impossible_intervals():
    topics = TopicModel(10, 20)
    for interval in (theorem3_interval, theorem5_interval):
        for tau in (0, 11, -1, np.array([2, 11]), np.array([0, 2])):
            with pytest.raises(ValueError, match=r"tau = .* is not allowed: a whole number, 1 to 10"):
                interval(topics, PAPER, tau)
        with pytest.raises(ValueError, match=r"p_r = 0 is not allowed"):
            interval(topics, NO_RANDOM, 2)
        with pytest.raises(ValueError, match=r"p_m = 1 with p_c = 0 is not allowed"):
            interval(topics, HIDDEN, 2)
    bound = (1 + PAPER.a) ** 2 + 1  # 4.478: c7 > 0 from v = 5 on
    theorem5_interval(TopicModel(10, ceil(bound)), PAPER, 2)
    with pytest.raises(ValueError, match=r"v = 4 is not allowed: Theorem 5 wants v > .* = 4\.48"):
        theorem5_interval(TopicModel(10, 4), PAPER, 2)
