"""What buildx is told: every variant that can be built anywhere, for both architectures, under Interlock's own tags."""

from __future__ import annotations

import json
import re
from typing import Any

from interlock import bake, catalog
from interlock.model import SourceKind
from tests.builders import ROOT, make_variant

KNOWN = catalog.load(ROOT)
BAKED: dict[str, Any] = json.loads(bake.bake_file(KNOWN))
TARGETS: dict[str, Any] = {name: target for name, target in BAKED["target"].items() if name != bake.COMMON}
GROUPS: dict[str, list[str]] = {name: group["targets"] for name, group in BAKED["group"].items()}
BUILDABLE = [one for one in KNOWN.variants.values() if one.kind in (SourceKind.SOURCE, SourceKind.PACKAGES)]


def test_every_variant_that_builds_anywhere_is_a_target_in_each_of_its_profiles() -> None:
    wanted = {bake.target_name(variant, profile) for variant in BUILDABLE for profile in variant.profiles}
    assert wanted == TARGETS.keys()
    assert len(wanted) == sum(len(variant.profiles) for variant in BUILDABLE)


def test_what_needs_this_machine_and_what_others_publish_is_no_target() -> None:
    contexts = {target["context"] for target in TARGETS.values()}
    others = {name for name, variant in KNOWN.variants.items() if variant not in BUILDABLE}
    assert others
    assert not others & contexts


def test_every_target_builds_for_both_architectures() -> None:
    assert BAKED["target"][bake.COMMON]["platforms"] == ["linux/amd64", "linux/arm64"]
    assert {tuple(target["inherits"]) for target in TARGETS.values()} == {(bake.COMMON,)}


def test_a_context_is_a_folder_beside_the_file() -> None:
    for target in TARGETS.values():
        assert (ROOT / "dockerfiles" / target["context"] / "Dockerfile").is_file()


def test_a_target_has_the_tag_and_the_profile_that_interlock_builds() -> None:
    tags = {
        (f"${{PLACE}}{variant.image_tag(profile)}", profile) for variant in BUILDABLE for profile in variant.profiles
    }
    assert {(target["tags"][0], target["args"]["PROFILE"]) for target in TARGETS.values()} == tags


def test_every_target_is_in_the_group_of_its_profile_and_the_variable_names_the_default() -> None:
    assert GROUPS.pop("default") == ["${PROFILE}"]
    assert BAKED["variable"]["PROFILE"]["default"] in GROUPS
    for profile, names in GROUPS.items():
        assert names == [name for name, target in TARGETS.items() if target["args"]["PROFILE"] == profile]


def test_no_two_targets_write_one_cache_and_each_reads_its_own() -> None:
    written = [cache for target in TARGETS.values() for cache in target["cache-to"]]
    assert len(written) == len(set(written)) == len(TARGETS)
    for name, target in TARGETS.items():
        assert f":{name}," in target["cache-to"][0]
        assert f':{name}"}}' in target["cache-from"][0]


def test_variants_of_one_base_read_the_cache_that_has_their_shared_stages() -> None:
    shared = {target["cache-from"][-1] for target in TARGETS.values() if KNOWN.variants[target["context"]].interpreter}
    assert len(shared) == len({KNOWN.variants[target["context"]].base for target in TARGETS.values()})


def test_a_target_has_a_name_that_bake_admits() -> None:
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", name) for name in (*TARGETS, *GROUPS))
    assert bake.target_name(make_variant("cpython-3.14t"), "release") == "cpython-3_14t-release"


def test_no_host_is_named() -> None:
    assert "://" not in bake.bake_file(KNOWN)


def test_the_file_says_what_made_it() -> None:
    assert "interlock render" in BAKED["//"]
