"""`make scoring`: lm-evaluation-harness, pinned, scores two small local tasks through /v1/completions with requests of
token ids, on the starter model with MLX. Every score it was given is computed again without a server. Installs into
.cache/scoring; asks no hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".cache" / "scoring"
TASKS = Path(__file__).parent / "scoring"
HARNESS = "lm_eval[api]==0.4.13"
TOLERANCE = 1e-3
"""Per token."""
TIMEOUT = 900

CHOICE = {
    "task": "dragoman_choice",
    "output_type": "multiple_choice",
    "doc_to_text": "{{question}}",
    "doc_to_choice": "{{choices}}",
    "doc_to_target": "answer",
    "metric_list": [{"metric": "acc"}],
}
GENERATE = {
    "task": "dragoman_generate",
    "output_type": "generate_until",
    "doc_to_text": "{{prompt}}",
    "doc_to_target": "answer",
    "generation_kwargs": {"until": ["\n"], "max_gen_toks": 3, "do_sample": False},
    "metric_list": [{"metric": "exact_match"}],
    "filter_list": [
        {
            "name": "first-word",
            "filter": [{"function": "regex", "regex_pattern": r"(\w+)"}, {"function": "take_first"}],
        }
    ],
}


def main() -> None:
    """Install, serve, score, compute again. Exit status 1 when a score differs or a task had no answer."""
    sys.path.insert(0, str(ROOT))
    from bench.servers import dragoman
    from bench.weights import smollm2_checkpoint

    program, gguf = _installed(), _starter()
    folder = smollm2_checkpoint(gguf, "packed")
    _write_tasks()
    with dragoman(str(gguf), "--engine", "mlx", "--ctx", "2048", "--ephemeral") as server:
        _harness(program, server.url, folder)
    _tell_results()
    scores = _samples("dragoman_choice")
    generated = [sample["filtered_resps"][0] for sample in _samples("dragoman_generate")]
    print(f"generated: {generated}")
    worst = _compare(scores, folder, gguf)
    raise SystemExit(not (scores and all(generated) and worst <= TOLERANCE))


def _installed() -> Path:
    program = HOME / "venv" / "bin" / "lm_eval"
    if not program.exists():
        python = HOME / "venv" / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(HOME / "venv")], check=True)
        uv = Path(sys.executable).with_name("uv")
        install = [str(uv), "pip", "install", "--quiet", "--python", str(python), HARNESS, "transformers"]
        subprocess.run([*install, "--constraint", str(ROOT / "constraints.txt")], check=True)
    return program


def _starter() -> Path:
    named = os.environ.get("DRAGOMAN_TEST_GGUF")
    if named:
        return Path(named)
    from dragoman.catalog.fetch import fetch_starter

    return fetch_starter()


def _write_tasks() -> None:
    folder = HOME / "tasks"
    folder.mkdir(parents=True, exist_ok=True)
    for task, data in ((CHOICE, "capitals.jsonl"), (GENERATE, "sequences.jsonl")):
        source = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(TASKS / data)}}}
        # JSON is YAML.
        (folder / f"{task['task']}.yaml").write_text(json.dumps({**task, **source, "test_split": "test"}))


def _harness(program: Path, url: str, tokenizer: Path) -> None:
    for old in (HOME / "out").rglob("*.json*"):
        old.unlink()
    model = {
        "model": "any",
        "base_url": f"{url}/v1/completions",
        "tokenizer_backend": "huggingface",
        "tokenizer": str(tokenizer),
        "tokenized_requests": "True",
        "num_concurrent": "1",
        "max_retries": "1",
    }
    command = [
        str(program), "run",
        "--model", "local-completions",
        "--model_args", ",".join(f"{name}={value}" for name, value in model.items()),
        "--tasks", "dragoman_choice,dragoman_generate",
        "--include_path", str(HOME / "tasks"),
        "--batch_size", "8",
        "--log_samples",
        "--output_path", str(HOME / "out"),
    ]  # fmt: skip
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(HOME / "datasets"), "TOKENIZERS_PARALLELISM": "false"}
    subprocess.run(command, env={**os.environ, **offline}, cwd=HOME, check=True, timeout=TIMEOUT)


def _tell_results() -> None:
    [found] = (HOME / "out").rglob("results_*.json")
    for task, metrics in json.loads(found.read_text())["results"].items():
        shown = {name: value for name, value in metrics.items() if isinstance(value, float) and "stderr" not in name}
        print(task, shown)


def _samples(task: str) -> list[dict[str, Any]]:
    [found] = (HOME / "out").rglob(f"samples_{task}_*.jsonl")
    return [json.loads(line) for line in found.read_text().splitlines()]


def _compare(samples: list[dict[str, Any]], folder: Path, gguf: Path) -> float:
    """The largest difference per token between a score the harness has and the same computed without a server."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    contexts: list[int] = []
    prompts: list[list[int]] = []
    given: list[float] = []
    for sample in samples:
        for number, response in enumerate(sample["resps"]):
            asked = sample["arguments"][f"gen_args_{number}"]
            contexts.append(len(tokenizer.encode(asked["arg_0"]).ids))
            prompts.append(tokenizer.encode(asked["arg_0"] + asked["arg_1"]).ids)
            given.append(float(response[0][0]))
    command = [sys.executable, "-m", "tests.sdk.direct", str(gguf)]
    told = subprocess.run(command, input=json.dumps(prompts), stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    worst = 0.0
    for context, score, computed in zip(contexts, given, json.loads(told.stdout), strict=True):
        part = computed[context - 1 :]
        worst = max(worst, abs(score - sum(part)) / len(part))
    print(f"{len(given)} scores computed again: they differ by {worst:.2g} per token at most")
    return worst


if __name__ == "__main__":
    main()
