"""What a trial goes on with."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import pytest

from interlock.engine.run.user_images import UserImage
from interlock.errors import UsageError
from interlock.measure.resumable import BEGIN_ANEW
from interlock.results.experiments import Outcome, State
from interlock.trial import running
from interlock.trial.builds import Builds
from interlock.trial.running import require_the_same, run_trial
from interlock.trial.workloads import Checks, workload_of
from tests.builders import make_built
from tests.trials import CHECKS, make_tried

WORKLOAD = workload_of(Path("service"), CHECKS)
FAILED = Outcome(state=State.FAILED, reason="no wheel")


def test_a_trial_goes_on_with_images_of_the_same_content_under_other_names() -> None:
    images = [make_built("OWN").model_copy(update={"content_hash": "a"}), make_built("cpython-3.14", FAILED)]
    began, _ = make_tried({}, images=images)
    now = [images[0].model_copy(update={"image_id": "sha256:new"}), make_built("cpython-3.14")]
    require_the_same(began, [WORKLOAD], now)
    with pytest.raises(UsageError, match="OWN has another image"):
        require_the_same(began, [WORKLOAD], [now[0].model_copy(update={"content_hash": "b"}), now[1]])
    # What cannot be built now is no other image: a mended disk or index is all that it takes.
    with pytest.raises(UsageError, match="no wheel") as caught:
        require_the_same(began, [WORKLOAD], [make_built("OWN", FAILED), now[1]])
    assert caught.value.todo != BEGIN_ANEW


def test_a_trial_goes_on_with_its_own_load() -> None:
    began, _ = make_tried({})
    with pytest.raises(UsageError, match="another load"):
        require_the_same(began, [workload_of(Path("service"), Checks(test="true"))], began.images)


@pytest.mark.parametrize(("keep", "removed"), [(False, [["image", "stage"]]), (True, [])])
def test_the_images_of_the_stages_of_a_kept_image_stay_so_that_it_comes_out_equal_again(
    keep: bool, removed: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The classic builder built a stage anew, so a trial with --keep could not be resumed."""
    engine = MagicMock()

    def proved(_engine: object, _request: object, builds: Builds, _watching: object) -> None:
        builds.left.append(UserImage("image", 1, 1, left=("stage",)))

    monkeypatch.setattr(running, "_proved", proved)
    monkeypatch.setattr("interlock.trial.running.experiment.run", lambda *_: tmp_path)
    run_trial(engine, MagicMock(keep=keep), lambda _, __: None, MagicMock())
    assert [call.args[0] for call in engine.remove_untagged.call_args_list] == removed
    engine.clean_up.assert_called_once()
