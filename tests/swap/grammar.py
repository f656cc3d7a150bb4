"""Dockerfiles by BuildKit's grammar: each is one that a builder takes, in every way of writing that it admits."""

from __future__ import annotations

from hypothesis import strategies as st

IMAGES = [
    "python:3.12-slim",
    "python:3.12",
    "docker.io/library/python:3.12-slim-bookworm",
    "ghcr.io/astral-sh/uv:python3.12-bookworm-slim",
    "python:$V-slim",
    "python:${V}",
    "${R:-python}:3.12",
    "$IMAGE",
    "${IMAGE}",
    "${IMAGE%-*}",
    '"python:3.12-slim"',
]
OTHERS = ["debian:trixie-slim", "scratch", "gcr.io/distroless/python3-debian12", "node:22"]
BODIES = [
    "RUN pip install x",
    "RUN python3.12 -V &&{next}ls /usr/local/lib/python3.12/site-packages",
    "RUN <<EOF\npython3.12 -V\nFROM python:3.12\n# interlock\nEOF",
    "RUN <<-'E' cat\n\tlib/python$V\n\tE",
    'COPY <<a <<"b" /lib/python3.12/\nFROM a\na\nb',
    "COPY --from=s0 /usr/local/lib/python3.12 /usr/local/lib/python3.12/",
    'COPY --from=s0 ["/opt/lib/python3.12/a b", "/opt/lib/python3.12/"]',
    "RUN --mount=type=bind,from=s0,source=/lib/python${V},target=/x{next}true",
    "ARG V",
    "ARG V=3.12 W='a b' X",
    'ENV A=/lib/python${V}/x B="python3.12 c"',
    "ENV OLD /lib/python3.12",
    'CMD ["python3.12", "-m", "x"]',
    "ENTRYPOINT exec python3.12 -m x",
    "HEALTHCHECK --interval=3s CMD python3.12 -V",
    "ONBUILD RUN python3.12 -V",
    'LABEL a="python3.12"{next}b=c',
    "WORKDIR /app",
    "RUN echo '\\n' \"#\" # not a comment",
]
HEADS = [
    "ARG V=3.12",
    "ARG IMAGE=python:3{cut}.12-slim",
    "ARG IMAGE='python:3.12{cut}' V=3.{cut}12",
    "ARG R",
    "# a comment",
    "",
]


@st.composite
def grammatical(draw: st.DrawFn) -> str:
    """A Dockerfile with directives, ARGs, one to four stages and their bodies."""
    escape = draw(st.sampled_from(["\\", "`"]))
    lines = draw(st.lists(st.just("# syntax=docker/dockerfile:1"), max_size=1))
    lines += [f"#  escape = {escape}"] if escape == "`" or draw(st.booleans()) else []
    # The last one: the parser in the package `dockerfile` is older than this directive.
    lines += draw(st.lists(st.just("#check=skip=all"), max_size=1))
    cuts = st.sampled_from(["", f"{escape}\n", f"{escape} \n# between\n\n"])
    lines += [head.replace("{cut}", draw(cuts)) for head in draw(st.lists(st.sampled_from(HEADS), max_size=3))]
    blank = st.sampled_from([" ", " ", "\t", "  "])
    follow = [f"{escape}\n  ", f"{escape} \t\n# between\n    ", f"{escape}\n\n\t"]
    for number in range(draw(st.integers(1, 4))):
        image = draw(st.sampled_from(IMAGES if not number else [*IMAGES, *OTHERS, "s0"]))
        words = [draw(st.sampled_from(["FROM", "FROM", "from", "From"])), image]
        if draw(st.booleans()):
            words.insert(1, draw(st.sampled_from(["--platform=$BUILDPLATFORM", "--platform=linux/amd64"])))
        words += [draw(st.sampled_from(["AS", "as"])), f"s{number}"]
        joins = [draw(st.one_of(blank, st.sampled_from(follow))) for _ in words[1:]]
        text = draw(st.sampled_from(["", "", " ", "\t"])) + words[0]
        lines.append(text + "".join(join + word for join, word in zip(joins, words[1:], strict=True)))
        for body in draw(st.lists(st.sampled_from(BODIES), max_size=4)):
            lines.append(body.replace("{next}", draw(st.sampled_from([" ", *follow]))))
            lines += draw(st.lists(st.sampled_from(["", "# said", "  # indented"]), max_size=1))
    text = "\n".join(lines) + draw(st.sampled_from(["\n", "", "\n\n"]))
    text = text.replace("\n", "\r\n") if draw(st.booleans()) else text
    return draw(st.sampled_from(["", "", "\ufeff"])) + text
