"""What builds fetch, and the contents of variants/sources.toml: every source, who vouches for it, and the channels."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from packaging.version import Version as Number
from pydantic import Field, StringConstraints, model_validator

from interlock.catalog.reading import parse as parse_tables
from interlock.catalog.reading import read_sections
from interlock.catalog.types import (
    MACHINE,
    Data,
    FileName,
    MachineFileName,
    MachineUrl,
    Name,
    Sha256,
    SourceLocation,
    Text,
    Version,
    first_twice,
)
from interlock.errors import CatalogError, nearest

FILE = "variants/sources.toml"
Locations = Annotated[list[SourceLocation], Field(min_length=1)]
Url = Annotated[str, StringConstraints(pattern=r"^https://[A-Za-z0-9._/~-]+$")]


def host_of(place: str) -> str:
    """Return whom a place, or the URL that it stands for, is asked from: a host, Debian's pool or pip's index."""
    if place.startswith("pip/"):
        return "pip's index"
    return "apt's mirror" if "/pool/" in f"/{place}" else urlsplit(place).netloc.rpartition("@")[2] or place


class Signature(Data):
    """An OpenPGP signature of a source."""

    places: Locations = Field(description="Locations of the signature's file, tried in this order.")
    key: FileName = Field(description="File in variants/keys/ with the key that must have made the signature.")


class Sigstore(Data):
    """A signature of sigstore, which is beside the source as FILE.sigstore: who must have made it."""

    identity: Text = Field(description="The signer, as the certificate names it: an address of e-mail.")
    issuer: Url = Field(description="Who vouches for the signer.")


class Download(Data):
    """A file that a build fetches: one SHA-256 and the places to try."""

    file: FileName = Field(description="Name under which the file is stored.")
    sha256: Sha256 = Field(description="SHA-256 of the file; a file with another one is refused.")
    sum_from: Text | None = Field(default=None, description="Who published the SHA-256.")
    places: Locations = Field(
        description="Locations of the file, tried in this order: an https URL, a path below pool/ of apt's mirror, "
        "or pip/NAME==VERSION."
    )
    signature: Signature | None = Field(default=None, description="Signature to check in addition to the SHA-256.")
    unsigned: Text | None = Field(
        default=None, description="Why no signature is checked: who made one and what is missing, or that none is made."
    )

    @property
    def as_download(self) -> dict[str, Any]:
        """Return those of its keys and values that a download has; what has the same ones is built from it."""
        return {key: getattr(self, key) for key in Download.model_fields}


class Archive(Data):
    """An interpreter that others publish as an archive for each machine; {machine} stands for x86_64 or aarch64."""

    file: MachineFileName = Field(description="Name under which the archive is stored; {machine} is filled in.")
    sha256: dict[Literal["x86_64", "aarch64"], Sha256] = Field(
        min_length=1, description="SHA-256 by machine; an archive with another one is refused."
    )
    sum_from: Text = Field(description="Who published the SHA-256.")
    unsigned: Text = Field(description="Why no signature is checked.")
    places: list[MachineUrl] = Field(
        min_length=1, description="Locations of the archive, tried in this order; {machine} is filled in."
    )

    def of(self, machine: str, sha256: str) -> Download:
        """Return what is fetched for a machine."""
        return Download(
            file=self.file.replace(MACHINE, machine),
            sha256=sha256,
            sum_from=self.sum_from,
            unsigned=self.unsigned,
            places=[place.replace(MACHINE, machine) for place in self.places],
        )


class Release(Download):
    """A source archive: one of a channel's releases, or a source that variants name alone."""

    version: Version = Field(description="Version of what is in it; left out where the table's name is the version.")
    sum_from: Text = Field(description="Who published the SHA-256.")
    sigstore: Sigstore | None = Field(
        default=None,
        description="Signature of sigstore, which `interlock update` checks when it writes the SHA-256 here.",
    )

    @model_validator(mode="after")
    def _says_who_signed_it(self) -> Release:
        given = [key for key in ("signature", "sigstore", "unsigned") if getattr(self, key) is not None]
        if len(given) != 1:
            told = " and ".join(given) or "none"
            raise ValueError(f"exactly one of signature, sigstore and unsigned is needed, found {told}")
        return self


class Sources(Data):
    """Every source by name, and every channel: its releases, the newest first, the others as fallbacks in order."""

    channels: dict[Name, Annotated[list[Name], Field(min_length=1)]] = Field(
        default={}, description="By name, the releases of a channel: the newest first, then the fallbacks in order."
    )
    sources: dict[Name, Release] = Field(default={}, description="The sources by name, which for a release is enough.")

    @model_validator(mode="after")
    def _channels_name_sources(self) -> Sources:
        for channel, names in self.channels.items():
            if channel in self.sources:
                raise ValueError(f"'{channel}' is a channel and a source")
            if unknown := [name for name in names if name not in self.sources]:
                raise ValueError(f"channel '{channel}' has '{unknown[0]}', which does not exist")
            if twice := first_twice(names):
                raise ValueError(f"channel '{channel}' has '{twice}' twice")
            for newer, older in pairwise(names):
                if Number(self.sources[newer].version) < Number(self.sources[older].version):
                    raise ValueError(f"channel '{channel}' has '{older}' after '{newer}': the newest comes first")
        return self

    def releases(self, name: str) -> list[Release]:
        """Return a channel's releases, the newest first, or the one source of this name; none if there is neither."""
        names = self.channels.get(name) or ([name] if name in self.sources else [])
        return [self.sources[release] for release in names]

    def require(self, name: str, file: str, key: str) -> list[Release]:
        """Return the releases that `key` of `file` names; CatalogError if there is nothing of this name."""
        releases = self.releases(name)
        if not releases:
            known = [*self.channels, *self.sources]
            raise CatalogError(
                file=file, key=key, found=f"'{name}' is no channel or source of {FILE}", todo=nearest(name, known)
            )
        return releases


def load(root: Path) -> Sources:
    """Return what variants/sources.toml says; the user's own file of this name adds or replaces sources by name.

    Raises CatalogError for the first thing that is wrong, with its file and key.
    """
    return parse(root, read_sections(root, FILE))


def parse(root: Path, data: dict[str, Any]) -> Sources:
    """Return what the tables of the file say; a source whose name is a version has that version."""
    tables = data.get("sources")
    if isinstance(tables, dict):
        named = {
            name: {"version": name, **table} if isinstance(table, dict) else table for name, table in tables.items()
        }
        data = {**data, "sources": named}
    return parse_tables(root, root / FILE, Sources, data)
