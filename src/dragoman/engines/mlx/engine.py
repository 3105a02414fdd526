"""The MLX engine behind seam 2: loads a model and steps its rows. Importable without MLX, which only `load` needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from dragoman.core.errors import EngineFailure, InvalidRequest
from dragoman.core.logprobs import TokenLogprobs
from dragoman.core.model import Capabilities
from dragoman.core.snapshot import Snapshot
from dragoman.engines.base import RowSpec, RowStep
from dragoman.sampling.breakers import BreakerResolver
from dragoman.sampling.check import check_sampling
from dragoman.sampling.vectors import HONOURED, HONOURED_WITH_BREAKERS

if TYPE_CHECKING:
    from dragoman.engines.mlx.facts import ModelFacts
    from dragoman.engines.mlx.runtime import Runtime

_UNKNOWN_CONTEXT = 8192


class MlxOptions(Struct, frozen=True, kw_only=True):
    """What to load and how. `path` is a checkpoint folder or a .gguf file; `context_length` in tokens, 0 for what
    the model was trained with; `lanes` rows decoded together at most; `dtype` as in the settings. `kv_bits` quantises
    the key-value cache (0: not), in groups of `kv_group_size`, from the time a row has `kv_start` tokens."""

    path: str
    context_length: int = 0
    lanes: int = 8
    dtype: Literal["auto", "float32", "bfloat16", "float16", "quantized"] = "auto"
    kv_bits: Literal[0, 4, 8] = 0
    kv_group_size: Literal[32, 64, 128] = 64
    kv_start: int = 0


class MlxEngine:
    """Implements `engines.base.Engine`. Every method must be called on the thread that called `load`. `breakers` finds
    the tokens of DRY's sequence breakers."""

    def __init__(self, options: MlxOptions, breakers: BreakerResolver | None = None) -> None:
        self._options = options
        self._breakers = breakers
        self._runtime: Runtime | None = None

    def load(self) -> None:
        """Load the model, run it once, and find out whether its rows can be decoded together."""
        try:
            import mlx.core  # noqa: F401  # pyright: ignore[reportUnusedImport]

            from dragoman.engines.mlx.packing import Packing
            from dragoman.engines.mlx.runtime import Runtime
        except ImportError as error:
            raise EngineFailure(
                f"The MLX engine is not installed: {error}.", remedy="Run pip install 'dragoman[mlx]'."
            ) from error
        options = self._options
        packing = Packing(options.kv_bits, options.kv_group_size, options.kv_start)
        self._runtime = Runtime(
            Path(options.path), options.dtype, options.lanes, self._context, packing, self._breakers
        )

    @property
    def capabilities(self) -> Capabilities:
        """Lanes are 1 for a model whose caches cannot be merged."""
        return Capabilities(
            sampling=HONOURED if self._breakers is None else HONOURED_WITH_BREAKERS,
            lanes=self._ready.lanes,
            logprobs=self._ready.vocab_size,
            prompt_logprobs=True,
        )

    @property
    def context_length(self) -> int:
        """The option, at most what the model was trained with."""
        return self._ready.context_length

    @property
    def build(self) -> str:
        """E.g. 'mlx 0.32.4 (cpu)'."""
        return self._ready.build

    @property
    def facts(self) -> ModelFacts:
        """Figures for the model card. Known after `load`."""
        return self._ready.facts

    def open(self, row: int, spec: RowSpec, snapshot: Snapshot | None = None, cached: int = 0) -> None:
        """Begin a row, with an empty cache or out of a snapshot. Raises InvalidRequest for ids the model does not have,
        EngineFailure for a snapshot that cannot give `cached` tokens of this prompt."""
        size = self._ready.vocab_size
        if not spec.prompt or min(spec.prompt) < 0 or max(spec.prompt) >= size:
            raise InvalidRequest(f"The prompt must be token ids between 0 and {size - 1}, at least one.")
        check_sampling(spec.sampling, size)
        self._ready.open(row, spec, snapshot, cached)

    def prefill(self, row: int, count: int) -> Sequence[TokenLogprobs]:
        """Run the model on the next `count` prompt tokens and wait for the cache."""
        return self._ready.prefill(row, count)

    def prefill_many(self, work: Sequence[tuple[int, int]]) -> list[Sequence[TokenLogprobs] | Exception]:
        """Rows whose caches can be padded share passes over the weights; the others follow one by one."""
        return self._ready.prefill_many(work)

    def snapshot(self, row: int) -> Snapshot | None:
        """The row's state after all it has been fed; None for caches of a class this engine does not know."""
        return self._ready.snapshot(row)

    @property
    def state_key(self) -> str:
        """The checkpoint by its name and figures, and the form of its caches."""
        options, facts = self._options, self._ready.facts
        form = f"{options.dtype} kv{options.kv_bits}/{options.kv_group_size}/{options.kv_start}"
        return f"mlx {Path(options.path).name} {facts.architecture} {facts.parameters} {facts.vocab_size} {form}"

    def write_state(self, snapshot: Snapshot, length: int, file: Path) -> None:
        """As safetensors."""
        self._ready.write_state(snapshot, length, file)

    def read_state(self, file: Path, length: int) -> Snapshot:
        """Its layers must be those of the model."""
        return self._ready.read_state(file, length)

    def row_bytes(self, length: int) -> int:
        """Measured at load: storage of growing layers, in the steps they grow by, with the fixed size of the others."""
        return self._ready.row_bytes(length)

    def step(self, rows: Sequence[int]) -> list[RowStep]:
        """One token for each row, in their order."""
        return self._ready.step(rows)

    def close(self, row: int) -> None:
        """Forget the row."""
        if self._runtime is not None:
            self._runtime.close(row)

    def unload(self) -> None:
        """Free the model and all rows."""
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            runtime.unload()

    def _context(self, trained: int) -> int:
        asked = self._options.context_length
        if trained <= 0:
            return asked or _UNKNOWN_CONTEXT
        return min(asked or trained, trained)

    @property
    def _ready(self) -> Runtime:
        if self._runtime is None:
            raise EngineFailure("The MLX engine has no model loaded.")
        return self._runtime
