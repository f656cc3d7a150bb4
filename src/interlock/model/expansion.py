"""One benchmark of a workload's file with a list of workers -> a benchmark for each number of them. Pure."""

from __future__ import annotations

from typing import Any

WORKERS = "{workers}"


def expanded(data: Any) -> Any:
    """The data of a workload with each benchmark that has `workers` in as many copies; what is no such data as it is.

    `{workers}` in any text of the benchmark becomes the number. A limit that names the benchmark as its file does is
    the limit of all copies. ValueError for a list or a name that cannot be.
    """
    if not isinstance(data, dict) or not isinstance(data.get("benchmarks"), list):
        return data
    copies = [(one, _copies(one)) for one in data["benchmarks"]]
    found = {**data, "benchmarks": [copy for _, some in copies for copy in some]}
    if isinstance(data.get("limits"), list):
        names: dict[str, list[str]] = {}
        for one, some in copies:
            if len(some) != 1 or some[0] is not one:
                names.setdefault(one["name"], []).extend(copy["name"] for copy in some)
        found["limits"] = [_limit(one, names) for one in data["limits"]]
    return found


def _limit(limit: Any, copies: dict[str, list[str]]) -> Any:
    if not isinstance(limit, dict) or not isinstance(limit.get("benchmarks"), list):
        return limit
    named = (copies.get(one, [one]) if isinstance(one, str) else [one] for one in limit["benchmarks"])
    return {**limit, "benchmarks": [name for some in named for name in some]}


def _copies(benchmark: Any) -> list[Any]:
    if not isinstance(benchmark, dict) or "workers" not in benchmark:
        return [benchmark]
    name, workers = benchmark.get("name"), benchmark["workers"]
    if not isinstance(name, str) or WORKERS not in name:
        raise ValueError(f"benchmark '{name}' has workers, but no {WORKERS} in its name to tell its copies apart")
    counts = workers if isinstance(workers, list) else []
    if not counts or not all(type(count) is int and count > 0 for count in counts) or len(set(counts)) < len(counts):
        raise ValueError(f"benchmark '{name}' has workers = {workers!r}: expected different numbers from 1 on")
    group = name.replace(WORKERS, "").strip("-")
    wait = benchmark.get("workers_wait", False)
    rest = {key: value for key, value in benchmark.items() if key not in {"workers", "workers_wait"}}
    return [
        {**_filled(rest, str(count)), "scaling": {"name": group, "workers": count, "wait": wait}} for count in counts
    ]


def _filled(value: Any, count: str) -> Any:
    if isinstance(value, str):
        return value.replace(WORKERS, count)
    if isinstance(value, list):
        return [_filled(one, count) for one in value]
    if isinstance(value, dict):
        return {key: _filled(one, count) for key, one in value.items()}
    return value
