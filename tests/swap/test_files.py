"""A file of any kind is swapped, taken back, and checked."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import LeftError, SwapError
from interlock.swap import yaml_files
from interlock.swap.caveats import Weight
from interlock.swap.copied import beside
from interlock.swap.files import (
    PlannedFile,
    lines_to_swap,
    reverted_file,
    swapped_file,
    swapped_lines,
)
from interlock.swap.paths import FoundVersion
from tests.swap.samples import FREE, PLAIN, breaks, heavy, weighed

COMPOSE = "services:\n  a:\n    image: python:3.12-slim # c\n  b:\n    image: 'python:3.12'\n  c: {build: .}\n"
POD = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    image: python:3.12\n"

plain = st.text(alphabet="ab #'\"{}[]-:&*!|>\t/,", max_size=12)


def after(file: str, text: str, stage: str | None = None) -> str:
    return swapped_file(file, text, PLAIN, stage, paths=True).text


def test_one_service_is_swapped_by_its_name() -> None:
    text = after("compose.yaml", COMPOSE, "b")
    assert text.count(PLAIN.reference) == 1
    assert reverted_file("compose.yaml", text, "a") == text
    assert reverted_file("compose.yaml", text, "B") == COMPOSE


def test_a_second_swap_keeps_the_first_original() -> None:
    once = after("compose.yaml", COMPOSE)
    twice = swapped_file("compose.yaml", once, FREE, None, paths=False)
    assert "was python:3.12-slim" in twice.text
    assert [one.line for one in twice.warnings if "is slim" in one.text] == [7]
    assert reverted_file("compose.yaml", twice.text) == COMPOSE


def test_versions_beside_an_image_are_found_and_left_to_the_person() -> None:
    text = "services:\n  a:\n    image: python:3.12\n    command: python3.12\n  b:\n    command: python3.12\n"
    (found,) = swapped_file("compose.yaml", text, FREE, None, paths=True).paths
    assert found == FoundVersion(4, "python3.12", "python3.14t", False, found.reason)
    assert found.reason


BUILT = (
    "services:\n  a:\n    build: ./python3.12\n    environment:\n      PYTHONPATH: /x/lib/python3.12/y\n"
    "    command: [python3.12, x]\n"
)


def test_versions_of_a_service_that_is_built_are_found_beside_an_image() -> None:
    text = f"{BUILT}    volumes: ['x:/x/python3.11']\n  b:\n    image: python:3.12\n"
    result = swapped_file("compose.yaml", text, FREE, None, paths=True)
    assert [(one.line, one.new, one.edited) for one in result.paths] == [
        (5, "python3.14t", False),
        (6, "python3.14t", False),
    ]
    assert swapped_file("compose.yaml", text, FREE, "b", paths=True).paths == ()


@pytest.mark.parametrize("more", ["", "  b:\n    image: postgres:17\n    command: python3.11 x\n"])
def test_versions_of_a_service_that_is_built_are_named_where_no_image_is_swapped(more: str) -> None:
    with pytest.raises(LeftError) as left:
        swapped_file("compose.yaml", BUILT + more, FREE, None, paths=True)
    assert left.value.file == "compose.yaml:5"
    assert left.value.todo.endswith("line 5: python3.12 -> python3.14t; line 6: python3.12 -> python3.14t.")
    with pytest.raises(SwapError) as right:
        swapped_file("compose.yaml", (BUILT + more).replace("python3.12", "python3.14t"), FREE, None, paths=True)
    assert not isinstance(right.value, LeftError)


def test_versions_of_containers_whose_image_may_be_built_are_named_with_and_without_a_swapped_image() -> None:
    pod = """apiVersion: v1
kind: Pod
spec:
  containers:
  - name: app
    image: registry.example/team/app:3.12
    command: [/usr/local/bin/python3.12, -m, app]
    livenessProbe: {exec: {command: [python3.12, -c, ""]}}
