"""English Wikipedia as paragraphs, and as the chunks of tokens that a model reads."""

import bz2
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from .encoders import OFFLINE, Encoder
from .libraries import first_line, library, quiet

DUMP = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"  # in gensim's wheel
ATTRIBUTION = "English Wikipedia, by its contributors, CC BY-SA (wikipedia.org; each title is the name of its page)"
DATASET = ("wikimedia/wikipedia", "20231101.en")  # name and configuration on the Hugging Face hub


class Corpus(NamedTuple):
    """Articles as lists of paragraphs of plain text."""

    titles: list[str]
    articles: list[list[str]]
    attribution: str

    @property
    def n_words(self) -> int:
        """Number of words, cut at white space."""
        return sum(len(paragraph.split()) for article in self.articles for paragraph in article)


class Chunks(NamedTuple):
    """The corpus as a model reads it: n chunks of at most L tokens, each inside one article."""

    ids: np.ndarray  # (n, L) token ids, special tokens at both ends, filled up with the padding id
    lengths: np.ndarray  # (n,) tokens of a chunk, special ones included
    article: np.ndarray  # (n,) index of its article
    word: np.ndarray  # (n, L) index into vocabulary of the whole word at a position; -1: none of them
    vocabulary: np.ndarray  # (V,) words, sorted

    @property
    def counts(self) -> np.ndarray:
        """How often each word stands in each chunk, (n, V)."""
        chunk, position = np.nonzero(self.word >= 0)
        return word_table(chunk, self.word[chunk, position], len(self.ids), len(self.vocabulary)).toarray()


def load_corpus(name: str = "sample", n_articles: int = 0) -> Corpus:
    """The sample of Wikipedia in gensim's wheel, or the first articles of the whole ("wikipedia", streamed).

    Kept are paragraphs of at least 20 words and articles of at least 200. n_articles: at most so many; 0: all of the
    sample, 2,000 of the whole. ValueError for another name, ImportError without gensim (or datasets), ConnectionError
    when the whole cannot be reached.
    """
    if name not in ("sample", "wikipedia"):
        raise ValueError(f"corpus {name!r} is not known: choose sample or wikipedia")
    pages = _dump_pages() if name == "sample" else _hub_pages()
    limit = n_articles or (2000 if name == "wikipedia" else None)
    titles, articles = [], []
    for title, text in pages:
        lines = (re.sub(r"\s+", " ", line).strip() for line in text.split("\n"))
        paragraphs = [line for line in lines if line[:1] not in "*|#:;!{}=" and len(line.split()) >= 20]
        if sum(len(paragraph.split()) for paragraph in paragraphs) >= 200:
            titles.append(title)
            articles.append(paragraphs)
        if len(titles) == limit:
            break
    return Corpus(titles, articles, ATTRIBUTION)


def _dump_pages() -> Iterator[tuple[str, str]]:
    wikicorpus, wheel = library("gensim.corpora.wikicorpus"), library("gensim.test.utils")
    with bz2.open(wheel.datapath(DUMP)) as dump:
        for title, text, _ in wikicorpus.extract_pages(dump, filter_namespaces=("0",)):
            if text and not text.lstrip().lower().startswith("#redirect"):
                yield title, re.sub(r"'{2,}", "", wikicorpus.filter_wiki(text))


def _hub_pages() -> Iterator[tuple[str, str]]:
    datasets = library("datasets")
    try:
        with quiet():
            rows = iter(datasets.load_dataset(*DATASET, split="train", streaming=True))
        for row in rows:
            yield row["title"], row["text"]
    except Exception as error:  # datasets raises many kinds, most of them without a connection
        raise ConnectionError(f"datasets.load_dataset{DATASET} failed ({first_line(error)}): {OFFLINE}") from None


def chunk_corpus(corpus: Corpus, encoder: Encoder, length: int = 128, min_df: int = 5, max_df: float = 0.2) -> Chunks:
    """Each article's tokens, cut into chunks of `length` (the last one of an article is kept from a quarter of that).

    The vocabulary: whole words found in at least min_df chunks and at most a share max_df of them, stop words left out.
    ValueError when nothing is left, or for a tokenizer without one special token at each end.
    """
    stop_words = library("sklearn.feature_extraction.text").ENGLISH_STOP_WORDS
    tokenizer = encoder.tokenizer
    ends = tokenizer("")["input_ids"]
    if len(ends) != 2:
        raise ValueError(f"the tokenizer of {encoder.name} adds {len(ends)} special tokens to a text: 2 are wanted")
    rows, whole, article = [], [], []  # of each chunk: ids; which of them are whole words; index of the article
    for index, paragraphs in enumerate(corpus.articles):
        ids = np.concatenate(tokenizer(paragraphs, add_special_tokens=False, verbose=False)["input_ids"])
        is_word = (encoder.words[ids] != "") & ~np.append(encoder.continues[ids[1:]], False)
        starts = range(0, len(ids) - length // 4 + 1, length - 2)
        rows += [np.concatenate((ends[:1], ids[start : start + length - 2], ends[1:])) for start in starts]
        whole += [np.pad(is_word[start : start + length - 2], 1) for start in starts]
        article += [index] * len(starts)

    lengths = np.array([len(row) for row in rows])
    inside = np.arange(length) < lengths[:, None]  # every position but those of padding, (n, L)
    padded, seen = np.full(inside.shape, tokenizer.pad_token_id), np.zeros(inside.shape, dtype=bool)
    padded[inside], seen[inside] = np.concatenate(rows), np.concatenate(whole)

    names, inverse = np.unique(encoder.words[padded[seen]].astype(str), return_inverse=True)
    df = word_table(np.nonzero(seen)[0], inverse, len(rows), len(names)).getnnz(axis=0)
    kept = (df >= min_df) & (df <= max_df * len(rows)) & ~np.isin(names, list(stop_words))
    if not kept.any():
        raise ValueError(f"no word stands in {min_df} chunks and at most {max_df:.0%} of {len(rows)}: a larger corpus?")
    word = np.full(padded.shape, -1)
    word[seen] = np.where(kept, np.cumsum(kept) - 1, -1)[inverse]
    return Chunks(padded, lengths, np.array(article), word, names[kept])


def word_table(chunk: np.ndarray, word: np.ndarray, n_chunks: int, n_words: int) -> csr_matrix:
    """How often each word stands in each chunk, (n_chunks, n_words): an entry for each pair that occurs."""
    ones = np.ones(len(word), dtype=np.int32)
    return csr_matrix((ones, (chunk, word)), shape=(n_chunks, n_words))
