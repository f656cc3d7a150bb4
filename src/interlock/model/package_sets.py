"""Packages that a workload requires, as they were installed for a variant."""

from __future__ import annotations

from interlock.model.common import Data
from interlock.model.results import Outcome, State


class PackageSet(Data):
    """What was installed, in a volume and at a place that cells mount it at; or why it cannot be had."""

    outcome: Outcome = Outcome(state=State.OK)
    volume: str = ""
    place: str = ""
    versions: dict[str, str] = {}  # by canonical name

    @property
    def site(self) -> str:
        """The folder that modules are imported from."""
        return f"{self.place}/site" if self.place else ""
