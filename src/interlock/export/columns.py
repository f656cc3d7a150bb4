"""The tables of an export: each column with its type, its unit and what it says. docs/results.md shows them."""

from __future__ import annotations

from typing import Literal, NamedTuple

FORMATS = ("parquet", "csv")
Type = Literal["text", "integer", "number", "yes or no"]


class Column(NamedTuple):
    """A column is empty where there is no such figure."""

    name: str
    type: Type
    meaning: str


EXPERIMENT = (
    Column("experiment", "text", "the experiment's name; with `host` the key of `experiments`"),
    Column("host", "text", "the host's folder in the experiment's"),
)
CELL = (
    *EXPERIMENT,
    Column("variant", "text", "the variant; `limit` of what the machine does without an interpreter"),
    Column("mode", "text", "its mode, or `twin`, or a condition's or limit's name; empty if none"),
    Column("workload", "text", "the workload"),
)
BENCHMARK = (*CELL, Column("benchmark", "text", "the workload's benchmark"))
STATE = (
    Column("state", "text", "ok, failed, timed out, unsupported or unavailable"),
    Column("reason", "text", "why, if it is not ok"),
)
COMPARED = (
    ("ratio", "number", "time per unit of work divided by {}'s, geometric mean over the rounds; above 1 is slower"),
    ("low", "number", "lower end of its 95 % interval; empty of one round"),
    ("high", "number", "upper end of its 95 % interval; empty of one round"),
    ("p", "number", "that both are equal, of this ratio alone"),
    ("p_adjusted", "number", "the same, adjusted for the ratios of its table"),
    ("verdict", "text", "slower, faster or no difference; empty of the twin"),
)


def _compared(prefix: str, other: str) -> tuple[Column, ...]:
    return tuple(Column(f"{prefix}{name}", type_, meaning.format(other)) for name, type_, meaning in COMPARED)  # type: ignore[arg-type]


