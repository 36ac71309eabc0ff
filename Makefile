# What a developer does here. The same targets run in CI (.ci/run).

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Written after a complete install; older than pyproject.toml means: install again.
STAMP  := $(VENV)/.installed

CONTAINER_ENGINE ?= docker
IMAGE            ?= placement-service
# Three processes, for tests often wait; each has an API server of its own, and begins with a third
# of the tests: what a module sets up is set up once, and tests that wait run beside those that
# compute. A test that a stalled machine made fail is run once more, and the summary says so.
PYTEST_ARGS      ?= -n 3 --dist worksteal --reruns 1 -r aR

GO         ?= go
GO_MODULES := $(filter-out clients/go/tools/,$(dir $(wildcard clients/go/*/go.mod)))
GO_TOOLS   := $(abspath clients/go/tools/go.mod)

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(STAMP) ## Make .venv with everything installed, for development.

$(STAMP): pyproject.toml requirements/dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header

.PHONY: lock
lock: ## Renew requirements/ after a change of pyproject.toml; LOCK_ARGS=--upgrade for all.
	test -x $(BIN)/uv || { test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); $(BIN)/python -m pip install --quiet uv; }
	$(LOCK) $(LOCK_ARGS) pyproject.toml --extra dev --extra tracing -o requirements/dev.txt
	$(LOCK) $(LOCK_ARGS) pyproject.toml --extra tracing -c requirements/dev.txt -o requirements/service.txt
	echo hatchling | $(LOCK) $(LOCK_ARGS) - -c requirements/dev.txt -o requirements/build.txt

.PHONY: proto
proto: setup ## Generate the stubs of Python and Go from proto/.
	$(BIN)/python -m grpc_tools.protoc -I proto \
	  --python_out=clients/python --pyi_out=clients/python --grpc_python_out=clients/python \
	  $$(find proto -name '*.proto' | sort)
	@if command -v $(GO) >/dev/null; \
	then set -x; $(BIN)/buf generate proto --template proto/buf.gen.yaml; \
	else echo 'The Go stubs stay as they are: there is no Go here.'; fi

.PHONY: released
released: setup ## At a release: what the API promises from now on (proto/released.binpb).
	$(BIN)/buf build proto --exclude-source-info -o proto/released.binpb

.PHONY: sbom
sbom: setup ## Write what the image installs, by name, version and hash, to dist/sbom.cdx.json.
	@mkdir -p dist
	$(BIN)/python requirements/sbom.py > dist/sbom.cdx.json

.PHONY: lint
lint: setup ## Check style, types, layers, protos and the Dockerfile.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/buf lint proto
	$(BIN)/buf format --diff --exit-code proto
	$(BIN)/buf breaking proto --against proto/released.binpb
	$(BIN)/hadolint Dockerfile

.PHONY: test
# Tests start hundreds of programs, which would all compile the same modules.
test: export PYTHONDONTWRITEBYTECODE =
test: setup ## Run the tests. PYTEST_ARGS='tests/cli -x' and the like narrow it down.
	$(BIN)/python -m pytest $(PYTEST_ARGS)

.PHONY: go
go: setup ## Vet, lint and test the Go modules, the client against the service.
	@command -v $(GO) >/dev/null || { echo 'Skipped: there is no Go here.'; exit 0; }; \
	for module in $(GO_MODULES); do \
	  echo "$$module"; \
	  (cd $$module && $(GO) vet ./... && $(GO) tool -modfile=$(GO_TOOLS) staticcheck ./... && \
	   PLACEMENT_PYTHON=$(abspath $(BIN))/python $(GO) test ./...) || exit 1; \
	done

.PHONY: go-modules
go-modules: setup ## Write the Go modules to dist/goproxy, a module proxy in a folder.
	$(BIN)/python clients/go/publish.py dist/goproxy

.PHONY: scheduler
scheduler: setup ## Build a kube-scheduler with the plugin, once, for the tests that need it.
	@command -v $(GO) >/dev/null || { echo 'Skipped: there is no Go here.'; exit 0; }; \
	$(BIN)/python -m tests.kube_scheduler.program

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
image: ## Build the container image; PYTHON_IMAGE names another one to stand on.
	$(CONTAINER_ENGINE) build $(if $(PYTHON_IMAGE),--build-arg PYTHON=$(PYTHON_IMAGE)) --tag $(IMAGE) .
