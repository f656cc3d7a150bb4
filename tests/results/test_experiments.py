"""What experiments record, and what is said of the engine that built and measured."""

from __future__ import annotations

import pytest

from interlock.measure.ending import Ending
from interlock.results.experiments import RoundsEnd, Subject, engine_line, host_line
from interlock.results.journal import KILLED
from interlock.results.settings import duration_text
from tests.builders import make_experiment, make_settings


def test_a_subject_in_a_mode_is_labelled_with_it() -> None:
    assert Subject(variant="a", image_id="i", mode="twin").label == "a+twin"
    assert Subject(variant="a", image_id="i").label == "a"


FACTS = {"version": "4.3.1", "storage_driver": "overlay"}


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ({"name": "docker"}, "Docker API 4.3.1, storage driver overlay, base image from a registry"),
        ({"name": "podman"}, "Podman 4.3.1, storage driver overlay, base image from a registry"),
        ({"name": "host"}, "host: this machine itself, without containers"),
    ],
    ids=["docker", "podman", "host"],
)
def test_the_engine_is_called_what_it_is(name: dict[str, str], line: str) -> None:
    assert engine_line({**FACTS, **name}, "base image from a registry") == line


def test_the_machine_is_one_line_with_its_memory_in_gib() -> None:
    host = {"cores": 2, "cpu": "Example CPU", "memory_bytes": 8 * 2**30, "kernel": "6.18.0", "system": "Debian 13"}
    assert host_line(host) == "2 cores Example CPU, 8 GiB, Linux 6.18.0, Debian 13"


def budget_reason() -> str:
    ending = Ending(budget_s=1e-9)
    ending.start()
    assert ending.stops()
    return ending.reason


@pytest.mark.parametrize(
    ("ended_by", "end"),
    [("", RoundsEnd.REACHED), (budget_reason(), RoundsEnd.REACHED), ("Ctrl-C", RoundsEnd.CUT), (KILLED, RoundsEnd.CUT)],
)
def test_rounds_that_somebody_ended_are_told_from_those_that_a_budget_did(ended_by: str, end: RoundsEnd) -> None:
    limited = make_settings(["a"]).model_copy(update={"rounds_limit": 10})
    ended = make_experiment(settings=limited, ended_by=ended_by, unfinished=["locks"])
    assert ended.rounds_end("locks") is end
    assert ended.rounds_end("startup") is RoundsEnd.REACHED, "a workload that came to its end"
    fixed = make_experiment(ended_by=ended_by, unfinished=["locks"])
    assert fixed.rounds_end("locks") is RoundsEnd.FIXED


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (60, "60 s"),
        (120, "2 min"),
        (150, "2.5 min"),
        (599, "10 min"),
        (840, "14 min"),
        (7200, "2.0 h"),
        (9000, "2.5 h"),
    ],
)
def test_a_duration_is_said_as_exactly_as_an_option_gives_it(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
