"""topiclib.theory against brute force: every topic set, every document, every mask, then dense linear algebra."""

from fractions import Fraction
from functools import cache
from itertools import combinations, product
from math import ceil, prod, sqrt

import numpy as np
import pytest
from cases import HEAVY, NO_RANDOM, PAPER
from truth import close, key_frequencies, projectors, theta_moment, topic_sets, word_frequencies

import topiclib as tl
from topiclib.data import DirichletTopics, FixedTopics, Masking, TopicModel
from topiclib.theory import embedding_optimum

ALL_CHOSEN = Masking(1.0, 0.3, 0.2)
RATES = [PAPER, HEAVY, Masking(0.3, 0.0, 0.2), NO_RANDOM, Masking(0.25, 0.0, 0.0), ALL_CHOSEN, Masking(1.0, 0.3, 0.0)]
SHAPES = [TopicModel(2, 1), TopicModel(2, 3), TopicModel(3, 2), TopicModel(4, 1), TopicModel(5, 2)]
DECAYS = [0.0, 1e-3, 0.1]
rates = pytest.mark.parametrize("masking", RATES, ids=str)
shapes = pytest.mark.parametrize("topics", SHAPES, ids=str)


def mixtures(T):
    return [*(FixedTopics(tau) for tau in range(1, T)), DirichletTopics(0.1), DirichletTopics(1.7)]


# The truth, written without topiclib


def topic(word, v):
    return ceil(word / v) - 1


def words_given_topics(topics, masking):
    """Matrices B, M with P_w = B theta and p = M theta: word frequencies before and after masking, infinite length."""
    each = np.eye(topics.T)
    return word_frequencies(each, topics.v).T, key_frequencies(each, topics.v, masking, "attended").T


def infinite_moments(topics, masking, mixture):
    B, M = words_given_topics(topics, masking)
    S = np.array([[theta_moment(mixture, topics.T, (s, t)) for t in range(topics.T)] for s in range(topics.T)])
    return M @ S @ M.T, B @ S @ M.T


def sets_of(topics, masking, tau):
    """(p, P_w) of every set of tau topics, one row each."""
    return [topic_sets(topics.T, tau) @ matrix.T for matrix in words_given_topics(topics, masking)[::-1]]


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


# Infinite documents: Theorems 2 and 4, Definition 2, ridge


def test_constants_are_exact_fractions():
    p_m, p_c, p_r = Fraction(15, 100), Fraction(1, 10), Fraction(1, 10)
    a, mu = 1 - (1 - p_c) * p_m, p_m * (1 - p_c - p_r)
    assert (a, mu) == (Fraction(173, 200), Fraction(3, 25))
    assert p_r / ((1 - p_c - p_r) * a * 100) == p_m * p_r / 100 / (a * mu) == Fraction(1, 692)
    close(tl.constants(TopicModel(10, 10), PAPER), (1 / 692, 22 / 3, 200 / 173), 1e-15)
    close((PAPER.a, PAPER.mu), (173 / 200, 3 / 25), 1e-15)


@rates
@shapes
def test_optimum_of_infinite_documents(topics, masking):
    """Ridge regression for each mixture; without decay it is Theorem 2 for every mixture."""
    for mixture in mixtures(topics.T):
        PP, XP = infinite_moments(topics, masking, mixture)
        for decay in DECAYS:
            close(tl.ridge_optimum(topics, masking, mixture, decay), dense_optimum(PP, XP, decay), 1e-10)
        close(tl.stage1_optimum(topics, masking), dense_optimum(PP, XP, 0.0), 1e-10)


