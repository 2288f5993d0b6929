# Allotment: everything sets itself up on a machine with python3 and make. `make help` lists the targets.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Two steps: what it takes to run, and what it takes to develop besides.
RUNS   := $(VENV)/.runs
READY  := $(VENV)/.ready

# Programs built from other people's source live outside the checkout, one folder a version.
CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/allotment

# Tests start some hundred processes, which should not compile everything anew where the environment says to keep nothing.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv lock demo test soak check format docs bench upstream differential kubernetes test-kubernetes schemas manifests clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

venv: $(READY) ## make the virtual environment in .venv

# Without one of the two files the environment is half made: `make` was interrupted. So it is when its Python or pip is gone.
ifneq ($(shell $(BIN)/python -c 'import pip, allotment' 2>/dev/null && echo works),works)
$(shell rm -f $(RUNS) $(READY))
endif

# Other people's packages come first, each compared with its hashes; then ours, from this folder. The list is complete: without
# --no-deps, pip would ask for the newest version of a package with extras (httpx2[http2]) and refuse it for want of a hash.
define INSTALL
	@echo "setting up $(VENV) ..."
	@test -e $(RUNS) || { rm -rf $(VENV) && $(PYTHON) -m venv $(VENV); }
	@rm -f $(RUNS) $(READY)
	@$(1) constraints.txt >$(VENV)/requirements.txt
	@$(PIP) install --no-deps --require-hashes -r $(VENV)/requirements.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@$(PIP) check
endef
PIP = $(BIN)/python -m pip --quiet --disable-pip-version-check

$(RUNS): pyproject.toml constraints.txt
	$(call INSTALL,sed -n '/To develop besides/q;p')
	@touch $@

$(READY): pyproject.toml constraints.txt
	$(call INSTALL,cat)
	@touch $(RUNS) $@

lock: $(READY) ## write constraints.txt anew after a change in pyproject.toml (UPGRADE=1: with the newest versions)
	@$(BIN)/python tools/lock.py $(if $(UPGRADE),--upgrade)

demo: $(RUNS) ## a simulated fleet, workloads that arrive, who gets what, and why one does not fit (seconds)
	@$(BIN)/allot demo

test: $(READY) ## run the tests (under five minutes)
	@$(BIN)/pytest -rsfE -n auto --dist worksteal -m "not soak and not upstream and not kubernetes"

test-kubernetes: $(READY) kubernetes ## run the contract tests and kubectl's on the real Kubernetes too
	@$(BIN)/pytest -rsfE -m kubernetes

soak: $(READY) ## long random runs, and every random test with its full number of examples
	@$(BIN)/pytest -rsfE -n auto --dist worksteal --hypothesis-profile thorough -m "(soak or hypothesis) and not upstream and not kubernetes"

check: $(READY) ## formatting, lint, types, the import contracts between layers, and the docs: their links and the command reference
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python tools/command_reference.py --check
	@$(BIN)/mkdocs build --strict --clean

docs: $(READY) ## write the reference of all commands anew and build the site from docs/ into site/
	@$(BIN)/python tools/command_reference.py
	@$(BIN)/mkdocs build --strict --clean
	@echo "site/index.html"

format: $(READY) ## format and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

