"""Writes 20 made-up packages in two versions each, the same each time."""

import sys
import zipfile
from pathlib import Path

folder = Path(sys.argv[1])
folder.mkdir(parents=True)
for number in range(20):
    for version in ("1.0", "1.1"):
        name = f"package{number}-{version}"
        with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}.dist-info/METADATA", f"Name: package{number}\nVersion: {version}\n")
