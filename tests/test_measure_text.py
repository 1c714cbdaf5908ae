"""Blocks of a matrix and bursts of words, by hand and on documents whose answer is known."""

import numpy as np
import pytest

from topiclib.data import DirichletTopics, TopicModel, resample, sample_documents
from topiclib.measure import block_means, effect_size, repeats


def test_repeats_see_bursts_and_nothing_in_independent_words():
    topics, rng = TopicModel(2, 5), np.random.default_rng(1)
    documents = sample_documents(topics, 4000, DirichletTopics(1.0), (10, 40), rng)
    P = documents.theta @ topics.membership.T / topics.v
    observed, expected = repeats(documents.counts, P)
    np.testing.assert_allclose(observed[1:] / expected[1:], 1, atol=0.1)
    bursty = 4 * documents.counts  # each word four times
    assert (repeats(bursty, P)[0, 1:] > 1.1 * repeats(bursty, P)[1, 1:]).all()
    assert not repeats(np.minimum(documents.counts, 1), P)[0].any()
    anew = resample(bursty, P, rng)
    np.testing.assert_array_equal(anew.sum(axis=1), bursty.sum(axis=1))
    observed, expected = repeats(anew, P)
    np.testing.assert_allclose(observed[1:] / expected[1:], 1, atol=0.1)


def test_repeats_by_hand():
    """Lengths 4 and 2, so weights 2/3 and 1/3; word 1 makes 6 of 16 pairs of positions, then 2 of 4."""
    counts, P = np.array([[0, 3, 1], [0, 2, 0]]), np.array([[0, 0.5, 0.5], [0, 1, 0]])
    observed, expected = repeats(counts, P)
    np.testing.assert_allclose(observed, [0, 2 / 3 * 6 / 16 + 1 / 3 * 2 / 4, 0])
    np.testing.assert_allclose(expected, [0, 2 / 3 * 12 / 16 / 4 + 1 / 3 * 2 / 4, 2 / 3 * 12 / 16 / 4])


def test_effect_size():
    rng, topic_of = np.random.default_rng(0), np.append(-1, np.repeat([0, 1, -1], 40))
    same = np.equal.outer(topic_of, topic_of)
    W = rng.normal(size=(121, 121)) + 2 * same + 1000 * np.eye(121)
    assert effect_size(W, topic_of) == pytest.approx(2, abs=0.1)
    assert effect_size(3 * W - 7, topic_of) == pytest.approx(effect_size(W, topic_of))
    dealt = topic_of.copy()
    dealt[1:] = rng.permutation(topic_of[1:])
    assert abs(effect_size(W, dealt)) < 0.2


def test_block_means():
    topic_of = np.array([-1, 0, 1, 0, 1, 0])
    W = np.arange(36.0).reshape(6, 6)
    means = block_means(W, topic_of)
    np.testing.assert_array_equal(means[0], W[0])
    np.testing.assert_array_equal(means[:, 0], W[:, 0])
    inside = [W[i, j] for i in (1, 3, 5) for j in (1, 3, 5) if i != j]
    assert means[1, 1] == means[1, 3] == means[5, 1] == pytest.approx(np.mean(inside))
    assert means[2, 1] == means[4, 5] == pytest.approx(np.mean(W[np.ix_([2, 4], [1, 3, 5])]))
    np.testing.assert_allclose(block_means(means, topic_of), means)


def test_words_are_drawn_anew_from_the_same_mixtures():
    counts = np.array([[0, 3, 1], [0, 2, 0]])
    P = np.array([[0, 0.25, 0.75], [0, 1, 0]])
    drawn = np.stack([resample(counts, P, np.random.default_rng(seed)) for seed in range(4000)])
    assert (drawn.sum(axis=2) == [4, 2]).all()
    np.testing.assert_allclose(drawn.mean(axis=0), [[0, 1, 3], [0, 2, 0]], atol=0.05)
