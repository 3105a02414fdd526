from __future__ import annotations

from pathlib import Path

from dragoman.stores.instance import Instance


def taken(root: Path) -> Instance:
    made = Instance(root)
    made.take()
    return made


def test_the_living_are_left_alone(tmp_path: Path) -> None:
    one, two = taken(tmp_path), taken(tmp_path)
    (one.incoming / "half").write_bytes(b"x")
    three = taken(tmp_path)
    assert three.alive(one.id)
    assert three.alive(two.id)
    assert three.alive(three.id)
    assert (one.incoming / "half").exists()
    for instance in (one, two, three):
        instance.release()
        instance.release()
    assert list((tmp_path / "servers").iterdir()) == []


def test_the_dead_are_cleared_away(tmp_path: Path) -> None:
    folder = tmp_path / "servers"
    (folder / "sdead").mkdir(parents=True)
    (folder / "sdead" / "half").write_bytes(b"x")
    (folder / "sdead.lock").touch()
    instance = taken(tmp_path)
    assert not instance.alive("sdead")
    assert not instance.alive("")
    assert not instance.alive("never")
    assert sorted(path.name for path in folder.iterdir()) == sorted([instance.id, f"{instance.id}.lock"])
    instance.release()
