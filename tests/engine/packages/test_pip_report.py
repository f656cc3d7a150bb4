"""pip's report: what would be installed, from where, and for whom."""

from __future__ import annotations

import json
from typing import Any

from packaging.markers import default_environment

from interlock.engine.packages.pip_report import needed_by, parse_report

GIT = {"url": "https://example.org/p.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}, "subdirectory": "python"}


def item(name: str, info: dict[str, Any], *requires: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "version": "1.0", "requires_dist": list(requires)}
    return {"metadata": metadata, "download_info": info, **more}


def report(*items: dict[str, Any]) -> str:
    return json.dumps({"version": "1", "install": items, "environment": default_environment()})


def archive(file: str) -> dict[str, Any]:
    return {"url": f"https://files.example/{file}", "archive_info": {"hashes": {"sha256": "00ff"}}}


def test_a_wheel_and_a_source_are_told_apart_and_got_again_by_their_hash() -> None:
    wheel, source = parse_report(
        report(item("Foo", archive("foo-1.0-py3-none-any.whl")), item("bar", archive("bar-1.0.tar.gz")))
    )
    assert (wheel.is_wheel, wheel.key, wheel.lasting) == (True, "foo", True)
    assert wheel.spec == "Foo @ https://files.example/foo-1.0-py3-none-any.whl#sha256=00ff"
    assert (source.is_wheel, source.lasting) == (False, True)


def test_a_wheel_at_an_address_with_a_query_is_a_wheel() -> None:
    (signed,) = parse_report(report(item("foo", archive("foo-1.0%2Ba-py3-none-any.whl?key=1/2"))))
    assert (signed.is_wheel, signed.file) == (True, "foo-1.0+a-py3-none-any.whl")


def test_a_folder_and_a_repository_may_change_and_are_not_lasting() -> None:
    local = {"url": "file:///audit/local/0", "dir_info": {}}
    folder, repository = parse_report(report(item("foo", local), item("bar", GIT)))
    assert (folder.spec, folder.lasting) == ("foo @ file:///audit/local/0", False)
    assert repository.spec == "bar @ git+https://example.org/p.git@abc#subdirectory=python"
    assert not repository.lasting


def test_who_needs_a_package_follows_markers_and_extras() -> None:
    items = [
        item("app", archive("app-1.whl"), "Web[fast]>=1", "old; python_version < '3'"),
        item("web", archive("web-1.whl"), "core", "speed; extra == 'fast'", "slow; extra == 'slow'"),
        item("core", archive("core-1.whl"), "app"),
        item("speed", archive("speed-1.whl")),
        item("slow", archive("slow-1.whl"), "not a requirement at all"),
        item("old", archive("old-1.whl")),
    ]
    packages = parse_report(report(*items))
    found = {one.name: needed_by(packages, one.key) for one in packages}
    assert found == {"app": ["core"], "web": ["app"], "core": ["web"], "speed": ["web"], "slow": [], "old": []}


def test_an_extra_that_a_line_asks_for_counts() -> None:
    items = [
        item("web", archive("web-1.whl"), "speed; extra == 'fast'", requested_extras=["fast"]),
        item("speed", archive("speed-1.whl")),
    ]
    assert needed_by(parse_report(report(*items)), "speed") == ["web"]
