"""The generated files: complete, pinned, the same every time, and decided by data alone."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from interlock import catalog, render, store
from interlock.errors import UsageError
from interlock.model import ProfileFlags, SourceKind, Texts, Variant
from tests.builders import (
    FROM_IMAGE,
    FROM_PACKAGES,
    FROM_PREFIX,
    PROMISED,
    ROOT,
    make_download,
    make_source,
    make_variant,
)

KNOWN = catalog.load(ROOT)
TEXTS = catalog.texts(ROOT)


def all_files() -> dict[str, str]:
    return render.generated_files(catalog.load(ROOT), catalog.texts(ROOT))


FILES = all_files()
DOCKERFILES = {path: text for path, text in FILES.items() if path.endswith("/Dockerfile")}
SCRIPTS = {path: text for path, text in FILES.items() if path.endswith("/build.sh")}
FINISHES = {path: text for path, text in FILES.items() if path.endswith("/finish.sh")}
SHELL = {path: text for path, text in FILES.items() if path.endswith(".sh")}
BUILT = [variant for variant in KNOWN.variants.values() if variant.kind is SourceKind.SOURCE]
# What a build context has besides what the variant names.
ALWAYS = {"Dockerfile", "build.sh", "finish.sh", "fetch.sh"}


def rendered(variant: Variant, **texts: dict[str, str]) -> dict[str, str]:
    return render.render(variant, KNOWN.bases["trixie"], KNOWN.profiles, Texts(templates=TEXTS.templates, **texts))


def in_folder(name: str) -> set[str]:
    return {path.removeprefix(f"dockerfiles/{name}/") for path in FILES if path.startswith(f"dockerfiles/{name}/")}


def dockerfile_of(variant: Variant) -> str:
    return FILES[f"dockerfiles/{variant.name}/Dockerfile"]


def made_for(path: str) -> Variant:
    return KNOWN.variants[path.split("/")[1]]


def test_every_promised_variant_has_a_dockerfile_and_its_scripts_if_it_is_built() -> None:
    for variant in (KNOWN.variants[name] for name in PROMISED):
        built = variant.kind is SourceKind.SOURCE
        assert in_folder(variant.name) >= (ALWAYS if built else {"Dockerfile"}), variant.name


def test_a_folder_holds_nothing_but_what_its_dockerfile_copies() -> None:
    for variant in KNOWN.variants.values():
        named = {
            *(f"patches/{name}" for part in variant.parts for name in part.patches),
            *(f"steps/{name}" for part in variant.parts for name in part.prepare),
            *(f"keys/{part.signature.key}" for part in variant.parts if part.signature),
            *(f"steps/{name}" for name in (variant.finish.steps if variant.finish else [])),
        }
        assert in_folder(variant.name) == (ALWAYS | named if variant.parts else {"Dockerfile"}), variant.name
        copied = re.findall(r"^COPY (?!--from)(.*)$", dockerfile_of(variant), re.MULTILINE)
        assert named <= set(" ".join(copied).split()), variant.name


@pytest.mark.parametrize("path", SHELL)
def test_a_script_is_valid_sh(path: str) -> None:
    done = subprocess.run(["sh", "-n"], input=SHELL[path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_fetch_sh_is_the_same_and_read_from_beside_the_script() -> None:
    fetchers = {text for path, text in FILES.items() if path.endswith("/fetch.sh")}
    assert fetchers == {TEXTS.templates["fetch.sh"]}
    assert "dockerfiles/instruments/fetch.sh" in FILES
    for path, text in (SCRIPTS | FINISHES).items():
        assert text.count('. "$HERE/fetch.sh"\n') == 1, path


@pytest.mark.parametrize("path", [*SCRIPTS, *FINISHES])
def test_a_script_decides_nothing_by_version(path: str) -> None:
    decisions = [line for line in FILES[path].splitlines() if re.search(r"\b(if|elif|case|while)\b|\[ ", line)]
    code = [line for line in decisions if not line.lstrip().startswith("#")]
    assert code
    assert not [line for line in code if re.search(r"-(lt|le|gt|ge)\b|version|[0-9]\.[0-9]", line, re.IGNORECASE)]


def test_a_mode_changes_no_file_that_an_image_is_built_from() -> None:
    modeless = {name: one.model_copy(update={"modes": []}) for name, one in KNOWN.variants.items()}
    assert modeless != KNOWN.variants
    changed = KNOWN.model_copy(update={"variants": modeless})
    assert render.generated_files(changed, TEXTS) == FILES


def test_no_template_branches_on_a_version() -> None:
    tags = re.findall(r"{%-?\s*(?:el)?if\b.*?%}", "".join(TEXTS.templates.values()))
    assert tags
    assert not [tag for tag in tags if re.search(r"version|major|name", tag)]


def test_rendering_twice_gives_the_same_bytes() -> None:
    assert all_files() == FILES


def test_the_committed_files_are_what_rendering_gives() -> None:
    assert store.drift(ROOT, FILES) == []


@pytest.mark.parametrize("path", [*SCRIPTS, *FINISHES, *DOCKERFILES])
def test_a_generated_file_says_what_made_it(path: str) -> None:
    name = made_for(path).build_name if path in SCRIPTS else made_for(path).name
    line = f"# Generated by `interlock render` from variants/{name}.toml; never edited by hand."
    assert line in FILES[path].splitlines()[:2]


def stage(text: str, start: str, end: str) -> str:
    return text[text.index(start) : text.index(end)]


def test_all_variants_that_are_built_share_the_toolchain_and_the_runtime_stage_byte_for_byte() -> None:
    shared = {stage(dockerfile_of(variant), "ARG BASE=", "FROM toolchain AS build") for variant in BUILT}
    assert len(shared) == 1
    assert "AS toolchain" in next(iter(shared))
    assert "AS runtime" in next(iter(shared))


def test_what_is_packed_and_what_debian_packages_lie_on_the_runtime_stage_of_what_is_built() -> None:
    kinds = (SourceKind.PREFIX, SourceKind.PACKAGES)
    others = [variant for variant in KNOWN.variants.values() if variant.kind in kinds]
    assert {variant.kind for variant in others} == set(kinds)
    built = {
        stage(dockerfile_of(variant), "FROM ${BASE} AS runtime", "\nFROM ${BASE} AS toolchain") for variant in BUILT
    }
    lain_on = {stage(dockerfile_of(variant), "FROM ${BASE} AS runtime", "\nFROM runtime") for variant in others}
    assert lain_on == built
    assert len(built) == 1


ARGUMENT = re.compile(r"^ARG (BASE|IMAGE)=\S+@sha256:[0-9a-f]{64}$", re.MULTILINE)


@pytest.mark.parametrize("path", sorted(path.relative_to(ROOT) for path in ROOT.glob("dockerfiles/*/Dockerfile")))
def test_every_from_line_is_pinned_by_a_digest_or_names_a_stage_above(path: Path) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    (pinned,) = ARGUMENT.findall(text.partition("\nFROM ")[0])
    stages = {f"${{{pinned}}}"}
    lines = re.findall(r"^FROM (\S+)(?: AS (\S+))?$", text, re.MULTILINE)
    assert len(lines) == len(re.findall(r"^FROM", text, re.MULTILINE))
    for parent, name in lines:
        assert parent in stages
        stages.add(name)


def test_there_are_committed_variants_of_every_kind() -> None:
    assert {variant.kind for variant in KNOWN.variants.values()} == set(SourceKind)


@pytest.mark.parametrize("changes", [{}, FROM_IMAGE, FROM_PREFIX, FROM_PACKAGES])
def test_a_dockerfile_of_any_kind_says_what_it_is_in_its_labels(changes: dict[str, Any]) -> None:
    text = rendered(make_variant("cpython-3.13", **changes))["Dockerfile"]
    for label in (
        'org.opencontainers.image.title="cpython-3.13"',
        'org.opencontainers.image.version="3.13.1"',
        'org.opencontainers.image.licenses="PSF-2.0"',
        'interlock.variant="cpython-3.13"',
        'interlock.profile="${PROFILE}"',
    ):
        assert f" {label}" in text
    # The classic builder takes a trailing backslash for a continuation of what follows.
    assert not re.search(r"\\\n\s*\n", text)
    assert not re.search(r"\\\n(FROM|ARG|ENV|LABEL|RUN|COPY|CMD)\b", text)


def test_what_others_publish_keeps_its_own_environment_and_command() -> None:
    text = rendered(make_variant(**FROM_IMAGE))["Dockerfile"]
    assert set(re.findall(r"^([A-Z]+) ", text, re.MULTILINE)) == {"ARG", "FROM", "LABEL"}


@pytest.mark.parametrize("changes", [{}, FROM_PREFIX, FROM_PACKAGES])
def test_what_interlock_makes_has_the_path_the_version_and_the_command_of_the_official_images(
    changes: dict[str, Any],
) -> None:
    text = rendered(make_variant(**changes))["Dockerfile"]
    assert "\nENV PATH=/usr/local/bin:$PATH LANG=C.UTF-8 PYTHON_VERSION=3.13.1" in text
    assert text.endswith('\nCMD ["python3"]\n')


def test_only_what_is_built_names_its_source_its_sums_and_its_flags() -> None:
    source = make_source(configure=["--with-pth", "-L$PREFIX/lib"])
    variant = make_variant(interpreter=source, finish={"steps": ["a.sh"], "downloads": [make_download()]})
    assert render.provenance(variant) == {
        "org.opencontainers.image.licenses": "PSF-2.0",
        "org.opencontainers.image.source": "https://example.org/Python-3.13.1.tgz",
        "interlock.sha256": f"{'a' * 64} {'b' * 64}",
        "interlock.configure": "--with-pth -L/usr/local/lib",
    }
    for changes in (FROM_IMAGE, FROM_PREFIX, FROM_PACKAGES):
        assert render.provenance(make_variant(**changes)) == {"org.opencontainers.image.licenses": "PSF-2.0"}


def test_debians_packages_are_installed_and_its_interpreter_linked() -> None:
    packages = {"names": ["python3.13", "python3.13-venv"], "python": "/usr/bin/python3.13"}
    text = rendered(make_variant(packages=packages, interpreter=None))["Dockerfile"]
    install = " ".join(text[text.rindex("apt-get install") :].split("&&")[0].replace("\\\n", " ").split())
    assert install == "apt-get install -y --no-install-recommends python3.13 python3.13-venv"
    assert " && ln -s /usr/bin/python3.13 /usr/local/bin/python3.13 \\\n" in text


@pytest.mark.parametrize("path", SCRIPTS)
def test_no_script_names_a_host_of_an_apt_mirror(path: str) -> None:
    urls = re.findall(r"https?://\S+", SCRIPTS[path])
    assert urls
    assert not [url for url in urls if "/pool/" in url or "/dists/" in url or "debian" in url or "ubuntu" in url]


def test_every_source_of_a_variant_is_fetched_with_its_sum_and_all_its_places() -> None:
    assert BUILT
    for variant in BUILT:
        for script, parts in (("build.sh", variant.parts), ("finish.sh", variant.downloads[len(variant.parts) :])):
            text = FILES[f"dockerfiles/{variant.name}/{script}"]
            assert re.findall(r'^fetch "(\S+)"', text, re.MULTILINE) == [part.file for part in parts], script
            for part in parts:
                places = "".join(f' \\\n    "{place}"' for place in part.places)
                assert f'fetch "{part.file}" {part.sha256}{places}\n' in text


def test_a_signature_is_checked_right_after_its_file_was_fetched() -> None:
    signature = {"key": "somebody.asc", "places": ["https://example.org/a.asc", "pool/main/a.asc"]}
    files = rendered(
        make_variant(interpreter=make_source(signature=signature)), keys={"somebody.asc": "KEY\n", "other.asc": ""}
    )
    assert files["keys/somebody.asc"] == "KEY\n"
    assert files.keys() == {*ALWAYS, "keys/somebody.asc"}
    assert "COPY build.sh fetch.sh keys/somebody.asc source[s]/* /interlock/\n" in files["Dockerfile"]
    assert (
        '    "https://example.org/Python-3.13.1.tgz"\n'
        'check_signature "Python-3.13.1.tgz" "somebody.asc" \\\n'
        '    "https://example.org/a.asc" \\\n'
        '    "pool/main/a.asc"\n'
    ) in files["build.sh"]


def test_every_signature_of_a_variant_is_checked() -> None:
    signed = [(variant, part) for variant in BUILT for part in variant.parts if part.signature]
    assert signed
    for variant, part in signed:
        assert part.signature
        line = f'check_signature "{part.file}" "{part.signature.key}" '
        assert line in FILES[f"dockerfiles/{variant.name}/build.sh"]


def test_a_flag_with_a_quote_does_not_get_as_far_as_a_script() -> None:
    with pytest.raises(ValidationError, match="configure"):
        make_variant(interpreter=make_source().model_dump() | {"configure": ['--x="; rm -rf /; "']})


def test_a_patch_is_copied_into_the_context_and_applied() -> None:
    variant = make_variant(interpreter=make_source(patches=["mend.patch"]))
    files = rendered(variant, patches={"mend.patch": "--- a\n", "b": ""})
    assert files["patches/mend.patch"] == "--- a\n"
    assert files.keys() == {*ALWAYS, "patches/mend.patch"}
    assert 'patch -p1 < "$HERE/mend.patch"\n' in files["build.sh"]
    assert "COPY build.sh fetch.sh patches/mend.patch source[s]/* /interlock/\n" in files["Dockerfile"]


def test_what_prepares_a_source_runs_in_it_when_it_is_patched_and_before_configure() -> None:
    variant = make_variant(interpreter=make_source(patches=["mend.patch"], prepare=["a.sh", "b.sh"]))
    files = rendered(variant, patches={"mend.patch": ""}, steps={"a.sh": "A\n", "b.sh": "B\n", "c.sh": "C\n"})
    assert {path: text for path, text in files.items() if path.startswith("steps/")} == {
        "steps/a.sh": "A\n",
        "steps/b.sh": "B\n",
    }
    wanted = ("unpack ", "patch -p1", 'sh "$HERE/a.sh"', 'sh "$HERE/b.sh"', "./configure")
    places = [files["build.sh"].rindex(text) for text in wanted]
    assert places == sorted(places)
    assert "steps/a.sh steps/b.sh" in files["Dockerfile"]
    assert ".sh" not in files["finish.sh"].partition('. "$HERE/fetch.sh"')[2]


def test_what_prepares_a_library_runs_before_the_librarys_own_configure() -> None:
    library = {"name": "pth", **make_source("pth.tgz", prepare=["a.sh"]).model_dump()}
    text = rendered(make_variant(libraries=[library]), steps={"a.sh": ""})["build.sh"]
    wanted = ('unpack "pth.tgz"', 'sh "$HERE/a.sh"', "./configure", 'unpack "Python-3.13.1.tgz"')
    places = [text.index(one) for one in wanted]
    assert places == sorted(places)
    assert text.count('sh "$HERE/a.sh"') == 1


FINISH = {"steps": ["zip.sh", "sign.sh"], "downloads": [make_download("wheel.whl", places=["pip/wheel==1.0"])]}
STEPS = {"zip.sh": "Z\n", "sign.sh": "S\n"}


def test_the_finish_fetches_what_it_needs_and_then_runs_its_steps_in_their_order() -> None:
    files = rendered(make_variant(finish=FINISH), steps=STEPS)
    assert files.keys() == {*ALWAYS, "steps/zip.sh", "steps/sign.sh"}
    assert "COPY finish.sh steps/zip.sh steps/sign.sh finish-source[s]/* /interlock/\n" in files["Dockerfile"]
    wanted = (
        f'fetch "wheel.whl" {"b" * 64} \\\n    "pip/wheel==1.0"\n',
        'sh "$HERE/zip.sh"',
        'sh "$HERE/sign.sh"',
        'step "staging"',
    )
    places = [files["finish.sh"].index(text) for text in wanted]
    assert places == sorted(places)
    assert "wheel" not in files["build.sh"]
    assert "zip.sh" not in files["build.sh"]


def lender_and_borrower(**changes: Any) -> tuple[dict[str, str], dict[str, str]]:
    """The files of a variant and of one that shares its build, of which a few things differ."""
    source = make_source(patches=["mend.patch"], prepare=["a.sh"], configure=["--with-x"])
    shared = {"interpreter": source, "build_packages": ["clang"], "release": {"configure": ["--with-lto"]}}
    lender = make_variant("lender", **shared)
    borrower = make_variant(
        "borrower", **shared, lender="lender", finish=FINISH, summary="another summary", tag="other", **changes
    )
    texts: dict[str, dict[str, str]] = {"patches": {"mend.patch": ""}, "steps": {"a.sh": "", **STEPS}}
    return rendered(lender, **texts), rendered(borrower, **texts)


def test_a_build_that_is_shared_is_the_same_script_byte_for_byte_whatever_else_differs() -> None:
    lender, borrower = lender_and_borrower(version="3.13.2", support={"phase": "security"}, control="lender")
    assert borrower["build.sh"] == lender["build.sh"]
    assert borrower["finish.sh"] != lender["finish.sh"]


def test_a_build_that_is_shared_has_the_same_steps_in_the_dockerfile_up_to_its_end() -> None:
    ends = [
        files["Dockerfile"][files["Dockerfile"].index("ARG BASE=") : files["Dockerfile"].index("COPY finish.sh")]
        for files in lender_and_borrower()
    ]
    assert ends[0] == ends[1]
    assert "sh /interlock/build.sh\n" in ends[0]


def test_every_committed_variant_that_shares_a_build_has_the_build_of_its_lender() -> None:
    for variant in BUILT:
        if variant.lender is not None:
            own, lent = (FILES[f"dockerfiles/{name}/build.sh"] for name in (variant.name, variant.lender))
            assert own == lent, variant.name


def test_the_flags_of_a_profile_come_from_the_variants_file() -> None:
    variant = make_variant(release={"configure": ["--with-lto"]})
    assert render.profile_flags(variant, "release") == ProfileFlags(configure=["--with-lto"])
    assert render.profile_flags(variant, "standard") == ProfileFlags()


def test_make_is_told_what_to_learn_from_and_what_else_the_profile_says() -> None:
    variant = make_variant(release={"profile_task": "-m test --pgo", "make": ["BOLT=1", "-L$PREFIX"]})
    words = ["PROFILE_TASK=-m test --pgo", "BOLT=1", "-L$PREFIX"]
    assert render.make_words(variant, "release") == words
    assert render.make_words(variant, "standard") == []
    quoted = " ".join(f'"{word}"' for word in words)
    text = rendered(variant)["build.sh"]
    assert f'make -j "$JOBS" {quoted};' in text
    assert 'make -j "$JOBS";' in text


def test_the_modules_that_a_profile_links_into_the_interpreter_are_named_for_it_alone() -> None:
    text = rendered(make_variant(release={"builtin_modules": ["_json", "math"]}))["build.sh"]
    assert re.findall(r'^ +builtin="(.*)"$', text, re.MULTILINE) == ["", "_json math"]


def test_a_profile_that_a_variant_does_not_have_is_refused_with_those_it_has() -> None:
    with pytest.raises(UsageError, match=r"cpython-3\.13 has no profile 'release'\. It has: standard\."):
        render.profile_flags(make_variant(), "release")


def tables() -> dict[str, Any]:
    return {
        path.stem: tomllib.loads(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "variants").glob("*.toml"))
        if path.stem not in catalog.SHARED_FILES
    }


def test_the_schema_admits_every_variants_file_and_refuses_a_slip_in_it() -> None:
    validator = jsonschema.Draft202012Validator(json.loads(FILES["variants/variant.schema.json"]))
    for name, table in tables().items():
        assert [error.message for error in validator.iter_errors(table)] == [], name
        assert not validator.is_valid({**table, "colour": "red"}), name
        assert not validator.is_valid({key: value for key, value in table.items() if key != "support"}), name


def test_the_schema_has_every_key_that_a_variants_file_uses() -> None:
    known = json.loads(FILES["variants/variant.schema.json"])["properties"].keys()
    used = {key for table in tables().values() for key in table}
    assert used <= known
    assert not {"name", "lender"} & known, "they are not the file's to say"
