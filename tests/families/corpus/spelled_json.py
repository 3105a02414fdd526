"""The argument objects of the standard cases as JSON, for the families whose arguments are JSON."""

OSLO = '{"place": "Oslo"}'
ROME = '{"place": "Rome", "n": 2}'
NESTED = '{"place": "x", "deep": {"a": [1, {"b": []}], "c": {}}, "list": [1.5, "two", null, true]}'
SPECIAL = r'{"body": "Tromsø \"q\" \\ 😀\n한국"}'
MARKED = "a </parameter> b </tool_call> c <tool_call> [TOOL_CALLS] d ]"