"""
    with pytest.raises(LeftError) as left:
        swapped_file("pod.yaml", pod, FREE, None, paths=True)
    assert left.value.file == "pod.yaml:7"
    assert left.value.todo.endswith("line 7: python3.12 -> python3.14t; line 8: python3.12 -> python3.14t.")
    beside = (
        f"{pod}  - {{name: b, image: 'python:3.12'}}\n  - {{name: c, image: 'bitnami/python:3', args: [python3.12]}}\n"
    )
    assert [one.line for one in swapped_file("pod.yaml", beside, FREE, None, paths=True).paths] == [7, 8]
    assert swapped_file("pod.yaml", beside, FREE, "b", paths=True).paths == ()


@pytest.mark.parametrize(
    ("file", "text", "where", "key"),
    [
        ("c.yaml", "a: [", "c.yaml:1", ""),
        ("c.yaml", "a: \x01", "c.yaml", ""),
        ("c.yaml", "- a\n", "c.yaml", ""),
        ("c.yaml", "", "c.yaml", ""),
        ("c.yaml", "services: {a: {build: x}}", "c.yaml", ""),
        ("c.yaml", "services:\n", "c.yaml", ""),
        ("c.yaml", "services:\n  a:\n    image: >-\n      python:3.12\n", "c.yaml:3", ""),
        ("c.yaml", "services: {a: {image: node:22}}", "c.yaml", ""),
        ("c.yaml", "services: {a: {image: $I}}", "c.yaml:1", ""),
        ("c.yaml", 'services: {a: {x: "1\n  2", image: python:3.12}}', "c.yaml:2", ""),
        ("c.yaml", "services: {a: {image: python:3}, b: {image: x}}", "c.yaml:1", ""),
        ("d.json", "{", "d.json:1", ""),
        ("d.json", "[]", "d.json", ""),
        ("d.json", "", "d.json", ""),
        ("d.json", '{"image": 1}', "d.json:1", "image"),
        ("d.json", '{"build": {"dockerfile": "x"}}', "d.json", ""),
        ("d.json", '{"image": "bitnami/python:3.12"}', "d.json:1", ""),
    ],
)
def test_what_names_no_python_image_is_refused(file: str, text: str, where: str, key: str) -> None:
    with pytest.raises(SwapError) as raised:
        after(file, text)
    assert (raised.value.file, raised.value.key) == (where, key)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("c.yaml", "# interlock: was python:3.12\nservices: {a: {image: 'x', c: 1}, b: {image: y}}\n"),
        ("c.yaml", "# interlock: was a\n# interlock: was b\nservices: {a: {image: x}}\n"),
        ("c.yaml", "# interlock: paths were a\nservices: {a: {image: x}}\n"),
        ("d.json", '// interlock: was a\n{\n"image": "x"}\n'),
        ("d.json", '// interlock: was json:\n{"image": "x"}\n'),
    ],
)
def test_a_comment_that_fits_no_image_line_is_refused(file: str, text: str) -> None:
    with pytest.raises(SwapError, match=r"'interlock: (was|paths were)"):
        reverted_file(file, text)


def test_a_one_line_file_gets_its_comment_above() -> None:
    text = after("d.json", '\ufeff{"name": "Größe", "image": "python:3.12"}')
    assert text == f'\ufeff// interlock: was python:3.12\n{{"name": "Größe", "image": "{PLAIN.reference}"}}'
    assert reverted_file("d.json", text) == '\ufeff{"name": "Größe", "image": "python:3.12"}'


def comes_back_or_is_refused(file: str, text: str) -> bool:
    try:
        swapped = after(file, text)
    except SwapError:
        return True
    return reverted_file(file, swapped) == text


@given(st.lists(plain, max_size=4), st.lists(plain, max_size=4), st.sampled_from(["\n", "\r\n"]))
def test_any_manifest_is_swapped_so_that_it_comes_back_or_refused(
    before: list[str], behind: list[str], end: str
) -> None:
    assert comes_back_or_is_refused(
        "compose.yaml", end.join([*before, "services:", "  a:", "    image: python:3.12", *behind])
    )


@given(st.text(max_size=8), st.text(alphabet=' \t\r\n,{}[]"/*:a', max_size=8))
def test_any_devcontainer_is_swapped_so_that_it_comes_back_or_refused(name: str, between: str) -> None:
    assert comes_back_or_is_refused("devcontainer.json", f'{{"name": "{name}",{between}"image": "python:3.12"}}')


MATRIX = """\
on: push
jobs:
  a:
    container: python:3.13-slim
    steps: []
  b:
    container: python:${{ matrix.python }}-slim
    steps: []
