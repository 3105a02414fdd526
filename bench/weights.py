"""Checkpoint folders that both servers load, made once and kept under .cache/bench. Knows no server."""

from __future__ import annotations

import importlib
import json
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

CACHE = Path(__file__).parents[1] / ".cache" / "bench"
VERSION = 1
"""Part of every folder's name: raise it when what is written changes."""

Stored = Literal["float32", "bfloat16", "packed"]

SMALL_VOCAB = 4096
SMALL_CONTEXT = 4096
SMALL: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "intermediate_size": 704,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-5,
    "vocab_size": SMALL_VOCAB,
    "max_position_embeddings": SMALL_CONTEXT,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
"""Llama-shaped, 5 million weights: a decode step is short, so what a server adds to it shows."""

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_SENTENCE = (
    "the river and a small boat were on their way to town when it came for three days while people sat by fire "
    "they told old stories about kings who had lost their names in cold water under green hills far from home"
)
WORDS = tuple(_SENTENCE.split())
"""Words that are one token each, with the space before them, in both vocabularies."""

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def small_checkpoint(stored: Stored, cache: Path = CACHE) -> Path:
    """A random llama-shaped checkpoint. Its answers never end by themselves and every token is ASCII text."""
    return _made(cache / f"small-{stored}-v{VERSION}", lambda folder: _write_small(folder, stored))


def smollm2_checkpoint(gguf: Path, stored: Stored, cache: Path = CACHE) -> Path:
    """The model of a llama-architecture GGUF file as mlx-lm reads it: `packed` keeps the file's own weights exactly."""
    return _made(cache / f"{gguf.stem.lower()}-{stored}-v{VERSION}", lambda folder: _write_gguf(folder, gguf, stored))


def _made(folder: Path, write: Callable[[Path], None]) -> Path:
    """`folder`, written beside its place first so that a run cut short leaves no half of it."""
    if folder.is_dir():
        return folder
    scratch = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    write(scratch)
    with suppress(FileExistsError):
        scratch.rename(folder)
    return folder


def _write_small(folder: Path, stored: Stored) -> None:
    import mlx.core as mx
    from mlx.utils import tree_flatten, tree_unflatten

    tokenizer = _small_tokenizer()
    module = importlib.import_module("mlx_lm.models.llama")
    model = module.Model(module.ModelArgs.from_dict(SMALL))
    mx.random.seed(7)
    silent = mx.array(silent_tokens(tokenizer))
    drawn = []
    for name, value in tree_flatten(model.parameters()):
        if value.ndim == 2:
            # Wide enough that answers wander and the best token stands clear of the next.
            scale = 0.5 if "embed" in name else 0.3 if "lm_head" in name else 1.6 / value.shape[-1] ** 0.5
            value = mx.random.normal(value.shape) * scale
        if name == "lm_head.weight":
            value[silent] = 0
        drawn.append((name, value))
    model.update(tree_unflatten(drawn))
    _save(folder, model, SMALL, stored)
    _save_tokenizer(folder, tokenizer, CHAT_TEMPLATE, SMALL_CONTEXT)


