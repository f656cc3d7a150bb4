"""Containers for packages: a builder with a network fetches and builds them, the bare image without one installs them.

A builder's pip has what this machine's pip has: settings, certificates, proxies and passwords
(https://pip.pypa.io/en/stable/topics/configuration/).
"""

from __future__ import annotations

import ast
import json
import netrc
import os
import re
import ssl
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from docker import DockerClient
from docker.models.containers import Container

from interlock.catalog import project, rendering
from interlock.catalog.project import Catalog
from interlock.catalog.variants import SourceKind
from interlock.engine.build.image import build_aside, content_hash, find_image, take_tag
from interlock.engine.build.one_build import has_buildkit
from interlock.engine.build.sources import tar_of_paths
from interlock.engine.client import HASH_LABEL, SEE_LOG, disk_full, engine_errors, no_space
from interlock.engine.ended import Ended, run_here
from interlock.engine.ownership import labels_of
from interlock.engine.packages import pip_output
from interlock.engine.packages.kept_wheels import CACHE, CACHE_VOLUME, KeptWheels
from interlock.engine.packages.requirements import host_of_this_machine, hosts_in
from interlock.engine.run import execution
from interlock.engine.run.rights import of_installation
from interlock.errors import BuildError, EngineError
from interlock.results.experiments import Built

# The folder in a container that has all files of an audit.
AUDIT = "/audit"
CERTIFICATES, CLIENT_CERTIFICATE, NETRC = f"{AUDIT}/ca.pem", f"{AUDIT}/client.pem", "/root/.netrc"
CONSTRAINTS = f"{AUDIT}/machine-constraints"
# Settings that say where packages come from and which are chosen; OF_THE_AUDIT sets where pip writes.
KEPT = (
    "index-url", "extra-index-url", "find-links", "no-index", "trusted-host", "proxy", "timeout", "retries", "cert",
    "client-cert", "no-binary", "only-binary", "prefer-binary", "pre", "require-hashes", "constraint",
)  # fmt: skip
# Later sections win, as in pip.
SECTIONS = ("global", "install", ":env:")
ALIASES = {"default-timeout": "timeout", "pypi-url": "index-url"}
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
TRUSTING = ("PIP_CERT", "GIT_SSL_CAINFO", *BUNDLES)
SYSTEM_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
BARE_WORD = re.compile(r'[^\s"\\]+')
OF_THE_AUDIT = {
    "PIP_CACHE_DIR": f"{AUDIT}/pip",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_PROGRESS_BAR": "off",
    "PIP_NO_COLOR": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
    "PIP_BREAK_SYSTEM_PACKAGES": "1",
    "GIT_TERMINAL_PROMPT": "0",
}


@dataclass(frozen=True)
class PipSettings:
    """Environment variables for pip, and this machine's files by their path in a container."""

    environment: dict[str, str]
    files: dict[str, Path | bytes] = field(default_factory=dict)


def gather(variables: Iterable[str] = (), lines: Iterable[str] = ()) -> PipSettings:
    """Return this machine's settings, with the variables and the passwords that lines of requirements files need.

    EngineError for a setting that names this machine itself: a build has the engine's network, never the host's.
    """
    config_list = run_here([sys.executable, "-m", "pip", "config", "list"]).stdout  # empty without a pip here
    known = settings_of(config_list, os.environ)
    named = {name: os.environ[name] for name in variables if name in os.environ}
    return translate(known, os.environ, named, lines)


