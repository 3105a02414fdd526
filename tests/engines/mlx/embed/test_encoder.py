"""BERT, its cross-encoders and decoders on MLX against the published definitions computed in NumPy."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from dragoman.core.errors import EngineFailure, InvalidRequest, NotSupported
from dragoman.engines.base import Pair
from tests.support.bert_files import CONFIG, VOCABULARY, Reference, random_bert, write_bert_folder
from tests.support.checkpoints import VOCAB_SIZE, write_checkpoint

pytest.importorskip("mlx.core")

from dragoman.engines.mlx.embed.encoder import EncoderOptions, MlxEncoder

pytestmark = pytest.mark.mlx

INPUTS = [(2, 5, 7, 9, 3), (2, 8, 3), (2, *range(5, 40), 3), (2, 3)]


def loaded(folder: Path, **options: object) -> MlxEncoder:
    encoder = MlxEncoder(EncoderOptions(path=str(folder), **options))
    encoder.load()
    return encoder


def vector(rows: tuple[bytes, ...]) -> np.ndarray:
    (only,) = rows
    numbers = np.frombuffer(only, "<f4").astype(np.float64)
    return numbers / np.linalg.norm(numbers)


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_inputs_of_all_lengths_together_give_the_vectors_of_the_definition(tmp_path: Path, pooling: str) -> None:
    weights = random_bert(1)
    encoder = loaded(write_bert_folder(tmp_path / "bert", weights, pooling=pooling))
    reference = Reference(weights)
    found = encoder.embed(INPUTS)
    for ids, rows in zip(INPUTS, found, strict=True):
        np.testing.assert_allclose(vector(rows), reference.embedding(list(ids), pooling), atol=2e-5)


def test_without_pooling_each_token_has_its_vector(tmp_path: Path) -> None:
    weights = random_bert(2)
    encoder = loaded(write_bert_folder(tmp_path / "bert", weights), pooling="none")
    assert encoder.capabilities.pooling == "none"
    for ids, rows in zip(INPUTS, encoder.embed(INPUTS), strict=True):
        assert len(rows) == len(ids)
        expected = Reference(weights).hidden(list(ids))
        np.testing.assert_allclose([np.frombuffer(row, "<f4") for row in rows], expected, atol=2e-4)


def test_many_inputs_are_computed_in_several_passes_and_keep_their_order(tmp_path: Path) -> None:
    weights = random_bert(3)
    encoder = loaded(write_bert_folder(tmp_path / "bert", weights))
    draw = random.Random(0)
    inputs = [(2, *draw.choices(range(5, len(VOCABULARY)), k=draw.randint(1, 60)), 3) for _ in range(300)]
    found = encoder.embed(inputs)
    for index in range(0, 300, 37):
        np.testing.assert_allclose(vector(found[index]), Reference(weights).embedding(list(inputs[index])), atol=2e-5)


def test_a_cross_encoder_scores_as_the_definition_says(tmp_path: Path) -> None:
    weights = random_bert(4, ranks=True)
    encoder = loaded(write_bert_folder(tmp_path / "rank", weights, ranks=True))
    assert encoder.capabilities.rerank
    assert not encoder.capabilities.embeddings
    assert encoder.capabilities.pooling == "rank"
    pairs = [Pair((2, 5, 6, 3, 7, 3), (0, 0, 0, 0, 1, 1)), Pair((2, 9, 3, 5, 6, 7, 8, 9, 3), (0, 0, 0, *[1] * 6))]
    expected = [Reference(weights).score(list(pair.ids), list(pair.types)) for pair in pairs]
    np.testing.assert_allclose(encoder.score(pairs), expected, atol=1e-4)
    with pytest.raises(NotSupported):
        encoder.embed(INPUTS)


def test_roberta_counts_positions_from_after_the_padding_id(tmp_path: Path) -> None:
    weights = random_bert(5, first_position=2, types=1)
    changed = {"model_type": "xlm-roberta", "pad_token_id": 1, "max_position_embeddings": 66, "type_vocab_size": 1}
    encoder = loaded(write_bert_folder(tmp_path / "xlmr", weights, **changed))
    assert encoder.context_length == 64
    shifted = dict(weights)
    name = "embeddings.position_embeddings.weight"
    shifted[name] = weights[name][2:]
    np.testing.assert_allclose(
        vector(encoder.embed(INPUTS[:1])[0]), Reference(shifted).embedding(list(INPUTS[0])), atol=2e-5
    )


def test_old_names_of_normalisation_weights_are_read(tmp_path: Path) -> None:
    weights = random_bert(6)
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in weights.items()
    }
    encoder = loaded(write_bert_folder(tmp_path / "old", old))
    np.testing.assert_allclose(
        vector(encoder.embed(INPUTS[:1])[0]), Reference(weights).embedding(list(INPUTS[0])), atol=2e-5
    )


def test_a_decoder_is_pooled_at_its_last_token_whatever_pads_it(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "qwen3", "qwen3", seed=7)
    encoder = loaded(folder, pooling="last")
    inputs = [(5, 9, 11), (17,), tuple(range(20, 60))]
    together = encoder.embed(inputs)
    for ids, rows in zip(inputs, together, strict=True):
        np.testing.assert_allclose(vector(rows), vector(encoder.embed([ids])[0]), atol=1e-5)
        np.testing.assert_allclose(vector(rows), decoder_state(folder, ids), atol=1e-5)
    assert encoder.facts["embedding_length"] == 64
    with pytest.raises(InvalidRequest):
        encoder.embed([(VOCAB_SIZE,)])


def decoder_state(folder: Path, ids: tuple[int, ...]) -> np.ndarray:
    """What mlx-lm's own model has at the last token, fed token by token through its cache."""
    import mlx.core as mx
    from mlx_lm.models.cache import make_prompt_cache
    from mlx_lm.utils import load_model

    model, _ = load_model(folder)
    cache = make_prompt_cache(model)
    state = None
    for token in ids:
        state = model.model(mx.array([[token]]), cache)
    assert state is not None
    numbers = np.array(state[0, -1].astype(mx.float32), np.float64)
    return numbers / np.linalg.norm(numbers)


