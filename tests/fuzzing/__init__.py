"""Every parser of what others wrote, with texts to begin from, and how a text is damaged."""

from __future__ import annotations

from tests.fuzzing.answers import ANSWERS
from tests.fuzzing.damage import LIMIT_S, Target, attempt, made
from tests.fuzzing.files import FILES
from tests.fuzzing.outputs import OUTPUTS
from tests.fuzzing.records import RECORDS

TARGETS = {**FILES, **RECORDS, **ANSWERS, **OUTPUTS}

__all__ = ["LIMIT_S", "TARGETS", "Target", "attempt", "made"]
