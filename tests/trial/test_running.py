"""What a trial goes on with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from interlock.catalog.services import Probed
from interlock.catalog.workloads import Workload
from interlock.engine.run.user_images import UserImage
from interlock.errors import UsageError
from interlock.measure.assignment import Assignment
from interlock.measure.resumable import BEGIN_ANEW
from interlock.results.experiments import Built, Experiment, Outcome, State
from interlock.trial import running
from interlock.trial.builds import Builds
from interlock.trial.running import run_trial
from interlock.trial.workloads import ANYWHERE, workload_of
from tests.builders import make_built
from tests.measure.assigned import assigned
from tests.trials import CHECKS, make_tried

WORKLOAD = workload_of(Path("service"), CHECKS)
FAILED = Outcome(state=State.FAILED, reason="no wheel")


def gone_on(began: Experiment, workloads: list[Workload], images: list[Built]) -> Assignment:
    """What is measured of a trial that goes on with these images."""
    rows: list[Any] = [SimpleNamespace(image=image) for image in images]
    asked = replace(assigned([make_built("cpython-3.13")], "cpython-3.13"), resumes=began)
    return running._assignment(asked, workloads, MagicMock(), rows)


def test_a_trial_goes_on_with_images_of_the_same_content_under_other_names() -> None:
    images = [make_built("OWN").model_copy(update={"content_hash": "a"}), make_built("cpython-3.14", FAILED)]
    began, _ = make_tried({}, images=images)
    now = [images[0].model_copy(update={"image_id": "sha256:new"}), make_built("cpython-3.14")]
    assert gone_on(began, [WORKLOAD], now).settings == began.settings
    with pytest.raises(UsageError, match="OWN has another image"):
        gone_on(began, [WORKLOAD], [now[0].model_copy(update={"content_hash": "b"}), now[1]])
    # What cannot be built now is no other image: a mended disk or index is all that it takes.
    with pytest.raises(UsageError, match="no wheel") as caught:
        gone_on(began, [WORKLOAD], [make_built("OWN", FAILED), now[1]])
    assert caught.value.todo != BEGIN_ANEW


def test_a_trial_goes_on_with_the_load_that_it_found_out() -> None:
    """Nothing of its service is asked again."""
    found = workload_of(Path("service"), CHECKS, probed=Probed(slice_s=3, decides="cpu"))
    began, _ = make_tried({}, workloads={found.name: found})
    request, proofs = MagicMock(), MagicMock(checks=CHECKS)
    request.recipe.context, request.assignment.resumes = Path("service"), began
    assert running._probed(request, proofs, MagicMock(), ANYWHERE) == found
    proofs.probe.assert_not_called()


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
