#!/bin/sh
# What docs/recording.svg shows: run by `nox -s recording` in a terminal of its own, in a copy of examples/datasette.
set -eu
say() { printf '\033[1m$ %s\033[0m\n' "$*"; sleep 1; "$@"; sleep 2; }

say interlock matrix --quick --no-profile --variants cpython-3.13,cpython-3.14,cpython-3.14t --workloads startup --rounds 3
say interlock pick --workload startup
say interlock swap examples/datasette/Dockerfile --to cpython-3.14 --paths --profile standard
