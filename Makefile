# make graph500   set up, run the main job, print Graph500's result block
# make test       set up, run the tests
# make bench, docs, fuzz, lint, test-slow, gpu-test, clean: see README.md
# make lock, check-lock, audit: see CONTRIBUTING.md
#
# Needs a Python from 3.11 on and make. PYTHON=/path/to/python chooses one;
# CONSTRAINTS=/dev/null installs the newest of everything instead of what is tested.

VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS := constraints/tested.txt
INSTALL := CONSTRAINTS=$(CONSTRAINTS) sh tools/install.sh $(VENV)
PYTHON ?=
GPU_EXTRA ?= cuda13
SCALE ?= 18
OUT ?= runs/graph500-scale$(SCALE)
# Further options of the command, of pytest.
GRAPH500 ?=
PYTEST ?=
# Much of a test's time is spent compiling, on one core. A file's tests share clusters and stores.
SPREAD := -n 2 --dist loadfile

.PHONY: help graph500 test test-slow fuzz gpu-test bench lint docs lock check-lock audit clean

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | head -7

graph500:
	@$(INSTALL) report "$(PYTHON)"
	$(BIN)/ooc-graph graph500 --scale $(SCALE) --out $(OUT) --overwrite $(GRAPH500)

test:
	@$(INSTALL) test "$(PYTHON)"
	$(BIN)/python -m pytest $(SPREAD) $(PYTEST)

test-slow:
	@$(INSTALL) test "$(PYTHON)"
	$(BIN)/python -m pytest -m "slow and not gpu" --timeout 3600 $(PYTEST)

# In memory if there is a /dev/shm; about a thousand executions a second on a core. FUZZ=--help has more.
EXECUTIONS ?= 1000000
FUZZ ?=

fuzz:
	@$(INSTALL) test,fuzz "$(PYTHON)"
	$(BIN)/python -m tests.fuzz --executions $(EXECUTIONS) $(FUZZ)

# Skipped tests are no success: without a device this ends before them. GPU_EXTRA=cuda12 for drivers
# of CUDA 12.
gpu-test:
	@$(INSTALL) test,$(GPU_EXTRA) "$(PYTHON)"
	@$(BIN)/python -m tests.gpu.last_run
	$(BIN)/python -m pytest tests/gpu -m gpu $(PYTEST)

# Made to take less than ten minutes on two cores. All scales against the other libraries:
# .venv/bin/python benchmarks/peers.py --scales 18-22
bench:
	@$(INSTALL) test,bench "$(PYTHON)"
	$(BIN)/python benchmarks/generator.py
	$(BIN)/python benchmarks/build.py --scale 20
	$(BIN)/python benchmarks/in_memory.py --scale 20
	$(BIN)/python benchmarks/peers.py --scales 18,20

lint:
	@$(INSTALL) test "$(PYTHON)"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.check_pages

# The site, in site/; a warning is an error.
docs:
	@$(INSTALL) docs "$(PYTHON)"
	$(BIN)/proselint --config .proselintrc.json check README.md docs
	$(BIN)/mkdocs build --strict

# With hashes of the files of every system and Python that pyproject.toml admits. What is locked stays
# unless it has to change; LOCK=--upgrade takes the newest. Needs uv and the network, as do the next two.
LOCKED := constraints/locked.txt
LOCK ?=
COMPILE = uv pip compile pyproject.toml --extra report --quiet --universal --python-version 3.11 --generate-hashes \
	--constraint constraints/tested.txt --custom-compile-command "make lock" $(LOCK)

lock:
	$(COMPILE) --output-file $(LOCKED)

check-lock:
	@new=$$(mktemp) && cp $(LOCKED) $$new && $(COMPILE) --output-file $$new && \
	diff $(LOCKED) $$new && rm $$new && echo "$(LOCKED) is up to date"

audit:
	uvx pip-audit --disable-pip --require-hashes --requirement $(LOCKED)

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find ooc_graph tests benchmarks deploy -name __pycache__ -type d -prune -exec rm -rf {} +
