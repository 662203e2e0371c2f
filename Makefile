# Every target sets up .venv itself; `make help` lists them.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Tests start hundreds of processes of ours: the sources are compiled once, not in each.
export PYTHONDONTWRITEBYTECODE :=
TOOLS := $(BIN)/python -m tests.tools.build
# The demo and the tests go on without a tool where building is forbidden; elsewhere a failed build ends them.
OR_WITHOUT := || test -n "$$MUSTER_NO_BUILD"
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
IMAGE ?= muster:$(VERSION)
BUILDER ?= docker build
LOCK := build/lock/bin/pip-compile --quiet --generate-hashes --strip-extras --no-header --no-annotate \
	--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --allow-unsafe
HOW := -q --dist loadfile --no-loadscope-reorder
# Two workers for tests that compute, three for tests that wait (tests/support/pools.py).
POOLS := --tx '2*popen//pool=computing' --tx '3*popen//pool=waiting'
PYTEST := $(BIN)/python -m pytest $(HOW)
# For tests of real servers, clients and clocks: few failures get a second attempt, which is told; none at night.
TWICE := $(BIN)/python -m tests.tools.attempts $(HOW)
CHECKED := .
# API servers of the end-to-end tests: sandbox, kube-apiserver, kube-apiserver-1.37, both (the first two).
SERVER ?= both
CONTROLLERS := build/controllers
NEWEST := kube-apiserver-1.37
DOCUMENTS := README.md CONTRIBUTING.md CHANGELOG.md docs examples benchmarks/README.md
# What make test plays a smoke of, make test-sandbox plays as a whole (tests/support/smoke.py).
SMOKED := tests/e2e tests/unit/sandbox
# Folders that make test-e2e leaves out.
LEFT_OUT ?=
# Of the end-to-end stories, those that make test-sandbox plays.
STORIES ?= tests/e2e
SEARCHES = $(filter-out $(SMOKED:%=%/%),$(shell grep -rlE "hypothesis import|searches import|mark\.long" tests --include="test_*.py"))
# What the newest Python plays: the rooms that compute by whole outputs, the others by their tests.
COMPUTES := arrays controllers engine framework load model plugins quota state topology
ON_NEWEST ?= tests/approved $(filter-out $(COMPUTES:%=tests/unit/%) tests/unit/__pycache__,$(wildcard tests/unit/*))
SITE_READY := $(VENV)/.site-ready
BROWSER_READY := $(VENV)/.browser-ready

.DEFAULT_GOAL := help
.PHONY: help demo demo-controllers test test-searches test-sandbox test-newest test-bare test-e2e test-groups test-faults test-dashboards test-browser test-upstream beside beside-small fuzz mutants soak nightly check docs bench bench-small bench-peers manifests image lock tools

help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 18

demo: $(READY) ## a cluster in one command: quotas, a refusal, borrowing, with real kubectl
	@$(TOOLS) --link $(BIN) kubectl >/dev/null $(OR_WITHOUT)
	@$(BIN)/muster-sandbox demo

demo-controllers: $(READY) ## the chapter with real controllers: a Job and a JobSet on a real kube-apiserver
	@$(TOOLS) --link $(BIN) kubectl >/dev/null
	@$(TOOLS) --link $(CONTROLLERS) --link-all etcd kube-apiserver kube-controller-manager jobset >/dev/null
	@$(BIN)/python -m tests.tools.owner_crds --write JobSet $(CONTROLLERS)/jobset-crd.yaml
	@$(BIN)/muster-sandbox demo --controllers $(CONTROLLERS)

test: $(READY) ## in minutes: what computes, a 32nd part of the random searches, and smoke tests of the end-to-end stories
	@$(TOOLS) --link $(BIN) kubectl helm $(OR_WITHOUT)
	@MUSTER_SEARCH_PART=32 $(TWICE) $(POOLS) --smoke -m "not long" --ignore=tests/faults --ignore=tests/dashboards --ignore=tests/browser

test-searches: $(READY) ## the random searches with all their cases, and the tests that are marked as long; PART=N: one case in N
	@$(TOOLS) --link $(BIN) kubectl helm $(OR_WITHOUT)
	@MUSTER_SEARCH_PART=$(or $(PART),1) $(TWICE) -n 4 --searches $(SEARCHES)

test-sandbox: $(READY) ## all tests of the sandbox, and all end-to-end stories on it: make test plays a smoke of each; PART=, STORIES=
	@$(TOOLS) --link $(BIN) kubectl helm $(OR_WITHOUT)
	@MUSTER_SEARCH_PART=$(or $(PART),1) $(TWICE) -n 4 tests/unit/sandbox $(STORIES)

test-newest: $(READY) ## on the newest Python that the machine has or can install: unit tests and whole outputs, as in make test; ON_NEWEST=tests/unit
	@python=$$($(BIN)/python -m tests.tools.newest_python) && { test -z "$$python" || \
		PATH="$$(dirname "$$python"):$$PATH" MUSTER_SEARCH_PART=32 "$$python" -m tests.tools.attempts $(HOW) $(POOLS) --smoke -m "not long" $(ON_NEWEST); }

test-bare: ## make demo and make test in a new clone, without kubectl, Helm and Go on PATH; half an hour
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; tests/bare/run "$$folder" demo test

test-e2e: $(READY) ## end-to-end tests on the sandbox and on a real kube-apiserver; the chart on the latter; SERVER=, LEFT_OUT=, PART=
	@$(TOOLS) --link $(BIN) kubectl helm && $(TOOLS) etcd kube-apiserver kube-controller-manager jobset $(filter kube-apiserver-%,$(SERVER))
	@$(BIN)/python -m tests.tools.owner_crds >/dev/null
	@MUSTER_SEARCH_PART=$(or $(PART),1) $(TWICE) -n 4 tests/e2e tests/chart/live $(LEFT_OUT:%=--ignore=%) --server $(SERVER)

test-groups: $(READY) ## end-to-end tests of native groups on the newest kube-apiserver
	@$(TOOLS) --link $(BIN) kubectl && $(TOOLS) etcd $(NEWEST)
	@$(TWICE) -n 2 tests/e2e/scheduler/test_native_groups.py --server $(NEWEST)

fuzz: $(READY) ## the long search for a night: damaged reviews, races, random clusters; half an hour
	@$(TOOLS) --link $(BIN) kubectl
	@MUSTER_FUZZ_REVIEWS=100000 MUSTER_RACE_ROUNDS=1000 MUSTER_ORACLE_CLUSTERS=10000 MUSTER_GANG_CLUSTERS=2000 \
		MUSTER_ORACLE_INSTANCES=3000 MUSTER_ORACLE_SEARCHES=300 MUSTER_ORACLE_VICTIMS=12000 \
		MUSTER_ORACLE_GANGS=6000 MUSTER_ORDERS_STEP=1 MUSTER_ROOM_TREES=4000 MUSTER_CLASS_CLUSTERS=1500 MUSTER_HELD_QUOTA_WORLDS=1200 MUSTER_SNAPSHOT_WORLDS=320 \
		MUSTER_WHAT_IF_WORLDS=2000 MUSTER_FIX_WORLDS=2000 MUSTER_WORLDS_TOLD_OTHERWISE=8000 $(PYTEST) -n 2 --timeout 1800 \
		tests/unit/webhook/http/test_fuzz.py tests/e2e/webhook/test_reservations.py tests/property \
		tests/unit/answers/test_fixes_search.py tests/unit/answers/test_snapshot.py

mutants: $(READY) ## faults set into the code, one at a time: which does no test notice? an hour or more
	@$(TOOLS) --link $(BIN) kubectl helm
	@$(BIN)/python -m tests.tools.mutants --floor 0.85 --room-floor 0.8 $(MUTANTS)

soak: $(READY) ## ten million events in one scheduler: does memory grow? three hours; EVENTS=100000
	@$(BIN)/python -m benchmarks.soak $(EVENTS)

nightly: $(READY) ## the long things: all searches, fuzz, worlds against fresh schedulers, mutants, soak, the newest Kubernetes, suites, real ones beside, peers
	@export MUSTER_SECOND_ATTEMPTS=0 MUSTER_NIGHT=1; failed=; $(MAKE) --no-print-directory test-searches || failed=1; \
		$(MAKE) --no-print-directory test-sandbox || failed=1; \
		$(MAKE) --no-print-directory test-newest ON_NEWEST="tests/unit tests/approved tests/scenarios" || failed=1; \
		$(MAKE) --no-print-directory test-faults || failed=1; \
		$(MAKE) --no-print-directory fuzz || failed=1; \
		MUSTER_WORLDS=20000 $(PYTEST) -n 4 --dist load --timeout 3600 \
			tests/property/test_restart_equivalence.py || failed=1; \
		MUSTER_FAIR_CASES=10000 MUSTER_FAIR_TREES=10000 MUSTER_FAIR_WORLDS=2000 MUSTER_WAITING_HISTORIES=20000 \
			$(PYTEST) -n 4 --dist load --timeout 3600 tests/property/test_fair_rest.py tests/property/test_fair_trees.py \
			tests/property/test_fair_worlds.py tests/property/test_waiting_histories.py || failed=1; \
		$(MAKE) --no-print-directory mutants || failed=1; \
		$(MAKE) --no-print-directory soak || failed=1; \
		$(MAKE) --no-print-directory test-e2e SERVER=$(NEWEST) || failed=1; \
		$(MAKE) --no-print-directory test-upstream || failed=1; \
		$(MAKE) --no-print-directory beside BESIDE=--shrink || failed=1; \
		$(MAKE) --no-print-directory bench-peers || failed=1; test -z "$$failed"

test-faults: $(READY) ## faults of the API server and of processes, on both servers; a table of losses; SERVER=
	@$(TOOLS) etcd kube-apiserver
	@$(TWICE) -n 4 tests/faults --server $(SERVER)

test-dashboards: $(READY) ## the dashboard and the alerts of the chart on a real Prometheus, from Debian
	@tests/tools/debian-packages prometheus
	@$(TOOLS) --link $(BIN) kubectl helm
	@$(TWICE) -n 2 tests/dashboards

test-browser: $(BROWSER_READY) ## the web view in Chromium, from Debian: pages, refresh, faults, accessibility
	@$(TOOLS) --link $(BIN) kubectl
	@tests/tools/debian-packages chromium-headless-shell
	@$(TWICE) -n 2 --dist load tests/browser

beside: $(READY) ## beside the real ones: kube-scheduler, Go packages and kubectl of each supported minor version; WORLDS=700, INPUTS=100000
	@$(TOOLS) etcd kube-apiserver kube-scheduler kubernetes-packages $(NEWEST) kube-scheduler-1.37 kubernetes-packages-1.37 koordinator-packages kueue-packages
	@$(BIN)/python -m tests.beside.run $(WORLDS:%=--worlds %) $(INPUTS:%=--inputs %) $(BESIDE)

beside-small: $(READY) ## the same in a minute, of the newest minor version alone
	@$(TOOLS) etcd $(NEWEST) kube-scheduler-1.37 kubernetes-packages-1.37
	@$(BIN)/python -m tests.beside.run --small $(BESIDE)

test-upstream: $(READY) ## Kubernetes' own suites: sig-scheduling beside kube-scheduler, the sandbox's API
	@$(TOOLS) --link $(BIN) kubectl
	@$(TOOLS) etcd kube-apiserver kube-controller-manager kube-scheduler kubemark e2e.test
	@$(BIN)/python -m tests.upstream.run $(UPSTREAM)

check: $(READY) ## lint, format and types; Markdown, too
	@$(BIN)/ruff check $(CHECKED)
	@$(BIN)/ruff format --check $(CHECKED)
	@$(BIN)/pymarkdown scan --recurse $(DOCUMENTS) & $(BIN)/mypy; types=$$?; wait $$! && exit $$types

docs: $(SITE_READY) ## the documentation as a site in build/site, with the README's picture; warnings are errors
	@$(TOOLS) --link $(BIN) kubectl >/dev/null
	@$(BIN)/muster-sandbox demo --chapter 3 --record docs/images/reclaim.svg >/dev/null
	@$(BIN)/python -m tests.tools.screenshots
	@rm -rf build/pages && mkdir -p build/pages
	@git ls-files -z --cached --others --exclude-standard $(DOCUMENTS) LICENSE | tar --null -T - -cf - | tar -xf - -C build/pages
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "build/site/docs/index.html"

bench: $(READY) ## benchmarks as one table; fails below a floor
	@$(BIN)/python -m benchmarks.run

bench-small: $(READY) ## the small form of every benchmark: whether it runs, not how fast
	@$(BIN)/python -m benchmarks.run --small

bench-peers: $(READY) ## beside kube-scheduler on a real kube-apiserver: a table of ratios; half an hour; PEERS=--small, PEERS="--small --stand-in"
	@$(TOOLS) etcd kube-apiserver $(NEWEST) $(if $(findstring --stand-in,$(PEERS)),,scheduler-plugins kube-scheduler-1.37)
	@$(BIN)/python -m benchmarks.peers $(PEERS)

manifests: $(READY) ## the chart as plain YAML in build/manifests; VALUES=FILE for other values
	@$(TOOLS) --link $(BIN) helm >/dev/null
	@mkdir -p build/manifests
	@helm template muster charts/muster --namespace muster-system --include-crds \
		--set namespace.create=true $(if $(VALUES),--values $(VALUES)) >build/manifests/muster.yaml
	@echo "build/manifests/muster.yaml: kubectl apply --server-side -f it"

image: ## build the image; IMAGE=NAME:TAG, BUILDER="buildah build" where there is no Docker engine
	$(BUILDER) --tag $(IMAGE) .

lock: $(READY) ## pin anew what the image is made of
	@$(BIN)/python -m venv build/lock && build/lock/bin/python -m pip install --quiet pip-tools
	@$(LOCK) --output-file requirements.lock pyproject.toml
	@echo "setuptools>=77" | $(LOCK) --output-file requirements-build.lock -

tools: $(READY) ## build kubectl, helm and a control plane's programs where they are not installed
	@$(TOOLS) --link $(BIN) kubectl helm && $(TOOLS) etcd kube-apiserver kube-controller-manager jobset
	@$(BIN)/python -m tests.tools.owner_crds

# PYTHON=/another/python3 chooses the interpreter.
$(READY): pyproject.toml
	@PYTHON='$(PYTHON)' tests/tools/set-up dev

$(SITE_READY): $(READY)
	@PYTHON='$(PYTHON)' tests/tools/set-up docs

$(BROWSER_READY): $(READY)
	@PYTHON='$(PYTHON)' tests/tools/set-up browser
