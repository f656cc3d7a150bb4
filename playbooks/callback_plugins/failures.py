"""Tell `interlock fleet` which hosts failed and why: a line of JSON for each, in the file INTERLOCK_FAILURES."""

import json
import os
from pathlib import Path

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
    name: failures
    type: notification
    short_description: Write the failure of each host to a file
    description:
      - Writes a line of JSON with host and reason for each task that fails and each host that does not answer.
"""


class CallbackModule(CallbackBase):
    """Ansible calls it after each task; only failures are written."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "failures"
    CALLBACK_NEEDS_ENABLED = True

    def v2_runner_on_failed(self, result, ignore_errors=False):
        if not ignore_errors:
            said = result.result.get("stderr") or result.result.get("msg") or "it failed"
            self._write(result, said.strip().splitlines()[-1])

    def v2_runner_on_unreachable(self, result):
        said = " ".join(str(result.result.get("msg", "")).split())
        self._write(result, f"it does not answer: {said}")

    def _write(self, result, reason):
        line = json.dumps({"host": result.host.get_name(), "reason": reason[:1000]})
        with Path(os.environ["INTERLOCK_FAILURES"]).open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
