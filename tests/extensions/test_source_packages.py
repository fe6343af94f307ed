"""Packages of others that have C++ sources, as the index has them: built unmodified, and the same numbers.

`RUSHLIGHT_EXTENSION_SOURCES` names a folder with what `pip download --no-deps --no-binary :all:` gives.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from .building import PROGRAMS, ROOT

pytestmark = [pytest.mark.ecosystem, pytest.mark.slow]
FOLDER = os.environ.get("RUSHLIGHT_EXTENSION_SOURCES", "")
PACKAGES = {                    # name of the archive -> the check, and the folder that is imported from
    "torch_discounted_cumsum": ("discounted_cumsum", "."), "chamferdist": ("chamferdist", "."),
    "torch_scatter": ("scatter", "."), "torch_spline_conv": ("spline_conv", "."), "torch_cluster": ("cluster", "."),
    "torch_sparse": ("sparse", "."), "signatory": ("signatory", "src"),
}


@pytest.mark.parametrize("name", PACKAGES)
def test_source_packages(compiler, tmp_path, name):
    archives = sorted(Path(FOLDER).glob(f"{name}-*.tar.gz")) if FOLDER else []
    if not archives:
        pytest.skip(f"needs the archive of {name} in RUSHLIGHT_EXTENSION_SOURCES")
    with tarfile.open(archives[-1]) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = next(path for path in tmp_path.iterdir() if path.is_dir())
    also = os.environ.get("RUSHLIGHT_EXTENSION_BUILT", "")      # where torch_scatter is, which torch_sparse imports
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), also))), "CXXFLAGS": "-O0",
                   "FORCE_ONLY_CPU": "1"}
    check, inside = PACKAGES[name]
    for command in (["setup.py", "build_ext", "--inplace"],
                    [str(PROGRAMS / "use_source_package.py"), check, str(folder / inside)]):
        done = subprocess.run([sys.executable, "-m", "rushlight", "run", *command], cwd=folder, env=environment,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "the same numbers" in done.stdout
