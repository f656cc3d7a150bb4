"""The command `pick`, which recommends an image."""

from __future__ import annotations

from interlock.cli.options import takes
from interlock.cli.pick_options import PickOptions


@takes
def pick_command(options: PickOptions) -> None:
    """Recommend an image for your workloads, or advise to stay.

    The answer is a few short lines; --why shows what it rests on.
    """
    from interlock.cli import picking  # noqa: PLC0415  half a second that --help need not wait for

    picking.run(options)
