"""Variants whose interpreter is compiled, packed, packaged, published by others, or finished from another's build."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog import rendering
from interlock.catalog.project import Catalog
from interlock.catalog.variants import SourceKind
from interlock.engine.build.base import ensure_base
from interlock.engine.build.image import QUESTION, build_aside, parse_facts
from interlock.engine.build.sources import tar_of
from interlock.engine.docker import DockerEngine
from interlock.engine.protocol import BuildOptions
from interlock.results import generated
from interlock.results.experiments import Built, State
from tests.builders import make_wheel
from tests.fakes import files_of, serving
from tests.integration.registries import Registry, push
from tests.integration.resources import run
from tests.integration.toys import (
    ANSWERS,
    TOYS,
    add_channel,
    add_toy_bases,
    add_variant,
    make_toy_base,
    toy_of_channel,
    toy_tarball,
    toy_variant,
)
from tests.integration.wheelhouse import this_machine
from tests.keyring import open_keyring

WHEEL = "toy-1.0-py3-none-any.whl"


def add(project: Path, name: str, text: str, version: str = "9.9.1", **more: str) -> None:
    """A toy variant that is compiled from no source: of a version, on Debian unless another base is named."""
    add_variant(project, name, text, f'version = "{version}"', **{"base": "trixie", **more})


def build(client: Any, project: Path, *names: str) -> list[Built]:
    """Renders what the project says and builds it."""
    known = catalogs.load(project)
    generated.sync(project, rendering.generated_files(known, catalogs.read_texts(project)))
    options = BuildOptions(project, project.parent / "cache")
    return DockerEngine(client).build(known, list(names), options, lambda *_: None)


def log_of(project: Path, name: str) -> str:
    return (project.parent / f"cache/logs/{name}.log").read_text(encoding="utf-8")


@contextmanager
def served(client: Any, folder: Path) -> Iterator[str]:
    """The folder by HTTP where builds can reach it."""
    host = this_machine(client)
    with serving(files_of(folder), host=host) as port:
        yield f"http://{host}:{port}/"


def installed_interpreter(folder: Path) -> Path:
    """The interpreter that runs this, in a prefix of its own: without what else is installed beside it."""
    base, name = Path(sys.base_prefix), f"python{sys.version_info.major}.{sys.version_info.minor}"
    left_out = shutil.ignore_patterns(
        *("site-packages", "dist-packages", "test", "config-*", "__pycache__"),
        *("ensurepip", "idlelib", "lib2to3", "tkinter", "turtledemo", "asyncio", "curses", "dbm", "distutils", "email"),
        *("http", "multiprocessing", "pydoc_data", "unittest", "venv", "wsgiref", "xml", "xmlrpc"),
    )
    shutil.copytree(base / "lib" / name, folder / "lib" / name, ignore=left_out)
    for library in (base / "lib").glob("libpython3*.so*"):
        shutil.copy2(library, folder / "lib")
    (folder / "bin").mkdir()
    shutil.copy2(base / "bin" / name, folder / "bin")
    (folder / "bin/python3").symlink_to(name)
    return folder


@pytest.mark.slow
def test_an_installed_interpreter_is_packed_with_what_it_links_and_starts_in_the_image(
    client: Any, project: Path, tmp_path: Path
) -> None:
    place = installed_interpreter(tmp_path / "prefix")
    answer = subprocess.run(
        [str(place / "bin/python3"), "-c", QUESTION], capture_output=True, text=True, check=True
    ).stdout
    facts = parse_facts(answer)
    prefix = f'optimisation = "{facts.optimisation}"\n[prefix]\nplaces = ["$NOWHERE/x", "{place}"]\n'
    flavour = facts.thread_flavour.value
    add(project, "toy-prefix", prefix, version=platform.python_version(), thread_flavour=flavour, gil=facts.gil.value)
    (image,) = build(client, project, "toy-prefix")
    assert image.outcome.state is State.OK, image.outcome.reason
    script = """
import ctypes, json, sqlite3, ssl, sys, sysconfig, zlib
with sqlite3.connect(":memory:") as connection:
    (answer,) = connection.execute("select 6 * 7").fetchone()
