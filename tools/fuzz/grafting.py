"""Bodies that differ from a good request in a few fields. A random body is almost never good in all its fields, so that
without this hardly any case would come past the reading of it."""

from __future__ import annotations

import random
import zlib
from typing import Any

import schemathesis

_TURNS = [{"role": "user", "content": "WORDS"}]
_RANKED = {"query": "sun", "documents": ["the cat sat", "sun"]}
GOOD: dict[str, dict[str, Any]] = {
    "/api/chat": {"model": "fake", "messages": _TURNS},
    "/api/embed": {"model": "fake", "input": "sun"},
    "/api/embeddings": {"model": "fake", "prompt": "sun"},
    "/api/generate": {"model": "fake", "prompt": "WORDS"},
    "/api/show": {"model": "fake"},
    "/apply-template": {"messages": _TURNS},
    "/chat/completions": {"messages": _TURNS},
    "/chat/completions/input_tokens": {"messages": _TURNS},
    "/completion": {"prompt": "WORDS"},
    "/completions": {"prompt": "WORDS"},
    "/detokenize": {"tokens": [5, 6]},
    "/embedding": {"content": "sun"},
    "/embeddings": {"content": "sun"},
    "/rerank": _RANKED,
    "/reranking": _RANKED,
    "/responses": {"input": "WORDS"},
    "/responses/input_tokens": {"input": "WORDS"},
    "/tokenize": {"content": "WORDS"},
    "/v1/chat/completions": {"messages": _TURNS},
    "/v1/chat/completions/input_tokens": {"messages": _TURNS},
    "/v1/completions": {"prompt": "WORDS"},
    "/v1/embeddings": {"input": "sun"},
    "/v1/messages": {"model": "fake", "max_tokens": 9, "messages": _TURNS},
    "/v1/messages/count_tokens": {"model": "fake", "messages": _TURNS},
    "/v1/rerank": _RANKED,
    "/v1/reranking": _RANKED,
    "/v1/responses": {"input": "WORDS"},
    "/v1/responses/input_tokens": {"input": "WORDS"},
    "/v2/rerank": {"model": "fake", **_RANKED},
}
SHARE = 4, 5
MOST = 3


@schemathesis.hook
def map_body(context, body: Any) -> Any:
    """Four bodies of five become a good one with up to three fields of the random one."""
    good = GOOD.get(context.operation.path)
    if good is None or not isinstance(body, dict):
        return body
    draw = random.Random(zlib.crc32(repr(body).encode("utf-8", "replace")))
    if draw.randrange(SHARE[1]) >= SHARE[0]:
        return body
    names = sorted(body)
    kept = draw.sample(names, min(len(names), draw.randrange(MOST + 1)))
    return {**good, **{name: body[name] for name in kept}}
