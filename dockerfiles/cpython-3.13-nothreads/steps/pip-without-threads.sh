#!/bin/sh
# Tells pip to draw no progress bar, whose drawing is a thread: without this, pip of an interpreter that cannot start
# one ends with "can't start new thread" at its first download of more than 40 kB. Run on $PREFIX. A virtual environment
# reads a pip.conf of its own; there it takes PIP_PROGRESS_BAR=off.
set -eu
: "${PREFIX:=/usr/local}"

printf '[global]\nprogress-bar = off\n' > "$PREFIX/pip.conf"
