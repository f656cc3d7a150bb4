"""Is the built image what its file declares? The interpreter is asked; nothing is believed."""

from __future__ import annotations

from importlib.resources import files
from pathlib import PurePosixPath

from interlock.catalog.variants import Variant
from interlock.errors import BuildError
from interlock.results.experiments import Facts, Subject

QUESTION = files("interlock.engine").joinpath("inside/facts.py").read_text(encoding="utf-8")


def parse_facts(output: str) -> Facts:
    """Read the lines `key=value` that inside/facts.py prints."""
    pairs = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
    return Facts.model_validate(
        {
            **pairs,
            "loaded_libraries": pairs.get("loaded_libraries", "").split(),
            "thread_error": pairs.get("thread_error") or None,
        }
    )


def no_answer(said: bytes | str, where: str) -> BuildError:
    """Return the error of an interpreter that did not say what it is; `said` is what it printed instead."""
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    return BuildError(
        file=where,
        found=f"the built interpreter does not answer: {' '.join(text.strip().splitlines()[-1:])}",
        todo="See the build's log (`interlock build` names it).",
    )


def contradictions(variant: Variant, facts: Facts) -> list[tuple[str, str, str]]:
    """Return (key, declared, found) for each declaration that the image contradicts."""
    proof = variant.proof
    checks = [
        ("version", variant.version, facts.version.rstrip("+")),
        ("proof.implementation", proof.implementation, facts.implementation),
        ("proof.thread_flavour", proof.thread_flavour.value, facts.thread_flavour.value),
        ("proof.gil", proof.gil.value, facts.gil.value),
    ]
    wrong = [(key, declared, found) for key, declared, found in checks if declared != found]
    if proof.thread_library is not None and proof.thread_library not in facts.loaded_libraries:
        wrong.append(("proof.thread_library", proof.thread_library, " ".join(facts.loaded_libraries)))
    if facts.optimisation != proof.optimisation:
        wrong.append(("proof.optimisation", proof.optimisation, facts.optimisation))
    return wrong


def require_proof(variant: Variant, facts: Facts) -> None:
    """Raise BuildError for the first declaration that the image contradicts."""
    for key, declared, found in contradictions(variant, facts):
        raise BuildError(
            file=f"variants/{variant.name}.toml",
            key=key,
            found=f"declared '{declared}', but the built image shows '{found}'",
            todo="Correct the build's flags, or declare what it really is.",
        )


def broken_mode(subject: Subject, facts: Facts) -> str:
    """Return why the interpreter is not in the subject's mode, or an empty text.

    The loader only warns about a library that it cannot preload, and the program goes on without it.
    """
    if subject.gil not in {None, facts.gil}:
        return f"the mode declares GIL '{subject.gil}', but the interpreter shows '{facts.gil}'"
    for library in subject.environment.get("LD_PRELOAD", "").replace(":", " ").split():
        if PurePosixPath(library).name not in facts.loaded_libraries:
            return f"the mode preloads {library}, but the loader did not take it"
    return ""
