"""What a trial goes on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.errors import UsageError
from interlock.measure.resumable import BEGIN_ANEW
from interlock.results.experiments import Outcome, State
from interlock.trial.running import require_the_same
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
