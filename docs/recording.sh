#!/bin/sh
# What docs/recording.svg shows: `nox -s recording` runs it in a terminal of its own, with the images there.
set -eu
say() { printf '\033[1m$ %s\033[0m\n' "$*"; sleep 1; "$@"; sleep 4; echo; }

say interlock matrix --quick --no-profile --rounds 3 --variants cpython-3.13,cpython-3.14 --workloads startup
# The pick is from that experiment.
say interlock pick --cpus 2
say interlock swap examples/services/httpbin/Dockerfile --to cpython-3.14
