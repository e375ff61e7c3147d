# Everything happens in .venv, built from requirements.lock; nothing outside this folder is touched.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: demo test lint docs bench nightly lock clean

demo: $(READY)
	@$(BIN)/factorgraph demo

test: $(READY)
	@$(BIN)/python -m pytest

lint: $(READY)
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/basedpyright

docs: $(READY)
	@$(BIN)/mkdocs build --strict

bench: $(READY)
	@$(BIN)/python -m benchmarks

nightly: $(READY)
	@$(BIN)/python -m pytest -m nightly

# hatchling comes with the lock, so the editable install needs no isolated build environment.
$(READY): requirements.lock pyproject.toml
	@echo "Setting up .venv from requirements.lock (once; a few minutes)"
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("factorgraph needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name another: make demo PYTHON=python3.12")'
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# Needs uv; names no index, so that anyone can install from the index they use.
lock:
	uv pip compile pyproject.toml --group dev --extra distributed --extra testing --universal --python-version 3.11 \
	  --no-emit-index-url --generate-hashes --no-header --quiet -o requirements.lock

clean:
	rm -rf .venv results site
