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
KEY_BYTES = 32


def keyed_sum(values: Mapping[str, str], cache: Path) -> str:
    """Return the sum of values by name, with a key that stays on this machine; StoreError if there can be none."""
    path = cache / KEY_FILE
    try:
        make_folder(cache)
        with suppress(FileExistsError), open(path, "x", opener=_for_this_user) as stream:
            stream.write(secrets.token_hex(KEY_BYTES))
        key = bytes.fromhex(path.read_text(encoding="utf-8"))
        if len(key) != KEY_BYTES:  # whoever made it was killed meanwhile
            raise ValueError("it is not whole")
    except (OSError, ValueError) as error:
        raise cannot_read(path, error, f"Remove the file, or make {cache} a folder of yours.") from None
    return hmac.new(key, json.dumps(values, sort_keys=True).encode(), hashlib.sha256).hexdigest()


def _for_this_user(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
