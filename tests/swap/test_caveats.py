"""What a swap is not drop-in for is said, with its line; what is drop-in is not talked about."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from interlock.swap.caveats import Caveat, Weight, by_weight
from interlock.swap.files import swapped_dockerfile
from interlock.swap.image_caveats import has_older_libraries
from interlock.swap.image_names import NewImage, parse_name
from tests.swap.samples import FREE, PLAIN, PYPY, breaks, heavy


def said(text: str, to: NewImage = PLAIN, stage: str | None = None) -> list[tuple[int, str]]:
    return [(one.line, one.text) for one in swapped_dockerfile(text, to, stage, paths=False).warnings]


def says(text: str, named: str | tuple[str, ...], to: NewImage = PLAIN, stage: str | None = None) -> list[int]:
    """The lines of the warnings that name all of these."""
    names = (named,) if isinstance(named, str) else named
    return [line for line, sentence in said(text, to, stage) if all(one in sentence for one in names)]


@pytest.mark.parametrize(
    "image", ["python:3.13-slim", "python:3.13-slim-trixie", "mirror:5000/library/python:3.13-slim"]
)
def test_the_same_python_on_the_same_system_needs_no_word(image: str) -> None:
    assert said(f"FROM {image}\nRUN apt-get update && apt-get install -y git && git --version && pip install x\n") == []


@pytest.mark.parametrize(
    ("image", "named"),
    [
        ("python:3.13", ("python:3.13", "slim")),
        ("python:3.13-alpine", ("Alpine", "glibc")),
        ("python:3.13-slim-bookworm", ("bookworm", "trixie")),
        ("python:3.12-slim", ("python3.12", "python3.13")),
        ("localhost/interlock/python:3.13t-trixie", ("python3.13t ", "python3.13:")),
        ("pypy:3.11-slim", ("pypy3.11", "python3.13")),
        ("python:3-slim", ("python:3-slim", "python3.13")),
    ],
)
def test_what_the_old_image_had_is_said(image: str, named: tuple[str, ...]) -> None:
    assert says(f"ARG A\nFROM {image}\n", named) == [2]


@pytest.mark.parametrize(
    ("to", "part"),
    [
        (replace(PLAIN, reference="localhost/interlock/python:3.13-trixie"), "localhost/interlock/python:3.13-trixie"),
        (replace(PLAIN, unoptimised=True), "optimi"),
        (FREE, "`interlock audit`"),
    ],
)
def test_what_the_new_image_is_not_is_said(to: NewImage, part: str) -> None:
    assert says("FROM python:3.13-slim\n", part, to) == [0]


@pytest.mark.parametrize(
    ("line", "needed"),
    [
        ("RUN git clone x", "install git"),
        ("RUN apt-get update && \\\n  gcc x.c", "install gcc"),
        ("RUN if true; then make; fi", "install make"),
        ('RUN ["curl", "x"]', "install curl"),
        ("HEALTHCHECK --interval=3s CMD curl -f http://localhost", "install curl"),
        ("RUN <<E\nset -e\nunzip a\nE", "install unzip"),
        ("RUN a | xz -d", "install xz-utils"),
        ('CMD ["sh", "-c", "git pull && exec app"]', "install git"),
        ("RUN bash -c 'curl x'", "install curl"),
        ("CMD uv run --frozen make", "install make"),
        ("onbuild run --network=none make", "install make"),
        ('ONBUILD CMD ["git", "pull"]', "install git"),
    ],
)
def test_a_command_of_the_full_image_is_found_where_it_runs(line: str, needed: str) -> None:
    assert says(f"FROM python:3.13\n{line}\n", needed) == [2]
    assert says(f"FROM python:3.13-slim\n{line}\n", needed) == []


def test_what_holds_for_several_lines_is_one_warning() -> None:
    text = "FROM python:3.13\nRUN git a\nRUN git b\nRUN curl x\nCMD git c\n"
    warnings = by_weight(swapped_dockerfile(text, PLAIN, None, paths=False).warnings)
    (found,) = [one for one in warnings if "git," in one.text]
    assert found.line == 2
    assert re.findall(r"\d+", found.text.rpartition("(")[2]) == ["3", "5"]


ALPINE = "FROM python:3.13-alpine\nRUN apk add --no-cache gcc\nRUN adduser -D x\nRUN wget x\nRUN adduser x\n"
STAYS = (
    "FROM bitnami/python:3.12 AS uv\nFROM node AS web\nFROM python:3.12-slim\n"
    "COPY --from=uv /app/.venv /app/.venv\nCOPY --from=web /dist /dist\nCOPY --from=python:3.11 /a /a\n"
    "RUN --mount=from=uv,target=/x true\n"
)
BELOW = "FROM python:3.13 AS a\nRUN apt-get install -y git\nFROM a\nRUN git x\nRUN curl x\nFROM node\nRUN curl x\n"


@pytest.mark.parametrize(
    ("text", "named", "lines"),
    [
        pytest.param("FROM python:3.12-slim\n" * 2, ("python3.12", "python3.13"), [1], id="once for two stages"),
        pytest.param(
            "FROM python:3.13\nRUN git x && make && gcc y\n", ("gcc", "make", "git"), [2], id="once for a line"
        ),
        pytest.param(BELOW, "curl", [1, 5], id="stages below run on the swapped image too"),
        pytest.param(ALPINE, ("Alpine", "apt-get"), [2, 3], id="commands of Alpine's"),
        pytest.param(ALPINE, "install wget", [4], id="busybox"),
        pytest.param(STAYS, ("takes files", "python3.13"), [4, 6, 7], id="files of a Python that stays"),
        pytest.param(STAYS, ("'uv'", "bitnami/python:3.12", "--stage uv"), [4, 7], id="the stage that stays"),
        pytest.param(
            "FROM python:3.12 AS a\nFROM python:3.12-slim\nCOPY --from=a /x /x\n", "stage 'a'", [], id="swapped"
        ),
        pytest.param("FROM $A AS x\nFROM python:3.12\n", ("A ", "stage 'x'"), [1], id="not looked at"),
        pytest.param("ARG B=python:3.13-slim\nFROM $B\n", "--build-arg B=", [1], id="chosen from outside"),
        pytest.param("ARG V=3.13\nARG R=x\nFROM $R/library/python:$V-slim\n", "R and V", [3], id="no longer chosen"),
        pytest.param("FROM ${B:-python:3.13-slim}\n", " B", [], id="a default stays"),
    ],
)
def test_what_a_file_is_told_and_of_which_lines(text: str, named: str | tuple[str, ...], lines: list[int]) -> None:
    assert says(text, named) == lines


@pytest.mark.parametrize(
    ("line", "difference"),
    [
        ('CMD ["uwsgi", "--http", ":8000"]', "libpython"),
        ("RUN pip install uwsgi", "libpython"),
        ("COPY --from=nginx/unit:1-python3.13 /usr/sbin/unitd /usr/sbin/", "libpython"),
        ("COPY --from=x /usr/local/lib/libpython3.13.so.1.0 /usr/local/lib/", "libpython"),
        ('CMD ["gunicorn", "--threads", "4", "app"]', "threads"),
        ("CMD exec gunicorn app", "threads"),
        ("COPY wheels /usr/local/lib/python3.13/site-packages/", "site-packages"),
        ("RUN echo 'x = 1' > /usr/local/lib/python3.13/site-packages/x.py", "site-packages"),
        ("RUN python3 -m venv /opt/venv", "venv"),
        ('CMD ["python", "-m", "uvicorn", "app:app"]', "threads"),
        ('CMD ["uv", "run", "gunicorn", "app"]', "threads"),
        ("COPY --from=unit:1.34.1-python3.13 /usr/sbin/x /usr/sbin/", "libpython"),
    ],
)
def test_what_needs_a_part_that_the_new_image_lacks_is_told_with_the_way_out(line: str, difference: str) -> None:
    lacks = replace(PLAIN, differences={difference: "is not there"}, ways_out={difference: "cpython-3.13-other"})
    assert says(f"FROM python:3.13-slim\n{line}\n", ("is not there", "cpython-3.13-other"), lacks) == [2]
    assert says(f"FROM python:3.13-slim\n{line}\n", "is not there", PLAIN) == []


@pytest.mark.parametrize(
    "line", ["ENV PYTHONPATH=/venv/lib/python3.13/site-packages", "COPY x /usr/local/lib/python3.13/dist-packages/"]
)
def test_packages_elsewhere_do_not_need_the_official_layout(line: str) -> None:
    debian = replace(PLAIN, differences={"site-packages": "dist-packages"})
    assert heavy("D", f"FROM python:3.13-slim\n{line}\n", debian) == []


@pytest.mark.parametrize("line", ["RUN pytest tests/unit --junit unit", "RUN echo unit: ok", "RUN pip install pyuwsgi"])
def test_what_is_only_called_like_a_server_embeds_nothing(line: str) -> None:
    lacks = replace(PLAIN, differences={"libpython": "one binary"})
    assert heavy("D", f"FROM python:3.13-slim\n{line}\n", lacks) == []


def test_of_a_free_threaded_builds_folder_the_paths_tell() -> None:
    text = "FROM python:3.14-slim\nCOPY x /usr/local/lib/python3.14/site-packages/\n"
    differing = replace(FREE, differences={"site-packages": "lib/pythonX.Yt"})
    assert breaks("D", text, differing) == []


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("FROM rust AS a\nFROM python:3.12-slim\nCOPY --from=a /wheels /wheels\n", [3]),
        ("FROM manylinux AS a\nFROM python:3.12-slim\nCOPY --from=a /out/x-1.0-cp312-cp312-linux_x86_64.whl /\n", [3]),
        ("FROM node AS a\nFROM python:3.12-slim\nCOPY --from=a /dist /packages\n", []),
        ("FROM rust AS a\nFROM python:3.13-slim\nCOPY --from=a /wheels /wheels\n", []),
    ],
)
def test_packages_of_an_image_that_does_not_show_its_python_are_told(lines: str, told: list[int]) -> None:
    assert says(lines, ("packages", "python3.13")) == told


@pytest.mark.parametrize(
    ("source", "path", "told"),
    [
        ("a", "/usr/local/bin/node", True),
        ("caddy:2-alpine", "/usr/bin/caddy", True),
        ("a", "/usr/lib", True),
        ("a", "/app/dist", False),
        ("node:20-slim", "/usr/local/bin/node", False),
    ],
)
@pytest.mark.parametrize("image", ["python:3.13-alpine", "python:3.13-slim"])
def test_programs_of_alpine_are_told_where_its_image_becomes_debians(
    image: str, source: str, path: str, told: bool
) -> None:
    text = f"FROM node:20-alpine AS a\nFROM {image}\nCOPY --from={source} {path} /x\n"
    assert ((3, Weight.MAY_BREAK) in heavy("D", text)) == (told and "alpine" in image)


PUBLISHERS = {
    "write /usr/local/bin/python": [
        ('FROM python:3.12\nENTRYPOINT ["/usr/bin/python3", "a.py"]\n', [2]),
        ("FROM gcr.io/distroless/python3-debian12\nHEALTHCHECK CMD /usr/bin/python3.11 up.py\n", [2]),
        ("FROM public.ecr.aws/lambda/python:3.12\nRUN /var/lang/bin/python3.12 -m compileall .\nCMD []\n", [2]),
        ("FROM python:3.12\nRUN apt-get install -y python3-apt && /usr/bin/python3 a.py\n", []),
        ("FROM python:3.12\nRUN /usr/local/bin/python3 a.py && x/usr/bin/python3\n", []),
        ("FROM python:3.12-slim\nRUN /usr/bin/python3 a.py\n", []),  # which it does not have either
    ],
    "ENTRYPOINT": [
        ('FROM gcr.io/distroless/python3-debian12\nCMD ["/main.py"]\n', [2]),
        ('FROM cgr.dev/chainguard/python:latest\nCMD ["/main.py"]\n', [2]),
        ('FROM public.ecr.aws/lambda/python:3.12\nCMD ["app.handler"]\n', [2]),
        ('FROM gcr.io/distroless/python3-debian12\nENTRYPOINT ["python3"]\nCMD ["/main.py"]\n', []),
        ('FROM bitnami/python:3.12\nCMD ["/main.py"]\n', []),  # it has none
        ('FROM python:3.12\nCMD ["/main.py"]\n', []),
    ],
    "useradd": [
        ("FROM gcr.io/distroless/python3-debian12\nUSER nonroot:nonroot\n", [2]),
        ("FROM gcr.io/distroless/python3\nCOPY --chown=nonroot . /srv\n", [2]),
        ("FROM mcr.microsoft.com/devcontainers/python:3.12\nUSER vscode\n", [2]),
        ("FROM mcr.microsoft.com/devcontainers/python:3.12\nUSER root\nCOPY vscode /srv\n", []),
        ("FROM python:3.12-slim\nRUN useradd nonroot\nUSER nonroot\n", []),
        ("FROM cgr.dev/chainguard/python\nRUN useradd -m nonroot\nUSER nonroot\n", []),
    ],
}


@pytest.mark.parametrize(
    ("named", "lines", "told"), [(named, *row) for named, rows in PUBLISHERS.items() for row in rows]
)
def test_what_only_a_publishers_image_has_is_told(named: str, lines: str, told: list[int]) -> None:
    """Its interpreter's place, what starts the interpreter, and a user."""
    assert says(lines, named, stage="0") == told


