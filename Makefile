# What a developer does here. The same targets run in CI (.ci/run).

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Written after a complete install; older than pyproject.toml means: install again.
STAMP  := $(VENV)/.installed

CONTAINER_ENGINE ?= docker
IMAGE            ?= placement-service
# A process for each core; each has an API server of its own.
PYTEST_ARGS      ?= -n auto --maxprocesses 4

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(STAMP) ## Make .venv with everything installed, for development.

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

.PHONY: proto
proto: setup ## Generate the Python stubs from proto/.
	$(BIN)/python -m grpc_tools.protoc -I proto \
	  --python_out=clients/python --pyi_out=clients/python --grpc_python_out=clients/python \
	  $$(find proto -name '*.proto' | sort)

.PHONY: lint
lint: setup ## Check style, types, layers and protos.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/buf lint proto
	$(BIN)/buf format --diff --exit-code proto

.PHONY: test
test: setup ## Run the tests. PYTEST_ARGS='tests/cli -x' and the like narrow it down.
	$(BIN)/python -m pytest $(PYTEST_ARGS)

.PHONY: run
run: setup ## Plan an example and draw it.
	$(BIN)/placementctl plan -f examples/nvl72

.PHONY: bench
bench: setup ## Measure and compare with what is expected.
	$(BIN)/python -m bench

.PHONY: docs
docs: setup ## Renew the outputs that README.md and docs/ show.
	$(BIN)/python -m tests.docs

.PHONY: image
image: ## Build the container image.
	$(CONTAINER_ENGINE) build --tag $(IMAGE) .
