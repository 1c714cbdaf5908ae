"""Documents from articles, and what is measured on them."""

from itertools import permutations

import numpy as np
import pytest

import topiclib as tl
from topiclib.text import bags, matched_means, topic_relations
from topiclib.text.corpus import Corpus


def corpus_of(*articles):
    return Corpus([str(i) for i in range(len(articles))], [[" ".join(words)] for words in articles], "")


def test_bag_corpus_keeps_words_of_five_chunks_to_a_fifth_of_them():
    """50 chunks. Left out: a stop word, a short one, one in all chunks, one in 11, and those in fewer than five."""
    articles = []
    for i in range(50):
        own = "fill" + chr(97 + i % 26) + chr(97 + i // 26)
        more = ["Tenth"] * (i < 10) + ["elevenfold"] * (i < 11) + 2 * ["fifth"] * (i < 5) + ["fourth"] * (i < 4)
        articles.append(["the", "ox", "universal", "universal", own, *more, *["zebra"] * (5 <= i < 10)])
    text = corpus_of(*articles)
    bag = bags.bag_corpus(text, 2, 12, fewest=1)
    assert list(bag.vocabulary) == ["fifth", "tenth"]  # "zebra" stands in as many chunks as "fifth": alphabet
    np.testing.assert_array_equal(bag.article, range(10))
    np.testing.assert_array_equal(bag.counts, [[0, 2, 1]] * 5 + [[0, 0, 1]] * 5)
    assert bag.counts.dtype == np.int64
    np.testing.assert_array_equal(bags.bag_corpus(text, 2, 12, fewest=3).article, range(5))
    assert list(bags.bag_corpus(text, 3, 12, fewest=1).vocabulary) == ["fifth", "tenth", "zebra"]
    with pytest.raises(ValueError, match=r"n_words = 4 is not allowed: 3 words stand in 5 to 20% of the chunks"):
        bags.bag_corpus(text, 4, 12)
    with pytest.raises(ValueError, match="0 words stand in"):
        bags.bag_corpus(corpus_of(), 4)


@pytest.mark.parametrize(("length", "pieces"), [(4, [4, 4, 1]), (7, [7, 2]), (8, [8]), (9, [9]), (35, [9]), (36, [9])])
def test_bag_corpus_cuts_inside_articles_and_keeps_rests_of_a_quarter(length, pieces):
    """Articles of nine words: a rest of one is a quarter of four, but not of eight; nine are a quarter of 36."""
    spell = [a + b + "x" for a in "bcdfghjklm" for b in "aeiou"]
    text = corpus_of(*([spell[(3 * i + j) % 50] for j in range(9)] for i in range(50)), spell[:1] * (length // 4 - 1))
    bag = bags.bag_corpus(text, 50, length, fewest=1)
    np.testing.assert_array_equal(bag.article, np.repeat(np.arange(50), len(pieces)))
    assert list(bag.counts.sum(axis=1)) == pieces * 50


@pytest.mark.parametrize(("wrong", "least"), [({"n_words": 1}, 2), ({"length": 3}, 4), ({"fewest": 0}, 1)])
def test_bag_corpus_checks_numbers_first(wrong, least):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=f"^{name} = {value} is not allowed: a whole number, at least {least}, is wan"):
        bags.bag_corpus(corpus_of(), **{"n_words": 2, "length": 4, "fewest": 1} | wrong)


def test_fold_in_finds_the_mixture():
    topics, rng = tl.TopicModel(3, 4), np.random.default_rng(0)
    p = topics.membership[1:].T / topics.v + 1e-9
    documents = tl.sample_documents(topics, 50, tl.DirichletTopics(0.5), 3000, rng)
    P = bags.fold_in(documents.counts, p)
    assert P.shape == documents.counts.shape and not P[:, 0].any()
    np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(P, documents.theta @ topics.membership.T / topics.v, atol=0.02)


def test_attention_between_words():
    """Against each pair of words; the same-key ratio is 1 when the query does not matter, and larger when it does."""
    topics = tl.TopicModel(4, 3)
    documents = tl.sample_documents(topics, 30, tl.DirichletTopics(0.3), (4, 20), np.random.default_rng(0))
    per_key = np.random.default_rng(5).normal(size=13)
    same_topic = topics.membership @ topics.membership.T
    for weight, lowest, highest in ((0, 1 - 1e-9, 1 + 1e-9), (1, 1.5, 20)):
        S = weight * same_topic + per_key[:, None]
        model = tl.TopicTransformer(topics, (), initial={"W_K": np.eye(13), "W_Q": S * 13**0.5})
        pairs, expected = bags.attention_between_words(model, documents.counts), []
        for number, n in enumerate(documents.counts):
            words = np.flatnonzero(n)
            for key, query in permutations(words, 2):
                attention = n.sum() * np.exp(S[key, query]) / sum(n[w] * np.exp(S[w, query]) for w in words)
                expected.append((query - 1, key - 1, 13 * number + key, attention))
        got = pairs.query, pairs.key, pairs.place, pairs.attention
        np.testing.assert_allclose(np.transpose(got), expected)
        ratio = matched_means(pairs, *topic_relations(topics.membership[1:].astype(bool)), pairs.place).ratio
        assert lowest < ratio < highest
    plain = tl.TopicTransformer(topics, (), initial={"W_K": np.eye(13)})
    assert tl.attention_by_relation(plain, documents, topics.topic_of).ratio == pytest.approx(1)
