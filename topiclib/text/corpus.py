"""English Wikipedia as paragraphs, and as the chunks of tokens that a model reads."""

import bz2
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

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
        counts = np.zeros((len(self.ids), len(self.vocabulary)), dtype=np.int32)
        chunk, position = np.nonzero(self.word >= 0)
        np.add.at(counts, (chunk, self.word[chunk, position]), 1)
        return counts


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


def _dump_pages():
    wikicorpus = library("gensim.corpora.wikicorpus")
    path = Path(library("gensim.test.utils").datapath(DUMP))
    if not path.is_file():
        raise FileNotFoundError(f"gensim has no {DUMP} among its test data: pip install gensim==4.4.0")
    with bz2.open(path) as dump:
        for title, text, _ in wikicorpus.extract_pages(dump, filter_namespaces=("0",)):
            if text and not text.lstrip().lower().startswith("#redirect"):
                yield title, re.sub(r"'{2,}", "", wikicorpus.filter_wiki(text))


def _hub_pages():
    datasets = library("datasets")
    try:
        with quiet():
            rows = iter(datasets.load_dataset(*DATASET, split="train", streaming=True))
        for row in rows:
            yield row["title"], row["text"]
    except Exception as error:  # datasets raises many kinds, most of them without a connection
        tried = f"datasets.load_dataset{(*DATASET, 'train')}"
        raise ConnectionError(f"{tried} failed ({first_line(error)}): {OFFLINE}") from None


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
    rows, whole, article = [], [], []
    for index, paragraphs in enumerate(corpus.articles):
        ids = np.concatenate(tokenizer(paragraphs, add_special_tokens=False, verbose=False)["input_ids"])
        is_word = (encoder.words[ids] != "") & ~np.append(encoder.continues[ids[1:]], False)
        starts = range(0, len(ids) - length // 4 + 1, length - 2)
        rows += [ids[start : start + length - 2] for start in starts]
        whole += [is_word[start : start + length - 2] for start in starts]
        article += [index] * len(starts)

    lengths = np.array([len(row) + 2 for row in rows])
    inside = np.arange(length) < lengths[:, None] - 1
    inside[:, 0] = False  # every position but those of special tokens and padding, (n, L)
    padded, seen = np.full(inside.shape, tokenizer.pad_token_id), np.zeros(inside.shape, dtype=bool)
    padded[inside], seen[inside] = np.concatenate(rows), np.concatenate(whole)
    padded[:, 0], padded[np.arange(len(rows)), lengths - 1] = ends

    names, inverse = np.unique(encoder.words[padded[seen]].astype(str), return_inverse=True)
    found = np.unique(np.stack([np.nonzero(seen)[0], inverse], axis=1), axis=0)  # (chunk, word), each once
    df = np.bincount(found[:, 1], minlength=len(names))
    kept = (df >= min_df) & (df <= max_df * len(rows)) & ~np.isin(names, list(stop_words))
    if not kept.any():
        raise ValueError(f"no word stands in {min_df} chunks and at most {max_df:.0%} of {len(rows)}: a larger corpus?")
    word = np.full(padded.shape, -1)
    word[seen] = np.where(kept, np.cumsum(kept) - 1, -1)[inverse]
    return Chunks(padded, lengths, np.array(article), word, names[kept])
