"""Wheels of others, as the index has them: torchvision and torchaudio with libraries, in processes of their own.

`RUSHLIGHT_EXTENSION_WHEELS` names a folder for `pip install --no-deps --target`; without it, what is installed is taken
where its release has the stable ABI.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os

import pytest

from . import building

pytestmark = [
    pytest.mark.ecosystem,
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("rushlight._stable") is None, reason="built without rushlight._stable"),
]
FOLDER = os.environ.get("RUSHLIGHT_EXTENSION_WHEELS", "")


def wheel(name: str, least: tuple[int, int]) -> str:
    """The folder of a package with the stable ABI; the test is skipped where there is none."""
    paths = [FOLDER] if FOLDER else None
    found = next((d for d in (importlib.metadata.distributions(path=paths) if paths else
                              importlib.metadata.distributions()) if d.name == name), None)
    if found is None or tuple(map(int, found.version.split("+")[0].split(".")[:2])) < least:
        pytest.skip(f"needs {name} {least[0]}.{least[1]}")
    return FOLDER


@pytest.mark.parametrize("check", [
    "check_nms", "check_roi_align", "check_pools", "check_deformable_convolution", "check_images", "check_training",
    "check_graphs", "check_mixed_precision", "check_errors"])
def test_torchvision(check, torchvision_says):
    assert torchvision_says[check] == "", torchvision_says[check]


@pytest.fixture(scope="module")
def torchvision_says() -> dict[str, str]:
    return building.run("use_torchvision.py", wheel("torchvision", (0, 29)), timeout=400)


@pytest.mark.parametrize("check", ["check_filters", "check_alignment", "check_transducer"])
def test_torchaudio(check, torchaudio_says):
    assert torchaudio_says[check] == "", torchaudio_says[check]


@pytest.fixture(scope="module")
def torchaudio_says() -> dict[str, str]:
    return building.run("use_torchaudio.py", wheel("torchaudio", (2, 11)), timeout=400)
