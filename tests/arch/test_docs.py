"""The documents tell the truth about the tree."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

from tools.write_docs import page

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "dragoman"


def _packages() -> set[str]:
    return {folder.name for folder in SRC.iterdir() if (folder / "__init__.py").is_file()}


def test_structures_names_every_package_and_no_other() -> None:
    text = (ROOT / "docs/structures.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `(\w+)/` \|", text, flags=re.MULTILINE))
    assert named == _packages()


def test_dialects_doc_names_every_dialect() -> None:
    text = (ROOT / "docs/dialects.md").read_text(encoding="utf-8")
    for folder in (SRC / "dialects").iterdir():
        if (folder / "endpoints.py").is_file():
            assert f"`{folder.name}`" in text, folder.name


def test_every_dependency_has_its_line() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = list(project["project"]["dependencies"])
    wanted += [line for group in project["project"]["optional-dependencies"].values() for line in group]
    wanted += [line for group in project["dependency-groups"].values() for line in group]
    text = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([\w.-]+)` \|", text, flags=re.MULTILINE))
    assert {re.split(r"[\[<>=; ]", line)[0] for line in wanted} == named


def test_no_machine_paths_or_registry_hosts_are_tracked() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    hosts = "|".join(("pypi" + r"\.org", "files" + r"\.pythonhosted", "registry" + r"\.npmjs"))
    unwanted = re.compile(rf"(^|[^A-Za-z0-9.])/(work|root|farm)/|{hosts}")
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if path.suffix in {".png", ".gguf", ".wav"} or not path.is_file() or path == Path(__file__):
            continue
        assert not unwanted.search(path.read_text(encoding="utf-8", errors="replace")), name


def test_cli_page_is_current() -> None:
    assert (ROOT / "docs/cli.md").read_text(encoding="utf-8") == page()
