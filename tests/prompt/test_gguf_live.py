"""Ids and stop tokens of a GGUF vocabulary against llama.cpp itself, run in a child process."""

import http.client
import json
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.catalog.gguf import read_gguf
from dragoman.prompt.gguf import GgufTokenizer, gguf_tokenizer

pytestmark = pytest.mark.llamacpp

DATA = Path(__file__).parent / "data"
STRINGS: list[str] = json.loads((DATA / "strings.json").read_text())
GOLDEN: list[dict[str, Any]] = json.loads((DATA / "tokenize.json").read_text())

CHILD = """
import os, sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.hostnames = sys.argv[1], [sys.argv[2]]
params.n_ctx, params.n_parallel, params.warmup, params.ui, params.verbosity = 256, 1, False, False, 0
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print("ready", flush=True)
sys.stdin.read()
os._exit(0)
"""


class Live(http.client.HTTPConnection):
    """A connection to the child's Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("llama", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)

    def ask(self, path: str, **body: object) -> Any:
        self.request("POST", path, json.dumps(body))
        return json.loads(self.getresponse().read())


@pytest.fixture(scope="module")
def live(starter_gguf: Path) -> Iterator[Live]:
    pytest.importorskip("xllamacpp")
    folder = tempfile.mkdtemp(prefix="dragoman")
    path = f"{folder}/llama.sock"
    command = [sys.executable, "-c", CHILD, str(starter_gguf), path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            assert child.stdout.readline().strip() == b"ready"
            connection = Live(path)
            yield connection
            connection.close()
        finally:
            child.stdin.close()
            child.wait(20)
            shutil.rmtree(folder)


@pytest.fixture(scope="module")
def ours(starter_gguf: Path) -> GgufTokenizer:
    return gguf_tokenizer(read_gguf(starter_gguf).vocabulary())


@pytest.mark.parametrize("parse_special", [True, False])
def test_ids_equal_llama_cpp(live: Live, ours: GgufTokenizer, parse_special: bool) -> None:
    assert len(STRINGS) > 300
    different = {}
    for text in STRINGS:
        theirs = live.ask("/tokenize", content=text, add_special=True, parse_special=parse_special)["tokens"]
        mine = ours.encode(text, add_special=True, parse_special=parse_special)
        if mine != theirs:
            different[text] = (mine, theirs)
    assert different == {}


def test_bytes_equal_llama_cpp(live: Live, ours: GgufTokenizer) -> None:
    for text in STRINGS:
        for token in live.ask("/tokenize", content=text, with_pieces=True)["tokens"]:
            piece = token["piece"]
            raw = piece.encode() if isinstance(piece, str) else bytes(piece)
            assert ours.token_bytes(token["id"]) == raw


def test_stop_tokens_equal_llama_cpp(live: Live, ours: GgufTokenizer) -> None:
    """`ignore_eos` makes it list every token that would end a generation."""
    answer = live.ask("/completion", prompt="a", n_predict=1, ignore_eos=True)
    theirs = {entry["token"] for entry in answer["generation_settings"]["logit_bias"]}
    assert ours.stop_tokens == theirs


def test_golden_ids(ours: GgufTokenizer) -> None:
    """The recorded exchanges of llama-server build 10622."""
    checked = 0
    for case in (case for case in GOLDEN if "tokens" in case):
        content = case["request"].get("content", [])
        pieces = content if isinstance(content, list) else [content]
        parse = case["request"].get("parse_special", True)
        mine = [
            token
            for piece in pieces
            for token in (
                [piece] if isinstance(piece, int) else ours.encode(piece, add_special=False, parse_special=parse)
            )
        ]
        assert mine == [token["id"] if isinstance(token, dict) else token for token in case["tokens"]]
        checked += 1
    assert checked == 4


def test_golden_texts(ours: GgufTokenizer) -> None:
    for case in (case for case in GOLDEN if "content" in case):
        raw = b"".join(ours.token_bytes(token) for token in case["request"].get("tokens", []))
        assert raw.decode() == case["content"]