def settings_of(config_list: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the kept settings by pip's names, from `pip config list` or, if that is empty, from the environment."""
    by_section: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for line in config_list.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in by_section:
            by_section[section][name] = str(ast.literal_eval(value))
    for name, value in environment.items() if not config_list else ():
        if name.startswith("PIP_"):
            by_section[":env:"][name.removeprefix("PIP_").lower().replace("_", "-")] = value
    merged = {ALIASES.get(name, name): value for section in SECTIONS for name, value in by_section[section].items()}
    return {name: " ".join(value.split()) for name, value in merged.items() if name in KEPT and value.strip()}


def translate(
    known: Mapping[str, str], environment: Mapping[str, str], named: Mapping[str, str], lines: Iterable[str] = ()
) -> PipSettings:
    """Return the settings as a container's environment variables, with the files that they name."""
    settings = dict(known)
    files: dict[str, Path | bytes] = {}
    bundle = _bundle(settings.pop("cert", ""), environment)
    if bundle is not None:
        files[CERTIFICATES] = bundle
    client = Path(settings.pop("client-cert", "")).expanduser()
    if client.is_file():
        files[CLIENT_CERTIFICATE] = client
        settings["client-cert"] = CLIENT_CERTIFICATE
    for name, place in (("find-links", f"{AUDIT}/machine-links"), ("constraint", CONSTRAINTS)):
        settings[name] = " ".join(_moved(settings.get(name, ""), place, files))
    passwords = Path(environment.get("NETRC", "~/.netrc")).expanduser()
    named_hosts = {host for text in (*settings.values(), *lines) for host in hosts_in(text)}
    if passwords.is_file() and (needed := _passwords_of(named_hosts, passwords)):
        files[NETRC] = needed
    proxies = {name: value for name, value in environment.items() if name.lower() in PROXIES}
    for name, value in (*settings.items(), *proxies.items()):
        if here := host_of_this_machine(value):
            todo = "Name it there by an address that containers reach: of Docker's network this machine is the gateway."
            raise EngineError(key="pip", found=f"its setting {name} is '{here}', the container itself", todo=todo)
    variables = {f"PIP_{name.upper().replace('-', '_')}": value for name, value in settings.items() if value}
    return PipSettings(
        {**OF_THE_AUDIT, **named, **proxies, **variables, **dict.fromkeys(TRUSTING if bundle else (), CERTIFICATES)},
        files,
    )


def _passwords_of(hosts: set[str], path: Path) -> bytes:
    """Return a netrc's entries for these hosts alone, because a package's build can read them and send them away."""
    try:
        known = netrc.netrc(path).hosts
    except (netrc.NetrcParseError, OSError, UnicodeDecodeError) as error:
        raise EngineError(file=str(path), found=f"pip cannot read it: {error}", todo="Correct it.") from None
    text = ""
    for host in sorted(hosts & known.keys()):
        login, _, password = (_netrc_word(word or "") for word in known[host])
        text += f"machine {host} login {login} password {password}\n"
    return text.encode()


def _netrc_word(word: str) -> str:
    """Return a word as all versions of the netrc module read it, or in quotes, which those before 3.11 do not take."""
    return word if BARE_WORD.fullmatch(word) else json.dumps(word, ensure_ascii=False)


def _bundle(cert: str, environment: Mapping[str, str]) -> Path | None:
    """Return the CA bundle that pip uses here: its own setting, the environment's, or the system's."""
    named = [cert, *(environment.get(name, "") for name in BUNDLES)]
    default = ssl.get_default_verify_paths().cafile
    paths = [Path(name).expanduser() for name in named if name] + [SYSTEM_BUNDLE] + ([Path(default)] if default else [])
    return next((path for path in paths if path.is_file()), None)


def _moved(value: str, place: str, files: dict[str, Path | bytes]) -> list[str]:
    """Return URLs unchanged and this machine's paths as paths in the container; drop paths that do not exist."""
    words = []
    for number, word in enumerate(value.split()):
        if "://" in word and not word.startswith("file:"):
            words.append(word)
            continue
        path = Path(urlsplit(word).path if word.startswith("file:") else word).expanduser()
        if os.path.exists(path):  # noqa: PTH110  `Path.exists` raises PermissionError on 3.11
            words.append(f"{place}/{number}")
            files[words[-1]] = path.absolute()
    return words


# Where a builder's pip puts what it fetches: a volume of this audit.
WHEELS = f"{AUDIT}/wheels"
IDLE = ["sleep", "infinity"]
# coreutils' `timeout` ends the process and its children; the container stays.
UNTIL = 'limit=$1; shift; exec timeout --kill-after=10 "$limit" "$@"'
TIMED_OUT, KILLED = 124, 137
OUT_OF_MEMORY = "\nERROR: killed: most likely it needed more memory than the container has\n"
# If a process outlives even that, the container is killed.
GRACE_S = 60
ASK_S = 300  # for pip's version
# How far two clocks of one machine may differ.
CLOCKS_DIFFER_S = 0.1
SHARE_OF_MEMORY = 0.75


@dataclass(frozen=True)
class PipContainer:
    """A container that sleeps until a program is run in it."""

    container: Container
    environment: Mapping[str, str] = field(default_factory=dict)

    def put(self, places: Mapping[str, Path | bytes]) -> None:
        """Copy files, folders and texts to absolute paths in the container."""
        if places:
            with tar_of_paths(places) as stream:
                self.container.put_archive("/", stream)

    def run(self, argv: list[str], deadline_s: float, **environment: str) -> Ended:
        """Run a program; its output and errors are joined in their order, and only the end of very long ones is kept.

        Raises EngineError if it cannot be stopped at the deadline, or the engine's disk is full.
        """
        command = ["sh", "-c", f"exec 2>&1; {UNTIL}", "sh", f"{deadline_s:g}", *argv]
        started = time.monotonic()
        variables = {**self.environment, **environment}
        ended = execution.run_until(self.container, command, deadline_s + GRACE_S, variables, keeps_end=True)
        if ended.exit_code is None:
            raise EngineError(key=argv[0], found="it cannot be stopped in a container", todo=SEE_LOG)
        if ended.exit_code and no_space(ended.stdout):
            raise disk_full(argv[0])
        late = was_late(ended.exit_code, time.monotonic() - started, deadline_s)
        starved = OUT_OF_MEMORY if ended.exit_code == KILLED and not late else ""
        return replace(ended, stdout=ended.stdout + starved, timed_out=late)

    def pip(self, *words: str, deadline_s: float, **environment: str) -> Ended:
        return self.run(["python", "-m", "pip", *words], deadline_s, **environment)

    def pip_version(self) -> tuple[int, int] | None:
        """Return the version of its pip; None if it has no pip, BuildError if pip does not answer in time."""
        said = self.pip("--version", deadline_s=ASK_S)
        if said.timed_out:
            raise BuildError(found=f"`pip --version` did not end within {ASK_S} s", todo="Check the machine's load.")
        return pip_output.pip_version(said.stdout)


def was_late(exit_code: int, took_s: float, deadline_s: float) -> bool:
    """Return whether `timeout` ended a program, as opposed to a program that ends with such an exit code itself.

    The container's clock for timers and this process's differ: `timeout 3` was seen to take 2.99999 s.
    """
    return exit_code in {TIMED_OUT, KILLED} and took_s >= deadline_s - CLOCKS_DIFFER_S


def open_builder(
    client: DockerClient, owner: str, image_id: str, settings: PipSettings, *, fetches: bool = False
) -> PipContainer:
    """Start a builder with this machine's pip settings and a network; one that `fetches` has the wheels' volume too.

    Builds run as root there. So a builder has nothing that another audit reads, not even pip's own cache.
    """
    environment = {
        **settings.environment,
        "PYTHONUNBUFFERED": "1",  # otherwise errors are printed before the output that led to them
        "MAKEFLAGS": f"-j{os.cpu_count() or 1}",
    }
    inside = _open(
        client,
        owner,
        image_id,
        environment,
        volumes={wheels_volume(owner): {"bind": WHEELS, "mode": "rw"}} if fetches else {},
        network_mode="bridge",
    )
    inside.put(dict(settings.files))
    return inside


def open_image(
    client: DockerClient, owner: str, image_id: str, more_volumes: Mapping[str, str] = MappingProxyType({})
) -> PipContainer:
    """Start the variant's own image as in production, without a network, with the wheels at WHEELS.

    `more_volumes` maps the names of volumes to their paths in the container.
    """
    volumes = {name: {"bind": place, "mode": "rw"} for name, place in more_volumes.items()}
    volumes[wheels_volume(owner)] = {"bind": WHEELS, "mode": "ro"}
    environment = {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        "PIP_BREAK_SYSTEM_PACKAGES": "1",
    }
    return _open(client, owner, image_id, environment, volumes=volumes, network_mode="none")


def open_kept_wheels(client: DockerClient, owner: str, image_id: str) -> KeptWheels:
    """Make the only container that has the wheels of earlier audits; nothing ever runs in it."""
    with engine_errors("the engine cannot make a container"):
        volumes = {CACHE_VOLUME: {"bind": CACHE, "mode": "rw"}}
        return KeptWheels(
            client.containers.create(
                image_id, IDLE, entrypoint=[], network_mode="none", volumes=volumes, labels=labels_of(owner)
            )
        )


def create_wheels_volume(client: DockerClient, owner: str) -> None:
    client.volumes.create(wheels_volume(owner), labels=labels_of(owner))


def wheels_volume(owner: str) -> str:
    return f"interlock-{owner}-wheels"


def _open(
    client: DockerClient, owner: str, image_id: str, environment: Mapping[str, str], **options: Any
) -> PipContainer:
    with engine_errors("the engine cannot start a container"):
        memory = int(client.info()["MemTotal"] * SHARE_OF_MEMORY)
        container = client.containers.run(
            image_id,
            IDLE,
            entrypoint=[],
            user="root",
            init=True,
            detach=True,
            mem_limit=memory,
            memswap_limit=memory,
            **of_installation(),
            labels=labels_of(owner),
            **options,
        )
    return PipContainer(container, environment)


# setuptools-scm asks git for a project's version, and pip clones git URLs.
GIT = "git"
INSTALL = "RUN apt-get update && apt-get install -y --no-install-recommends {} && rm -rf /var/lib/apt/lists/*"
# A variant built from source is entirely in /usr/local, which is copied onto the toolchain stage that variants share.
# The copy comes last: steps after it could not be shared, and each takes seconds.
ON_TOOLCHAIN = f"""\
ARG TOOLCHAIN
ARG VARIANT
FROM ${{VARIANT}} AS variant
FROM ${{TOOLCHAIN}}
{INSTALL.format(GIT)}
ENV LANG=C.UTF-8 PATH=/usr/local/bin:$PATH
COPY --from=variant /usr/local /usr/local
RUN ldconfig
"""
# For any other variant, its system's package manager installs the compilers on top of the image.
ON_IMAGE = """\
ARG VARIANT
FROM ${VARIANT}
USER root
"""


def builder_on_image(packages: Iterable[str]) -> str:
    """Return the Dockerfile of a builder that is a variant's image with these packages of its system."""
    return f"{ON_IMAGE}{INSTALL.format(' '.join([*packages, GIT]))}\n"


def ensure_builder(client: DockerClient, root: Path, image: Built, known: Catalog) -> str:
    """Return the id of the builder of a variant's image, which is built if this image has none."""
    variant = known.variants[image.variant]
    base, compiled = known.bases[variant.base], variant.kind is SourceKind.SOURCE
    context = rendering.context(variant, known, project.read_texts(root)) if compiled else {}
    dockerfile = ON_TOOLCHAIN if context else builder_on_image(base.build_packages)
    known_by = content_hash({**context, "builder": dockerfile.encode()}, image.image_id)
    tag = f"interlock/builder:{image.tag.rpartition(':')[2]}"
    builder = find_image(client, tag, known_by)
    if builder is not None:
        return str(builder.id)
    # BuildKit takes only names in a FROM.
    parent = image.tag if has_buildkit(client) else image.image_id
    arguments = {"VARIANT": parent, **_toolchain(client, context, image)}
    image_id = build_aside(
        client,
        {"Dockerfile": dockerfile.encode()},
        f"the builder of {variant.name}",
        f"dockerfiles/{variant.name}/Dockerfile",
        buildargs=arguments,
        labels={HASH_LABEL: known_by},
    )
    return str(take_tag(client, image_id, tag).id)


def _toolchain(client: DockerClient, context: dict[str, bytes], image: Built) -> dict[str, str]:
    """Return the build argument for the toolchain stage, cached by the engine if the variant was built here."""
    if not context:
        return {}
    arguments = {"BASE": image.base.reference} if image.base else {}
    file = f"dockerfiles/{image.variant}/Dockerfile"
    tag = f"interlock/toolchain:{image.variant}"
    build_aside(client, context, "the toolchain stage", file, buildargs=arguments, target="toolchain", tag=tag)
    return {"TOOLCHAIN": tag}
