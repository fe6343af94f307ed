"""The suite passes a sound chip, with queues and two units, and the host: twenty times out of twenty."""

from __future__ import annotations

import pytest

from rushlight.conform import AREAS, Chip, check
from rushlight.devices import register, registered

from .chips import SoundChip

JUDGED = [area for area in AREAS if area != "performance"]


def failed(name: str, area: str) -> list[tuple[str, str]]:
    """What the quick run says against a chip in one area."""
    if name not in ("cpu", *registered()):
        register(SoundChip(name))
    return [(one.case, one.message) for one in check(Chip.find(name, quick=True), [area]).failures]


@pytest.mark.parametrize("area", ["copies", "streams"])
def test_a_sound_chip_passes(area):
    assert failed("sound", area) == []


@pytest.mark.slow
@pytest.mark.share(120)
@pytest.mark.parametrize("time", range(20))
@pytest.mark.parametrize("area", JUDGED)
def test_a_sound_chip_passes_every_time(area, time):
    assert failed("sound", area) == []


@pytest.mark.slow
@pytest.mark.share(12)
@pytest.mark.parametrize("area", JUDGED)
def test_the_host_passes(area):
    assert failed("cpu", area) == []
