"""Archives that hosts and containers send: described in JSON, and made of it."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import random
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from interlock.engine.build import sbom
from interlock.engine.packages import installer
from interlock.engine.packages.kept_wheels import KeptWheels
from interlock.engine.run import leftovers, user_containers
from interlock.errors import InterlockError
from interlock.fleet.record import take_in_results
from interlock.results import store
from tests.fleet.test_record import RECORD, VARIANTS, measured
from tests.fuzzing.damage import Form, Target, is_json
from tests.results.writer import run_of

PACKED: Mapping[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "xz": lzma.compress}
FAULTS = 0.3  # the share of tars in which bytes are changed besides


def _tar(text: str, pack: str = "") -> bytes | None:
    """The tar that a text describes as JSON, {"members": [{"name", "type", "json" or "text", "size", ...}]}.

    What is no such JSON is the tar itself; None for what no tar can have. A third has bytes changed besides, packed or
    not: which is the text's own.
    """
    chance = random.Random(zlib.crc32(text.encode("utf-8", "replace")))
    described = json.loads(text) if is_json(text) else None
    if not isinstance(described, dict) or not isinstance(described.get("members"), list):
        data = text.encode("utf-8", "replace")
    else:
        try:
            data = _tar_of(described["members"])
        except (ValueError, LookupError, TypeError, OverflowError, AttributeError):
            return None
        pack = described.get("pack", pack) if isinstance(described.get("pack", pack), str) else pack
    data = _faulty(data, chance)
    return _faulty(PACKED[pack](data), chance) if pack in PACKED else data


def _tar_of(described: list[Any]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", errors="surrogatepass") as tar:
        for one in described:
            entry = tarfile.TarInfo(str(one.get("name", ""))[:5000])
            entry.type = str(one.get("type", "0"))[:1].encode() or b"0"
            entry.linkname = str(one.get("link", ""))
            entry.mtime = one.get("mtime", 0)
            content = (
                one["text"].encode("utf-8", "surrogatepass") if "text" in one else json.dumps(one["json"]).encode()
            )
            entry.size = one.get("size", len(content))
            entry.pax_headers = {str(key): str(value) for key, value in one.get("pax", {}).items()}
            tar.addfile(entry)
            stream.write(content)
            stream.write(bytes(-len(content) % 512))
            tar.offset = stream.tell()
    return stream.getvalue()


def _faulty(data: bytes, chance: random.Random) -> bytes:
    if not data or chance.random() > FAULTS:
        return data
    changed = bytearray(data)
    for _ in range(chance.choice((1, 3, 20))):
        changed[chance.randrange(min(len(changed), chance.choice((600, len(changed)))))] = chance.randrange(256)
    return bytes(changed[: chance.randrange(len(changed))]) if chance.random() < 0.2 else bytes(changed)


def _host(text: str, folder: Path) -> None:
    """What a fleet's host sends; beside the fleet's folder nothing is written, and what is taken can be read."""
    data = _tar(text, "gz")
    if data is None:
        return
    archive, there = folder / "host.tar.gz", folder / "fleet"
    shutil.rmtree(there, ignore_errors=True)
    archive.write_bytes(data)
    try:
        take_in_results(archive, there, "bench1", RECORD)
        store.read_cells(there / "bench1", store.read_experiment(there / "bench1"))
    finally:
        assert {path.name for path in folder.iterdir()} <= {archive.name, there.name}
        assert {path.name for path in there.iterdir()} <= {"bench1"}


@cache
def _hosts_answers() -> list[str]:
    described = measured()
    run = run_of(1, "base")
    values = {"version": "1.0", "benchmarks": [{"metadata": run.metadata, "runs": [{"values": run.values}]}]}
    host = described.host["folder"]
    parts = [
        {"name": "x", "type": "5", "text": ""},
        {"name": "x/experiment.json", "json": json.loads(described.model_dump_json())},
    ]
    parts += [{"name": f"x/{host}/{variant}/locks.json", "json": values} for variant in VARIANTS]
    links = [
        {"name": f"x/{host}/l", "type": "2", "link": "../..", "text": ""},
        {"name": "x/h", "type": "1", "link": "x/experiment.json", "text": ""},
    ]
    return [json.dumps({"members": parts}), json.dumps({"members": [*parts, *links]})]


class _Container:
    """A container from which every path has the same tar, in two pieces."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def get_archive(self, _: str) -> tuple[Iterator[bytes], dict[str, Any]]:
        return iter((self.data[:700], self.data[700:])), {}

    def remove(self, **_: Any) -> None:
        return


def _archive(text: str, folder: Path) -> None:
    """A tar as what is taken out of containers: the GIL's probe, wheels, versions, METADATA."""
    data = _tar(text)
    if data is None:
        return
    into = folder / "into"
    into.mkdir(exist_ok=True)
    container: Any = _Container(data)
    image = SimpleNamespace(id="sha256:0", attrs={"Created": "2026-11-28T00:00:00Z"})
    client: Any = SimpleNamespace(
        images=SimpleNamespace(get=lambda _: image),
        volumes=SimpleNamespace(get=lambda _: None),
        containers=SimpleNamespace(create=lambda *_, **__: container),
    )
    packages: Any = SimpleNamespace(volume="v", mount_path="/packages")
    user_containers.read_gil_probe(container)
    KeptWheels(container).take("key", into)
    with suppress(InterlockError), mock.patch.object(leftovers, "remove"):
        installer._recorded(client, "sha256:0", packages)
    with suppress(InterlockError):
        sbom.read_contents(client, "x")
    assert {one.name for one in folder.iterdir()} <= {into.name}


@cache
def _archives() -> list[str]:
    wheel = {"wheel": "a-1-py3-none-any.whl", "sha256": "0" * 64, "build_s": 1.5}
    lib = "python3.13/site-packages/a-1.dist-info/METADATA"
    taken = [
        {"name": "gil", "type": "5", "text": ""},
        {"name": "gil/1.gil", "text": "1 0 0 json\n"},
        {"name": lib, "text": "Metadata-Version: 2.1\nName: a\nVersion: 1\n\nwords"},
        {"name": "libpython.so", "text": "\x7fELF libexpat.so"},
        {"name": "l", "type": "2", "link": "gil/1.gil", "text": ""},
    ]
    record = [{"name": "record.json", "json": wheel}]
    versions = [{"name": "interlock.json", "json": {"numpy": "2.0"}}]
    every = [json.dumps({"members": one}) for one in (taken, record, versions)]
    return [*every, json.dumps({"members": taken, "pack": "xz"})]


ANSWERS = {
    "a fleet host's archive": Target(_host, _hosts_answers, Form.JSON),
    "archives of containers": Target(_archive, _archives, Form.JSON),
}
