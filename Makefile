# Every target does its own set-up: it needs Python 3.11 or newer and make, and nothing else beforehand.

PYTHON ?= $(firstword $(foreach name,python3.13 python3.12 python3.11 python3,$(shell command -v $(name))))
BIN := .venv/bin
KERNEL := $(wildcard src/ottla/records/kernel.py src/ottla/records/kernel.pxd)
STAMP := .venv/.set-up
BENCH_STAMP := .venv/.set-up-bench

.PHONY: help setup run test unit check format bench clean

help:
	@echo "make setup    a virtual environment in .venv with Ottla and everything its tests use"
	@echo "make run      a broker on localhost:9092 that keeps its data in ./data"
	@echo "make test     all tests, those with real peers too (Java and Maven, kcat)"
	@echo "make unit     the tests that need Python alone"
	@echo "make check    style, types, layers and generated files"
	@echo "make format   put the style right"
	@echo "make bench    Kafka and Ottla side by side (ARGS=--quick for the short one)"

setup: $(STAMP)

# The compiled kernel is part of the installation, so a changed kernel installs again.
$(STAMP): pyproject.toml $(wildcard setup.py) $(KERNEL)
	@test -n "$(PYTHON)" || { echo "Python is missing: install Python 3.11 or newer." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$(PYTHON) is too old: install Python 3.11 or newer, or name one with make PYTHON=..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

$(BENCH_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[dev,bench]'
	@touch $@

run: setup
	$(BIN)/ottla serve

test: setup
	$(BIN)/python -m pytest

unit: setup
	$(BIN)/python -m pytest tests/unit

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests/interop bench
	$(BIN)/lint-imports
	$(BIN)/python -m ottla.wire.generate --check
	$(BIN)/python -m ottla.config.generate --check

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(BENCH_STAMP)
	$(BIN)/python -m bench $(ARGS)

clean:
	rm -rf .venv build dist src/*.egg-info src/ottla/records/kernel.c src/ottla/records/*.so
