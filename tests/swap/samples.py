"""Images to swap in, and texts to swap them into."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import strategies as st

from interlock.swap.caveats import Weight
from interlock.swap.files import swapped_file
from interlock.swap.image_names import NewImage

CORPUS = Path(__file__).parents[1] / "corpus"
DIGEST = f"sha256:{'a' * 64}"

FREE = NewImage(
    reference=f"localhost/interlock/python:3.14t-trixie@{DIGEST}",
    variant="cpython-3.14t",
    python="3.14t",
    implementation="python",
    suite="trixie",
    unoptimised=False,
    differences={},
    free_threaded=True,
)
PLAIN = replace(
    FREE,
    reference=f"registry.example.com:5000/interlock/python:3.13-trixie@{DIGEST}",
    variant="cpython-3.13",
    python="3.13",
    free_threaded=False,
)
PYPY = replace(
    PLAIN,
    reference="localhost/interlock/python:3.11-pypy-trixie",
    variant="pypy-3.11",
    python="3.11",
    implementation="pypy",
    differences={"pip": "PyPy has no pip until `python -m ensurepip` is run"},
)

# Lines that have broken parsers of Dockerfiles, this one among them.
ODD_LINES = [
    "FROM python:3.12-slim",
    "from  python:3.12 AS build",
    "FROM --platform=$BUILDPLATFORM python:3.12 as x",
    "FROM $X",
    "FROM ${X:-python:3.12}",
    "FROM 'python:3.12'",
    'FROM --platform="a b" python:3.12',
    "FROM \\",
    "FROM build",
    "python:3.12",
    "AS z",
    "ARG X=python:3.12",
    "ARG Y='python:3.12' X=\"python:3.12\" Z",
    "ARG",
    "# escape=`",
    "# escape=\\",
    "# syntax=docker/dockerfile:1",
    "# other=directive",
    "#comment",
    "  # indented \\",
    "",
    "   ",
    "RUN a \\",
    "RUN a \\ \t",
    "RUN a `",
    "  python3.12 && \\",
    "\\",
    "`",
    "c \\\\",
    "RUN <<EOF",
    "RUN <<-'EOF' cat",
    "RUN <<E\\OF",
    "RUN <<EOF<<x",
    "RUN 3<<EOF",
    "RUN echo a<<EOF",
    'RUN echo "a <<EOF',
    "RUN cat <<EOF > '/a b'",
    "EOF",
    "\tEOF",
    'COPY <<a <<"b" /lib/python3.12/',
    "a",
    "b",
    "ONBUILD RUN <<EOF",
    'RUN ["a", "<<EOF"]',
    'RUN ["a", <<EOF',
    "RUN --mount=type=bind,from=build,source=/lib/python3.12,target=/x cat <<EOF",
    "COPY --from=build /lib/python3.12 /usr/local/lib/python3.12/",
    'COPY --from=0 ["/python3.12/a-cp312-cp312-x.whl", "/b"]',
    "\u00a0FROM x",
    "\x0bFROM x",
    "\tRUN x python3.12 python${V}",
    "ENV V=3.12 W=python3.12",
    "CMD ['x']",
]
ALPHABET = "FROMARG <\\`#'\"[]$={}-:,/ae3.12pythoncp\t"
_line = st.one_of(
    st.sampled_from(ODD_LINES), st.sampled_from(ODD_LINES), st.text(alphabet=ALPHABET, max_size=16), st.text(max_size=6)
)
_ended = st.tuples(_line, st.sampled_from(["\n", "\n", "\n", "\r\n"])).map("".join)


def _assembled(parts: tuple[str, list[str], bool]) -> str:
    start, lines, cut = parts
    text = "".join(lines)
    return start + (text.rstrip("\r\n") if cut else text)


def _with_python(parts: tuple[list[str], list[str]]) -> list[str]:
    before, behind = parts
    return [*before, "FROM python:3.12\n", *behind]


def _texts(lines: st.SearchStrategy[list[str]]) -> st.SearchStrategy[str]:
    """Without comments of a swap, which mean something, and without what no file of a builder's may have."""
    texts = st.tuples(st.sampled_from(["", "", "\ufeff"]), lines, st.booleans()).map(_assembled)
    return texts.filter(lambda text: "interlock:" not in text and "\0" not in text)


# Texts that are nearly Dockerfiles; the second ones have a Python stage, unless something above it swallows it.
dockerfiles = _texts(st.lists(_ended, max_size=14))
python_dockerfiles = _texts(st.tuples(st.lists(_ended, max_size=4), st.lists(_ended, max_size=10)).map(_with_python))


def corpus(pattern: str) -> list[Path]:
    return sorted(CORPUS.glob(pattern))


def text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


def weighed(file: str, text: str, to: NewImage = PLAIN) -> list[tuple[int, Weight]]:
    """The line and the weight of each warning of a swap."""
    return [(one.line, one.weight) for one in swapped_file(file, text, to, None, paths=False).warnings]


def heavy(file: str, text: str, to: NewImage = PLAIN) -> list[tuple[int, Weight]]:
    """The same without what is to know."""
    return [told for told in weighed(file, text, to) if told[1] is not Weight.KNOW]


def breaks(file: str, text: str, to: NewImage = PLAIN) -> list[int]:
    """The lines that break."""
    return [line for line, weight in weighed(file, text, to) if weight is Weight.BREAKS]
