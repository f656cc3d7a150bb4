"""What a trial's options mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.catalog.services import ServiceAddress
from interlock.errors import UsageError
from interlock.trial.options import (
    conditions_of,
    cpus_of,
    exposed_address,
    load_words,
    parse_address,
    places_of,
    settings_of,
    usual_variants,
)
from tests.builders import make_variant


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":8000/health", ServiceAddress(port=8000, path="/health")),
        (":80", ServiceAddress(port=80)),
        ("site.example:8000/", ServiceAddress(port=8000, host="site.example")),
        (":8000/a?b=c&d", ServiceAddress(port=8000, path="/a?b=c&d")),
    ],
)
def test_an_address_is_a_port_a_path_and_perhaps_a_name(text: str, expected: ServiceAddress) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["8000", "", ":", ":0/", ":65536", "http://x:80/", ":80 /x", "-x:80", ":80health"])
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_address(text)
    assert refused.value.key == "--http"
    assert ":8000/health" in refused.value.todo


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "0.0.0.0", "192.168.1.5"])  # noqa: S104
def test_loopback_and_addresses_are_refused_because_they_are_not_the_service(host: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_address(f"{host}:8000/x")
    assert refused.value.key == "--http"
    assert refused.value.todo.endswith("--http :8000/x.")


@given(st.text())
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        found = parse_address(text)
    except UsageError:
        return
    assert found.url("10.0.0.1").startswith("http://")


def test_a_url_has_the_containers_address_unless_a_name_was_given() -> None:
    assert parse_address(":8000/health").url("172.18.0.2") == "http://172.18.0.2:8000/health"
    assert parse_address("site.example:8000/x").base("172.18.0.2") == "http://site.example:8000"


def test_without_an_address_the_one_exposed_port_is_taken_and_any_answer_is_good() -> None:
    assert exposed_address(["53/udp", "8000/tcp"]) == ServiceAddress(port=8000, any_answer=True)


@pytest.mark.parametrize(("ports", "said"), [([], "no TCP port"), (["1/tcp", "2/tcp"], "2 TCP ports")])
def test_no_or_several_exposed_ports_leave_it_open(ports: list[str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        exposed_address(ports)
    assert refused.value.key == "--http"
    assert said in refused.value.found


@pytest.mark.parametrize(
    ("load", "words"),
    [
        ("wrk -t1 {url}/", ["wrk", "--latency", "-t1", "{url}/"]),
        ("wrk -L {url}", ["wrk", "-L", "{url}"]),
        ("wrk --latency {url}", ["wrk", "--latency", "{url}"]),
        ("sh -c 'curl -f {url}/a > /dev/null'", ["sh", "-c", "curl -f {url}/a > /dev/null"]),
    ],
)
def test_wrk_is_asked_for_latencies_once_and_another_program_is_left_as_it_is(load: str, words: list[str]) -> None:
    assert load_words(load) == words


@pytest.mark.parametrize(("load", "todo"), [("wrk http://localhost:8000/", "{url}"), ("wrk '{url}", "quotes")])
def test_a_load_that_goes_nowhere_or_has_an_open_quote_is_refused(load: str, todo: str) -> None:
    with pytest.raises(UsageError) as refused:
        load_words(load)
    assert refused.value.key == "--load"
    assert todo in refused.value.todo


def test_a_setting_has_a_value_or_takes_the_one_that_is_here() -> None:
    assert settings_of("--env", ["A=1=2", "B", "C="], {"B": "here"}) == {"A": "1=2", "B": "here", "C": ""}


@pytest.mark.parametrize("setting", ["=x", "a b=1", "GONE"])
def test_a_setting_without_name_or_value_is_refused(setting: str) -> None:
    with pytest.raises(UsageError) as refused:
        settings_of("--env", [setting], {})
    assert refused.value.key == "--env"


@pytest.mark.parametrize(
    ("count", "service", "expected"),
    [
        (1, None, ""),
        (1, 1, ""),
        (2, None, "1"),
        (2, 2, "0-1"),
        (8, None, "1-7"),
        (8, 2, "6-7"),
    ],
)
def test_service_and_load_share_no_cpu_unless_asked(count: int, service: int | None, expected: str) -> None:
    assert cpus_of(count, service) == expected


def test_more_cpus_than_there_are_is_refused() -> None:
    with pytest.raises(UsageError) as refused:
        cpus_of(2, 3)
    assert refused.value.key == "--cpus"
    assert "--cpus 2" in refused.value.todo


def test_the_usual_variants_are_releases_that_are_mended_with_and_without_the_gil() -> None:
    variants = {
        "cpython-3.14": make_variant("cpython-3.14"),
        "cpython-3.14t": make_variant("cpython-3.14t", family="free-threading"),
        "cpython-3.14-zip": make_variant("cpython-3.14-zip", family="imports"),
        "cpython-3.9": make_variant("cpython-3.9", support={"phase": "end-of-life"}),
        "cpython-3.15": make_variant("cpython-3.15", support={"phase": "prerelease"}),
    }
    assert usual_variants(variants) == ["cpython-3.14", "cpython-3.14t"]


@pytest.mark.parametrize(
    "text",
    [
        "", "faster", "more", "more-memory", "more-memory=10", "more-luck=1%", "slower||failed",
        "more-throughput=10%", "less-memory=10%",
    ],
)  # fmt: skip
def test_what_is_no_condition_is_refused_with_all_that_are(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        conditions_of(text)
    assert refused.value.key == "--fail-on"
    assert "memory" in refused.value.todo


@pytest.mark.parametrize(("cores", "counts"), [(1, [1]), (2, [1, 2]), (3, [1, 2]), (8, [1, 2, 4])])
def test_a_sweep_is_over_as_many_cpus_as_there_are(cores: int, counts: list[int]) -> None:
    places = places_of(cores, None, sweep=True)
    assert [place.count for place in places] == counts
    assert len({place.suffix for place in places}) == len(counts)
    (usual,) = places_of(8, 3, sweep=False)
    assert (usual.cpus, usual.count, usual.suffix) == ("5-7", 3, "")
