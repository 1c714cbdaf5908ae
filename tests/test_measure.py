"""What is read off a matrix, off a model's attention and off word counts, against loops over all pairs."""

from itertools import product

import numpy as np
import pytest

import topiclib as tl
from topiclib.data import resample
from topiclib.measure import attention_by_relation, block_means, effect_size, repeats

TOPICS = tl.TopicModel(T=3, v=4)


def test_block_statistics_by_hand():
    """Word 5 in no topic, so left out."""
    W, topic_of = np.random.default_rng(0).normal(size=(13, 13)), TOPICS.topic_of.copy()
    topic_of[5] = -1
    words, found = [1, 2, 3, 4, *range(6, 13)], {"diagonal": [], "same": [], "different": []}
    for i, j in product(words, words):
        found["diagonal" if i == j else "same" if (i - 1) // 4 == (j - 1) // 4 else "different"].append(W[i, j])
    diagonal, same, different = map(np.mean, found.values())
    got = tl.block_statistics(W, topic_of)
    assert got == pytest.approx((diagonal, same, different, W[words, 0].mean()))
    assert (got.contrast, got.excess) == pytest.approx((same - different, diagonal - same))
    assert np.isnan(tl.block_statistics(np.eye(4), tl.TopicModel(3, 1).topic_of).same_topic)
    with pytest.raises(ValueError, match=r"W of shape \(20, 20\) is not allowed: a row and a column for each token"):
        tl.block_statistics(np.eye(20), topic_of)


def test_shuffled_topics_keep_sizes_and_lose_the_blocks():
    topics = tl.TopicModel()
    W = tl.stage1_optimum(topics, tl.Masking())
    shuffled = tl.shuffle_topics(topics.topic_of, np.random.default_rng(0))
    assert shuffled[0] == -1 and np.array_equal(np.bincount(shuffled[1:]), np.full(10, 10))
    contrast = tl.block_statistics(W, topics.topic_of).contrast
    assert abs(tl.block_statistics(W, shuffled).contrast) < 0.1 * contrast


def attention_pair_by_pair(model, keys, queries, topic_of):
    """Mean N A_ij by relation from the explicit attention matrix of every document; keys, queries: lists of words."""
    scores = model.scores().detach().numpy()
    found = {"same word": [], "same topic": [], "different": []}
    for key_words, query_words in zip(keys, queries, strict=True):
        if len(key_words) == 0:
            continue
        A = np.exp(scores[np.ix_(key_words, query_words)])
        A /= A.sum(axis=0)  # every column of the attention matrix sums to 1
        for (i, key), (j, query) in product(enumerate(key_words), enumerate(query_words)):
            if min(topic_of[key], topic_of[query]) >= 0:
                same = topic_of[key] == topic_of[query]
                relation = "same word" if key == query else "same topic" if same else "different"
                found[relation].append(len(key_words) * A[i, j])
    return [np.mean(values) if values else np.nan for values in found.values()]


def words_of(counts):
    return [np.repeat(np.arange(len(row)), row) for row in counts]


@pytest.mark.parametrize("mask_keys", ["attended", "excluded", "unchosen"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shuffled", [False, True])
def test_attention_by_relation_is_the_mean_over_all_pairs(mask_keys, masked, shuffled):
    rng = np.random.default_rng(0)
    documents = tl.sample_documents(TOPICS, 12, tl.FixedTopics(2), (1, 9), rng)
    model = tl.TopicTransformer(TOPICS, ("W_K", "W_Q", "b_K", "b_Q"), scale=1.5, mask_keys=mask_keys)
    topic_of = tl.shuffle_topics(TOPICS.topic_of, rng) if shuffled else TOPICS.topic_of
    if masked:
        documents = tl.mask_documents(documents, tl.Masking(0.5, 0.3, 0.3), rng)
        queries = documents.keys
        keys = queries - documents.chosen if mask_keys == "unchosen" else queries.copy()
        if mask_keys == "excluded":
            keys[:, tl.MASK] = 0
        assert mask_keys == "attended" or (keys.sum(axis=1) == 0).any(), "a document without keys is among them"
    else:
        keys = queries = documents.counts
    wanted = attention_pair_by_pair(model, words_of(keys), words_of(queries), topic_of)
    got = attention_by_relation(model, documents, topic_of)
    assert got == pytest.approx(wanted, rel=1e-12, nan_ok=True)
    assert got.ratio == pytest.approx(wanted[1] / wanted[2], rel=1e-12)


@pytest.mark.parametrize("v", [4, 1])
def test_uniform_attention_is_one_and_over_no_pair_nan(v):
    topics = tl.TopicModel(3, v)
    documents = tl.sample_documents(topics, 30, tl.FixedTopics(2), (5, 9), np.random.default_rng(0))
    got = attention_by_relation(tl.TopicTransformer(topics), documents, topics.topic_of)
    assert got == pytest.approx((1, 1 if v > 1 else np.nan, 1), abs=1e-12, nan_ok=True)


def test_relative_distance():
    A = np.arange(6.0).reshape(2, 3)
    assert tl.relative_distance(A, A) == 0 and tl.relative_distance(2 * A, A) == pytest.approx(1)


def test_the_weights_of_assumption_2_are_read_off_the_scores():
    topics, alpha, beta = tl.TopicModel(4, 3), 2.5, 7.0
    weights = np.where(topics.membership @ topics.membership.T > 0, alpha, 1.0) + (beta - alpha) * np.eye(topics.V + 1)
    weights *= 10 ** np.random.default_rng(0).normal(size=topics.V + 1)  # a factor for each query word does not matter
    initial = {"W_K": np.log(weights).T, "W_Q": (topics.V + 1) ** 0.5 * np.eye(topics.V + 1)}
    model = tl.TopicTransformer(topics, (), initial=initial)
    expected = (alpha, beta, (2 * alpha + beta) / 3)
    assert tl.assumption2_weights(model, topics.topic_of) == pytest.approx(expected, rel=1e-12)
    dealt = tl.shuffle_topics(topics.topic_of, np.random.default_rng(0))
    assert tl.assumption2_weights(model, dealt)[0] < 1.5, "expected little of alpha with topics dealt to other words"


def test_repeats_by_hand():
    """Lengths 4 and 2, so weights 2/3 and 1/3; word 1 makes 6 of 16 pairs of positions, then 2 of 4."""
    counts, P = np.array([[0, 3, 1], [0, 2, 0]]), np.array([[0, 0.5, 0.5], [0, 1, 0]])
    observed, expected = repeats(counts, P)
    np.testing.assert_allclose(observed, [0, 2 / 3 * 6 / 16 + 1 / 3 * 2 / 4, 0])
    np.testing.assert_allclose(expected, [0, 2 / 3 * 12 / 16 / 4 + 1 / 3 * 2 / 4, 2 / 3 * 12 / 16 / 4])


def test_repeats_see_bursts_and_nothing_in_independent_words():
    topics, rng = tl.TopicModel(2, 5), np.random.default_rng(1)
    documents = tl.sample_documents(topics, 4000, tl.DirichletTopics(1.0), (10, 40), rng)
    P, bursty = documents.theta @ topics.membership.T / topics.v, 4 * documents.counts  # each word four times
    for counts in (documents.counts, resample(bursty, P, rng)):
        observed, expected = repeats(counts, P)
        np.testing.assert_allclose(observed[1:] / expected[1:], 1, atol=0.1)
    observed, expected = repeats(bursty, P)
    assert (observed[1:] > 1.1 * expected[1:]).all()


def test_effect_size_by_hand():
    W, topic_of = np.random.default_rng(0).normal(size=(12, 12)), np.array([-1, 0, 0, 0, 0, 0, 1, 1, 1, -1, 2, -1])
    pairs = [(i, j) for i, j in product(range(12), range(12)) if i != j and min(topic_of[i], topic_of[j]) >= 0]
    same, different = ([W[i, j] for i, j in pairs if (topic_of[i] == topic_of[j]) == alike] for alike in (True, False))
    squares = sum(((np.array(part) - np.mean(part)) ** 2).sum() for part in (same, different))
    spread = (squares / (len(pairs) - 2)) ** 0.5
    assert effect_size(W, topic_of) == pytest.approx((np.mean(same) - np.mean(different)) / spread)


def test_block_means():
    topic_of, W = np.array([-1, 0, 1, 0, 1, 0]), np.arange(36.0).reshape(6, 6)
    means = block_means(W, topic_of)
    np.testing.assert_array_equal(means[0], W[0])
    np.testing.assert_array_equal(means[:, 0], W[:, 0])
    inside = [W[i, j] for i, j in product((1, 3, 5), (1, 3, 5)) if i != j]
    assert means[1, 1] == means[1, 3] == means[5, 1] == pytest.approx(np.mean(inside))
    assert means[2, 1] == means[4, 5] == pytest.approx(np.mean(W[np.ix_([2, 4], [1, 3, 5])]))
