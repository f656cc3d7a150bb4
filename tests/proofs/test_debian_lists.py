"""The tables of Debian and of the official image, against apt in the base and against an image of ours."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from interlock.catalog.project import load
from interlock.engine.build.base import debian_mirrors, local_tag
from interlock.swap.debian import table
from tests.builders import ROOT

# Of people's files; and of the others so many, by chance.
NAMED = ["libgl1-mesa-glx", "libaio1", "libicu72", "netcat", "mime-support", "wkhtmltopdf", "openjdk-17-jre-headless"]
MANY = 60
JUDGE = """
echo "deb $MIRROR trixie main" > /etc/apt/sources.list && apt-get update -qq
for name in $GONE; do apt-get install -s -qq "$name" > /dev/null 2>&1 && echo "installs $name"; done
for name in $THERE; do apt-get install -s -qq "$name" > /dev/null 2>&1 || echo "fails $name"; done
echo judged
"""


def test_apt_agrees_about_what_is_gone_and_what_is_in_its_place(tmp_path: Path) -> None:
    gone = [*NAMED, *random.Random(1).sample(sorted(table().gone), MANY)]
    there = {name for old in gone for name in table().gone[old]}
    settings = tmp_path / "settings"
    lines = [f"MIRROR={debian_mirrors()[0]}", f"GONE={' '.join(gone)}", f"THERE={' '.join(sorted(there))}"]
    settings.write_text("\n".join(lines), encoding="utf-8")
    command = ["docker", "run", "--rm", "--interactive", "--network=host", f"--env-file={settings}"]
    base = local_tag(load(ROOT).bases["trixie"])
    done = subprocess.run([*command, base, "bash"], input=JUDGE, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["judged", ""]


def test_an_image_has_what_the_official_slim_image_has() -> None:
    image = load(ROOT).variants["cpython-3.14t"].image_tag
    listing = ["docker", "run", "--rm", image, "dpkg-query", "-W", "-f", "${Package}\\n"]
    ours = set(subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split())
    assert table().slim - ours == set()
    assert ours - table().slim == {"libexpat1"}
