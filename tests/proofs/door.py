"""README's two commands, as they are printed there, on machines that nobody has touched: what became of each, a row.

    python tests/proofs/door.py --list
    python tests/proofs/door.py --root trixie --engine none --account root --order first-second --limit 60
    python tests/proofs/door.py --less ready --seed FOLDER

A machine is a container of a root that mmdebstrap makes, with the mirror and the settings that apt and pip have here.
A row that is in the folder is not made again: a run that was ended goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
TRUSTED = Path("/etc/ssl/certs/ca-certificates.crt")
# By these variables pip and others find the registries from here.
PASSED_ON = re.compile(r"(PIP|UV)_.+|(.*_)?(CERT|CERT_FILE|CA_BUNDLE|SSL_CAINFO)|(?i:(http|https|no)_proxy)")
ADA = "ada"
CAP_SYS_RESOURCE = 24
# These are volumes: what an engine stores elsewhere may be much slower than the disk.
ON_DISK = ("/home", "/root", "/srv", "/tmp", "/usr", "/var")
CLONE, SEED = "/srv/interlock", "/seed"
KEPT = (".venv", ".nox/matrix", ".nox/tests", ".mypy_cache")

SUITES = {"bookworm": "Debian", "trixie": "Debian", "noble": "Ubuntu"}
ORDERS = {"first-second": (0, 1), "second-first": (1, 0), "first": (0,), "second": (1,)}
# What a machine has when its owner gets it, beside what Debian calls essential.
NEW = ["ca-certificates", "git", "procps", "python3"]
# An account, and what an administrator has installed for it: who may not install anything has compilers, or has not.
LIBRARIES = (
    "libbz2-dev",
    "libffi-dev",
    "liblzma-dev",
    "libncurses-dev",
    "libreadline-dev",
    "libsqlite3-dev",
    "uuid-dev",
)
ACCOUNTS = {
    "root": (),
    "sudo": ("sudo",),
    "user": ("build-essential", "curl", "libssl-dev", "openssl", "patch", "pkg-config", "zlib1g-dev", *LIBRARIES),
    "bare": (),
}
# What makes a row one of minutes: what is measured beside the interpreter that the system or its packages bring.
LESS = {"ready": "", "one": "cpython-2.7-nothreads"}
SYSTEMS = {"bookworm": "system-3.11", "trixie": "system-3.13", "noble": "system-3.12"}
FEW_TESTS = (
    *("tests/test_errors.py", "tests/cli/test_machine.py"),
    "tests/test_readme.py::test_the_pick_of_the_readme_answers_what_it_shows",
    *(f"tests/integration/test_{name}.py" for name in ("first_container", "local")),
)


@dataclass(frozen=True)
class Engine:
    """What a machine allows, and what is there before README's commands."""

    options: tuple[str, ...] = ()  # of `docker run`
    packages: tuple[str, ...] = ()
    prepare: str = "true"
    environment: tuple[str, ...] = ()