@rates
@shapes
def test_theorem4_every_member_attains_the_minimum(topics, masking):
    rng = np.random.default_rng(1)
    T, v, V = topics.T, topics.v, topics.V
    a = 1 - masking.p_m * (1 - masking.p_c)
    u = rng.normal(size=V + 1)
    W = tl.stage1_family(topics, masking, u)
    sums = W[:, 1:].reshape(V + 1, T, v).sum(2)
    expected = v * u[:, None] + np.array([[(i > 0 and topic(i, v) == t) / a for t in range(T)] for i in range(V + 1)])
    close(sums, expected, 1e-12)
    close(W[:, 1:].reshape(V + 1, T, v).std(2), 0, 1e-14)  # spread evenly

    spread = rng.normal(size=(V + 1, T, v))
    spread -= spread.mean(2, keepdims=True)  # differences within topics, free as well
    member = W.copy()
    member[:, 1:] += spread.reshape(V + 1, V)
    for tau in range(1, T):
        p, P = sets_of(topics, masking, tau)
        for candidate in (W, member, tl.diagonal_optimum(topics, masking), tl.stage1_optimum(topics, masking)):
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
        p, _ = sets_of(topics, masking, tau)
        close(p @ free.T, 0, 1e-12)
        assert null_space(p).shape[1] == np.linalg.matrix_rank(free) == V + 1 - T
        assert null_space(infinite_moments(topics, masking, FixedTopics(tau))[0], 1e-12).shape[1] == V + 1 - T
    assert null_space(sets_of(topics, masking, T)[0]).shape[1] == V  # tau = T: one document, hence excluded

    u = np.random.default_rng(2).normal(size=V + 1)
    change = tl.stage1_family(topics, masking, u) - tl.stage1_family(topics, masking, 0 * u)
    close(change, np.outer(u, u_direction), 1e-12)


@rates
@shapes
def test_definition2_has_no_entry_off_the_diagonal(topics, masking):
    W = tl.diagonal_optimum(topics, masking)
    expected = np.zeros_like(W)
    a = 1 - masking.p_m + masking.p_m * masking.p_c
    for i in range(1, topics.V + 1):
        expected[i, i], expected[i, 0] = 1 / a, -masking.p_m * masking.p_r / topics.V / (a * masking.mu)
    close(W, expected, 1e-14)


@rates
@shapes
def test_theorem1_embedding(topics, masking):
    T, V = topics.T, topics.V
    rng = np.random.default_rng(3)
    E = tl.theorem1_embedding(topics, masking)
    bias = np.full(V + 1, -masking.p_m * masking.p_r / V / (1 - masking.p_m * (1 - masking.p_c)))
    bias[0] = 0
    eigenvalues = np.linalg.eigvalsh(E)
    assert (E == E.T).all() and eigenvalues[0] > -1e-12 and (eigenvalues > 1e-9).sum() == T
    for tau in range(1, T):
        p, P = sets_of(topics, masking, tau)
        close(p @ E + bias, P, 1e-12)
        assert np.linalg.matrix_rank(P - bias, tol=1e-9) == T  # so every solution has rank T at least
        if masking.p_r > 0:
            assert np.abs(p @ E - P).max() > 1e-6
            E_free = tl.ridge_optimum(topics, masking, FixedTopics(tau), 0.0)  # without a bias the minimum is elsewhere
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


FINITE = [*((2, 2, length) for length in (1, 2, 3, (1, 3))), (3, 1, 3), (3, 1, (2, 3)), (3, 2, 2)]
FINITE += [(2, 1, 4), (2, 1, (1, 4))]


@pytest.mark.parametrize(("T", "v", "length"), FINITE)
@rates
def test_finite_documents(T, v, length, masking):
    topics, V = TopicModel(T, v), T * v
    lengths = range(length[0], length[1] + 1) if isinstance(length, tuple) else [length]
    for mixture in mixtures(T):
        PP, XP = finite_moments(topics, masking, mixture, lengths)
        for decay in DECAYS:
            W = tl.ridge_optimum(topics, masking, mixture, decay, length)
            close(W, dense_optimum(PP, XP, decay), 1e-10)
            if decay == 0:
                close(W[1:, 0], 1 / V, 1e-12)

        moments = tl.mode_moments(topics, masking, mixture, length)
        close(moments.m_0, PP[0].sum(), 1e-13)
        close(moments.m_00, PP[0, 0], 1e-13)
        contrasts, within = projectors(T, v)
        close(contrasts @ PP @ contrasts, moments.X_B * contrasts, 1e-13)
        close(contrasts @ XP @ contrasts, moments.Y_B * contrasts, 1e-13)
        close(within @ PP, moments.X_C * within, 1e-13)
        close(within @ XP, moments.Y_C * within, 1e-13)


@pytest.mark.parametrize("masking", [PAPER, HEAVY], ids=str)
def test_diagonal_excess_of_long_documents(masking):
    topics, mixture = TopicModel(10, 10), FixedTopics(2)
    hidden = 1 - masking.p_c - masking.p_r
    limit = masking.p_c / (1 - masking.p_m * hidden)

    def excess(N, decay):
        W = tl.ridge_optimum(topics, masking, mixture, decay, N)
        return W[1, 1] - W[1, 2]

    rate = limit * (1 - masking.p_m) * hidden / (1 - masking.p_m * hidden)
    assert 1e6 * (excess(10**6, 0.0) - limit) == pytest.approx(rate, rel=1e-3)
    assert 0 < excess(10**6, 1e-5) < 1.1 * masking.p_c / (10**6 * 100 * 1e-5) < 1e-3


