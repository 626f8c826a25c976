# Every target sets up what it needs first (scripts/setup.sh; nothing the second time).
# Values given on the command line are passed on: make demo QUICK=1 TOKENS=8

PYTHON_RUN = PYTHONHASHSEED=0 .venv/bin/python
JALAPENO = PYTHONHASHSEED=0 .venv/bin/jalapeno
JOBS ?= 2
ARGS ?=

.DEFAULT_GOAL = help
.PHONY: help setup demo test nightly figures pictures lint clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1|/p' Makefile | awk -F'|' '{printf "make %-9s %s\n", $$1, $$2}'

setup:  ## .venv with all packages; the other targets do this themselves
	@sh scripts/setup.sh

demo: setup  ## a language model answers, its products computed by the RTL (QUICK=1: two layers)
	@$(JALAPENO) demo $(if $(filter-out 0,$(QUICK)),--quick) $(if $(PROMPT),--prompt "$(PROMPT)") \
		$(if $(TOKENS),--tokens $(TOKENS)) $(if $(MODE),--mode $(MODE)) \
		$(if $(VIEW),--view $(VIEW)) $(ARGS)

test: setup lint  ## all checks that have to hold (ARGS="-k name" selects)
	@$(PYTHON_RUN) -m pytest -n $(JOBS) --dist worksteal --durations=15 $(ARGS)

nightly: setup  ## the long runs as well
	@$(PYTHON_RUN) -m pytest -n $(JOBS) --dist worksteal --durations=30 -m "nightly or not nightly" \
		--timeout 14400 $(ARGS)

figures: setup  ## measure every figure, write figures.json and the table in README.md
	@$(JALAPENO) figures $(ARGS)

pictures: setup  ## draw the pictures of docs/ again, from real runs
	@$(PYTHON_RUN) -m scripts.pictures

lint: setup  ## style check
	@.venv/bin/ruff check --quiet --output-format concise .

clean:  ## remove builds, runs and reports, keep .venv
	@rm -rf .build runs .pytest_cache .ruff_cache
