"""What fetch.sh fetches and checks, in a real shell against a real server: sources by their sums and signatures."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builders import ROOT, clean_environment, make_program, make_source, make_wheel
from tests.fakes import Answer, Asked, serving
from tests.keyring import Keyring, open_keyring

FETCH = ROOT / "dockerfiles/fetch.sh"
# As build.sh and finish.sh begin.
HEAD = """\
set -eu
: "${PREFIX:=/usr/local}" "${INTERLOCK_SOURCE_MIRROR:=}"
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/fetch.sh"
"""
GOOD = b"the source archive\n" * 100
SUM = hashlib.sha256(GOOD).hexdigest()
WRONG = b"a captive portal's page\n"
FILE = "source.tgz"
SERVED = {
    "good": Answer(body=GOOD),
    "truncated": Answer(raw=b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(GOOD) + GOOD[: len(GOOD) // 2]),
    "wrong": Answer(body=WRONG),
    "empty": Answer(),
    "endless": Answer(raw=b"HTTP/1.0 200 OK\r\n\r\n" + bytes(100_000), endless=True),
}


@dataclass
class Upstream:
    """A server whose answers depend on the first folder of a path, and what was asked of it."""

    url: str
    requests: list[Asked]
    signatures: dict[str, bytes]  # by path

    @property
    def asked(self) -> list[str]:
        return [one.path for one in self.requests]


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    def answer(one: Asked) -> Answer:
        if one.path in signatures:
            return Answer(body=signatures[one.path])
        return SERVED.get(one.path.split("/")[1], Answer(404))

    requests: list[Asked] = []
    signatures: dict[str, bytes] = {}
    with serving(answer, requests) as port:
        yield Upstream(f"http://127.0.0.1:{port}", requests, signatures)


def run(
    folder: Path, call: str, beside: dict[str, bytes] | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs a call of the functions in `folder`, with these files beside the scripts."""
    scripts = folder / "scripts"
    scripts.mkdir(exist_ok=True)
    for name, data in {"fetch.sh": FETCH.read_bytes(), **(beside or {})}.items():
        (scripts / name).write_bytes(data)
    script = scripts / "build.sh"
    script.write_text(f"{HEAD}{call}\necho done\n", encoding="utf-8")
    return subprocess.run(
        ["sh", str(script)],
        cwd=folder,
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
        check=False,
    )


