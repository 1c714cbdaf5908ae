"""The paper's theory on real text: documents from articles, the free bias, and what is measured on both."""

import numpy as np
import pytest

from topiclib import (
    DirichletTopics,
    FixedTopics,
    Masking,
    TopicModel,
    TopicTransformer,
    attention_by_relation,
    block_statistics,
    corpus_loss,
    corpus_moments,
    corpus_optimum,
    mask_documents,
    ridge_optimum,
    sample_documents,
    train,
)
from topiclib.text import Corpus, bags, matched_means, topic_relations
from topiclib.theory import corpus_optimum_with_bias

MASKING = Masking(0.3, 0.2, 0.1)
TOPICS = TopicModel(4, 3)


def documents_of(n=60, length=(4, 20), seed=0, topics=TOPICS, mixture=None):
    return sample_documents(topics, n, mixture or DirichletTopics(0.3), length, np.random.default_rng(seed))


# Stage 1 with and without a free bias


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


def test_negative_weight_decay():
    with pytest.raises(ValueError, match="weight_decay = -1 is not allowed"):
        corpus_optimum_with_bias(corpus_moments(documents_of().counts, MASKING), -1)


# Text as documents


def corpus_of(articles):
    return Corpus([str(i) for i in range(len(articles))], articles, "")


def words_of(*parts):
    """A paragraph: parts are words, or (word, times)."""
    return " ".join(" ".join([part[0]] * part[1]) if isinstance(part, tuple) else part for part in parts)


