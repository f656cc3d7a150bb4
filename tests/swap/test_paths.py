"""Versions in paths, commands and names of wheels are found where they are the swapped Python's, and nowhere else."""

from __future__ import annotations

import time

import pytest

from interlock.swap import paths
from interlock.swap.dockerfile import read_dockerfile
from interlock.swap.files import reverted_file, swapped_dockerfile
from interlock.swap.image_names import NewImage
from interlock.swap.instructions import parse_instructions
from interlock.swap.paths import FoundVersion
from tests.swap.samples import FREE, PLAIN, PYPY


def found(body: str, to: NewImage = FREE, image: str = "python:3.12") -> list[tuple[int, str, str]]:
    result = swapped_dockerfile(f"FROM {image}\n{body}\n", to, None, paths=True)
    return [(path.line, path.old, path.new) for path in result.paths if path.edited]


def left(body: str, to: NewImage = FREE) -> list[FoundVersion]:
    return [
        path
        for path in swapped_dockerfile(f"FROM python:3.12\n{body}\n", to, None, paths=True).paths
        if not path.edited
    ]


@pytest.mark.parametrize(
    ("body", "old", "new"),
    [
        ("ENV P=/usr/local/lib/python3.12/site-packages", "python3.12", "python3.14t"),
        ("RUN python3.12 -m pip", "python3.12", "python3.14t"),
        ('CMD ["python3.12"]', "python3.12", "python3.14t"),
        ("RUN /venv/bin/python3.12 x", "python3.12", "python3.14t"),
        ("RUN pip3.12 install x", "pip3.12", "pip3.14"),
        ("RUN pydoc3.12 x", "pydoc3.12", "pydoc3.14"),
        ("RUN python3.12-config --cflags", "python3.12", "python3.14t"),
        ("RUN gcc -lpython3.12 x.c", "python3.12", "python3.14t"),
        ("RUN gcc -I/usr/include/python3.12 -lpython3.12 x.c", "python3.12", ""),
        ("ENV LD_PRELOAD=/usr/local/lib/libpython3.12.so.1.0", "libpython3.12", "libpython3.14t"),
        ("RUN ls /a/_x.cpython-312-x86_64-linux-gnu.so", "cpython-312", "cpython-314t"),
        ("RUN pip install /w/a-1-cp312-cp312-linux_x86_64.whl", "cp312-cp312", "cp314-cp314t"),
        ("RUN uv venv --python 3.12", "3.12", "3.14t"),
        ("ENV UV_PYTHON=3.12", "3.12", "3.14t"),
        ("RUN uv sync -p 3.12", "3.12", "3.14t"),
        ("RUN <<E\npython3.12\nE", "python3.12", "python3.14t"),
        ("ONBUILD RUN python3.12", "python3.12", "python3.14t"),
        ("HEALTHCHECK CMD python3.12 x", "python3.12", "python3.14t"),
    ],
)
def test_a_version_becomes_what_it_is_called_in_the_new_image(body: str, old: str, new: str) -> None:
    assert [(before, after) for _, before, after in found(body)] == ([(old, new)] if new else [])


@pytest.mark.parametrize(
    "body",
    [
        "RUN python3.11 -V",
        "RUN python3 -V",
        "RUN /usr/bin/python3.12 -V",
        "RUN /opt/conda/envs/app/bin/python3.12 x",
        "COPY x /root/.pyenv/versions/3.12.4/lib/python3.12/",
        "RUN ls /usr/lib/python3.12 /usr/share/python3.12",
        "RUN apt-get update && apt-get install -y python3.12 libpython3.12 \\\n  python3.12-dev",
        "RUN <<E\napt-get install -y python3.12\nE",
        "LABEL python=python3.12",
        "# python3.12",
        "RUN a && \\\n # python3.12\n b",
        "RUN mypython3.12 cpython3.12 python3.123 python3.12.4 xpip3.12",
        "EXPOSE 3.12",
        "RUN ls a-1.0-cp38-abi3-x.whl",
        "RUN ls /python${OTHER}/",
    ],
)
def test_what_is_not_this_pythons_is_no_version_of_it(body: str) -> None:
    assert not found(body)
    assert not left(body)


def test_a_command_behind_an_installation_is_one() -> None:
    assert found("RUN apt-get install -y python3.12 && python3.12 -V") == [(2, "python3.12", "python3.14t")]


