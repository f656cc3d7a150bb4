"""The parent image: from a registry by digest, or, if none answers, an equal root file system made by mmdebstrap.

The digest or Debian's signature vouches for what is in it: without either there is no base.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from docker import DockerClient
from docker.errors import APIError, DockerException
from docker.models.images import Image

from interlock.catalog.variants import Base
from interlock.engine.build.sources import tar_of
from interlock.engine.client import (
    NETWORK,
    SEE_LOG,
    disk_full,
    engine_words,
    last_cause,
    no_space,
    require_answer,
)
from interlock.engine.ended import end_session, run_here
from interlock.engine.names import image_by_tag
from interlock.engine.ownership import temporary_folder
from interlock.errors import EngineError
from interlock.results.experiments import BaseImage

LABEL = "interlock.base"
MADE: Final = "mmdebstrap"
# What debian's own slim images leave out. These settings of dpkg stay in the image, and so hold for later packages.
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/lintian/*")
DPKG = (*(f"path-exclude={path}" for path in LEFT_OUT), "path-include=/usr/share/doc/*/copyright", "force-unsafe-io")
# As in Debian's own images: no translations of package lists, and lists that stay compressed.
APT = ('Acquire::Languages "none"', 'Acquire::GzipIndexes "true"', 'Apt::AutoRemove::SuggestsImportant "false"')
# This machine's name and name servers; engines mount their own over them.
DROP_FILES_OF_THIS_MACHINE = 'rm -f "$1/etc/hostname" "$1/etc/resolv.conf"'
# What scripts look for in Debian's own images and not every system has: adduser, and sources in the deb822 form.
# Options of the sources, which name this machine's keys, are dropped: the image has its own keys.
ALSO = "adduser"
SOURCES_IN_DEB822 = r"""
awk '/^deb / { sub(/ \[[^]]*\]/, ""); if (!($2 in suites)) urls[++count] = $2; suites[$2] = suites[$2] " " $3 }
END { for (i = 1; i <= count; i++)
  printf "%sTypes: deb\nURIs: %s\nSuites:%s\nComponents: main\n", (i > 1 ? "\n" : ""), urls[i], suites[urls[i]] }
' "$1/etc/apt/sources.list" > "$1/etc/apt/sources.list.d/debian.sources" && rm "$1/etc/apt/sources.list"
"""
RECIPE = (
    "--variant=minbase",
    f"--include={ALSO}",
    "--format=tar",
    "--skip=output/dev",
    *(f"--dpkgopt={line}" for line in DPKG),
    *(f"--aptopt={line}" for line in APT),
    f"--customize-hook={DROP_FILES_OF_THIS_MACHINE}",
    f"--customize-hook={SOURCES_IN_DEB822}",
)
# Debian's own keys. No other key that this machine trusts for its packages may sign a base.
KEYRINGS = tuple(Path(f"/usr/share/keyrings/debian-archive-keyring.{suffix}") for suffix in ("gpg", "pgp"))
# The time of what mmdebstrap writes. Any fixed time makes one and the same tar twice; this is trixie's release.
SOURCE_DATE_EPOCH = 1754697600
# Longer than mmdebstrap takes to remove what it has made so far.
ENDS_S = 30
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Architectures whose names differ between dpkg and the OCI image specification.
ARCHITECTURES = {"i386": "386", "armhf": "arm", "ppc64el": "ppc64le"}
MIRROR = "INTERLOCK_DEBIAN_MIRROR"
INSTALL = "Install it (apt-get install {}), or make the registry reachable."
INSTALL_KEYS = "apt-get install debian-archive-keyring"
# What to do, by what mmdebstrap says; the last entry holds for everything else.
REMEDIES = {
    "NO_PUBKEY": f"Install the keys that Debian signs its mirrors with: {INSTALL_KEYS}",
    "is not signed": "Configure apt with a mirror that Debian signed, or set INTERLOCK_DEBIAN_MIRROR to its URL.",
    "No space left on device": "Free space in the temporary folder (TMPDIR) and in the cache (XDG_CACHE_HOME): "
    "`df -h` shows how much is left.",
    "": "Make the registry or the Debian mirror reachable. A user other than root also needs the package uidmap and "
    "ids: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER",
}


def ensure_base(
    client: DockerClient, base: Base, cache: Path, on_step: Callable[[str], None], *, bootstraps: bool = True
) -> BaseImage:
    """Return the base: the one that is here, else from its registry, else made by mmdebstrap (about 20 s)."""
    base_image = find_base(client, base)
    if base_image is not None:
        return base_image
    on_step(f"pulling {base.reference}")
    try:
        return pull(client, base.reference)
    except APIError as error:
        reason = engine_words(error)
        if no_space(reason):
            raise disk_full(f"pulling {base.reference}") from None
        if not bootstraps:
            raise EngineError(
                found=f"{base.reference} is not here and cannot be pulled ({reason})",
                todo="Push from the machine that has it: `interlock push` brings a base that was made there.",
            ) from None
        on_step(f"no registry has it ({reason}): mmdebstrap makes {base.suite}")
        return _make(client, base, cache, reason)


def pull(client: DockerClient, reference: str) -> BaseImage:
    """Pull and return an image; docker's own error if the registry has none, stalls, or it cannot be pulled."""
    try:
        for event in client.api.pull(reference, stream=True, decode=True):
            if "error" in event:
                raise APIError(str(event["error"]))
    except APIError:
        raise
    except NETWORK as error:
        require_answer(client)  # a registry that stalls makes the engine silent too
        raise APIError(f"{reference} stalled: {last_cause(str(error))}") from None
    return _described(client.images.get(reference), reference, "registry")


