# Everything runs from a fresh clone: the environment is made on first use and reused afterwards.
PYTHON ?= python3
VENV := .venv

.PHONY: demo test test-slow test-flower test-deploy reproduce bench picture screenshot docs

demo: $(VENV)/.demo  ## the main job on the embedded data set, stopped by the rule
	$(VENV)/bin/fedhalt run --data digits --clients 20 --cohort 5 --skew dirichlet --c 0.5 --lr 0.05 \
		--watch growth val-loss val-accuracy --out runs

test: $(VENV)/.dev $(VENV)/light  ## lint, format, types, tests
	scripts/check
	scripts/test
	scripts/test-light

test-slow: $(VENV)/.dev  ## the suites that take minutes
	scripts/test -m slow

test-flower: $(VENV)/.dev  ## every strategy and method on Ray actors, then all Flower tests with the oldest flwr
	scripts/test -m flower
	scripts/test-flower-oldest

test-deploy: $(VENV)/.dev  ## a real Flower deployment on 127.0.0.1: SuperLink, SuperNodes, kills, TLS
	scripts/test -m deploy --durations 0 tests/test_flower_deploy.py

reproduce: $(VENV)/.dev  ## every table and figure of the paper, from the recorded rows (training: fedhalt reproduce all)
	$(VENV)/bin/fedhalt reproduce all --recorded

bench: $(VENV)/.dev  ## the distance against the memory bandwidth; a round against a tight loop and Flower; the wrapper's share
	$(VENV)/bin/python benchmarks/criterion.py
	$(VENV)/bin/python benchmarks/round.py --without pfl
	$(VENV)/bin/python benchmarks/flower.py

picture: $(VENV)/.dev  ## the picture in the README
	$(VENV)/bin/python examples/digits.py --picture docs/pictures/digits.png

screenshot: $(VENV)/.dev  ## the picture of the report, in a real Chromium
	scripts/screenshot

docs: $(VENV)/.dev  ## the documentation site into site/, links checked
	scripts/docs

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	scripts/install '.[sim]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	scripts/install '.[dev]'
	touch $@ $(VENV)/.demo

$(VENV)/light: pyproject.toml | $(VENV)/bin/python  ## the base install without torch, for its own tests
	rm -rf $@
	$(PYTHON) -m venv $@
	VENV=$@ scripts/install . pytest hypothesis
	touch $@
