"""Checks that schemathesis runs on every reply beside its own, and a count of what was answered. Loaded by name in
schemathesis' own environment."""

from __future__ import annotations

import atexit
from collections import Counter, defaultdict

import grafting  # noqa: F401  its hook is found by being loaded
import schemathesis

# A refusal with its reason: this model cannot do that, this server cannot do it now.
MEANT = (501, 503)
REPLIES: dict[str, Counter[int]] = defaultdict(Counter)


@schemathesis.check
def no_failure_of_the_server(ctx, response, case) -> None:
    """No 5xx but those that refuse. llama-server's own routes answer some wrong bodies with 500 in its very words, as
    the recordings show; an error nobody foresaw says so on every wire."""
    status = response.status_code
    REPLIES[f"{case.method:<6} {case.path}"][status] += 1
    meant = status in MEANT or (status == 500 and _native(case) and "Internal error" not in response.text)
    if status >= 500 and not meant:
        raise AssertionError(f"The server failed with {status}: {response.text[:300]}")


@schemathesis.check
def wrong_methods_are_refused(ctx, response, case) -> None:
    """A method that is not in the document is a 405 with `Allow`, on llama-server's own routes its 404."""
    known = case.operation.schema.raw_schema["paths"][case.path]
    if case.method.lower() in known or case.method == "OPTIONS":
        return
    if response.status_code == 404 and _native(case):
        return
    if response.status_code != 405 or "allow" not in response.headers:
        raise AssertionError(f"{case.method} is answered with {response.status_code}")


def _native(case) -> bool:
    return "llamacpp" in case.operation.definition.raw["tags"]


@atexit.register
def _tell() -> None:
    print("\nReplies by route and status:")
    for route, statuses in sorted(REPLIES.items()):
        print(f"  {route:<60}", "  ".join(f"{status}: {count}" for status, count in sorted(statuses.items())))
