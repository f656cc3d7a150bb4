"""A real uWSGI is not built where `swap` says that it breaks, and serves with the variant that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.catalog.project import Catalog
from interlock.engine.packages.installer import ImageInstaller
from interlock.results.experiments import PackageSet, State
from interlock.swap.files import swapped_dockerfile
from interlock.swap.image_names import new_image
from tests.integration.images import Images

BREAKS, WORKS = "cpython-3.13", "cpython-3.13-shared"
UWSGI = ["uWSGI==2.0.31"]
# The server with an application in it, asked once.
SERVE = """\
echo 'def application(_, start):
    start("200 OK", [])
    import sysconfig
    return [sysconfig.get_config_var("INSTSONAME").encode()]' > /tmp/app.py
server=$(find "$0" -name uwsgi -type f)
"$server" --http-socket 127.0.0.1:8000 --wsgi-file /tmp/app.py --die-on-term > /tmp/log 2>&1 &
for second in 1 2 3 4 5 6 7 8 9; do
  sleep 1
  python -c 'from urllib.request import urlopen; print(urlopen("http://127.0.0.1:8000").read().decode())' && exit
done 2> /dev/null
cat /tmp/log
"""


def installed(client: Any, catalog: Catalog, root: Path, built: Images, variant: str) -> PackageSet:
    return ImageInstaller(client, catalog, root, lambda *_: None).ensure(built[variant], UWSGI)


@pytest.mark.usefixtures("nothing_left")
def test_uwsgi_serves_with_the_variant_that_swap_names(
    client: Any, catalog: Catalog, root: Path, built: Images
) -> None:
    to = new_image(catalog.variants[BREAKS], "x", catalog.variants.values())
    (said,) = [one for one in swapped_dockerfile(FILE, to, None, paths=False).warnings if "libpython" in one.text]
    assert said.text.endswith(f"use {WORKS}")
    there = installed(client, catalog, root, built, WORKS)
    assert there.outcome.state is State.OK, there.outcome.reason
    output = client.containers.run(
        built[WORKS].image_id,
        ["sh", "-c", SERVE, there.mount_path],
        volumes={there.volume: {"bind": there.mount_path, "mode": "ro"}},
        remove=True,
        network_mode="none",
    )
    assert output.decode().strip() == "libpython3.13.so.1.0"


FILE = "FROM python:3.13-slim\nRUN pip install uwsgi\n"


@pytest.mark.usefixtures("nothing_left")
def test_uwsgi_is_not_built_where_swap_says_that_it_breaks(
    client: Any, catalog: Catalog, root: Path, built: Images
) -> None:
    there = installed(client, catalog, root, built, BREAKS)
    assert there.outcome.state is State.FAILED