def test_a_library_of_the_interpreters_is_missed_where_another_base_takes_it() -> None:
    library = "/usr/local/lib/libpython3.13.so.1.0"
    text = f"FROM python:3.13-slim AS py\nFROM nginx/unit\nCOPY --from=py {library} /usr/local/lib/\n"
    lacks = replace(PLAIN, differences={"libpython": "one binary"}, ways_out={"libpython": "cpython-3.13-shared"})
    assert says(text, ("one binary", "cpython-3.13-shared"), lacks) == [3]
    assert says(text, "libpython") == []


@pytest.mark.parametrize(
    ("image", "old"),
    [
        ("python:2.7-slim", "buster"),
        ("python:3.6", "bullseye"),
        ("python:3.8-slim", "bookworm"),
        ("python:3.11.2-slim", "bullseye"),
        ("python:3.13.2-slim", "bookworm"),
    ],
)
def test_a_tag_that_stopped_moving_has_the_debian_release_that_it_stayed_on(image: str, old: str) -> None:
    assert says(f"FROM {image}\n", (old, "trixie")) == [1]


@pytest.mark.parametrize("image", ["python:3.13-slim", "python:3.13.9-slim", "python:3.8.2-slim"])
def test_of_other_tags_no_release_is_claimed(image: str) -> None:
    assert says(f"FROM {image}\n", "becomes trixie") == []


