"""A registry that answers as none should: each answer is one sentence, and nobody else gets the password."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.registry import session
from interlock.engine.registry.api import DOCKER_LIST, MANIFESTS, Api, Tagged, index_of, read_image, read_tag
from interlock.engine.registry.names import Registry
from interlock.errors import RegistryError
from tests.fakes import Answer, Asked, as_json, serving

PLAIN = {"RegistryConfig": {"InsecureRegistryCIDRs": ["127.0.0.0/8"]}}
KIND = MANIFESTS[0]
PASSWORD = "word-1234"  # noqa: S105  of nobody


class Engine:
    """What `Api` asks of an engine."""

    def info(self) -> dict[str, Any]:
        return PLAIN


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


CONFIG = json.dumps({"os": "linux", "architecture": "amd64", "config": {"Labels": {"a": "b"}}}).encode()
MANIFEST = json.dumps({"schemaVersion": 2, "config": {"digest": digest_of(CONFIG)}}).encode()
Serve = Callable[[Asked], Answer]


def manifest(content: Any, kind: str = KIND) -> Answer:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return Answer(200, body, {"Content-Type": kind})


def well(asked: Asked) -> Answer:
    """What a registry should answer."""
    return manifest(MANIFEST) if "/manifests/" in asked.path else Answer(200, CONFIG)


def tag_is(answer: Answer) -> Serve:
    return lambda asked: answer if "/manifests/" in asked.path else Answer(200, CONFIG)


def config_is(answer: Answer) -> Serve:
    return lambda asked: well(asked) if "/manifests/" in asked.path else answer


def challenge_is(text: str, token: Answer = as_json({"token": "x"})) -> Serve:  # noqa: B008  it is frozen
    def serve(asked: Asked) -> Answer:
        if asked.path.startswith("/token"):
            return token
        if "Authorization" in asked.headers:
            return well(asked)
        host = asked.headers["Host"]
        return Answer(401, headers={"WWW-Authenticate": text.replace("HERE", f"http://{host}/token")})

    return serve


def index(*entries: Any) -> Serve:
    return tag_is(manifest({"manifests": list(entries)}, DOCKER_LIST))


ENTRY = {"mediaType": KIND, "digest": digest_of(MANIFEST), "platform": {"os": "linux", "architecture": "amd64"}}
BEARER = 'Bearer realm="HERE",service="s"'
HOSTILE: dict[str, Serve] = {
    "a manifest that is no JSON": tag_is(manifest(b"<html>")),
    "an empty manifest": tag_is(manifest(b"")),
    "a manifest that is a list": tag_is(manifest([])),
    "a manifest that is null": tag_is(manifest(None)),
    "a manifest without a configuration": tag_is(manifest({})),
    "a manifest whose configuration is a text": tag_is(manifest({"config": "sha256:0"})),
    "a digest that is a path": tag_is(manifest({"config": {"digest": "../../../x"}})),
    "a digest that is a number": tag_is(manifest({"config": {"digest": 1}})),
    "a digest with a line feed": tag_is(manifest({"config": {"digest": digest_of(CONFIG) + "\n"}})),
    "a digest of MD5": tag_is(manifest({"config": {"digest": f"md5:{'0' * 32}"}})),
    "nested brackets": tag_is(manifest(b'{"config":' + b"[" * 100_000)),
    "bytes that are no UTF-8": tag_is(manifest(b'{"config": "\xff\xfe"}')),
    "half a character": tag_is(manifest(b'{"config": {"digest": "\\ud800"}}')),
    "another configuration than its digest says": config_is(Answer(200, CONFIG + b" ")),
    "a configuration that is no JSON": lambda asked: hashed(asked, b"no"),
    "a configuration that is a list": lambda asked: hashed(asked, b"[]"),
    "labels that are a list": lambda asked: hashed(asked, b'{"config": {"Labels": ["a"]}}'),
    "an architecture that is a number": lambda asked: hashed(asked, b'{"architecture": 64}'),
    "no configuration": config_is(Answer(404)),
    "an index that is a manifest": tag_is(manifest(MANIFEST, DOCKER_LIST)),
    "an index of texts": index("a"),
    "an index of entries without a digest": index({"mediaType": KIND}),
    "an index with a digest that is a path": index({**ENTRY, "digest": "../x"}),
    "an index with a platform that is a text": index({**ENTRY, "platform": "linux"}),
    "an index of ten thousand": index(*[ENTRY] * 10_000),
    "another image than the index says": lambda asked: (
        manifest(MANIFEST + b" ") if "sha256:" in asked.path else index(ENTRY)(asked)
    ),
    "more than four megabytes": tag_is(manifest(b" " * (session.MOST_BYTES + 1))),
    "a body that was compressed": tag_is(Answer(200, b"\x1f\x8b", {"Content-Encoding": "gzip"})),
    "a body that ends early": tag_is(Answer(200, b"{}", {"Content-Length": "9", "Connection": "close"})),
    "a hang-up": tag_is(Answer(closes=True)),
    "another protocol": tag_is(Answer(raw=b"220 mail.example ESMTP\r\n")),
    "an error that is a list": tag_is(as_json([1], 500)),
    "an error whose code is a number": tag_is(as_json({"errors": [{"code": 1}]}, 500)),
    "an error with escape codes": tag_is(as_json({"errors": [{"code": "A", "message": "\x1b[2J\nerror: fine"}]}, 500)),
    "no errors at all": tag_is(as_json({"errors": []}, 403)),
    "a redirect without end": tag_is(Answer(302, headers={"Location": "/v2/manifests/again"})),
    "a redirect to no address": tag_is(Answer(302, headers={"Location": "https://[::1"})),
    "a redirect to a file": tag_is(Answer(302, headers={"Location": "file:///etc/passwd"})),
    "a redirect to plain HTTP elsewhere": tag_is(Answer(302, headers={"Location": "http://192.0.2.1/x"})),
    "a challenge without a word": challenge_is(""),
    "a challenge without a realm": challenge_is('Bearer service="s"'),
    "a challenge that is no list": challenge_is("Bearer realm"),
    "a realm that is no address": challenge_is('Bearer realm="https://[::1"'),
    "a realm with a password": challenge_is('Bearer realm="https://a:b@c.example/"'),
    "a realm without TLS elsewhere": challenge_is('Bearer realm="http://192.0.2.1/token"'),
    "a token that is a list": challenge_is(BEARER, as_json(["x"])),
    "a token that is a number": challenge_is(BEARER, as_json({"token": 3})),
    "no token": challenge_is(BEARER, as_json({})),
    "a token with a line feed": challenge_is(BEARER, as_json({"token": "a\r\nX: b"})),
    "a token that is no ASCII": challenge_is(BEARER, as_json({"token": "\u4e2d"})),
    "a login service that fails": challenge_is(BEARER, Answer(503)),
    "a login service that gives a page": challenge_is(BEARER, Answer(200, b"<html>")),
}


def hashed(asked: Asked, config: bytes) -> Answer:
    """Answer with this configuration, by its own digest."""
    described = {"config": {"digest": digest_of(config)}}
    return manifest(described) if "/manifests/" in asked.path else Answer(200, config)


def look_up(port: int) -> Tagged | None:
    """Do what a push does first: read what a tag names, and each image of it."""
    api = Api(Engine(), Registry(f"127.0.0.1:{port}", "team"))
    found = read_tag(api, "team/python", "3.14")
    for entry in found.entries if found else ():
        read_image(api, "team/python", entry)
    return found


@pytest.fixture(autouse=True)
def no_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a store of passwords that is the test's own."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


def log_in(folder: Path, port: int) -> None:
    entry = base64.b64encode(f"user:{PASSWORD}".encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {f"127.0.0.1:{port}": {"auth": entry}}}))


def sent_password(asked: list[Asked]) -> list[str]:
    """Return the paths that were asked with the password."""
    word = base64.b64encode(f"user:{PASSWORD}".encode()).decode()
    return [one.path for one in asked if word in one.headers.get("Authorization", "")]


@pytest.mark.parametrize("serve", [well, challenge_is(BEARER), index(ENTRY)])
def test_a_registry_that_answers_as_it_should_is_read(serve: Serve) -> None:
    def answer(asked: Asked) -> Answer:
        return manifest(MANIFEST) if "sha256:" in asked.path and "/manifests/" in asked.path else serve(asked)

    with serving(answer) as port:
        found = look_up(port)
    assert found is not None
    assert [one["digest"] for one in found.entries] == [digest_of(MANIFEST)]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_answer_is_one_sentence(name: str) -> None:
    with serving(HOSTILE[name]) as port, pytest.raises(RegistryError) as caught:
        look_up(port)
    said = str(caught.value)
    assert said.startswith(f"127.0.0.1:{port}: ")
    assert "\n" not in said
    assert "\x1b" not in said
    assert len(said) < 800


def test_an_answer_that_trickles_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "WHOLE_S", -1)
    with serving(well) as port, pytest.raises(RegistryError, match="-1 s"):
        look_up(port)


def test_a_redirect_takes_along_neither_the_password_nor_netrc(no_login: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (no_login / "netrc").write_text(f"machine 127.0.0.1 login user password {PASSWORD}\n")
    monkeypatch.setenv("NETRC", str(no_login / "netrc"))
    here: list[Asked] = []
    there: list[Asked] = []
    with serving(well, there) as other:

        def answer(asked: Asked) -> Answer:
            if "Authorization" not in asked.headers:
                return Answer(401, headers={"WWW-Authenticate": 'Basic realm="r"'})
            return Answer(307, headers={"Location": f"http://127.0.0.1:{other}{asked.path}"})

        with serving(answer, here) as port:
            log_in(no_login, port)
            assert look_up(port) is not None
    assert sent_password(here)
    assert there
    assert sent_password(there) == []
    assert [one for one in there if "Authorization" in one.headers] == []


def test_what_is_written_follows_no_redirect() -> None:
    there: list[Asked] = []
    with (
        serving(well, there) as other,
        serving(lambda asked: Answer(307, headers={"Location": f"http://127.0.0.1:{other}{asked.path}"})) as port,
    ):
        api = Api(Engine(), Registry(f"127.0.0.1:{port}", "team"))
        with pytest.raises(RegistryError, match="redirects"):
            api.put("team/python", "3.14", index_of([ENTRY]))
    assert there == []


def test_a_login_service_elsewhere_gets_no_password(no_login: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there: list[Asked] = []

    def elsewhere(asked: Asked) -> Answer:
        if "Authorization" in asked.headers:
            return well(asked)
        return Answer(401, headers={"WWW-Authenticate": f'Bearer realm="http://127.0.0.2:{other}/token"'})

    with serving(lambda _: as_json({"token": "t"}), there, "127.0.0.2") as other, serving(elsewhere) as port:
        assert look_up(port) is not None  # without a password a token is asked for all the same
        assert sent_password(there) == []
        log_in(no_login, port)
        there.clear()
        with pytest.raises(RegistryError, match=session.LOGIN_SERVICES):
            look_up(port)
        assert there == []
        monkeypatch.setenv(session.LOGIN_SERVICES, "127.0.0.2")
        assert look_up(port) is not None
        assert sent_password(there)


def test_a_registry_cannot_choose_what_a_token_is_for(no_login: Path) -> None:
    asked: list[Asked] = []
    with serving(challenge_is(f'{BEARER},scope="registry:catalog:*"'), asked) as port:
        log_in(no_login, port)
        look_up(port)
    (token,) = {one.path for one in asked if one.path.startswith("/token")}
    assert "catalog" not in token
    assert "team%2Fpython" in token
