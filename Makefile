# Everything runs in a virtual environment of the checkout, with the versions of constraints.txt.
PYTHON ?= python3
# Another Python has an environment of its own: make test PYTHON=python3.13 VENV=.venv-3.13
VENV ?= .venv
UV ?= uv
SITE := build/site
BIN := $(VENV)/bin
INSTALL = .ci/install $(BIN)/python $(BIN)/python --constraint constraints.txt

.PHONY: demo demo-service test test-slow test-all faults fuzz chaos chromium postgresql shell-tools export-servers oidc-provider
.PHONY: lint ruff types types-win32 types-darwin prose check docs dist sbom constraints-check clean

demo: $(VENV)/.demo
	@if [ -n "$$OPENAI_API_KEY" ]; then \
		$(MAKE) --no-print-directory $(VENV)/.judge && \
		$(BIN)/evalspec evaluate agent.yaml.example --dataset rag-quality; \
	else \
		echo "OPENAI_API_KEY is not set: judged metrics are shown as skipped." >&2; \
		$(BIN)/evalspec evaluate agent.yaml.example --dataset rag-quality --no-judge; \
	fi

# A server with a worker, and three runs to look at. It prints a link to log in; Ctrl-C ends it.
demo-service: $(VENV)/.service
	@$(BIN)/python examples/service/demo.py

# Without bytecode the tests and each process that they start compile the package once more.
unexport PYTHONDONTWRITEBYTECODE

# One worker more than there are processors, because many tests wait: for files to be on the disk, or for a server.
ALL = $(BIN)/python -m pytest -n $$(( $$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) + 1 )) --dist worksteal

# What a contributor runs after an edit. tests/left_out.py names what it leaves out.
test: $(VENV)/.dev
	$(ALL) -m 'not slow' --hypothesis-profile quick

# With every example of the tests that `make test` ran with fewer.
test-slow: $(VENV)/.dev chromium postgresql shell-tools export-servers oidc-provider
	$(ALL) -m 'slow or hypothesis'

test-all: $(VENV)/.dev chromium postgresql shell-tools export-servers oidc-provider
	$(ALL)

# Every triple of agent fault, judge fault and gate; `make test-slow` has every pair.
faults: $(VENV)/.dev
	FAULTS=all $(BIN)/python -m pytest tests/faults

# Hostile inputs, and kills at any moment; `make test-slow` has a few of each. FUZZ_FROM and CHAOS_FROM begin elsewhere.
fuzz: export FUZZ ?= 100000
fuzz: $(VENV)/.dev
	$(BIN)/python -m pytest tests/fuzz

chaos: export CHAOS ?= 1000
chaos: $(VENV)/.dev postgresql
	$(BIN)/python -m pytest tests/chaos tests/service/test_chaos.py

# The HTML report is tested in a real browser, which comes from the system.
chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing chromium for the tests of the HTML report (once)" >&2; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends chromium; \
	else \
		echo "There is no Chromium: the tests of the HTML report in a browser are skipped, and fail where CI is set." >&2; \
		echo "On Debian: sudo apt-get update && sudo apt-get install --yes chromium" >&2; \
	fi >/dev/null

# The service is tested on a throwaway cluster of the system's PostgreSQL.
postgresql:
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing postgresql for the tests of the service (once)" >&2; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends postgresql; \
	else \
		echo "There is no PostgreSQL: the tests of the service with it are skipped, and fail where CI is set." >&2; \
		echo "On Debian: sudo apt-get update && sudo apt-get install --yes postgresql" >&2; \
	fi >/dev/null

# The commands of the documents run in the tests, and some end in jq.
shell-tools:
	@{ command -v jq && command -v curl && command -v perl; } >/dev/null || \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing jq, curl and perl for the tests of the documents (once)" >&2; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends jq curl perl; \
	else \
		echo "jq, curl or perl is missing: the tests of the documents fail." >&2; \
		echo "On Debian: sudo apt-get update && sudo apt-get install --yes jq curl perl" >&2; \
	fi >/dev/null

# Exports are tested on servers of MLflow and Phoenix, with an environment of their own in build/.
export-servers: $(VENV)/.dev
	@[ build/export-servers/.ready -nt tests/servers/export_servers.txt ] || \
	{ echo "Installing MLflow and Phoenix for the tests of exports (once)" >&2; \
		$(PYTHON) -m venv --clear --without-pip build/export-servers && \
		.ci/install $(BIN)/python build/export-servers/bin/python \
			--requirement requirements-slim.txt --requirement tests/servers/export_servers.txt && \
		touch build/export-servers/.ready; } || \
	echo "MLflow and Phoenix cannot be installed: the tests of exports on them are skipped, and fail where CI is set." >&2

