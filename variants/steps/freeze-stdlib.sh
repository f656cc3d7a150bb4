#!/bin/sh
# Freezes all of the pure-Python standard library: run in the source tree of CPython 3.13, before configure.
# Rewrites Makefile.pre.in and Python/frozen.c by the tree's own Tools/build/freeze_modules.py with a list that is made
# from Lib/; configure and make need nothing else. Needs a python3, which only reads the tree.
set -eu

PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 python3 - <<'PYTHON'
import sys
from pathlib import Path

sys.path.insert(0, str(Path("Tools/build").resolve()))
import freeze_modules

# What the build takes out of Lib/ before `make install`, which must find each frozen source where make saw it, and
# ensurepip, which reads its wheels beside itself.
LEFT_OUT = {"test", "tests", "idlelib", "turtledemo", "tkinter", "ensurepip", "site-packages"}


def name_of(source):
    """The module that a file of Lib/ is, or None: part of no package, or left out."""
    *folders, stem = source.relative_to("Lib").with_suffix("").parts
    packages = all(Path("Lib", *folders[: depth + 1], "__init__.py").exists() for depth in range(len(folders)))
    if not packages or LEFT_OUT.intersection([*folders, stem]):
        return None
    return ".".join(folders if stem == "__init__" else [*folders, stem])


def line_of(name, source):
    """The module as FROZEN wants it: a package below a package needs its file."""
    return f"{name} : <{name}> = {source.resolve()}" if source.stem == "__init__" else name


there = {module.frozenid for module in freeze_modules.parse_frozen_specs()}
sources = {name_of(source): source for source in sorted(Path("Lib").rglob("*.py"))}
added = {name: source for name, source in sources.items() if name and name not in there}
symbols = [name.replace(".", "_") for name in [*added, *there]]
twice = sorted({symbol for symbol in symbols if symbols.count(symbol) > 1})
if twice:
    sys.exit(f"interlock: two modules would be one C symbol: {', '.join(twice)}")
freeze_modules.FROZEN.insert(-1, ("stdlib - all of it", [line_of(*module) for module in added.items()]))
freeze_modules.main()
print(f"interlock: {len(added) + len(there)} modules are frozen, {len(there)} of them in every build")
PYTHON

# The build silences Lib/compileall.py while it installs: with this dependency make would freeze the silenced one.
sed -i 's|^\(Python/frozen_modules/compileall\.h:\) Lib/compileall\.py |\1 |' Makefile.pre.in
grep -q '^Python/frozen_modules/compileall\.h: \$(FREEZE_MODULE_DEPS)$' Makefile.pre.in