def find_pulled(client: DockerClient, reference: str) -> BaseImage | None:
    """Return an image that came from a registry if this engine has it."""
    image = image_by_tag(client, reference)
    return _described(image, reference, "registry") if image else None


def find_base(client: DockerClient, base: Base) -> BaseImage | None:
    """Return the base if this engine has it; no registry is asked."""
    pulled = find_pulled(client, base.reference)
    if pulled is not None:
        return pulled
    tag = local_tag(base)
    image = image_by_tag(client, tag)
    return _described(image, tag, MADE) if image and image.labels.get(LABEL) == base.reference else None


def _described(image: Image, reference: str, origin: Literal["registry", "mmdebstrap"]) -> BaseImage:
    layers = image.attrs["RootFS"].get("Layers") or []
    return BaseImage(
        reference=reference, origin=origin, image_id=image.id, chain_id=chain_id(layers), size_bytes=image.attrs["Size"]
    )


def chain_id(diff_ids: Sequence[str]) -> str:
    """Return the OCI image specification's ChainID of these layers; for one layer it is the layer's own diff id.

    An image's id also depends on when it was made and on how its engine stores it; this depends on the files alone.
    """
    chained = ""
    for diff_id in diff_ids:
        chained = f"sha256:{hashlib.sha256(f'{chained} {diff_id}'.encode()).hexdigest()}" if chained else diff_id
    return chained


def local_tag(base: Base) -> str:
    """Return the tag of the base that is made here, which changes with the pin and with the recipe."""
    identity = json.dumps([base.reference, *RECIPE, SOURCE_DATE_EPOCH])
    return f"interlock/base:{base.suite}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


def _make(client: DockerClient, base: Base, cache: Path, pull_error: str) -> BaseImage:
    cannot = f"{base.reference} cannot be pulled ({pull_error})"
    try:
        require_mmdebstrap()
    except EngineError as error:
        raise EngineError(found=f"{cannot}, and {error.found}", todo=error.todo) from None
    cache.mkdir(parents=True, exist_ok=True)
    with temporary_folder("base", cache) as folder:
        layer = folder / "layer.tar"
        make_layer(base, layer, cannot)
        return _described(_load(client, base, layer), local_tag(base), MADE)


def require_mmdebstrap() -> None:
    """Raise EngineError if mmdebstrap, Debian's keys or what this user may run mmdebstrap with is not installed."""
    if shutil.which("mmdebstrap") is None:
        raise EngineError(found="mmdebstrap is not installed", todo=INSTALL.format("mmdebstrap"))
    if os.geteuid() != 0 and not any(map(shutil.which, ("newuidmap", "fakechroot"))):
        raise EngineError(
            found="mmdebstrap needs root or the package uidmap, which is not installed", todo=INSTALL.format("uidmap")
        )
    debian_keyring()


def debian_keyring() -> Path:
    """Return the file with Debian's keys."""
    for path in KEYRINGS:
        if path.is_file():
            return path
    raise EngineError(
        file=str(KEYRINGS[0]),
        found="the keys that Debian signs its mirrors with are not installed, and no base is made unsigned",
        todo=f"Install them ({INSTALL_KEYS}), or make the registry reachable.",
    )