# A given corpus


CORPUS = [(1,), (2, 2), (1, 3), (4, 1, 1), (1, 2, 3), (3, 3, 3), (4, 1, 4, 2), (2, 2, 2, 2)]


def counts_of(documents, V):
    return np.array([np.bincount(document, minlength=V + 1) for document in documents])


@pytest.mark.parametrize("documents", [CORPUS, CORPUS[:1], CORPUS[3:4], CORPUS[6:7], CORPUS[1:3]], ids=str)
@pytest.mark.parametrize("masking", [*RATES, Masking(1.0, 0.0, 0.2)], ids=str)
def test_corpus(documents, masking):
    V = 4
    moments = tl.corpus_moments(counts_of(documents, V), masking)
    sums = [masked_sums(document, V, masking) for document in documents]
    number = sum(s[2] for s in sums)
    PP, XP = sum(s[0] for s in sums) / number, sum(s[1] for s in sums) / number
    close(moments.PP, PP, 1e-12)
    close(moments.XP, XP, 1e-12)

    p, x, weight = (np.concatenate(part) for part in zip(*(masked_rows(d, V, masking) for d in documents), strict=True))
    weight = weight / weight.sum()
    W = np.random.default_rng(4).normal(size=(V + 1, V + 1))
    assert tl.corpus_loss(moments, W) == pytest.approx(weight @ ((p @ W.T - x) ** 2).sum(1), abs=1e-12)
    for decay in DECAYS:
        rows = np.vstack([np.sqrt(weight)[:, None] * p, sqrt(decay) * np.eye(V + 1)])
        target = np.vstack([np.sqrt(weight)[:, None] * x, np.zeros((V + 1, V + 1))])
        best = np.linalg.lstsq(rows, target, rcond=1e-8)[0].T
        close(tl.corpus_optimum(moments, decay), best, 1e-10)
        W_b, b = tl.corpus_optimum_with_bias(moments, decay)
        ones = np.append(np.sqrt(weight), np.zeros(V + 1))[:, None]  # the bias is not penalised
        *best, best_b = np.linalg.lstsq(np.hstack([rows, ones]), target, rcond=1e-8)[0]
        close(p @ W_b.T + b, p @ best + best_b, 1e-9)
        mean = weight @ p
        close(W_b, dense_optimum(PP - np.outer(mean, mean), XP - np.outer(weight @ x, mean), decay), 1e-9)  # least norm
        loss = weight @ ((p @ W_b.T + b - x) ** 2).sum(1)
        assert tl.corpus_loss(moments, W_b + b[:, None]) == pytest.approx(loss, abs=1e-12)


@pytest.mark.parametrize(("T", "v", "tau", "lengths"), [(3, 2, 2, (2,)), (2, 2, 1, (1, 2, 3)), (3, 1, 2, (4, 5))])
def test_corpus_of_all_documents_is_the_population(T, v, tau, lengths):
    """All sets of tau topics, all word sequences from them; short ones repeated until all lengths are as frequent."""
    topics, V, documents = TopicModel(T, v), T * v, []
    for chosen, N in product(combinations(range(T), tau), lengths):
        words = [w for w in range(1, V + 1) if topic(w, v) in chosen]
        documents += list(product(words, repeat=N)) * len(words) ** (max(lengths) - N)
    corpus = tl.corpus_moments(counts_of(documents, V), HEAVY)
    moments = tl.mode_moments(topics, HEAVY, FixedTopics(tau), (min(lengths), max(lengths)))
    contrasts, within = projectors(T, v)
    PP = moments.X_B * contrasts + moments.X_C * within + (1 - 2 * moments.m_0 + moments.m_00) / V / V
    XP = moments.Y_B * contrasts + moments.Y_C * within + (1 - moments.m_0) / V / V
    close(corpus.PP[1:, 1:], PP[1:, 1:], 1e-13)
    close(corpus.XP[1:, 1:], XP[1:, 1:], 1e-13)
    close(corpus.PP[0], [moments.m_00, *[(moments.m_0 - moments.m_00) / V] * V], 1e-13)
    close(corpus.XP[1:, 0], moments.m_0 / V, 1e-13)
    assert not corpus.XP[0].any()
    for decay in DECAYS:
        expected = tl.ridge_optimum(topics, HEAVY, FixedTopics(tau), decay, (min(lengths), max(lengths)))
        close(tl.corpus_optimum(corpus, decay), expected, 1e-10)
        W, _ = tl.corpus_optimum_with_bias(corpus, decay)  # a bias leaves the blocks as they are
        for projector in (contrasts, within):
            close(projector @ W, projector @ expected, 1e-10)


