"""What an audit says: how each dependency of a program gets into each variant, and who switches the GIL back on."""

from __future__ import annotations

from enum import StrEnum

from interlock.model.common import Data
from interlock.model.results import Outcome
from interlock.model.variants import Gil


class Origin(StrEnum):
    """Where an installed package came from."""

    WHEEL = "wheel"
    BUILT = "built"  # here, from its source
    FAILED = "failed"


class ModuleImport(Data):
    """One module, imported in a fresh process; `gil_by` is the extension module that switched the GIL on."""

    module: str
    error: str = ""  # the exception's last line, or how the process ended; empty if the module was imported
    gil_by: str = ""
    gil_package: str = ""  # that owns `gil_by`, which may be another than the one that is imported


class PackageAudit(Data):
    """One dependency, direct or not, in one variant."""

    name: str
    version: str = ""  # empty if none could be had
    requirement: str = ""  # 'file:line text' of the line that asks for it; empty if only other packages do
    needed_by: list[str] = []  # packages that ask for it
    origin: Origin
    build_s: float | None = None  # of a package that was built: in this audit, or in the one that it is kept from
    reason: str = ""  # of a failure: the compiler's or installer's last words
    imports: list[ModuleImport] = []  # its top-level modules; of its extension modules those that switch the GIL on


class VariantAudit(Data):
    """All dependencies in one variant. `outcome` is not ok if the variant itself could not be had or asked."""

    variant: str
    outcome: Outcome
    gil: Gil | None = None  # of the bare interpreter
    packages: list[PackageAudit] = []
    further: list[ModuleImport] = []  # modules that --import names

    @property
    def every_import(self) -> list[ModuleImport]:
        return [one for package in self.packages for one in package.imports] + self.further

    @property
    def failed(self) -> list[PackageAudit]:
        """Packages that cannot be had, or of which a module cannot be imported."""
        return [one for one in self.packages if one.origin is Origin.FAILED or any(i.error for i in one.imports)]

    @property
    def gil_switchers(self) -> list[PackageAudit]:
        """Packages that own an extension module which switches the GIL back on, whoever imported it."""
        owners = {imported.gil_package for imported in self.every_import if imported.gil_by}
        return [one for one in self.packages if one.name in owners]


class Audit(Data):
    """audit --json: one set of requirements over variants."""

    schema_version: int = 1
    requirements: list[str]  # the files that were read
    control: str | None = None  # the variant whose failures are not another variant's doing
    variants: list[VariantAudit]