def test_triggers_of_an_onbuild_image_are_lost() -> None:
    assert (1, Weight.BREAKS) in heavy("D", "FROM python:3.6-onbuild\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM --platform=linux/arm64/v8 python:3.13-slim\n", [(1, Weight.BREAKS)]),
        ("FROM arm64v8/python:3.13-slim\n", [(1, Weight.BREAKS)]),
        ("FROM --platform=$TARGETPLATFORM python:3.13-slim\n", [(1, Weight.MAY_BREAK)]),
        ("FROM --platform=linux/amd64 python:3.13-slim\n", []),
        ("FROM python:3.13-slim\n", []),
    ],
)
def test_an_architecture_that_the_new_image_is_not_for_is_told(text: str, expected: list[tuple[int, str]]) -> None:
    assert heavy("D", text, replace(PLAIN, platforms=("linux/amd64",))) == expected
    several = replace(PLAIN, platforms=("linux/amd64", "linux/arm64"))
    assert heavy("D", text, several) == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("RUN pip install pdm && pdm install", True),
        ("RUN python3 -m pdm sync --prod", True),
        ("RUN PDM=1\nRUN <<E\npdm --no-lock install\nE", True),
        ("RUN pipenv install --system --deploy", True),
        ('CMD ["/usr/local/bin/hatch", "run", "serve"]', True),
        ("RUN pip install pdm pipenv hatch", False),
        ("RUN echo pdm install", False),
        ("ENV PDM_USE_PYTHON_VERSION=0\nRUN pdm install", False),
        ("ENV HATCH_PYTHON=self\nRUN hatch run x", False),
        ("RUN poetry install", False),
    ],
)
def test_who_takes_the_python_that_a_file_of_the_project_names_is_told(line: str, told: bool) -> None:
    """Where the Python becomes another one; for the same one nothing changes."""
    files = (".python-version", "Pipfile", "environment")
    assert any(file in said for _, said in said_of(line, "3.12") for file in files) == told
    assert heavy("D", f"FROM python:3.13-slim\n{line}\n") == []


