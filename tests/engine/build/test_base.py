"""The base that is made here: what identifies it, and what people do when it cannot be made."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docker.errors import ImageNotFound

from interlock.catalog import project as catalogs
from interlock.catalog.variants import Base
from interlock.engine import client
from interlock.engine.build import base as bases
from interlock.errors import EngineError, Interrupted
from tests.builders import ROOT, make_program
from tests.fakes import Answer, Asked, as_json, files_of, serving

LAYERS = [f"sha256:{digit * 64}" for digit in "123"]
RELEASE = "Origin: Debian\nSuite: trixie\nCodename: trixie\nDate: Sat, 09 Aug 2025 00:00:00 UTC\nComponents: main\n"


class Engine:
    """An engine that has no image; what goes wrong with a pull is among its events, as an engine's own API has it."""

    def __init__(self, error: str = "") -> None:
        self.error = error
        self.images = self.api = self

    def get(self, reference: str) -> Any:
        raise ImageNotFound(f"no {reference}")

    def pull(self, reference: str, **_: Any) -> list[dict[str, str]]:
        return [{"status": f"pulling {reference}"}, *([{"error": self.error}] if self.error else [])]


@pytest.fixture
def base() -> Base:
    return catalogs.load(ROOT).bases["trixie"]


def sha256(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def test_layers_are_chained_as_the_image_specification_says() -> None:
    two = sha256(f"{LAYERS[0]} {LAYERS[1]}")
    assert [bases.chain_id(LAYERS[:count]) for count in range(3)] == ["", LAYERS[0], two]
    assert bases.chain_id(LAYERS) == sha256(f"{two} {LAYERS[2]}")


def test_another_pin_or_another_recipe_has_another_tag(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    tag = bases.local_tag(base)
    assert bases.local_tag(base.model_copy(update={"reference": f"{base.reference[:-1]}0"})) != tag
    monkeypatch.setattr(bases, "RECIPE", (*bases.RECIPE, "--include=tzdata"))
    assert bases.local_tag(base) != tag


@pytest.mark.parametrize(
    ("error", "said", "todo"),
    [
        ("", "debian:trixie-slim@sha256:", "apt-get install mmdebstrap"),
        ("toomanyrequests: slow down", "slow down", "apt-get install mmdebstrap"),
        ("write: no space left on device", "no space left", "docker system df"),
    ],
)
def test_why_nothing_is_pulled_is_said_and_without_mmdebstrap_what_to_install(
    base: Base, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: str, said: str, todo: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError) as raised:
        bases.ensure_base(Engine(error), base, tmp_path / "cache", lambda _: None)
    assert said in raised.value.found
    assert todo in raised.value.todo


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"], ids=["at once", "within"])
def test_a_registry_that_stalls_counts_as_none_while_the_engine_answers(
    base: Base, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: bytes
) -> None:
    over = threading.Event()

    def stall(*_: object) -> None:
        over.wait(10)

    def answer(asked: Asked) -> Answer:
        if "/images/create" in asked.path:
            if not said:
                stall()
            return Answer(raw=said, then=stall)
        if asked.path.endswith("/_ping"):
            return Answer(body=b"OK")
        return as_json({"ApiVersion": "1.41", "message": "No such image: x"}, 404 if "/images/" in asked.path else 200)

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(client, "MOVE_S", 0.1)
    with serving(answer) as port:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        engine, _ = client.open_client()
        with pytest.raises(EngineError, match=r"debian:trixie-slim@\S+ stalled: timed out") as raised:
            bases.ensure_base(engine, base, tmp_path / "cache", lambda _: None)
        over.set()
    assert "apt-get install mmdebstrap" in raised.value.todo


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a Debian mirror's suite, which is the only mirror; its Release file is not signed."""
    suite = tmp_path / "mirror/dists/trixie"
    suite.mkdir(parents=True)
    (suite / "Release").write_text(RELEASE, encoding="utf-8")
    with serving(files_of(tmp_path / "mirror")) as port:
        monkeypatch.setenv("INTERLOCK_DEBIAN_MIRROR", f"http://127.0.0.1:{port}")
        yield suite


@pytest.fixture
def trusting(mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The mirror is signed, and this machine's apt trusts who signed it, as it trusts further sources' keys."""
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--passphrase", ""]
    subprocess.run([*gpg, "--quick-generate-key", "stranger@invalid", "ed25519", "sign"], check=True)
    subprocess.run([*gpg, "--clearsign", "--output", str(mirror / "InRelease"), str(mirror / "Release")], check=True)
    key = subprocess.run([*gpg, "--export", "stranger@invalid"], check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)
    with tempfile.TemporaryDirectory() as folder:
        trusted = Path(folder)
        trusted.chmod(0o755)  # apt checks signatures as a user of its own
        (trusted / "stranger.gpg").write_bytes(key)
        shutil.copy(next(path for path in bases.KEYRINGS if path.exists()), trusted / "debian.gpg")
        (tmp_path / "apt.conf").write_text(f'Dir::Etc::TrustedParts "{trusted}";\n', encoding="utf-8")
        monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
        yield


def refusal(base: Base, folder: Path) -> EngineError:
    """Why no root file system is made."""
    with pytest.raises(EngineError) as raised:
        bases.make_layer(base, folder / "layer.tar", "no registry")
    return raised.value


@pytest.mark.promise(escapes=True)
def test_a_key_that_this_machine_trusts_for_other_packages_signs_no_base(
    base: Base, trusting: None, tmp_path: Path
) -> None:
    assert "apt-get install debian-archive-keyring" in refusal(base, tmp_path).todo


@pytest.mark.promise(escapes=True)
@pytest.mark.parametrize("options", ["[trusted=yes] ", "[allow-insecure=yes] ", "[ signed-by=/tmp/stranger.gpg ] "])
def test_a_mirror_with_options_of_apt_that_switch_signatures_off_is_refused(
    options: str, base: Base, mirror: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("INTERLOCK_DEBIAN_MIRROR", options + os.environ["INTERLOCK_DEBIAN_MIRROR"])
    assert refusal(base, tmp_path).key == "INTERLOCK_DEBIAN_MIRROR"
    assert not (tmp_path / "layer.tar").exists()


@pytest.mark.promise(escapes=True)
def test_without_debians_keys_no_base_is_made_and_the_error_says_what_to_install(
    base: Base, trusting: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bases, "KEYRINGS", (tmp_path / "nowhere.gpg",))
    with pytest.raises(EngineError) as raised:
        bases.require_mmdebstrap()
    for error in (raised.value, refusal(base, tmp_path)):
        assert "apt-get install debian-archive-keyring" in error.todo
    assert not (tmp_path / "layer.tar").exists()


@pytest.mark.promise(escapes=True)
def test_an_unsigned_mirror_is_refused_and_the_error_says_how_to_choose_another(
    base: Base, mirror: Path, tmp_path: Path
) -> None:
    error = refusal(base, tmp_path)
    assert "is not signed" in error.found
    assert "INTERLOCK_DEBIAN_MIRROR" in error.todo
    assert "debian-archive-keyring" not in error.todo


def test_a_mirror_that_has_nothing_of_debian_is_named(
    base: Base, mirror: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = f"{os.environ['INTERLOCK_DEBIAN_MIRROR']}/another"
    monkeypatch.setenv("INTERLOCK_DEBIAN_MIRROR", url)
    assert url in refusal(base, tmp_path).found


def test_a_disk_that_is_full_is_not_taken_for_a_mirror_that_does_not_answer(
    base: Base, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "mmdebstrap"
    make_program(program, "echo 'E: tar: ./usr/bin/perl: No space left on device' >&2; exit 25")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("INTERLOCK_DEBIAN_MIRROR", "http://debian.example/debian")
    monkeypatch.setattr(bases, "KEYRINGS", (program,))
    assert "df -h" in refusal(base, tmp_path).todo


@pytest.mark.usefixtures("interrupt")
def test_an_interrupt_lets_mmdebstrap_remove_its_folder_first(
    base: Base, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program, temporary, at_work = tmp_path / "mmdebstrap", tmp_path / "tmp", tmp_path / "at-work"
    # As mmdebstrap does it: it waits for what it has started, which has to end too.
    begins = f"folder=$(mktemp -d)\ntrap true TERM\nsleep 60 &\ntouch {at_work}"
    make_program(program, f"{begins}\nwhile kill -0 $! 2>/dev/null; do wait; done\nrm -r $folder\nexit 25")
    temporary.mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv("INTERLOCK_DEBIAN_MIRROR", "http://debian.example/debian")
    monkeypatch.setattr(bases, "KEYRINGS", (program,))

    def send() -> None:
        while not at_work.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=send, daemon=True).start()
    with pytest.raises(Interrupted):
        bases.make_layer(base, tmp_path / "layer.tar", "no registry")
    assert list(temporary.iterdir()) == []
