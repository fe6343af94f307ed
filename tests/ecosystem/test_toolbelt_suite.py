"""pytorch-toolbelt's own tests pass, by `python -m rushlight run -m pytest` over the sdist of the installed release.

Those that want CUDA skip themselves; four read a picture that the sdist does not hold. Skipped where PyPI is not
reached.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.ecosystem, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "pytorch_toolbelt"
WITHOUT_PICTURE = ("test_read_rgb_image_str", "test_read_rgb_image_pathlib", "test_read_image_as_is_str",
                   "test_read_image_as_is_pathlib")
# Files, and how many tests of them pass at least.
PARTS = {
    "arithmetic": (("losses", "tta", "tiles", "utils_functional", "activations", "init", "ddp_utils",
                    "filesystem_utils", "optimizer"), 60),
    "networks": (("decoders", "encoders", "modules", "model_export", "visualization"), 16),
}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tests of the release, beside nothing else of it: what they import is what is installed."""
    if importlib.util.find_spec(PACKAGE) is None:
        pytest.skip(f"not installed: {PACKAGE}")
    release = importlib.metadata.version("pytorch-toolbelt")
    folder = tmp_path_factory.mktemp("toolbelt")
    fetched = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
         "--no-build-isolation", "--dest", str(folder), f"pytorch-toolbelt=={release}"],
        capture_output=True, text=True, timeout=200)
    found = list(folder.glob("*.tar.gz"))
    if not found:
        pytest.skip(f"the sdist was not fetched: {fetched.stderr.strip()[-200:]}")
    with tarfile.open(found[0]) as archive:
        for member in archive.getmembers():
            inner = member.name.partition("/")[2]
            if re.fullmatch(r"tests/\w+\.py", inner):
                content = archive.extractfile(member)
                assert content is not None
                (folder / Path(inner).name).write_bytes(content.read())
    return folder


@pytest.mark.share(2)
@pytest.mark.parametrize("part", PARTS)
def test_its_own_tests_pass(suite: Path, part: str) -> None:
    files, least = PARTS[part]
    paths = [f"test_{name}.py" for name in files if (suite / f"test_{name}.py").is_file()]
    assert len(paths) == len(files)
    left_out = [word for name in WITHOUT_PICTURE for word in ("--deselect", f"test_filesystem_utils.py::{name}")]
    done = subprocess.run(
        [sys.executable, "-m", "rushlight", "run", "-m", "pytest", "-q", "-p", "no:cacheprovider", *left_out, *paths],
        cwd=suite, capture_output=True, text=True, timeout=550,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout[-4000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None and int(passed[1]) >= least, done.stdout[-500:]