"""


def test_an_image_that_a_workflow_chooses_stays_and_is_told() -> None:
    result = swapped_file("ci.yml", MATRIX, PLAIN, None, paths=False)
    assert [line for line, old in enumerate(result.text.splitlines(), 1) if PLAIN.reference in old] == [5]
    assert [one.line for one in result.warnings if "an expression" in one.text] == [7]
    with pytest.raises(SwapError, match=r"ci\.yml:7: "):
        swapped_file("ci.yml", MATRIX, PLAIN, "b", paths=False)


def test_what_a_swap_would_be_for_is_told_as_it_is_now() -> None:
    text = after("Dockerfile", "FROM python:3.12 AS a\nFROM node\n")
    assert [one.image for one in lines_to_swap("Dockerfile", text, None)] == [PLAIN.reference]
    assert [one.image for one in lines_to_swap("compose.yaml", COMPOSE, "a")] == ["python:3.12-slim"]


LACKING = replace(PLAIN, differences={"libpython": "one binary", "threads": "has none"})


@pytest.mark.parametrize(
    ("file", "lines", "told"),
    [
        ("compose.yaml", "    command: [git, clone]\n", "runs git"),
        ("compose.yaml", "    entrypoint: sh -c\n    command: curl x\n", "runs curl"),
        ("compose.yaml", '    healthcheck:\n      test: ["CMD-SHELL", "curl -f x || exit 1"]\n', "runs curl"),
        ("compose.yaml", "    command: uwsgi --http :80\n", "needs libpython"),
        ("compose.yaml", "    command: [python, -m, gunicorn]\n", "needs threads"),
        ("compose.yaml", "    command: >\n      git\n      clone\n", "runs git"),
        ("compose.yaml", "    command: apt-get install -y git\n", ""),
        ("compose.yaml", "    command: x\n    environment: {a: git clone}\n", ""),
        ("pod.yaml", '    command: ["/usr/local/bin/python"]\n    args: ["-m", "gunicorn", "x"]\n', "needs threads"),
        ("pod.yaml", '    command: ["sh", "-c"]\n    args: ["exec uwsgi --ini x"]\n', "needs libpython"),
        ("pod.yaml", "    livenessProbe:\n      exec: {command: [curl, x]}\n", "runs curl"),
        ("pod.yaml", "    args: [--port, '80']\n", ""),
        ("ci.yml", "    steps:\n    - run: |\n        true\n        git describe\n", "runs git"),
        (".gitlab-ci.yml", "  before_script: []\n  script:\n  - true\n  - git describe\n", "runs git"),
    ],
)
def test_what_a_container_runs_is_looked_at_as_a_dockerfiles_commands(file: str, lines: str, told: str) -> None:
    text, line = IN_FILES[file]
    found = swapped_file(file, text + lines, LACKING, None, paths=False).warnings
    broken = [(one.line, one.text) for one in found if one.weight is Weight.BREAKS]
    assert [at > line and told in said for at, said in broken] == ([True] if told else [])


IN_FILES = {
    "compose.yaml": ("services:\n  b:\n    image: node\n    command: git x\n  a:\n    image: python:3.13\n", 6),
    "pod.yaml": (
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - image: node\n    command: [curl]\n"
        "  - image: python:3.13\n",
        7,
    ),
    "ci.yml": ("on: push\njobs:\n  b:\n    steps: [{run: git x}]\n  a:\n    container: python:3.13\n", 6),
    ".gitlab-ci.yml": ("image: python:3.13\nb:\n  image: node\n  script: [git x]\na:\n", 5),
}


def test_services_that_share_an_image_by_an_anchor_are_all_looked_at() -> None:
    text = (
        "x-base: &base {image: python:3.13, a: [python3.13]}\nservices:\n  a:\n    <<: *base\n    command: git x\n"
        "  b:\n    <<: *base\n    platform: linux/arm64\n    command: curl python3.13\n"
    )
    result = swapped_file("compose.yaml", text, replace(FREE, platforms=("linux/amd64",)), None, paths=False)
    assert [one.line for one in result.warnings if one.weight is Weight.BREAKS] == [1, 5, 9]
    assert [one.line for one in result.paths] == [9, 1]


def test_what_stays_beside_what_is_swapped_is_told_with_its_line() -> None:
    compose = "services:\n  a:\n    image: python:3.13-slim\n  web:\n    build: {context: web}\n"
    inline = "  in:\n    build:\n      dockerfile_inline: |\n        FROM node\n"
    result = swapped_file("compose.yaml", compose + inline, PLAIN, None, paths=False)
    (built,) = [one for one in result.warnings if one.line]
    assert built.line == 4
    assert all(name in built.text for name in ("'web'", "web/Dockerfile"))
    resource = "---\napiVersion: a/v1\nkind: X\nspec: {image: python:3.12}\nnote: {image: 'python:3.12 is meant'}\n"
    result = swapped_file("pod.yml", POD + resource, PLAIN, None, paths=False)
    assert [one.line for one in result.warnings if "spec.image" in one.text] == [10]
    assert [one.line for one in result.warnings if "note" in one.text or "containers" in one.text] == []


def test_the_image_of_a_jobs_service_is_named() -> None:
    text = "a:\n  image: python:3.13-slim\n  script: [x]\n  services: [redis, 'python:3.12']\n"
    assert [line for line, _ in weighed(".gitlab-ci.yml", text) if line] == [4]


def test_what_was_swapped_is_told_by_its_comment() -> None:
    assert [one.line for one in swapped_lines("D", after("D", "ARG B=python:3.12\nFROM $B\nFROM node\n"))] == [3]
    assert [one.name for one in swapped_lines("c.yml", after("c.yml", COMPOSE, "b"))] == ["b"]
    assert swapped_lines("D", "FROM localhost/interlock/python:3.13-trixie\n") == []


BOMB = "services:\n  a0: &a0 {image: python:3.13-slim}\n" + "".join(
    f"  a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9)}]\n" for number in range(1, 12)
)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("compose.yaml", BOMB),
        ("compose.yaml", "services: &a\n  web: {image: python:3.13-slim, <<: *a}\n  more: *a\n"),
        ("deployment.yaml", "apiVersion: v1\nkind: Pod\nspec: &a\n  containers: [*a, {image: python:3.13-slim}]\n"),
        ("compose.yaml", "services: &a [*a]\n"),
        ("compose.yaml", "%YAML 9.9\n---\nservices: {}\n"),
        ("compose.yaml", "services: " + "[" * 5000),
        ("compose.yaml", "services: " + "{<<: " * 400 + "{}" + "}" * 400 + "\n"),
        (
            "compose.yaml",
            "services:\n  a0: &a0 {image: python:3.13-slim}\n"
            + "".join(f"  a{n}: &a{n} {{<<: *a{n - 1}}}\n" for n in range(1, 700)),
        ),
        (
            "compose.yaml",
            f"{BOMB}  key: {{image: python:3.13-slim, ? *a6 : 1}}\n",
        ),
        ("compose.yaml", f"services:\n  a:\n    image: python:3.13-slim\n    x:\n      {'? - ' * 150}\n"),
        ("compose.yaml", "services:\n" + "".join(f"  s{n}:\n    image: python:3.13-slim\n" for n in range(200))),
        ("Dockerfile", "FROM python:3.13-slim AS a\n" * 490),
        ("Dockerfile", "FROM python:3.13-slim\n" + "RUN echo\n" * 1990),
        ("Dockerfile", "FROM python:3.13-slim\nRUN " + "[" * 100_000),
        (
            "Dockerfile",
            "ARG B=" + "${A:-" * 2000 + "x" + "}" * 2000 + "\nFROM $B\nFROM " + "${A:-" * 2000 + "x" + "}" * 2000,
        ),
        ("Dockerfile", "FROM python:3.12\nRUN " + "deb " * 20_000),
        ("Dockerfile", "FROM python:3.12\nENV " + "PATH=" * 19_000),
        ("Dockerfile", "FROM python:3.12\nRUN " + "/aconda" * 14_000),
        ("Dockerfile", "ARG IMAGE=" + "GE=ghcr.io/astral-sh/uv:python3.12-bookw" * 2000 + "\nFROM python:3.12-slim\n"),
    ],
    ids=lambda text: text[:20].splitlines()[0],
)
def test_what_grows_when_it_is_read_takes_two_seconds_at_most_or_is_refused(file: str, text: str) -> None:
    start = time.process_time()
    with suppress(SwapError):
        swapped_file(file, text, PLAIN, None, paths=True)
    with suppress(SwapError):
        reverted_file(file, text)
    assert time.process_time() - start < 2


def test_brackets_in_strings_and_comments_nest_nothing() -> None:
    steps = '        echo -e "\\e[32mstep\\e[0m"\n        # [[[[\n' * 101
    text = f"on: push\njobs:\n  t:\n    container: python:3.13-slim\n    steps:\n    - run: |\n{steps}"
    swapped = after("ci.yml", text)
    assert PLAIN.reference in swapped
    assert reverted_file("ci.yml", swapped) == text


@pytest.mark.parametrize(("levels", "is_read"), [(200, True), (201, False)])
def test_brackets_are_read_to_a_depth_of_200(levels: int, is_read: bool) -> None:
    inner = levels - 2
    text = f"# {']' * 300}\nservices: {{a: {{image: 'python:3.13', x: {'[' * inner}{']' * inner}}}}}\n"
    with nullcontext() if is_read else pytest.raises(SwapError, match=r"compose\.yaml"):
        assert PLAIN.reference in after("compose.yaml", text)


def test_a_merged_image_is_that_of_the_first_mapping_that_has_one() -> None:
    text = (
        "x-a: &a {tty: true}\nx-b: &b {image: python:3.11}\nx-c: &c {<<: *a, image: python:3.12}\n"
        "services:\n  s: {<<: [*a, *c, *b]}\n"
    )
    assert [one.image for one in lines_to_swap("compose.yaml", text, None)] == ["python:3.12"]


@pytest.mark.parametrize(
    ("name", "is_dockerfile"),
    [("Dockerfile", True), ("build.docker", True), ("x.txt", True), ("Dockerfile.yaml", False), ("d.json", False)],
)
def test_whatever_is_swapped_as_a_dockerfile_is_tried_as_one(name: str, is_dockerfile: bool) -> None:
    assert PlannedFile(Path(name), "", "").is_dockerfile is is_dockerfile


def test_a_link_to_itself_is_no_file_beside_a_dockerfile(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("a")
    assert beside(tmp_path / "Dockerfile")("a") is None


def test_yaml_that_the_parser_gives_up_on_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of comments that meet, as fuzzing found it; the text was one of 41,000 and is not known."""

    def give_up(*_: object) -> None:
        raise NotImplementedError("overlap in comment")

    monkeypatch.setattr("ruamel.yaml.YAML.compose_all", give_up)
    with pytest.raises(SwapError, match=r"compose\.yaml.*\bNotImplementedError\b"):
        yaml_files.read_manifest("given: up\n", "compose.yaml")


