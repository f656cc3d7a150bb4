"""A variant's file: where its interpreter comes from, its proof, tags, modes."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from interlock.catalog import project as catalogs
from interlock.catalog.variants import Proof, SourceKind, VariantFile
from tests.builders import (
    ARCHIVE,
    FROM_ARCHIVE,
    FROM_IMAGE,
    FROM_PACKAGES,
    FROM_PREFIX,
    ROOT,
    make_download,
    make_library,
    make_release,
    make_source,
    make_variant,
)

KINDS: dict[str, dict[str, Any]] = {"image": FROM_IMAGE, "prefix": FROM_PREFIX, "packages": FROM_PACKAGES}
FINISH = {"steps": ["zip-stdlib.sh"]}
LIBRARY = make_library()
SHARED: dict[str, Any] = {"build_of": "cpython-3.14", "interpreter": None}


@pytest.mark.parametrize(("key", "changes"), KINDS.items(), ids=list(KINDS))
def test_a_variant_is_of_the_kind_of_its_one_source_and_builds_nothing_else(key: str, changes: dict[str, Any]) -> None:
    variant = make_variant(**changes)
    assert variant.kind is SourceKind(key)
    assert (variant.parts, variant.downloads) == ([], [])
    assert make_variant().kind is SourceKind.SOURCE


def test_an_archive_is_a_kind_of_its_own_with_a_download_for_each_machine() -> None:
    variant = make_variant(**FROM_ARCHIVE)
    assert variant.kind is SourceKind.ARCHIVE
    assert (variant.parts, variant.downloads, variant.fetched) == ([], [], [*variant.archives.values()])
    assert {name: (one.file, one.sha256, one.places) for name, one in variant.archives.items()} == {
        name: (
            f"python-{name}.tar.gz",
            digit * 64,
            [f"https://example.org/{name}/python-{name}.tar.gz", f"http://example.net/python-{name}"],
        )
        for name, digit in (("x86_64", "c"), ("aarch64", "d"))
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("file", "python.tar.gz"),
        ("file", "../{machine}"),
        ("sha256", {}),
        ("sha256", {"sparc": "c" * 64}),
        ("sha256", {"x86_64": "c"}),
        ("places", []),
        ("places", ["file:///{machine}"]),
        ("places", ["https://example.org/{other}"]),
        ("places", ['https://example.org/{machine}"']),
    ],
)
def test_an_archive_that_is_declared_wrongly_is_refused(key: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=f"archive.{key}"):
        make_variant(interpreter=None, prefix={"places": ["/opt"], "archive": {**ARCHIVE, key: value}})


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"interpreter": None}, "none"),
        ({"image": FROM_IMAGE["image"]}, "interpreter and image"),
        ({**FROM_IMAGE, **FROM_PREFIX}, "image and prefix"),
        ({"build_of": "cpython-3.14", "finish": FINISH}, "interpreter and build_of"),
    ],
)
def test_an_interpreter_that_comes_from_no_place_or_from_two_is_refused(changes: dict[str, Any], found: str) -> None:
    expected = f"exactly one of interpreter, image, prefix, packages, build_of is needed, found {found}"
    with pytest.raises(ValidationError, match=expected):
        make_variant(**changes)


@pytest.mark.parametrize("kind", [*KINDS, "build_of"])
@pytest.mark.parametrize(
    ("key", "value"),
    [("libraries", [LIBRARY]), ("build_packages", ["clang"]), ("optimise", {"configure": ["--with-lto"]})],
)
def test_what_only_a_build_has_is_refused_where_nothing_is_built(kind: str, key: str, value: Any) -> None:
    changes = {**SHARED, "finish": FINISH} if kind == "build_of" else KINDS[kind]
    with pytest.raises(ValidationError, match=rf"{key}.*\[interpreter\].*{kind}"):
        make_variant(**{**changes, key: value})


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_is_built_is_finished(kind: str) -> None:
    with pytest.raises(ValidationError, match=rf"finish.*\[interpreter\].*{kind}"):
        make_variant(**KINDS[kind], finish=FINISH)


def test_a_variant_that_shares_a_build_says_what_it_does_otherwise() -> None:
    with pytest.raises(ValidationError, match=r"build_of needs \[finish\]"):
        make_variant(**SHARED)
    assert make_variant(**SHARED, finish=FINISH).kind is SourceKind.SOURCE


def test_a_variant_at_one_of_its_versions_has_that_source_and_no_fallback() -> None:
    source = make_source(configure=["--with-lto"], patches=["a.patch"])
    variant = make_variant(interpreter=source, fallbacks=[make_release("3.13.0", sha256="c" * 64)])
    assert variant.versions == ["3.13.1", "3.13.0"]
    older = variant.at("3.13.0")
    assert older.interpreter is not None
    assert (older.version, older.versions, older.interpreter.sha256) == ("3.13.0", ["3.13.0"], "c" * 64)
    assert (older.interpreter.configure, older.interpreter.patches) == (["--with-lto"], ["a.patch"])
    assert variant.at("3.13.1") == variant.at("") == variant.model_copy(update={"fallbacks": []})


def test_libraries_are_fetched_first_and_what_the_finish_needs_last() -> None:
    finish = {**FINISH, "downloads": [make_download("wheel.whl")]}
    variant = make_variant(finish=finish, libraries=[LIBRARY])
    assert [part.file for part in variant.downloads] == ["pth.tgz", "Python-3.13.1.tgz", "wheel.whl"]
    assert [part.file for part in variant.parts] == ["pth.tgz", "Python-3.13.1.tgz"]


@pytest.mark.parametrize("key", ["steps", "places", "names"])
def test_a_list_that_says_where_from_or_what_to_do_is_not_empty(key: str) -> None:
    empty: dict[str, dict[str, Any]] = {
        "steps": {"finish": {"steps": []}},
        "places": {"prefix": {"places": []}, "interpreter": None},
        "names": {"packages": {"names": [], "python": "/usr/bin/python3"}, "interpreter": None},
    }
    with pytest.raises(ValidationError) as caught:
        make_variant(**empty[key])
    assert [(one["type"], one["loc"][-1]) for one in caught.value.errors()] == [("too_short", key)]


@pytest.mark.parametrize("level", ["-O", "O3", "-O33", "", "none"])
def test_a_level_of_optimisation_is_one_that_a_compiler_has(level: str) -> None:
    with pytest.raises(ValidationError, match="optimisation"):
        Proof.model_validate({"thread_flavour": "none", "gil": "on", "optimisation": level})


@pytest.mark.parametrize(
    ("tag", "version", "implementation", "expected"),
    [
        ("3.14t", "3.14.4", "cpython", "3.14t"),
        ("3.14-tailcall", "3.14.4", "cpython", "3.14"),
        ("nogil-3.9", "3.9.10", "cpython", "3.9"),
        ("3.11-pypy", "3.11.11", "pypy", "pypy3.11"),
    ],
)
def test_uv_is_asked_for_the_build_by_its_version(tag: str, version: str, implementation: str, expected: str) -> None:
    variant = make_variant(tag=tag, version=version)
    proof = variant.proof.model_copy(update={"implementation": implementation})
    assert variant.model_copy(update={"proof": proof}).uv_request == expected


def test_the_name_is_not_a_key_of_a_variants_file() -> None:
    with pytest.raises(ValidationError, match="name"):
        VariantFile.model_validate(make_variant().model_dump())


@pytest.mark.parametrize(("flavour", "library"), [("none", "libc.so.6"), ("pthread", None), ("gnu-pth", None)])
def test_a_proof_names_a_thread_library_exactly_if_there_are_threads(flavour: str, library: str | None) -> None:
    with pytest.raises(ValidationError, match="thread_library"):
        Proof.model_validate({"thread_flavour": flavour, "gil": "on", "thread_library": library})


def test_a_variant_is_ordered_plain_and_in_each_of_its_modes() -> None:
    modes = [{"name": "slow", "summary": "slowly"}, {"name": "loud", "summary": "loudly"}]
    assert make_variant("a", modes=modes).labels == ["a", "a+slow", "a+loud"]
    assert make_variant("a").labels == ["a"]


@pytest.mark.parametrize("name", ["a+b", "", "A", "a b", "a/b"])
def test_the_name_of_a_mode_is_a_folder_name_without_a_plus(name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        make_variant(modes=[{"name": name, "summary": "a mode"}])
    assert {one["type"] for one in caught.value.errors()} == {"string_pattern_mismatch"}


def test_what_optimised_an_interpreter_is_its_builds_or_what_its_file_says_of_others() -> None:
    known = catalogs.load(ROOT).variants
    assert known["cpython-2.5"].optimisations == []
    for name in ("cpython-3.13", "cpython-3.13-zip", "debian-3.13", "official-3.13"):
        assert known[name].optimisations == ["PGO", "LTO"]
    assert known["pypy-3.11"].optimisations is None


def test_what_is_built_here_cannot_say_how_others_built_it() -> None:
    with pytest.raises(ValueError, match="optimised_by"):
        make_variant(optimised_by=["PGO"])


def test_every_key_is_one_that_a_signature_names() -> None:
    named = {one.signature.key for one in catalogs.load(ROOT).sources.sources.values() if one.signature}
    assert {path.name for path in (ROOT / "variants/keys").iterdir()} == named
