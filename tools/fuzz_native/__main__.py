"""`python -m tools.fuzz_native MODEL.gguf`: the same random requests to this server and to llama.cpp's own; prints what
differs, and ends with 1 if anything does that the manifest does not explain."""

from __future__ import annotations

import argparse
import contextlib
import http.client
import random
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import urlsplit

from bench.servers import Server, dragoman, process
from tools.compat.manifest import FuzzEntry, load
from tools.fuzz_native.bodies import Case, case
from tools.fuzz_native.compare import Answer, answer_of, differences

_CODE = (
    "import sys, time, xllamacpp as x\n"
    "p = x.CommonParams()\n"
    "p.model.path, p.n_parallel, p.n_ctx, p.port = sys.argv[1], 2, 1024, int(sys.argv[3])\n"
    "p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1\n"
    "p.hostnames, p.ui, p.verbosity = ['127.0.0.1'], False, 0\n"
    "p.endpoint_slots = p.endpoint_props = p.endpoint_metrics = True\n"
    "server = x.Server(p)\n"
    "time.sleep(86400)\n"
)


PATIENCE = 60
"""Seconds for one answer; llama.cpp of some builds never ends with some samplers."""


class Peer:
    """One of the two servers, over one connection that is kept."""

    def __init__(self, url: str) -> None:
        self._where = urlsplit(url)
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, asked: Case) -> Answer:
        """Its answer; status 0 when it left us without one."""
        for attempt in (0, 1):
            if self._connection is None:
                self._connection = http.client.HTTPConnection(
                    self._where.hostname or "", self._where.port, timeout=PATIENCE
                )
            try:
                headers = {"content-type": "application/json"}
                self._connection.request(asked.method, asked.path, asked.body, headers)
                reply = self._connection.getresponse()
                return answer_of(reply.status, reply.headers.get("content-type", ""), reply.read())
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                self._connection = None
                if attempt or isinstance(error, TimeoutError):
                    return Answer(0, "", (), f"{type(error).__name__}: {error}")
        raise AssertionError


class Other:
    """The server to be compared with, started anew when a request has killed it. `start` None: there is none. `silent`
    counts the requests it left without an answer, which is its own fault and no difference: the bundled llama.cpp, for
    one, does not answer an empty prompt with `n` 2."""

    def __init__(self, start: Callable[[], AbstractContextManager[Server]] | None) -> None:
        self._start = start
        self._stack = contextlib.ExitStack()
        self._peer: Peer | None = None
        self.silent = 0

    def ask(self, asked: Case) -> Answer | None:
        """Its answer; None without one, or where it left us without."""
        if self._start is None:
            return None
        if self._peer is None:
            self._peer = Peer(self._stack.enter_context(self._start()).url)
        answer = self._peer.ask(asked)
        if answer.status:
            return answer
        self.silent += 1
        print(f"the other server did not answer: {asked.told()}", file=sys.stderr)
        self.close()
        return None

    def close(self) -> None:
        """Stop it, if it was started here."""
        self._peer = None
        self._stack.close()


def other_of(against: str, model: Path) -> Other:
    """As the command line names it."""
    if against == "none":
        return Other(None)
    if against.startswith("http"):
        return Other(lambda: contextlib.nullcontext(Server("llama-server", against, 0, "")))
    if against == "bundled":
        command = [sys.executable, "-c", _CODE, str(model)]
    else:
        command = [against, "-m", str(model), *["-np", "2", "-c", "1024", "-t", "1", "--metrics", "--props", "--no-ui"]]
    return Other(lambda: process("llama-server", command, None))


def explained(what: str, path: str, known: Sequence[FuzzEntry]) -> bool:
    """Whether the manifest has a reason for it."""
    return any(re.search(entry.path, path) and re.search(entry.what, what) for entry in known)


def run(arguments: argparse.Namespace) -> int:
    """Ask, compare, print; 1 if something differs that has no reason."""
    dice, known = random.Random(arguments.seed), load().fuzz
    groups: dict[str, list[str]] = defaultdict(list)
    meant = compared = 0
    serve = ("--engine", "llamacpp", "--ctx", "512", "--max-lanes", "2", "--threads", "1", "--ephemeral")
    other = other_of(arguments.against, arguments.model)
    with dragoman(str(arguments.model), *serve) as server, contextlib.closing(other):
        ours = Peer(server.url)
        for number in range(arguments.count):
            asked = case(dice)
            if not asked.path.startswith(arguments.only):
                continue
            mine, theirs = ours.ask(asked), other.ask(asked)
            wrong = [] if mine.status else ["no answer"]
            if mine.status and theirs is not None:
                compared += 1
                wrong += differences(theirs, mine, words=len(asked.tried) < 2)
            for what in wrong:
                if explained(what, asked.path, known):
                    meant += 1
                else:
                    groups[f"{asked.path}: {what}"].append(asked.told())
            if number % 500 == 499:
                print(f"{number + 1} asked, {len(groups)} kinds of difference", file=sys.stderr, flush=True)
    for what, told in sorted(groups.items(), key=lambda group: -len(group[1])):
        print(f"{len(told):5d}  {what}\n       {min(told, key=len)}")
    print(
        f"{arguments.count} asked, {compared} compared, {meant} differences are meant, {len(groups)} kinds are not; "
        f"the other server left {other.silent} without an answer"
    )
    return 1 if groups else 0


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="fuzz-native", description=__doc__)
    parser.add_argument("model", type=Path, help="a GGUF file")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only paths that begin so")
    parser.add_argument("--against", default="bundled", help="bundled, none, a URL, or the path of a llama-server")
    raise SystemExit(run(parser.parse_args()))


if __name__ == "__main__":
    main()