@pytest.mark.parametrize(
    "text",
    [
        f"FROM python:3.13.{'9' * 5000}-slim\n",
        f"FROM python:3.13-slim\nCOPY --from={'9' * 5000} /a /b\n",
        f"FROM python:3.13-slim\nRUN pip install uv==0.{'9' * 5000}\n",
        "FROM python:3.13-slim\nCOPY --from=² /a /b\n",
        "FROM python:3.13-slim\nCOPY . .\nRUN pip install .\n",
    ],
)
@pytest.mark.parametrize("sign", [">=", "^"])
def test_a_number_of_5000_digits_is_none(text: str, sign: str) -> None:
    project = f"[project]\nrequires-python = '{sign}3.{'9' * 5000}'\n"
    with suppress(SwapError):
        swapped_file("Dockerfile", text, PLAIN, None, paths=True, beside=lambda _: project)


@pytest.mark.parametrize(
    "read",
    [
        lambda text: swapped_file("Dockerfile", text, PLAIN, None, paths=True),
        lambda text: reverted_file("Dockerfile", text),
        lambda text: lines_to_swap("Dockerfile", text, None),
        lambda text: swapped_lines("Dockerfile", text),
    ],
)
def test_a_dockerfile_of_more_than_is_read_is_refused_whatever_is_asked_of_it(read: Callable[[str], object]) -> None:
    for text in ("FROM python:3.12\n" * 501, "FROM python:3.12\n" + "RUN true\n" * 16_001):
        with pytest.raises(SwapError, match="more than"):
            read(text)


