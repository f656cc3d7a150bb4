"""Images that are not python:X: whether a variant's programs start there, and what to do in place of a swap."""

from __future__ import annotations

import re
from collections.abc import Mapping

from interlock.swap.image_names import SUITES, ImageName

# The minor version of the GNU C library (2.X) in the Debian releases of variants, and in other systems.
LIBC = {"bookworm": 36, "trixie": 41}
RED_HAT = {"7": 17, "8": 28, "9": 34, "10": 39}
UBUNTU = {"bionic": 27, "focal": 31, "jammy": 35, "noble": 39}
LIBC_OF: tuple[tuple[re.Pattern[str], Mapping[str, int]], ...] = (
    (re.compile(r"(?:ubi|centos|rocky|rockylinux|almalinux|oraclelinux|stream)[:/-]?(\d+)"), RED_HAT),
    (re.compile(r"amazonlinux:(\d+)"), {"2": 26, "2023": 34}),
    (re.compile(r"fedora:(\d+)"), {"39": 38, "40": 39, "41": 40}),
    (re.compile(r"ubuntu-?:?(\d\d)\.?04"), {"18": 27, "20": 31, "22": 35, "23": 37, "24": 39}),
    (re.compile(r"ubuntu-?:?(\d\d)\.?10"), {"22": 36, "23": 38, "24": 40}),
    (re.compile(r"(?:ubuntu|playwright).*\b(bionic|focal|jammy|noble)"), UBUNTU),
    (re.compile(r"debian-?:?(\d\d)\b"), {"10": 28, "11": 31, "12": 36}),
)
# What to do about images that no variant's can replace, by their names.
KNOWN_BASES = (
    (
        re.compile(r"(?:^|/)playwright"),
        "A variant's image has no browsers: start from python:X-slim, swap that, and add "
        "`RUN pip install playwright && playwright install --with-deps`.",
    ),
    (
        re.compile(r"(?:^|/)(?:nvidia|pytorch|tensorflow|vllm|rapidsai)/"),
        "A variant's image is Debian without CUDA: start from python:X-slim, with CUDA's libraries as packages of pip "
        "(torch brings them), and swap that.",
    ),
    (
        re.compile(r"(?:^|/)(?:ubi\d|ubi-|centos|rocky|rockylinux|almalinux|oraclelinux|amazonlinux|fedora)"),
        "A variant's image is Debian: start from python:X-slim, with packages of apt-get in place of dnf's, "
        "and swap that.",
    ),
)


def has_older_libraries(name: ImageName, suite: str) -> bool:
    """Return whether an image's name shows a system older than a Debian release, or musl: its programs do not start."""
    parts = name.tag.split("-")
    if name.repository.endswith("alpine") or parts[-1].startswith("alpine"):
        return True
    own = LIBC.get(suite, 0)
    for system, versions in LIBC_OF:
        if version := system.search(f"{name.repository}:{name.tag}"):
            return versions.get(version[1], own) < own
    before = SUITES[: SUITES.index(suite)] if suite in SUITES else ()
    return any(part in before for part in parts)


def older_libraries(image: ImageName, suite: str) -> str | None:
    """Return what to do about an image that does not start a release's programs; None for one that does."""
    todo = instead(image).strip(" .") or f"start from debian:{suite}-slim"
    return f"{todo[:1].lower()}{todo[1:]}" if has_older_libraries(image, suite) else None


def instead(name: ImageName) -> str:
    """Return what to do about an image that is known, with a blank behind it; empty for any other."""
    return next((f"{todo} " for base, todo in KNOWN_BASES if base.search(name.repository)), "")
