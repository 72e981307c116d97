# The first two need nothing but Python 3.11 or newer, its venv module, and a network that reaches PyPI.
#
#   make try     the daemon on the loopback with a terminal in it, gone when you leave (one command: make try CMD='ls -la')
#   make test    all tests
#   make check   format, lint, types, rooms, docs, generated files, units
#   make docs    HTML into docs/_build/html
#   make format  rewrites the sources as `make check` wants them

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet --quiet
UNREACHED := { echo "pip could not install what computerd needs; see above. Does the network reach PyPI, or what PIP_INDEX_URL names?" >&2; exit 1; }
TESTS ?= tests
CMD ?=

.DEFAULT_GOAL := help
.PHONY: help try test check docs format lint types rooms drift units clean

help:
	@sed -n 's/^#   //p' Makefile

# What a virtual environment lacks on Debian is said in one line, before anything is made.
$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "computerd needs $(PYTHON), 3.11 or newer: apt-get install python3 python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "computerd needs Python 3.11 or newer, $(PYTHON) is `$(PYTHON) -V`; name another: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || { echo "Python's venv module is missing: apt-get install python3-venv" >&2; exit 1; }
	@echo "Making $(VENV) ..." >&2
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# compat: Twisted looks for plugins in the folders of sys.path, which an import hook of setuptools would hide from it.
$(VENV)/.run: $(VENV)/bin/python setup.cfg pyproject.toml
	@echo "Setting up $(VENV) ..." >&2
	@$(PIP) install --config-settings editable_mode=compat --editable . || $(UNREACHED)
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python setup.cfg pyproject.toml
	@echo "Setting up $(VENV) with what tests and checks need ..." >&2
	@$(PIP) install --config-settings editable_mode=compat --editable '.[dev]' || $(UNREACHED)
	@touch $@ $(VENV)/.run

# The command reaches the terminal's shell as it is written. (make makes 2 of every status but 0; computerctl passes it on.)
try: export TRY = $(value CMD)
try: $(VENV)/.run
	@if [ -n "$$TRY" ]; then exec $(BIN)/computerctl try -- "$$TRY"; else exec $(BIN)/computerctl try; fi

test: $(VENV)/.dev
	@$(BIN)/python tests/run.py $(TESTS)

check: lint types rooms docs drift units
	@echo "check: all is well"

lint: $(VENV)/.dev
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .

types: $(VENV)/.dev
	$(BIN)/mypy

rooms: $(VENV)/.dev
	$(BIN)/lint-imports --no-logo setup.cfg

docs: $(VENV)/.dev
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -b html docs docs/_build/html

# What is generated from the contract and the options must be as it would be generated now.
drift: $(VENV)/.dev
	$(BIN)/python tests/run.py tests.contract tests.test_config

units: $(VENV)/.dev
	$(BIN)/python tests/run.py tests.test_systemd

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist docs/_build *.egg-info
