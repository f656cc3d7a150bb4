"""What pip prints: its version, and the last words of a failure, which are quoted, not read."""

from __future__ import annotations

import re

from interlock.engine.ended import Ended

# The first pip with --report and --dry-run.
LEAST_PIP = (22, 2)
PIP_VERSION = re.compile(r"^pip (\d{1,4})\.(\d{1,4})")
WORDS = 400  # how many characters of a failure's message a table shows
# Where the output of a program that pip ran begins and ends, since pip 21.3 and before.
PROGRAM = re.compile(r"(?:╰─> \[\d{1,9} lines? of output\]|Complete output \(\d{1,9} lines?\):)\n")
PROGRAM_END = re.compile(r"^[ \t]*+(?:\[end of output\]|-{40})", re.MULTILINE)
# Error lines of compilers, linkers and their callers; the first is the cause.
COMPILER = re.compile(
    r"(: (fatal )?error: |^[Ee]rror(\[E\d+\])?: |^CMake Error|: undefined reference to |ld: cannot find |Killed signal)"
)
CALLER = re.compile(r"failed with exit code|returned non-zero exit status|subprocess-exited-with-error")
CARGO = re.compile(r"^[ \t]*+--- stderr\n\s*+(\S.*)$", re.MULTILINE)  # of a failed build script
EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Exit|Warning|NotFound)\w*(?::|$)")
CONFLICT = re.compile(r"^The conflict is caused by:\n((?:[ \t]+\S.*\n)+)", re.MULTILINE)
NOISE = re.compile(r"^(\[notice\]|note:|hint:|WARNING:|╰─>|│|\u00d7|Looking in |INFO:)|See above for output")
RETRIED = re.compile(r"^WARNING: Retrying .{1,200}? after connection broken by '(.{1,400})': /", re.MULTILINE)
# Only pip's log has such lines. 404 means that the index does not know the package.
NOT_FETCHED = re.compile(r"Could not fetch URL \S+: (?!404 )(.+?)(?: for url: .*)?(?: - skipping)?$", re.MULTILINE)


def pip_version(said: str) -> tuple[int, int] | None:
    """Return the version in the output of `pip --version`; None if it is something else."""
    version = PIP_VERSION.match(said)
    return (int(version[1]), int(version[2])) if version else None


def failure(said: Ended, deadline_s: float) -> str:
    """Return why pip, or another program, failed within its deadline; empty if it did not."""
    if said.ok:
        return ""
    return f"did not end within {deadline_s:g} s" if said.timed_out else last_words(said.stdout)


def last_words(output: str) -> str:
    """Return the lines that say why pip, or a program that it ran, failed: a few, short enough for a table."""
    if conflict := CONFLICT.search(output):
        return _shortened([f"conflict: {'; '.join(line.strip() for line in conflict[1].splitlines())}"])
    # A very long output has lost its beginning.
    starts = [start.end() for start in PROGRAM.finditer(output)] or [0] * bool(PROGRAM_END.search(output))
    said = PROGRAM_END.split(output[starts[-1] :], maxsplit=1)[0] if starts else output
    lines = [line.strip() for line in said.splitlines()]
    lines = [line for line in lines if line and not NOISE.match(line)]
    return _shortened(_of_program(said, lines) if starts else [*_of_pip(lines), *RETRIED.findall(output)[-1:]])


def _of_program(said: str, lines: list[str]) -> list[str]:
    if script := CARGO.search(said):
        return [script[1]]
    for line in lines:
        if COMPILER.search(line) and not CALLER.search(line):
            return [line]
    exceptions = [number for number, line in enumerate(lines) if EXCEPTION.match(line)]
    return lines[exceptions[-1] :][:3] if exceptions else lines[-2:]


def _of_pip(lines: list[str]) -> list[str]:
    """Return pip's last errors; the lines below the last one explain it."""
    errors = [number for number, line in enumerate(lines) if line.startswith("ERROR:")]
    if errors and errors[-1] == len(lines) - 1:
        return [lines[number] for number in errors[-2:]]
    return lines[errors[-1] :][-3:] if errors else lines[-2:]


def _shortened(lines: list[str]) -> str:
    text = " / ".join(line.removeprefix("ERROR: ") for line in lines)
    return text if len(text) <= WORDS else text[: WORDS - 3] + "..."


def not_fetched(log: str) -> str:
    """Return pip's log entry for the last page that an index should have but did not give; empty without one."""
    reasons = NOT_FETCHED.findall(log)
    return reasons[-1] if reasons else ""
