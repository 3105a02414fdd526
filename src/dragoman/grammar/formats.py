"""String formats of JSON Schema as regexes that both engines' compilers take and every validator accepts. Each matches
values of its format only, though not all of them (years begin in 1000, for example). Knows no schema."""

from __future__ import annotations

_LEAP = r"(?:[1-9]\d(?:0[48]|[2468][048]|[13579][26])|(?:[2468][048]|[13579][26])00)"
_DATE = (
    r"(?:[1-9]\d{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
    rf"|02-(?:0[1-9]|1\d|2[0-8]))|{_LEAP}-02-29)"
)
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
_DURATION_TIME = r"T(?:\d{1,4}H(?:\d{1,4}M)?(?:\d{1,4}S)?|\d{1,4}M(?:\d{1,4}S)?|\d{1,4}S)"
_DURATION_DATE = r"(?:\d{1,4}Y(?:\d{1,4}M)?(?:\d{1,4}D)?|\d{1,4}M(?:\d{1,4}D)?|\d{1,4}D)"
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?"
_HOST = rf"{_LABEL}(?:\.{_LABEL}){{0,4}}"
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_HEX = r"[0-9a-f]"
_URL_CHAR = r"[A-Za-z0-9._~!$&'()*+,;=:@-]"

_SOURCES: dict[str, str] = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}",
    "duration": rf"P(?:{_DURATION_DATE}(?:{_DURATION_TIME})?|{_DURATION_TIME}|\d{{1,4}}W)",
    "email": rf"[a-zA-Z0-9](?:[a-zA-Z0-9_+-]|\.[a-zA-Z0-9]){{0,40}}@{_LABEL}(?:\.{_LABEL}){{1,3}}",
    "hostname": _HOST,
    "ipv4": rf"{_OCTET}(?:\.{_OCTET}){{3}}",
    "ipv6": rf"(?:{_HEX}{{1,4}}:){{7}}{_HEX}{{1,4}}|::(?:{_HEX}{{1,4}}(?::{_HEX}{{1,4}}){{0,5}})?",
    "uuid": rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}",
    "uri": rf"[a-z][a-z0-9+.-]{{1,10}}://{_HOST}(?::\d{{1,4}})?(?:/{_URL_CHAR}*)*(?:\?{_URL_CHAR}*)?(?:#{_URL_CHAR}*)?",
}

PATTERNS: dict[str, str] = {name: f"^(?:{source})$" for name, source in _SOURCES.items()}
"""Format -> anchored regex."""

UNENFORCED = frozenset(
    {
        "idn-email",
        "idn-hostname",
        "iri",
        "iri-reference",
        "json-pointer",
        "regex",
        "relative-json-pointer",
        "uri-reference",
        "uri-template",
    }
)
"""Formats the standard defines that no regex here stands for. Others are annotations, as the standard says."""
