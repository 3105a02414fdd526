"""Three ways to get a llama.cpp server that answers: our child, a binary, a URL. Knows how to start and stop each,
nothing of requests or restarts."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from dragoman.backend.llamacpp.address import Address
from dragoman.backend.llamacpp.arguments import engine_flags, lora_flags
from dragoman.backend.llamacpp.client import Client, ConnectionLost
from dragoman.backend.llamacpp.endpoint import Endpoint, parse_url
from dragoman.backend.llamacpp.engine import ProcessEngine, RemoteEngine, RunningEngine, because, healthy
from dragoman.backend.llamacpp.flags import Setting, settings_of
from dragoman.backend.llamacpp.logtail import LogTail
from dragoman.backend.llamacpp.options import LlamaCppOptions
from dragoman.backend.llamacpp.parameters import ChildParameters, ChildReady
from dragoman.backend.llamacpp.process import EngineProcess
from dragoman.backend.llamacpp.threads import usable_cores
from dragoman.core.errors import EngineFailure

_MOST_PROMPT_CACHE_MIB = 8192


class Launcher(Protocol):
    """Gets an engine running. `patient` tells that it is not ours to start: restarts are tried for ever."""

    patient: bool

    async def launch(self) -> RunningEngine:
        """Returns once it answers. Raises EngineFailure with a clear sentence."""
        ...


def launcher_of(options: LlamaCppOptions, log: LogTail) -> Launcher:
    """The launcher these options ask for."""
    if options.llama_server is None:
        return ChildLauncher(options, log)
    if options.remote:
        return RemoteLauncher(options)
    return BinaryLauncher(options, log)


class ChildLauncher:
    """Runs `child` in this interpreter."""

    patient = False

    def __init__(self, options: LlamaCppOptions, log: LogTail) -> None:
        self._options = options
        self._log = log

    async def launch(self) -> RunningEngine:
        """Returns once the model is loaded."""
        settings = settings_of(engine_flags(self._options))
        address = _address(reserve=False)
        process: EngineProcess | None = None
        try:
            process = await self._spawn(address, settings)
            ready = await self._ready(process)
            endpoint = address.endpoint(ready.port)
        except BaseException:
            await _discard(process, address)
            raise
        return ProcessEngine(process, address, endpoint, self._log, self._options, ready.build)

    async def _spawn(self, address: Address, settings: tuple[Setting, ...]) -> EngineProcess:
        self._log.begin()
        options = self._options
        parameters = ChildParameters(
            model=options.model,
            socket=address.socket,
            api_key=address.api_key,
            context=options.context * options.lanes,
            lanes=options.lanes,
            threads=options.threads or usable_cores(),
            batch=options.batch,
            ubatch=options.ubatch,
            prompt_cache_mib=_prompt_cache(options),
            slot_folder=options.slot_folder,
            settings=settings,
            adapters=tuple((adapter.path, adapter.scale) for adapter in options.adapters),
            parent=os.getpid(),
        )
        # -P: a file named like a standard module in the working directory must not be imported.
        command = (sys.executable, "-P", "-m", "dragoman.backend.llamacpp.child")
        return await _spawned(command, self._log, first_input=msgspec.json.encode(parameters) + b"\n")

    async def _ready(self, process: EngineProcess) -> ChildReady:
        try:
            async with asyncio.timeout(self._options.load_timeout):
                line = await process.first_line()
                if not line:
                    await process.wait()
        except TimeoutError as error:
            raise _too_slow(self._options) from error
        if not line:
            raise _not_loaded(self._options, f"its process {process.ending()}{because(self._log.reason())}")
        try:
            ready = msgspec.json.decode(line, type=ChildReady)
        except msgspec.MsgspecError as error:
            raise EngineFailure("The llama.cpp process said something that cannot be read.") from error
        if ready.missing:
            raise EngineFailure(
                "The llama.cpp engine is not installed.", remedy="Install it: pip install 'dragoman[llamacpp]'."
            )
        if ready.error:
            await process.wait()
            raise _not_loaded(self._options, self._log.reason() or ready.error.rstrip("."))
        return ready


class BinaryLauncher:
    """Runs a llama-server binary under `guard`."""

    patient = False

    def __init__(self, options: LlamaCppOptions, log: LogTail) -> None:
        self._options = options
        self._log = log

    async def launch(self) -> RunningEngine:
        """Returns once /health says so."""
        binary = shutil.which(self._options.llama_server or "")
        if binary is None:
            raise EngineFailure(f"There is no program '{self._options.llama_server}' that can be run.")
        flags = (*engine_flags(self._options), *lora_flags(self._options.adapters))
        address = _address(reserve=True)
        process: EngineProcess | None = None
        try:
            process = await self._spawn((binary, *self._arguments(address), *flags), address)
            await self._ready(process, address.endpoint())
        except BaseException:
            await _discard(process, address)
            raise
        return ProcessEngine(process, address, address.endpoint(), self._log, self._options)

    async def _spawn(self, program: Sequence[str], address: Address) -> EngineProcess:
        self._log.begin()
        command = (sys.executable, "-P", "-m", "dragoman.backend.llamacpp.guard", *program)
        # The key goes through the environment: everyone may read a command line.
        key = {"LLAMA_API_KEY": address.api_key} if address.api_key else None
        process = await _spawned(command, self._log, extra_env=key)
        process.log_output()
        return process

    def _arguments(self, address: Address) -> tuple[str, ...]:
        options = self._options
        numbers = {
            "-c": options.context * options.lanes,
            "-np": options.lanes,
            "-t": options.threads or usable_cores(),
            "-b": options.batch,
            "-ub": options.ubatch,
        }
        flags = [word for flag, number in numbers.items() for word in (flag, str(number))]
        host = ("--host", address.socket) if address.socket else ("--host", "127.0.0.1", "--port", str(address.port))
        saving = ("--slot-save-path", options.slot_folder, "--cache-ram", "0") if options.slot_folder else ()
        return ("-m", options.model, *flags, *host, *saving, "--no-ui")

    async def _ready(self, process: EngineProcess, endpoint: Endpoint) -> None:
        ended = asyncio.create_task(process.wait())
        healthy = asyncio.create_task(_healthy(Client(endpoint)))
        try:
            await asyncio.wait(
                (ended, healthy), timeout=self._options.load_timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if healthy.done():
                return
            if ended.done():
                raise _not_loaded(self._options, f"its process {process.ending()}{because(self._log.reason())}")
            raise _too_slow(self._options)
        finally:
            for task in (ended, healthy):
                task.cancel()
            await asyncio.gather(ended, healthy, return_exceptions=True)


class RemoteLauncher:
    """Waits for a server at a URL. `interval` seconds between health checks."""

    patient = True

    def __init__(self, options: LlamaCppOptions, interval: float = 5.0) -> None:
        self._options = options
        self._interval = interval

    async def launch(self) -> RunningEngine:
        """Returns once /health says so. A server that cannot be reached at all is a failure; one that loads is
        waited for."""
        _refuse_settings(self._options)
        endpoint = parse_url(self._options.llama_server or "", self._options.api_key)
        try:
            await Client(endpoint).request("GET", "/health", patience=10)
            async with asyncio.timeout(self._options.load_timeout):
                await _healthy(Client(endpoint))
        except ConnectionLost as error:
            raise EngineFailure(f"The llama-server at {endpoint.host} cannot be used. {error}") from error
        except TimeoutError as error:
            raise _too_slow(self._options) from error
        return RemoteEngine(endpoint, self._interval)


def _refuse_settings(options: LlamaCppOptions) -> None:
    given = (*engine_flags(options), *(f"--adapter {adapter.name}" for adapter in options.adapters))
    if given:
        raise EngineFailure(
            f"A llama-server that runs already cannot be given {given[0]}.", remedy="Start it with what it needs."
        )


def _address(*, reserve: bool) -> Address:
    try:
        return Address(reserve=reserve)
    except OSError as error:
        raise EngineFailure(f"There is no place for the engine to listen: {error.strerror}.") from error


async def _spawned(
    command: Sequence[str], log: LogTail, *, first_input: bytes = b"", extra_env: Mapping[str, str] | None = None
) -> EngineProcess:
    try:
        return await EngineProcess.spawn(command, log, first_input=first_input, extra_env=extra_env)
    except OSError as error:
        raise EngineFailure(f"The llama.cpp process cannot be started: {error.strerror}.") from error


async def _discard(process: EngineProcess | None, address: Address) -> None:
    try:
        if process is not None:
            await process.stop(grace=1.0)
    finally:
        address.remove()


async def _healthy(client: Client) -> None:
    """Ask every 50 ms, less often as time goes by."""
    pause = 0.05
    while not await healthy(client):
        await asyncio.sleep(pause)
        pause = min(1.0, pause * 1.2)


def _not_loaded(options: LlamaCppOptions, why: str) -> EngineFailure:
    return EngineFailure(f"llama.cpp could not load '{Path(options.model).name}': {why}.")


def _too_slow(options: LlamaCppOptions) -> EngineFailure:
    return EngineFailure(f"llama.cpp was not ready within {options.load_timeout:g} seconds.")


def _prompt_cache(options: LlamaCppOptions) -> int:
    if options.adapters:
        return 0  # llama.cpp's prompt cache does not tell the adapters apart that its states were made with.
    if options.prompt_cache_mib is not None:
        return options.prompt_cache_mib
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 20)
    except (AttributeError, ValueError, OSError):
        return _MOST_PROMPT_CACHE_MIB // 4
    return min(_MOST_PROMPT_CACHE_MIB, memory // 4)