def test_an_image_that_leaves_its_version_open_may_have_any() -> None:
    assert found("RUN python3.11 -V", image="python:3") == [(2, "python3.11", "python3.14t")]


def test_a_variable_with_the_version_is_put_in() -> None:
    text = "ARG V=3.12\nFROM python:$V\nARG V\nENV A=/lib/python${V}/x B=/lib/python$V\n"
    result = swapped_dockerfile(text, FREE, None, paths=True)
    assert "ENV A=/lib/python3.14t/x B=/lib/python3.14t\n" in result.text
    assert [path.old for path in result.paths] == ["python${V}", "python$V"]


def test_a_build_argument_with_the_name_of_the_images_own_variable_is_the_version_that_is_meant() -> None:
    text = (
        "ARG PYTHON_VERSION=3.12\nFROM python:$PYTHON_VERSION AS a\nARG PYTHON_VERSION\n"
        "ENV A=/lib/python$PYTHON_VERSION\nFROM debian\nARG PYTHON_VERSION\n"
        "COPY --from=a /usr/local/lib/python${PYTHON_VERSION}/site-packages /x\n"
    )
    assert [(one.line, one.new) for one in swapped_dockerfile(text, FREE, None, paths=True).paths] == [
        (4, "python3.14t"),
        (7, "python3.14t"),
    ]


@pytest.mark.parametrize(
    "copied",
    ["/usr/local /usr/local", "/usr/local/lib/python3.12 /usr/local/lib/python3.12/", '["/usr/local/", "/usr/local/"]'],
)
def test_a_stage_that_a_whole_python_is_copied_into_has_that_ones_versions(copied: str) -> None:
    text = (
        f"FROM python:3.12 AS py\nFROM debian\nCOPY --from=py {copied}\n"
        "RUN ln -s /usr/local/bin/python3.12 /usr/local/bin/python\nENV A=/usr/local/lib/python3.12/x\n"
    )
    result = swapped_dockerfile(text, FREE, None, paths=True)
    assert "3.12" not in "".join(line for line in result.text.splitlines() if not line.startswith("#"))
    assert reverted_file("D", result.text) == text


def test_a_stage_that_only_packages_are_copied_into_keeps_its_versions() -> None:
    copy = "COPY --from=py /usr/local/lib/python3.12/site-packages /srv/lib/python3.12/\n"
    text = f"FROM python:3.12 AS py\nFROM debian\n{copy}"
    assert "/site-packages /srv/lib/python3.12/" in swapped_dockerfile(text, FREE, None, paths=True).text


def test_each_end_of_a_copy_has_its_own_stages_version() -> None:
    text = (
        "FROM python:3.12 AS a\nFROM python:3.11 AS b\n"
        "COPY --from=a /lib/python3.12 /lib/python3.12\nCOPY --from=1 /lib/python3.11 /lib/python3.11\n"
    )
    result = swapped_dockerfile(text, FREE, "a", paths=True)
    assert result.text.endswith(
        "# interlock: paths were python3.12 -\nCOPY --from=a /lib/python3.14t /lib/python3.12\n"
        "COPY --from=1 /lib/python3.11 /lib/python3.11\n"
    )


@pytest.mark.parametrize(
    "instruction",
    [
        "COPY --from=python:3.12 /lib/python3.12 /a",
        "COPY --from=python:3.12 --chown=a ['/lib/python3.12', '/a']",
        "RUN --mount=type=bind,from=python:3.12,source=/lib/python3.12,target=/a true",
        "RUN --mount=from=other,target=/a,src=/lib/python3.12 true",
        "RUN --mount=from=team/tools:python3.12,target=/a true",
        "ONBUILD COPY --from=python:3.12 /lib/python3.12 /a",
        "ONBUILD COPY --from=team/tools:python3.12 /a /b",
        "ONBUILD RUN --mount=from=team/tools:python3.12,source=/lib/python3.12,target=/a true",
    ],
)
def test_what_comes_from_elsewhere_keeps_its_version(instruction: str) -> None:
    assert found(instruction) == []


def test_a_trigger_takes_files_from_a_stage_of_the_build_that_it_is_triggered_in() -> None:
    text = "FROM python:3.12 AS a\nFROM python:3.12\nONBUILD COPY --from=a /lib/python3.12 /lib/python3.12/\n"
    result = swapped_dockerfile(text, FREE, None, paths=True)
    assert result.text.endswith("\nONBUILD COPY --from=a /lib/python3.12 /lib/python3.14t/\n")
    assert reverted_file("D", result.text) == text


