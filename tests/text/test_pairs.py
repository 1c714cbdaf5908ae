"""Means over pairs of words, matched and bootstrapped: against loops, with controls."""

import numpy as np
import pytest
import torch

from topiclib import text as wiki
from topiclib.text import corpus


def random_member(rng, V=12, K=4):
    return rng.random((V, K)) < 0.3


def test_cosines_and_pair_means_by_double_loop():
    rng = np.random.default_rng(6)
    E, member = rng.normal(size=(12, 5)), random_member(rng)
    masks = wiki.topic_relations(member)
    means = wiki.pair_means(wiki.cosines(E), *masks)
    for mask, mean in zip(masks, means, strict=True):
        pairs = [(i, j) for i in range(12) for j in range(12) if mask[i, j]]
        each = [E[i] @ E[j] / np.sqrt((E[i] @ E[i]) * (E[j] @ E[j])) for i, j in pairs]
        assert mean == pytest.approx(np.mean(each), rel=1e-9)
    assert means.ratio == means.same / means.different


@pytest.fixture(scope="module")
def some_chunks(tiny):
    rng = np.random.default_rng(7)
    names = ["apple", "banana", "cherry", "dates", "fig", "play", ","]
    pages = [[" ".join(rng.choice(names, size=n))] for n in (30, 30, 12, 25)]
    return wiki.chunk_corpus(corpus.Corpus(list("abcd"), pages, ""), tiny["bert"], length=32, min_df=1, max_df=1)


def test_attention_pairs_by_double_loop(tiny, some_chunks, monkeypatch):
    encoder, chunks, chosen = tiny["bert"], some_chunks, np.array([0, 2, 3])
    pairs = wiki.attention_pairs(encoder, chunks, chosen)
    expected = []
    for c in chosen:
        n = chunks.lengths[c]
        with torch.no_grad():
            ids = torch.from_numpy(chunks.ids[c : c + 1, :n])
            seen = encoder.model(input_ids=ids, output_attentions=True).attentions
        for i in range(n):
            for j in range(n):
                a, b = chunks.word[c, i], chunks.word[c, j]
                if a >= 0 and b >= 0 and a != b:
                    heads = np.array([layer[0, :, i, j].numpy() for layer in seen]) * n
                    expected.append((a, b, abs(i - j), chunks.article[c], 32 * c + j, heads))
    assert len(pairs.query) == len(expected)
    for column, values in zip(pairs[:5], list(zip(*expected, strict=True))[:5], strict=True):
        np.testing.assert_array_equal(column, values)
    np.testing.assert_allclose(pairs.attention, [row[5] for row in expected], rtol=2e-3)
    with monkeypatch.context() as patch:
        patch.setattr("topiclib.text.pairs.attention_weights", lambda *args: pytest.fail("expected the cached pairs"))
        again = wiki.attention_pairs(encoder, chunks, chosen)
    assert all(np.array_equal(*columns) for columns in zip(again, pairs, strict=True))
    assert len(wiki.attention_pairs(encoder, chunks, chosen[:1]).query) < len(pairs.query), "expected another key"


def test_uniform_attention_is_one(tiny, some_chunks):
    """Control: without scores every weight is 1/N, so the length-normalised one is 1 in chunks of every length."""
    twin = wiki.random_twin(tiny["bert"], 0)
    with torch.no_grad():
        for layer in twin.model.encoder.layer:
            layer.attention.self.query.weight.zero_()
    pairs = wiki.head_average(wiki.attention_pairs(twin, some_chunks, np.arange(4)))
    np.testing.assert_allclose(pairs.attention, 1, rtol=1e-3)


def case(seed, n=2000, average=True, V=12):
    """A generator, random pairs of n positions, topics of the words, and the two masks of pairs of words."""
    rng = np.random.default_rng(seed)
    query, key, distance, article = (rng.integers(low, high, size=n) for low, high in ((0, V), (0, V), (1, 9), (0, 5)))
    columns = [column[query != key] for column in (query, key, distance, article)]
    pairs = wiki.Pairs(*columns, rng.integers(50, size=len(columns[0])), rng.random((len(columns[0]), 2, 3)))
    member = random_member(rng, V)
    return rng, wiki.head_average(pairs) if average else pairs, member, wiki.topic_relations(member)


def test_attention_means_by_loop():
    _, pairs, _, masks = case(8, average=False)
    by_head, average = wiki.attention_means(pairs, *masks), wiki.head_average(pairs)
    assert np.shape(by_head.ratio) == (2, 3)
    for mask, heads, mean in zip(masks, by_head, wiki.attention_means(average, *masks), strict=True):
        rows = [a for q, k, a in zip(pairs.query, pairs.key, pairs.attention, strict=True) if mask[q, k]]
        np.testing.assert_allclose(heads, np.mean(rows, axis=0))
        assert mean == pytest.approx(np.mean(rows), rel=1e-5)


