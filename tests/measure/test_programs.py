"""What of workloads/ a cell gets, and what a workload runs of it."""

from __future__ import annotations

import time
from hashlib import sha256
from pathlib import Path

from interlock.measure.programs import programs_of, sums_of
from tests.builders import METRIC, ROOT, make_benchmark, make_workload


def test_a_cell_gets_the_programs_and_all_that_is_in_folders_beside_them(tmp_path: Path) -> None:
    for name in ("a.py", "a.toml", "lists/3.13.txt", "lists/deep/x.bin", "lists/__pycache__/y.pyc"):
        path = tmp_path / "workloads" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    programs = {"a.py": b"a.py", "lists/3.13.txt": b"lists/3.13.txt", "lists/deep/x.bin": b"lists/deep/x.bin"}
    assert programs_of(tmp_path) == programs


def test_a_workload_runs_what_its_file_names_and_what_that_imports_or_reads() -> None:
    programs = {
        "locks.py": b"import protocol\nfrom locks_alone import one\n",
        "locks_alone.py": b'LISTS = os.path.join(HERE, "some-lists")\n',
        "protocol.py": b"import sys, \\\n  further\nlate = __import__('a_late_one')\nrun('python started.py')\n",
        "further.py": b"",
        "a_late_one.py": b"",
        "started.py": b"",
        "some-lists/3.13.txt": b"\xff import write",
        "prepared.py": b"",
        "write.py": b"import protocol  # locks.write()\n",
    }
    set_up = make_benchmark(set_up=["/interlock/workloads/prepared.py"])
    sums = sums_of(make_workload(program="locks.py", benchmarks=[set_up]), programs)
    assert sums == {name: sha256(programs[name]).hexdigest() for name in sorted(programs) if name != "write.py"}


def test_of_a_suite_in_a_folder_every_file_counts() -> None:
    programs = {"suite/test_a.py": b"", "suite/data/b.json": b"", "other/test_a.py": b""}
    suite = make_workload(kind="pytest-benchmark", program="suite", benchmarks=[], metric=METRIC)
    assert list(sums_of(suite, programs)) == ["suite/data/b.json", "suite/test_a.py"]


def test_a_workload_of_this_project_does_not_run_the_programs_of_the_others() -> None:
    write = make_workload("write", program="write.py")
    assert list(sums_of(write, programs_of(ROOT))) == ["protocol.py", "write.py"]


def test_what_a_program_says_again_and_again_takes_no_time() -> None:
    start_s = time.process_time()
    programs = {"locks.py": b"import " * 200_000 + b"x" * 1_000_000, "write.py": b""}
    assert list(sums_of(make_workload(program="locks.py"), programs)) == ["locks.py"]
    assert time.process_time() - start_s < 2
