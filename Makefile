# Everything installs into .venv; `make help` lists the targets.
#   make test PYTHON=python3.12    with another Python than the first python3 on PATH
#   make test TRAINING=no          without torch and what else trains: those tests are skipped
PYTHON ?= python3
TRAINING ?= yes
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready-$(TRAINING)
WHEELS := .venv-wheels

.PHONY: help setup demo docs foreign test test-thorough test-slow test-arm64 coverage fuzz lint bench wheels clean

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

setup: $(STAMP)  ## create .venv with rerail, the test tools and what trains (see TRAINING above)

$(STAMP): pyproject.toml $(wildcard workloads/*/pyproject.toml) scripts/system-packages
	PYTHON='$(PYTHON)' scripts/system-packages
	test -x $(BIN)/python || '$(PYTHON)' -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --group test --group environments --group lint
	$(BIN)/python -m pip install --quiet --editable '.[stacks,ui]'
ifneq ($(TRAINING),no)
	$(BIN)/python -m pip install --quiet --group training
	$(BIN)/python -m pip install --quiet --editable 'workloads/twotower[text,faiss]' \
	  --editable workloads/lowlight
endif
	touch $@

# In an environment of their own: they bring gigabytes, and versions that nothing else here needs.
FOREIGN := .venv-foreign
foreign: $(FOREIGN)/bin/.ready  ## the trainers of other people that the slow tests run, in .venv-foreign

$(FOREIGN)/bin/.ready: tests/foreign/requirements.txt
	@if '$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then set -ex; \
	  test -x $(FOREIGN)/bin/python || '$(PYTHON)' -m venv $(FOREIGN); \
	  $(FOREIGN)/bin/python -m pip install --quiet --requirement $<; \
	  touch $@; \
	else echo 'the trainers of other people need Python 3.11: their tests are skipped'; fi

# In an environment of its own: a site needs none of what trains or tests.
DOCS := .venv-docs
docs: $(DOCS)/.ready  ## the documentation as a site (site/index.html) and man pages (build/man)
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet --strict
	$(DOCS)/bin/python scripts/write-manual --man build/man

$(DOCS)/.ready: pyproject.toml
	test -x $(DOCS)/bin/python || '$(PYTHON)' -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(DOCS)/bin/python -m pip install --quiet --group docs --editable .
	touch $@

demo: setup  ## a training dies; rerail says why, proves it, and brings it back
	scripts/demo

# Many of these wait for a process, so one more runs at once than there are processors on a small machine.
test: setup  ## the first tier: all quick tests, in parallel
	$(BIN)/python -m pytest -n 3 -m 'not slow and not thorough'

# Most of these wait for a process, so more of them than there are processors run at once.
test-thorough: setup  ## the second tier: tests that start many processes or wait for seconds
	$(BIN)/python -m pytest -n 4 -m 'thorough and not slow'

test-slow: setup $(if $(filter no,$(TRAINING)),,foreign)  ## the long ones: repetitions, chaos, whole stories, new property examples
	$(BIN)/python -m pip install --quiet --group trackers --group ui-attack --group ray-jobs
	$(BIN)/python -m pytest -n 2 -m slow
	$(BIN)/python -m pytest -n 2 -m 'hypothesis and not slow' --hypothesis-profile=search

test-arm64: $(WHEELS)/bin/.ready  ## the recorder's and agent's tests on arm64 under emulation; needs root (TESTS=tests/agent)
	scripts/test-arm64 $(TESTS)

# A lower bound: what runs in processes that a test starts (the recorder, the agent) is not counted.
coverage: setup  ## which lines the first two tiers reach; htmlcov/index.html shows them
	$(BIN)/python -m pytest -n 2 -m 'not slow' --cov --cov-report=term:skip-covered --cov-report=html

SECONDS ?= 60
fuzz: setup  ## look for input that hurts: make fuzz SECONDS=600 TARGET=run_folder
	$(BIN)/python tests/fuzz --seconds $(SECONDS) $(if $(TARGET),--target $(TARGET))

lint: setup  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup  ## the figures in docs/figures.md
	$(BIN)/python -m benchmarks

# In an environment of its own: the cross-compiler alone has 400 MB.
wheels: $(WHEELS)/bin/.ready  ## dist/: the sdist and a wheel for each platform, built twice and checked
	$(WHEELS)/bin/python scripts/build-wheels

$(WHEELS)/bin/.ready: pyproject.toml
	test -x $(WHEELS)/bin/python || '$(PYTHON)' -m venv $(WHEELS)
	$(WHEELS)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(WHEELS)/bin/python -m pip install --quiet --group wheels
	touch $@

clean:  ## remove what make made
	rm -rf $(VENV) $(FOREIGN) $(WHEELS) $(DOCS) site build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache htmlcov .coverage*
