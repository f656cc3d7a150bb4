"""Writes a folder of 50 made-up files, the same each time."""

import random
import sys
from pathlib import Path

numbers, folder = random.Random(1), Path(sys.argv[1])
folder.mkdir(parents=True)
for number in range(50):
    (folder / f"file-{number}.bin").write_bytes(numbers.randbytes(4096))