def test_bursts_make_the_diagonal_and_l2_does_not_remove_it():
    """Two copies of each word: the diagonal stays at any L2 strength. Independent words: it goes, the blocks stay."""
    topics = TopicModel(4, 10)
    counts = tl.sample_documents(topics, 20_000, FixedTopics(1), 20, np.random.default_rng(2)).counts
    for copies, decay in product((1, 2), (0.01, 1.0)):
        W, _ = tl.corpus_optimum_with_bias(tl.corpus_moments(copies * counts, PAPER), decay)
        found = tl.block_statistics(W, topics.topic_of)
        assert found.contrast > 0 and (found.excess > 0.3 * found.same_topic) == (copies == 2)


def test_embedding_optimum():
    """The loss is level there and nothing around is better, with as many dimensions as words or fewer."""
    documents = tl.sample_documents(TopicModel(4, 3), 200, DirichletTopics(0.3), (4, 20), np.random.default_rng(0))
    moments = tl.corpus_moments(documents.counts, Masking(0.3, 0.2, 0.1))

    def loss(W, b):
        return tl.corpus_loss(moments, W.T @ W + b[:, None]) + 1e-3 * np.sum(W**2)

    for d in (2, 13):
        (W, b), rng = embedding_optimum(moments, d, 1e-3), np.random.default_rng(d)
        for _ in range(20):
            D, e = rng.normal(size=W.shape), rng.normal(size=13)
            slope = (loss(W + 1e-4 * D, b + 1e-4 * e) - loss(W - 1e-4 * D, b - 1e-4 * e)) / 2e-4
            assert abs(slope) < 2e-5
            U = W + 0.05 * D
            assert loss(U, moments.XP.sum(1) - U.T @ (U @ moments.PP.sum(1))) > loss(W, b)


def test_embedding_optimum_is_theorem_1_on_synthetic_text():
    """With a trained bias T - 1 dimensions do: E is 1/(a v) times the topic contrasts."""
    topics = TopicModel(3, 4)
    documents = tl.sample_documents(topics, 20_000, FixedTopics(1), 100, np.random.default_rng(3))
    W, _ = embedding_optimum(tl.corpus_moments(documents.counts, PAPER), 2, 1e-6)
    stats = tl.block_statistics(W.T @ W, topics.topic_of)
    assert stats.contrast == pytest.approx(1 / PAPER.a / topics.v, rel=0.05) and abs(stats.excess) < 0.02


@pytest.mark.parametrize("masking", [PAPER, HEAVY, Masking(0.3, 0.0, 0.2)], ids=str)
def test_intervals_follow_the_paper(masking):
    topics, tau = TopicModel(100, 300), np.array([1, 20, 80, 100])
    p_m, p_c, p_r = masking.p_m, masking.p_c, masking.p_r
    a = 1 - (1 - p_c) * p_m
    mu, c4 = p_m * (1 - p_c - p_r), 1 / a
    kappa = (1 - mu) / a
    c7 = 1 / (c4 * sqrt(299) - 1 - c4)
    assert kappa == pytest.approx(1 + p_m * p_r / a, rel=1e-14)
    low, high = tl.theorem3_interval(topics, masking, tau)
    np.testing.assert_allclose(low, kappa * (2 - a) / 2 * (tau - 1), rtol=1e-13)
    np.testing.assert_allclose(high, [100 * (a / (p_m * p_r) + 1) * 100] * 4, rtol=1e-13)
    low, high, ratio = tl.theorem5_interval(topics, masking, tau)
    np.testing.assert_allclose(low, kappa * 300 * tau / (100 * c4), rtol=1e-13)
    np.testing.assert_allclose(high, [c7 * (1 / (c4 * p_m * p_r) + 1) * 300 * 100] * 4, rtol=1e-13)
    np.testing.assert_allclose(ratio, [c4 / 299] * 4, rtol=1e-13)
    for interval in (tl.theorem3_interval, tl.theorem5_interval):
        one = interval(topics, masking, 20)
        assert all(np.ndim(end) == 0 for end in one)
        close(one, [end[1] for end in interval(topics, masking, tau)], 0)


