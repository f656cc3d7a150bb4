"""The parent image: from a registry by digest, or, where none answers, an equal root file system by debootstrap."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from docker.errors import APIError, ImageNotFound, NotFound

from interlock.errors import EngineError
from interlock.model import Base, BaseImage

LABEL = "interlock.base"
# What debian's own slim images leave out.
SLIMMED = ("usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/lintian")
# So that packages installed later leave it out too.
DPKG_EXCLUDES = "".join(f"path-exclude=/{path}/*\n" for path in SLIMMED) + "path-include=/usr/share/doc/*/copyright\n"
EMPTIED = ("var/lib/apt/lists", "var/cache/apt", "var/log")


def ensure_base(
    client: Any, base: Base, cache: Path, say: Callable[[str], None], *, bootstraps: bool = True
) -> BaseImage:
    """The base that is here already; else from its registry; else made by debootstrap (about 20 s)."""
    found = find_base(client, base)
    if found is not None:
        return found
    say(f"pulling {base.reference}")
    try:
        return pull(client, base.reference)
    except (APIError, NotFound) as error:
        reason = short(error)
        if not bootstraps:
            raise EngineError(
                found=f"{base.reference} is not here and cannot be pulled ({reason})",
                todo="Push from the machine that has it: `interlock push` brings a base that was made there.",
            ) from None
        say(f"no registry has it ({reason}): debootstrap makes {base.suite}")
        return _bootstrap(client, base, cache, reason)


def pull(client: Any, reference: str) -> BaseImage:
    """An image that its registry has; docker's own error if there is none."""
    client.api.pull(reference)
    return _described(client.images.get(reference), reference, "registry")


def find_pulled(client: Any, reference: str) -> BaseImage | None:
    """An image that came from a registry if this engine has it."""
    try:
        return _described(client.images.get(reference), reference, "registry")
    except ImageNotFound:
        return None


def find_base(client: Any, base: Base) -> BaseImage | None:
    """The base if this engine has it, without asking anybody else."""
    pulled = find_pulled(client, base.reference)
    if pulled is not None:
        return pulled
    tag = local_tag(base)
    try:
        image = client.images.get(tag)
    except ImageNotFound:
        return None
    if image.labels.get(LABEL) != base.reference:
        return None
    return _described(image, tag, "debootstrap")


def _described(image: Any, reference: str, origin: Literal["registry", "debootstrap"]) -> BaseImage:
    return BaseImage(reference=reference, origin=origin, image_id=image.id, size_bytes=image.attrs["Size"])


def local_tag(base: Base) -> str:
    """Of its equal by debootstrap, named after the digest that it stands in for: another pin makes another image."""
    return f"interlock/base:{base.suite}-{base.reference.rsplit(':', 1)[1][:12]}"


def short(error: Exception) -> str:
    """The engine's own words for what went wrong."""
    return str(getattr(error, "explanation", None) or error).strip().splitlines()[-1]


def _bootstrap(client: Any, base: Base, cache: Path, pull_error: str) -> BaseImage:
    if shutil.which("debootstrap") is None:
        raise EngineError(
            found=f"{base.reference} cannot be pulled ({pull_error}) and debootstrap is not installed",
            todo="Make the registry reachable, or install it: apt-get install debootstrap",
        )
    if not may_be_root():
        raise EngineError(
            found=f"{base.reference} cannot be pulled ({pull_error}), and only root may run debootstrap",
            todo="Make the registry reachable, run as root or with sudo, or do without containers (--engine host).",
        )
    cache.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="debootstrap-", dir=cache))
    try:
        _run_debootstrap(base, folder, pull_error)
        _slim(folder)
        image = _import(client, folder, base)
    finally:
        subprocess.run([*_as_root(), "rm", "-rf", "--one-file-system", str(folder)], check=False)
    return _described(image, local_tag(base), "debootstrap")


def _run_debootstrap(base: Base, folder: Path, pull_error: str) -> None:
    mirror, security = debian_mirrors()
    command = [*_as_root(), "debootstrap", "--variant=minbase", base.suite, str(folder), mirror]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise EngineError(
            found=f"{base.reference} cannot be pulled ({pull_error}) and debootstrap failed: "
            f"{' / '.join(done.stdout.strip().splitlines()[-2:])}",
            todo="Make the registry reachable, or run as root with a Debian mirror that answers.",
        )
    lines = [f"deb {mirror} {base.suite} main", f"deb {mirror} {base.suite}-updates main"]
    lines += [f"deb {security} {base.suite}-security main"] if security else []
    _write(folder / "etc/apt/sources.list", "".join(f"{line}\n" for line in lines))


def debian_mirrors() -> tuple[str, str | None]:
    """The Debian mirror that apt is configured with, and that of its security updates if there is one."""
    override = os.environ.get("INTERLOCK_DEBIAN_MIRROR")
    if override:
        return override, None
    listing = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    by_label: dict[str, str] = {}
    for line in listing.splitlines():
        origin, label, uri = line.split("|")
        if origin == "Debian":
            by_label.setdefault(label, uri)
    if "Debian" not in by_label:
        raise EngineError(
            found="apt is configured with no Debian mirror whose lists are here, so debootstrap has no source",
            todo="Run `apt-get update`, or set INTERLOCK_DEBIAN_MIRROR to a Debian mirror's URL.",
        )
    return by_label["Debian"], by_label.get("Debian-Security")


def may_be_root() -> bool:
    """Whether this user is root, or becomes it without being asked for a password."""
    if os.geteuid() == 0:
        return True
    return (
        shutil.which("sudo") is not None
        and subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
    )


def _as_root() -> list[str]:
    return [] if os.geteuid() == 0 else ["sudo", "-n"]


def _write(path: Path, text: str) -> None:
    command = [*_as_root(), "tee", str(path)]
    subprocess.run(command, input=text, stdout=subprocess.DEVNULL, text=True, check=True)


def _slim(folder: Path) -> None:
    _write(folder / "etc/dpkg/dpkg.cfg.d/interlock-slim", DPKG_EXCLUDES)
    doomed = [str(folder / path) for path in SLIMMED]
    subprocess.run([*_as_root(), "rm", "-rf", *doomed], check=True)
    for path in EMPTIED:
        subprocess.run([*_as_root(), "find", str(folder / path), "-type", "f", "-delete"], check=True)


def _import(client: Any, folder: Path, base: Base) -> Any:
    """The folder as an image, by a stream: nothing is written twice."""
    command = [*_as_root(), "tar", "-C", str(folder), "-c", "."]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as tar:
        # In one word, because Podman does not read a tag that is given beside the name.
        client.api.import_image_from_stream(
            tar.stdout, repository=local_tag(base), changes=['CMD ["bash"]', f'LABEL {LABEL}="{base.reference}"']
        )
    return client.images.get(local_tag(base))
