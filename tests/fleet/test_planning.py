"""Who measures what: every workload once, and no host has more to do than it must."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.fleet import planning
from interlock.fleet.record import Shard

NAMES = st.text("abcdefgh", min_size=1, max_size=3)
HOSTS = st.dictionaries(NAMES, st.sampled_from(["arm", "epyc", "xeon"]), min_size=1, max_size=8)
TIMES = st.dictionaries(NAMES, st.floats(1, 10_000), min_size=1, max_size=12)


@given(HOSTS, TIMES)
def test_every_workload_is_measured_once_in_each_kind(hosts: dict[str, str], times: dict[str, float]) -> None:
    plan = planning.assign(planning.shards(hosts, list(times), times, each=False), hosts)
    counted = Counter((shard.kind, shard.workload) for of_host in plan.values() for shard in of_host)
    assert counted == {(kind, workload): 1 for kind in set(hosts.values()) for workload in times}


@given(HOSTS, TIMES)
def test_a_host_measures_for_its_own_kind_alone(hosts: dict[str, str], times: dict[str, float]) -> None:
    plan = planning.assign(planning.shards(hosts, list(times), times, each=False), hosts)
    assert all(shard.kind == hosts[name] for name, of_host in plan.items() for shard in of_host)


@given(HOSTS, TIMES)
def test_without_its_shortest_workload_no_host_has_more_to_do_than_another_of_its_kind(
    hosts: dict[str, str], times: dict[str, float]
) -> None:
    plan = planning.assign(planning.shards(hosts, list(times), times, each=False), hosts)
    for name, of_host in plan.items():
        least = min(planning.load_s(plan[other]) for other in hosts if hosts[other] == hosts[name])
        shortest = min((shard.expected_s for shard in of_host), default=0)
        assert planning.load_s(of_host) - shortest <= least + 1e-6


@given(HOSTS, TIMES)
def test_asked_of_each_every_host_measures_every_workload(hosts: dict[str, str], times: dict[str, float]) -> None:
    plan = planning.assign(planning.shards(hosts, list(times), times, each=True), hosts)
    assert all(sorted(shard.workload for shard in plan[name]) == sorted(times) for name in hosts)


def test_what_no_host_can_measure_is_in_no_plan() -> None:
    orphan = Shard(kind="arm", workload="locks", expected_s=1)
    elsewhere = Shard(kind="epyc", workload="locks", host="gone", expected_s=1)
    assert planning.assign([orphan, elsewhere], {"a": "epyc"}) == {"a": []}


def test_a_workload_takes_as_long_as_it_last_did() -> None:
    assert planning.expectations({"locks": 10}, [("locks", 50), ("locks", 70), ("gone", 9)]) == {"locks": 70}


def test_a_workload_never_measured_is_guessed_as_far_off_as_the_others_are() -> None:
    found = planning.expectations({"locks": 10, "startup": 30}, [("locks", 20)])
    assert found == {"locks": 20, "startup": 60}


def test_without_any_measurement_the_guess_stands() -> None:
    assert planning.expectations({"locks": 10}, []) == {"locks": pytest.approx(10)}


def test_the_plan_names_hosts_by_kind_with_their_work_and_about_how_long_it_takes() -> None:
    hosts = {"a": "epyc", "b": "epyc", "c": "arm"}
    plan = planning.assign(planning.shards(hosts, ["locks"], {"locks": 600}, each=False), hosts)
    assert planning.lines(plan, hosts) == [
        "kind epyc",
        "  a: locks (about 10:00)",
        "  b: nothing; stands in for the others",
        "kind arm",
        "  c: locks (about 10:00)",
    ]