ssl.create_default_context()
print(sys.prefix, sys.executable, answer, hasattr(ssl, "OPENSSL_VERSION"))
"""
    assert run(client, image.image_id, "python", "-c", script) == "/usr/local /usr/local/bin/python 42 True"
    (again,) = build(client, project, "toy-prefix")
    assert again.reused, "an unchanged prefix is not packed again"


def test_the_system_is_not_packed_and_the_row_says_so(client: Any, project: Path) -> None:
    add(project, "toy-system", '[prefix]\nplaces = ["/usr"]\n')
    (image,) = build(client, project, "toy-system")
    assert image.outcome.state is State.UNAVAILABLE
    assert image.outcome.reason.startswith("/usr ")


def test_an_interpreter_that_is_not_installed_is_unavailable_and_does_not_stop_another(
    client: Any, project: Path, mirror: Path
) -> None:
    add(project, "toy-absent", '[prefix]\nplaces = ["$NOWHERE/x", "~/no/such/folder"]\n')
    toy_variant(project, "toy-present", "toy.tgz", toy(mirror))
    absent, present = build(client, project, "toy-absent", "toy-present")
    assert absent.outcome.state is State.UNAVAILABLE
    assert absent.outcome.reason.endswith(": $NOWHERE/x, ~/no/such/folder")
    assert present.outcome.state is State.OK, present.outcome.reason


def toy(folder: Path, file: str = "toy.tgz", major: str = "9", mark: str = "", **answers: str) -> str:
    """The archive of a toy that build.sh can build and that proves to be CPython; returns its SHA-256.

    With a mark of its own it is one that the engine has never built.
    """
    renamed = f"sed -i s/python9/python{major}/g Makefile.in; cp python9 toy; mv toy python{major}; : {mark}"
    return toy_tarball(folder, file, renamed, answers)


# Contexts carry no modes: the Dockerfile sets the one that is needed.
OF_OTHERS = b"""
ARG BASE
FROM ${BASE}
COPY python /usr/local/bin/python
RUN chmod 755 /usr/local/bin/python
ENV OTHERS=yes
CMD ["others"]
"""


def publish(client: Any, base: str, repository: str) -> str:
    """Pushes an image whose python is a toy; the reference that pins it, which this engine has not."""
    answers = "\n".join(f"echo '{key}={value}'" for key, value in {**ANSWERS, "implementation": "cpython"}.items())
    files = {"Dockerfile": OF_OTHERS, "python": f"#!/bin/sh\n{answers}\n".encode()}
    image_id = build_aside(client, files, "toy", "Dockerfile", buildargs={"BASE": base})
    digest = push(client, image_id, f"{repository}:toy")
    client.images.remove(f"{repository}:toy")
    return f"{repository}:toy@{digest}"


def test_an_image_that_others_publish_is_pulled_by_its_digest_and_keeps_what_it_says(
    client: Any, project: Path, registry: Registry
) -> None:
    reference = publish(client, make_toy_base(client).reference, f"{registry.address}/python")
    add(project, "toy-image", f'[image]\nreference = "{reference}"\n')
    try:
        (image,) = build(client, project, "toy-image")
        assert image.outcome.state is State.OK, image.outcome.reason
        assert image.base is not None
        assert (image.base.reference, image.base.origin) == (reference, "registry")
        made = client.images.get(image.image_id)
        assert made.labels["interlock.variant"] == "toy-image"
        assert made.attrs["Config"]["Cmd"] == ["others"]
        assert "OTHERS=yes" in made.attrs["Config"]["Env"]
        assert build(client, project, "toy-image")[0].reused
    finally:
        client.images.remove(reference, force=True)


def test_an_image_that_no_registry_has_is_unavailable_with_the_registrys_answer(
    client: Any, project: Path, registry: Registry
) -> None:
    missing = f"{registry.address}/python:toy@sha256:{'5' * 64}"
    nowhere = f"127.0.0.1:1/python:toy@sha256:{'5' * 64}"
    add(project, "toy-missing", f'[image]\nreference = "{missing}"\n')
    add(project, "toy-nowhere", f'[image]\nreference = "{nowhere}"\n')
    first, second = build(client, project, "toy-missing", "toy-nowhere")
    assert (first.outcome.state, second.outcome.state) == (State.UNAVAILABLE, State.UNAVAILABLE)
    assert first.outcome.reason.startswith(f"no registry has {missing}: ")
    assert "manifest unknown" in first.outcome.reason
    assert second.outcome.reason.startswith(f"no registry has {nowhere}: ")
    assert "connection refused" in second.outcome.reason


def test_an_interpreter_of_debians_is_installed_and_leaves_no_package_lists(
    client: Any, catalog: Catalog, quick: Built
) -> None:
    packages = catalog.variants[quick.variant].packages
    assert packages is not None
    script = "ls /var/lib/apt/lists; readlink -f /usr/local/bin/python; python3 -c 'print(6 * 7)'"
    assert run(client, quick.image_id, "sh", "-c", script) == f"{packages.python}\n42"


def test_a_committed_row_whose_source_only_upstream_has_builds_from_the_users_mirror(
    client: Any, catalog: Catalog, root: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row as it is, but for the sum of its source, which is a toy here, its base and its tag."""
    row = next(
        variant
        for variant in catalog.variants.values()
        if variant.kind is SourceKind.SOURCE
        and variant.parts == [variant.interpreter]
        and not variant.fallbacks
        and not (variant.shared_build or variant.build_packages or variant.finish or variant.parts[0].prepare)
        and not (variant.parts[0].patches or variant.parts[0].signature)
        and not [place for place in variant.parts[0].places if place.startswith("pool/")]
    )
    part, proof = row.parts[0], row.proof
    found = toy(
        tmp_path / "mirror",
        part.file,
        row.major,
        version=row.version,
        thread_flavour=proof.thread_flavour.value,
        gil=proof.gil.value,
        optimisation=proof.optimisation,
        loaded_libraries=str(proof.thread_library),
    )
    listed = project / "variants/sources.toml"
    listed.write_text(listed.read_text(encoding="utf-8").replace(part.sha256, found), encoding="utf-8")
    text = (root / f"variants/{row.name}.toml").read_text(encoding="utf-8")
    text = re.sub(r"^control = .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^tag = .*$", 'tag = "toy-row"', text, flags=re.MULTILINE)
    text = re.sub(r"^base = .*$", f'base = "{TOYS}"', text, flags=re.MULTILINE)
    add_toy_bases(project)
    (project / "variants/toy-row.toml").write_text(text, encoding="utf-8")
    with served(client, tmp_path / "mirror") as url:
        monkeypatch.setenv("INTERLOCK_SOURCE_MIRROR", url)
        (image,) = build(client, project, "toy-row")
    assert image.outcome.state is State.OK, image.outcome.reason
    assert f"interlock: source {part.file} from {url}{part.file}\n" in log_of(project, "toy-row")
    assert f"version={row.version}" in run(client, image.image_id, "python")


