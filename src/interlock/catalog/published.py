"""The contents of variants/published.toml: variants' images that a registry has for everybody, by digest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints

from interlock.catalog.reading import load_table
from interlock.catalog.types import Data, Date, Name, Version
from interlock.catalog.variants import Variant
from interlock.errors import CatalogError, nearest

FILE = "variants/published.toml"
HEAD = "# Images that a registry has for everybody: `interlock publish` writes this file, `pull` and `swap` read it.\n"
Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Place = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+$")]
Platform = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(/[a-z0-9]+){1,2}$")]


class Published(Data):
    """An image of a variant in a registry."""

    name: Name = Field(description="The variant, which is the table's name.")
    registry: Place = Field(description="The registry and the namespace in it: HOST[:PORT]/NAMESPACE.")
    tag: Name = Field(description="The image's tag.")
    digest: Digest = Field(description="The digest, of an index where there are several platforms: sha256:….")
    platforms: Annotated[list[Platform], Field(min_length=1)] = Field(description="What it is for, as linux/arm64.")
    version: Version = Field(description="Exact version of the Python in it.")
    signed: bool = Field(description="Whether cosign signed it.")
    date: Date = Field(description="Day on which it was published.")

    @property
    def repository(self) -> str:
        """Return the name that the images of all variants have in its registry."""
        return f"{self.registry}/python"

    @property
    def reference(self) -> str:
        """Return what a FROM line names."""
        return f"{self.repository}:{self.tag}@{self.digest}"


def load_published(root: Path, variants: Mapping[str, Variant], file: str = FILE) -> dict[str, Published]:
    """Return the published images by variant; CatalogError for a wrong entry or an unknown variant."""
    tables = load_table(root, file, Published)
    for name, table in tables.items():
        if name not in variants:
            raise CatalogError(file=file, key=name, found="there is no such variant", todo=nearest(name, variants))
        tag = tag_of(variants[name])
        if table.tag != tag:
            raise CatalogError(file=file, key=f"{name}.tag", found=f"found '{table.tag}'", todo=f"Write '{tag}'.")
    return tables


def tag_of(variant: Variant) -> str:
    """Return the tag that the variant's image has here and in registries: 3.14t-trixie."""
    return variant.image_tag.rpartition(":")[2]


def tags_of(variant: Variant) -> list[str]:
    """Return every tag of a published image: with and without the base, each with and without the patch release."""
    full = tag_of(variant)
    exact = [tag.replace(variant.release_line, variant.version, 1) for tag in (full, variant.tag)]
    return [full, exact[0], variant.tag, exact[1]]


def written(published: Mapping[str, Published]) -> str:
    """Return the file's text."""
    return "\n".join([HEAD, *(_table(image) for _, image in sorted(published.items()))])


def _table(image: Published) -> str:
    """Return the table of an image; its values are written as JSON, which here is TOML too."""
    values = image.model_dump(exclude={"name"})
    return "".join([f'["{image.name}"]\n', *(f"{key} = {json.dumps(value)}\n" for key, value in values.items())])
