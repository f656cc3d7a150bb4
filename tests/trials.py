"""Trials for tests: the least that the models accept, with what a test is about as arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.measure.processes import OK
from interlock.results.answers import OWN, OWN_TWIN, Candidate, Figure, Trial, TrialSettings

HOST = {
    "cores": 2,
    "cpu": "a processor",
    "memory_bytes": 2**34,
    "kernel": "6.18",
    "system": "Debian",
    "engine": {"name": "docker", "version": "20.10", "storage_driver": "overlay2"},
}
# Of eight rounds, no two alike, so that there is noise.
NOISE = (1.0, 1.01, 0.99, 1.02, 0.98, 1.005, 0.995, 1.0)


def around(value: float, noise: Sequence[float] = NOISE) -> list[float]:
    return [value * one for one in noise]


def make_candidate(label: str, request_s: float | None = None, **changes: Any) -> Candidate:
    """With figures around these seconds per request, by rounds of other noise than the user's own."""
    values = {} if request_s is None else {Figure.REQUEST_S: around(request_s, NOISE[::-1])}
    data: dict[str, Any] = {"label": label, "outcome": OK, "values": values, "size_bytes": 150_000_000}
    return Candidate.model_validate(data | changes)


def make_trial(*candidates: Candidate, **changes: Any) -> Trial:
    """The user's own at 1 ms per request, its twin alike, and these."""
    own = make_candidate(OWN, values={Figure.REQUEST_S: around(0.001)}, image_id="sha256:1")
    twin = make_candidate(OWN_TWIN, 0.001)
    data: dict[str, Any] = {
        "name": "2026-11-21-a",
        "tool_version": "0.1.0",
        "command": "interlock trial service --load 'wrk {url}/'",
        "started": "2026-11-21T12:00:00+00:00",
        "duration_s": 60,
        "settings": make_trial_settings(),
        "host": HOST,
        "builder": "the engine's classic builder",
        "candidates": [own, twin, *candidates],
    }
    return Trial.model_validate(data | changes)


def make_trial_settings(**changes: Any) -> TrialSettings:
    data: dict[str, Any] = {
        "context": "service",
        "profile": "release",
        "dockerfile": "service/Dockerfile",
        "load": "wrk {url}/",
        "rounds": 8,
        "seed": 7,
        "service_cpus": "1",
        "load_cpus": "0",
    }
    return TrialSettings.model_validate(data | changes)
