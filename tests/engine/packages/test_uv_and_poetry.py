"""What the installers of an image answered is judged; the real ones are in tests/proofs/test_installers.py."""

from __future__ import annotations

import pytest

from interlock.engine.build.contract import ContractState
from interlock.engine.packages.uv_and_poetry import judge_installers

OWN = "3.14.4 free-threading build in file 17"


@pytest.mark.parametrize(
    ("output", "kept", "part"),
    [
        (f"python={OWN}\nuv={OWN}\npoetry={OWN}\n", [True, True], ""),
        (f"python={OWN}\nuv=3.8.20 in file 9\npoetry={OWN}\n", [False, True], "takes 3.8.20 in file 9, not 3.14.4"),
        (f"python={OWN}\nerror: no\nuv=\npoetry={OWN}\n", [False, True], "makes no environment"),
        ("No module named pip\n", [False, False], "cannot be installed: No module named pip"),
        ("", [False, False], "no answer"),
    ],
)
def test_an_installer_must_take_the_images_interpreter(output: str, kept: list[bool], part: str) -> None:
    found = judge_installers(output)
    assert [one.check for one in found] == ["takes-uv", "takes-poetry"]
    assert [one.verdict is ContractState.OK for one in found] == kept
    assert part in found[0].found


def test_an_installer_that_cannot_be_had_for_an_interpreter_is_not_asked() -> None:
    """Poetry's packages have no wheels for 3.13t, which failed the check of uv too."""
    found = judge_installers(f"poetry=none\npython={OWN}\nuv={OWN}\npoetry=\n")
    assert [(one.check, one.verdict) for one in found] == [("takes-uv", ContractState.OK)]
    both = judge_installers(f"uv=none\npoetry=none\npython={OWN}\n")
    assert [one.verdict for one in both] == [ContractState.UNDECLARED] * 2
