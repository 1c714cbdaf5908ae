"""The sample, the streamed whole, and chunks of tokens."""

import re
import unicodedata

import numpy as np
import pytest

from topiclib import text as wiki
from topiclib.text import corpus


def test_the_bundled_sample_is_prose(sample):
    assert len(sample.titles) == 94 and 390_000 < sample.n_words < 405_000
    text = "\n".join(paragraph for article in sample.articles for paragraph in article)
    for markup in ("[[", "{{", "'''", "<ref", "#REDIRECT"):
        assert markup not in text
    assert "CC BY-SA" in sample.attribution and "contributors" in sample.attribution
    assert not any(":" in title for title in sample.titles), "expected articles only, got pages of other namespaces"
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


def test_twenty_words_make_a_paragraph_and_two_hundred_an_article(monkeypatch):
    def lengths(*numbers):
        return "\n".join(" ".join(["word"] * number) for number in numbers)

    pages = {"kept": (180, 20), "short": (180, 19), "two hundred": (200,), "one less": (199, 19)}
    monkeypatch.setattr(corpus, "_dump_pages", lambda: [(title, lengths(*x)) for title, x in pages.items()])
    found = wiki.load_corpus()
    assert found.titles == ["kept", "two hundred"] and [len(x) for x in found.articles] == [2, 1]
    assert found.n_words == 400


def test_without_network_the_corpus_says_what_was_tried(hub, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError("no route to host\nand a second line")

    monkeypatch.setattr(hub, "load_dataset", fail)
    with pytest.raises(ConnectionError, match=r"^datasets.load_dataset.*no route to host\).*work offline$"):
        wiki.load_corpus("wikipedia")
    with pytest.raises(ValueError, match="corpus 'wiki' is not known: choose sample or wikipedia"):
        wiki.load_corpus("wiki")


def test_chunks_stay_inside_articles_and_lose_no_token(tiny):
    encoder = tiny["bert"]
    articles = [["apple fig " * 20, "banana"], ["cherry " * 31], ["fig " * 7], ["fig " * 8], ["fig " * 38]]
    chunks = wiki.chunk_corpus(corpus.Corpus(list("abcde"), articles, ""), encoder, 32, min_df=1, max_df=1)
    assert chunks.article.tolist() == [0, 0, 1, 3, 4, 4], "expected ends shorter than a quarter of a chunk left out"
    assert chunks.lengths.tolist() == [32, 13, 32, 10, 32, 10]
    assert chunks.ids.shape == chunks.word.shape == (6, 32)
    start, end = encoder.tokenizer("")["input_ids"]
    for ids, word, length in zip(chunks.ids, chunks.word, chunks.lengths, strict=True):
        assert ids[0] == start and ids[length - 1] == end
        assert (ids[length:] == encoder.tokenizer.pad_token_id).all()
        assert (word[1 : length - 1] >= 0).all() and word[0] == -1 and (word[length - 1 :] == -1).all()
    joined = np.concatenate([chunks.ids[0, 1:31], chunks.ids[1, 1:12]])
    assert joined.tolist() == encoder.tokenizer(articles[0][0] + articles[0][1], add_special_tokens=False)["input_ids"]


def test_tokenizer_with_other_ends(tiny):
    encoder = tiny["bert"]._replace(name="odd", tokenizer=lambda text: {"input_ids": [2, 2, 3]})
    with pytest.raises(ValueError, match="the tokenizer of odd adds 3 special tokens to a text: 2 are wanted"):
        wiki.chunk_corpus(corpus.Corpus([], [], ""), encoder)


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
