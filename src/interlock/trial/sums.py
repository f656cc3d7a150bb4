"""A sum of values that may be secrets: equal values have an equal one, and nobody guesses them from it."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from interlock.results.files import cannot_read, make_folder

# Below the cache: whoever has a record, and not this file, cannot try values.
KEY_FILE = "trial.key"


def keyed_sum(values: Mapping[str, str], cache: Path) -> str:
    """Return the sum of values by name, with a key that stays on this machine; StoreError if there can be none."""
    path = cache / KEY_FILE
    try:
        make_folder(cache)
        with suppress(FileExistsError), open(path, "x", opener=_for_this_user) as stream:
            stream.write(secrets.token_hex(32))
        key = path.read_bytes()
    except OSError as error:
        raise cannot_read(path, error, f"Make {cache} a folder of yours, or remove the file.") from None
    return hmac.new(key, json.dumps(values, sort_keys=True).encode(), hashlib.sha256).hexdigest()


def _for_this_user(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
