"""Everything that the project's files say."""

from __future__ import annotations

from interlock.model.common import Data
from interlock.model.variants import Base, Condition, Difference, Family, Profile, Variant
from interlock.model.workloads import Workload


class Texts(Data):
    """The texts that generated files are made of, by file name."""

    templates: dict[str, str]
    patches: dict[str, str] = {}
    steps: dict[str, str] = {}
    keys: dict[str, str] = {}


class Catalog(Data):
    """Everything that variants/ and workloads/ say."""

    bases: dict[str, Base]
    profiles: dict[str, Profile]
    families: dict[str, Family]
    differences: dict[str, Difference]  # of all images of a kind
    variants: dict[str, Variant]
    workloads: dict[str, Workload]
    conditions: dict[str, Condition]
