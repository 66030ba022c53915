# What a newcomer types: make demo, make test. Everything else is for those who work on it.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
export UV_SYSTEM_CERTS := 1
export UV_PYTHON_DOWNLOADS := never

PY := .venv/bin/python
JOBS ?= 2

.PHONY: help setup servers test coverage lint demo mutants bench soak docs pictures sbom lock clean

help: ## This list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

setup: .venv/.ready ## The environment, from the hashed locks

.tools/bin/uv:
	@command -v python3 >/dev/null || { echo "python3 (3.11 or newer) is missing: apt-get install python3 python3-pip"; exit 2; }
	@python3 -m pip --version >/dev/null 2>&1 || { echo "pip is missing: apt-get install python3-pip"; exit 2; }
	python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore --target .tools --upgrade uv==0.13.7

.venv/.ready: .tools/bin/uv requirements-dev.lock pyproject.toml
	.tools/bin/uv venv -q --allow-existing --python 3.11 .venv || .tools/bin/uv venv -q --allow-existing .venv
	.tools/bin/uv pip sync -q --python $(PY) --require-hashes requirements-dev.lock
	.tools/bin/uv pip install -q --python $(PY) --no-deps --editable .
	@touch $@

servers: setup ## MariaDB, Redis, a browser and Node.js, for the tests
	@$(PY) scripts/get_servers.py

test: servers ## Gates and all tests, as CI runs them
	@$(PY) scripts/run_tests.py --jobs $(JOBS)

coverage: servers ## Which lines of the features their tests reach; at least 90 %
	@$(PY) scripts/run_tests.py --jobs $(JOBS) --only coverage

lint: setup ## The gates alone: format, ruff, types, imports, security, generated files
	@$(PY) scripts/run_tests.py --only gates

mutants: setup ## Change the features in 300 places, one at a time: do the tests notice? (MUTANT_ARGS="--draw 50")
	@$(PY) scripts/mutants.py $(MUTANT_ARGS)

demo: setup ## The whole product on loopback, embedded (DEMO_ARGS="--once --json")
	@.venv/bin/sellerwatch demo $(DEMO_ARGS)

# Scrapy and Crawlee, to be measured beside us: an environment of their own, never in our locks.
.bench/.ready: .tools/bin/uv benchmarks/others/requirements.lock
	.tools/bin/uv venv -q --allow-existing --python $(PY) .bench
	.tools/bin/uv pip sync -q --python .bench/bin/python --require-hashes benchmarks/others/requirements.lock
	@touch $@

# A fuzzer, beside the environment of the tests: they do without it.
.venv/.soak: .venv/.ready requirements-soak.lock
	.tools/bin/uv pip install -q --python $(PY) --require-hashes -r requirements-soak.lock
	@touch $@

soak: .venv/.soak ## What runs for long: fuzzing, ten minutes for each target (SOAK_ARGS="fuzz --minutes 1")
	@$(PY) scripts/soak.py $(SOAK_ARGS)

bench: setup .bench/.ready ## Measurements, side by side, 45 minutes (BENCH_ARGS="contest")
	@$(PY) benchmarks/run.py $(BENCH_ARGS)

docs: setup ## Write the generated pages anew
	@$(PY) scripts/make_lifecycles.py
	@$(PY) scripts/make_settings.py
	@$(PY) scripts/make_errors.py
	@$(PY) scripts/make_events.py
	@$(PY) scripts/make_user_agents.py

pictures: servers ## The README's pictures anew, from the demo at work
	@PYTHONPATH=. $(PY) scripts/make_pictures.py

sbom: setup ## The software bill of materials (CycloneDX), to standard output
	@$(PY) scripts/make_sbom.py

lock: .tools/bin/uv ## Resolve the locks anew (hashes inside, addresses not)
	.tools/bin/uv pip compile -q --upgrade --universal --generate-hashes --no-header --no-annotate pyproject.toml -o requirements.lock
	sed -n 's/^requires = \["\(.*\)"\]/\1/p' pyproject.toml | .tools/bin/uv pip compile -q --upgrade --universal --generate-hashes --no-header --no-annotate --python-version 3.11 - -o requirements-build.lock
	.tools/bin/uv pip compile -q --upgrade --universal --generate-hashes --no-header --no-annotate --group dev pyproject.toml -o requirements-dev.lock
	.tools/bin/uv pip compile -q --upgrade --universal --generate-hashes --no-header --no-annotate --python-version 3.11 --group soak -o requirements-soak.lock
	.tools/bin/uv pip compile -q --upgrade --universal --generate-hashes --no-header --no-annotate --python-version 3.11 benchmarks/others/requirements.in -o benchmarks/others/requirements.lock

clean: ## Everything that was made here
	rm -rf .venv .bench .tools .fuzz .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage .coverage.* .screenshots build dist
