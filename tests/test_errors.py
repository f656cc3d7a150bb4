"""What is said about names that do not exist."""

from __future__ import annotations

from interlock.errors import meant, nearest


def test_a_wrong_name_is_answered_with_the_nearest_one_and_with_all_if_they_are_few() -> None:
    assert nearest("startp", ["startup", "locks"]) == "Did you mean 'startup'? There are: locks, startup."
    assert nearest("x", ["locks"]) == "There is: locks."
    assert nearest("x", []) == "There are: none."
    many = [f"cpython-3.{minor}" for minor in range(20)]
    assert nearest("cpython3.7", many) == "Did you mean 'cpython-3.7'?"
    assert nearest("zzz", many).startswith("There are: cpython-3.0, ")


def test_a_name_that_is_like_none_is_not_asked_about() -> None:
    assert meant("startp", ["startup", "locks"]) == "Did you mean 'startup'?"
    assert meant("zzz", ["startup", "locks"]) == ""
