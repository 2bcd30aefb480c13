# Everything runs from a fresh clone: the environment is made on first use and reused afterwards.
PYTHON ?= python3
VENV := .venv

.PHONY: demo test test-slow bench picture

demo: $(VENV)/.demo  ## the main job on the embedded data set, stopped by the rule
	$(VENV)/bin/python examples/digits.py

test: $(VENV)/.dev  ## lint, format, types, tests
	scripts/check
	scripts/test
	scripts/test-light $(PYTHON)

test-slow: $(VENV)/.dev  ## the suites that take minutes
	scripts/test -m slow

bench: $(VENV)/.dev  ## the distance against torch.norm and the memory bandwidth
	$(VENV)/bin/python benchmarks/criterion.py

picture: $(VENV)/.dev  ## the picture in the README, drawn from the demo's own record
	$(VENV)/bin/python examples/digits.py --picture docs/pictures/digits.png

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	scripts/install . scikit-learn
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	scripts/install '.[dev]'
	touch $@ $(VENV)/.demo
