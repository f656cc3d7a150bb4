"""Resolves the names of variants and workloads in an option, and the words that stand for many names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from interlock.catalog.types import split_label
from interlock.catalog.variants import Variant
from interlock.catalog.workloads import Workload
from interlock.errors import UsageError, nearest, require_known

# Stands for all names.
EVERYTHING = "all"
# Stands for the names that are declared `core`.
CORE = "core"
WORDS = (EVERYTHING, CORE)


def select_names(
    known: Mapping[str, Variant] | Mapping[str, Workload], wanted: list[str] | None, kind: str, key: str = ""
) -> list[str]:
    """Return the wanted names in the order given, or all known ones; UsageError for one that does not exist."""
    if wanted == [CORE]:
        wanted = [name for name, declared in known.items() if declared.core]
    if not wanted or wanted == [EVERYTHING]:
        return list(known)
    for name in wanted:
        require_known(known, name, kind, key)
    return list(dict.fromkeys(wanted))


def named_benchmark(known: Mapping[str, Workload], text: str, key: str = "") -> tuple[str, str]:
    """Return the workload and the benchmark that WORKLOAD/BENCHMARK names; UsageError for what does not exist.

    Before it is measured, it is not known which benchmarks a program lists.
    """
    workload, slash, benchmark = text.partition("/")
    require_known(known, workload, "workload", key)
    benchmarks = [declared.name for declared in known[workload].benchmarks]
    if not benchmarks:
        file = known[workload].file
        raise UsageError(
            key=key,
            found=f"'{text}' names a benchmark that only the program of {workload} knows",
            todo=f"Name {workload} for all of them, or list those to measure as [[benchmarks]] in {file}.",
        )
    if not slash:
        todo = f"Write it as {workload}/{benchmarks[0]}. {nearest('', benchmarks)}"
        raise UsageError(key=key, found=f"'{text}' names no benchmark", todo=todo)
    require_known(benchmarks, benchmark, f"benchmark of {workload}", key)
    return workload, benchmark


def select_benchmarks(known: Mapping[str, Workload], wanted: Sequence[str], key: str = "") -> dict[str, list[str]]:
    """Return the benchmarks that are named as WORKLOAD/BENCHMARK, in their workload's order, by workload.

    A workload named without a benchmark is measured whole. UsageError for a name that does not exist.
    """
    named: dict[str, set[str]] = {}
    for workload, benchmark in (named_benchmark(known, text, key) for text in wanted if "/" in text):
        named.setdefault(workload, set()).add(benchmark)
    return {
        name: [declared.name for declared in known[name].benchmarks if declared.name in names]
        for name, names in named.items()
        if name not in wanted
    }


def select_labels(variants: Mapping[str, Variant], wanted: list[str] | None, key: str = "") -> list[str]:
    """Return the wanted VARIANT and VARIANT+MODE labels in the order given, or every variant with all of its modes.

    Raises UsageError for a variant or a mode that does not exist.
    """
    every = [label for variant in variants.values() for label in variant.labels]
    if wanted == [CORE]:
        return [label for variant in variants.values() for label in variant.core_labels] or every
    wanted = None if wanted == [EVERYTHING] else wanted
    for label in wanted or []:
        name, mode = split_label(label)
        require_known(variants, name, "variant", key)
        modes = [declared.name for declared in variants[name].modes]
        if mode is not None and mode not in modes:
            todo = nearest(mode, modes) if modes else "It has no modes."
            raise UsageError(key=key, found=f"{name} has no mode '{mode}'", todo=todo)
    return list(dict.fromkeys(wanted or every))


def word_for(chosen: list[str], select: Callable[[list[str]], list[str]]) -> str:
    """Return the word for which `select` returns these names; empty if there is none."""
    return next((word for word in WORDS if chosen == select([word])), "")