def make_layer(base: Base, layer: Path, cannot: str) -> None:
    """Write the root file system as a tar: always the same bytes, unless the mirror has changed.

    EngineError says why mmdebstrap failed; `cannot` is what made it necessary.
    """
    command = ["mmdebstrap", *RECIPE, base.suite, "-", *_sources(base, debian_keyring())]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(SOURCE_DATE_EPOCH)}
    with (
        layer.open("wb") as file,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.PIPE,
            env=environment,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        ) as process,
    ):
        try:
            _, said = process.communicate()
        except BaseException:
            # If it is told to end together with all that it has started, mmdebstrap removes its temporary folder first.
            end_session(process, ENDS_S)
            raise
    if process.returncode != 0:
        raise _failed(said, cannot)


def _failed(said: str, cannot: str) -> EngineError:
    errors = list(dict.fromkeys(line for line in said.splitlines() if line.startswith("E: ")))
    problem = f"{cannot} and mmdebstrap failed: {' / '.join(errors[:2]) or said.strip()}"
    return EngineError(found=problem, todo=next(todo for word, todo in REMEDIES.items() if word in said))


def _sources(base: Base, keyring: Path) -> list[str]:
    mirror, security = debian_mirrors()
    places = [(mirror, base.suite), (mirror, f"{base.suite}-updates")]
    places += [(security, f"{base.suite}-security")] if security else []
    return [f"deb [signed-by={keyring}] {url} {suite} main" for url, suite in places]


def debian_mirrors() -> tuple[str, str | None]:
    """Return the Debian mirror that apt is configured with, and that of its security updates if there is one."""
    override = os.environ.get(MIRROR)
    if override:
        # A line of apt's sources may have options before the URL, and one of these accepts unsigned packages.
        if re.fullmatch(r"[a-z]+:\S+", override) is None:
            raise EngineError(
                key=MIRROR,
                found=f"'{override}' is not a URL",
                todo="Set it to the URL of a Debian mirror, nothing else.",
            )
        return override, None
    wanted = ["--format", "$(LABEL)|$(REPO_URI)", "Created-By: Packages", "Origin: Debian"]
    listing = run_here(["apt-get", "indextargets", *wanted]).stdout.splitlines()
    # Reversed, so that the first of several wins.
    by_label = {label: uri for label, _, uri in (line.rpartition("|") for line in reversed(listing))}
    if "Debian" not in by_label:
        raise EngineError(
            found="apt is configured with no Debian mirror whose lists are here, so mmdebstrap has no source",
            todo="Run `apt-get update`, or set INTERLOCK_DEBIAN_MIRROR to a Debian mirror's URL.",
        )
    return by_label["Debian"], by_label.get("Debian-Security")


def _load(client: DockerClient, base: Base, layer: Path) -> Any:
    """Return the layer as an image whose id depends on its content alone; an import would put today's time into it."""
    with layer.open("rb") as file:
        diff_id = hashlib.file_digest(file, "sha256").hexdigest()
    config = json.dumps(_configuration(base, diff_id), sort_keys=True).encode()
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": [local_tag(base)], "Layers": [layer.name]}]
    archive = layer.with_name("image.tar")
    archive.write_bytes(tar_of({name: config, "manifest.json": json.dumps(manifest).encode()}).read())
    with tarfile.open(archive, "a") as tar:
        tar.add(layer, layer.name)
    try:
        with archive.open("rb") as file:
            client.images.load(file)
        return client.images.get(local_tag(base))
    except DockerException as error:
        raise EngineError(
            found=f"the engine cannot load the base that mmdebstrap made: {engine_words(error)}",
            todo=SEE_LOG,
        ) from None


def _configuration(base: Base, diff_id: str) -> dict[str, object]:
    """Return the image's configuration as the OCI image specification has it."""
    made = datetime.fromtimestamp(SOURCE_DATE_EPOCH, UTC).isoformat().replace("+00:00", "Z")
    architecture = run_here(["dpkg", "--print-architecture"]).stdout.strip()
    return {
        "architecture": ARCHITECTURES.get(architecture, architecture),
        "os": "linux",
        "created": made,
        "config": {"Cmd": ["bash"], "Env": [f"PATH={PATH}"], "Labels": {LABEL: base.reference}},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{diff_id}"]},
        "history": [{"created": made, "created_by": f"mmdebstrap {base.suite}"}],
    }
