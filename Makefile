# make x1     set up (once) and run the main job: train, fit, predict, cost, report, into out/x1/
# make test   set up (once) and run every check
#
# PYTHON=python3.12   interpreter that makes the environment      VENV=.venv      where it lives
# EXTRAS=dev          a light environment, without torch          WORKERS=2       test processes
# X1_PROFILE=cpu      size of make x1: cpu, h200, a100            X1_CORPUS=...   its text

PYTHON  ?= python3
VENV    ?= .venv
EXTRAS  ?= train,dev
WORKERS ?= 2
OUT     ?= out

# Two numeric threads in each of two test processes collapse on two cores: one each is steadier and faster.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

comma := ,
PY    := $(VENV)/bin/python
# The extras are part of the stamp's name: another choice is another set-up.
STAMP := $(VENV)/.ready-$(subst $(comma),-,$(EXTRAS))

.DEFAULT_GOAL := help
.PHONY: help setup x1 test lint types unit wheel-test slow format manifest clean

help:
	@sed -n '/^#/!q;s/^# \{0,1\}//p' Makefile

setup: $(STAMP)

$(STAMP): pyproject.toml constraints-cpu.txt
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(sys.version_info < (3, 11) and "isoflop needs Python 3.11 or newer, found " + v + ": set PYTHON=")'
	@echo "Setting up $(VENV) with the extras $(EXTRAS): about 2 minutes and 2 GB with train, 1 minute without."
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --constraint constraints-cpu.txt --editable '.[$(EXTRAS)]'
	@touch $@

# X1_PROFILE=cpu|h200|a100, X1_CORPUS and X1_CAP_USD as experiments/X1-pretraining/README.md says.
x1: $(STAMP)
	$(PY) -m experiments.x1 --out $(OUT)/x1

test: lint types unit wheel-test

lint: $(STAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

# Without torch the trainer's types cannot be read.
types: $(STAMP)
	$(PY) -m mypy $(if $(findstring train,$(EXTRAS)),,economics scaling)

# Also runs the examples in docstrings (--doctest-modules) and in the README (tests/test_readme.py).
unit: $(STAMP)
	$(PY) -m pytest --numprocesses=$(WORKERS)

wheel-test: $(STAMP)
	$(PY) -m pytest -m wheel tests/test_wheel.py

slow: $(STAMP)
	$(PY) -m pytest -m slow

format: $(STAMP)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

# After changing a table in data/.
manifest:
	$(PYTHON) data/update_manifest.py

clean:
	rm -rf $(OUT) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
