"""The contract in the real engine: an image that keeps it, and one that was broken on purpose."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog.project import Catalog
from interlock.catalog.variants import Variant
from interlock.engine.build import contract
from interlock.engine.build.contract import INSIDE, ContractFinding, ContractState, examine
from interlock.engine.build.one_build import run_build
from interlock.errors import BuildError, EngineError
from tests.integration.images import FREE_THREADED, NO_THREADS, QUICK, Images
from tests.integration.toys import copy_project, interlock, toy_tarball, toy_variant

# Each line breaks one promise.
BROKEN = """\
RUN rm /usr/local/bin/python \\
 && chmod 700 /usr/local/include \\
 && rm /usr/local/lib/python2.7/lib-dynload/zlib.so \\
 && rm -r /usr/share/zoneinfo \\
 && rm /etc/ssl/certs/* \\
 && mkdir /interlock \\
 && mkdir /usr/local/lib/engine && touch /usr/local/lib/engine/left.a \\
 && cp /bin/true /usr/local/bin/x86_64-linux-gnu-gcc-14 \\
 && mkdir -p /var/lib/apt/lists && touch /var/lib/apt/lists/mirror_dists_trixie_main_binary-amd64_Packages
ENV PYTHONUNBUFFERED=1 UV_PYTHON_DOWNLOADS=automatic
ENTRYPOINT ["/bin/false"]
WORKDIR /srv
EXPOSE 80
"""
# An interpreter that falls when it is asked for a module.
FALLING = """\
RUN cd /usr/local/lib/python2.7/sqlite3 && rm *.pyc && echo 'import os; os._exit(3)' > __init__.py
"""


@pytest.fixture
def derive(client: Any, built: Images) -> Iterator[Callable[[str], str]]:
    """Makes an image of the cheapest variant with these lines of a Dockerfile; its id. It goes after the test."""
    made: list[str] = []

    def build(lines: str) -> str:
        log: list[str] = []
        image_id = run_build(
            client, {"Dockerfile": f"FROM {built[NO_THREADS].image_id}\n{lines}\n".encode()}, log, lambda _: None
        )
        assert image_id, "".join(log)
        made.append(image_id)
        return image_id

    yield build
    for image_id in made:
        client.images.remove(image_id, force=True)


@pytest.fixture
def variant(catalog: Catalog) -> Variant:
    """The variant, whose every difference is declared, as the first test shows: only what a test breaks is left."""
    return catalog.variants[NO_THREADS]


@pytest.mark.slow
@pytest.mark.parametrize("name", [NO_THREADS, FREE_THREADED])
def test_an_image_keeps_its_contract_but_for_what_it_declares(
    client: Any, catalog: Catalog, built: Images, name: str
) -> None:
    findings = examine(client, catalog.variants[name].at(built[name].version), built[name].image_id)
    assert contract.failures(findings) == []


def failed(findings: list[ContractFinding]) -> dict[str, str]:
    """What was found, by the check, of all that is an undeclared difference."""
    failures = contract.failures(findings)
    assert {finding.verdict for finding in failures} <= {ContractState.UNDECLARED}
    return {finding.check: finding.difference for finding in failures}


@pytest.mark.slow
def test_each_broken_promise_is_named_with_what_was_found_unless_it_is_declared(
    client: Any, variant: Variant, derive: Callable[[str], str]
) -> None:
    image_id = derive(BROKEN)
    declared = variant.model_copy(update={"differences": {**variant.differences, "workdir": "because"}})
    findings = examine(client, declared, image_id)
    assert ContractFinding("workdir", ContractState.DIFFERENCE, "/srv", "because") in findings
    found = failed(findings)
    nobody = "as user 1000 on a read-only root"
    assert found.pop("headers").startswith(f"{nobody}: no /usr/local/include/python2.7/Python.h")
    assert "/" in found.pop("ca-certificates"), "the places where OpenSSL looks"
    assert re.search(r"\bAsia/Tokyo\b.*\b0\b.*\b9\b", found.pop("time-zones"))
    assert found == {
        "command-python": "no /usr/local/bin/python",
        "zlib": "ImportError: No module named zlib",
        "no-build-tree": "1 found: /interlock",
        "no-static-libraries": "1 found: /usr/local/lib/engine/left.a",
        "no-compiler": "1 found: /usr/local/bin/x86_64-linux-gnu-gcc-14",
        "no-package-lists": "1 found: /var/lib/apt/lists/mirror_dists_trixie_main_binary-amd64_Packages",
        "env-uv": "UV_PYTHON_DOWNLOADS=automatic",
        "env-others": "PYTHONUNBUFFERED",
        "entrypoint": "/bin/false",
        "cmd": "none",  # the engine drops it when a Dockerfile sets an entry point
        "ports": "80/tcp",
    }
    assert client.containers.list(all=True, filters={"ancestor": image_id}) == []


@pytest.mark.slow
def test_after_an_interpreter_fell_nothing_is_taken_for_kept(
    client: Any, variant: Variant, derive: Callable[[str], str]
) -> None:
    found = failed(examine(client, variant, derive(FALLING)))
    names = [check.name for check in INSIDE if check in contract.promised("2.7.18")]
    expected = set(names[names.index("sqlite3") :]) - variant.differences.keys()
    assert found == dict.fromkeys(expected, contract.NO_ANSWER)


def test_an_image_that_is_not_there_is_an_error_that_says_how_to_build_it(client: Any, variant: Variant) -> None:
    with pytest.raises(EngineError, match=f"Run `interlock build {NO_THREADS}`"):
        examine(client, variant, "localhost/interlock/python:no-such-tag")


def test_checking_what_is_not_built_fails(project: Path, tmp_path: Path) -> None:
    toy_variant(project, "toy-unbuilt", "unbuilt.tgz", toy_tarball(tmp_path / "mirror", "unbuilt.tgz"))
    named = interlock(project, "check", "toy-unbuilt", code=BuildError.exit_code)
    assert "interlock build toy-unbuilt" in named.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_all_that_is_built_is_checked_and_keeps_its_contract_and_what_is_not_is_skipped_unless_that_is_all(
    root: Path, tmp_path: Path
) -> None:
    project = copy_project(root, tmp_path / "project", [QUICK], [])
    toy_variant(project, "toy-unbuilt", "unbuilt.tgz", toy_tarball(tmp_path / "mirror", "unbuilt.tgz"))
    assert "skip    toy-unbuilt" in interlock(project, "check").stdout
    alone = copy_project(root, tmp_path / "alone", [], [])
    toy_variant(alone, "toy-unbuilt", "unbuilt.tgz", "0" * 64)
    interlock(alone, "check", code=BuildError.exit_code)
