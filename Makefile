# Every target does its own set-up: it needs Python 3.11 or newer and make, and nothing else beforehand.

# The first that runs and is new enough: a name on the path may be a shim with nothing behind it.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
  $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
BIN := .venv/bin
CODE := src tests bench docs/examples setup.py
COMPILED := $(wildcard src/ottla/*/*.pxd src/ottla/*/*/*.pxd)
KERNEL := $(COMPILED) $(wildcard $(COMPILED:.pxd=.py))
COMMA := ,
STAMP := .venv/.set-up
RUN_STAMP := .venv/.set-up-run
BENCH_STAMP := .venv/.set-up-bench
DEMO_STAMP := .venv/.set-up-demo

SEED ?= 1
RUNS ?= 1
CI_CLUSTERS ?= 200
CI_QUORUMS ?= 2000
CI_STATES ?= 20000
CI_FRAMES ?= 20000
MINUTES ?= 10
FRAMES ?= 100000

.PHONY: help setup run test unit sim sim-ci sim-others fuzz sweep chaos compare-tools check format bench bench-library bench-spark demo clean

help:
	@echo "make setup    a virtual environment in .venv with Ottla and everything its tests use"
	@echo "make run      a broker on localhost:9092 that keeps its data in ./data"
	@echo "make test     all tests, those with real peers too (Java and Maven, Go, kcat, PostgreSQL)"
	@echo "make unit     the tests that need Python alone"
	@echo "make sim      simulated clusters under faults: SEED=7 replays one, RUNS=20 takes the seeds from SEED on, SCENARIO='bits flip'"
	@echo "make sim-ci   the long simulations of CI: quorums, clusters, crash states, and 20,000 frames of make fuzz"
	@echo "make fuzz     a node under random and damaged requests: FRAMES=1000000 for so many, SEED=7 for others"
	@echo "make sweep    large and repetitive requests of every API and version: ARGS='--newest --count 40000'"
	@echo "make chaos    a cluster of real processes under faults: MINUTES=10 is how long, SEED=7 draws the same faults"
	@echo "make compare-tools    Kafka's commands and ours side by side; ends with how many command lines were compared"
	@echo "make check    style, types, layers and generated files"
	@echo "make format   put the style right"
	@echo "make demo     a pipeline on Spark whose driver is killed, and the proof that each row arrived once"
	@echo "make bench    Kafka and Ottla side by side (ARGS=--quick for the short one)"
	@echo "make bench-library    client libraries for Python side by side, on one Ottla node"
	@echo "make bench-spark      Ottla's format for Spark and Spark's own connector side by side"

setup: $(STAMP)

# The compiled kernel is part of the installation, so a changed kernel installs again.
define install
	@test -n "$(PYTHON)" || { \
	  echo "No Python 3.11 or newer was found: install one, or name it with make PYTHON=..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.$(1)'
	@touch $@
endef
INSTALLED := pyproject.toml $(wildcard setup.py) $(KERNEL)

$(RUN_STAMP): $(INSTALLED)
	$(call install)

$(STAMP): $(INSTALLED)
	$(call install,[dev])

$(BENCH_STAMP): $(STAMP)
	$(call install,[dev$(COMMA)bench])

$(DEMO_STAMP): $(INSTALLED)
	$(call install,[demo])

run: $(RUN_STAMP)
	$(BIN)/ottla serve

test: setup
	$(BIN)/python -m pytest $(ARGS)

unit: setup
	$(BIN)/python -m pytest tests/unit

compare-tools: setup
	$(BIN)/python -m pytest tests/interop/tools_same tests/interop/groups_tool tests/interop/cluster_tools

sim: setup
	$(BIN)/python -m tests.sim $(SEED) $(RUNS) $(if $(SCENARIO),--scenario '$(SCENARIO)') $(ARGS)

# Two at a time, on two cores. Written to be run beside `make test`: no pytest cache of its own.
sim-ci: setup
	$(MAKE) --jobs=2 sim-others sim-clusters-0 sim-clusters-1 sim-clusters-2 sim-clusters-3

# A quarter of the clusters, whose number can be divided by 4.
sim-clusters-%: setup
	$(BIN)/python -m tests.sim $$(($(SEED) + $* * $(CI_CLUSTERS) / 4)) $$(($(CI_CLUSTERS) / 4))

sim-others: setup
	$(BIN)/python -m tests.sim.quorum $(CI_QUORUMS) $(SEED)
	OTTLA_TEST_STATES=$(CI_STATES) $(BIN)/python -m pytest -q -s -p no:cacheprovider tests/sim/test_crash_states.py
	$(BIN)/python -m tests.fuzz --frames $(CI_FRAMES) --seed $(SEED)

# Without a SEED each run has another one.
chaos: setup
	$(BIN)/python -m tests.chaos $(MINUTES) $(if $(filter file,$(origin SEED)),,--seed $(SEED)) $(ARGS)

fuzz: setup
	$(BIN)/python -m tests.fuzz --frames $(FRAMES) --seed $(SEED) $(ARGS)

sweep: setup
	$(BIN)/python -m tests.load.sweep $(ARGS)

check: setup
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy
	$(BIN)/mypy tests/interop tests/sim tests/fuzz tests/load tests/chaos bench docs/examples
	$(BIN)/lint-imports
	$(BIN)/python -m ottla.wire.generate --check
	$(BIN)/python -m ottla.config.generate --check
	$(BIN)/python -m ottla.client.config.generate --check

format: setup
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

demo: $(DEMO_STAMP)
	$(BIN)/python docs/examples/pipelines/demo.py $(ARGS)

bench: $(BENCH_STAMP)
	$(BIN)/python -m bench $(ARGS)

bench-library: $(BENCH_STAMP)
	$(BIN)/python -m bench.library $(ARGS)

bench-spark: $(BENCH_STAMP)
	$(BIN)/python -m bench.spark $(ARGS)

clean:
	rm -rf .venv build dist src/*.egg-info $(COMPILED:.pxd=.c) $(COMPILED:.pxd=*.so)
