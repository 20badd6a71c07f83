# Two commands do everything on a fresh machine: `make bench` and `make test`. All others are conveniences.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
# Without a GPU, PyTorch's CPU builds are far smaller: make bench PIP_ARGS="--extra-index-url https://download.pytorch.org/whl/cpu"
PIP_ARGS ?=
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet $(PIP_ARGS)

.PHONY: help bench serve test coverage check format gpu soak model docs clean
help:  ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 10

$(BIN)/.engine: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing anaphora with its engine into $(VENV) (torch is large: this may take minutes)"
	@$(PIP) --editable '.[engine]' && touch $@

$(BIN)/.dev: $(BIN)/.engine
	@echo "installing the test tools"
	@$(PIP) --editable '.[engine,dev]' && touch $@

model: $(BIN)/.engine  ## fetch and convert the default model (once)
	@$(BIN)/anaphora fetch

bench: model  ## both prefix-caching experiments on our own engine, with a report
	@$(BIN)/anaphora bench all $(ARGS)

serve: model  ## the OpenAI-compatible server on 127.0.0.1:8000
	@$(BIN)/anaphora serve $(ARGS)

check: $(BIN)/.dev  ## lint, format and types
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

# Looking at every branch that is taken makes all code several times slower. So only the rooms that promise all of theirs are
# measured, in a run of their own: what their own tests do not take is missed. `make coverage` measures every room.
# The tests of one file share what they have started; those of the core start nothing and are dealt out one by one.
PYTEST := $(BIN)/python -m pytest -m "not soak" --numprocesses=auto --dist=loadfile
MEASURED := kvcache scheduler

test: check model  ## the whole check: ruff, mypy, pytest with all branches of the cache core
	@$(PYTEST) --dist=load $(MEASURED:%=tests/%) $(MEASURED:%=--cov=anaphora.%) --cov-report=term --cov-fail-under=100 $(ARGS)
	@$(PYTEST) $(MEASURED:%=--ignore=tests/%) $(ARGS)

coverage: $(BIN)/.dev model  ## all tests with every room's branches measured (slow); more in htmlcov/
	@$(PYTEST) --cov --cov-report=term --cov-report=html $(ARGS)

soak: $(BIN)/.dev model  ## the full matrices on the real model; results go to benchmarks/results/
	@$(BIN)/python -m pytest -m soak $(ARGS)

gpu: $(BIN)/.dev model  ## the tests that need a GPU
	@$(BIN)/python -m pytest -m gpu $(ARGS)

format: $(BIN)/.dev  ## let ruff fix and format
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

docs: $(BIN)/.dev  ## write the generated parts of the documentation
	@$(BIN)/python scripts/generate_docs.py

clean:  ## forget the environment
	rm -rf $(VENV)
