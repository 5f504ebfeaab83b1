# Everything that is typed in this project. `make demo` and `make test` each set up all they need
# in .venv (Python >= 3.11 and pip are enough), and each can be run first, alone, and again.
#
#   make demo PYTHON=python3.12      # another interpreter; the default is the first one that is new enough

ifndef PYTHON
PYTHON := $(shell for candidate in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$candidate && break; \
	done)
endif

BIN := .venv/bin
OUT ?= demo-output
# three test files at a time on two cores, as many wait for processes; in the order of tests/conftest.py
PYTEST_OPTIONS ?= -n 3 --dist loadfile --no-loadscope-reorder
# pip would compile one module after the other, tests and tools among them; all cores do those that
# a run may import in less time, and the first run need not
INSTALL = $(BIN)/python -m pip install --quiet --no-compile --editable
COMPILE = $(BIN)/python -m compileall -qq -j 0 -x '/(tests?|testing|pip|setuptools|fontTools|pygments)/' .venv/lib
MADE := .venv/made
FOR_DEMO := .venv/ready-for-demo
FOR_TEST := .venv/ready-for-test
DOCS_SAY := .venv/docs.log

# the tests start hundreds of processes; without bytecode on disk each compiles all sources anew
unexport PYTHONDONTWRITEBYTECODE

# threads that have done their share of a product sleep at once: they spun on cores that others need
unit docs: export OMP_WAIT_POLICY = passive
unit docs: export OPENBLAS_THREAD_TIMEOUT = 4

.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test lint types kernels unit docs types-and-kernels bench clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile

demo: $(FOR_DEMO)  ## factorize a real matrix on 4 ranks and write a report; no data needed
	$(BIN)/daskpart fit mf python-source --ranks 4 --eta 4 --components 16 --regularization 0.1 \
		--partitioner power --out $(OUT)
	@echo
	@echo "Open $(OUT)/report.html in a browser: the partition, the traffic, the convergence."

# Tests wait for processes much of the time: the documentation is built meanwhile, page after page.
# It is silent unless it fails, and then comes last, so that what failed can be read at the end
test: lint types-and-kernels  ## the whole gate: lint, types, docs with notebooks run, tests with MPI
	@$(MAKE) --no-print-directory docs >$(DOCS_SAY) 2>&1 & docs=$$!; trap "kill $$docs" INT TERM; \
	$(MAKE) --no-print-directory unit; unit=$$?; wait $$docs; docs=$$?; \
	[ $$docs = 0 ] || cat $(DOCS_SAY); exit $$((unit + docs))

lint: $(FOR_TEST)  ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(FOR_TEST)  ## mypy
	$(BIN)/mypy

# on two cores at once
types-and-kernels: $(FOR_TEST)
	@$(MAKE) --no-print-directory types & types=$$!; trap "kill $$types" INT TERM; \
	$(MAKE) --no-print-directory kernels; kernels=$$?; wait $$types && exit $$kernels

kernels: $(FOR_TEST)  ## compile what most tests and notebooks would else compile
	$(BIN)/daskpart warm-up

unit: $(FOR_TEST)  ## pytest, the MPI batch script among the tests
	$(BIN)/python -m pytest $(PYTEST_OPTIONS)

# -E: read every page again, so that notebooks run against the code as it is now
docs: $(FOR_TEST)  ## build docs/_build/html; runs the notebooks; a warning is an error
	$(BIN)/sphinx-build -E -W --keep-going -q -b html docs docs/_build/html
	@echo "docs: open docs/_build/html/index.html"

bench: $(FOR_TEST)  ## measure this machine: kernels, partitioners, staleness
	$(BIN)/python -m benchmarks

clean:  ## remove what the other targets made
	rm -rf .venv build dist *.egg-info docs/_build docs/api/generated docs/notebooks $(OUT)
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(FOR_DEMO): pyproject.toml | $(MADE)
	$(INSTALL) '.[plot,io,progress]'
	@$(COMPILE)
	@touch $@

$(FOR_TEST): pyproject.toml | $(MADE)
	$(INSTALL) '.[all,docs,test,peers]'
	@touch $@

# Debian's python3 without python3-venv cannot put pip into a new environment; the pip outside can.
$(MADE):
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "daskpart needs Python 3.11 or newer, and found none (PYTHON='$(PYTHON)')." >&2; \
		echo "Install one, or name it: make $(or $(MAKECMDGOALS),demo) PYTHON=/path/to/python3.12" >&2; exit 1; }
	@rm -rf .venv; '$(PYTHON)' -m venv .venv >/dev/null || { \
		rm -rf .venv; '$(PYTHON)' -m venv --without-pip .venv && \
		'$(PYTHON)' -m pip --quiet --python $(BIN)/python install pip; }
	@touch $@
