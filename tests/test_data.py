"""topiclib.data: shapes and conservation exactly, laws by z-scores against exact probabilities (fixed seeds)."""

from functools import partial
from itertools import combinations, product
from math import ceil
from timeit import repeat

import numpy as np
import pytest
from cases import HEAVY, PAPER
from truth import theta_moment

import topiclib as tl
from topiclib.data import DirichletTopics, FixedTopics, Masking, TopicModel, resample

RATES = [PAPER, HEAVY, Masking(0.3, 0.0, 0.2), Masking(0.3, 0.2, 0.0), Masking(0.5, 0.0, 0.0), Masking(1.0, 0.3, 0.2)]
EVERYWHERE = [*RATES, Masking(1.0, 0.0, 0.0), Masking(1e-4, 0.3, 0.3)]
SMALL = TopicModel(4, 3)


def assert_mean(samples, expected):
    """Every column of `samples` (independent rows) has this mean, up to 5 standard errors."""
    samples = np.asarray(samples, dtype=float)
    error = samples.mean(0) - expected
    assert (np.abs(error) <= 5 * samples.std(0) / len(samples) ** 0.5 + 1e-12).all(), error


def assert_shares(counts, shares):
    """These numbers of independent events have these probabilities, up to 5 standard errors (and 3 rare events)."""
    counts, shares = np.asarray(counts), np.clip(shares, 0, 1)
    n = counts.sum()
    slack = 5 * np.sqrt(n * shares * (1 - shares)) + 3 * (shares > 0)
    assert (np.abs(counts - n * shares) <= slack).all(), (counts / n, shares)


def documents_of(words, V, copies=1):
    """`copies` times the documents with these words, in turn; topics do not matter here."""
    counts = np.tile([np.bincount(document, minlength=V + 1) for document in words], (copies, 1))
    return tl.Documents(TopicModel(V, 1), counts, np.full((len(counts), V), 1 / V))


def test_topic_of_a_word_is_the_paper_s():
    for T, v in [(1, 1), (1, 5), (4, 3), (10, 10), (3, 1)]:
        topics = TopicModel(T, v)
        assert topics.V == T * v
        assert topics.topic_of.tolist() == [-1, *(ceil(i / v) - 1 for i in range(1, T * v + 1))]
        expected = [[float(i > 0 and ceil(i / v) == t + 1) for t in range(T)] for i in range(T * v + 1)]
        assert topics.membership.tolist() == expected


@pytest.mark.parametrize("mixture", [FixedTopics(1), FixedTopics(3), FixedTopics(4), DirichletTopics(0.1)], ids=str)
@pytest.mark.parametrize("length", [1, 9, (1, 3), (100, 104)])
def test_shapes_and_ranges(mixture, length):
    documents = tl.sample_documents(SMALL, 500, mixture, length, np.random.default_rng(0))
    low, high = tl.length_range(length)
    assert len(documents) == 500 and documents.topics == SMALL
    assert documents.counts.shape == (500, 13) and documents.counts.dtype.kind == "i"
    assert documents.counts.min() == 0 and not documents.counts[:, 0].any()
    assert set(documents.lengths) == set(range(low, high + 1))
    assert (documents.lengths == documents.counts.sum(1)).all()
    assert documents.theta.shape == (500, 4) and (documents.theta >= 0).all()
    np.testing.assert_allclose(documents.theta.sum(1), 1, atol=1e-12)
    if isinstance(mixture, FixedTopics):
        assert ((documents.theta > 0).sum(1) == mixture.tau).all()
        assert np.isin(documents.theta, [0, 1 / mixture.tau]).all()
        assert not documents.counts[:, 1:].reshape(500, 4, 3)[documents.theta == 0].any()