def may_raise_limits() -> bool:
    """Return whether root here may, as the service of Docker does when it starts."""
    bounding = re.search(r"^CapBnd:\s*(\S+)", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    return bounding is not None and bool(int(bounding[1], 16) >> CAP_SYS_RESOURCE & 1)


def all_rights() -> tuple[str, ...]:
    """Return the options of a container in which an engine can run, also where root here may not raise limits."""
    if may_raise_limits():
        return ("--privileged",)
    unconfined = tuple(f"--security-opt={name}=unconfined" for name in ("seccomp", "apparmor", "systempaths"))
    files = ("--volume=/sys/fs/cgroup:/sys/fs/cgroup", "--device=/dev/fuse", "--device=/dev/net/tun")
    return ("--cap-add=ALL", "--cap-drop=SYS_RESOURCE", *unconfined, *files)


# Podman 5 needs all of it where root may not raise limits (docs/engines.md).
LIMITS = 'default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]'
CONTAINERS_CONF = f'[containers]\\n{LIMITS}\\n[engine]\\nruntime = "runc"\\n'
LISTENS_NOT = "import socket; socket.socket(socket.AF_UNIX).bind('/run/docker.sock')"
ENGINES = {
    "none": Engine(),
    "docker": Engine(all_rights()),
    "podman": Engine(
        all_rights(),
        # The last two where no registry answers, as beside Docker.
        (
            "podman",
            "catatonit",
            "runc",
            "slirp4netns",
            "passt",
            "aardvark-dns",
            "iptables",
            "nftables",
            "mmdebstrap",
            "uidmap",
        ),
        # Devices have the rights of a machine's, not those that the machine below gives them.
        f"chmod 666 /dev/fuse /dev/net/tun; printf '{CONTAINERS_CONF}' > /etc/containers/containers.conf",
    ),
    "dead": Engine(environment=("DOCKER_HOST=tcp://127.0.0.1:9",)),
    "refused": Engine(prepare=f'python3 -c "{LISTENS_NOT}"'),
    "broken-podman": Engine(packages=("podman", "catatonit")),
}
# Who may not bring Docker, or start it as a service, has one that the administrator runs. Debian's service makes
# folders among the control groups of the machine below, and may not go on where it may not raise limits.
STARTS = "service docker start" if may_raise_limits() else "(setsid dockerd > /var/log/dockerd.log 2>&1 &)"
LENT = Engine(
    ENGINES["docker"].options,
    (
        "docker.io",
        "docker-buildx",
        "docker-cli",
        "iptables",
        "mmdebstrap",
        "uidmap",
    ),  # the last two where no registry answers
    f"{STARTS}; usermod -aG docker {ADA}; for _ in $(seq 60); do docker version && break; sleep 1; done",
)


@dataclass(frozen=True)
class Cell:
    """One machine, and which of README's commands it gets in which order."""

    root: str
    engine: str
    account: str
    order: str

    @property
    def name(self) -> str:
        return ".".join((self.root, self.engine, self.account, self.order))

    @property
    def user(self) -> str:
        return "root" if self.account == "root" else ADA

    @property
    def home(self) -> str:
        return "/root" if self.account == "root" else f"/home/{ADA}"

    def shorter(self, lines: list[str], less: str) -> list[str]:
        """Return README's lines with options that leave most out; the first one compiles what `less` names."""
        # An engine has one of the first two, and can compare it with what follows.
        variants = ",".join(filter(None, ("debian-3.13", SYSTEMS[self.root], LESS[less])))
        few = f"--variants {variants} --workloads startup --budget 1m --no-profile"
        return [f"{lines[0]} {few}", f"{lines[1]} -- {' '.join(FEW_TESTS)}"]

    @property
    def before(self) -> Engine:
        lent = self.engine == "docker" and (self.account in {"user", "bare"} or not may_raise_limits())
        return LENT if lent else ENGINES[self.engine]


def said(*command: str | Path) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def commands(commit: str) -> list[str]:
    """Return README's two commands: the blocks that are nothing but a call of bootstrap.sh."""
    text = said("git", "-C", PROJECT, "show", f"{commit}:README.md")
    found = re.findall(r"^```sh\n(sh bootstrap\.sh [^\n]+)\n```$", text, re.MULTILINE)
    if len(found) != 2:
        sys.exit(f"README.md has {len(found)} such blocks, not two: {found}")
    return list(found)


def sources(suite: str) -> list[str]:
    """Return apt's lines for this suite at the mirrors that apt has here; none, if it has none of its distribution."""
    listing = said("apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)", "Created-By: Packages")
    lines: list[str] = []
    for origin, label, uri in (line.split("|") for line in sorted(set(listing.splitlines())) if line.count("|") == 2):
        pockets = ("-security",) if "security" in label.lower() else ("", "-updates")
        if origin == SUITES[suite]:
            lines += [f"deb {uri} {suite}{pocket} main" for pocket in pockets]
    return lines


def image_of(suite: str, folder: Path) -> str:
    """Return the image of a new machine: mmdebstrap makes it, with what this one trusts and by what way it asks."""
    kept = re.compile(r"Acquire::(Check-|Retries|ForceIPv|https?::)")
    asks = "".join(f"{line}\n" for line in said("apt-config", "dump").splitlines() if kept.match(line))
    name = f"interlock-door:{suite}-{hashlib.sha256(asks.encode()).hexdigest()[:12]}"
    if said("docker", "images", "--quiet", name):
        return name
    apt, tar = folder / "00asks", folder / f"{suite}.tar"
    apt.write_text(asks, encoding="utf-8")
    files = {apt: f"/etc/apt/apt.conf.d/{apt.name}", TRUSTED: "/usr/local/share/ca-certificates/host.crt"}
    files |= {file: str(file) for file in (Path("/etc/pip.conf"),) if file.is_file()}
    hooks = [f"upload {here} {there}" for here, there in files.items()]
    hooks += ['chroot "$1" update-ca-certificates', f'chroot "$1" useradd --create-home --shell /bin/bash {ADA}']
    command = ["mmdebstrap", "--variant=minbase", f"--include={','.join(NEW)}"]
    command += [*(f"--customize-hook={hook}" for hook in hooks), suite, str(tar)]
    said(*command, *sources(suite))
    said("docker", "import", tar, name)
    tar.unlink()
    apt.unlink()
    return name


class Machine:
    """A container that waits; what is asked of it runs as root, or as the account in its clone."""

    def __init__(self, container: str, cell: Cell) -> None:
        self.container, self.cell = container, cell

    def ask(self, script: str) -> str:
        return said("docker", "exec", self.container, "sh", "-c", script)

    def as_account(self, script: str) -> list[str]:
        """Return the command that runs this in the clone, with what the account's environment has."""
        options = [f"--user={self.cell.user}", f"--workdir={CLONE}", f"--env=HOME={self.cell.home}"]
        options += [f"--env={one}" for one in self.cell.before.environment]
        for name, value in os.environ.items():
            if PASSED_ON.fullmatch(name) and (not value.startswith("/") or value == str(TRUSTED)):
                options.append(f"--env={name}={value}")
        return ["docker", "exec", *options, self.container, "sh", "-c", script]

    def copy(self, source: str, target: str) -> None:
        """Copy what nox and mypy make and find again, where they are and are not there yet."""
        for name in KEPT:
            here, there = f"{source}/{name}", f"{target}/{name}"
            made = f"mkdir -p $(dirname {there}) && cp -a {here} {there}.part && mv {there}.part {there}"
            self.ask(f"if [ -e {here} ] && ! [ -e {there} ]; then rm -rf {there}.part; {made}; fi")

    def run(self, line: str, limit_s: float, log: Path) -> tuple[int, float]:
        """Run one of README's lines with the time before all that it says; return its exit code and its seconds."""
        command = self.as_account(f"exec timeout --kill-after=60 {limit_s:.0f} {line} < /dev/null 2>&1")
        start = time.monotonic()
        with (
            log.open("a", encoding="utf-8") as file,
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process,
        ):
            file.write(f"$ {line}\n")
            for text in process.stdout or ():
                minutes, seconds = divmod(int(time.monotonic() - start), 60)
                print(f"{minutes:3}:{seconds:02} {text.rstrip()}", file=file, flush=True)
        return process.returncode, time.monotonic() - start

    def packages(self) -> dict[str, int]:
        """Return the installed packages, each with its size in kB."""
        listing = self.ask("dpkg-query -W -f '${db:Status-Status} ${Package} ${Installed-Size}\\n'")
        rows = (line.split() for line in listing.splitlines() if line.startswith("installed "))
        return {name: int(*size) if size else 0 for _, name, *size in rows}

    def starts(self) -> set[str]:
        """Return what starts at a boot: links of systemd's, and of System V's."""
        return set(self.ask("find /etc/systemd/*/*.wants /etc/rc[S2-5].d -type l 2> /dev/null; true").split())

    def listeners(self) -> set[str]:
        """Return at which addresses somebody listens, as the kernel writes them."""
        return set(self.ask("awk '$4 == \"0A\" {print $2}' /proc/net/tcp /proc/net/tcp6").split())


@contextmanager
def machine(cell: Cell, commit: str, options: argparse.Namespace) -> Iterator[Machine]:
    """Start a machine and put a clone into it that is the account's; the machine is removed at the end."""
    container = f"door.{cell.name}"
    given = [f"--name={container}", f"--hostname={cell.root}", *(f"--volume={folder}" for folder in ON_DISK)]
    given += [*cell.before.options, *options.docker]
    if options.seed:
        seed = options.seed / cell.root
        seed.mkdir(parents=True, exist_ok=True)
        given.append(f"--volume={seed.resolve()}:{SEED}")
    # A shell takes in what has lost its parent, and is no init.
    waits = ["bash", "-c", "sleep infinity & wait"]
    try:
        said("docker", "run", "--detach", *given, image_of(cell.root, options.folder), *waits)
        one = Machine(container, cell)
        prepare(one, [*ACCOUNTS[cell.account], *cell.before.packages])
        with tempfile.TemporaryDirectory() as parent:
            clone = Path(parent, "interlock")
            said("git", "clone", "--quiet", "--no-checkout", PROJECT, clone)
            said("git", "-C", clone, "checkout", "--quiet", "--detach", commit)
            said("docker", "cp", clone, f"{container}:{CLONE}")
        if options.seed:
            one.copy(SEED, CLONE)
        one.ask(f"chown -R {cell.user}: {CLONE} {cell.home}")
        yield one
        if options.seed:
            one.copy(CLONE, SEED)
    finally:
        subprocess.run(["docker", "rm", "--force", "--volumes", container], check=False, stdout=subprocess.DEVNULL)


def prepare(one: Machine, packages: list[str]) -> None:
    """Do what an administrator has done before."""
    if packages:
        # What is a package of its own in one distribution is a part of another package elsewhere.
        known = f"for name in {' '.join(packages)}; do ! apt-cache show $name > /dev/null 2>&1 || echo $name; done"
        install = "xargs env DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends"
        one.ask(f"apt-get update -qq && {known} | {install} > /dev/null 2>&1")
    if "sudo" in packages:
        one.ask(f"echo '{ADA} ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/{ADA}")
    one.ask(f"({one.cell.before.prepare}) > /dev/null 2>&1")


def row_of(one: Machine, lines: list[str], limit_s: float, log: Path) -> dict[str, Any]:
    """Run the commands in their order; return what became of each, and what starts and listens since."""
    log.unlink(missing_ok=True)
    packages, starts, listeners = one.packages(), one.starts(), one.listeners()
    ran: list[dict[str, Any]] = []
    for which in ORDERS[one.cell.order]:
        code, seconds = one.run(lines[which], limit_s, log)
        new = {name: size for name, size in one.packages().items() if name not in packages}
        packages |= new
        sizes = {"packages": sorted(new), "mb": round(sum(new.values()) / 1024)}
        found = tested(log) if which else measured(one, log)
        ran.append({"line": lines[which], "exit": code, "minutes": round(seconds / 60, 1), **sizes, **found})
    return {"ran": ran, "enabled": sorted(one.starts() - starts), "listens": sorted(one.listeners() - listeners)}


def measured(one: Machine, log: Path) -> dict[str, Any]:
    """Return the experiment's engine and its rows measured and decided; `said` is what was said of the engine."""
    known = {"said": first(r"no container engine.*|.*without containers.*", log)}
    newest = 'one=$(ls -t results/*/experiment.json | head -1) && [ "$one" ] &&'
    try:
        asking = one.as_account(f'{newest} .nox/matrix/bin/interlock report "${{one%/*}}" --json')
        report = json.loads(said(*asking))
    except (subprocess.CalledProcessError, json.JSONDecodeError):
        return known
    verdicts = [row["to_baseline"]["verdict"] for row in report["rows"] if row["to_baseline"]]
    decided = sum(verdict != "undecided" for verdict in verdicts)
    ok = sum(row["state"] == "ok" for row in report["rows"])
    return known | {"used": report["host"]["engine"]["name"], "decided": decided, "rows": len(verdicts), "ok": ok}


def tested(log: Path) -> dict[str, Any]:
    """Return pytest's last line, and the line that says what was left out for want of an engine."""
    return {"said": first(r"=+ .*(?:passed|failed|error).* in .* =+", log)}


def first(pattern: str, log: Path) -> str:
    found = re.search(rf"^ *\d+:\d\d ({pattern})$", log.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1].strip(" =") if found else ""


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as Markdown, a line for each command."""
    head = ("machine", "commit", "command", "exit", "minutes", "packages, MB", "measured, decided", "what was said")
    lines: list[tuple[object, ...]] = [head, ("---",) * len(head)]
    for row in rows:
        for one in row["ran"]:
            judged = f"{one['ok']}, {one['decided']} of {one['rows']} ({one['used']})" if "rows" in one else ""
            installed = f"{len(one['packages'])}, {one['mb']}"
            named = (row["cell"], row["commit"], f"`{one['line']}`")
            lines.append((*named, one["exit"], one["minutes"], installed, judged, one["said"]))
        since = ", ".join(row["enabled"] + row["listens"])
        lines.append((row["cell"], row["commit"], "starts and listens since", *[""] * 4, since or "nothing"))
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = {"root": list(SUITES), "engine": ["none", "docker", "podman"], "account": ["root", "sudo", "user"]}
    usual["order"] = ["first-second", "second-first"]
    for name, choices in (("root", SUITES), ("engine", ENGINES), ("account", ACCOUNTS), ("order", ORDERS)):
        parser.add_argument(f"--{name}", nargs="+", choices=choices, default=usual[name])
    parser.add_argument("--commit", default="HEAD", help="what the machines get a clone of")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir(), "door"), help="of rows and logs")
    parser.add_argument("--limit", type=float, default=60, help="minutes for each command")
    less = "minutes for a row: a few tests, one workload, what is ready to be measured, or one more that is compiled"
    parser.add_argument("--less", choices=LESS, help=less)
    parser.add_argument("--seed", type=Path, help="where what nox and mypy make is kept for the next rows")
    parser.add_argument("--docker", action="append", default=[], help="an option of `docker run` for each machine")
    parser.add_argument("--again", action="store_true", help="make rows anew that are there")
    parser.add_argument("--list", action="store_true", help="say which rows there are, and make none")
    return parser.parse_args()


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # the machine is removed then too
    options = asked()
    cells = [Cell(*one) for one in product(options.root, options.engine, options.account, options.order)]
    options.folder.mkdir(parents=True, exist_ok=True)
    commit = said("git", "-C", PROJECT, "rev-parse", "--short", options.commit).strip()
    lines = commands(commit)
    kind = ".".join([commit, *filter(None, (options.less,)), *["seeded"] * bool(options.seed)])
    for cell in cells:
        file = options.folder / f"{cell.name}.{kind}.json"
        if not sources(cell.root):
            print(f"{cell.name}: apt has no mirror of {SUITES[cell.root]} here")
        elif options.list or (file.is_file() and not options.again):
            print(f"{cell.name}: {'is there' if file.is_file() else 'is not there'}")
        else:
            with machine(cell, commit, options) as one:
                mine = cell.shorter(lines, options.less) if options.less else lines
                row = row_of(one, mine, 60 * options.limit, file.with_suffix(".log"))
            started = {"at": f"{datetime.now(UTC):%Y-%m-%d %H:%M}", "commit": commit, "cell": cell.name}
            file.write_text(json.dumps(started | row, indent=1), encoding="utf-8")
            print(table([started | row]), flush=True)
    rows = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(options.folder.glob("*.json"))]
    (options.folder / "door.md").write_text(table(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
