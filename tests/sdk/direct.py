"""Log probabilities of prompts, computed with the model itself and no server: `python -m tests.sdk.direct GGUF`.

Reads lists of token ids as JSON, writes the log probability of every token after the first of each. A process of its
own, because MLX takes the fast BLAS only when it is loaded after it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.app.blas.choice import ensure


def scores(model: Any, ids: list[int]) -> list[float]:
    """Of each token but the first, in float64 from the model's float32 logits."""
    import mlx.core as mx

    logits = np.array(model(mx.array([ids]))[0].astype(mx.float32)).astype(np.float64)[:-1]
    peak = logits.max(-1, keepdims=True)
    logits -= peak + np.log(np.exp(logits - peak).sum(-1, keepdims=True))
    return [float(line[token]) for line, token in zip(logits, ids[1:], strict=True)]


def main() -> None:
    """See the module."""
    ensure("auto", "mlx")
    from dragoman.engines.mlx.gguf import load_gguf

    model: Any = load_gguf(Path(sys.argv[1])).model
    json.dump([scores(model, ids) for ids in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