# The Go program over Kubernetes' own allocator: a new version or a changed source gets a folder of its own.
UPSTREAM_SOURCES := $(sort $(wildcard tests/upstream/*.go)) tests/upstream/go.mod tests/upstream/go.sum
UPSTREAM_VERSION  = $(shell sed -n 's|.*k8s.io/dynamic-resource-allocation v||p' tests/upstream/go.mod)
UPSTREAM          = $(abspath $(CACHE))/upstream-$(UPSTREAM_VERSION)-$(shell cat $(UPSTREAM_SOURCES) | cksum | cut -d' ' -f1)/upstream

upstream: ## build the real Kubernetes allocator, which the differential test and the benchmarks compare with
	@command -v go >/dev/null || { echo "make upstream needs Go $$(sed -n 's/^go //p' tests/upstream/go.mod) or newer: install it from https://go.dev/dl/ and put it on the PATH"; exit 1; }
	@mkdir -p $(dir $(UPSTREAM))
	@test -x $(UPSTREAM) || go build -C tests/upstream -trimpath -o $(UPSTREAM) .
	@echo $(UPSTREAM)

bench: $(READY) ## measure allocator, API server, scheduler, usage and autoscaler, with upstream's beside them where they are built
	@command -v go >/dev/null && $(MAKE) -s upstream >/dev/null || echo "no Go here: the upstream column stays empty"
	@$(BIN)/python benchmarks/allocator.py --json bench-results/allocator.json
	@$(BIN)/python benchmarks/apiserver.py --json bench-results/apiserver.json
	@$(BIN)/python benchmarks/writes.py --json bench-results/writes.json
	@$(BIN)/python benchmarks/scheduler.py --json bench-results/scheduler.json
	@$(BIN)/python benchmarks/visibility.py --json bench-results/visibility.json
	@$(BIN)/python benchmarks/dashboard.py --json bench-results/dashboard.json
	@$(BIN)/python benchmarks/autoscaler.py --json bench-results/autoscaler.json

.PHONY: upstream-path
upstream-path: # where `make upstream` puts the program
	@echo $(UPSTREAM)

differential: $(READY) upstream ## compare our answers with the real allocator's on random problems
	@$(BIN)/pytest -rsfE --hypothesis-profile thorough -m upstream

# The real control plane, for the contract tests: from KUBEBUILDER_ASSETS, or built once per version. An etcd older
# than 3.5.13 breaks watch progress; the one pinned here is the one that this Kubernetes is built against.
KUBERNETES_FILES   := tests/kubernetes/go.mod tests/kubernetes/go.sum
KUBERNETES_VERSION  = $(shell sed -n 's|^.k8s.io/kubernetes v\([0-9.]*\).*|\1|p' tests/kubernetes/go.mod)
KUBERNETES          = $(or $(KUBEBUILDER_ASSETS),$(abspath $(CACHE))/kubernetes-$(KUBERNETES_VERSION)-$(shell cat $(KUBERNETES_FILES) | cksum | cut -d' ' -f1))
KUBERNETES_PROGRAMS := kube-apiserver kube-scheduler kube-controller-manager kubectl
STAMP               = -X k8s.io/component-base/version.gitVersion=v$(KUBERNETES_VERSION) -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$(word 2,$(subst ., ,$(KUBERNETES_VERSION)))

kubernetes: ## build the real kube-apiserver, kube-scheduler, kube-controller-manager, kubectl and etcd (ten minutes, once)
	@test -n "$(KUBEBUILDER_ASSETS)" || command -v go >/dev/null || { echo "make kubernetes needs Go $$(sed -n 's/^go //p' tests/kubernetes/go.mod) or newer (https://go.dev/dl/), or KUBEBUILDER_ASSETS naming a folder that has $(KUBERNETES_PROGRAMS) etcd"; exit 1; }
	@mkdir -p $(KUBERNETES)
	@for program in $(KUBERNETES_PROGRAMS); do \
	  test -x $(KUBERNETES)/$$program && continue; \
	  echo "building $$program $(KUBERNETES_VERSION) ..."; \
	  go build -C tests/kubernetes -trimpath -ldflags '-s -w $(STAMP)' -o $(KUBERNETES)/$$program k8s.io/kubernetes/cmd/$$program || exit 1; done
	@test -x $(KUBERNETES)/etcd || { echo "building etcd ..."; go build -C tests/kubernetes -trimpath -ldflags '-s -w' -o $(KUBERNETES)/etcd go.etcd.io/etcd/server/v3; }
	@echo $(KUBERNETES)

.PHONY: kubernetes-path
kubernetes-path: # where `make kubernetes` puts the programs
	@echo $(KUBERNETES)

manifests: $(READY) ## write what components may do into the embedded server's roles and examples/kubernetes
	@$(BIN)/python tools/manifests.py

MODULE = $$(go list -C tests/kubernetes -m -f '{{.Dir}}' k8s.io/$(1))

schemas: $(READY) ## write the schemas of all kinds anew from the documents of the Kubernetes in tests/kubernetes/go.mod
	@$(BIN)/python tools/schemas.py --openapi $(call MODULE,kubernetes)/api/openapi-spec/v3 \
	  --go $(call MODULE,api) --go $(call MODULE,apimachinery) --go $(call MODULE,apiextensions-apiserver)

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