def silent_tokens(tokenizer: Tokenizer) -> list[int]:
    """Ids whose logit is made zero, far below the best: special tokens and bytes that are no character alone."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    spelled = tokenizer.get_vocab(with_added_tokens=True)
    return sorted(id for text, id in spelled.items() if text in SPECIALS or (text in alphabet and not text.isascii()))


def _small_tokenizer() -> Tokenizer:
    """A byte-level BPE of SMALL_VOCAB tokens, trained on the bench's words and on made-up ones."""
    draw = random.Random(11)
    syllables = [a + b + c for a in "bdfgklmnprstvz" for b in "aeiou" for c in ("", "l", "n", "r", "s")]
    invented = ["".join(draw.choices(syllables, k=draw.randint(2, 4))) for _ in range(6000)]
    tokenizer = Tokenizer(models.BPE())
    _byte_level(tokenizer, ())
    trainer = trainers.BpeTrainer(
        vocab_size=SMALL_VOCAB,
        special_tokens=list(SPECIALS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([" " + " ".join(WORDS * 200), " ".join(invented), "user assistant system"], trainer)
    if tokenizer.get_vocab_size() != SMALL_VOCAB:
        raise RuntimeError(f"the small vocabulary has {tokenizer.get_vocab_size()} tokens, not {SMALL_VOCAB}")
    return tokenizer


def _write_gguf(folder: Path, gguf: Path, stored: Stored) -> None:
    from dragoman.catalog.gguf import read_gguf
    from dragoman.engines.mlx.gguf import load_gguf
    from dragoman.engines.mlx.gguf_config import config_of, shape_of
    from dragoman.engines.mlx.gguf_header import read_header

    header = read_gguf(gguf)
    vocabulary = header.vocabulary()
    config = config_of(shape_of(read_header(gguf), gguf))
    config |= {"bos_token_id": vocabulary.bos_id, "eos_token_id": vocabulary.eos_id}
    _save(folder, load_gguf(gguf, "quantized" if stored == "packed" else "float32").model, config, stored)
    template = header.chat_template["default"]
    _save_tokenizer(folder, exported_tokenizer(vocabulary), template, config["max_position_embeddings"], vocabulary)


def exported_tokenizer(vocabulary: Any) -> Tokenizer:
    """A byte-level GGUF vocabulary as a tokenizer.json."""
    from dragoman.prompt.pretokenizers import pre_tokenizer

    pre = pre_tokenizer(vocabulary.pre)
    if vocabulary.model != "gpt2" or pre is None or not pre.byte_level:
        raise RuntimeError(f"the bench exports byte-level vocabularies only, not {vocabulary.model}/{vocabulary.pre}")
    ids = {text: id for id, text in enumerate(vocabulary.tokens)}
    merges = [tuple(merge.split(" ", 1)) for merge in vocabulary.merges]
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges, ignore_merges=pre.ignore_merges))
    _byte_level(tokenizer, pre.patterns)
    control = [text for text, kind in zip(vocabulary.tokens, vocabulary.types, strict=True) if kind == 3]
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in control])
    return tokenizer


def _byte_level(tokenizer: Tokenizer, patterns: tuple[str, ...]) -> None:
    steps: list[Any] = [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in patterns]
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not patterns))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()


def _save(folder: Path, model: Any, config: dict[str, Any], stored: Stored) -> None:
    import mlx.core as mx
    from mlx.utils import tree_flatten

    if stored == "packed":
        config = config | {"quantization": _quantization(model, config)}
    weights = dict(tree_flatten(model.parameters()))
    if stored == "bfloat16":
        weights = {name: value.astype(mx.bfloat16) for name, value in weights.items()}
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(config, indent=1))


def _quantization(model: Any, config: dict[str, Any]) -> dict[str, Any]:
    """mlx-lm's description of packed layers: 4 bits in groups of 32, and the layers that differ. Packs what is not."""
    import mlx.nn as nn

    if config is SMALL:
        nn.quantize(model, group_size=32, bits=4)
    packed = {name: module.bits for name, module in model.named_modules() if hasattr(module, "bits")}
    differing = {name: {"group_size": 32, "bits": bits} for name, bits in packed.items() if bits != 4}
    return {"group_size": 32, "bits": 4, **differing}


def _save_tokenizer(folder: Path, tokenizer: Tokenizer, template: str, context: int, vocabulary: Any = None) -> None:
    tokenizer.save(str(folder / "tokenizer.json"))
    tokens = vocabulary.tokens if vocabulary else SPECIALS
    bos, eos = (vocabulary.bos_id, vocabulary.eos_id) if vocabulary else (1, 2)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[bos],
        "eos_token": tokens[eos],
        "chat_template": template,
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1))
