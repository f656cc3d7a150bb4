"""Registries of a test's own: Debian's docker-registry on this machine, with TLS, passwords, tokens or a small disk."""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

USER = "builder"
# Where the engine looks for the certificate of an authority by the registry's address.
TRUSTED = Path("/etc/docker/certs.d")
STOP_S = 10
# What a credential store has for a hub instead of a password.
IDENTITY = secrets.token_urlsafe(12)


@dataclass
class Registry:
    """A registry that can be stopped, and started anew with other settings, as its owner does."""

    host: str
    folder: Path
    port: int
    tls: bool = False
    password: str = ""
    settings: dict[str, Any] = field(default_factory=dict)  # laid over docker-registry's configuration
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def start(self, **settings: Any) -> None:
        """With further settings than those that it has always."""
        self.start_as(json.dumps(_merged(self._config(), self.settings, settings)))  # JSON is YAML

    def start_as(self, configuration: str) -> None:
        """Start it with this configuration alone, in YAML."""
        config = self.folder / "registry.yml"
        config.write_text(configuration)
        with (self.folder / "registry.log").open("ab") as log:
            self.process = subprocess.Popen(["docker-registry", "serve", str(config)], stderr=log, stdout=log)
        _await(self.host, self.port)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=STOP_S)
            self.process = None

    def restart(self, **settings: Any) -> None:
        self.stop()
        self.start(**settings)

    def _config(self) -> dict[str, Any]:
        http: dict[str, Any] = {"addr": self.address}
        if self.tls:
            http["tls"] = {"certificate": str(self.folder / "tls.crt"), "key": str(self.folder / "tls.key")}
        auth = {"auth": {"htpasswd": {"realm": "test", "path": str(self.folder / "htpasswd")}}} if self.password else {}
        storage = {"filesystem": {"rootdirectory": str(self.folder / "storage")}}
        # A second stop is a test's, and what a client keeps open must not hold it up.
        return {"version": 0.1, "storage": storage, "http": {**http, "draintimeout": "1s"}, **auth}


@contextmanager
def registry(
    folder: Path,
    host: str = "127.0.0.1",
    *,
    tls: bool = False,
    password: bool = False,
    holding: Path | None = None,
    **settings: Any,
) -> Iterator[Registry]:
    """A registry on a free port; its authority is trusted by the engine, for as long as it is there.

    It starts with what another one's folder is `holding`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if holding is not None:
        shutil.copytree(holding / "storage", folder / "storage")
    made = Registry(host, folder, free_port(host), tls, secrets.token_urlsafe(12) if password else "", settings)
    if tls:
        make_certificate(folder, host)
        _as_root("mkdir", "-p", str(TRUSTED / made.address))
        _as_root("cp", str(folder / "tls.crt"), str(TRUSTED / made.address / "ca.crt"))
    if password:
        (folder / "htpasswd").write_text(f"{USER}:{_bcrypt(made.password)}\n")
    try:
        made.start()
        yield made
    finally:
        made.stop()
        if tls:
            _as_root("rm", "-r", str(TRUSTED / made.address))
            _as_root("rmdir", "--ignore-fail-on-non-empty", str(TRUSTED))


def log_in(folder: Path, made: Registry, password: str | None = None) -> dict[str, str]:
    """What `docker login` writes, in a store of the test's own, and the environment that makes it the engine's."""
    folder.mkdir(parents=True, exist_ok=True)
    entry = base64.b64encode(f"{USER}:{made.password if password is None else password}".encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {made.address: {"auth": entry}}}))
    return {"DOCKER_CONFIG": str(folder)}


def keep_identity(folder: Path, made: Registry) -> dict[str, str]:
    """The same with an identity token, as hubs give one to `docker login`."""
    folder.mkdir(parents=True, exist_ok=True)
    auth = base64.b64encode(b"<token>:").decode()
    (folder / "config.json").write_text(
        json.dumps({"auths": {made.address: {"auth": auth, "identitytoken": IDENTITY}}})
    )
    return {"DOCKER_CONFIG": str(folder)}


def free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def make_certificate(folder: Path, host: str, kind: str = "ec") -> None:
    subject = ["-subj", "/CN=interlock test", "-addext", f"subjectAltName=IP:{host}", "-days", "2"]
    files = ["-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt")]
    curve = ["-pkeyopt", "ec_paramgen_curve:prime256v1"] if kind == "ec" else []
    command = ["openssl", "req", "-x509", "-newkey", kind, *curve, "-nodes"]
    subprocess.run([*command, *subject, *files], check=True, capture_output=True)


def _bcrypt(password: str) -> str:
    """The kind of hash that docker-registry takes; Perl has the C library's crypt, which Python 3.13 has not."""
    script = "my $word = <STDIN>; print crypt($word, q($2y$05$) . q(interlocktestsaltinter))"
    return subprocess.run(["perl", "-e", script], input=password, capture_output=True, text=True, check=True).stdout


def _await(host: str, port: int) -> None:
    for _ in range(100):
        with suppress(OSError), socket.create_connection((host, port), timeout=1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"no registry on {host}:{port}")


def _merged(*parts: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            both = isinstance(value, dict) and isinstance(found.get(key), dict)
            found[key] = _merged(found[key], value) if both else value
    return found


def _as_root(*command: str) -> None:
    subprocess.run([*([] if os.geteuid() == 0 else ["sudo", "-n"]), *command], check=True)


def distrust(made: Registry) -> None:
    """The engine no longer trusts the registry's authority."""
    _as_root("rm", str(TRUSTED / made.address / "ca.crt"))


def token_service(folder: Path, allowed: str) -> ThreadingHTTPServer:
    """Gives tokens for the namespace `allowed` alone, as hubs do; the registry trusts what its key has signed."""
    make_certificate(folder, "127.0.0.1", "rsa:2048")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._grant(parse_qs(urlsplit(self.path).query))

        def do_POST(self) -> None:
            asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            if asked.get("refresh_token") != [IDENTITY]:
                self.send_error(401)
                return
            self._grant(asked)

        def _grant(self, asked: dict[str, list[str]]) -> None:
            access = [_access(scope) for scope in asked.get("scope", [])]
            granted = [one for one in access if one["name"].startswith(f"{allowed}/")]
            token = _signed(folder, granted)
            body = json.dumps({"token": token, "access_token": token}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def token_settings(folder: Path, server: ThreadingHTTPServer) -> dict[str, Any]:
    realm = f"http://127.0.0.1:{server.server_port}/token"
    certificate = str(folder / "tls.crt")
    return {"auth": {"token": {"realm": realm, "service": "test", "issuer": "test", "rootcertbundle": certificate}}}


def _access(scope: str) -> dict[str, Any]:
    kind, name, actions = scope.split(":")
    return {"type": kind, "name": name, "actions": actions.split(",")}


def _signed(folder: Path, access: list[dict[str, Any]]) -> str:
    certificate = "".join((folder / "tls.crt").read_text().splitlines()[1:-1])
    now = int(time.time())
    claims = {"iss": "test", "aud": "test", "sub": USER, "nbf": now - 60, "exp": now + 300, "access": access}
    head = {"typ": "JWT", "alg": "RS256", "x5c": [certificate]}
    text = ".".join(_url_safe(json.dumps(part).encode()) for part in (head, claims))
    command = ["openssl", "dgst", "-sha256", "-sign", str(folder / "tls.key")]
    signature = subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout
    return f"{text}.{_url_safe(signature)}"


def _url_safe(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir()
    _as_root("mount", "-t", "tmpfs", "-o", f"size={size},mode=0777", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        _as_root("umount", str(folder))
