import pytest

from dragoman.output.families.table import FAMILIES, family_named
from dragoman.prompt.reply_format import detect_reply_format
from tests.prompt.vocabularies import tokenizer

SIGNS = {
    "harmony": "'<|start|>assistant<|channel|>final<|message|>'",
    "minimax_m2": "'<minimax:tool_call>'",
    "gemma4": "'<|tool_call>call:' '<tool_call|>'",
    "function_gemma": "'<start_function_call>call:'",
    "deepseek_v32": "'<｜DSML｜invoke name='",
    "deepseek_v3": "'<｜tool▁calls▁begin｜>' '```json'",
    "deepseek_v31": "'<｜tool▁calls▁begin｜>'",
    "kimi_k2": "'<|tool_calls_section_begin|>'",
    "command": "'<|START_ACTION|>'",
    "seed_oss": "'<seed:tool_call>' '<function=' '<parameter='",
    "glm4": "'<tool_call>' '<arg_key>'",
    "qwen3_coder": "'<tool_call>' '<function=' '<parameter='",
    "minicpm5": "'<function name=\"' '<param name=\"'",
    "lfm2": "'<|tool_list_start|>'",
    "mistral": "'[TOOL_CALLS]' '[ARGS]'",
    "mistral_list": "'[TOOL_CALLS]['",
    "nemotron": "'<TOOLCALL>'",
    "phi4": "'<|tool_call|>' '<|/tool_call|>'",
    "granite": "'<|tool_call|>'",
    "hermes": "'<tool_call>'",
    "llama_pythonic": "'[func_name1(params_name1=params_value1)]' '<|python_tag|>'",
    "llama3_json": "'<|python_tag|>'",
}


@pytest.mark.parametrize("family", SIGNS)
def test_a_template_tells_its_family(family: str) -> None:
    assert detect_reply_format(SIGNS[family], tokenizer()).tool_family == family
    assert family in FAMILIES


def test_an_unknown_template_has_none() -> None:
    assert detect_reply_format("{{ messages }}", tokenizer()).tool_family == ""


def test_somebodys_word_wins() -> None:
    found = detect_reply_format(SIGNS["hermes"], tokenizer(), "harmony")
    assert (found.tool_family, found.think_close) == ("harmony", "<|end|>")


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_a_row_is_consistent(family) -> None:
    assert family_named(family.name) is family
    assert len({marker[0] for marker in (*family.openers, *family.starts)}) <= 1
    assert family.channels or family.openers or family.starts or family.bare_starts
    assert all(family.terminals)