PODS = """\
apiVersion: batch/v1
kind: CronJob
spec:
  jobTemplate:
    spec:
      template:
        spec:
          {}
          initContainers: [{{image: "python:3.13-slim"}}]
          containers:
          - image: python:3.13-slim
"""
AFFINITY = (
    "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
    "[{matchExpressions: [{key: kubernetes.io/arch, operator: %s, values: [amd64, arm64]}]}]}}}"
)


ARGO = """\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
spec:
  templates:
  - nodeSelector: {kubernetes.io/arch: arm64}
    container: {image: "python:3.13-slim"}
"""
FOR_ARM = [
    ("compose.yaml", "services:\n  a:\n    image: python:3.13-slim\n    platform: linux/arm64\n", [3]),
    ("devcontainer.json", '{"image": "python:3.13-slim",\n "runArgs": ["--platform=linux/arm64"]}\n', [1]),
    *(
        ("pod.yml", PODS.format(asked), lines)
        for asked, lines in (
            ("nodeSelector: {kubernetes.io/arch: arm64, disk: ssd}", [9, 11]),
            ("nodeSelector: {kubernetes.io/arch: amd64}", []),
            ("nodeSelector: null", []),
            (AFFINITY % "In", [9, 11]),
            (AFFINITY % "NotIn", []),
            ("affinity: {nodeAffinity: [x]}", []),
        )
    ),
    ("argo.yml", ARGO, [6]),
    ("ci.yml", "on: push\njobs:\n  a:\n    runs-on: ubuntu-24.04-arm\n    container: python:3.13-slim\n", [5]),
    ("ci.yml", "on: push\njobs:\n  a:\n    runs-on: [self-hosted, ARM64]\n    container: python:3.13-slim\n", [5]),
    ("ci.yml", "on: push\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    container: python:3.13-slim\n", []),
    (".gitlab-ci.yml", "a:\n  tags: [saas-linux-small-arm64]\n  image: python:3.13-slim\n  script: [x]\n", [3]),
    (".gitlab-ci.yml", "a:\n  tags: [alarm, docker]\n  image: python:3.13-slim\n  script: [x]\n", []),
]


