"""Written answers, one file a family."""

from tests.families.corpus import (
    command,
    deepseek,
    gemma,
    glm4,
    granite,
    harmony,
    hermes,
    json_calls,
    kimi_k2,
    lfm2,
    llama,
    minicpm5,
    minimax_m2,
    mistral,
    nemotron,
    phi4,
    qwen3_coder,
    seed_oss,
)

FILES = (
    command, deepseek, gemma, glm4, granite, harmony, hermes, json_calls, kimi_k2, lfm2, llama, minicpm5, minimax_m2,
    mistral, nemotron, phi4, qwen3_coder, seed_oss,
)  # fmt: skip
ALL = [snippets for file in FILES for snippets in file.ALL]
