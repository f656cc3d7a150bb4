"""Run a fleet's plan: a thread for each host at work, a playbook for each step, fleet.json after each step."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock.errors import InterlockError
from interlock.fleet import ansible, dispatch
from interlock.fleet.ansible import Call, Inventory, PlaybookResult
from interlock.fleet.dispatch import Dispatch, Job, Step
from interlock.fleet.record import Attempt, Ending, FleetRecord, HostRecord, Shard, read_facts, write_record

# `timeout` ends a step on the host; this much later it is ended from here.
GRACE_S = 180
RESTORE_S = 600
KBIT_PER_MB = 8000


@dataclass(frozen=True)
class Limits:
    """How many hosts are at work at once, how long a step may take, and how fast files are sent to a host."""

    forks: int
    deadline_s: float
    megabytes_per_s: float | None = None

    @property
    def variables(self) -> dict[str, str]:
        """Return Ansible's variables that limit sftp and scp."""
        if self.megabytes_per_s is None:
            return {}
        limit = f"-l {round(self.megabytes_per_s * KBIT_PER_MB)}"
        return {"ansible_sftp_extra_args": limit, "ansible_scp_extra_args": limit}


@dataclass(frozen=True)
class RunSettings:
    """What a run needs besides its record: places, inventory, limits, variables and callbacks."""

    root: Path
    folder: Path
    inventory: Inventory
    limits: Limits
    variables: Mapping[str, Any]  # of every playbook
    options_of: Callable[[str], list[str]]  # of `interlock matrix`, for one workload
    take_in: Callable[[Path, str, str], None]  # a fetched archive, its host and its workload
    print_line: Callable[[str], None]


