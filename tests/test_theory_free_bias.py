"""Stage 1 with a free bias: against least squares, drawn masks, and the population's optimum."""

import numpy as np
import pytest

from topiclib import (
    DirichletTopics,
    FixedTopics,
    Masking,
    TopicModel,
    block_statistics,
    corpus_loss,
    corpus_moments,
    corpus_optimum,
    mask_documents,
    ridge_optimum,
    sample_documents,
)
from topiclib.theory import corpus_optimum_with_bias

MASKING = Masking(0.3, 0.2, 0.1)
TOPICS = TopicModel(4, 3)


def documents_of(n=60, length=(4, 20), seed=0, topics=TOPICS, mixture=None):
    return sample_documents(topics, n, mixture or DirichletTopics(0.3), length, np.random.default_rng(seed))


@pytest.mark.parametrize("weight_decay", [0.0, 1e-3, 0.1])
def test_free_bias_is_least_squares(weight_decay):
    """Against least squares on masks that are all drawn out: every document, position and fate, weighted."""
    counts = np.array([[0, 2, 1, 0], [0, 0, 1, 1], [0, 1, 0, 0]])
    rows, labels, weights = all_masks(counts, MASKING)
    weights = weights / weights.sum()
    moments = corpus_moments(counts, MASKING)
    W, b = corpus_optimum_with_bias(moments, weight_decay)
    p, x = rows - weights @ rows, labels - weights @ labels
    A = (weights[:, None] * p).T @ p + weight_decay * np.eye(rows.shape[1])
    expected = (weights[:, None] * x).T @ p @ np.linalg.pinv(A, rcond=1e-10, hermitian=True)
    np.testing.assert_allclose(W, expected, atol=1e-10)
    np.testing.assert_allclose(b, weights @ labels - W @ (weights @ rows), atol=1e-12)
    loss = weights @ ((rows @ W.T + b - labels) ** 2).sum(axis=1)
    assert corpus_loss(moments, W + b[:, None]) == pytest.approx(loss, abs=1e-12)


def all_masks(counts, masking):
    """p, x and weight of everything that can happen to documents of up to three positions, one position chosen."""
    width, found = counts.shape[1], []
    fates = [(w, masking.p_r / (width - 1)) for w in range(1, width)] + [(0, 1 - masking.p_c - masking.p_r)]
    for n in counts:
        words = np.repeat(np.arange(width), n)
        for chosen, label in enumerate(words):
            shown = [[]]
            for position, word in enumerate(words):
                scale = 1 if position == chosen else masking.p_m
                own = masking.p_c if position == chosen else masking.a
                options = [(word, own), *((w, scale * q) for w, q in fates)]
                shown = [[*before, option] for before in shown for option in options]
            for sequence in shown:
                p = np.bincount([w for w, _ in sequence], minlength=width) / len(words)
                found.append((p, np.eye(width)[label], np.prod([q for _, q in sequence])))
    return tuple(np.array(column) for column in zip(*found, strict=True))


def test_free_bias_against_drawn_masks():
    documents, rng = documents_of(400), np.random.default_rng(1)
    W, b = corpus_optimum_with_bias(corpus_moments(documents.counts, MASKING), 0.01)
    losses = []
    for _ in range(30):
        masked = mask_documents(documents, MASKING, rng)
        p = masked.keys / documents.lengths[:, None]
        f = p @ W.T + b
        chosen = masked.labels.sum(axis=1)
        losses.append((chosen * (f**2).sum(axis=1) - 2 * (masked.labels * f).sum(axis=1) + chosen).sum() / chosen.sum())
    exact = corpus_loss(corpus_moments(documents.counts, MASKING), W + b[:, None])
    assert np.mean(losses) == pytest.approx(exact, abs=4 * np.std(losses) / 30**0.5 + 1e-3)


def test_free_bias_is_never_worse_and_is_not_penalised():
    moments = corpus_moments(documents_of().counts, MASKING)
    for decay in (1e-3, 0.1):
        W, b = corpus_optimum_with_bias(moments, decay)
        U = corpus_optimum(moments, decay)
        with_bias = corpus_loss(moments, W + b[:, None]) + decay * np.sum(W**2)
        assert with_bias < corpus_loss(moments, U) + decay * np.sum(U**2) - 1e-6
    W, b = corpus_optimum_with_bias(moments, 1e6)
    assert np.abs(W).max() < 1e-6
    np.testing.assert_allclose(b, moments.XP.sum(axis=1), atol=1e-6)  # the word frequencies


def test_topic_model_gives_ridge_optimum():
    """Many documents of N words: without bias the population's ridge optimum; a bias leaves the blocks as they are."""
    N, decay, topics, mixture = 12, 3e-3, TopicModel(3, 2), FixedTopics(1)
    documents = documents_of(40_000, N, 2, topics, mixture)
    moments = corpus_moments(documents.counts, MASKING)
    expected = ridge_optimum(topics, MASKING, mixture, decay, N)
    np.testing.assert_allclose(corpus_optimum(moments, decay), expected, atol=0.02)
    W, _ = corpus_optimum_with_bias(moments, decay)
    contrast, excess = (
        [getattr(block_statistics(x, topics.topic_of), name) for x in (W, expected)] for name in ("contrast", "excess")
    )
    assert contrast[0] == pytest.approx(contrast[1], rel=0.03) and excess[0] == pytest.approx(excess[1], abs=0.01)


def test_bursts_make_the_diagonal_and_l2_does_not_remove_it():
    """Two copies of each word: the diagonal stays at any L2 strength. Independent words: it goes, the blocks stay."""
    topics = TopicModel(4, 10)
    documents = sample_documents(topics, 20_000, FixedTopics(1), 20, np.random.default_rng(2))
    for counts, bursty in ((documents.counts, False), (2 * documents.counts, True)):
        for decay in (0.01, 1.0):
            W, _ = corpus_optimum_with_bias(corpus_moments(counts, Masking()), decay)
            found = block_statistics(W, topics.topic_of)
            assert found.contrast > 0
            assert (found.excess > 0.3 * found.same_topic) == bursty


def test_negative_weight_decay():
    with pytest.raises(ValueError, match="weight_decay = -1 is not allowed"):
        corpus_optimum_with_bias(corpus_moments(documents_of().counts, MASKING), -1)
