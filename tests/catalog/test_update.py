"""Newer releases are taken from a server that plays upstream and Debian, with real keys; forged ones are refused."""

from __future__ import annotations

import hashlib
import re
import shutil
import socket
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog import update, upstream
from interlock.catalog.sources import FILE
from interlock.catalog.types import Data
from interlock.catalog.update import Updates
from interlock.catalog.upstream import Upstream
from interlock.catalog.variants import Base, Variant
from interlock.errors import CatalogError, UpstreamError, UsageError
from interlock.untrusted import MOST_TEXT
from tests.builders import FROM_IMAGE, make_variant
from tests.keyring import Keyring, open_keyring
from tests.playing_upstream import SUITES, Playing, make_keys, playing
from tests.sigstores import OwnSigstore

OLD = "1" * 64
MANAGER = ("manager@example.org", "https://issuer.example")
TEXT = """\
# Each source once.
[channels]
"3.14" = ["3.14.1"] # by sigstore
"3.13" = ["3.13.5", "3.13.2"]      # the newest first

# What upstream signs with OpenPGP.
[sources."3.13.5"]
file = "Python-3.13.5.tar.xz" # as upstream names it
sha256 = "1111111111111111111111111111111111111111111111111111111111111111"
sum_from = "whoever it was"
places = [
  "{url}/ftp/3.13.5/Python-3.13.5.tar.xz",
  "pool/main/p/python3.13/python3.13_3.13.5.orig.tar.xz", # Debian's
]
signature = {{ key = "manager.asc", places = ["{url}/ftp/3.13.5/Python-3.13.5.tar.xz.asc"] }}

# Older than the other.
[sources."3.13.2"]
file = "Python-3.13.2.tar.xz"
sha256 = "2222222222222222222222222222222222222222222222222222222222222222"
sum_from = "somebody"
places = ["{url}/ftp/3.13.2/Python-3.13.2.tar.xz"]
unsigned = "nobody asked"

# What is signed with sigstore alone.
[sources."3.14.1"]
file = "Python-3.14.1.tar.xz"
sha256 = "3333333333333333333333333333333333333333333333333333333333333333"
sum_from = "somebody"
places = ["{url}/ftp/3.14.1/Python-3.14.1.tar.xz"]
sigstore = {{ identity = "manager@example.org", issuer = "https://issuer.example" }}
# The end.
"""


@pytest.fixture(scope="module")
def keyring() -> Iterator[Keyring]:
    with open_keyring() as keyring:
        yield keyring