def test_among_keeps_the_pairs_of_words_with_topics():
    _, pairs, member, masks = case(9)
    words = np.flatnonzero(member.any(axis=1))
    assert len(words) < 12, "expected a word without topics, or this tests nothing"
    fewer = wiki.among(pairs, words)
    assert 0 < len(fewer.query) < len(pairs.query)
    found = wiki.attention_means(fewer, *wiki.topic_relations(member[words]))
    assert found == wiki.attention_means(pairs, *masks)


def test_matched_means_by_loop():
    _, pairs, _, masks = case(10, n=200)
    got = wiki.matched_means(pairs, *masks, pairs.place)
    same, different, total = 0.0, 0.0, 0
    for place in set(pairs.place):
        inside = [pairs.attention[mask[pairs.query, pairs.key] & (pairs.place == place)] for mask in masks]
        if all(map(len, inside)):
            same, different = same + inside[0].sum(), different + len(inside[0]) * inside[1].mean()
            total += len(inside[0])
    assert got == pytest.approx((same / total, different / total), rel=1e-5)


@pytest.mark.parametrize("by", ["distance", "place"])
def test_matching_removes_what_it_matches(by):
    """Attention that depends on the distance (or the key) alone: a gap that matching takes away."""
    rng, pairs, _, _ = case(11, n=20000)
    masks = wiki.topic_relations(np.repeat(np.eye(2, dtype=bool), 6, axis=0))
    near = masks[0][pairs.query, pairs.key] * rng.random(len(pairs.query)) > 0.5  # same topic, and close to each other
    group = np.where(near, 1, 2) if by == "distance" else getattr(pairs, by) + np.where(near, 0, 50)
    pairs = pairs._replace(**{by: group}, attention=1.0 / (1 + group))
    assert abs(wiki.attention_means(pairs, *masks).ratio - 1) > 0.1
    assert wiki.matched_means(pairs, *masks, group).ratio == pytest.approx(1, abs=1e-9)
    assert np.isnan(wiki.matched_means(pairs, *masks, np.arange(len(pairs.query))).ratio), "expected no common group"


def test_pairs_with_a_partner_by_loop():
    _, pairs, _, masks = case(14, n=200)
    kinds = [mask[pairs.query, pairs.key] for mask in masks]
    got = wiki.with_partner(pairs, *masks, pairs.place)
    expected = []
    for i, place in enumerate(pairs.place):
        inside = pairs.place == place
        expected.append((kinds[0][i] or kinds[1][i]) and all((kind & inside).any() for kind in kinds))
    assert got.tolist() == expected
    assert 0 < got.sum() < (kinds[0] | kinds[1]).sum(), "expected some pairs without a partner, or this tests nothing"


def test_bootstrap_within_groups_by_loop():
    """Each draw of articles as the very pairs drawn, some of them several times, through `matched_means`."""
    _, pairs, _, masks = case(15, n=300)
    pairs = pairs._replace(article=np.where(pairs.distance == 8, 9, pairs.article))
    lone = (pairs.article == 9) & masks[0][pairs.query, pairs.key]  # the last article: pairs without a partner only
    pairs = wiki.Pairs(*(column[~lone] for column in pairs))
    articles = np.unique(pairs.article)
    ratios = []
    for draw in np.random.default_rng(0).multinomial(len(articles), np.full(len(articles), 1 / len(articles)), 1000):
        rows = np.repeat(np.arange(len(pairs.query)), draw[np.searchsorted(articles, pairs.article)])
        drawn = wiki.Pairs(*(column[rows] for column in pairs))
        ratios.append(wiki.matched_means(drawn, *masks, drawn.distance).ratio)
    got = wiki.bootstrap_ratio(pairs, *masks, np.random.default_rng(0), pairs.distance)
    np.testing.assert_allclose(got, np.nanquantile(ratios, [0.025, 0.975]), rtol=1e-5)
    assert got != pytest.approx(wiki.bootstrap_ratio(pairs, *masks, np.random.default_rng(0)), rel=1e-3)


def test_bootstrap_over_articles():
    _, pairs, _, masks = case(12, n=20000)
    low, high = wiki.bootstrap_ratio(pairs, *masks, np.random.default_rng(0))
    assert low < wiki.attention_means(pairs, *masks).ratio < high and high - low < 0.2
    effect = 1 + masks[0][pairs.query, pairs.key] * pairs.article  # another ratio in each article: 1 to 5
    wide = wiki.bootstrap_ratio(pairs._replace(attention=effect), *masks, np.random.default_rng(0))
    assert wide[1] - wide[0] > 1, "expected articles, not pairs, to be drawn"
    alike = wiki.bootstrap_ratio(pairs._replace(attention=0.01 + 0 * effect), *masks, np.random.default_rng(0))
    assert alike == pytest.approx((1, 1))
