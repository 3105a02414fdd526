"""The chat template of the fake engine: a ChatML dialect with tools and thinking, as Jinja text.

Knows nothing of who renders it. Tool calls are written as JSON objects between `<tool_call>` tags, results between
`<tool_response>` tags inside a user turn; `enable_thinking=false` closes the thinking block before it can begin.
"""

FAKE_TEMPLATE = """\
{{- bos_token -}}
{%- set first = messages[0] if messages else {} -%}
{%- set lead = first.content if first.role == 'system' and first.content is string else none -%}
{%- if tools -%}
{{- '<|im_start|>system\\n' -}}
{%- if lead -%}{{- lead + '\\n\\n' -}}{%- endif -%}
{{- 'Functions you can call, one JSON object a line:\\n<tools>' -}}
{%- for tool in tools -%}{{- '\\n' -}}{{- tool | tojson -}}{%- endfor -%}
{{- '\\n</tools>\\nTo call one, write <tool_call>{"name": …, "arguments": {…}}</tool_call>.<|im_end|>\\n' -}}
{%- elif lead is not none -%}
{{- '<|im_start|>system\\n' + lead + '<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in messages -%}
{%- set text = message.content if message.content is string else '' -%}
{%- if message.role == 'system' and loop.first -%}
{%- elif message.role == 'assistant' -%}
{{- '<|im_start|>assistant\\n' -}}
{%- if message.reasoning_content -%}{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' -}}{%- endif -%}
{{- text -}}
{%- for call in message.tool_calls or [] -%}
{%- set made = call.function or call -%}
{{- '\\n' if text or not loop.first -}}
{{- '<tool_call>\\n{"name": ' -}}{{- made.name | tojson -}}{{- ', "arguments": ' -}}
{{- made.arguments if made.arguments is string else (made.arguments | tojson) -}}
{{- '}\\n</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- elif message.role == 'tool' -%}
{{- '<|im_start|>user\\n<tool_response>\\n' + text + '\\n</tool_response><|im_end|>\\n' -}}
{%- else -%}
{{- '<|im_start|>' + message.role + '\\n' + text + '<|im_end|>\\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n' -}}
{%- if enable_thinking is defined and enable_thinking is false -%}{{- '<think>\\n\\n</think>\\n\\n' -}}{%- endif -%}
{%- endif -%}
"""