def test_bag_corpus_counts_the_words_found_in_the_most_chunks():
    articles = []
    for i in range(60):
        own = "fill" + chr(97 + i % 26) + chr(97 + i // 26)  # in one article: below the smallest number of chunks
        more = [("Frequent", 1)] * (i % 6 == 0) + [("rarer", 2)] * (i % 12 == 0) + ["zebra"] * (i in (1, 2, 3, 4, 7))
        articles.append([words_of("the", "ox", "universal", own, *more)])  # stop word, too short, in all chunks
    bag = bags.bag_corpus(corpus_of(articles), 2, 6, fewest=1)
    assert list(bag.vocabulary) == ["frequent", "rarer"]  # "zebra" stands in as many chunks as "rarer": alphabet
    assert list(bag.article) == list(range(0, 60, 6))
    np.testing.assert_array_equal(bag.counts, [[0, 1, 2 * (i % 2 == 0)] for i in range(10)])
    assert list(bags.bag_corpus(corpus_of(articles), 2, 6, fewest=3).article) == list(range(0, 60, 12))
    with pytest.raises(ValueError, match=r"n_words = 4 is not allowed: 3 words stand in 5 to 20% of the chunks"):
        bags.bag_corpus(corpus_of(articles), 4, 6)


def test_bag_corpus_cuts_inside_articles_and_keeps_long_rests():
    """Nine words are two chunks of four and a rest of one, a quarter of four; a tenth of four thousand is none."""
    spell = [a + b + "x" for a in "bcdfghjklm" for b in "aeiou"]
    articles = [[words_of(*(spell[(3 * i + j) % 50] for j in range(9)))] for i in range(40)]
    bag = bags.bag_corpus(corpus_of(articles), 50, 4, fewest=1)
    assert list(bag.article) == list(np.repeat(np.arange(40), 3))
    assert list(bag.counts.sum(axis=1)) == [4, 4, 1] * 40
    bag = bags.bag_corpus(corpus_of(articles), 50, 7, fewest=1)  # the rest, two words, is more than a quarter
    assert list(bag.counts.sum(axis=1)) == [7, 2] * 40
    bag = bags.bag_corpus(corpus_of(articles), 50, 8, fewest=1)  # one word is less than two
    assert list(bag.counts.sum(axis=1)) == [8] * 40


@pytest.mark.parametrize(("n_words", "length"), [(1, 128), (2.5, 128), (10, 3)])
def test_bag_corpus_checks_numbers_first(n_words, length):
    with pytest.raises(ValueError, match=r"(n_words|length) = .* is not allowed: a whole number, at least"):
        bags.bag_corpus(corpus_of([]), n_words, length)


# Words in bursts


def test_fold_in_finds_the_mixture():
    topics, rng = TopicModel(3, 4), np.random.default_rng(0)
    p = topics.membership[1:].T / topics.v + 1e-9
    documents = sample_documents(topics, 50, DirichletTopics(0.5), 3000, rng)
    P = bags.fold_in(documents.counts, p)
    assert P.shape == documents.counts.shape and not P[:, 0].any()
    np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(P, documents.theta @ topics.membership.T / topics.v, atol=0.02)


def test_repeats_see_bursts_and_nothing_in_independent_words():
    topics, rng = TopicModel(2, 5), np.random.default_rng(1)
    documents = sample_documents(topics, 4000, DirichletTopics(1.0), (10, 40), rng)
    P = documents.theta @ topics.membership.T / topics.v
    observed, expected = bags.repeats(documents.counts, P)
    np.testing.assert_allclose(observed[1:] / expected[1:], 1, atol=0.1)
    bursty = 4 * documents.counts  # each word four times
    assert (bags.repeats(bursty, P)[0, 1:] > 1.1 * bags.repeats(bursty, P)[1, 1:]).all()
    assert not bags.repeats(np.minimum(documents.counts, 1), P)[0].any()
    anew = bags.resample(bursty, P, rng)
    np.testing.assert_array_equal(anew.sum(axis=1), bursty.sum(axis=1))
    observed, expected = bags.repeats(anew, P)
    np.testing.assert_allclose(observed[1:] / expected[1:], 1, atol=0.1)


def test_repeats_by_hand():
    """Lengths 4 and 2, so weights 2/3 and 1/3; word 1 makes 6 of 16 pairs of positions, then 2 of 4."""
    counts, P = np.array([[0, 3, 1], [0, 2, 0]]), np.array([[0, 0.5, 0.5], [0, 1, 0]])
    observed, expected = bags.repeats(counts, P)
    np.testing.assert_allclose(observed, [0, 2 / 3 * 6 / 16 + 1 / 3 * 2 / 4, 0])
    np.testing.assert_allclose(expected, [0, 2 / 3 * 12 / 16 / 4 + 1 / 3 * 2 / 4, 2 / 3 * 12 / 16 / 4])


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


# Blocks


def test_effect_size():
    rng, topic_of = np.random.default_rng(0), np.append(-1, np.repeat([0, 1, -1], 40))
    same = np.equal.outer(topic_of, topic_of)
    W = rng.normal(size=(121, 121)) + 2 * same + 1000 * np.eye(121)
    assert bags.effect_size(W, topic_of) == pytest.approx(2, abs=0.1)
    assert bags.effect_size(3 * W - 7, topic_of) == pytest.approx(bags.effect_size(W, topic_of))
    dealt = topic_of.copy()
    dealt[1:] = rng.permutation(topic_of[1:])
    assert abs(bags.effect_size(W, dealt)) < 0.2


def test_block_means():
    topic_of = np.array([-1, 0, 1, 0, 1, 0])
    W = np.arange(36.0).reshape(6, 6)
    means = bags.block_means(W, topic_of)
    np.testing.assert_array_equal(means[0], W[0])
    np.testing.assert_array_equal(means[:, 0], W[:, 0])
    inside = [W[i, j] for i in (1, 3, 5) for j in (1, 3, 5) if i != j]
    assert means[1, 1] == means[1, 3] == means[5, 1] == pytest.approx(np.mean(inside))
    assert means[2, 1] == means[4, 5] == pytest.approx(np.mean(W[np.ix_([2, 4], [1, 3, 5])]))
    np.testing.assert_allclose(bags.block_means(means, topic_of), means)


# The models


def test_embedding_optimum():
    """With d = V + 1, and no decay, nothing symmetric and positive is better; the gradient vanishes at any d."""
    moments = corpus_moments(documents_of(200).counts, MASKING)
    for d in (2, 13):
        W, b = bags.embedding_optimum(moments, d, 1e-3)
        best = corpus_loss(moments, W.T @ W + b[:, None]) + 1e-3 * np.sum(W**2)
        rng = np.random.default_rng(d)
        for _ in range(20):
            U = W + 0.05 * rng.normal(size=W.shape)
            bias = moments.XP.sum(axis=1) - U.T @ (U @ moments.PP.sum(axis=1))
            assert corpus_loss(moments, U.T @ U + bias[:, None]) + 1e-3 * np.sum(U**2) > best
            assert (
                corpus_loss(moments, W.T @ W + (b + 0.01 * rng.normal(size=13))[:, None]) + 1e-3 * np.sum(W**2) > best
            )


def test_embedding_optimum_is_theorem_1_on_synthetic_text():
    topics = TopicModel(3, 4)
    documents = sample_documents(topics, 20_000, FixedTopics(1), 100, np.random.default_rng(3))
    W, _ = bags.embedding_optimum(corpus_moments(documents.counts, Masking()), 2, 1e-6)
    E = W.T @ W
    stats = block_statistics(E, topics.topic_of)
    # With a trained bias T - 1 dimensions do: E is 1/(a v) times the topic contrasts.
    assert stats.contrast == pytest.approx(1 / Masking().a / topics.v, rel=0.05)
    assert abs(stats.excess) < 0.02


def test_narrow_transformer_of_full_height_is_the_papers():
    documents, options = documents_of(), {"learning_rate": 0.5, "epochs": 2, "loss": "cross-entropy"}
    narrow = bags.NarrowTransformer(TOPICS, ("W_K", "W_Q", "W_V"), h=TOPICS.V + 1, scale=0.3, seed=4)
    initial = {name: narrow.numpy(name) for name in ("W_K", "W_Q", "W_V")}
    full = TopicTransformer(TOPICS, ("W_K", "W_Q", "W_V"), initial=initial)
    for model in (narrow, full):
        train(model, documents, MASKING, **options)
    for name in initial:
        np.testing.assert_allclose(narrow.numpy(name), full.numpy(name), rtol=1e-10)
        assert np.abs(narrow.numpy(name) - initial[name]).max() > 1e-4


def test_narrow_transformer_has_h_rows_and_freezes_what_is_not_named():
    W_V = np.random.default_rng(0).normal(size=(13, 13))
    model = bags.NarrowTransformer(TOPICS, ("W_K", "W_Q"), h=2, scale=0.1, initial={"W_V": W_V})
    train(model, documents_of(), MASKING, epochs=1)
    assert model.numpy("W_K").shape == model.numpy("W_Q").shape == (2, 13)
    np.testing.assert_array_equal(model.numpy("W_V"), W_V)
    np.testing.assert_allclose(model.scores().detach().numpy(), model.numpy("W_K").T @ model.numpy("W_Q") / 2**0.5)
    with pytest.raises(ValueError, match="h = 0 is not allowed"):
        bags.NarrowTransformer(TOPICS, ("W_K",), h=0, scale=0.1)


def test_attention_between_words():
    """Against each pair of words; the same-key ratio is 1 when the query does not matter, and larger when it does."""
    documents = documents_of(30)
    rng, member = np.random.default_rng(5), TOPICS.membership[1:].astype(bool)
    per_key = rng.normal(size=13)
    for scores, lowest, highest in ((np.outer(per_key, np.ones(13)), 1 - 1e-9, 1 + 1e-9), (None, 1.5, 20)):
        S = TOPICS.membership @ TOPICS.membership.T + per_key[:, None] if scores is None else scores
        initial = {"W_K": np.eye(13), "W_Q": S * 13**0.5}
        model = TopicTransformer(TOPICS, (), initial=initial)
        pairs = bags.attention_between_words(model, documents.counts)
        at = 0
        for number, n in enumerate(documents.counts):
            words = np.flatnonzero(n)
            for key in words:
                for query in words:
                    if key != query:
                        expected = n.sum() * np.exp(S[key, query]) / sum(n[w] * np.exp(S[w, query]) for w in words)
                        found = (pairs.query[at] + 1, pairs.key[at] + 1, pairs.place[at] // 13, pairs.place[at] % 13)
                        assert found == (query, key, number, key)
                        assert pairs.attention[at] == pytest.approx(expected)
                        at += 1
        assert at == len(pairs.key)
        ratio = matched_means(pairs, *topic_relations(member), pairs.place).ratio
        assert lowest < ratio < highest
    plain = attention_by_relation(TopicTransformer(TOPICS, (), initial={"W_K": np.eye(13)}), documents, TOPICS.topic_of)
    assert plain.ratio == pytest.approx(1)