@dataclass
class FleetRun:
    """One execution of a fleet: its settings, its record as it grows, and an event that ends it."""

    settings: RunSettings
    record: FleetRecord
    stop: threading.Event = field(default_factory=threading.Event)
    clock_s: float = field(default_factory=time.monotonic)

    def examine_hosts(self) -> None:
        """Read the facts of every host, and record which hosts are refused or do not answer."""
        with ThreadPoolExecutor(self.settings.limits.forks) as pool:
            found = list(pool.map(self._facts, self.record.hosts))
        hosts = dict(zip(self.record.hosts, found, strict=True))
        self._save(hosts=hosts)
        for name, host in hosts.items():
            if host.refused or host.given_up:
                self.settings.print_line(f"host    {name} left out: {host.refused or host.given_up}")

    def _facts(self, name: str) -> HostRecord:
        described = self.record.hosts[name].model_copy(update={"refused": "", "given_up": ""})
        file = self.settings.folder / f"{name}.facts.json"
        played = self._play(name, "facts", {"host_facts_file": str(file)})
        if played.ending is not Ending.DONE:
            return described.model_copy(update={"given_up": played.reason})
        try:
            facts = read_facts(file)
        except InterlockError as error:
            return described.model_copy(update={"given_up": str(error)})
        return described.model_copy(update={"facts": facts, "refused": dispatch.kind_mismatch(described.kind, facts)})

    def plan(self) -> dispatch.Plan:
        """Share what is still to be measured among the hosts that take part."""
        return dispatch.assign((shard for shard in self.record.shards if not shard.done_by), self.kinds)

    def unplanned(self) -> list[Shard]:
        """Return what is still to be measured and has no host of its kind."""
        planned = {shard.title for shards in self.plan().values() for shard in shards}
        return [shard for shard in self.record.shards if not shard.done_by and shard.title not in planned]

    @property
    def kinds(self) -> dict[str, str]:
        """Return the hosts that take part, with their kinds."""
        return {
            name: host.kind.name
            for name, host in self.record.hosts.items()
            if name in self.settings.inventory.kinds and not host.refused and not host.given_up
        }

    def carry_out(self) -> None:
        """Run jobs until every workload is measured or given up and every host is restored."""
        dirty = [name for name, host in self.record.hosts.items() if host.not_restored]
        dispatch = Dispatch.of(self.kinds, self.plan(), dirty)
        running: dict[Future[PlaybookResult], tuple[Job, str, float]] = {}
        with ThreadPoolExecutor(self.settings.limits.forks) as pool:
            try:
                while self._start_jobs(pool, dispatch, running):
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        job, started, clock_s = running.pop(future)
                        ending = self._ended(job, future.result(), started, time.monotonic() - clock_s)
                        dispatch.ended(job, ending)
            except BaseException:
                self.stop.set()
                wait(running)
                self.stop.clear()
                self._restore_all(pool, dispatch.touched)
                raise

    def _restore_all(self, pool: ThreadPoolExecutor, names: list[str]) -> None:
        """Restore hosts after an interruption, and record those that could not be, for --resume."""
        for name, played in zip(names, pool.map(self._restore, names), strict=True):
            self._record_host(name, "not_restored", played.reason)

    def _start_jobs(
        self,
        pool: ThreadPoolExecutor,
        dispatch: Dispatch,
        running: dict[Future[PlaybookResult], tuple[Job, str, float]],
    ) -> bool:
        """Start the jobs that can start; return whether any job is running."""
        while len(running) < self.settings.limits.forks and (job := dispatch.next()) is not None:
            self.settings.print_line(f"fleet   {_title(job)}")
            started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            running[pool.submit(self._work, job)] = (job, started, time.monotonic())
        return bool(running)

    def _work(self, job: Job) -> PlaybookResult:
        if job.shard is None:
            return self._restore(job.host) if job.step is Step.RESTORE else self._play(job.host, "ready", {})
        deadline_s = self.settings.limits.deadline_s
        fetched = self._fetched(job.host, job.shard)
        fetched.unlink(missing_ok=True)
        variables = {
            "experiment_name": f"{self._prefix(job.host)}{job.shard.workload}",
            "experiment_options": self.settings.options_of(job.shard.workload),
            "experiment_deadline_s": round(deadline_s),
            "experiment_fetched": str(fetched),
        }
        return self._play(job.host, "measure", variables, deadline_s + GRACE_S)

    def _restore(self, host: str) -> PlaybookResult:
        return self._play(host, "restore", {}, RESTORE_S)

    def _prefix(self, host: str) -> str:
        """Return the prefix of the names of this fleet's experiments on a host."""
        return f"{self.record.name}-{self.record.token}.{host}."

    def _fetched(self, host: str, shard: Shard) -> Path:
        return self.settings.folder / f"{host}.{shard.workload}.tar.gz"

    def _play(
        self, host: str, tag: str, variables: Mapping[str, Any], deadline_s: float | None = None
    ) -> PlaybookResult:
        settings = self.settings
        more = {"experiment_fleet": self._prefix(host), **settings.limits.variables, **variables}
        call = Call(
            root=settings.root,
            inventory=str(settings.inventory.path),
            host=host,
            playbook="matrix.yml",
            tag=tag,
            variables={**settings.variables, **more},
            log=settings.folder / f"{host}.log",
            deadline_s=deadline_s or settings.limits.deadline_s,
        )
        try:
            return ansible.play(call, self.stop)
        except (InterlockError, OSError) as error:
            return PlaybookResult(Ending.LOST, f"its playbook cannot be run ({error})")

    def _ended(self, job: Job, played: PlaybookResult, started: str, duration_s: float) -> Ending:
        """Take in what was measured, and record how the job ended."""
        ending, reason = played.ending, played.reason
        if job.shard is not None:
            ending, reason = self._taken_in(job.host, job.shard, played)
            spent_s = round(duration_s, 1)
            attempt = Attempt(host=job.host, started=started, duration_s=spent_s, ending=ending, reason=reason)
            self._save(shards=[_tried(one, attempt, job.shard) for one in self.record.shards])
        if job.step is Step.RESTORE:
            self._record_host(job.host, "not_restored", reason)
        elif job.step is Step.READY or ending is Ending.LOST:
            self._record_host(job.host, "given_up", reason)
        self.settings.print_line(f"fleet   {_title(job)}: {' '.join(part for part in (ending.value, reason) if part)}")
        return ending

    def _record_host(self, name: str, key: str, reason: str) -> None:
        described = self.record.hosts[name].model_copy(update={key: reason})
        self._save(hosts={**self.record.hosts, name: described})

    def _taken_in(self, host: str, shard: Shard, played: PlaybookResult) -> tuple[Ending, str]:
        """Take in what a host measured, even if a cell failed; return how the attempt ended and why."""
        archive = self._fetched(host, shard)
        if not archive.is_file():
            return (Ending.FAILED if played.ending is Ending.DONE else played.ending), played.reason
        try:
            self.settings.take_in(archive, host, shard.workload)
        except InterlockError as error:
            return Ending.FAILED, str(error)
        except Exception as error:
            return Ending.FAILED, f"its results cannot be read ({type(error).__name__}: {error})"
        finally:
            archive.unlink(missing_ok=True)
        return Ending.DONE, played.reason

    def _save(self, **changes: Any) -> None:
        spent_s = round(time.monotonic() - self.clock_s, 1)
        self.record = self.record.model_copy(update={**changes, "duration_s": spent_s})
        write_record(self.settings.folder, self.record)


def _tried(shard: Shard, attempt: Attempt, what: Shard) -> Shard:
    """Return the shard, with the attempt added if it was at this shard."""
    return shard.model_copy(update={"attempts": [*shard.attempts, attempt]}) if shard.title == what.title else shard


def _title(job: Job) -> str:
    return f"{job.host} {job.step}{f' {job.shard.workload}' if job.shard else ''}"
