"""Files of pyperf's format that Interlock wrote -> values by benchmark. Pure.

pyperf reads them as well and says the same (a test holds that). This takes a quarter of its time, which counts where
many hosts have 80,000 of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json

from interlock.model import BenchmarkValues, Gil

VERSION = "1.0"


def parse(text: bytes) -> dict[str, BenchmarkValues]:
    """The benchmarks of a cell by name (without the workload's); ValueError or the like for any other file."""
    suite = from_json(text)
    if suite["version"] != VERSION:
        raise ValueError(f"version {suite['version']!r} of pyperf's format is not {VERSION}")
    if not suite["benchmarks"]:
        raise ValueError("it has no benchmark")
    shared = suite.get("metadata", {})
    return dict(_benchmark(one, {**shared, **one.get("metadata", {})}) for one in suite["benchmarks"])


def _benchmark(benchmark: Mapping[str, Any], shared: Mapping[str, Any]) -> tuple[str, BenchmarkValues]:
    """Metadata that all runs have in common stand once, with the benchmark or with the suite."""
    runs = [run for run in benchmark["runs"] if run.get("values")]
    metadata = [{**shared, **run.get("metadata", {})} for run in runs]
    gil = {"true": Gil.ON, "false": Gil.OFF}.get(str(metadata[-1].get("interlock_gil_enabled")))
    return shared["name"].split(" ", 1)[1], BenchmarkValues(
        processes=[run["values"] for run in runs],
        user_s=[data["interlock_process_user_s"] for data in metadata],
        sys_s=[data["interlock_process_sys_s"] for data in metadata],
        units=[data["loops"] * data["inner_loops"] for data in metadata],
        max_rss_bytes=max(data["mem_max_rss"] for data in metadata),
        gil_after=gil,
    )
