"""A cache of each test's own, the sample of Wikipedia, and a tiny random model of each kind; nothing is fetched."""

import joblib
import pytest
import torch
import transformers

from topiclib import text as wiki

WORDS = ["apple", "banana", "cherry", "Dates", "dates", "fig"]  # Dates and dates: the same word in two cases


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOPICLIB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(joblib.memory, "_FUNCTION_HASHES", {})  # what it keeps of a process, as in a new one


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


SHAPE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
BART = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 4}
BART |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
TINY = {  # the kinds of encoders.MODELS: configuration, tokenizer
    "bert": (transformers.BertConfig, SHAPE, word_piece),
    "albert": (transformers.AlbertConfig, SHAPE | {"embedding_size": 8}, unigram),
    "bart": (transformers.BartConfig, BART, byte_level),
    "electra": (transformers.ElectraConfig, SHAPE | {"embedding_size": 8}, word_piece),
    "electra-base": (transformers.ElectraConfig, SHAPE | {"embedding_size": 16}, word_piece),
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
