"""Runs inside an image, on any interpreter from 3.6 on: which packages are installed beside the standard library.

Prints a JSON object for each, with the files that its RECORD names; engine/packages/audit.py reads them.
"""

import csv
import email.parser
import io
import json
import os
import sys


def read(folder, name):
    """Empty if there is no such file."""
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


for place in sys.path:
    for entry in sorted(os.listdir(place)) if os.path.isdir(place) else []:
        if entry.endswith(".dist-info"):
            info = os.path.join(place, entry)
            head = email.parser.Parser().parsestr(read(info, "METADATA"), headersonly=True)
            files = [row[0] for row in csv.reader(io.StringIO(read(info, "RECORD"))) if row]
            print(json.dumps({"name": head["Name"], "version": head["Version"], "files": files}))
