"""What an engine says of a registry, and what cosign says of a signature, as an error that says what to do."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from io import BufferedIOBase
from pathlib import Path
from unittest.mock import Mock

import pytest
from docker.errors import ImageNotFound, NotFound

from interlock.engine import client as engines
from interlock.engine.docker import connect
from interlock.engine.names import Registry
from interlock.engine.registry import _fetch, _follow, _push, _refused, platform_name, require_cosign, require_signed
from interlock.errors import RegistryError, SignatureError, UsageError
from tests.builders import make_program
from tests.cosign import Cosign
from tests.fakes import Answer, Asked, as_json, serving

REFERENCE = f"registry.example:5000/team/python@sha256:{'d' * 64}"


def test_cosign_is_asked_for_the_key_and_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cosign = Cosign(tmp_path / "bin", monkeypatch)
    require_cosign()
    with pytest.raises(SignatureError) as found:
        require_signed(REFERENCE, "team.pub")
    assert "no matching signatures" in found.value.found
    cosign.accept()
    require_signed(REFERENCE, "team.pub")
    assert cosign.asked == [["verify", "--key", "team.pub", REFERENCE]] * 2


@pytest.mark.parametrize("by", [f"@sha256:{'d' * 64}", ":hash-0123456789ab"])
def test_a_signature_is_looked_for_by_the_digest_also_of_an_engine_that_names_none(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Podman does not, whether it pulls by a digest or by a tag."""
    cosign = Cosign(tmp_path / "bin", monkeypatch)
    cosign.accept()
    client, team = Mock(), Registry("registry.example:5000", "team", key="team.pub")
    client.api.pull.return_value = [{"status": "Download complete"}]
    client.images.get.return_value.attrs = {"RepoDigests": [REFERENCE]}
    assert _fetch(client, f"{team.name}/python{by}", team, "toy", lambda *_: None) is not None
    assert cosign.asked == [["verify", "--key", "team.pub", REFERENCE]]


def test_without_cosign_verify_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError) as found:
        require_cosign()
    assert (found.value.key, "cosign" in found.value.found) == ("--verify", True)


@pytest.mark.parametrize(
    ("words", "logs_in"),
    [
        ("no basic auth credentials", True),
        ("unauthorized: authentication required", True),
        ("denied: requested access to the resource is denied", True),
        ("dial tcp 127.0.0.1:5000: connect: connection refused", False),
        ("received unexpected HTTP status: 500 Internal Server Error", False),
    ],
)
def test_what_an_engine_says_is_quoted_and_a_login_is_named_where_one_is_missing(words: str, logs_in: bool) -> None:
    error = _refused("registry.example:5000", words)
    assert words in error.found
    assert ("docker login registry.example:5000" in error.todo) == logs_in


def test_the_digest_is_what_the_engine_says_it_pushed_or_pulled() -> None:
    digest, steps = f"sha256:{'d' * 64}", list[str]()
    events = [
        {"status": "Pushing", "id": "a", "progressDetail": {"current": 1_000_000, "total": 4_000_000}},
        {"status": "Pushing", "id": "b", "progressDetail": {"current": 2_000_000, "total": 2_000_000}},
    ]
    assert _follow([*events, {"aux": {"Tag": "x", "Digest": digest}}], "x", steps.append) == digest
    assert steps == ["pushing 1 of 4 MB", "pushing 3 of 6 MB"]
    assert _follow([{"status": f"Digest: {digest}"}, {"status": "Status: done"}], "x", steps.append) == digest
    assert _follow([{"status": f"3.13: digest: {digest} size: 743"}], "x", steps.append) == digest
    assert _follow([{"status": f"The push refers to {digest}"}], "x", steps.append) == ""
    with pytest.raises(RegistryError, match="manifest invalid"):
        _follow([{"error": "manifest invalid"}], "x", steps.append)


def test_a_platform_has_the_same_name_in_a_registry_and_in_an_engine() -> None:
    assert platform_name({"os": "linux", "architecture": "arm64", "variant": "v8"}) == "linux/arm64"
    assert platform_name({"Os": "linux", "Architecture": "arm", "Variant": "v7"}) == "linux/arm/v7"
    assert platform_name({"Os": "linux", "Architecture": "amd64", "Variant": ""}) == "linux/amd64"


@pytest.mark.parametrize("how", ["push", "pull"])
def test_a_registry_that_falls_silent_in_the_middle_is_named_and_not_the_engine(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, team = threading.Event(), Registry("registry.example:5000", "team")
    head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    event, moving = json.dumps({"status": "Moving"}), {"push": f"{team.name}/python/push", "pull": "create"}[how]

    def fall_silent(*_: BufferedIOBase) -> None:
        over.wait(10)

    def answer(asked: Asked) -> Answer:
        if asked.path.endswith("/_ping"):
            return Answer(body=b"OK")
        if asked.path.startswith(f"/v1.41/images/{moving}"):
            return Answer(raw=f"{head}{len(event):x}\r\n{event}\r\n".encode(), then=fall_silent)
        return as_json({"ApiVersion": "1.41", "Id": "sha256:1", "RepoTags": [], "Components": []})

    monkeypatch.setattr(engines, "MOVE_S", 0.2)
    with serving(answer) as port:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        client, name = connect().client, f"{team.name}/python:x"
        moves: dict[str, Callable[[], object]] = {
            "push": lambda: _push(client, client.images.get("here"), [name], team, print),
            "pull": lambda: _fetch(client, name, team, "toy", print),
        }
        with pytest.raises(RegistryError, match=r"^registry\.example:5000: .*timed out"):
            moves[how]()
        over.set()


@pytest.mark.parametrize("engine", ["Engine", "Podman Engine"])
@pytest.mark.parametrize("known", [f"sha256:{'a' * 64}", None])
def test_where_an_engine_names_no_digest_of_a_push_the_registry_is_asked(
    known: str | None, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Docker does with containerd's store; Podman has no call for it, and skopeo asks."""
    make_program(tmp_path / "skopeo", f"test -n '{known or ''}' && echo {known}")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    client, image, team = Mock(), Mock(id="sha256:1"), Registry("registry.example:5000", "team")
    client.version.return_value = {"Components": [{"Name": engine}]}
    client.api.push.return_value = [{"status": "Pushed"}]
    client.images.get.side_effect = client.images.remove.side_effect = ImageNotFound("none has this name")
    client.images.get_registry_data.side_effect = [Mock(id=known) if known and engine == "Engine" else NotFound("none")]
    if known is None:
        with pytest.raises(RegistryError, match="no digest"):
            _push(client, image, [f"{team.name}/python:x"], team, print)
    else:
        assert _push(client, image, [f"{team.name}/python:x"], team, print) == known