# Logins are tested at a real OpenID provider, which is a package of npm.
oidc-provider: FROM := tests/servers/oidc_provider
oidc-provider: TO := build/oidc-provider
oidc-provider:
	@[ $(TO)/.ready -nt $(FROM)/package-lock.json ] || \
	{ echo "Installing oidc-provider for the tests of logins (once)" >&2; \
		{ command -v npm >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && \
			DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends nodejs npm; } >/dev/null; } && \
		mkdir -p $(TO) && cp $(FROM)/package.json $(FROM)/package-lock.json $(TO) && \
		npm ci --prefix $(TO) --ignore-scripts --no-audit --no-fund --silent && touch $(TO)/.ready; } || \
	echo "oidc-provider cannot be installed: the test of logins at it is skipped, and fails where CI is set." >&2

lint: ruff types types-win32 types-darwin prose

ruff: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

types-win32 types-darwin: types-%: $(VENV)/.dev
	$(BIN)/mypy --platform $* --cache-dir .mypy_cache/$* evalspec

prose: $(VENV)/.dev
	$(BIN)/python tests/lint_prose.py

check: lint
	$(BIN)/python -m pytest tests/test_architecture.py

# Warnings are errors. Links to files outside of docs lead to DOCS_REPOSITORY, if it is set.
docs: $(VENV)/.docs
	@$(BIN)/python -m sphinx --quiet --fresh-env --fail-on-warning --keep-going docs $(SITE)
	@echo "The documentation is in $(SITE)/index.html"

# The wheel is built from the sdist, so the sdist is complete. CONTRIBUTING.md says what comes next. The same commit gives
# the same bytes: the time of all files is that of the commit.
dist: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 946684800)
dist: $(VENV)/.dev
	rm -rf dist
	umask 022 && $(BIN)/python -m build --outdir dist .
	$(BIN)/python .ci/stable_sdist.py dist/*.tar.gz
	$(BIN)/python -m twine check --strict dist/*

# The packages of an environment with the default installation of the wheel, as CycloneDX.
sbom: $(VENV)/.dev
	@$(INSTALL) cyclonedx-bom
	$(PYTHON) -m venv --clear build/sbom
	build/sbom/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt dist/*.whl
	$(BIN)/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml --output-file dist/evalspec.cdx.json \
		build/sbom/bin/python

# Whether the pinned versions have wheels for Pythons and systems that are not at hand. uv evaluates markers for them.
# wordllama and scikit-network have no wheel for 3.14: only the slim set has to resolve there.
constraints-check: export MACOSX_DEPLOYMENT_TARGET = 14.0
constraints-check: WHEELS = $(UV) pip compile --quiet --constraint constraints.txt --only-binary :all:
constraints-check:
	@for system in x86_64-unknown-linux-gnu aarch64-apple-darwin x86_64-pc-windows-msvc; do \
		for version in 3.11 3.12 3.13; do \
			$(WHEELS) --extra all --python-version $$version --python-platform $$system pyproject.toml >/dev/null && \
				echo "$$version $$system: evalspec-runner[all]" || exit 1; \
		done; \
		$(WHEELS) --python-version 3.14 --python-platform $$system requirements-slim.txt >/dev/null && \
			echo "3.14 $$system: requirements-slim.txt" || exit 1; \
	done

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml requirements-slim.txt constraints.txt | $(BIN)/python
	@echo "Installing evalspec into $(VENV) (once)" >&2
	@$(INSTALL) --requirement requirements-slim.txt wordllama
	@$(INSTALL) --no-deps --editable .
	@touch $@

$(VENV)/.service: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing the service into $(VENV) (once)" >&2
	@$(INSTALL) --editable '.[service]'
	@touch $@

$(VENV)/.judge: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing ragas for the judged metrics (once)" >&2
	@$(INSTALL) --editable '.[all]'
	@touch $@

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Sphinx and evalspec into $(VENV) (once)" >&2
	@$(INSTALL) --editable '.[docs]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing the development environment into $(VENV) (once)" >&2
	@$(INSTALL) --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .evalspec build dist *.egg-info .hypothesis .mypy_cache .ruff_cache