def test_intervals_in_numbers():
    topics = TopicModel(100, 300)
    low, high = tl.theorem3_interval(topics, HEAVY, 80)
    assert round(low, 1) == 58.7 and high == pytest.approx(100 * 8 * 100, rel=1e-14)
    assert round(tl.theorem5_interval(topics, HEAVY, 80)[1]) == 10775


HIDDEN = Masking(1.0, 0.0, 0.1)
SMALL = TopicModel(3, 2)
ONE = tl.corpus_moments([[0, 1, 2]], PAPER)
INTERVALS = tl.theorem3_interval, tl.theorem5_interval


def ridge(topics, masking, mixture=None, length=None):
    return tl.ridge_optimum(topics, masking, mixture or FixedTopics(1), 0.1, length)


STAGE1 = tl.constants, tl.stage1_optimum, tl.diagonal_optimum, tl.theorem1_embedding, ridge
ERRORS = [(call, (SMALL, HIDDEN), "p_m = 1 with p_c = 0 is not allowed") for call in STAGE1]
ERRORS += [(call, (TopicModel(1, 4), PAPER), "T = 1 is not allowed: at least 2 topics") for call in STAGE1]
for call in (tl.mode_moments, ridge):
    for tau, length in product((3, 4), (None, 5)):
        ERRORS.append((call, (SMALL, PAPER, FixedTopics(tau), length), f"tau = {tau} is not allowed with T = 3"))
    ERRORS.append((call, (SMALL, PAPER, FixedTopics(1), 0), "length = 0 is not allowed: a whole number, at least 1"))
    ERRORS.append((call, (SMALL, PAPER, FixedTopics(1), (5, 3)), "is not allowed: the shortest length comes first"))
for decay in (-1e-9, -1, float("nan"), float("inf")):
    says = f"weight_decay = {decay} is not allowed: a number, at least 0"
    ERRORS.append((tl.ridge_optimum, (SMALL, PAPER, FixedTopics(1), decay), says))
    ERRORS += [(call, (ONE, decay), says) for call in (tl.corpus_optimum, tl.corpus_optimum_with_bias)]
    ERRORS.append((embedding_optimum, (ONE, 2, decay), says))
ERRORS.append((embedding_optimum, (ONE, 0, 0.1), "d = 0 is not allowed"))
for shape in ((), (6,), (8,), (7, 1), (7, 7)):
    says = r"u of shape .* is not allowed: one number per token, \(7,\)"
    ERRORS.append((tl.stage1_family, (SMALL, PAPER, np.zeros(shape)), says))
for counts in ([[0, 1, 1], [1, 0, 2]], [[0, 1, 1], [0, 0, 0]], [[0, 2, -1]], [[0, np.nan, 1]], np.zeros((0, 3))):
    ERRORS.append((tl.corpus_moments, (counts, PAPER), "counts are not allowed: at least 0, column 0"))
for call in INTERVALS:
    for tau in (0, 11, -1, np.array([2, 11]), np.array([0, 2])):
        ERRORS.append((call, (TopicModel(10, 20), PAPER, tau), "tau = .* is not allowed: a whole number, 1 to 10"))
    ERRORS.append((call, (TopicModel(10, 20), NO_RANDOM, 2), "p_r = 0 is not allowed"))
    ERRORS.append((call, (TopicModel(10, 20), HIDDEN, 2), "p_m = 1 with p_c = 0 is not allowed"))
ERRORS.append((tl.theorem5_interval, (TopicModel(10, 4), PAPER, 2), r"v = 4 .*: Theorem 5 wants v > .* = 4\.48"))


@pytest.mark.parametrize(("call", "arguments", "message"), ERRORS)
def test_errors(call, arguments, message):
    with pytest.raises(ValueError, match=message):
        call(*arguments)


def test_the_least_that_is_allowed():
    for call in STAGE1:
        assert np.isfinite(call(SMALL, Masking(0.999, 0.0, 0.1))).all()
    tl.theorem5_interval(TopicModel(10, 5), PAPER, 2)  # c7 > 0 from v = 5 on
