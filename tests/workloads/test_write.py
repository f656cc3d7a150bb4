"""Threads that write one file."""

from pathlib import Path

import pytest

from tests.workloads.conftest import ONCE, Refusal, Report

MIB = 1024 * 1024
# So that what should have been written is known.
NUMBERED = "import os; os.urandom = lambda size, n=[0]: n.append(n[-1] + 1) or bytes([n[-1]]) * size"


def asked(destination: Path, *more: str) -> list[str]:
    return ["write.py", "--destination", str(destination), "--mib", "2", *more]


@pytest.mark.parametrize("how", ["pwrite", "seek"])
@pytest.mark.parametrize("workers", ["1", "3", "8"])
@pytest.mark.parametrize("block_bytes", [8192, MIB])
def test_every_block_is_at_its_place(report: Report, tmp_path: Path, how: str, workers: str, block_bytes: int) -> None:
    more = ["--how", how, "--workers", workers, "--block-bytes", str(block_bytes), "--keep", *ONCE]
    found = report(*asked(tmp_path, *more), sabotage=NUMBERED)
    written = (tmp_path / "written.bin").read_bytes()
    assert len(written) == 2 * MIB
    blocks = [written[at : at + block_bytes] for at in range(0, len(written), block_bytes)]
    assert blocks == [bytes([number % 61 + 1]) * block_bytes for number in range(len(blocks))]
    assert found["inner_loops"] == 2
    assert found["metadata"]["how"] == how


def test_the_file_is_gone_afterwards(report: Report, tmp_path: Path) -> None:
    report(*asked(tmp_path, *ONCE))
    assert not (tmp_path / "written.bin").exists()


def test_where_there_is_no_pwrite_each_thread_seeks(report: Report, tmp_path: Path) -> None:
    no_pwrite = "import os; del os.pwrite"
    assert report(*asked(tmp_path, *ONCE), sabotage=no_pwrite)["metadata"]["how"] == "seek"
    asked_for = report(*asked(tmp_path, "--how", "pwrite", *ONCE), sabotage=no_pwrite)
    assert asked_for["unsupported"] == "os.pwrite came with Python 3.3"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("real(fd, data[:-1] + b'x', at)", "wrong bytes from 8192 on"),
        ("real(fd, data, at - 8192)", "wrong bytes from 0 on"),
        ("real(fd, data[:-1], at)", "a write took 8191 of 8192 bytes: the disk is full"),
    ],
)
def test_what_is_not_written_as_asked_is_an_error(refusal: Refusal, tmp_path: Path, fault: str, said: str) -> None:
    faulty = (
        f"import os\ndef faulty(fd, data, at, real=os.pwrite): return real(fd, data, at) if at != 8192 else {fault}\n"
        "os.pwrite = faulty"
    )
    assert said in refusal(*asked(tmp_path, "--block-bytes", "8192", *ONCE), sabotage=faulty).splitlines()[-1]


def test_a_full_disk_is_an_error_and_no_hang(refusal: Refusal, tmp_path: Path) -> None:
    full = "import os\ndef full(*ignored): raise OSError(28, 'No space left on device')\nos.pwrite = full"
    # Four threads say so at once: whose line is the last is chance.
    assert "No space left on device" in refusal(*asked(tmp_path, "--workers", "4", *ONCE), sabotage=full)


def test_fsync_is_called_once_for_each_file_and_only_if_asked_for(report: Report, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    counting = (
        f"import os\ndef counted(fd, real=os.fsync): open({str(calls)!r}, 'a').write('x'); real(fd)\nos.fsync = counted"
    )
    report(*asked(tmp_path, "--loops", "3", "--warmups", "0", "--values", "1"), sabotage=counting)
    assert not calls.exists()
    report(*asked(tmp_path, "--fsync", "--loops", "3", "--warmups", "0", "--values", "1"), sabotage=counting)
    assert calls.read_text() == "xxx"


# After each file it takes CPU time, as the comparing does.
BURNING = """
import os, protocol
def burning(before, real=protocol.set_aside):
    start_s = sum(os.times()[:2])
    while sum(os.times()[:2]) < start_s + 0.3: pass
    real(before)
protocol.set_aside = burning
"""


def test_the_comparing_is_not_in_the_reported_time(report: Report, tmp_path: Path) -> None:
    arguments = asked(tmp_path, "--block-bytes", "8192", "--loops", "1", "--warmups", "0", "--values", "2")
    metadata = report(*arguments, sabotage=BURNING)["metadata"]
    assert metadata["work_user_s"] + metadata["work_sys_s"] < 0.3
