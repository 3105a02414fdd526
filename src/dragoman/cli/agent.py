"""`dragoman agent`: starts a coding agent against a server that runs. Knows no wire but the list of models.

Everything after the agent's name is the agent's; what we add are settings of its process.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from dragoman.cli.launch import AGENTS, KEY, Agent, Launch, Served
from dragoman.core.errors import AuthenticationFailed, DragomanError, InvalidField, NotFound, Unavailable

_PATIENCE = 10.0
_VALUED = ("--url", "--host", "--port", "--api-key", "--model")
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104  where a server binds, not we
_NOT_TAKEN_OVER = ("auth.json", "models.json")


def shielded(arguments: Sequence[str]) -> list[str]:
    """The words of a `dragoman` command line with `--` after the agent's name, so that what follows is left alone."""
    if arguments[:1] != ["agent"]:
        return list(arguments)
    at = 1
    while at < len(arguments) and arguments[at].startswith("-"):
        at += 2 if arguments[at] in _VALUED else 1
    rest = list(arguments[at + 1 :])
    return [*arguments[: at + 1], *(["--", *rest] if rest and "--" not in arguments[1:at] else rest)]


def server_url(url: str | None, host: str, port: int) -> str:
    """Where the server is, without a trailing slash or `/v1`. Raises InvalidField for what is no HTTP address."""
    if url is None:
        host = _ANYWHERE.get(host, host)
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    if not url.startswith(("http://", "https://")):
        raise InvalidField(f"'{url}' is no address of a server.", field="--url", remedy="It begins with http://.")
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def run_agent(name: str, arguments: Sequence[str], *, url: str, key: str, model: str | None, show: bool) -> int:
    """Start the agent and return its exit status, or, with `show`, print what would be started. Raises DragomanError:
    an unknown agent, one that is not installed, no server there, no model, a key that is missing or wrong."""
    agent = AGENTS.get(name)
    if agent is None:
        raise NotFound(f"There is no agent '{name}' here.", remedy=f"Known are {', '.join(AGENTS)}.")
    program = shutil.which(agent.program)
    if program is None and not show:
        raise NotFound(
            f"{agent.title} is not installed: there is no program '{agent.program}' in PATH.",
            remedy=f"Install it with: {agent.install}",
        )
    served = _offline(url, key, model) if show and model else find_model(url, key, model)
    launch = agent.launch(served, arguments)
    if show:
        print(shown(launch, served))
        return 0
    return _start(program or agent.program, launch, agent)


def _offline(url: str, key: str, model: str) -> Served:
    """What can be shown without the server; with it, the window is known too."""
    try:
        return find_model(url, key, model)
    except DragomanError:
        return Served(url=url, model=model, key=key)


def find_model(url: str, key: str, model: str | None) -> Served:
    """The model of that name, or the first one served; a server of one model answers to any name. Raises Unavailable
    where no server answers, AuthenticationFailed where the key is wrong, NotFound where nothing is served."""
    entries = _models(url, key)
    if not entries:
        raise NotFound(f"The server at {url} serves no model.")
    entry = next((entry for entry in entries if entry.get("id") == model), entries[0])
    window = entry.get("context_length") or entry.get("max_model_len")
    return Served(url=url, model=model or str(entry["id"]), key=key, window=window if isinstance(window, int) else 0)


def _models(url: str, key: str) -> list[dict[str, Any]]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    request = Request(f"{url}/v1/models", headers=headers)  # noqa: S310  server_url lets http and https pass only
    local = build_opener(ProxyHandler({}))  # a proxy in the environment is not for a server of this machine
    try:
        with local.open(request, timeout=_PATIENCE) as reply:
            body: Any = json.load(reply)
    except HTTPError as error:
        raise _refused(url, error.code) from error
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise Unavailable(f"No server answers at {url} ({reason}).", remedy="Start one with: dragoman serve") from error
    except ValueError as error:
        raise Unavailable(f"What answers at {url} is not a model server.", remedy="Say where with --url.") from error
    data: Any = cast("dict[str, Any]", body).get("data") if isinstance(body, dict) else None
    entries = cast("list[Any]", data) if isinstance(data, list) else []
    return [cast("dict[str, Any]", entry) for entry in entries if isinstance(entry, dict) and "id" in entry]


