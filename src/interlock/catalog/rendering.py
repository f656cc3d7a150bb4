"""Renders variants and templates into the generated files of dockerfiles/ and the JSON Schemas. Pure."""

from __future__ import annotations

import json
from functools import lru_cache

from jinja2 import DictLoader, Environment, StrictUndefined
from pydantic import BaseModel

from interlock.catalog.project import Catalog, FileTexts
from interlock.catalog.trained import TrainedProfile, recipe_of
from interlock.catalog.types import GENERATED
from interlock.catalog.variants import FOLDERS, Source, SourceKind, Variant, VariantFile
from interlock.catalog.workloads import WorkloadFile

BUILT = {"Dockerfile": "Dockerfile.j2", "build.sh": "build.sh.j2", "finish.sh": "finish.sh.j2", "fetch.sh": "fetch.sh"}
TEMPLATES = {
    SourceKind.SOURCE: BUILT,
    SourceKind.PACKAGES: {"Dockerfile": "Dockerfile-packages.j2"},
    SourceKind.PREFIX: {"Dockerfile": "Dockerfile-prefix.j2"},
    SourceKind.ARCHIVE: {"Dockerfile": "Dockerfile-archive.j2", "unpack.sh": "unpack.sh.j2", "fetch.sh": "fetch.sh"},
    SourceKind.IMAGE: {"Dockerfile": "Dockerfile-image.j2"},
}
OPTIMISE = "optimise.sh"
# Templates that give two variants with a shared build the same bytes, so that the engine builds only once.
SHARED = {"build.sh.j2"}


def generated_files(catalog: Catalog, texts: FileTexts) -> dict[str, str | bytes]:
    """Return every generated file of the project, by path below its root."""
    files: dict[str, str | bytes] = {
        "variants/variant.schema.json": _schema(VariantFile),
        "workloads/workload.schema.json": _schema(WorkloadFile),
        **helper_files(texts),
    }
    for variant in catalog.variants.values():
        for parts in (render(variant, catalog, texts), stored_profiles(variant, catalog, texts)):
            files |= {f"dockerfiles/{variant.name}/{path}": content for path, content in parts.items()}
    return files


def helper_files(texts: FileTexts) -> dict[str, str]:
    """Return the generated files of helper images, by path below the project's root."""
    return {"dockerfiles/instruments/fetch.sh": texts.templates["fetch.sh"]}


def profiles_of(variant: Variant, catalog: Catalog, texts: FileTexts) -> list[TrainedProfile]:
    """Return the stored profiles that fit a variant at its version, each for one compiler and machine."""
    recipe = recipe_of(variant, {"patches": texts.patches, "steps": texts.steps})
    return [profile for profile in catalog.trained.values() if recipe is not None and profile.fits(recipe)]


def stored_profiles(variant: Variant, catalog: Catalog, texts: FileTexts) -> dict[str, bytes]:
    """Return the copies of profiles that dockerfiles/<variant>/ has for all its versions, by path below it."""
    sources = [variant.at(version) for version in variant.versions]
    profiles = [profile for source in sources for profile in profiles_of(source, catalog, texts)]
    return {f"profiles/{profile.file}": texts.profiles[profile.file] for profile in profiles}


def render(variant: Variant, catalog: Catalog, texts: FileTexts) -> dict[str, str]:
    """Return the files of dockerfiles/<variant>/ except the copies of profiles, by path below it."""
    build_files = _files(variant, texts, "patches", "prepare", "signature.key")
    finish_files = _files(variant, texts, "finish.steps")
    sources = [variant.at(version) for version in variant.versions]
    profiles = {source.version: profiles_of(source, catalog, texts) for source in sources}
    trains = {OPTIMISE: texts.templates[OPTIMISE]} if variant.is_trained else {}
    context = {
        "variant": variant,
        "base": catalog.bases[variant.base],
        "build_files": [*trains, *build_files, *stored_profiles(variant, catalog, texts)],
        "profiles": profiles,
        "training": "stored" if profiles[variant.version] else "here",
        "finish_files": list(finish_files),
        "sources": sources,
        "provenance": provenance(variant) if len(sources) == 1 else common_labels(variant),
        "source_labels": source_labels,
        "environment": shell_environment,
        "quote": quote,
    }
    environment = _environment(frozenset(texts.templates.items()))
    files = {}
    for path, template in TEMPLATES[variant.kind].items():
        made_from = variant.build_name if template in SHARED else variant.name
        generated = GENERATED.format(name=made_from)
        files[path] = environment.get_template(template).render(context, generated=generated)
    return files | trains | build_files | finish_files


@lru_cache(maxsize=1)
def _environment(templates: frozenset[tuple[str, str]]) -> Environment:
    """Return the templates compiled once for all variants, because compiling takes four times as long as filling in."""
    return Environment(
        loader=DictLoader(dict(templates)),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  shell and Dockerfile, not HTML; the model admits no quote and no backslash
    )


def context(variant: Variant, catalog: Catalog, texts: FileTexts) -> dict[str, bytes]:
    """Return the build context of a variant: the files of dockerfiles/<variant>/ as they are rendered now."""
    rendered = {path: text.encode() for path, text in render(variant, catalog, texts).items()}
    return rendered | stored_profiles(variant, catalog, texts)


def _files(variant: Variant, texts: FileTexts, *keys: str) -> dict[str, str]:
    """Return the files that a variant names with these keys, by path in the build context."""
    known = {"patches": texts.patches, "steps": texts.steps, "keys": texts.keys}
    paths = [(FOLDERS[key], name) for key in keys for name in dict.fromkeys(variant.named_files[key])]
    return {f"{folder}/{name}": known[folder][name] for folder, name in paths}


def provenance(variant: Variant) -> dict[str, str]:
    """Return labels that say what an image is made from: those of the OCI image specification, and ours."""
    licence, *flags = common_labels(variant).items()
    return dict([licence, *source_labels(variant).items(), *flags])


def common_labels(variant: Variant) -> dict[str, str]:
    """Return the labels that are the same for all versions of a variant."""
    labels = {"org.opencontainers.image.licenses": variant.licence}
    if variant.interpreter:
        flags = " ".join([*variant.optimise.configure, *variant.interpreter.configure])
        labels["interlock.configure"] = flags.replace("$PREFIX", "/usr/local")
    elif variant.archives:
        labels["interlock.sha256"] = " ".join(archive.sha256 for archive in variant.archives.values())
    return labels


def source_labels(variant: Variant) -> dict[str, str]:
    """Return the labels that name the source, which differ between versions of a variant."""
    if variant.interpreter is None:
        return {}
    return {
        "org.opencontainers.image.source": variant.interpreter.places[0],
        "interlock.sha256": " ".join(part.sha256 for part in variant.downloads),
    }


def quote(word: str) -> str:
    """Return a word quoted for a shell script. Only $PREFIX is expanded: the model refuses all else."""
    return f'"{word}"'


def shell_environment(source: Source) -> str:
    """Return NAME="value" ... for env(1)."""
    return " ".join(f"{name}={quote(value)}" for name, value in source.environment.items())


def _schema(model: type[BaseModel]) -> str:
    """Return the JSON Schema of a kind of TOML file, for editors."""
    return json.dumps(model.model_json_schema(), indent=2) + "\n"
