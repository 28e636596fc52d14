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

.PHONY: help setup run test unit sim sim-ci sim-others fuzz sweep chaos compare-tools check format bench bench-library bench-spark \
  bench-publish bench-publish-brokers bench-publish-clients bench-publish-spark demo clean

help:
	@echo "make setup    create .venv with Ottla and everything its tests use"
	@echo "make run      start a broker on localhost:9092 with its data in ./data"
	@echo "make test     run all tests, including those with real peers (Java and Maven, Go, kcat, PostgreSQL): ARGS='tests/unit -k log' gives arguments to pytest"
	@echo "make unit     run the quick tests that need only Python"
	@echo "make sim      simulate clusters under faults: SEED=7 replays one, RUNS=20 runs 20 seeds from SEED on, SCENARIO='bits flip' picks one"
	@echo "make sim-ci   run the long simulations of CI: quorums, clusters, crash states, and 20,000 frames of make fuzz"
	@echo "make fuzz     send random and damaged requests to a node: FRAMES=1000000 sets how many, SEED=7 which"
	@echo "make sweep    send large and repetitive requests of every API and version: ARGS='--newest --count 40000'"
	@echo "make chaos    run a cluster of real processes under faults: MINUTES=10 sets how long, SEED=7 which faults"
	@echo "make compare-tools    compare the output of Kafka's commands with ours, and print how many command lines were compared"
	@echo "make check    check style, types, layers and generated files"
	@echo "make format   format the code"
	@echo "make demo     kill the driver of a Spark pipeline and show that each row still arrived exactly once"
	@echo "make bench    benchmark Kafka and Ottla side by side (ARGS=--quick for a short run)"
	@echo "make bench-library    benchmark Python client libraries on one Ottla node"
	@echo "make bench-spark      benchmark Ottla's Spark format and Spark's own connector"
	@echo "make bench-publish    run all three, and write docs/benchmarks*.md: after a break it goes on where it was"

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

# Several parts at a time; with ARGS one pytest run, which gets them.
test: setup
	$(BIN)/python -m $(if $(ARGS),pytest $(ARGS),tests)

unit: setup
	$(BIN)/python -m tests tests/unit --quick

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
	$(BIN)/mypy tests bench docs/examples
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

# The results are kept after each row, and another make goes on with the rows that are missing. To measure
# again, remove them. Rows can be chosen: make bench-publish-brokers ARGS='--rows produce-100,latency'
KEPT := bench/results/publish
PATIENCE ?= 60

bench-publish:
	$(MAKE) bench-publish-brokers
	$(MAKE) bench-publish-clients
	$(MAKE) bench-publish-spark

bench-publish-brokers: $(BENCH_STAMP)
	$(BIN)/python -m bench --plain --patience $(PATIENCE) --into $(KEPT).json --publish $(ARGS)

bench-publish-clients: $(BENCH_STAMP)
	$(BIN)/python -m bench.library --long --patience $(PATIENCE) --into $(KEPT)-clients.json --publish $(ARGS)

bench-publish-spark: $(BENCH_STAMP)
	$(BIN)/python -m bench.spark --into $(KEPT)-spark.json --publish $(ARGS)

clean:
	rm -rf .venv build dist src/*.egg-info $(COMPILED:.pxd=.c) $(COMPILED:.pxd=*.so)