def fetch(
    folder: Path, *places: str, beside: dict[str, bytes] | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    words = " ".join(f'"{place}"' for place in places)
    return run(folder, f'fetch "{FILE}" {SUM} {words}', beside, **environment)


@pytest.fixture
def paths(tmp_path: Path) -> dict[str, str]:
    """PATHs by what fetches there: all that this machine has, and what fetch.sh needs but curl."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("python3", "sh", "sed", "sort", "sha256sum", "cut", "wc", "rm", "dirname"):
        (folder / name).symlink_to(sys.executable if name == "python3" else str(shutil.which(name)))
    return {"curl": clean_environment()["PATH"], "python": str(folder)}


def is_passed_over(upstream: Upstream, folder: Path, kind: str, said: str, path: str) -> None:
    """Requires that a place of this kind is named with a reason that begins so, and that the next one is taken."""
    bad, good = f"{upstream.url}/{kind}/{FILE}", f"{upstream.url}/good/{FILE}"
    done = fetch(folder, bad, good, MOST_BLOCKS="2000", PATH=path)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"interlock: step fetching {FILE}"
    assert lines[1].startswith(f"interlock: tried {bad}: {said}")
    assert lines[2:] == [f"interlock: source {FILE} from {good}", "done"]
    assert (folder / FILE).read_bytes() == GOOD


EMPTY_SUM = f"sha256 is {hashlib.sha256(b'').hexdigest()} (0 bytes), wanted {SUM}"
WRONG_SUM = f"sha256 is {hashlib.sha256(WRONG).hexdigest()} ({len(WRONG)} bytes), wanted {SUM}"


@pytest.mark.parametrize(
    ("by", "kind", "said"),
    [
        ("curl", "dead", "curl: (22) The requested URL returned error: 404"),
        ("curl", "wrong", WRONG_SUM),
        ("curl", "truncated", "curl: (18)"),
        ("curl", "empty", EMPTY_SUM),
        ("python", "dead", "HTTP Error 404"),
        ("python", "wrong", WRONG_SUM),
        ("python", "truncated", ""),
        ("python", "empty", EMPTY_SUM),
    ],
)
def test_a_place_that_fails_is_named_and_the_next_one_is_taken(
    upstream: Upstream, tmp_path: Path, paths: dict[str, str], by: str, kind: str, said: str
) -> None:
    is_passed_over(upstream, tmp_path, kind, said, paths[by])


@pytest.mark.promise
@pytest.mark.parametrize("by", ["curl", "python"])
def test_a_place_that_sends_a_source_without_end_fills_no_disk(
    upstream: Upstream, tmp_path: Path, paths: dict[str, str], by: str
) -> None:
    """A megabyte is the limit here; it was none."""
    is_passed_over(upstream, tmp_path, "endless", "more than 1024000 bytes", paths[by])


@pytest.mark.parametrize(
    ("kinds", "code"), [(["dead", "truncated", "dead"], 69), (["wrong", "dead"], 65)], ids=["nowhere", "another sum"]
)
def test_a_source_that_no_place_has_ends_the_build_and_all_places_are_named(
    upstream: Upstream, tmp_path: Path, kinds: list[str], code: int
) -> None:
    places = [f"{upstream.url}/{kind}/{number}" for number, kind in enumerate(kinds)]
    done = fetch(tmp_path, *places)
    assert done.returncode == code
    assert re.findall(r"^interlock: tried (\S+): ", done.stdout, re.MULTILINE) == places
    assert not (tmp_path / FILE).exists()


def test_the_users_mirror_is_asked_first(upstream: Upstream, tmp_path: Path) -> None:
    mirror = f"{upstream.url}/good/mirror/"
    done = fetch(tmp_path, f"{upstream.url}/good/upstream", INTERLOCK_SOURCE_MIRROR=mirror)
    assert done.returncode == 0
    assert upstream.asked == [f"/good/mirror/{FILE}"]
    assert f"interlock: source {FILE} from {upstream.url}/good/mirror/{FILE}\n" in done.stdout


def test_a_directory_can_be_the_users_mirror(upstream: Upstream, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / FILE).write_bytes(GOOD)
    done = fetch(tmp_path, f"{upstream.url}/good/b", INTERLOCK_SOURCE_MIRROR=mirror.as_uri())
    assert done.returncode == 0
    assert upstream.asked == []
    assert (tmp_path / FILE).read_bytes() == GOOD


def apt_get(folder: Path, *uris: str) -> str:
    """A PATH on which apt-get is configured with these mirrors."""
    programs = folder / "apt"
    programs.mkdir()
    lines = "".join(f'    echo "{uri}"\n' for uri in uris)
    asked = r'[ "$*" = "indextargets --format \$(REPO_URI) --no-release-info Created-By: Packages" ]'
    make_program(programs / "apt-get", f"{asked} && {{\n{lines}    :\n}}")
    return f"{programs}{os.pathsep}{clean_environment()['PATH']}"


def test_a_place_in_the_pool_is_looked_for_below_every_mirror_of_apt(upstream: Upstream, tmp_path: Path) -> None:
    path = apt_get(tmp_path, f"{upstream.url}/dead/archive/", f"{upstream.url}/good/archive/")
    done = fetch(tmp_path, "pool/main/s/source.tgz", PATH=path)
    assert done.returncode == 0, done.stdout
    assert upstream.asked == ["/dead/archive/pool/main/s/source.tgz", "/good/archive/pool/main/s/source.tgz"]
    assert f"from {upstream.url}/good/archive/pool/main/s/source.tgz\n" in done.stdout


def test_a_place_in_the_pool_may_hold_every_character_that_the_model_admits(upstream: Upstream, tmp_path: Path) -> None:
    place = "pool/main/s/s_1:2.0+a~b@c%2B.tgz"
    assert make_source(places=[place]).places == [place]
    done = fetch(tmp_path, place, PATH=apt_get(tmp_path, f"{upstream.url}/good"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert upstream.asked == [f"/good/{place}"]


def test_a_place_in_the_pool_is_named_even_where_apt_knows_no_mirror(tmp_path: Path) -> None:
    done = fetch(tmp_path, "pool/main/s/source.tgz", PATH=apt_get(tmp_path))
    assert done.returncode == 69
    assert "interlock: tried pool/main/s/source.tgz: " in done.stdout


@pytest.mark.parametrize("places", [[], ["https://sources.invalid/a"]])
def test_a_file_beside_the_scripts_is_taken_and_nobody_is_asked(tmp_path: Path, places: list[str]) -> None:
    done = fetch(tmp_path, *places, beside={FILE: GOOD})
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"interlock: source {FILE} from file://{tmp_path}/scripts/{FILE}\ndone\n" in done.stdout
    assert "tried" not in done.stdout
    assert (tmp_path / FILE).read_bytes() == GOOD


def test_a_file_beside_the_scripts_with_another_sum_is_named_and_the_next_place_is_taken(
    upstream: Upstream, tmp_path: Path
) -> None:
    done = fetch(tmp_path, f"{upstream.url}/good/a", beside={FILE: WRONG})
    assert done.returncode == 0
    assert f"interlock: tried file://{tmp_path}/scripts/{FILE}: sha256 is {hashlib.sha256(WRONG).hexdigest()}" in (
        done.stdout
    )
    assert upstream.asked == ["/good/a"]


WHEEL = "toy-1.0-py3-none-any.whl"


def fetch_wheel(folder: Path, file: str, *places: str) -> subprocess.CompletedProcess[str]:
    """Fetches with a prefix whose python is the one that runs this; its pip knows toy 1.0 and nothing else."""
    (folder / "prefix/bin").mkdir(parents=True)
    make_program(folder / "prefix/bin/python", f'exec "{sys.executable}" "$@"')
    (folder / "index").mkdir()
    sha256 = make_wheel(folder / "index", WHEEL)
    settings = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": f"{folder}/index", "PIP_CONFIG_FILE": "/dev/null"}
    words = " ".join(f'"{place}"' for place in places)
    return run(
        folder, f'fetch "{file}" {sha256} {words}', None, PREFIX=f"{folder}/prefix", HOME=str(folder), **settings
    )


def test_a_release_of_pips_index_is_fetched_by_the_interpreter_that_was_built(tmp_path: Path) -> None:
    done = fetch_wheel(tmp_path, WHEEL, "https://sources.invalid/a", "pip/toy==1.0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"interlock: source {WHEEL} from pip/toy==1.0\n" in done.stdout
    assert (tmp_path / WHEEL).read_bytes() == (tmp_path / "index" / WHEEL).read_bytes()


@pytest.mark.parametrize("file", ["toy-2.0-py3-none-any.whl", "toy-1.0-cp39-cp39-linux_x86_64.whl"])
def test_a_release_that_pips_index_lacks_for_this_interpreter_is_named_and_the_exit_code_is_69(
    tmp_path: Path, file: str
) -> None:
    place = f"pip/toy=={file.split('-')[1]}"
    done = fetch_wheel(tmp_path, file, place)
    assert done.returncode == 69, done.stderr
    assert f"interlock: tried {place}: " in done.stdout


SQV = """\
# What Debian 13 has as sqv, by means of gpgv: `sqv --keyring KEY SIGNATURE FILE` prints the key's fingerprint.
[ "$#" = 4 ] && [ "$1" = --keyring ] || exit 2
gpg --homedir {home} --batch --yes --dearmor --output {home}/checked.gpg "$2" || exit 2
said=$(gpgv --homedir {home} --keyring {home}/checked.gpg --status-fd 1 "$3" "$4" 2> {home}/said) || {{
    tail -n 1 {home}/said >&2
    exit 1
}}
echo "$said" | sed -n 's/.* VALIDSIG \\([0-9A-F]*\\) .*/\\1/p'
"""


@pytest.fixture(scope="module")
def keyring() -> Iterator[Keyring]:
    with open_keyring() as keyring:
        yield keyring


@pytest.fixture(scope="module")
def keys(keyring: Keyring) -> dict[str, bytes]:
    """Two public keys, as they lie beside the scripts."""
    return {f"{name}.asc": keyring.make_key(name).encode() for name in ("author", "stranger")}


@pytest.fixture
def path(keyring: Keyring, tmp_path: Path) -> str:
    """A PATH with an sqv on it, whether this system has one or not."""
    if shutil.which("gpgv") is None:
        pytest.skip("gpgv is not installed")
    (tmp_path / "programs").mkdir()
    make_program(tmp_path / "programs/sqv", SQV.format(home=keyring.home))
    return f"{tmp_path}/programs{os.pathsep}{clean_environment()['PATH']}"


def check(
    folder: Path, keys: dict[str, bytes], key: str, *places: str, data: bytes = GOOD, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Checks the signature of a file that was fetched."""
    (folder / FILE).write_bytes(data)
    words = " ".join(f'"{place}"' for place in places)
    return run(folder, f'check_signature "{FILE}" "{key}" {words}', keys, **environment)


def test_a_signature_by_its_key_is_said_with_the_keys_fingerprint_and_where_it_was(
    upstream: Upstream, tmp_path: Path, keyring: Keyring, keys: dict[str, bytes], path: str
) -> None:
    upstream.signatures["/a.asc"] = keyring.sign("author", GOOD)
    url = f"{upstream.url}/a.asc"
    done = check(tmp_path, keys, "author.asc", f"{upstream.url}/dead/a.asc", url, PATH=path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == f"interlock: signature of {FILE} by {keyring.fingerprint('author')} from {url}\ndone\n"


@pytest.mark.parametrize(
    ("signer", "added", "said"),
    [
        ("stranger", b"", "the signature is not by author.asc: "),
        ("author", b"\n", "BAD signature"),
        ("", b"", "the signature is not by author.asc"),
    ],
    ids=["another key", "a changed file", "no signature at all"],
)
def test_a_wrong_signature_ends_the_build_with_66_and_a_good_one_elsewhere_does_not_mend_it(
    upstream: Upstream, tmp_path: Path, keyring: Keyring, keys: dict[str, bytes], path: str,
    signer: str, added: bytes, said: str,
) -> None:  # fmt: skip
    upstream.signatures |= {
        "/a.asc": keyring.sign(signer, GOOD) if signer else WRONG,
        "/b.asc": keyring.sign("author", GOOD),
    }
    places = [f"{upstream.url}/a.asc", f"{upstream.url}/b.asc"]
    done = check(tmp_path, keys, "author.asc", *places, data=GOOD + added, PATH=path)
    assert done.returncode == 66
    assert said in done.stdout
    assert "done" not in done.stdout
    assert upstream.asked == ["/a.asc"]


def test_a_signature_that_nobody_has_is_said_and_the_build_goes_on(
    upstream: Upstream, tmp_path: Path, keys: dict[str, bytes], path: str
) -> None:
    places = (f"{upstream.url}/dead/a.asc", f"http://127.0.0.1:1/{FILE}.asc")
    done = check(tmp_path, keys, "author.asc", *places, PATH=path)
    assert done.returncode == 0
    assert done.stdout == f"interlock: signature of {FILE} not checked: no place has it\ndone\n"


def test_the_users_mirror_is_asked_first_for_a_signature_too(
    upstream: Upstream, tmp_path: Path, keyring: Keyring, keys: dict[str, bytes], path: str
) -> None:
    upstream.signatures[f"/mirror/{FILE}.asc"] = keyring.sign("author", GOOD)
    mirror = f"{upstream.url}/mirror/"
    done = check(tmp_path, keys, "author.asc", f"{upstream.url}/wrong/b", PATH=path, INTERLOCK_SOURCE_MIRROR=mirror)
    assert done.returncode == 0, done.stdout
    assert upstream.asked == [f"/mirror/{FILE}.asc"]


def test_a_signature_in_the_pool_is_looked_for_below_the_mirrors_of_apt(
    upstream: Upstream, tmp_path: Path, keyring: Keyring, keys: dict[str, bytes], path: str
) -> None:
    upstream.signatures["/archive/pool/main/s/s.asc"] = keyring.sign("author", GOOD)
    apt = apt_get(tmp_path, f"{upstream.url}/dead/", f"{upstream.url}/archive/")
    done = check(tmp_path, keys, "author.asc", "pool/main/s/s.asc", PATH=f"{apt}{os.pathsep}{path}")
    assert done.returncode == 0, done.stdout
    assert f"from {upstream.url}/archive/pool/main/s/s.asc\n" in done.stdout


def test_without_a_program_that_checks_a_signature_is_not_taken_for_a_good_one(
    upstream: Upstream, tmp_path: Path, keyring: Keyring, keys: dict[str, bytes]
) -> None:
    upstream.signatures["/a.asc"] = keyring.sign("author", GOOD)
    programs = tmp_path / "few"
    programs.mkdir()
    for name in ("sh", "curl", "dirname", "tail"):
        (programs / name).symlink_to(str(shutil.which(name)))
    done = check(tmp_path, keys, "author.asc", f"{upstream.url}/a.asc", PATH=str(programs))
    assert done.returncode == 66
    assert "sqv: not found" in done.stdout