@pytest.mark.parametrize("mixture", [FixedTopics(1), FixedTopics(2), DirichletTopics(0.1), DirichletTopics(2)], ids=str)
@pytest.mark.parametrize("length", [5, (2, 9)])
def test_laws_of_documents(mixture, length):
    T, v, V = SMALL.T, SMALL.v, SMALL.V
    documents = tl.sample_documents(SMALL, 40_000, mixture, length, np.random.default_rng(1))
    n, theta, N = documents.counts[:, 1:], documents.theta, documents.lengths
    low, high = tl.length_range(length)
    lengths = np.arange(low, high + 1)
    assert_shares(np.bincount(N, minlength=high + 1)[low:], np.full(lengths.size, 1 / lengths.size))

    # words and pairs of words: E[n_i n_j] = E[N(N-1)] E[theta_s theta_t] / v^2 + [i = j] E[N] / V
    assert_mean(n, lengths.mean() / V)
    i, j = np.triu_indices(V)
    ordered = (lengths * (lengths - 1)).mean() / v**2
    pairs = [ordered * theta_moment(mixture, T, (a // v, b // v)) for a, b in zip(i, j, strict=True)]
    assert_mean(n[:, i] * n[:, j], pairs + (i == j) * lengths.mean() / V)

    # topics: theta has the stated moments, and the words follow the theta of their own document
    s, t = np.triu_indices(T)
    assert_mean(theta, 1 / T)
    assert_mean(theta[:, s] * theta[:, t], [theta_moment(mixture, T, pair) for pair in zip(s, t, strict=True)])
    topic_counts = n.reshape(-1, T, v).sum(2)
    surprise = topic_counts - N[:, None] * theta
    assert_mean(surprise, 0)
    assert_mean(surprise * theta, 0)
    assert_mean(surprise[:, s] * surprise[:, t] - N[:, None] * ((s == t) * theta[:, s] - theta[:, s] * theta[:, t]), 0)
    if isinstance(mixture, FixedTopics):
        sets = [theta[:, list(s)].all(1).sum() for s in combinations(range(T), mixture.tau)]
        assert sum(sets) == len(theta)
        assert_shares(sets, np.full(len(sets), 1 / len(sets)))

    kappa = theta_moment(mixture, T, (0, 0)) - theta_moment(mixture, T, (0, 1))  # Cov = kappa (I - 11'/T)
    assert mixture.kappa(T) == pytest.approx(kappa, rel=1e-12)


@pytest.mark.parametrize("mixture", [FixedTopics(2), DirichletTopics(0.1)], ids=str)
def test_a_seed_decides_everything(mixture):
    def draw(seed):
        rng = np.random.default_rng(seed)
        documents = tl.sample_documents(SMALL, 50, mixture, (3, 8), rng)
        masked = tl.mask_documents(documents, HEAVY, rng)
        return [documents.counts, documents.theta, *vars(masked).values()]

    for x, y in zip(draw(7), draw(7), strict=True):
        np.testing.assert_array_equal(x, y)
    assert (draw(7)[0] != draw(8)[0]).any()


def test_indexing():
    documents = tl.sample_documents(SMALL, 20, DirichletTopics(0.1), (3, 8), np.random.default_rng(3))
    for rows in (slice(3, 9), slice(None, None, -1), np.array([4, 1, 1]), [5, 0], documents.lengths > 5):
        part = documents[rows]
        assert part.topics == SMALL and len(part) == len(documents.counts[rows])
        np.testing.assert_array_equal(part.counts, documents.counts[rows])
        np.testing.assert_array_equal(part.theta, documents.theta[rows])
    np.testing.assert_array_equal(documents[3].counts, documents.counts[[3]])


def test_sampling_is_fast():
    sample = partial(tl.sample_documents, TopicModel(), 10_000, DirichletTopics(), (100, 150), np.random.default_rng(4))
    assert min(repeat(sample, number=1, repeat=3)) < 0.3


@pytest.mark.parametrize("masking", EVERYWHERE, ids=str)
@pytest.mark.parametrize("length", [1, (1, 4), (60, 90)])
def test_conservation(masking, length):
    documents = tl.sample_documents(SMALL, 300, DirichletTopics(0.3), length, np.random.default_rng(5))
    masked = tl.mask_documents(documents, masking, np.random.default_rng(6))
    n, width = documents.counts.shape
    chosen, labels = np.zeros((2, n, width))
    np.add.at(chosen, (masked.document, masked.query), 1)
    np.add.at(labels, (masked.document, masked.label), 1)
    keys = documents.counts - labels + chosen
    assert len(masked) == n
    np.testing.assert_array_equal(masked.keys, keys)
    np.testing.assert_array_equal(masked.chosen, chosen)
    np.testing.assert_array_equal(masked.labels, labels)
    np.testing.assert_array_equal(masked.keys.sum(1), documents.lengths)
    assert (chosen <= keys).all() and (labels <= documents.counts).all()  # unchosen positions show their word
    assert (labels.sum(1) >= 1).all() and not labels[:, 0].any()
    assert (np.diff(masked.document * width + masked.query) >= 0).all()
    if masking.p_m == 1:
        np.testing.assert_array_equal(labels, documents.counts)
    if masking.p_r == 0:
        assert np.isin(masked.query, 0).sum() + (masked.query == masked.label).sum() == len(masked.query)
    if masking.p_c == masking.p_r == 0:
        assert not masked.query.any()


@pytest.mark.parametrize("masking", RATES, ids=str)
def test_rates(masking):
    """Long documents, where at least one chosen position is no condition; all words are equally frequent."""
    V, N, D = 5, 200, 10_000
    documents = documents_of([np.repeat(np.arange(1, V + 1), N // V)], V, copies=D)
    masked = tl.mask_documents(documents, masking, np.random.default_rng(7))
    if masking.p_m < 1:
        k = masked.labels.sum(1)
        assert_mean(k, N * masking.p_m)
        assert_mean((k - N * masking.p_m) ** 2, N * masking.p_m * (1 - masking.p_m))
    joint = np.zeros((V + 1, V + 1))  # what a chosen position shows, by its word
    np.add.at(joint, (masked.label, masked.query), 1)
    assert joint.sum() > 250_000 and not joint[0].any()
    for word in range(1, V + 1):
        expected = np.full(V + 1, masking.p_r / V)  # a random word is uniform on 1..V, its own included
        expected[0] = 1 - masking.p_c - masking.p_r
        expected[word] += masking.p_c
        assert_shares(joint[word], expected)
    assert_shares(joint[1:].sum(1), np.full(V, 1 / V))
    assert_mean(masked.keys[:, 0], N * masking.mu)
    assert_mean(masked.keys[:, 1:], N / V * (masking.a + masking.p_m * masking.p_r))


@pytest.mark.parametrize("p_m", [1e-4, 0.01, 0.2, 0.7, 1.0])
@pytest.mark.parametrize("words", [(1, 2, 3), (1, 1, 2), (3,), (1, 2, 2, 3, 3)], ids=str)
def test_chosen_positions_given_at_least_one(p_m, words):
    """The law of the chosen positions, over nonempty subsets; a repeated word stands for any of its positions."""
    documents = documents_of([words], 3, copies=20_000)
    labels = tl.mask_documents(documents, Masking(p_m, 0.1, 0.1), np.random.default_rng(8)).labels.astype(int)
    law, numbers = {}, np.zeros(len(words) + 1)
    for subset in product([0, 1], repeat=len(words)):
        k = sum(subset)
        if k:
            seen = tuple(np.bincount(words, subset, minlength=4).astype(int))
            probability = p_m**k * (1 - p_m) ** (len(words) - k) / (1 - (1 - p_m) ** len(words))
            law[seen] = law.get(seen, 0) + probability
            numbers[k] += probability
    drawn = dict.fromkeys(law, 0)
    for seen, number in zip(*np.unique(labels, axis=0, return_counts=True), strict=True):
        drawn[tuple(seen)] += number
    assert_shares(list(drawn.values()), list(law.values()))
    assert_shares(np.bincount(labels.sum(1), minlength=len(numbers)), numbers)


def test_documents_of_any_length_in_one_call():
    """Each document is conditioned by itself: its length decides how many positions are chosen."""
    words = [(1,), (1, 2, 3, 3, 3, 3), (2, 2), (1,) * 60]
    p_m, copies = 0.05, 20_000
    masked = tl.mask_documents(documents_of(words, 3, copies), Masking(p_m, 0.1, 0.1), np.random.default_rng(9))
    k = masked.labels.sum(1).reshape(copies, len(words))
    N = np.array([len(document) for document in words])
    nonempty = 1 - (1 - p_m) ** N
    assert_mean(k, N * p_m / nonempty)
    assert_mean(k**2, (N * p_m * (1 - p_m) + (N * p_m) ** 2) / nonempty)


@pytest.mark.parametrize("masking", [PAPER, HEAVY, Masking(0.3, 0.0, 0.2), Masking(1.0, 0.3, 0.2)], ids=str)
def test_masks_average_to_the_closed_form(masking):
    """Sample moments over fresh masks against `corpus_moments`, weighted to undo the condition of a chosen position."""
    words, V, copies = [(1,), (2, 2), (1, 3, 3), (4, 1, 2, 3), (3, 3, 3, 3, 1)], 4, 20_000
    documents = documents_of(words, V, copies)
    masked = tl.mask_documents(documents, masking, np.random.default_rng(10))
    p = masked.keys / documents.lengths[:, None]
    share = 1 - (1 - masking.p_m) ** documents.lengths
    k = masked.labels.sum(1)
    PP = (share * k)[:, None, None] * p[:, :, None] * p[:, None, :]
    XP = share[:, None, None] * masked.labels[:, :, None] * p[:, None, :]
    chosen = masking.p_m * sum(len(document) for document in words)
    for drawn, exact in zip((PP, XP), tl.corpus_moments(documents.counts[: len(words)], masking), strict=True):
        assert_mean(drawn.reshape(copies, len(words), -1).sum(1) / chosen, exact.ravel())


def draw(n=5, mixture=None, length=5):
    return tl.sample_documents(SMALL, n, mixture or FixedTopics(2), length, np.random.default_rng(0))


NAN, WHOLE = float("nan"), "is not allowed: a whole number, at least 1"
ERRORS = [
    (draw, {"length": (5, 3)}, "length = .* is not allowed: the shortest length comes first"),
    (draw, {"length": (1, 2, 3)}, "length = .* is not allowed: N, or the two ends"),
    (draw, {"mixture": FixedTopics(5)}, "tau = 5 is not allowed: a document cannot have more than T = 4 topics"),
    (FixedTopics(4).kappa, {"T": 4}, "tau = 4 is not allowed with T = 4"),
    (FixedTopics(5).kappa, {"T": 4}, "tau = 5 is not allowed with T = 4"),
    (DirichletTopics().kappa, {"T": 1}, "T = 1 is not allowed"),
    (DirichletTopics, {"alpha": 0}, "alpha = 0 is not allowed: a number above 0"),
    *((Masking, {"p_m": p}, rf"p_m = {p} is not allowed: above 0 and at most 1") for p in (0.0, 1.01, NAN)),
    *((Masking, {"p_c": p}, rf"p_c = {p} is not allowed: at least 0 and below 1") for p in (-0.1, 1.0)),
    *((Masking, {"p_r": p}, rf"p_r = {p} is not allowed: at least 0 and below 1") for p in (-0.1, NAN)),
    (Masking, {"p_c": 0.5, "p_r": 0.5}, r"p_c \+ p_r = 1 is not allowed: below 1"),
]
for value in (0, 2.5, None):
    calls = {"T": TopicModel, "v": TopicModel, "tau": FixedTopics, "n": draw, "length": draw}
    ERRORS += [(call, {name: value}, f"{name} = .*{WHOLE}") for name, call in calls.items()]
    ERRORS += [(tl.length_range, {"length": ends}, f"length = .*{WHOLE}") for ends in ((value, 3), (1, value))]


@pytest.mark.parametrize(("call", "options", "message"), ERRORS)
def test_errors(call, options, message):
    with pytest.raises(ValueError, match=message):
        call(**options)


def test_scrambled_documents_keep_everything_but_the_topics():
    topics = TopicModel(5, 4)
    documents = tl.sample_documents(topics, 3000, FixedTopics(1), (5, 30), np.random.default_rng(0))
    scrambled = tl.scramble_documents(documents, np.random.default_rng(1))
    assert np.array_equal(scrambled.lengths, documents.lengths)
    assert np.array_equal(scrambled.counts.sum(axis=0), documents.counts.sum(axis=0))
    assert np.isnan(scrambled.theta).all()  # the old topic weights no longer describe the documents
    present = [((x.counts @ topics.membership) > 0).sum(axis=1).mean() for x in (documents, scrambled)]
    assert present[0] == 1 and present[1] > 4, present


def test_defaults_are_those_of_the_paper():
    assert (TopicModel(), Masking()) == (TopicModel(10, 10), Masking(0.15, 0.1, 0.1))
    assert (FixedTopics(), DirichletTopics()) == (FixedTopics(2), DirichletTopics(0.1))


def test_words_are_drawn_anew_from_the_same_mixtures():
    counts, P = np.array([[0, 3, 1], [0, 2, 0]]), np.array([[0, 0.25, 0.75], [0, 1, 0]])
    drawn = np.stack([resample(counts, P, np.random.default_rng(seed)) for seed in range(4000)])
    assert (drawn.sum(axis=2) == [4, 2]).all()
    np.testing.assert_allclose(drawn.mean(axis=0), [[0, 1, 3], [0, 2, 0]], atol=0.05)