def said_of(lines: str, old: str) -> list[tuple[int, str]]:
    return said(f"FROM python:{old}-slim\n{lines}\n")


def test_an_old_uv_does_not_know_free_threaded_builds() -> None:
    text = "FROM python:3.14-slim\nCOPY --from=ghcr.io/astral-sh/uv:{} /uv /bin/\n"
    assert says(text.format("0.4.2"), ("uv 0.", "python3.14t"), FREE) == [2]
    assert says(text.format("0.8.0"), ("uv 0.", "python3.14t"), FREE) == []
    assert says(text.format("0.4.2"), "uv 0.") == []
    builder = "FROM ghcr.io/astral-sh/uv:{}-python3.14-trixie-slim\n"
    assert says(builder.format("0.4.2"), ("uv 0.", "python3.14t"), FREE) == [1]
    assert says(builder.format("0.8"), ("uv 0.", "python3.14t"), FREE) == []


@pytest.mark.parametrize(
    ("end", "weight"),
    [
        ("FROM gcr.io/distroless/python3-debian12\nCOPY --from=a /app /app\n", Weight.BREAKS),
        ("FROM debian:13-slim\nCOPY --from=a /opt/venv /opt/venv\n", Weight.MAY_BREAK),
    ],
)
def test_files_that_leave_for_a_python_that_stays_are_told(end: str, weight: Weight) -> None:
    text = f"FROM python:3.12-slim AS a\n{end}"
    assert (3, weight) in heavy("D", text)
    assert (3, weight) in heavy("D", text, FREE)


