"""Where the native core is, for a source tree that has none in it.

`pip install .` builds the core into the environment. A program then started from the root of the checkout finds the
checkout's `rushlight/` first, which has no `_C`. Enters: the search path of the package that is being imported. Leaves:
the same list, pointing to the installed copy, whose Python files and core belong together;
or one error that says how to get a core.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES


def use_installed_copy(package_path: list[str]) -> None:
    """Let the package's modules come from an installed Rushlight, after `_C` was not found beside `package_path[0]`."""
    here = package_path[0]
    if _core(here):
        return   # it is there and does not load: the import that follows says why
    for folder in sys.path:
        installed = os.path.join(os.path.abspath(folder), "rushlight")
        if installed != here and _core(installed) and os.path.exists(os.path.join(installed, "__init__.py")):
            package_path[:] = [installed]
            return
    raise ImportError(
        f"rushlight: expected the native modules _C and _extras in {here} or in an installed copy, got neither. Run"
        " `pip install -e .` (or `python tools/dev_build.py`) in the source tree.",
        name="rushlight._C",
    )


def _core(folder: str) -> bool:
    """Whether both native modules are there: the core, and what it is completed by."""
    return all(
        any(os.path.exists(os.path.join(folder, name + suffix)) for suffix in EXTENSION_SUFFIXES)
        for name in ("_C", "_extras")
    )