TABLES: dict[str, tuple[Column, ...]] = {
    "experiments": (
        *EXPERIMENT,
        Column("started", "text", "date and time, ISO 8601 with the zone"),
        Column("duration_s", "number", "seconds"),
        Column("tool_version", "text", "Interlock's version"),
        Column("profile", "text", "optimisation profile: standard or release"),
        Column("baseline", "text", "the variant that ratios are to"),
        Column("quick", "yes or no", "whether it was a quick run"),
        Column("seed", "integer", "of the rounds' order"),
        Column("cpu", "text", "the processor's model"),
        Column("cores", "integer", "how many"),
        Column("memory_bytes", "integer", "the host's memory, bytes"),
        Column("kernel", "text", "Linux's release"),
        Column("system", "text", "the operating system"),
        Column("engine", "text", "docker, or what answers in its place"),
        Column("engine_version", "text", "its version"),
        Column("storage_driver", "text", "what its images are on"),
        Column("command", "text", "what repeats the experiment"),
        Column("warnings", "integer", "how many; experiment.json has the sentences"),
    ),
    "cells": (
        *CELL,
        *STATE,
        Column("profile_state", "text", "how counting its system calls ended; empty if it was not asked for"),
        Column("profile_reason", "text", "why, if it is not ok"),
        Column("notes", "text", "what a reader must know beside the figures"),
    ),
    "values": (
        *BENCHMARK,
        Column("process", "integer", "from 0, in the order of the rounds"),
        Column("value", "integer", "from 0, within the process; warm-ups are not among them"),
        Column("seconds_per_unit", "number", "seconds per unit of work"),
        Column("units", "integer", "units of work within this value"),
        Column("process_user_s", "number", "CPU seconds of the whole process in user mode, start and exit included"),
        Column("process_sys_s", "number", "CPU seconds of the whole process in the kernel"),
    ),
    "ratios": (
        *BENCHMARK,
        *STATE,
        Column("curve", "text", "what it is a curve of with other numbers of workers; empty if it is of none"),
        Column("workers", "integer", "how many, in that curve"),
        Column("rounds", "integer", "processes that measured"),
        Column("seconds_per_unit", "number", "seconds per unit of work: median of the processes' medians"),
        Column("spread", "number", "half the range of the processes' medians, as a share of their median"),
        Column("max_rss_bytes", "integer", "the most memory that a process had, bytes"),
        Column("futex_per_unit", "number", "futex calls per unit of work, from the profile"),
        Column("share_of_limit", "number", "of what the best limit does in the same time; 1 is as much"),
        Column("share_low", "number", "lower end of its 95 % interval; empty of one round"),
        Column("share_high", "number", "upper end of its 95 % interval; empty of one round"),
        Column("band", "number", "the twin's ratio in the direction above 1: as much is noise"),
        *_compared("", "the baseline"),
        Column("control", "text", "the variant that differs in the thing under study alone"),
        *_compared("control_", "the control"),
    ),
    "details": (
        *BENCHMARK,
        Column("detail", "text", "its label, with its unit"),
        Column("of", "text", "what of the process's report it is of"),
        Column("per", "text", "what that is divided by: unit, value or process"),
        Column("process", "integer", "from 0, in the order of the rounds"),
        Column("figure", "number", "in the label's unit"),
    ),
    "curves": (
        *CELL,
        Column("curve", "text", "benchmarks that differ in the number of their workers alone"),
        Column("unit", "text", "of the throughput"),
        Column("known_to", "integer", "workers that the law was fitted to, at most; beyond it extrapolates"),
        Column("rate", "number", "throughput of one worker by the law"),
        Column("contention", "number", "the share of the work that one worker alone can do at a time"),
        Column("contention_low", "number", "lower end of its 95 % interval; empty of one round"),
        Column("contention_high", "number", "upper end of its 95 % interval; empty of one round"),
        Column("coherence", "number", "what each pair of workers costs; empty if contention cannot be told from it"),
        Column("coherence_low", "number", "lower end of its 95 % interval; empty of one round"),
        Column("coherence_high", "number", "upper end of its 95 % interval; empty of one round"),
        Column("peak_workers", "number", "where throughput is highest by the law; empty if it rises for ever"),
        Column("says", "text", "what a reader must know of the fit"),
    ),
    "profiles": (
        *BENCHMARK,
        Column("method", "text", "the probe: bpf, tracepoints, strace-futex or strace"),
        Column("phase", "text", "the part of the process's life"),
        Column("counted", "yes or no", "whether counts per unit of work are of this phase"),
        Column("units", "integer", "units of work in the profiled process"),
        Column("syscall", "text", "the system call"),
        Column("calls", "integer", "how often"),
        Column("errors", "integer", "how many of these failed"),
        Column("wall_ns", "integer", "nanoseconds in it, waiting included; empty where the probe has no times"),
        Column("longest_ns", "integer", "the longest one, nanoseconds"),
    ),
    "futex": (
        *BENCHMARK,
        Column("phase", "text", "the part of the process's life"),
        Column("operation", "text", "of the futex call, of which `profiles` has the sum"),
        Column("calls", "integer", "how often"),
        Column("errors", "integer", "how many of these failed"),
        Column("woke_nobody", "integer", "wakes for nothing"),
        Column("wall_ns", "integer", "nanoseconds in it, waiting included"),
        Column("longest_ns", "integer", "the longest one, nanoseconds"),
    ),
    "images": (
        *EXPERIMENT,
        Column("variant", "text", "the variant"),
        Column("profile", "text", "optimisation profile"),
        *STATE,
        Column("tag", "text", "the image's name in the engine"),
        Column("image_id", "text", "the engine's id of it"),
        Column("digest", "text", "what a registry knows it by; empty if none has it"),
        Column("content_hash", "text", "SHA-256 of all that went into the build"),
        Column("size_bytes", "integer", "bytes"),
        Column("base", "text", "the parent image"),
        Column("base_origin", "text", "registry or debootstrap"),
        Column("build_s", "number", "seconds that the build took"),
        Column("reused", "yes or no", "whether it was there already"),
        Column("version", "text", "what its interpreter says of itself"),
        Column("implementation", "text", "the same"),
        Column("thread_flavour", "text", "pthread, gnu-pth, none or free-threaded"),
        Column("gil", "text", "on or off"),
        Column("optimisation", "text", "the compiler's -O option"),
    ),
}
