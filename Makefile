# Every target sets up what it needs in .venv from a bare python3 and prints what it does.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt
# What `make serve` installs: llama.cpp everywhere, MLX where it is the faster engine.
ENGINES := $(if $(filter Darwin-arm64,$(shell uname -sm | tr ' ' -)),llamacpp$(,)mlx,llamacpp)
, := ,
MODEL ?=
ARGS ?=

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 16

$(VENV)/bin/uv:
	@echo "== Creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv

$(VENV)/.serve-ready: $(VENV)/bin/uv pyproject.toml constraints.txt
	@echo "== Installing dragoman with its engines ($(ENGINES))"
	@$(UV) --editable '.[$(ENGINES)]'
	@touch $@

$(VENV)/.dev-ready: $(VENV)/bin/uv pyproject.toml constraints.txt
	@echo "== Installing dragoman with all engines and the development tools"
	@$(UV) --editable '.[llamacpp,mlx]' --group dev
	@touch $@ $(VENV)/.serve-ready

$(VENV)/.bench-ready: $(VENV)/.dev-ready
	@echo "== Installing the bench's plotting and profiling tools"
	@$(UV) --group bench
	@touch $@

.PHONY: serve
serve: $(VENV)/.serve-ready ## Set up and serve the starter model, or MODEL=… with ARGS='…'
	@echo "== Starting the server"
	@exec $(BIN)/dragoman serve $(MODEL) $(ARGS)

.PHONY: test
test: $(VENV)/.dev-ready ## Set up and run the test suite
	@echo "== Running the test suite"
	@$(BIN)/pytest -q $(ARGS)

.PHONY: long
long: $(VENV)/.dev-ready ## Run the tests that take minutes each
	@echo "== Running the long tests"
	@$(BIN)/pytest -q -m long $(ARGS)

.PHONY: check
check: $(VENV)/.dev-ready ## Lint, types, import contracts
	@echo "== ruff" && $(BIN)/ruff check . && $(BIN)/ruff format --check --quiet .
	@echo "== pyright" && $(BIN)/pyright
	@echo "== import contracts" && $(BIN)/lint-imports

.PHONY: bench
bench: $(VENV)/.bench-ready ## Measure: ratios from one run, as a table
	@echo "== Measuring"
	@$(BIN)/python -m bench $(ARGS)

.PHONY: soak
soak: $(VENV)/.dev-ready ## Half an hour of streams with random departures (ARGS='--minutes 5')
	@echo "== Soaking"
	@$(BIN)/python -m bench.soak $(ARGS)

.PHONY: docs
docs: $(VENV)/.dev-ready ## Write the generated parts of docs/
	@echo "== Writing docs/cli.md and docs/llama-server.md"
	@$(BIN)/python -m tools.write_docs

.PHONY: agents
agents: $(VENV)/.dev-ready ## Run real coding agents against the scripted engine (needs npm; ARGS='--model NAME' measures caching)
	@echo "== Running agents"
	@$(BIN)/python -m tools.agents $(ARGS)

.PHONY: sdks
sdks: $(VENV)/.dev-ready ## Run other SDKs, JavaScript's and an old Python one, against all engines (needs npm)
	@echo "== Running SDKs"
	@$(BIN)/python -m tools.run_sdks $(ARGS)

.PHONY: fuzz
fuzz: $(VENV)/.dev-ready ## Random bodies to this server and to llama.cpp's own (ARGS='MODEL.gguf --against llama-server')
	@echo "== Fuzzing llama-server's routes"
	@$(BIN)/python -m tools.fuzz_native $(ARGS)

.PHONY: fuzz-api
fuzz-api: $(VENV)/.dev-ready ## Ask the server all its OpenAPI document allows (ARGS='--examples 40')
	@echo "== Fuzzing by the OpenAPI document"
	@$(BIN)/python -m tools.run_fuzz $(ARGS)

.PHONY: scoring
scoring: $(VENV)/.dev-ready ## Score two small tasks with lm-evaluation-harness and compute the scores again
	@echo "== Scoring"
	@$(BIN)/python -m tools.run_scoring $(ARGS)

.PHONY: frameworks
frameworks: $(VENV)/.dev-ready ## Run agent frameworks against the starter model
	@echo "== Running frameworks"
	@$(BIN)/python -m tools.run_frameworks $(ARGS)

.PHONY: lock
lock: $(VENV)/bin/uv ## Pin all dependencies anew in constraints.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --group dev --group bench \
		--no-header --no-annotate --no-emit-index-url --no-emit-find-links --upgrade pyproject.toml --output-file constraints.txt

.PHONY: clean
clean: ## Remove everything the other targets made
	rm -rf $(VENV) .cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist
