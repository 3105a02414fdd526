"""What is known of a served model. Data only; who loads it is not known here."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from dragoman.core.sampling import SamplingSpec

SamplingField = str


class Capabilities(Struct, frozen=True, kw_only=True):
    """What an engine can do for this model. A request that needs more is refused, naming the field.

    `sampling` lists the SamplingSpec fields it honours; `logprobs` the most alternatives it reports (None: no
    logprobs); `post_sampling_logprobs` whether also over what the sampling stages left; `lanes` how many rows decode
    together; `grammar` whether it can mask; `shift` whether answers may outlast the
    window, whose oldest tokens go then. `generation` is False for models that only embed or rank;
    `embedding_tokens` is the longest input of an embedding or a pair to rank (0: the context window); `pooling` how
    embeddings are pooled, `none` for one vector per token.
    """

    sampling: frozenset[SamplingField]
    lanes: int = 1
    logprobs: int | None = None
    prompt_logprobs: bool = False
    post_sampling_logprobs: bool = False
    grammar: bool = False
    shift: bool = False
    media: frozenset[str] = frozenset()
    embeddings: bool = False
    rerank: bool = False
    generation: bool = True
    embedding_tokens: int = 0
    pooling: str = ""


class ModelCard(Struct, frozen=True, kw_only=True):
    """A model as clients see it. Lengths in tokens, sizes in bytes, times in Unix seconds.

    `id` is the name answers carry; every name in `aliases` is accepted too. `context_length` is the effective
    window of one request, `trained_context` that of the checkpoint. `template_caps` names what the chat template
    renders by itself (tools, tool_calls, system_role, …), as found by rendering. `generation`, `embeddings` and
    `rerank` are what the model is served for; `no_infill` says why it cannot fill gaps in code, '' where it can.
    """

    id: str
    aliases: tuple[str, ...] = ()
    path: str
    format: Literal["gguf", "safetensors", "scripted"]
    engine: str
    engine_build: str = ""
    architecture: str = ""
    quantization: str = ""
    parameters: int = 0
    size_bytes: int = 0
    vocab_size: int = 0
    embedding_length: int = 0
    digest: str = ""
    created: int = 0
    context_length: int = 0
    trained_context: int = 0
    lanes: int = 1
    chat_template: str = ""
    template_caps: frozenset[str] = frozenset()
    bos_token: str = ""
    eos_token: str = ""
    tools: bool = False
    thinking: bool = False
    generation: bool = True
    embeddings: bool = False
    rerank: bool = False
    no_infill: str = ""
    sampling_defaults: SamplingSpec = SamplingSpec()
    metadata: dict[str, str | int | float | bool] = field(default_factory=dict[str, str | int | float | bool])
