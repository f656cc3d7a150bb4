"""Whether the environment of a trial is what it was is seen without its values, which may be secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.errors import StoreError
from interlock.trial.sums import KEY_FILE, keyed_sum


def test_equal_values_have_an_equal_sum_and_others_or_those_of_other_names_have_not(tmp_path: Path) -> None:
    """A trial that was resumed with another value of --env measured another service in its second half."""
    cache = tmp_path / "a/cache"
    first = keyed_sum({"WORKERS": "2", "TOKEN": "x"}, cache)
    assert keyed_sum({"TOKEN": "x", "WORKERS": "2"}, cache) == first
    for other in ({"WORKERS": "4", "TOKEN": "x"}, {"WORKERS": "2"}, {"WORKER": "2", "TOKEN": "x"}):
        assert keyed_sum(other, cache) != first


def test_nobody_can_try_values_who_has_not_the_key_of_this_machine(tmp_path: Path) -> None:
    sums = {keyed_sum({"PASSWORD": "1234"}, tmp_path / name) for name in ("here", "there")}
    assert len(sums) == 2
    assert (tmp_path / "here" / KEY_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("spoilt", ["", "cache", "cache/trial.key"])
def test_a_key_that_cannot_be_made_or_is_not_whole_is_named(tmp_path: Path, spoilt: str) -> None:
    """Without a key anybody could try values."""
    cache = tmp_path / "cache"
    if spoilt:
        (tmp_path / spoilt).parent.mkdir(exist_ok=True)
        (tmp_path / spoilt).write_text("")
    else:
        (cache / KEY_FILE).mkdir(parents=True)
    with pytest.raises(StoreError) as caught:
        keyed_sum({"A": "b"}, cache)
    assert caught.value.file == str(cache / KEY_FILE)