def test_the_newest_release_that_can_be_had_is_built_labelled_and_recorded(
    client: Any, project: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "served"
    folder.mkdir()
    with served(client, folder) as url:
        add_channel(project, tmp_path / "mirror", url.rstrip("/"))
        toy_of_channel(project, "toy-channel")
        shutil.copy(tmp_path / "mirror/toy-9.9.1.tgz", folder)
        (older,) = build(client, project, "toy-channel")
        assert older.outcome.state is State.OK, older.outcome.reason
        assert (older.version, [one.version for one in older.passed_over]) == ("9.9.1", ["9.9.2"])
        assert versions_of(client, older.image_id) == ("9.9.1", "9.9.1")

        (folder / "toy-9.9.1.tgz").unlink()
        (again,) = build(client, project, "toy-channel")
        assert (again.reused, again.image_id) == (True, older.image_id)
        assert [one.version for one in again.passed_over] == ["9.9.2"]

        shutil.copy(tmp_path / "mirror/toy-9.9.2.tgz", folder)
        (newest,) = build(client, project, "toy-channel")
        assert (newest.version, newest.passed_over) == ("9.9.2", [])
        assert versions_of(client, newest.image_id) == ("9.9.2", "9.9.2")


def versions_of(client: Any, image_id: str) -> tuple[str, str]:
    """What an image's label and its interpreter say."""
    label = client.images.get(image_id).labels["org.opencontainers.image.version"]
    return label, parse_facts(run(client, image_id, "python", "-c", "")).version


def test_a_dockerfile_alone_builds_the_newest_or_the_release_that_is_named(
    client: Any, project: Path, tmp_path: Path
) -> None:
    with served(client, tmp_path / "mirror") as url:
        add_channel(project, tmp_path / "mirror", url.rstrip("/"))
        toy_of_channel(project, "toy-channel")
        known = catalogs.load(project)
        context = rendering.context(known.variants["toy-channel"], known, catalogs.read_texts(project))
        for source, expected in (({}, "9.9.2"), ({"SOURCE": "9.9.1"}, "9.9.1")):
            arguments = {"BASE": make_toy_base(client).reference, **source}
            image_id = build_aside(client, context, "toy", "Dockerfile", buildargs=arguments)
            assert versions_of(client, image_id) == (expected, expected)
            assert f"PYTHON_VERSION={expected}" in client.images.get(image_id).attrs["Config"]["Env"]
            client.images.remove(image_id)


@pytest.mark.slow
def test_a_shared_build_is_taken_from_the_engines_cache_and_then_finished(
    client: Any, project: Path, mirror: Path
) -> None:
    toy_variant(project, "toy-owner", "toy.tgz", toy(mirror, mark=str(uuid.uuid4())))
    (project / "variants/steps/toy-finish.sh").write_text(
        'set -eu\ncp "$BUILD_DIR"/*.whl "$PREFIX/lib/"\necho finished > "$PREFIX/lib/finished"\n', encoding="utf-8"
    )
    wheel = make_wheel(mirror, WHEEL)
    finish = '[finish]\nsteps = ["toy-finish.sh"]\n[[finish.downloads]]\n'
    download = f'file = "{WHEEL}"\nsha256 = "{wheel}"\nplaces = ["pip/toy==1.0"]\n'
    add_variant(project, "toy-borrower", finish + download, 'build_of = "toy-owner"')
    # The order of the names is not the order of the builds.
    borrower, owner = build(client, project, "toy-borrower", "toy-owner")
    assert owner.outcome.state is State.OK, owner.outcome.reason
    assert borrower.outcome.state is State.OK, borrower.outcome.reason
    assert "step compiling the interpreter" in log_of(project, "toy-owner")
    log = log_of(project, "toy-borrower")
    assert re.search(r"^Step [^\n]* sh /interlock/build\.sh\n ---> Using cache$", log, re.MULTILINE)
    assert "step compiling the interpreter" not in log
    assert "interlock: step finishing: toy-finish.sh\n" in log
    finished = run(client, borrower.image_id, "sh", "-c", "cat /usr/local/lib/finished; ls /usr/local/lib")
    assert finished.splitlines() == ["finished", "finished", "python9.9", WHEEL]
    assert run(client, owner.image_id, "ls", "/usr/local/lib") == "python9.9"


SIGNED = """
set -eu
PREFIX=/usr/local INTERLOCK_SOURCE_MIRROR= HERE=/signed
cd /signed
. ./fetch.sh
for case in "good author" "good stranger" "changed author" "unsigned author"; do
    set -- $case
    code=0
    (check_signature "$1.tgz" "$2.asc" "file:///signed/$1.tgz.asc") || code=$?
    echo "$1 $2: $code"
done
"""


def test_debians_own_sqv_takes_the_authors_signature_of_the_very_file_and_no_other(
    client: Any, catalog: Catalog, root: Path, tmp_path: Path
) -> None:
    """In the image in which sources are fetched."""
    base = ensure_base(client, catalog.bases["trixie"], tmp_path, print)
    context = {"Dockerfile": (root / "dockerfiles/cpython-3.13/Dockerfile").read_bytes()}
    arguments = {"BASE": base.reference}
    image_id = build_aside(client, context, "toolchain", "Dockerfile", buildargs=arguments, target="toolchain")
    with open_keyring() as keyring:
        files = {f"{name}.asc": keyring.make_key(name).encode() for name in ("author", "stranger")}
        files |= {"good.tgz": b"source", "changed.tgz": b"sauce", "unsigned.tgz": b"source"}
        files |= {f"{name}.tgz.asc": keyring.sign("author", b"source") for name in ("good", "changed")}
        fingerprint = keyring.fingerprint("author")
    files |= {"fetch.sh": (root / "dockerfiles/fetch.sh").read_bytes(), "check.sh": SIGNED.encode()}
    output = run_with(client, image_id, {f"signed/{name}": data for name, data in files.items()}, "/signed/check.sh")
    lines = output.splitlines()
    assert [line for line in lines if not line.startswith("interlock:")] == [
        "good author: 0",
        "good stranger: 66",
        "changed author: 66",
        "unsigned author: 0",
    ], output
    assert lines[0] == f"interlock: signature of good.tgz by {fingerprint} from file:///signed/good.tgz.asc"
    assert re.match(r"interlock: tried file:///signed/good\.tgz\.asc: .*\bstranger\.asc: ", lines[2])
    assert [line for line in lines if line.startswith("interlock: signature of unsigned.tgz ") and " by " not in line]


def run_with(client: Any, image_id: str, files: dict[str, bytes], script: str) -> str:
    """What a script says in a container that has these files."""
    container = client.containers.create(image_id, ["sh", script], network_mode="none")
    try:
        container.put_archive("/", tar_of(files))
        container.start()
        container.wait()
        output: bytes = container.logs()
    finally:
        container.remove(v=True, force=True)
    return output.decode().strip()
