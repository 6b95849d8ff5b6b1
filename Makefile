# make demo    virtual environment, install, the main job on an embedded default: embeddings, scores, pictures in ./demo
# make test    virtual environment, install, style, types and every test, with branch coverage
# make check   the fast part: style, types, quick tests
# make fuzz    ten thousand hostile inputs, settings, run folders and signals (CASES=, SEED=, FUZZER=)
# make format  rewrite the code in the house style
# make bench   seconds and memory of a training step, general path against fast path
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# Two processes of one thread each: small cases gain nothing from more threads.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

CASES ?= 10000

.PHONY: demo test check fuzz format bench clean

$(INSTALLED): pyproject.toml constraints.txt src/graphlatent/_version.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(INSTALLED)
	$(BIN)/graphlatent demo --out demo --overwrite

test: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST) --cov --cov-report=term

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST) -q -m "not slow"

fuzz: $(INSTALLED)
	PYTHONPATH=src:tests $(BIN)/python -m fuzz.run --cases $(CASES) $(SEED:%=--seed %) $(FUZZER:%=--fuzzer %)

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED)
	$(BIN)/python benchmarks/step_node.py --shapes photo,computers,cs

clean:
	rm -rf $(VENV) demo dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