@pytest.mark.parametrize(
    "end",
    [
        "FROM gcr.io/distroless/python3-debian13\nCOPY --from=a /app /app\n",
        "FROM nginx\nCOPY --from=a /app/static /usr/share/nginx/html\n",
        "FROM debian\nCOPY --from=a /usr/local /usr/local\nCOPY --from=a /opt/venv /opt/venv\n",
    ],
)
def test_files_that_no_other_python_loads_are_not_told(end: str) -> None:
    assert [line for line, _ in heavy("D", f"FROM python:3.13-slim AS a\n{end}")] == []


@pytest.mark.parametrize(
    ("base", "told"),
    [
        ("debian:bookworm-slim", True),
        ("debian:trixie-slim", False),
    ],
)
def test_an_interpreter_that_is_copied_whole_needs_libraries_of_its_release(base: str, told: bool) -> None:
    text = "FROM python:3.13-slim AS py\nFROM {}\nCOPY --from=py {}\nRUN ls\n"
    whole = text.format(base, "/usr/local /usr/local")
    assert heavy("D", whole) == ([(3, Weight.BREAKS)] if told else [])
    assert heavy("D", text.format(base, "/app/static /srv")) == []


def test_uv_alone_may_be_copied_from_anywhere() -> None:
    text = "FROM python:3.13-slim\nCOPY --from=bitnami/python:3.9 /uv /uvx /bin/\n"
    assert heavy("D", text) == []


def test_the_heaviest_comes_first_and_what_stands_for_every_file_is_one() -> None:
    found = [Caveat(0, "a", Weight.KNOW), Caveat(3, "b"), Caveat(0, "c", Weight.KNOW), Caveat(9, "d", Weight.BREAKS)]
    assert [(one.line, one.text) for one in by_weight(found)] == [(9, "d"), (3, "b"), (0, "a; c")]


def test_a_missing_pip_is_told_where_it_runs() -> None:
    assert says("FROM pypy:3.11-slim\nRUN true\nRUN pip install x\n", "`python -m ensurepip`", PYPY) == [3]


