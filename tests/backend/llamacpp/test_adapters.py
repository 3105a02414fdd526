"""Which adapters a request gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.backend.llamacpp.adapters import Adapter, Mounted, parse_adapter, read_adapters, require_adapters
from dragoman.core.adapters import AdapterScale
from dragoman.core.errors import EngineFailure, InvalidField

TWO = Mounted((Adapter("a", "a.gguf"), Adapter("b", "b.gguf", 0.0)))


@pytest.mark.parametrize(
    ("text", "adapter"),
    [
        ("sql=/x/lora.gguf", Adapter("sql", "/x/lora.gguf", 1.0)),
        ("sql=/x/lora.gguf:0.25", Adapter("sql", "/x/lora.gguf", 0.25)),
        ("/x/lora.gguf", Adapter("lora", "/x/lora.gguf", 1.0)),
        ("lora.gguf:-2", Adapter("lora", "lora.gguf", -2.0)),
        (r"sql=C:\x\lora.gguf", Adapter("sql", r"C:\x\lora.gguf", 1.0)),
        ("a=b=c.gguf", Adapter("a", "b=c.gguf", 1.0)),
    ],
)
def test_parse(text: str, adapter: Adapter) -> None:
    assert parse_adapter(text) == adapter


@pytest.mark.parametrize("text", ["", "=x", "a=", "a=x:nan", "a=x:inf"])
def test_nonsense(text: str) -> None:
    with pytest.raises(EngineFailure, match="NAME=PATH"):
        parse_adapter(text)


def test_files_and_names_are_required(tmp_path: Path) -> None:
    file = tmp_path / "a.gguf"
    file.touch()
    require_adapters([Adapter("a", str(file)), Adapter("b", str(file))])
    with pytest.raises(EngineFailure, match="Two adapters are named 'a'"):
        require_adapters([Adapter("a", str(file)), Adapter("a", str(file))])
    with pytest.raises(EngineFailure, match=r"no file .*gone\.gguf"):
        require_adapters([Adapter("a", str(tmp_path / "gone.gguf"))])


def test_scales_on_the_wire() -> None:
    def sent(*wanted: AdapterScale) -> list[tuple[int, float]]:
        return [(entry["id"], entry["scale"]) for entry in TWO.native(wanted)["lora"]]

    assert [entry["scale"] for entry in TWO.native(None)["lora"]] == [1.0, 0.0]
    assert sent(AdapterScale("b", 0.5)) == [(0, 0.0), (1, 0.5)]
    assert sent(AdapterScale("b", 0.5), AdapterScale("a", 2.0)) == [(0, 2.0), (1, 0.5)]
    nothing = sent()
    assert nothing[1] == (1, 0.0)
    assert 0 < nothing[0][1] < 1e-20, "all left out would not clear the slot"
    assert Mounted().native(None) == {}
    assert Mounted().native(()) == {}


def test_namespaces() -> None:
    names = {
        TWO.namespace(None),
        TWO.namespace(()),
        TWO.namespace([AdapterScale("a", 0.5)]),
        TWO.namespace([AdapterScale("b")]),
        TWO.namespace([AdapterScale("a"), AdapterScale("b")]),
    }
    assert len(names) == 5
    assert TWO.namespace(()) == Mounted().namespace(None) == ""
    assert TWO.namespace(None) == TWO.namespace([AdapterScale("a", 1.0)])
    assert TWO.namespace([AdapterScale("b", 2.0), AdapterScale("a")]) == TWO.namespace(
        [AdapterScale("a"), AdapterScale("b", 2.0)]
    )


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ([AdapterScale("c")], "'c' is not mounted; mounted are a, b"),
        ([AdapterScale("a"), AdapterScale("a", 0.5)], "named twice"),
        ([AdapterScale("a", float("nan"))], "not a finite number"),
    ],
)
def test_refusals(wanted: list[AdapterScale], words: str) -> None:
    for ask in (TWO.scales, TWO.native, TWO.namespace):
        with pytest.raises(InvalidField, match=words) as caught:
            ask(wanted)
        assert caught.value.field == "adapters"
    with pytest.raises(InvalidField, match="no adapters are"):
        Mounted().native([AdapterScale("a")])


def test_those_of_a_running_server() -> None:
    told = b'[{"id":0,"path":"/x/sql.gguf","scale":0.5,"task_name":""}]'
    assert read_adapters(told) == (Adapter("sql", "/x/sql.gguf", 0.5),)
    with pytest.raises(EngineFailure):
        read_adapters(b"{}")
