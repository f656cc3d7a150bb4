"""What an audit says: how each dependency of a program gets into each variant, and who switches the GIL back on."""

from __future__ import annotations

from enum import StrEnum

from interlock.model.common import Data
from interlock.model.results import Outcome
from interlock.model.variants import Gil


class Origin(StrEnum):
    """Where an installed package came from."""

    WHEEL = "wheel"
    BUILT = "built"  # here, from its source archive
    FAILED = "failed"


class ModuleImport(Data):
    """One top-level module, imported in a fresh process; `gil_by` is the extension module that switched the GIL on."""

    module: str
    error: str = ""  # the exception's last line; empty if it was imported
    gil_by: str = ""


class PackageAudit(Data):
    """One dependency, direct or not, in one variant."""

    name: str
    version: str = ""  # empty if none could be had
    requirement: str = ""  # the line that asks for it, with its file and number; empty if another package does
    origin: Origin
    build_s: float | None = None
    reason: str = ""  # of a failure: the compiler's or installer's last words
    imports: list[ModuleImport] = []


class VariantAudit(Data):
    """All dependencies in one variant. `outcome` is not ok if the variant itself could not be had or asked."""

    variant: str
    outcome: Outcome
    gil: Gil | None = None  # of the bare interpreter
    packages: list[PackageAudit] = []

    @property
    def failed(self) -> list[PackageAudit]:
        """Packages that cannot be had, or of which a module cannot be imported."""
        return [one for one in self.packages if one.origin is Origin.FAILED or any(i.error for i in one.imports)]

    @property
    def gil_switchers(self) -> list[PackageAudit]:
        """Packages of which a module switches the GIL back on."""
        return [one for one in self.packages if any(imported.gil_by for imported in one.imports)]


class Audit(Data):
    """audit --json: one set of requirements over variants."""

    schema_version: int = 1
    requirements: list[str]  # the files that were read
    variants: list[VariantAudit]