def test_an_image_that_is_no_python_is_swapped_with_a_word() -> None:
    assert says("FROM company/base AS a\n", "company/base", stage="a") == [1]
    assert says("FROM bitnami/python:3.13 AS a\n", "bitnami/python:3.13", stage="a") == [1]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('ENTRYPOINT ["/sbin/tini", "--"]', True),
        ('CMD ["su-exec", "app", "python"]', True),
        ('ENTRYPOINT ["/usr/bin/tini", "--"]', False),
    ],
)
def test_commands_of_alpines_packages_are_told_with_debians(line: str, told: bool) -> None:
    assert says(f"FROM python:3.13-alpine\n{line}\n", "which is Alpine's") == ([2] if told else [])
    assert says(f"FROM python:3.13-slim\n{line}\n", "which is Alpine's") == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('RUN echo "deb http://apt.example/debian bookworm-pgdg main" > /etc/apt/sources.list.d/pgdg.list', True),
        ("RUN apt-get install -y -t bookworm-backports git", True),
        ('RUN echo "deb [signed-by=/k] http://apt.example/debian trixie main" > /etc/apt/sources.list.d/x.list', False),
        ("RUN echo bookworm", False),
    ],
)
def test_another_release_in_a_line_for_apt_is_told(line: str, told: bool) -> None:
    assert says(f"FROM python:3.13-slim\n{line}\n", "names bookworm") == ([2] if told else [])


@pytest.mark.parametrize(
    ("line", "most"),
    [
        ('COPY . /app\nCMD ["python", "/app/main.py"]', 2),
        ("RUN apt-get install -y libgl1-mesa-glx netcat && pip install x", 3),
    ],
)
@pytest.mark.parametrize(
    "image",
    ["python:3.12", "python:3.12-slim-bookworm", "python:3.8.1-slim-buster", "python:3.12-alpine", "r.io/python:3.11"],
)
def test_of_a_short_file_two_or_three_things_are_said_at_most(image: str, line: str, most: int) -> None:
    """Besides what the engine knows of the image."""
    for to in (FREE, PLAIN, *(replace(to, unoptimised=True, reference="localhost/x") for to in (FREE, PLAIN))):
        assert len(by_weight(swapped_dockerfile(f"FROM {image}\n{line}\n", to, None, paths=False).warnings)) <= most


@pytest.mark.parametrize(
    ("image", "trixie", "bookworm"),
    [
        ("ubuntu:22.04", True, True),
        ("ubuntu:24.04", True, False),
        ("ubuntu:24.10", True, False),
        ("ubuntu:25.04", False, False),
        ("ubuntu:noble", True, False),
        ("nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04", True, True),
        ("nvidia/cuda:12.8.0-base-ubi9", True, True),
        ("registry.access.redhat.com/ubi9/ubi-minimal:9.4", True, True),
        ("redhat/ubi9:9.4", True, True),
        ("redhat/ubi10", True, False),
        ("quay.io/centos/centos:stream9", True, True),
        ("rockylinux/rockylinux:9.3", True, True),
        ("amazonlinux:2023", True, True),
        ("fedora:42", False, False),
        ("gcr.io/distroless/cc-debian12:nonroot", True, False),
        ("gcr.io/distroless/cc-debian13", False, False),
        ("debian:12-slim", True, False),
        ("debian:stable", False, False),
        ("node:22-bookworm", True, False),
        ("node:22-bullseye", True, True),
        ("alpine:3.22", True, True),
        ("nginx:1.27-alpine", True, True),
        ("cgr.dev/chainguard/wolfi-base", False, False),
        ("nginx", False, False),
    ],
)
def test_a_system_with_an_older_c_library_is_told_by_its_name(image: str, trixie: bool, bookworm: bool) -> None:
    assert has_older_libraries(parse_name(image), "trixie") == trixie
    assert has_older_libraries(parse_name(image), "bookworm") == bookworm


@pytest.mark.parametrize(
    "manager", ["dnf install -y", "microdnf install -y", "yum install -y", "apk add", "zypper install"]
)
def test_another_systems_package_manager_is_told_where_it_is_swapped_all_the_same(manager: str) -> None:
    text = f"FROM company/base AS a\nRUN {manager} python3.12 x\n"
    result = swapped_dockerfile(text, PLAIN, "a", paths=True)
    assert [one.line for one in result.warnings if one.weight is Weight.BREAKS] == [2]
    assert result.paths == ()
