"""What any program of workloads/ is asked wrongly, or for what an interpreter has not."""

from pathlib import Path

import pytest

from tests.workloads.conftest import NO_THREADS, ONCE, Refusal, Report
from tests.workloads.test_blocking import CALLS
from tests.workloads.test_locks import WHATS

DOWNLOAD = ["download.py", "--what", "single", "--server", "http://127.0.0.1:1", "--destination", "."]
B2 = ["download_b2.py", "--what", "sdk-single", "--server", "http://127.0.0.1:1", "--destination", "."]
WRITE = ["write.py", "--destination", ".", "--mib", "2"]


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        *((["locks.py", "--what", "uncontended"], f"{one} many") for one in ("--loops", "--values", "--warmups")),
        *((["locks.py", "--what", "uncontended"], f"{one} -1") for one in ("--loops", "--values", "--warmups")),
        (["locks.py", "--what", "uncontended"], "stray"),
        *((["locks.py", "--what", "queue"], f"--threads {one}") for one in (0, 3)),
        *((DOWNLOAD, f"--chunk-bytes {one}") for one in ("0", "many")),
        *((DOWNLOAD, one) for one in ("--server ftp://x", "--destination /no/such", "--readers 0", "--queue none")),
        (DOWNLOAD, "--tls-port -1"),
        *((B2, one) for one in ("--server ftp://x", "--destination /no/such", "--what x")),
        *((WRITE, one) for one in ("--destination /no/such", "--workers 0", "--mib 0")),
        *((WRITE, f"--block-bytes {one}") for one in (0, 3)),
        (["threads_scaling.py", "--what", "pure"], "--threads 0"),
        *((["blocking.py", "--what", "sleep"], one) for one in ("--threads 0", "--threads 27", "--call-ms 0")),
        (["network_client.py"], "--server https://127.0.0.1:1"),
    ],
    ids=lambda words: words if isinstance(words, str) else words[0],
)
def test_bad_usage_names_the_option_and_exits_2(
    refusal: Refusal, good: list[str], bad: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert bad.split(maxsplit=1)[0] in refusal(*good, *bad.split(), code=2)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ([*DOWNLOAD, "--destination", "null", "--sha1"], "--sha1: what went to null cannot be read once more"),
        (["threads_scaling.py", "--threads", "2"], "--what"),
        (["import_loop.py"], "--where"),
        (["network_client.py"], "--server: expected http://IP:PORT"),
    ],
)
def test_what_is_missing_or_does_not_go_together_is_named(refusal: Refusal, words: list[str], option: str) -> None:
    assert option in refusal(*words, code=2)


@pytest.mark.parametrize(
    "words",
    [
        *(["locks.py", "--what", what] for what in WHATS),
        *(["blocking.py", "--what", what, "--threads", "3", "--call-ms", "30"] for what in (*CALLS, "short-sleeps")),
        *(["threads_scaling.py", "--what", what, "--threads", "2"] for what in ("pure", "io", "mixed")),
        DOWNLOAD,
        WRITE,
        ["import_loop.py", "--where", "function", "--threads", "2"],
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_an_interpreter_without_threads_is_unsupported(
    report: Report, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = report(*words, *ONCE, sabotage=NO_THREADS)
    assert found.keys() == {"interlock", "unsupported"}
    assert (
        found["unsupported"].startswith("threading cannot be imported") or "ModuleNotFoundError" in found["unsupported"]
    )
