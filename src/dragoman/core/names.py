"""Names that clients give to models, with what each adds to the requests that use it, and models that clients bring.
Knows no wire and no file."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from msgspec import Struct, field

from dragoman.core.messages import Message
from dragoman.core.sampling import SamplingSpec


class NameSettings(Struct, frozen=True, kw_only=True):
    """What requests get that do not say it themselves. `messages` stand before the conversation, `template` is Go
    template text in place of the model's own."""

    sampling: SamplingSpec = SamplingSpec()
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    system: str = ""
    messages: tuple[Message, ...] = ()
    template: str = ""


class NamedModel(Struct, frozen=True, kw_only=True):
    """A name for the model `base`. `parameters` are its settings in the words of the wire that gave it, `license` is
    shown and otherwise of no consequence; `created` in Unix seconds. `owns` tells that the files of `base` came here
    under a name like this one, by a pull or an upload, and go with the last of them."""

    name: str
    base: str
    created: int = 0
    settings: NameSettings = NameSettings()
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])
    license: tuple[str, ...] = ()
    owns: bool = False


class NameSet(Struct, frozen=True, kw_only=True):
    """Give a name, in place of the one that exists. Without a `base` the model is made of `files`: uploaded blobs by
    digest (`sha256:` and hex), each with its file name. Settings that are empty are those of `base`, where that is a
    given name itself."""

    named: NamedModel
    files: tuple[tuple[str, str], ...] = ()


class NameCopy(Struct, frozen=True):
    """Give the model that `source` means a second name."""

    source: str
    target: str


class NameDelete(Struct, frozen=True):
    """Forget a name; the files of a model this server fetched or was sent go with its last one."""

    name: str


class NameDone(Struct, frozen=True):
    """It is done; `digest` identifies the model."""

    name: str
    digest: str = ""


class BlobLookup(Struct, frozen=True):
    """Whether a blob of this digest is here. NotFound says that it is not."""

    digest: str


class BlobPut(Struct, frozen=True):
    """Keep the uploaded file at `path` under its digest, which is checked."""

    digest: str
    path: str


class BlobDone(Struct, frozen=True):
    """The blob is here."""

    digest: str


class PullRequest(Struct, frozen=True):
    """Fetch a model to this machine. With `wait` the result is the last step, else all of them as they come."""

    name: str
    wait: bool = False


class PullStep(Struct, frozen=True, kw_only=True):
    """What a pull is doing. Sizes in bytes; `digest` (`sha256:` and hex) and `total` where they are known."""

    status: str
    digest: str = ""
    total: int = 0
    completed: int = 0


class PullSteps(Struct, frozen=True):
    """Steps up to the last, `success`; the generator raises what went wrong. It must be read or closed; closing it
    leaves the pull to itself."""

    steps: AsyncGenerator[PullStep]


NameRequest = NameSet | NameCopy | NameDelete | BlobLookup | BlobPut | PullRequest
NameResult = NameDone | BlobDone | PullStep | PullSteps


def plain_name(name: str) -> str:
    """A name as it is compared: case does not count, and `:latest` is what no tag means."""
    return name.strip().casefold().removesuffix(":latest")
