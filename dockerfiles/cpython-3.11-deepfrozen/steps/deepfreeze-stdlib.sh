#!/bin/sh
# Makes a CPython 3.11 source tree, patched with cpython-3.11-deepfreeze-all.patch, compile its whole pure-Python
# standard library into the interpreter as C data. Runs in the source tree before configure; needs a python3 of any
# recent version, because what generates the makefile's rules runs before the interpreter exists.
set -eu

# Walks Lib/ and writes a rule for each module into Makefile.pre.in and an entry into Python/frozen.c. The compiling
# itself is make's, by the bootstrap interpreter: only that one compiles to 3.11's byte code.
PYTHONDONTWRITEBYTECODE=1 python3 Tools/scripts/freeze_modules.py

count=$(grep -c 'GET_CODE(.*)},$' Python/frozen.c)
echo "interlock: $count entries in the table of frozen modules"
# Stock has 28: as few mean that the patch is missing, and the image would only look deep-frozen.
[ "$count" -gt 100 ] || { echo "interlock: deepfreeze-stdlib.sh: the source tree lacks its patch" >&2; exit 65; }

# The build silences Lib/compileall.py while it installs: with this dependency make would freeze the silenced one, and
# `python -m compileall` would do nothing.
sed -i 's|^\(Python/frozen_modules/compileall\.h:\) Lib/compileall\.py |\1 |' Makefile.pre.in
grep -q '^Python/frozen_modules/compileall\.h: \$(FREEZE_MODULE_DEPS)$' Makefile.pre.in
