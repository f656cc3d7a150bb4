"""What comes before a block, whatever the kind of its benchmark."""

from __future__ import annotations

from interlock.measure import blocks
from interlock.measure.sessions import Interpreters
from tests.builders import make_facts
from tests.measure.kinds.test_fed import rows_of, told_by


def test_a_block_begins_without_the_pages_that_interpreters_had_before() -> None:
    facts = {name: make_facts(mapped_files=[f"/{name}"]) for name in ("base", "base+mode", "gone")}
    known = Interpreters(facts=facts | {"old": make_facts()})
    tracks = rows_of("base", "base+twin", "base+mode", "gone", "old", "silent", known=known)
    tracks[2].cell.slot(1)
    told = told_by(tracks)
    blocks._renew_pages(tracks)
    assert told == ["base drops /base", "base+twin drops /base", *["base+mode drops /base+mode"] * 2]
    assert tracks[3].cell.slot().agent is None
