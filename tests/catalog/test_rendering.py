"""The generated files: complete, pinned, the same every time, and decided by data alone."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from interlock.catalog import project as catalogs
from interlock.catalog import rendering
from interlock.catalog.overlay import TABLES
from interlock.catalog.project import Catalog, FileTexts
from interlock.catalog.variants import FOLDERS, SourceKind, Variant
from interlock.results import generated
from tests.builders import (
    FROM_ARCHIVE,
    FROM_IMAGE,
    FROM_PACKAGES,
    FROM_PREFIX,
    ROOT,
    make_download,
    make_release,
    make_source,
    make_variant,
)


@cache
def known_catalog() -> Catalog:
    return catalogs.load(ROOT)


@cache
def known_texts() -> FileTexts:
    return catalogs.read_texts(ROOT)


def all_files(catalog: Catalog | None = None) -> dict[str, str]:
    """Return the generated files but the copies of profiles, which tests/catalog/test_trained.py looks at."""
    made = rendering.generated_files(catalog or catalogs.load(ROOT), catalogs.read_texts(ROOT))
    return {path: text for path, text in made.items() if isinstance(text, str)}


@cache
def files(ending: str = "") -> dict[str, str]:
    """Return the generated files whose paths end so."""
    found = all_files() if not ending else {path: text for path, text in files().items() if path.endswith(ending)}
    assert found
    return found


def scripts() -> dict[str, str]:
    return files("/build.sh")


def finishes() -> dict[str, str]:
    return files("/finish.sh")


def compiled() -> list[Variant]:
    """Return the variants that are compiled from source."""
    return [variant for variant in known_catalog().variants.values() if variant.kind is SourceKind.SOURCE]


# What a build context has besides what the variant names.
ALWAYS = {"Dockerfile", "build.sh", "finish.sh", "fetch.sh"}
OF_AN_ARCHIVE = {"Dockerfile", "unpack.sh", "fetch.sh"}


def rendered(variant: Variant, **texts: dict[str, str]) -> dict[str, str]:
    return rendering.render(
        variant,
        known_catalog(),
        FileTexts(templates=known_texts().templates, **texts),
    )


def in_folder(name: str) -> set[str]:
    return {path.removeprefix(f"dockerfiles/{name}/") for path in files() if path.startswith(f"dockerfiles/{name}/")}


def dockerfile_of(variant: Variant) -> str:
    return files()[f"dockerfiles/{variant.name}/Dockerfile"]


def test_a_folder_holds_nothing_but_what_its_dockerfile_copies() -> None:
    for variant in known_catalog().variants.values():
        named = {f"{FOLDERS[key]}/{name}" for key, names in variant.named_files.items() for name in names}
        always = ALWAYS | ({"optimise.sh"} if variant.is_trained else set())
        always = always if variant.parts else OF_AN_ARCHIVE if variant.archives else {"Dockerfile"}
        assert in_folder(variant.name) == always | named, variant.name
        copied = re.findall(r"^COPY (?!--from)(.*)$", dockerfile_of(variant), re.MULTILINE)
        assert named <= set(" ".join(copied).split()), variant.name


def test_a_script_is_valid_sh() -> None:
    for path in files(".sh"):
        done = subprocess.run(["sh", "-n"], input=files()[path], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_every_fetch_sh_is_the_same_and_read_from_beside_the_script() -> None:
    fetchers = {text for path, text in files().items() if path.endswith("/fetch.sh")}
    assert fetchers == {known_texts().templates["fetch.sh"]}
    assert "dockerfiles/instruments/fetch.sh" in files()
    for path, text in (scripts() | finishes()).items():
        assert text.count('. "$HERE/fetch.sh"\n') == 1, path


def test_a_script_decides_nothing_by_version() -> None:
    for path in (*scripts(), *finishes()):
        decisions = [line for line in files()[path].splitlines() if re.search(r"\b(if|elif|case|while)\b|\[ ", line)]
        code = [line for line in decisions if not line.lstrip().startswith("#")]
        assert code
        assert not [line for line in code if re.search(r"-(lt|le|gt|ge)\b|version|[0-9]\.[0-9]", line, re.IGNORECASE)]


def test_a_mode_changes_no_file_that_an_image_is_built_from() -> None:
    modeless = {name: one.model_copy(update={"modes": []}) for name, one in known_catalog().variants.items()}
    assert modeless != known_catalog().variants
    changed = known_catalog().model_copy(update={"variants": modeless})
    assert all_files(changed) == files()


def test_no_template_branches_on_a_version() -> None:
    tags = re.findall(r"{%-?\s*(?:el)?if\b.*?%}", "".join(known_texts().templates.values()))
    assert tags
    assert not [tag for tag in tags if re.search(r"version|major|name", tag)]


def test_a_variant_with_fallbacks_is_built_from_the_source_that_is_named_and_labelled_as_that() -> None:
    older = make_release("3.13.0", sha256="c" * 64, signature={"key": "a.asc", "places": ["pool/a.asc"]}, unsigned=None)
    variant = make_variant(fallbacks=[older])
    files = rendered(variant, keys={"a.asc": "KEY\n"})
    arguments = re.findall(r"^ARG SOURCE.*$", files["Dockerfile"], re.MULTILINE)
    assert arguments == ["ARG SOURCE=3.13.1", "ARG SOURCE"]
    stages = re.findall(
        r"^FROM runtime AS python-(\S+)\nENV PYTHON_VERSION=(\S+) PYTHON_SHA256=(\S+)$", files["Dockerfile"], re.M
    )
    assert stages == [("3.13.1", "3.13.1", "a" * 64), ("3.13.0", "3.13.0", "c" * 64)]
    assert "\nFROM python-${SOURCE}\nCOPY --from=build" in files["Dockerfile"]
    assert "keys/a.asc" in files


@pytest.mark.parametrize("version", ["3.13.1", "3.13.0"])
def test_a_version_alone_is_rendered_as_if_there_were_no_other(version: str) -> None:
    """An image of an older version is known by its files: they do not change when a newer one is added."""
    both, older = make_variant(fallbacks=[make_release("3.13.0")]), make_release("3.13.0")
    source = make_source(**{key: getattr(older, key) for key in ("file", "sum_from", "unsigned")})
    alone = {"3.13.1": make_variant(), "3.13.0": make_variant(version="3.13.0", interpreter=source)}
    assert rendered(both.at(version)) == rendered(alone[version])


def test_the_committed_files_are_what_rendering_gives() -> None:
    assert generated.drift(ROOT, rendering.generated_files(known_catalog(), known_texts())) == []


def stage(text: str, start: str, end: str) -> str:
    begin = text.index(start)
    return text[begin : text.index(end, begin + len(start))]


def test_all_variants_that_are_built_share_the_toolchain_and_the_runtime_stage_byte_for_byte() -> None:
    shared = {stage(dockerfile_of(variant), "ARG BASE=", "FROM toolchain AS ") for variant in compiled()}
    assert len(shared) == 1
    assert "AS toolchain" in next(iter(shared))
    assert "AS runtime" in next(iter(shared))


def test_variants_with_the_same_packages_to_build_with_share_the_stage_that_has_them() -> None:
    with_packages = [variant for variant in compiled() if variant.build_packages]
    tools = {
        (*variant.build_packages, stage(dockerfile_of(variant), "FROM toolchain AS tools", "FROM tools AS build"))
        for variant in with_packages
    }
    assert len(tools) == len({tuple(variant.build_packages) for variant in with_packages}) > 1


def test_what_others_built_lies_on_the_runtime_stage_of_what_is_built() -> None:
    kinds = (SourceKind.PREFIX, SourceKind.ARCHIVE, SourceKind.PACKAGES)
    others = [variant for variant in known_catalog().variants.values() if variant.kind in kinds]
    assert {variant.kind for variant in others} == set(kinds)
    built = {stage(dockerfile_of(variant), "FROM ${BASE} AS runtime", "\nFROM ") for variant in compiled()}
    lain_on = {stage(dockerfile_of(variant), "FROM ${BASE} AS runtime", "\nFROM ") for variant in others}
    assert lain_on == built
    assert len(built) == 1


ARGUMENT = re.compile(r"^ARG (BASE|IMAGE)=\S+@sha256:[0-9a-f]{64}$", re.MULTILINE)


@pytest.mark.parametrize("path", sorted(path.relative_to(ROOT) for path in ROOT.glob("dockerfiles/*/Dockerfile")))
def test_every_from_line_is_pinned_by_a_digest_or_names_a_stage_above(path: Path) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    (pinned,) = ARGUMENT.findall(text.partition("\nFROM ")[0])
    stages = {f"${{{pinned}}}", "scratch"}  # the empty image, which no registry has
    lines = re.findall(r"^FROM (\S+)(?: AS (\S+))?$", text, re.MULTILINE)
    assert len(lines) == len(re.findall(r"^FROM", text, re.MULTILINE))
    for parent, name in lines:
        chosen = re.search(r"^ARG SOURCE=(\S+)$", text, re.MULTILINE)
        assert parent.replace("${SOURCE}", chosen[1] if chosen else "") in stages
        stages.add(name)


@pytest.mark.parametrize("changes", [{}, FROM_IMAGE, FROM_PREFIX, FROM_ARCHIVE, FROM_PACKAGES])
def test_a_dockerfile_of_any_kind_says_what_it_is_in_its_labels(changes: dict[str, Any]) -> None:
    text = rendered(make_variant("cpython-3.13", **changes))["Dockerfile"]
    for label in (
        'org.opencontainers.image.title="cpython-3.13"',
        'org.opencontainers.image.version="3.13.1"',
        'org.opencontainers.image.licenses="PSF-2.0"',
        'interlock.variant="cpython-3.13"',
    ):
        assert f" {label}" in text
    # The classic builder takes a trailing backslash for a continuation of what follows.
    assert not re.search(r"\\\n\s*\n", text)
    assert not re.search(r"\\\n(FROM|ARG|ENV|LABEL|RUN|COPY|CMD)\b", text)


def test_what_others_publish_keeps_its_own_environment_and_command_but_for_uvs() -> None:
    text = rendered(make_variant(**FROM_IMAGE))["Dockerfile"]
    assert set(re.findall(r"^([A-Z]+) ", text, re.MULTILINE)) == {"ARG", "FROM", "ENV", "LABEL"}
    assert re.findall(r"^ENV (.*)", text, re.MULTILINE) == ["UV_PYTHON=3.13 UV_PYTHON_DOWNLOADS=never"]


@pytest.mark.parametrize("changes", [{}, FROM_PREFIX, FROM_ARCHIVE, FROM_PACKAGES])
def test_what_interlock_makes_has_the_path_the_version_and_the_command_of_the_official_images(
    changes: dict[str, Any],
) -> None:
    text = rendered(make_variant(**changes))["Dockerfile"]
    assert "\nENV PATH=/usr/local/bin:$PATH LANG=C.UTF-8 PYTHON_VERSION=3.13.1" in text
    assert text.endswith('\nCMD ["python3"]\n')


def test_only_what_is_built_names_its_source_its_sums_and_its_flags() -> None:
    source = make_source(configure=["--with-pth", "-L$PREFIX/lib"])
    variant = make_variant(interpreter=source, finish={"steps": ["a.sh"], "downloads": [make_download()]})
    assert rendering.provenance(variant) == {
        "org.opencontainers.image.licenses": "PSF-2.0",
        "org.opencontainers.image.source": "https://example.org/Python-3.13.1.tgz",
        "interlock.sha256": f"{'a' * 64} {'b' * 64}",
        "interlock.configure": "--with-pth -L/usr/local/lib",
    }
    for changes in (FROM_IMAGE, FROM_PREFIX, FROM_PACKAGES):
        assert rendering.provenance(make_variant(**changes)) == {"org.opencontainers.image.licenses": "PSF-2.0"}


def test_an_archive_is_fetched_for_the_machine_of_the_image_and_nothing_is_compiled() -> None:
    files = rendered(make_variant(**FROM_ARCHIVE))
    assert set(files) == OF_AN_ARCHIVE
    script = files["unpack.sh"]
    for machine, digit in (("x86_64", "c"), ("aarch64", "d")):
        case = script.split(f"    {machine})\n")[1].split(";;")[0]
        assert case.replace("\\\n", " ").split() == [
            "fetch",
            f'"python-{machine}.tar.gz"',
            digit * 64,
            f'"https://example.org/{machine}/python-{machine}.tar.gz"',
            f'"http://example.net/python-{machine}"',
        ]
    installs = re.findall(r"^RUN apt-get .* (\S+)$", files["Dockerfile"], re.MULTILINE)
    assert installs == ["\\", "curl"], "what every image has, and what fetches"
    assert rendering.provenance(make_variant(**FROM_ARCHIVE))["interlock.sha256"] == f"{'c' * 64} {'d' * 64}"


def test_debians_packages_are_installed_and_its_interpreter_linked() -> None:
    packages = {"names": ["python3.13", "python3.13-venv"], "python": "/usr/bin/python3.13"}
    text = rendered(make_variant(packages=packages, interpreter=None))["Dockerfile"]
    install = " ".join(text[text.rindex("apt-get install") :].split("&&")[0].replace("\\\n", " ").split())
    assert install == "apt-get install -y --no-install-recommends python3.13 python3.13-venv"
    assert " && ln -s /usr/bin/python3.13 /usr/local/bin/python3.13 \\\n" in text


def test_no_script_names_a_host_of_an_apt_mirror() -> None:
    for path in scripts():
        urls = re.findall(r"https?://\S+", scripts()[path])
        assert urls
        assert not [url for url in urls if "/pool/" in url or "/dists/" in url or "debian" in url or "ubuntu" in url]


def test_every_source_of_a_variant_is_fetched_with_its_sum_and_all_its_places() -> None:
    assert compiled()
    for variant in compiled():
        built, finished = [*variant.parts, *variant.fallbacks], variant.downloads[len(variant.parts) :]
        for script, parts in (("build.sh", built), ("finish.sh", finished)):
            text = re.sub("^ *", "", files()[f"dockerfiles/{variant.name}/{script}"], flags=re.MULTILINE)
            assert re.findall(r'^fetch "(\S+)"', text, re.MULTILINE) == [part.file for part in parts], script
            for part in parts:
                places = "".join(f' \\\n"{place}"' for place in part.places)
                assert re.search(re.escape(f'fetch "{part.file}" {part.sha256}{places}') + r"( ;;)?\n", text)


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


def owner_and_borrower(**changes: Any) -> tuple[dict[str, str], dict[str, str]]:
    """The files of a variant and of one that shares its build, of which a few things differ."""
    source = make_source(patches=["mend.patch"], prepare=["a.sh"], configure=["--with-x"])
    shared = {"interpreter": source, "build_packages": ["clang"], "optimise": {"configure": ["--with-lto"]}}
    owner = make_variant("owner", **shared)
    borrower = make_variant(
        "borrower",
        **shared,
        shared_build="owner",
        finish=FINISH,
        summary="another summary",
        tag="other",
        **changes,
    )
    texts: dict[str, dict[str, str]] = {"patches": {"mend.patch": ""}, "steps": {"a.sh": "", **STEPS}}
    return rendered(owner, **texts), rendered(borrower, **texts)


def test_a_build_that_is_shared_is_the_same_script_byte_for_byte_whatever_else_differs() -> None:
    owner, borrower = owner_and_borrower(version="3.13.2", support={"phase": "security"}, control="owner")
    assert borrower["build.sh"] == owner["build.sh"]
    assert borrower["finish.sh"] != owner["finish.sh"]


def test_a_build_that_is_shared_has_the_same_steps_in_the_dockerfile_up_to_its_end() -> None:
    ends = [
        files["Dockerfile"][files["Dockerfile"].index("ARG BASE=") : files["Dockerfile"].index("COPY finish.sh")]
        for files in owner_and_borrower()
    ]
    assert ends[0] == ends[1]
    assert "sh /interlock/build.sh\n" in ends[0]


def test_configure_is_told_how_the_build_is_optimised_before_the_variants_own_words_and_the_label_has_both() -> None:
    source = make_source(configure=["--with-x"])
    files = rendered(make_variant(interpreter=source, optimise={"configure": ["--with-lto"]}))
    assert '"OPT=-DNDEBUG -fwrapv -O3 -Wall" \\\n    "--with-lto" \\\n    "--with-x"\n' in files["build.sh"]
    assert 'interlock.configure="--with-lto --with-x"' in files["Dockerfile"]


def test_make_is_told_what_to_count_and_what_compiles_by_it() -> None:
    variant = make_variant(
        optimise={
            "configure": ["--enable-optimizations"],
            "training": "-m test --pgo",
            "make": ["BOLT=1", "-L$PREFIX"],
            "training_targets": ["build_first", "count"],
            "target": "build_by_it",
        }
    )
    script = rendered(variant)["build.sh"]
    assert '    train gcc "build_first count" "PROFILE_TASK=-m test --pgo" "BOLT=1" "-L$PREFIX"\n' in script
    assert 'compile_by "$profile" build_by_it\n' in script
    assert '\nmake -j "$JOBS"\n' in rendered(make_variant())["build.sh"]


def test_the_modules_that_are_linked_into_the_interpreter_are_named_where_there_are_any() -> None:
    text = rendered(make_variant(optimise={"builtin_modules": ["_json", "math"]}))["build.sh"]
    assert re.findall(r"^for module in (.*); do$", text, re.MULTILINE) == ["_json math"]
    assert "for module in" not in rendered(make_variant())["build.sh"]


def tables(folder: str) -> dict[str, Any]:
    return {
        path.stem: tomllib.loads(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / folder).glob("*.toml"))
        if f"{folder}/{path.name}" not in TABLES
    }


@pytest.mark.parametrize("path", ["variants/variant.schema.json", "workloads/workload.schema.json"])
def test_a_schema_describes_every_table_and_key(path: str) -> None:
    schema = json.loads(files()[path])
    tables = {schema["title"]: schema, **schema["$defs"]}
    assert [name for name, table in tables.items() if not table.get("description")] == []
    keys = [(name, key) for name, table in tables.items() for key in table.get("properties", {})]
    assert len(keys) > 40
    assert [(name, key) for name, key in keys if not tables[name]["properties"][key].get("description")] == []


@pytest.mark.parametrize("folder", ["variants", "workloads"])
def test_a_schema_admits_every_file_and_refuses_a_slip_in_it(folder: str) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(files()[f"{folder}/{folder[:-1]}.schema.json"]))
    assert not {"name", "shared_build"} & validator.schema["properties"].keys(), "they are not the file's to say"
    for name, table in tables(folder).items():
        assert [error.message for error in validator.iter_errors(table)] == [], name
        assert not validator.is_valid({**table, "colour": "red"}), name
        for required in {"summary", "support"} & table.keys():
            assert not validator.is_valid({key: table[key] for key in table.keys() - {required}}), name


@pytest.mark.parametrize(
    ("keys", "admitted"),
    [
        ({"workers": [1, 2]}, True),
        ({"workers": [1, 2], "workers_wait": True}, True),
        ({"workers_wait": True}, False),
        ({"workers": [1, 2], "scaling": {"name": "pure", "workers": 1}}, False),
        ({"scaling": {"name": "pure", "workers": 1}}, True),
    ],
)
def test_the_schema_admits_of_the_keys_of_workers_what_can_be_read(keys: dict[str, Any], admitted: bool) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(files()["workloads/workload.schema.json"]))
    table = tomllib.loads((ROOT / "workloads/locks.toml").read_text(encoding="utf-8"))
    benchmark = {"name": "pure-{workers}", "metric": {"label": "tasks/s", "scale": 1}, **keys}
    assert validator.is_valid({**table, "benchmarks": [benchmark]}) is admitted


# What Makefile.pre.in of 3.4, of 3.11 and of 3.15 says, and what must stay.
EMBEDDING = """\
build_all: $(BUILDPYTHON) oldsharedmods sharedmods gdbhooks Modules/_testembed
build_all: check-clean-src $(BUILDPYTHON) gdbhooks Programs/_testembed python-config
\t\tgdbhooks Programs/_testembed \\
Programs/_testembed: Programs/_testembed.o $(LINK_PYTHON_DEPS)
\t$(LINKCC) -o $@ Programs/_testembed.o $(LINK_PYTHON_OBJS)
"""


def test_what_embeds_the_interpreter_for_tests_is_not_linked(tmp_path: Path) -> None:
    (line,) = [one for one in files()["dockerfiles/cpython-3.14t/build.sh"].splitlines() if "_testembed" in one]
    (tmp_path / "Makefile.pre.in").write_text(EMBEDDING)
    subprocess.run(["sh", "-c", line], cwd=tmp_path, check=True)
    assert (tmp_path / "Makefile.pre.in").read_text().splitlines() == [
        "build_all: $(BUILDPYTHON) oldsharedmods sharedmods gdbhooks ",
        "build_all: check-clean-src $(BUILDPYTHON) gdbhooks  python-config",
        "\t\tgdbhooks  \\",
        *EMBEDDING.splitlines()[3:],
    ]
