"""LDA, the paper's filters and relations, co-occurrence: against loops."""

import numpy as np
import pytest

from topiclib import text as wiki


def random_member(rng, V=12, K=4):
    return rng.random((V, K)) < 0.3


def test_lda_finds_planted_topics_and_is_cached(monkeypatch):
    rng = np.random.default_rng(0)
    topics = rng.integers(3, size=300)
    counts = np.zeros((300, 12), dtype=np.int32)
    for document, topic in zip(counts, topics, strict=True):
        document[4 * topic : 4 * topic + 4] = rng.multinomial(40, np.full(4, 0.25))
    p = wiki.fit_lda(counts, 3, seed=0)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    blocks = p.reshape(3, 3, 4).sum(axis=2)
    assert sorted(blocks.argmax(axis=1)) == [0, 1, 2] and blocks.max(axis=1).min() > 0.95
    assert not np.array_equal(wiki.fit_lda(counts, 3, seed=1), p)
    from sklearn.decomposition import LatentDirichletAllocation

    monkeypatch.setattr(LatentDirichletAllocation, "fit", lambda *args: pytest.fail("expected the cached fit"))
    np.testing.assert_array_equal(wiki.fit_lda(counts, 3, seed=0), p)


@pytest.mark.parametrize("threshold, number", [(0.01, 1), (0.1, 2), (0.5, 6)])
def test_topics_keep_their_most_likely_words(threshold, number):
    p = np.random.default_rng(1).dirichlet(np.ones(10), size=4)
    several, one = wiki.topic_words(p, threshold, one_topic=False), wiki.topic_words(p, threshold, one_topic=True)
    assert several.sum(axis=0).tolist() == [number] * 4
    for topic in range(4):
        assert set(np.flatnonzero(several[:, topic])) == set(np.argsort(-p[topic])[:number])
    for word in range(10):
        topics = np.flatnonzero(several[word])
        assert np.flatnonzero(one[word]).tolist() == ([topics[p[topics, word].argmax()]] if len(topics) else [])


def test_relations_by_double_loop():
    member = random_member(np.random.default_rng(2))
    same, different = wiki.topic_relations(member)
    for i in range(12):
        for j in range(12):
            shared, both = (member[i] & member[j]).any(), member[i].any() and member[j].any()
            assert same[i, j] == (shared and i != j)
            assert different[i, j] == (both and not shared and i != j)


def test_shuffling_keeps_what_it_should():
    member = random_member(np.random.default_rng(3), V=40)
    shuffled = wiki.shuffle_membership(member, np.random.default_rng(4))
    np.testing.assert_array_equal(shuffled.sum(axis=0), member.sum(axis=0))
    np.testing.assert_array_equal(shuffled.any(axis=1), member.any(axis=1))
    assert not np.array_equal(shuffled, member)


def test_top_cooccurring_pairs_by_double_loop():
    counts = np.random.default_rng(5).poisson(0.3, size=(40, 9))
    together = {(i, j): int(((counts[:, i] > 0) & (counts[:, j] > 0)).sum()) for i in range(9) for j in range(i)}
    for number in (1, 5, 20):
        pairs = wiki.top_cooccurring(counts, number)
        assert pairs.shape == (number, 2) and len({frozenset(pair) for pair in pairs.tolist()}) == number
        chosen = [together[max(pair), min(pair)] for pair in pairs.tolist()]
        assert chosen == sorted(together.values(), reverse=True)[:number]
        np.testing.assert_array_equal(pairs, wiki.top_cooccurring(counts, 20)[:number])
    with pytest.raises(ValueError, match="1000 pairs are wanted"):
        wiki.top_cooccurring(counts, 1000)