def _refused(url: str, status: int) -> DragomanError:
    if status in (401, 403):
        return AuthenticationFailed(f"The server at {url} asks for another key.", remedy="Give it with --api-key.")
    if status == 503:
        return Unavailable(f"The server at {url} is not ready.", remedy="Wait until its model is loaded.")
    return Unavailable(
        f"What answers at {url} has no list of models (status {status}).", remedy="Say where with --url."
    )


def shown(launch: Launch, served: Served) -> str:
    """The launch as lines of a shell. A key the user gave is not spelled out."""
    lines = [f"unset {' '.join(launch.unset)}"] if launch.unset else []
    if launch.folder:
        lines.append(f'export {launch.folder}="$(mktemp -d)"')
    for name, text in _texts(launch).items():
        lines.append(f"cat > \"${launch.folder}/{name}\" <<'END'\n{text}\nEND")
    for name, value in launch.env.items():
        secret = served.key and value == served.key
        if not secret:
            lines.append(f"export {name}={shlex.quote(value)}")
        elif name != KEY:
            lines.append(f'export {name}="${KEY}"')
    return "\n".join([*lines, shlex.join(launch.command)])


def _start(program: str, launch: Launch, agent: Agent) -> int:
    env = {name: value for name, value in os.environ.items() if name not in launch.unset} | launch.env
    with _folder(launch) as folder:
        if folder is not None:
            env[launch.folder] = str(folder)
        try:
            process = subprocess.Popen([program, *launch.command[1:]], env=env)  # noqa: S603  the user's own words
        except OSError as error:
            raise NotFound(f"{agent.title} cannot be started: {error.strerror or error}.") from error
        status = _waited(process)
    return 128 - status if status < 0 else status


def _waited(process: subprocess.Popen[bytes]) -> int:
    """The exit status. Ctrl-C is the agent's: it gets the signal as well and decides what it means."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


@contextmanager
def _folder(launch: Launch) -> Generator[Path | None]:
    """The temporary folder with the launch's files, removed afterwards; None for a launch without."""
    if not launch.folder:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="dragoman-agent-") as name:
        folder = Path(name)
        own = os.environ.get(launch.folder)
        template = Path(own) if own else launch.template
        if template is not None:
            _take_over(template.expanduser(), folder, launch.kept)
        for file, text in _texts(launch, folder).items():
            (folder / file).write_text(text, encoding="utf-8")
        yield folder


def _texts(launch: Launch, folder: Path | None = None) -> dict[str, str]:
    """The launch's files; its settings are laid under those that `folder` has already."""
    texts = dict(launch.files)
    for name, settings in launch.settings.items():
        own = _settings(folder / name) if folder is not None else {}
        if own is not None:
            texts[name] = json.dumps(_laid_under(own, settings), indent=2)
    return texts


def _settings(file: Path) -> dict[str, Any] | None:
    """{} for no file; None for one that holds no object, which is left to the agent to complain about."""
    try:
        found: object = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _laid_under(own: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    merged = {**settings, **own}
    for name, value in settings.items():
        inner: Any = own.get(name)
        if isinstance(inner, dict) and isinstance(value, dict):
            merged[name] = _laid_under(cast("dict[str, Any]", inner), cast("dict[str, Any]", value))
    return merged


def _take_over(template: Path, folder: Path, kept: tuple[str, ...]) -> None:
    """The user's own settings: files as copies, so that changes stay in the copy, and folders as links, so that
    sessions are found again."""
    for name in kept:
        (template / name).mkdir(parents=True, exist_ok=True)
    if not template.is_dir():
        return
    for entry in template.iterdir():
        if entry.is_dir():
            (folder / entry.name).symlink_to(entry.resolve(), target_is_directory=True)
        elif entry.is_file() and entry.name not in _NOT_TAKEN_OVER:
            shutil.copy2(entry, folder / entry.name)
