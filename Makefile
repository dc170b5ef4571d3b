# Every target does all of its own set-up: the first call makes .venv and installs what it needs, later calls
# start at once. Paths are relative and tools run as modules, so the clone may sit in any folder.
PYTHON  ?= python3
PY      := .venv/bin/python
WORKERS ?= 2
# torch (oracle) answers in tests only; without it the tests that ask it are skipped by name.
EXTRAS  ?= dev,oracle,demo,bench

.DEFAULT_GOAL := help
.PHONY: help demo test lint format bench clean

help:
	@echo "make demo    train, compile and run a model"
	@echo "make test    ruff, mypy and the whole test suite"
	@echo "make lint    ruff and mypy alone"
	@echo "make format  put the code in the project's format"
	@echo "make bench   measure against numpy, torch and onnxruntime"
	@echo "make clean   remove .venv and everything built"

demo: .venv/.for-demo
	$(PY) examples/demo.py

test: lint
	$(PY) -P -m pytest -n $(WORKERS)

# mypy names a module after its folders, and the root folder has whatever name it was cloned under:
# .venv/typed/tapecast is a second name for the root.
lint: .venv/.for-test
	$(PY) -P -m ruff check .
	$(PY) -P -m ruff format --check .
	MYPYPATH=.venv/typed $(PY) -P -m mypy -p tapecast

format: .venv/.for-test
	$(PY) -P -m ruff check --fix .
	$(PY) -P -m ruff format .

bench: .venv/.for-test
	@set -e; for file in $$(grep -l __main__ benchmarks/*.py); do echo "== $$file"; $(PY) $$file; done

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/.made:
	$(PYTHON) -m venv .venv
	mkdir -p .venv/typed
	ln -sfn ../.. .venv/typed/tapecast
	touch $@

.venv/.for-test: .venv/.made pyproject.toml
	$(PY) -m pip install --quiet -e '.[$(EXTRAS)]'
	touch $@ .venv/.for-demo

.venv/.for-demo: .venv/.made pyproject.toml
	$(PY) -m pip install --quiet -e '.[demo]'
	touch $@
