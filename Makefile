# Everything runs from a fresh clone: the environment is made on first use and reused afterwards.
PYTHON ?= python3
VENV := .venv

.PHONY: demo test test-slow test-flower test-deploy test-faults test-adapters test-wheel coverage reproduce bench picture screenshot captures docs

demo: $(VENV)/.demo  ## the main job on the embedded data set, stopped by the rule
	$(VENV)/bin/fedhalt run --data digits --clients 20 --cohort 5 --skew dirichlet --c 0.5 --lr 0.05 \
		--rule growth,val-loss,val-accuracy --average 10 --out runs
	@echo
	@echo "The command is $(VENV)/bin/fedhalt; 'source $(VENV)/bin/activate' makes it plain fedhalt."
	@echo "Try: $(VENV)/bin/fedhalt replay runs/ --threshold 0.005,0.01,0.05 --patience 5,10"

test: $(VENV)/.dev $(VENV)/light  ## lint, format, types, tests
	scripts/check
	scripts/test
	scripts/test-light

test-slow: $(VENV)/.dev  ## the suites that take minutes
	scripts/test -m slow

test-flower: $(VENV)/.dev  ## every strategy and method on Ray actors, then all Flower tests with the oldest and the newest flwr
	scripts/test -m flower
	scripts/test-flower-oldest
	scripts/test-flower-newest

test-deploy: $(VENV)/.dev  ## a real Flower deployment on 127.0.0.1: SuperLink, SuperNodes, kills, TLS
	scripts/test -m deploy --durations 0 tests/integrations/test_flower_deploy.py

test-faults: $(VENV)/.dev  ## kills, injected errors, power cuts, flipped bits: under 15 minutes
	scripts/test -m faults -n 2

test-adapters: $(VENV)/.dev  ## the adapters against the real frameworks, each in its own environment where it needs one
	scripts/test-adapters

test-wheel: $(VENV)/.dev  ## the wheel outside the checkout: run, replay, report, stopbench, reproduce; the same files as in docs/results
	scripts/test-wheel

coverage: $(VENV)/.dev  ## the tests of `make test`, and which lines of fedhalt/ they ran: a table, and htmlcov/
	PYTEST_ADDOPTS="--cov --cov-report=term:skip-covered --cov-report=html" scripts/test

reproduce: $(VENV)/.dev  ## every table and figure of the paper into results/, from the recorded rows (training: fedhalt reproduce all)
	$(VENV)/bin/fedhalt reproduce all --recorded

bench: $(VENV)/.dev  ## the distance against the memory bandwidth; a round against a tight loop and Flower; the wrapper's share; a look of watch
	$(VENV)/bin/python benchmarks/criterion.py
	$(VENV)/bin/python benchmarks/round.py
	$(VENV)/bin/python benchmarks/race.py --without pfl pfl-single
	$(VENV)/bin/python benchmarks/flower.py
	$(VENV)/bin/python benchmarks/watch.py
	$(VENV)/bin/python benchmarks/judging.py
	$(VENV)/bin/python benchmarks/durability.py
	$(VENV)/bin/python benchmarks/shipping.py

picture: $(VENV)/.dev  ## the picture in the README
	$(VENV)/bin/python examples/digits.py --picture docs/pictures/digits.png

screenshot: $(VENV)/.dev  ## the pictures of the report and of watch, in a real Chromium
	scripts/screenshot

captures: $(VENV)/.dev  ## what commands show at 80 and 120 columns, and pictures of the page, into docs/captures/
	scripts/captures

docs: $(VENV)/.dev  ## the documentation site into site/, links checked
	scripts/docs

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	scripts/install '.[sim]'
	touch $@

$(VENV)/.dev: pyproject.toml requirements-dev.txt | $(VENV)/bin/python
	scripts/install '.[all]' -r requirements-dev.txt
	touch $@ $(VENV)/.demo

$(VENV)/light: pyproject.toml requirements-dev.txt | $(VENV)/bin/python  ## the base install without torch, for its own tests
	rm -rf $@
	$(PYTHON) -m venv $@
	VENV=$@ scripts/install . -c requirements-dev.txt pytest hypothesis
	touch $@
