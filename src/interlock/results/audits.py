"""An audit: how each dependency of a program gets into each variant, and which module switches the GIL back on."""

from __future__ import annotations

from enum import StrEnum

from interlock.catalog.types import Data
from interlock.catalog.variants import Gil
from interlock.results.experiments import Outcome


class Origin(StrEnum):
    """Where an installed package came from."""

    WHEEL = "wheel"
    BUILT = "built"  # from its source, in this audit
    FAILED = "failed"


class ModuleImport(Data):
    """One module, imported in a fresh process; `gil_by` is the extension module that switched the GIL on."""

    module: str
    error: str = ""  # the exception's last line, or how the process ended; empty if the module was imported
    gil_by: str = ""
    gil_package: str = ""  # that owns `gil_by`; not always the imported one


class PackageAudit(Data):
    """One dependency, direct or not, in one variant."""

    name: str
    version: str = ""  # empty if no version could be installed
    requirement: str = ""  # 'file:line text' of the line that asks for it; empty if only other packages do
    needed_by: list[str] = []  # packages that ask for it
    origin: Origin
    build_s: float | None = None  # when the package was built, in this audit or an earlier one
    reason: str = ""  # of a failure: the compiler's or installer's last words
    imports: list[ModuleImport] = []  # its top-level modules; of its extension modules those that switch the GIL on


class VariantAudit(Data):
    """All dependencies in one variant; `outcome` is not ok if the variant itself is missing or does not start."""

    variant: str
    outcome: Outcome
    gil: Gil | None = None  # of the bare interpreter
    packages: list[PackageAudit] = []
    further: list[ModuleImport] = []  # modules that --import names

    @property
    def every_import(self) -> list[ModuleImport]:
        """Return all imports that were tried."""
        return [one for package in self.packages for one in package.imports] + self.further

    @property
    def failed(self) -> list[PackageAudit]:
        """Return packages that cannot be installed, or that have a module which cannot be imported."""
        return [one for one in self.packages if one.origin is Origin.FAILED or any(i.error for i in one.imports)]

    @property
    def gil_switchers(self) -> list[PackageAudit]:
        """Return packages that own an extension module which switches the GIL back on, whoever imported it."""
        owners = {imported.gil_package for imported in self.every_import if imported.gil_by}
        return [one for one in self.packages if one.name in owners]


class Audit(Data):
    """The output of audit --json: one set of requirements over variants."""

    schema_version: int = 1
    requirements: list[str]  # the files that were read
    control: str | None = None  # what fails in it too is not the other variant's fault
    variants: list[VariantAudit]
