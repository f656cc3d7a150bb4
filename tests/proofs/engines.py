"""What Interlock does with an engine, on each engine that is supported: the table of docs/engines.md.

    python -m tests.proofs.engines --engine docker-26 podman-5 --seed FOLDER

Each engine runs in a machine of tests/proofs/door.py, with the packages of the distribution that has it. A step is a
command that a user would type; the table says how it ended. Minutes for each engine.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.proofs import door
from tests.proofs.door import Cell, Engine, Machine

# Docker 29 keeps images so by default.
CONTAINERD = """echo '{"features": {"containerd-snapshotter": true}}' > /etc/docker/daemon.json"""
INSECURE = '[[registry]]\\nlocation = "localhost:5000"\\ninsecure = true\\n'
DOCKER, PODMAN = door.LENT, door.ENGINES["podman"]
ENGINES = {
    "docker-20": ("bookworm", DOCKER),
    "docker-26": ("trixie", DOCKER),
    "docker-26-containerd": (
        "trixie",
        Engine(DOCKER.options, DOCKER.packages, f"mkdir -p /etc/docker; {CONTAINERD}; {DOCKER.prepare}"),
    ),
    "podman-4": ("bookworm", PODMAN),
    "podman-5": ("trixie", PODMAN),
}
# What every machine has beside its engine.
BESIDE = ("docker-registry", "skopeo", "strace")
READY = f"""
printf '{INSECURE}' > /etc/containers/registries.conf.d/local.conf 2> /dev/null
python3 -m venv .nox/matrix 2> /dev/null || exit 1
[ -x .nox/matrix/bin/interlock ] || {{
    .nox/matrix/bin/pip install --quiet --require-hashes --only-binary :all: -r requirements/host.txt
    .nox/matrix/bin/pip install --quiet --no-deps --no-build-isolation -e .
}}
cat > /var/tmp/r.yml <<'END'
version: 0.1
storage: {{filesystem: {{rootdirectory: /var/tmp/registry}}}}
http: {{addr: localhost:5000}}
END
(setsid docker-registry serve /var/tmp/r.yml > /var/tmp/registry.log 2>&1 &)
mkdir -p /var/tmp/service
cat > /var/tmp/service/Dockerfile <<'END'
ARG BASE=localhost/library/python:3.13-slim
FROM ${{BASE}} AS build
RUN --mount=type=cache,target=/var/cache/mine echo kept >> /var/cache/mine/count && cp /var/cache/mine/count /count
FROM localhost/library/python:3.13-slim
COPY --from=build /count /count
CMD ["python3", "-c", "print(open('/count').read())"]
END
"""
NAMED = "localhost/library/python:3.13-slim"
TAG = "localhost/interlock/python:3.13-debian-trixie"
FEW = "debian-3.13,cpython-2.7-nothreads"
# What is asked of each engine; ENGINE is its command.
STEPS = {
    "doctor": "interlock doctor",
    "build, compile": "interlock build debian-3.13 cpython-2.7-nothreads",
    "check": "interlock check debian-3.13",
    "matrix, profile": f"interlock matrix --variants {FEW} --workloads import-loop --quick --rounds 2",
    "trial, cache mount": f"ENGINE tag {TAG} {NAMED} && interlock trial /var/tmp/service --cmd 'python3 -c pass' "
    "--variants debian-3.13 --rounds 2 --no-syscalls",
    "push": "interlock push debian-3.13 --registry localhost:5000/team",
    "pull": f"ENGINE rmi -f {TAG} localhost:5000/team/python:3.13-debian-trixie > /dev/null; "
    "interlock pull debian-3.13 --registry localhost:5000/team",
    "swap, a digest": "printf 'FROM python:3.13-slim\\n' > /var/tmp/Dockerfile && "
    "interlock swap /var/tmp/Dockerfile --to debian-3.13 --write && "
    "grep 'team/python.*@sha256:' /var/tmp/Dockerfile && "
    "interlock swap /var/tmp/Dockerfile --to debian-3.13 --check",
    "a FROM line builds": "cd /var/tmp && ENGINE build --quiet --file Dockerfile service",
}


@dataclass(frozen=True)
class EngineCell(Cell):
    """A machine that has an engine, and a root account."""

    @property
    def before(self) -> Engine:
        engine = ENGINES[self.engine][1]
        return Engine(engine.options, (*engine.packages, *BESIDE, "python3-venv"), engine.prepare)


def steps_of(one: Machine, engine: str, log: Path, limit_s: float) -> dict[str, str]:
    """Run the steps one after the other; return how each ended."""
    command = "podman" if engine.startswith("podman") else "docker"
    ended = {}
    for name, asked in {"": READY, **STEPS}.items():
        line = asked.replace("ENGINE ", f"{command} ")
        script = f"export PATH=$PWD/.nox/matrix/bin:$PATH INTERLOCK_ENGINE={command}\n{line}"
        one.ask(f"cat > /var/tmp/step.sh <<'STEP'\n{script}\nSTEP")
        code, seconds = one.run("sh -e /var/tmp/step.sh" if name else "sh /var/tmp/step.sh", limit_s, log)
        if name:
            ended[name] = f"{'ok' if code == 0 else f'exit {code}'} {seconds:.0f} s"
    version = one.ask(
        f"{command} version --format '{{{{.Server.Version}}}}' 2> /dev/null || {command} --version"
    ).strip()
    return {"version": version.splitlines()[-1], **ended}


def table(found: dict[str, dict[str, str]]) -> str:
    """Return the engines as Markdown, a column for each."""
    rows = [("", *found), *[("---",) * (1 + len(found))]]
    rows += [(name, *(one.get(name, "-") for one in found.values())) for name in ("version", *STEPS)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--commit", default="HEAD", help="what the machines get a clone of")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir(), "engines"), help="of logs")
    parser.add_argument("--seed", type=Path, help="where what pip makes is kept for the next engine")
    parser.add_argument("--docker", action="append", default=[], help="an option of `docker run` for each machine")
    parser.add_argument("--limit", type=float, default=30, help="minutes for each step")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # the machine is removed then too
    options.folder.mkdir(parents=True, exist_ok=True)
    commit = door.said("git", "-C", door.PROJECT, "rev-parse", "--short", options.commit).strip()
    found = {}
    for name in options.engine:
        log = options.folder / f"{name}.{commit}.log"
        log.unlink(missing_ok=True)
        with door.machine(EngineCell(ENGINES[name][0], name, "root", "first"), commit, options) as one:
            found[name] = steps_of(one, name, log, 60 * options.limit)
        print(table(found), flush=True)


if __name__ == "__main__":
    main()
