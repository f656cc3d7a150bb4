"""What the data types refuse, and the few things that they compute."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from interlock.model import (
    Date,
    FileName,
    Method,
    Metric,
    PinnedReference,
    Place,
    Proof,
    Sha256,
    ShellWord,
    SourceKind,
    Subject,
    VariantFile,
    Version,
    label_of,
    slug,
    split_label,
)
from interlock.model.common import AbsolutePath, MachinePath
from tests.builders import (
    FROM_IMAGE,
    FROM_PACKAGES,
    FROM_PREFIX,
    make_benchmark,
    make_download,
    make_phase,
    make_profile,
    make_source,
    make_variant,
    make_workload,
)

SHELL_WORD: TypeAdapter[str] = TypeAdapter(ShellWord)


@pytest.mark.parametrize("word", ["", "--with-pth", "-std=gnu89 -O2", "-L$PREFIX/lib -Wl,-rpath,$PREFIX/lib", "it's"])
def test_a_shell_word_may_hold_spaces_and_the_prefix(word: str) -> None:
    assert SHELL_WORD.validate_python(word) == word


@pytest.mark.parametrize(
    "word", ['a"b', "a\\b", "a`id`", "$(id)", "${PREFIX}", "$HOME", "$", "a\nb", "trailing\n", "$PREFIX$(id)"]
)
def test_a_shell_word_with_anything_the_shell_would_act_on_is_refused(word: str) -> None:
    with pytest.raises(ValidationError):
        SHELL_WORD.validate_python(word)


@pytest.mark.parametrize("word", ["$PREFIXES/lib", "$PREFIX_LIB", "$PREFIX2"])
def test_a_shell_word_that_names_another_variable_than_the_prefix_is_refused(word: str) -> None:
    with pytest.raises(ValidationError):
        SHELL_WORD.validate_python(word)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (Sha256, "0" * 64, ["0" * 63, "0" * 65, "A" * 64, "0" * 64 + "\n"]),
        (FileName, "Python-2.7.18.tgz", ["../x", "a b", "", ".hidden", "a/b"]),
        (Place, "pool/main/p/pth/pth_2.0.7.orig.tar.gz", ["pool", "file:///x", "https://a/'b'", "/pool/x"]),
        (Place, "pip/oxidized-importer==0.7.0", ["pip", "pip/", "pip/a b==1", "pip/$(id)==1", "/pip/a==1", "pip/a;b"]),
        (MachinePath, "/opt/python-3.12", ["opt", "", "/", "~", "~user/x", "$X", "$x/a", "${X}/a", "/a b", "/a\n"]),
        (AbsolutePath, "/usr/bin/python3.13", ["usr/bin", "~/bin", "$HOME/bin", "/", "/usr/$(id)", "/a b"]),
        (Date, "2029-10-31", ["2029", "2029-10", "31.10.2029", "2029-10-31T00:00"]),
        (PinnedReference, "debian:x@sha256:" + "0" * 64, ["debian:x", "debian@sha256:0", "x@sha256:" + "0" * 64 + "1"]),
        (Version, "3.14.0rc1", ["3.14", "3.14.x", "v3.14.0", "3.14.0-dev"]),
    ],
)
def test_a_text_that_is_not_of_its_kind_is_refused(kind: Any, good: str, bad: list[str]) -> None:
    adapter: TypeAdapter[str] = TypeAdapter(kind)
    assert adapter.validate_python(good) == good
    for text in bad:
        with pytest.raises(ValidationError):
            adapter.validate_python(text)


RELEASES = st.from_regex(
    r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?==[0-9]+(\.[0-9]+)*((a|b|rc)[0-9]+)?", fullmatch=True
)
FOLDERS = st.from_regex(r"[A-Za-z0-9._+-]+(/[A-Za-z0-9._+-]+)*", fullmatch=True)


@given(RELEASES)
def test_any_release_of_pips_index_is_a_place_and_none_is_without_its_scheme(release: str) -> None:
    place: TypeAdapter[str] = TypeAdapter(Place)
    assert place.validate_python(f"pip/{release}") == f"pip/{release}"
    with pytest.raises(ValidationError):
        place.validate_python(release)


@given(FOLDERS, st.sampled_from(["/", "~/", "$PYENV_ROOT/", "$X/"]))
def test_a_folder_of_this_machine_starts_at_the_root_at_home_or_at_a_variable(folder: str, start: str) -> None:
    path: TypeAdapter[str] = TypeAdapter(MachinePath)
    assert path.validate_python(start + folder) == start + folder
    with pytest.raises(ValidationError):
        path.validate_python(folder)


@given(st.text(alphabet=st.characters(), max_size=20), st.sampled_from(["/opt/", "pip/a", "pool/"]))
def test_no_place_or_folder_holds_what_a_shell_would_act_on(text: str, start: str) -> None:
    acted_on = set(text) & set(" \t\n\"'`\\;&|<>()*?[]{}!#")
    for kind in (Place, MachinePath):
        adapter: TypeAdapter[str] = TypeAdapter(kind)
        try:
            adapter.validate_python(start + text)
        except ValidationError:
            continue
        assert not acted_on
        assert "$" not in text


KINDS: dict[str, dict[str, Any]] = {"image": FROM_IMAGE, "prefix": FROM_PREFIX, "packages": FROM_PACKAGES}
FINISH = {"steps": ["zip-stdlib.sh"]}


@pytest.mark.parametrize(("key", "changes"), KINDS.items(), ids=list(KINDS))
def test_a_variant_is_of_the_kind_of_its_one_source_and_builds_nothing_else(key: str, changes: dict[str, Any]) -> None:
    variant = make_variant(**changes)
    assert variant.kind is SourceKind(key)
    assert (variant.parts, variant.downloads) == ([], [])
    assert make_variant().kind is SourceKind.SOURCE


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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("libraries", [{"name": "pth", **make_source("pth.tgz").model_dump()}]),
        ("build_packages", ["clang"]),
        ("release", {"configure": []}),
        ("finish", FINISH),
    ],
)
def test_what_only_a_build_has_is_refused_where_nothing_is_built(kind: str, key: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=rf"{key} belongs to a variant with \[interpreter\], this one has {kind}"):
        make_variant(**{**KINDS[kind], key: value})


def test_a_variant_that_shares_a_build_says_what_it_does_otherwise() -> None:
    shared: dict[str, Any] = {"build_of": "cpython-3.14", "interpreter": None}
    with pytest.raises(ValidationError, match=r"build_of needs \[finish\]"):
        make_variant(**shared)
    assert make_variant(**shared, finish=FINISH).kind is SourceKind.SOURCE


@pytest.mark.parametrize("key", ["libraries", "build_packages", "release"])
def test_a_variant_that_shares_a_build_has_none_of_its_own(key: str) -> None:
    values: dict[str, Any] = {
        "libraries": [{"name": "pth", **make_source("pth.tgz").model_dump()}],
        "build_packages": ["clang"],
        "release": {"configure": []},
    }
    with pytest.raises(ValidationError, match=f"{key} belongs to"):
        make_variant(interpreter=None, build_of="cpython-3.14", finish=FINISH, **{key: values[key]})


def test_what_the_finish_fetches_comes_after_what_is_built() -> None:
    finish = {**FINISH, "downloads": [make_download("wheel.whl")]}
    variant = make_variant(finish=finish)
    assert [part.file for part in variant.downloads] == ["Python-3.13.1.tgz", "wheel.whl"]
    assert [part.file for part in variant.parts] == ["Python-3.13.1.tgz"]


def test_a_build_is_named_after_the_variant_that_lends_it() -> None:
    assert make_variant("a").build_name == "a"
    assert make_variant("a", lender="b").build_name == "b"


@pytest.mark.parametrize("key", ["steps", "places", "names"])
def test_a_list_that_says_where_from_or_what_to_do_is_not_empty(key: str) -> None:
    empty: dict[str, dict[str, Any]] = {
        "steps": {"finish": {"steps": []}},
        "places": {"prefix": {"places": []}, "interpreter": None},
        "names": {"packages": {"names": [], "python": "/usr/bin/python3"}, "interpreter": None},
    }
    with pytest.raises(ValidationError, match="at least 1 item"):
        make_variant(**empty[key])


@pytest.mark.parametrize("level", ["-O", "O3", "-O33", "", "none"])
def test_a_level_of_optimisation_is_one_that_a_compiler_has(level: str) -> None:
    with pytest.raises(ValidationError, match="optimisation"):
        Proof.model_validate({"thread_flavour": "none", "gil": "on", "optimisation": level})


@pytest.mark.parametrize(
    ("profile", "expected"),
    [("standard", "interlock/python:3.14t-trixie"), ("release", "interlock/python:3.14t-trixie-release")],
)
def test_the_image_tag_names_the_profile_unless_it_is_the_standard_one(profile: str, expected: str) -> None:
    assert make_variant("cpython-3.14t").image_tag(profile) == expected


@pytest.mark.parametrize(("release", "expected"), [(None, ["standard"]), ({"configure": []}, ["standard", "release"])])
def test_a_variant_has_the_release_profile_if_its_file_has(release: Any, expected: list[str]) -> None:
    assert make_variant(release=release).profiles == expected


def test_libraries_are_fetched_before_the_interpreter() -> None:
    library = {"name": "pth", **make_source("pth.tgz").model_dump()}
    assert [part.file for part in make_variant(libraries=[library]).parts] == ["pth.tgz", "Python-3.13.1.tgz"]


def test_the_name_is_not_a_key_of_a_variants_file() -> None:
    with pytest.raises(ValidationError, match="name"):
        VariantFile.model_validate(make_variant().model_dump())


def test_an_inverse_metric_shows_the_scale_divided_by_the_time() -> None:
    assert Metric(label="MB/s", scale=1.0, inverse=True).shown(0.004) == 250
    assert Metric(label="ms", scale=1e3).shown(0.004) == 4


@given(st.floats(1e-9, 1e6), st.floats(1e-3, 1e9))
def test_a_metric_and_its_inverse_multiply_to_the_square_of_the_scale(seconds: float, scale: float) -> None:
    plain, inverse = Metric(label="", scale=scale), Metric(label="", scale=scale, inverse=True)
    assert plain.shown(seconds) * inverse.shown(seconds) == pytest.approx(scale**2)


def test_a_metric_without_a_scale_above_zero_is_refused() -> None:
    with pytest.raises(ValidationError, match="greater than 0"):
        Metric(label="s", scale=0)


@pytest.mark.parametrize(("flavour", "library"), [("none", "libc.so.6"), ("pthread", None), ("gnu-pth", None)])
def test_a_proof_names_a_thread_library_exactly_if_there_are_threads(flavour: str, library: str | None) -> None:
    with pytest.raises(ValidationError, match="needed unless thread_flavour is 'none'"):
        Proof.model_validate({"thread_flavour": flavour, "gil": "on", "thread_library": library})


def test_a_proof_without_threads_needs_no_library() -> None:
    assert Proof.model_validate({"thread_flavour": "none", "gil": "on"}).thread_library is None


@pytest.mark.parametrize(("program", "command"), [("locks.py", ["-c", "pass"]), (None, None)], ids=["both", "neither"])
def test_a_benchmark_runs_either_its_command_or_the_workloads_program(program: str | None, command: Any) -> None:
    with pytest.raises(ValidationError, match="benchmark 'turn' needs either"):
        make_workload(program=program, benchmarks=[make_benchmark("turn", command=command)])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("my host_1.example", "my-host-1.example"),
        ("--a--", "a"),
        ("ü", ""),
        ("cpython-3.14t+twin", "cpython-3.14t-twin"),
    ],
)
def test_a_slug_keeps_letters_digits_and_dots(text: str, expected: str) -> None:
    assert slug(text) == expected


@given(st.text())
def test_a_slug_is_its_own_slug_and_has_no_separator(text: str) -> None:
    assert slug(slug(text)) == slug(text)
    assert "/" not in slug(text)


def test_a_subject_in_a_mode_is_labelled_with_it() -> None:
    assert Subject(variant="a", image_id="i", mode="twin").label == "a+twin"
    assert Subject(variant="a", image_id="i").label == "a"


NAMES = st.from_regex(r"[a-z0-9][a-z0-9.-]*", fullmatch=True)


@given(NAMES, st.none() | NAMES)
def test_a_label_is_split_into_what_it_was_made_of(variant: str, mode: str | None) -> None:
    assert split_label(label_of(variant, mode)) == (variant, mode)


def test_a_variant_is_ordered_plain_and_in_each_of_its_modes() -> None:
    modes = [{"name": "slow", "summary": "slowly"}, {"name": "loud", "summary": "loudly"}]
    assert make_variant("a", modes=modes).labels == ["a", "a+slow", "a+loud"]
    assert make_variant("a").labels == ["a"]


@pytest.mark.parametrize("name", ["a+b", "", "A", "a b", "a/b"])
def test_the_name_of_a_mode_is_a_folder_name_without_a_plus(name: str) -> None:
    with pytest.raises(ValidationError, match="String should match"):
        make_variant(modes=[{"name": name, "summary": "a mode"}])


def test_data_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        make_variant().tag = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("label", "per"), [("futex per 1M imports", "per 1M imports"), ("calls per s per start", "per start"), ("x", "x")]
)
def test_a_metric_says_what_it_is_divided_by(label: str, per: str) -> None:
    assert Metric(label=label, scale=1).per == per


def test_the_calls_that_a_benchmark_shows_are_those_that_it_names() -> None:
    phases = {"startup": make_phase(execve=1), "work": make_phase(futex=3, read=20, stat=7)}
    profile = make_profile(units=10, phases=phases)
    kilo = Metric(label="calls per 1k", scale=1e3)
    shown = [
        make_benchmark(profile_metric=kilo, **named).calls_shown(profile)
        for named in ({}, {"profile_syscalls": ["read", "stat"]}, {"profile_syscalls": "all"})
    ]
    assert shown == [300, 2700, 3000]
    assert make_benchmark(profile_metric=None).calls_shown(profile) is None
    assert make_benchmark().calls_shown(None) is None
    only_futex = profile.model_copy(update={"method": Method.STRACE_FUTEX})
    assert make_benchmark(profile_syscalls="all").calls_shown(only_futex) is None


def test_only_a_command_starts_in_parallel() -> None:
    make_workload(program=None, benchmarks=[make_benchmark(command=["-c", "pass"], parallel=2)])
    with pytest.raises(ValidationError, match="has no command that could start in parallel"):
        make_workload(benchmarks=[make_benchmark(parallel=2)])