def test_a_stage_that_is_called_like_a_version_keeps_its_name() -> None:
    text = (
        "FROM python:3.12 AS python3.12\nFROM debian\nCOPY --from=python3.12 /lib/python3.12 /x\n"
        "RUN --mount=from=python3.12,source=/lib/python3.12,target=/y true\n"
    )
    result = swapped_dockerfile(text, FREE, None, paths=True)
    assert "COPY --from=python3.12 /lib/python3.14t /x\n" in result.text
    assert "RUN --mount=from=python3.12,source=/lib/python3.14t,target=/y true\n" in result.text
    assert reverted_file("D", result.text) == text


def test_a_mounts_target_is_of_the_stage_itself() -> None:
    body = "RUN --mount=from=other,target=/lib/python3.12 \\\n python3.12"
    assert [line for line, _, _ in found(body)] == [2, 3]


def test_the_stages_below_have_the_version_of_the_one_that_they_start_from() -> None:
    text = "FROM python:3.12 AS a\nFROM a AS b\nRUN python3.12\nFROM node\nRUN python3.12\n"
    assert [path.line for path in swapped_dockerfile(text, FREE, None, paths=True).paths] == [3]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("COPY a-1-cp312-cp312-x.whl /w/\nRUN pip install /w/a-1-cp312-cp312-x.whl", "build context"),
        ("ONBUILD COPY a-1-cp312-cp312-x.whl /w/", "build context"),
        ("ADD https://x.example/a-1-cp312-cp312-x.whl /w/", "address"),
        ("RUN pip install https://x.example/a-1-cp312-cp312-x.whl", "address"),
        ("RUN pip install /w/a-1-cp312-abi3-x.whl", "abi3"),
    ],
)
def test_a_file_that_the_swap_cannot_rename_is_told(body: str, reason: str) -> None:
    assert found(body) == []
    assert all(reason in path.reason for path in left(body))
    assert left(body)


def test_another_implementation_has_its_own_command_and_no_wheels_of_cpython() -> None:
    assert found("RUN python3.12", PYPY) == [(2, "python3.12", "pypy3.11")]
    assert "compiled for CPython" in left("RUN ls a-cp312-cp312-x.whl", PYPY)[0].reason


def test_nothing_is_found_where_the_version_stays() -> None:
    assert found("RUN python3.13 && ls cp313-cp313", PLAIN, "python:3.13") == []


def test_without_paths_they_are_found_and_stay() -> None:
    result = swapped_dockerfile("FROM python:3.12\nRUN python3.12\n", FREE, None, paths=False)
    assert result.text.endswith("\nRUN python3.12\n")
    assert [(path.line, path.edited, path.reason) for path in result.paths] == [(2, False, "")]


def test_lines_are_those_of_the_file_as_it_was_given() -> None:
    once = swapped_dockerfile(
        "FROM python:3.12\nRUN python3.12\nFROM python:3.12\nRUN python3.12\n", FREE, None, paths=True
    ).text
    again = swapped_dockerfile(once, PLAIN, None, paths=True)
    lines = once.splitlines()
    assert [lines[path.line - 1] for path in again.paths] == ["RUN python3.14t", "RUN python3.14t"]


def test_the_default_of_an_arg_is_a_path_unless_it_names_an_image() -> None:
    text = "ARG A=x.example/uv:python3.12 P=/lib/python3.12 Q=python3.12\nARG C=${A}-x\nFROM $A AS s\n"
    result = swapped_dockerfile(text, FREE, "s", paths=True)
    assert [path.old for path in result.paths] == ["python3.12", "python3.12"]
    assert "A=x.example/uv:python3.12 P=/lib/python3.14t Q=python3.14t\n" in result.text
    assert reverted_file("D", result.text) == text


def test_of_a_word_that_is_longer_than_any_path_a_part_is_read() -> None:
    start = time.process_time()
    read = read_dockerfile("FROM python:3.12-slim\nRUN " + "GE=a/python3.12/bookw" * 20_000)
    found = paths.version_tokens(read, read.stages[0], parse_instructions(read.text)[1])
    assert len(found) == 20_000
    assert max(len(one.word) for one in found) <= 2 * paths.LONGEST_PATH
    assert time.process_time() - start < 2
