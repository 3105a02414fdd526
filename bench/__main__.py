"""`make bench`: tables of ratios from one run, JSON and a plot beside them, and the speeds to reach."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.against_llamacpp import against_llamacpp
from bench.against_mlx import against_mlx_small, against_mlx_smollm2
from bench.blas import find_blas
from bench.grammar import constraint_cost
from bench.part import Options, Outcome
from bench.profile import cpu_profile
from bench.report import machine, save, speeds_to_reach, tables
from bench.serving import serving_layer

PARTS: Mapping[str, Callable[[Options], Outcome]] = {
    "serving": serving_layer,
    "profile": cpu_profile,
    "llamacpp": against_llamacpp,
    "grammar": constraint_cost,
    "mlx-small": against_mlx_small,
    "mlx-smollm2": against_mlx_smollm2,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the parts asked for, print and keep what they measured."""
    parts, options = read(arguments)
    whole, before = Outcome(), machine()
    for name in parts:
        print(f"\n== {name}", flush=True)
        outcome = PARTS[name](options)
        print(tables(outcome), flush=True)
        whole.add(outcome)
    print("\nSpeeds to reach (median of the ratios to the peer, or of our own figure)")
    print(speeds_to_reach(whole, full=set(parts) == set(PARTS)) or "none of them belongs to these parts")
    print("\nWritten:", ", ".join(os.path.relpath(path) for path in save(whole, options, before)))


def read(arguments: Sequence[str] | None) -> tuple[list[str], Options]:
    """Parts and options from the command line. Exits with usage for what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"which parts to run ({', '.join(PARTS)}); none: all")
    parser.add_argument("--rounds", type=_positive, help="rounds of each measurement; 3, or 2 when quick")
    parser.add_argument("--quick", action="store_true", help="small sizes: all parts in a few minutes")
    parser.add_argument("--blas", default="auto", help="a BLAS for MLX on a Linux CPU: path, auto or off")
    parser.add_argument("--model", type=Path, help="the starter model's GGUF file; none: the one in the store")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.parts if name not in PARTS]
    if unknown:
        parser.error(f"no part is named {', '.join(unknown)}; there are {', '.join(PARTS)}")
    blas = find_blas() if given.blas == "auto" else None if given.blas == "off" else given.blas
    rounds = given.rounds or (2 if given.quick else 3)
    return given.parts or list(PARTS), Options(rounds, given.quick, blas, given.model)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


if __name__ == "__main__":
    main()
