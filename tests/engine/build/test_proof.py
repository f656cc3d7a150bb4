"""An interpreter is asked what it is, and what it says is held against what its file declares."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from interlock.catalog.variants import Gil, ThreadFlavour
from interlock.engine.build.proof import QUESTION, broken_mode, contradictions, parse_facts, require_proof
from interlock.errors import BuildError
from interlock.results.experiments import Facts, Subject
from tests.builders import make_facts, make_variant

OUTPUT = """\
version=2.7.18
implementation=cpython
thread_error=
thread_flavour=gnu-pth
gil=on
loaded_libraries=linux-vdso.so.1 libpth.so.20 libc.so.6
optimisation=-O3
"""


def test_the_lines_of_an_interpreter_become_facts() -> None:
    facts = parse_facts(OUTPUT)
    assert facts.version == "2.7.18"
    assert (facts.thread_flavour, facts.gil) == (ThreadFlavour.GNU_PTH, Gil.ON)
    assert facts.loaded_libraries == ["linux-vdso.so.1", "libpth.so.20", "libc.so.6"]
    assert facts.thread_error is None
    assert facts.optimisation == "-O3"


def test_a_thread_error_may_hold_an_equals_sign() -> None:
    facts = parse_facts(OUTPUT.replace("thread_error=", "thread_error=ImportError: x=1"))
    assert facts.thread_error == "ImportError: x=1"


@given(st.lists(st.from_regex(r"[a-z0-9.+-]{1,20}", fullmatch=True)))
def test_any_libraries_come_back(libraries: list[str]) -> None:
    line = "loaded_libraries=linux-vdso.so.1 libpth.so.20 libc.so.6"
    assert parse_facts(OUTPUT.replace(line, f"loaded_libraries={' '.join(libraries)}")).loaded_libraries == libraries


@pytest.mark.parametrize("output", ["", "Segmentation fault\n", OUTPUT.replace("gil=on", "gil=maybe")])
def test_an_interpreter_that_does_not_answer_has_no_facts(output: str) -> None:
    with pytest.raises(ValidationError):
        parse_facts(output)


def test_the_question_is_answered_by_the_python_that_runs_this() -> None:
    done = subprocess.run([sys.executable, "-c", QUESTION], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    facts = parse_facts(done.stdout)
    assert facts.version == platform.python_version()
    assert facts.implementation == sys.implementation.name
    is_gil_enabled = getattr(sys, "_is_gil_enabled", lambda: True)
    assert facts.gil is (Gil.ON if is_gil_enabled() else Gil.OFF)
    assert facts.thread_flavour in {ThreadFlavour.PTHREAD, ThreadFlavour.FREE_THREADED}
    assert facts.thread_error is None
    assert "libc.so.6" in facts.loaded_libraries
    assert facts.optimisation.startswith("-O")


def test_an_interpreter_that_cannot_start_threads_says_so() -> None:
    without = (
        "import threading\ndef refuse(self): raise RuntimeError('no threads here')\nthreading.Thread.start = refuse\n"
    )
    done = subprocess.run([sys.executable, "-c", without + QUESTION], capture_output=True, text=True, check=True)
    facts = parse_facts(done.stdout)
    assert facts.thread_flavour is ThreadFlavour.NONE
    assert facts.thread_error == "RuntimeError: no threads here"


def asked(prelude: str) -> Facts:
    """What the interpreter that runs this says of itself after the prelude has made it another one."""
    done = subprocess.run([sys.executable, "-c", prelude + QUESTION], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return parse_facts(done.stdout)


def without_header(path: str) -> str:
    return f"import sysconfig\nsysconfig.get_config_h_filename = lambda: {path!r}\n"


def test_an_interpreter_without_its_pyconfig_has_posix_threads(tmp_path: Path) -> None:
    assert asked(without_header(f"{tmp_path}/pyconfig.h")).thread_flavour is ThreadFlavour.PTHREAD


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("#define HAVE_PTH 1\n", ThreadFlavour.GNU_PTH),
        ("/* #undef HAVE_PTH */\n", ThreadFlavour.PTHREAD),
        ("#define HAVE_PTHREAD_H 1\n", ThreadFlavour.PTHREAD),
    ],
)
def test_an_interpreter_on_pth_is_known_by_its_pyconfig(tmp_path: Path, line: str, expected: ThreadFlavour) -> None:
    (tmp_path / "pyconfig.h").write_text(f"#define HAVE_ALARM 1\n{line}", encoding="utf-8")
    assert asked(without_header(f"{tmp_path}/pyconfig.h")).thread_flavour is expected


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"CC": "gcc -O2", "CFLAGS": "-g -O3"}, "-O3"),
        ({"CC": "gcc", "CFLAGS": "-O0 -Os"}, "-Os"),
        ({"CFLAGS": "-O2"}, "-O2"),
        ({"CC": "gcc"}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_the_last_level_that_the_compiler_was_told_counts_and_none_is_unknown(
    flags: dict[str, str], expected: str
) -> None:
    facts = asked(f"import sysconfig\nsysconfig.get_config_var = {flags!r}.get\n")
    assert facts.optimisation == expected


def test_another_implementation_says_its_name() -> None:
    assert asked("import sys\nsys.implementation.name = 'pypy'\n").implementation == "pypy"


@pytest.mark.parametrize("level", ["-O2", "unknown"])
def test_an_image_with_the_level_that_its_proof_names_contradicts_nothing(level: str) -> None:
    proof = {"thread_flavour": "pthread", "gil": "on", "thread_library": "libc.so.6", "optimisation": level}
    assert contradictions(make_variant(proof=proof), make_facts(optimisation=level)) == []
    assert contradictions(make_variant(proof=proof), make_facts()) == [("proof.optimisation", level, "-O3")]


def test_an_image_that_is_what_it_declares_contradicts_nothing() -> None:
    assert contradictions(make_variant(), make_facts()) == []
    require_proof(make_variant(), make_facts(version="3.13.1+"))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"version": "3.13.2"}, ("version", "3.13.1", "3.13.2")),
        ({"thread_flavour": "free-threaded"}, ("proof.thread_flavour", "pthread", "free-threaded")),
        ({"gil": "off"}, ("proof.gil", "on", "off")),
        ({"loaded_libraries": ["a.so", "b.so"]}, ("proof.thread_library", "libc.so.6", "a.so b.so")),
        ({"optimisation": "-O2"}, ("proof.optimisation", "-O3", "-O2")),
        ({"implementation": "pypy"}, ("proof.implementation", "cpython", "pypy")),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_an_image_does_not_show_is_named(changes: dict[str, Any], expected: tuple[str, str, str]) -> None:
    assert contradictions(make_variant(), make_facts(**changes)) == [expected]


def test_every_contradiction_is_found() -> None:
    facts = make_facts(
        version="1", implementation="pypy", thread_flavour="none", gil="off", loaded_libraries=[], optimisation="none"
    )
    assert [key for key, _, _ in contradictions(make_variant(), facts)] == [
        "version",
        "proof.implementation",
        "proof.thread_flavour",
        "proof.gil",
        "proof.thread_library",
        "proof.optimisation",
    ]


def test_the_first_contradiction_ends_the_build_with_its_key() -> None:
    with pytest.raises(BuildError) as caught:
        require_proof(make_variant(), make_facts(gil="off", optimisation="-O0"))
    assert str(caught.value) == (
        "variants/cpython-3.13.toml, key 'proof.gil': declared 'on', but the built image shows 'off'. "
        "Correct the build's flags, or declare what it really is."
    )


def subject(**mode: Any) -> Subject:
    return Subject(variant="cpython-2.7", image_id="sha256:1", mode="slow", **mode)


@pytest.mark.parametrize("declared", [None, Gil.ON])
def test_a_mode_with_the_gil_that_it_declares_is_what_it_says(declared: Gil | None) -> None:
    assert broken_mode(subject(gil=declared), make_facts(gil="on")) == ""


def test_a_mode_with_another_gil_than_it_declares_is_broken() -> None:
    assert broken_mode(subject(gil=Gil.ON), make_facts(gil="off")) == (
        "the mode declares GIL 'on', but the interpreter shows 'off'"
    )


@pytest.mark.parametrize("value", ["/interlock/a.so", "/interlock/a.so /interlock/b.so", "/interlock/b.so:a.so", ""])
def test_a_mode_whose_libraries_were_preloaded_is_what_it_says(value: str) -> None:
    facts = make_facts(loaded_libraries=["a.so", "b.so", "libc.so.6"])
    assert broken_mode(subject(environment={"LD_PRELOAD": value}), facts) == ""


@pytest.mark.parametrize("value", ["/interlock/c.so", "/interlock/a.so:/interlock/c.so"])
def test_a_library_that_the_loader_passed_over_breaks_its_mode(value: str) -> None:
    facts = make_facts(loaded_libraries=["a.so", "libc.so.6"])
    assert broken_mode(subject(environment={"LD_PRELOAD": value}), facts) == (
        "the mode preloads /interlock/c.so, but the loader did not take it"
    )