@pytest.mark.parametrize(("file", "text", "lines"), FOR_ARM)
def test_what_is_meant_for_another_architecture_is_told(file: str, text: str, lines: list[int]) -> None:
    for platforms in (("linux/amd64",), ("linux/amd64", "linux/arm64"), ()):
        to = replace(PLAIN, platforms=platforms)
        assert breaks(file, text, to) == (lines if len(platforms) == 1 else [])


def test_an_image_that_a_variable_chooses_is_told_beside_what_is_swapped() -> None:
    text = "image: python:3.13-slim\nt:\n  image: python:$PY-slim\n  script: [x]\nd:\n  image: $X\n  script: [x]\n"
    assert weighed(".gitlab-ci.yml", text) == [(3, Weight.KNOW)]


BUILD = """\
services:
  a:
    image: python:3.13-slim
  web:
    build:
      context: .
      {}
"""


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ("args: {BASE: 'python:3.12-slim'}", True),
        ("args: [BASE=python:3.12-slim, X=1]", True),
        ("additional_contexts: {base: 'docker-image://python:3.12-slim'}", True),
        ("args: {PYTHON: '3.12', COMMAND: 'python -m x', MODULE: python}", False),
        ("tags: ['python:3.12-slim']", False),
    ],
)
def test_a_build_that_is_given_a_python_image_is_told(field: str, told: bool) -> None:
    assert heavy("compose.yaml", BUILD.format(field)) == ([(7, Weight.MAY_BREAK)] if told else [])


def test_values_of_a_template_are_refused_with_the_line_to_edit() -> None:
    with pytest.raises(SwapError) as refused:
        swapped_file("values.yaml", "x:\n  image: python:3.12\n", PLAIN, None, paths=False)
    assert refused.value.file == "values.yaml:2"


def test_a_pipelines_variable_is_refused_without_a_default_that_gitlab_would_not_read() -> None:
    text = "variables: {PY: '3.12'}\nimage: python:${PY}-slim\ntest:\n  script: [pytest]\n"
    with pytest.raises(SwapError) as refused:
        swapped_file(".gitlab-ci.yml", text, PLAIN, None, paths=False)
    assert refused.value.file == ".gitlab-ci.yml:2"
    assert ":-" not in str(refused.value)


def test_a_dockerfile_in_a_compose_file_is_left_to_a_person() -> None:
    inline = "  a:\n    build:\n      dockerfile_inline: |\n        FROM python:3.12\n"
    text = f"services:\n{inline}  b:\n    image: python:3.12\n"
    result = swapped_file("compose.yaml", text, PLAIN, None, paths=False)
    assert result.text.count(PLAIN.reference) == 1
    assert [one.line for one in result.warnings if "'a' is built: edit" in one.text] == [2]
