#!/bin/sh
# Installs the tools that evalspec is measured against into a venv of their own, benchmarks/.peers (about 870 MB, most
# of it what ranx needs). Optional: without it the benchmarks say what they left out.
set -eu
cd "$(dirname "$0")"
"${PYTHON:-python3}" -m venv .peers
.peers/bin/pip install --quiet --disable-pip-version-check deepeval==4.3.1 pydantic-evals==2.62.0 httpx ranx==0.3.21
.peers/bin/pip list --disable-pip-version-check 2>/dev/null | grep -E '^(deepeval|pydantic-evals|httpx|ranx|numba) '
