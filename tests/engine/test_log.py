"""Why a build failed, read from its log."""

from __future__ import annotations

from interlock.engine import log
from interlock.errors import BuildError, EngineError, SourceUnavailableError
from tests.builders import make_variant

LOG = "logs/cpython-3.13-standard.log"


def failure(text: str) -> Exception:
    return log.build_failure(text, make_variant(), LOG)


def test_a_source_that_is_nowhere_is_unavailable_with_every_host_and_its_error() -> None:
    error = failure(
        "interlock: step fetching a.tgz\n"
        "interlock: tried https://example.org/a.tgz: curl: (6) Could not resolve host: example.org\n"
        "interlock: tried file:///interlock/a.tgz: curl: (37) Couldn't open file /interlock/a.tgz\n"
        "interlock: tried http://127.0.0.1:81/pool/a.tgz: curl: (22) The requested URL returned error: 404\n"
        "interlock: exit code 69\n"
    )
    assert isinstance(error, SourceUnavailableError)
    assert error.found == (
        "example.org: Could not resolve host: example.org; "
        "file:///interlock/a.tgz: Couldn't open file /interlock/a.tgz; "
        "apt's mirror: The requested URL returned error: 404"
    )
    assert (error.file, error.key) == ("variants/cpython-3.13.toml", "places")
    assert error.todo == "Set INTERLOCK_SOURCE_MIRROR."


def test_an_unavailable_source_has_a_reason_even_where_no_place_could_be_asked() -> None:
    error = failure("interlock: step fetching a.tgz\ninterlock: exit code 69\n")
    assert isinstance(error, SourceUnavailableError)
    assert error.found


def test_only_wrong_bytes_is_a_failed_build_that_names_the_sum_found() -> None:
    error = failure(
        "interlock: tried https://example.org/a.tgz: sha256 is 12ab (3 bytes), wanted 34cd\n"
        "interlock: tried http://mirror.example/pool/a.tgz: curl: (22) The requested URL returned error: 404\n"
        "interlock: exit code 65\n"
    )
    assert isinstance(error, BuildError)
    assert not isinstance(error, SourceUnavailableError)
    assert (error.file, error.key) == ("variants/cpython-3.13.toml", "sha256")
    assert error.found == (
        "no place has the source with this sum. Tried: example.org: sha256 is 12ab (3 bytes), wanted 34cd; "
        "apt's mirror: The requested URL returned error: 404"
    )
    assert "INTERLOCK_SOURCE_MIRROR" in error.todo


def test_a_mirror_of_debian_is_not_named_and_its_archives_of_one_answer_are_said_once() -> None:
    tried = "interlock: tried http://{}.example/debian/pool/a.tgz: curl: (22) The requested URL returned error: 404\n"
    error = failure(tried.format("one") + tried.format("security") + "interlock: exit code 69\n")
    assert isinstance(error, SourceUnavailableError)
    assert error.found == "apt's mirror: The requested URL returned error: 404"


def test_a_signature_by_another_key_is_not_taken_for_a_wrong_sum() -> None:
    error = failure(
        "interlock: tried https://example.org/a.tgz.asc: the signature is not by author.asc: No key\n"
        "interlock: exit code 66\n"
    )
    assert isinstance(error, BuildError)
    assert not isinstance(error, SourceUnavailableError)
    assert (error.key, "has the declared sum" in error.found) == ("signature", True)
    assert "example.org: the signature is not by author.asc: No key" in error.found


def test_a_full_disk_is_the_engines_problem_and_not_the_variants() -> None:
    error = failure("cc: error: a.o: No space left on device\ninterlock: exit code 1\n")
    assert isinstance(error, EngineError)
    assert str(error).startswith("building cpython-3.13: no space left on the engine's disk. Free some")


def test_a_disk_that_fills_up_while_fetching_is_not_a_missing_source() -> None:
    said = "curl: (23) Failure writing output to destination"  # of curl 7.88 on a full tmpfs
    error = failure(f"interlock: tried https://example.org/a.tgz: {said}\ninterlock: exit code 69\n")
    assert isinstance(error, EngineError)


def test_any_other_failure_shows_the_end_of_the_log_and_where_the_rest_is() -> None:
    error = failure("one\ntwo\n\nthree\nfour\nmake: *** [all] Error 2\ninterlock: exit code 2\n")
    assert isinstance(error, BuildError)
    assert str(error) == (
        f"{LOG}: building cpython-3.13 failed: two / three / four / make: *** [all] Error 2. The log has the rest."
    )


def test_steps_are_told_from_the_rest_of_the_log() -> None:
    text = "interlock: step fetching a.tgz\nmake: interlock: step no\ninterlock: step compiling the interpreter\n"
    assert log.STEP.findall(text) == ["fetching a.tgz", "compiling the interpreter"]
