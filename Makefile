# make demo   start a local cluster, train on it, take it down
# make test   everything .ci/run checks: lint, format, types, tests (types beside the tests, which leave cores idle)
# make quick  while you work: lint, types of what changed, and the unit tests that are not marked slow
# make bench-faults   run the failure table and print what was measured beside its goals
# make nightly        five minutes of seeded chaos under a training job (DTF_CHAOS_SEED=7 chooses another), then every
#                     test marked nightly, audits and soaks in their long form, and properties on all their examples
# make bench  measure against TensorFlow and other peers; BENCH="--quick", "--hosts", "--zoo" or "--case null-step"
#             chooses
#
# PYTHON=/path/to/python3.12 chooses the interpreter of .venv; any from 3.11 on will do.

PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v $$name; break; }; done)
# Hundreds of processes are started by the tests: each would compile the package for itself.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test quick lint types unit docs bench bench-faults nightly clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

demo: $(VENV)/.ready-demo
	@PATH="$(CURDIR)/$(BIN):$$PATH" tools/demo

test: lint
	@said=$$(mktemp); \
	nice $(if $(DTF_CHECKS_UNTIL),timeout $$(($(DTF_CHECKS_UNTIL) - $$(date +%s)))) $(BIN)/mypy >$$said 2>&1 & types=$$!; \
	$(BIN)/python tools/run_tests.py; tests=$$?; \
	wait $$types; types=$$?; \
	if test $$types = 124; then echo "NOT CHECKED FOR WANT OF TIME: types" >>$$said; types=0; fi; \
	cat $$said; rm $$said; test $$tests = 0 && test $$types = 0

quick: lint types
	$(BIN)/python -m pytest -n auto -q -m "not slow and not nightly" tests/unit

lint: $(VENV)/.ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready-test
	$(BIN)/mypy

unit: $(VENV)/.ready-test
	$(BIN)/python tools/run_tests.py

docs: $(VENV)/.ready-test
	$(BIN)/python tools/gen_docs.py
	$(BIN)/python tools/gen_api_exports.py
	$(BIN)/python tools/gen_ops_doc.py
	$(BIN)/python tools/gen_api_doc.py

# The peers install themselves into .bench/venv.
bench: $(VENV)/.ready-demo
	@$(BIN)/python -m benchmarks $(BENCH)

bench-faults: $(VENV)/.ready-test
	DTF_TEST_SCALE=1 DTF_NIGHTLY=1 $(BIN)/python -m pytest -m fault tests/faults tests/slurm tests/ray \
	  tests/interop/test_frameworks.py --fault-report docs/failure-table.md

nightly: $(VENV)/.ready-test
	DTF_CHAOS_SECONDS=$${DTF_CHAOS_SECONDS:-300} $(BIN)/python -m pytest -s tests/faults/test_chaos.py
	DTF_NIGHTLY=1 $(BIN)/python -m pytest -m "nightly or hypothesis" --timeout 3600

clean:
	rm -rf $(VENV) .bench build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "No Python >= 3.11 on PATH; name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Creating $(VENV) with $(PYTHON)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dtfctl needs Python >= 3.11, this is " + sys.version)'
	@$(PYTHON) -m venv --without-pip $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot make a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

$(VENV)/.ready-demo: pyproject.toml | $(VENV)/bin/python
	@echo "Installing dtfctl and what it needs into $(VENV) (once)"
	@PYTHON=$(PYTHON) tools/install examples
	@touch $@

$(VENV)/.ready-test: pyproject.toml | $(VENV)/bin/python
	@echo "Installing dtfctl and the tools for tests into $(VENV) (once)"
	@PYTHON=$(PYTHON) tools/install examples,dev
	@touch $@ $(VENV)/.ready-demo