@pytest.fixture(scope="module")
def keys(keyring: Keyring, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all public keys, with the keyring of the archive."""
    return make_keys(keyring, tmp_path_factory.mktemp("keys")).parent


@pytest.fixture
def world(keyring: Keyring, monkeypatch: pytest.MonkeyPatch) -> Iterator[Playing]:
    with playing(keyring) as world:
        monkeypatch.setattr(upstream, "LISTING", f"{world.url}/ftp/")
        monkeypatch.setattr(update, "PREBUILT_SUMS", f"{world.url}/SHA256SUMS")
        yield world


class Run(Data):
    """What an update made: the file before and after, its lines, and what it said on the way."""

    before: str
    after: str
    lines: list[str]
    said: list[str]

    @property
    def data(self) -> dict[str, Any]:
        return tomllib.loads(self.after)


Runs = Callable[..., Run]


@pytest.fixture
def ask(world: Playing, keys: Path, tmp_path: Path) -> Callable[..., Upstream]:
    """Whom to ask; its remarks are in the list that is given."""
    (tmp_path / "variants/keys").mkdir(parents=True)
    shutil.copy(keys / "manager.asc", tmp_path / "variants/keys")

    def make(said: list[str], mirror: str = "") -> Upstream:
        return Upstream(
            mirror or world.mirror, keys / "archive.gpg", tmp_path / "variants/keys", said.append, patience_s=0.5
        )

    return make


@pytest.fixture
def run(world: Playing, ask: Callable[..., Upstream], tmp_path: Path) -> Runs:
    """Updates channels in a file of sources, as the command does."""

    def call(*channels: str, text: str = TEXT, mirror: str = "", pinned: set[str] | None = None) -> Run:
        before = text.format(url=world.url)
        (tmp_path / FILE).write_text(before, encoding="utf-8")
        said: list[str] = []
        source = ask(said, mirror)
        updates = Updates(tmp_path)
        update.update_sources(updates, channels or ["3.13"], pinned or set(), update.ask(source), source)
        return Run(before=before, after=updates.read(FILE), lines=updates.lines, said=said)

    return call


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def refusal(run: Runs, *channels: str, **options: Any) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        run(*channels, **options)
    assert caught.value.exit_code == 8
    return caught.value


def test_a_newer_release_that_upstream_signed_is_taken_with_the_sum_of_its_file(world: Playing, run: Runs) -> None:
    world.list("3.13.4", "3.13.5", "3.13.18", "3.14.0a1", "3.2", "doc")
    data = world.release("3.13.18")
    taken = run()
    assert taken.data["channels"]["3.13"] == ["3.13.18", "3.13.5"]
    release = taken.data["sources"]["3.13.18"]
    assert (release["file"], release["sha256"]) == ("Python-3.13.18.tar.xz", sha256_of(data))
    assert release["places"] == [
        f"{world.url}/ftp/3.13.18/Python-3.13.18.tar.xz",
        "pool/main/p/python3.13/python3.13_3.13.18.orig.tar.xz",
    ]
    assert release["signature"]["places"] == [f"{world.url}/ftp/3.13.18/Python-3.13.18.tar.xz.asc"]
    assert world.keyring.fingerprint("manager") in release["sum_from"]
    assert len(taken.lines) == 1
    # A download is told before it begins.
    assert f"fetch   {release['places'][0]}, {len(data) / 1e6:.1f} MB" in taken.said


def test_where_upstream_is_silent_debians_signed_index_gives_the_sum(world: Playing, run: Runs) -> None:
    world.debian("sid", {"3.13.18": "a" * 64, "3.13.15": "b" * 64, "3.14.0": "c" * 64})
    world.debian("stable", {"3.13.19": "d" * 64})
    taken = run()
    assert taken.data["channels"]["3.13"][0] == "3.13.19"
    assert taken.data["sources"]["3.13.19"]["sha256"] == "d" * 64
    assert "stable" in taken.data["sources"]["3.13.19"]["sum_from"]
    assert any(line.startswith("silent") and "/ftp/" in line for line in taken.said)


def test_where_both_say_the_same_sum_both_are_named(world: Playing, run: Runs) -> None:
    world.debian("sid", {"3.13.18": sha256_of(world.release("3.13.18"))})
    words = run().data["sources"]["3.13.18"]["sum_from"].split("; ")
    assert len(words) == 2
    assert "sid" in words[1]


def test_a_file_without_a_signature_is_taken_if_debian_signed_its_sum_and_else_left(world: Playing, run: Runs) -> None:
    data = world.release("3.13.18")
    del world.served["/ftp/3.13.18/Python-3.13.18.tar.xz.asc"]
    left = run()
    assert (left.after, left.lines) == (left.before, [])
    assert any(line.startswith("left") for line in left.said)
    world.debian("sid", {"3.13.18": sha256_of(data)})
    assert run().data["channels"]["3.13"][0] == "3.13.18"


def test_a_release_that_is_listed_but_not_there_yet_gives_way_to_the_newest_that_is(world: Playing, run: Runs) -> None:
    world.list("3.13.17", "3.13.18", "3.13.19")
    world.release("3.13.17")
    assert run().data["channels"]["3.13"][0] == "3.13.17"


@pytest.mark.parametrize(
    ("forged", "signature"),
    [
        pytest.param({"signer": "stranger"}, None, id="another key"),
        pytest.param({"signed": b"another file"}, None, id="a good signature of another file"),
        pytest.param({}, b"[GNUPG:] VALIDSIG ABC 2026-01-01 1\n", id="none"),
    ],
)
def test_a_forged_release_is_refused(
    world: Playing, run: Runs, forged: dict[str, Any], signature: bytes | None
) -> None:
    file = "/ftp/3.13.18/Python-3.13.18.tar.xz.asc"
    world.release("3.13.18", **forged)
    world.served[file] = signature or world.served[file]
    assert refusal(run).key.endswith(file)


def test_a_sum_on_which_upstream_and_debian_disagree_is_refused(world: Playing, run: Runs) -> None:
    world.release("3.13.18")
    world.debian("sid", {"3.13.18": "a" * 64})
    assert "a" * 64 in refusal(run).found


def test_a_signature_of_a_key_whose_copy_has_ended_does_not_count(world: Playing, run: Runs, tmp_path: Path) -> None:
    keyring = world.keyring
    keyring.gpg("--passphrase", "", "--faked-system-time", "20200101T000000!", "--quick-generate-key",
                "ended@example.org", "ed25519", "sign", "30d")  # fmt: skip
    key = keyring.gpg("--armor", "--export", "ended@example.org")
    (tmp_path / "variants/keys/manager.asc").write_bytes(key)
    data = world.release("3.13.18")
    file = "/ftp/3.13.18/Python-3.13.18.tar.xz.asc"

    def sign(at: str) -> None:
        words = ("--faked-system-time", at, "--armor", "--detach-sign", "--local-user", "ended@example.org")
        world.served[file] = keyring.gpg(*words, data=data)

    sign("20200115T000000!")
    assert run().data["channels"]["3.13"][0] == "3.13.18"
    # gpg makes none after the key's end: the same key with a longer life signs, and the copy here is the old one.
    keyring.gpg("--passphrase", "", "--faked-system-time", "20200102T000000!", "--quick-set-expire",
                keyring.fingerprint("ended"), "10y")  # fmt: skip
    sign("20250101T000000!")
    late = run()
    assert late.lines == []
    assert any(line.startswith("ended") and "manager.asc" in line for line in late.said)


@pytest.mark.parametrize("kind", ["signer", "text", "index"])
def test_a_forged_index_is_refused(world: Playing, run: Runs, kind: str) -> None:
    world.debian("sid", {"3.13.18": "a" * 64}, signer="stranger" if kind == "signer" else "archive")
    if kind == "text":
        file = "/debian/dists/sid/InRelease"
        world.served[file] = world.served[file].replace(b"Codename: sid", b"Codename: Sid")
    if kind == "index":
        file = "/debian/dists/sid/main/source/Sources.xz"
        world.served[file] += b"\0\0\0\0"
    assert "/debian/dists/sid/" in refusal(run).key


def test_only_the_signed_part_of_a_file_counts(world: Playing, run: Runs) -> None:
    world.debian("sid", {"3.13.18": "a" * 64})
    world.debian("testing", {"3.13.19": "b" * 64}, signer="stranger")
    file = "/debian/dists/sid/InRelease"
    forged = world.served["/debian/dists/testing/main/source/Sources.xz"]
    world.served["/debian/dists/sid/main/source/Sources.xz"] = forged
    world.served[file] = f" {sha256_of(forged)} 1 main/source/Sources.xz\n".encode() + world.served[file]
    refusal(run)


@pytest.mark.parametrize(
    "listing",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(bytes(range(256)) * 100, id="bytes"),
        pytest.param(b"3.13.99 /3.13.99/ href='3.13.99'", id="no links"),
        pytest.param(b'<a href="../3.13.99/"> <a href="3.13.9999/"> <a href="3.13.99/../">', id="other links"),
    ],
)
def test_garbage_in_place_of_a_list_is_no_answer(world: Playing, run: Runs, listing: bytes) -> None:
    world.served["/ftp/"] = listing
    world.debian("sid", {"3.13.18": "a" * 64})
    assert run().data["channels"]["3.13"][0] == "3.13.18"
    world.debian("sid", {"3.13.5": OLD})
    assert run().lines == []


def test_a_list_of_thousands_of_releases_that_are_not_there_asks_for_a_few(world: Playing, run: Runs) -> None:
    world.list(*(f"3.13.{number}" for number in range(10, 999)))
    assert run().lines == []
    assert len([path for path in world.asked if path.endswith("tar.xz")]) <= 2 * update.MOST_TRIED


@pytest.mark.parametrize("told", [10**12, 0])
@pytest.mark.usefixtures("deadline")
def test_what_is_longer_than_it_may_be_is_no_answer(world: Playing, run: Runs, told: int) -> None:
    world.list("3.13.18")
    world.served["/ftp/"] += b" " * MOST_TEXT
    world.lengths["/ftp/"] = told
    world.debian("sid", {"3.13.19": "a" * 64})
    taken = run()
    assert taken.data["channels"]["3.13"][0] == "3.13.19"
    assert any(line.startswith("silent") and str(MOST_TEXT) in line for line in taken.said)


def test_a_file_that_ends_too_early_is_not_there(world: Playing, run: Runs) -> None:
    data = world.release("3.13.18")
    world.lengths["/ftp/3.13.18/Python-3.13.18.tar.xz"] = len(data) + 1
    assert run().lines == []


@pytest.mark.usefixtures("deadline")
def test_where_nobody_answers_in_time_nothing_is_known(run: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr(upstream, "LISTING", f"{url}/ftp/")
        error = refusal(run, mirror=url)
    assert f"{url}/ftp/" in error.found
    assert f"{url}/dists/{SUITES[0]}" in error.found


def test_without_gpgv_nothing_is_believed(world: Playing, run: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    world.debian("sid", {"3.13.18": "a" * 64})
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError) as caught:
        run()
    assert "gpgv" in caught.value.todo


def test_comments_and_order_stay(world: Playing, run: Runs) -> None:
    world.debian("sid", {"3.13.18": "a" * 64})
    world.served["/ftp/3.13.2/Python-3.13.2.tar.xz"] = b"older"
    taken = run()
    assert taken.data["channels"]["3.13"] == ["3.13.18", "3.13.2"]
    comments = re.compile("#.*")
    assert comments.findall(taken.after) == comments.findall(taken.before)
    assert [*taken.data["sources"]] == ["3.13.18", "3.13.2", "3.14.1"]
    assert taken.after.index("# Older than the other.") < taken.after.index('[sources."3.13.2"]')


def test_comments_in_front_of_the_next_table_outlive_the_one_that_goes(world: Playing, run: Runs) -> None:
    world.release("3.13.18")
    world.served["/debian/pool/main/p/python3.13/python3.13_3.13.5.orig.tar.xz"] = b"the newest in Debian"
    taken = run()
    assert [*taken.data["sources"]] == ["3.13.18", "3.13.5", "3.14.1"]
    kept = taken.after.index("# What is signed with sigstore alone.")
    assert taken.after.index('[sources."3.13.5"]') < kept < taken.after.index('[sources."3.14.1"]')
    assert taken.after.endswith("# The end.\n")


@pytest.mark.parametrize(
    ("served", "fallback"),
    [
        ([], "3.13.5"),
        (["/ftp/3.13.2/Python-3.13.2.tar.xz"], "3.13.2"),
        (["/ftp/3.13.5/Python-3.13.5.tar.xz", "/ftp/3.13.2/Python-3.13.2.tar.xz"], "3.13.5"),
    ],
)
def test_the_fallback_is_the_newest_that_can_be_had(
    world: Playing, run: Runs, served: list[str], fallback: str
) -> None:
    world.debian("sid", {"3.13.18": "a" * 64})
    world.served |= dict.fromkeys(served, b"an archive")
    assert run().data["channels"]["3.13"] == ["3.13.18", fallback]


def test_debian_has_the_fallback_before_upstream_which_has_the_newest_itself(world: Playing, run: Runs) -> None:
    text = TEXT.replace('places = ["{url}/ftp/3.13.2/', 'places = ["pool/main/p/2.tar.xz", "{url}/ftp/3.13.2/')
    world.debian("sid", {"3.13.18": "a" * 64})
    world.served |= {"/debian/pool/main/p/2.tar.xz": b"older", "/ftp/3.13.5/Python-3.13.5.tar.xz": b"newer"}
    assert run(text=text).data["channels"]["3.13"] == ["3.13.18", "3.13.2"]


def test_a_source_that_somebody_still_names_stays(world: Playing, run: Runs) -> None:
    world.debian("sid", {"3.13.18": "a" * 64})
    assert "3.13.2" not in run().data["sources"]
    assert "3.13.2" in run(pinned={"3.13.2"}).data["sources"]
    text = TEXT.replace('"3.14" = [', '"old" = ["3.13.2"]\n"3.14" = [')
    assert "3.13.2" in run(text=text).data["sources"]


def test_a_second_run_changes_nothing(world: Playing, run: Runs) -> None:
    world.release("3.13.18")
    first = run()
    again = run(text=first.after.replace("{", "{{").replace("}", "}}"))
    assert (again.after, again.lines) == (first.after, [])


def test_a_file_that_is_written_in_another_way_is_refused_and_not_guessed_at(world: Playing, run: Runs) -> None:
    world.debian("sid", {"3.13.18": "a" * 64})
    with pytest.raises(CatalogError):
        run(text=TEXT.replace('"3.13" = ', "'3.13' = "))


@pytest.fixture
def own_sigstore(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> OwnSigstore:
    """A sigstore in the place of the public one, whose keys no test can have; what checks is sigstore's own."""
    own = OwnSigstore()
    root = upstream.models.TrustedRoot.from_file(str(own.trusted_root(tmp_path / "root.json")))
    verifier = upstream.verify.Verifier(trusted_root=root)
    monkeypatch.setattr(upstream.verify.Verifier, "production", lambda: verifier)
    return own


def test_a_release_that_is_signed_with_sigstore_is_taken(world: Playing, run: Runs, own_sigstore: OwnSigstore) -> None:
    data = world.release("3.14.2")
    world.served["/ftp/3.14.2/Python-3.14.2.tar.xz.sigstore"] = own_sigstore.sign(data, *MANAGER)
    release = run("3.14").data["sources"]["3.14.2"]
    assert release["sha256"] == sha256_of(data)
    assert MANAGER[0] in release["sum_from"]
    assert release["sigstore"] == dict(zip(("identity", "issuer"), MANAGER, strict=True))


# Each makes a bundle of sigstore for a release's file, by the sigstore that is trusted or by another.
FORGED: dict[str, Callable[[OwnSigstore, bytes], bytes]] = {
    "another file": lambda own, _: own.sign(b"another file", *MANAGER),
    "another signer": lambda own, data: own.sign(data, "stranger@example.org", MANAGER[1]),
    "another issuer": lambda own, data: own.sign(data, MANAGER[0], "https://other.example"),
    "another sigstore": lambda _, data: OwnSigstore().sign(data, *MANAGER),
    "nothing": lambda *_: b"",
    "no bundle": lambda *_: b"{}",
    "nested brackets": lambda *_: b"[" * 100_000,
    "no text": lambda *_: b"\xff",
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_bundle_is_refused(world: Playing, run: Runs, own_sigstore: OwnSigstore, name: str) -> None:
    data = world.release("3.14.2")
    world.served["/ftp/3.14.2/Python-3.14.2.tar.xz.sigstore"] = FORGED[name](own_sigstore, data)
    assert refusal(run, "3.14").key.endswith(".sigstore")


NEW, NEWER = "sha256:" + "5" * 64, "sha256:" + "6" * 64


def test_a_base_moves_on_to_what_its_registry_has_and_stays_where_none_answers(project: Path) -> None:
    text = (project / update.BASES).read_text(encoding="utf-8")
    base = Base.model_validate(tomllib.loads(text)["trixie"])
    tag, _, old = base.reference.partition("@")
    for digests, expected in (({tag: NEW}, {update.BASES: text.replace(old, NEW)}), ({tag: old}, {}), ({}, {})):
        updates = Updates(project)
        update.update_bases(updates, {"trixie": base}, digests.get)
        assert updates.texts == expected


def image(project: Path, tag: str) -> Variant:
    """A variant of others' image, in its file."""
    reference = f"{tag}@sha256:{'1' * 64}"
    text = '# kept\nsummary = "The official image python:3.13.5"\nversion = "3.13.5"\n[image]\n'
    text += f'reference = "{reference}"\n'
    variant = make_variant("official-3.13", **{**FROM_IMAGE, "image": {"reference": reference}}, version="3.13.5")
    (project / variant.file).write_text(text, encoding="utf-8")
    return variant


@pytest.mark.parametrize(
    ("tag", "digests", "version"),
    [
        (
            "python:3.13-slim",
            {"python:3.13-slim": NEW, "python:3.13.6-slim": NEW, "python:3.13.7-slim": NEWER},
            "3.13.6",
        ),
        ("python:3.13.5-slim", {"python:3.13.5-slim": NEW, "python:3.13.6-slim": NEWER}, "3.13.6"),
        ("python:3.13-slim", {"python:3.13-slim": NEW, "python:3.13.5-slim": NEW}, "3.13.5"),
    ],
)
def test_an_image_of_others_moves_on_with_the_version_that_is_in_it(
    project: Path, tag: str, digests: dict[str, str], version: str
) -> None:
    variant, news = image(project, tag), dict.fromkeys(["3.13.6", "3.13.7", "3.13.8", "3.14.9"])
    after = Updates(project)
    update.update_image(after, variant, news, digests.get)
    data = tomllib.loads(after.texts[variant.file])
    assert (data["version"], data["summary"]) == (version, f"The official image python:{version}")
    new = tag.replace("3.13.5", version)
    assert data["image"]["reference"] == f"{new}@{digests[new]}"
    assert after.texts[variant.file].startswith("# kept\n")


@pytest.mark.parametrize("digests", [{}, {"python:3.13-slim": NEW}, {"python:3.13-slim": f"sha256:{'1' * 64}"}])
def test_an_image_whose_version_nobody_tells_stays(project: Path, digests: dict[str, str]) -> None:
    variant = image(project, "python:3.13-slim")
    updates = Updates(project)
    update.update_image(updates, variant, {"3.13.6": None}, digests.get)
    assert updates.texts == {}


ARCHIVE: dict[str, Any] = {
    "file": "cpython-3.13.5-20260101-{machine}-install_only.tar.gz",
    "sha256": {"x86_64": "1" * 64, "aarch64": "2" * 64},
    "sum_from": "somebody",
    "unsigned": "nobody signs it",
    "places": ["https://example.org/20260101/cpython-3.13.5%2B20260101-{machine}-install_only.tar.gz"],
}


def archive_sums(version: str, date: str, *machines: str) -> str:
    return "".join(
        f"{machine[-1] * 64}  cpython-{version}+{date}-{machine}-install_only.tar.gz\n" for machine in machines
    )


@pytest.mark.parametrize(
    ("sums", "version"),
    [
        (archive_sums("3.13.7", "20261101", "x86_64", "aarch64"), "3.13.7"),
        (archive_sums("3.13.7", "20261101", "aarch64"), None),
        (archive_sums("3.14.7", "20261101", "x86_64", "aarch64"), None),
    ],
)
def test_archives_move_on_together_or_not_at_all(
    world: Playing, ask: Callable[..., Upstream], tmp_path: Path, sums: str, version: str | None
) -> None:
    prefix = {"places": ["/opt/python-3.13.5"], "archive": ARCHIVE}
    variant = make_variant("prebuilt-3.13", version="3.13.5", interpreter=None, prefix=prefix)
    lines = [f'{key} = "{ARCHIVE[key]}"' for key in ("file", "sum_from")]
    lines += [f"places = {ARCHIVE['places']}", *(f'{name} = "{one}"' for name, one in ARCHIVE["sha256"].items())]
    (tmp_path / variant.file).write_text("\n".join(lines), encoding="utf-8")
    garbage = sums.replace("+", ".9.9+") + sums.replace("cpython-3", "cpython-zz") + "9" * 10_000 + "\n"
    world.served["/SHA256SUMS"] = garbage.encode() + b"\xff\n" + sums.encode()
    updates = Updates(tmp_path)
    update.update_archives(updates, [variant], ask([]))
    if version is None:
        assert updates.texts == {}
        return
    text = updates.texts[variant.file]
    assert [one in text for one in ARCHIVE["sha256"].values()] == [False, False]
    assert "4" * 64 in text
    assert "3.13.5" not in text
    assert "20260101" not in text


def test_archives_stay_where_their_list_cannot_be_had(
    world: Playing, ask: Callable[..., Upstream], tmp_path: Path
) -> None:
    said: list[str] = []
    variant = make_variant(interpreter=None, prefix={"places": ["/opt/python"], "archive": ARCHIVE})
    (tmp_path / variant.file).write_text("", encoding="utf-8")
    updates = Updates(tmp_path)
    update.update_archives(updates, [variant], ask(said))
    assert updates.texts == {}
    assert said[0].startswith(f"silent  {world.url}/SHA256SUMS")