def test_the_longest_input_is_what_the_files_recommend(tmp_path: Path) -> None:
    folder = write_bert_folder(tmp_path / "bert", random_bert(0))
    assert loaded(folder).context_length == CONFIG["max_position_embeddings"]
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 16}')
    assert loaded(folder).context_length == 16
    assert loaded(folder, context_length=32).context_length == 32
    assert loaded(folder, context_length=999).context_length == CONFIG["max_position_embeddings"]


def test_what_would_give_other_vectors_is_refused(tmp_path: Path) -> None:
    folder = write_bert_folder(tmp_path / "dense", random_bert(0))
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"})
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(EngineFailure, match="Dense"):
        MlxEncoder(EncoderOptions(path=str(folder)))
    folder = write_bert_folder(tmp_path / "modes", random_bert(0))
    modes = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(modes))
    with pytest.raises(EngineFailure, match="pooling"):
        MlxEncoder(EncoderOptions(path=str(folder)))
    folder = write_bert_folder(tmp_path / "relative", random_bert(0), position_embedding_type="relative_key")
    with pytest.raises(EngineFailure, match="positions"):
        loaded(folder)
    weights = random_bert(0)
    del weights["encoder.layer.1.output.dense.weight"]
    with pytest.raises(EngineFailure, match=r"layer\.1\.output\.dense"):
        loaded(write_bert_folder(tmp_path / "lacking", weights))
    with pytest.raises(EngineFailure, match="rank"):
        loaded(write_bert_folder(tmp_path / "plain", random_bert(0)), pooling="rank")


def test_ids_outside_the_vocabulary_are_refused(tmp_path: Path) -> None:
    encoder = loaded(write_bert_folder(tmp_path / "bert", random_bert(0)))
    for ids in ((len(VOCABULARY),), (-1,), ()):
        with pytest.raises(InvalidRequest):
            encoder.embed([ids])
