"""Serve `torch` from Rushlight to a program and to every library it imports.

`install()` makes `import torch`, `import torch.nn.functional` and `importlib.metadata.version("torch")` answer from
Rushlight in this process, whether or not PyTorch is installed: `torch.nn` and `rushlight.nn` are one module object.
`python -m rushlight run script.py` does that and, through the environment, the same for the processes the script
starts. Refuses: being installed after the real `torch` was imported, since two frameworks would then share one name.

    import rushlight.compat
    rushlight.compat.install()
    import torch, transformers            # both now run on Rushlight
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from importlib import import_module
from pathlib import Path

from .. import _C
from ..base import homes
from .finder import TorchFinder, serves

__all__ = ["install", "installed", "run", "uninstall"]

_finder = TorchFinder()
SHIM = Path(__file__).with_name("shim")


def install() -> None:
    """Serve `torch` from Rushlight in this process from now on. Asking twice is asking once."""
    if installed():
        return
    held = sys.modules.get("torch")
    if held is not None and not serves(held) and getattr(held, "__file__", None) != str(SHIM / "torch" / "__init__.py"):
        raise RuntimeError(
            "rushlight.compat.install: PyTorch is already imported (from"
            f" {getattr(held, '__file__', 'an unknown place')}); call install() before the first `import torch`, or use"
            " `python -m rushlight run script.py`"
        )
    sys.meta_path.insert(0, _finder)
    _finder.alias("torch")
    _show_as("torch")


def _show_as(name: str) -> None:
    """The name by which the package, its modules and what they define call themselves (libraries compare it) and which
    reprs show."""
    _C.set_display_module(name)
    homes.show_as(name)
    import_module("..functional", __package__)     # its functions are also at top level, and say where they are from


def installed() -> bool:
    """Whether `torch` is served from Rushlight in this process."""
    return _finder in sys.meta_path


def uninstall() -> None:
    """Stop serving `torch`: later imports of it find PyTorch, if that is installed. Modules in use stay as they are."""
    if installed():
        sys.meta_path.remove(_finder)
        _show_as("rushlight")
        for name in [name for name in sys.modules if name.partition(".")[0] in ("torch", "torch_xla")]:
            del sys.modules[name]


def serve_children() -> None:
    """Let the Python processes started from here find Rushlight under `torch` too.

    They read PYTHONPATH; those that `multiprocessing` spawns take over this process's `sys.path` instead.
    """
    package_home = str(SHIM.parents[2])
    inherited = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    wanted = [str(SHIM), package_home]
    os.environ["PYTHONPATH"] = os.pathsep.join([*wanted, *(path for path in inherited if path not in wanted)])
    if str(SHIM) not in sys.path:
        sys.path.insert(1, str(SHIM))


def _is_found(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:   # of a package it is said to be in
        return False


def check_program(script: str, as_module: bool, command: str = "run") -> None:
    """FileNotFoundError, in one line that begins with the command, where there is no such script or module."""
    if not as_module:
        if not Path(script).exists():
            raise FileNotFoundError(f"rushlight {command}: no such script: {script!r}")
        return
    sys.path[0] = os.getcwd()
    if not _is_found(script):
        raise FileNotFoundError(f"rushlight {command}: no such module: {script!r}")


def run(script: str, arguments: list[str], as_module: bool = False) -> dict[str, object]:
    """Run a program unmodified, as `python script …` (or `python -m script …`) would, with `torch` served from
    Rushlight. Gives its globals, which whoever looks at what it left behind keeps alive."""
    install()
    serve_children()
    sys.argv = [script, *arguments]
    check_program(script, as_module)
    if as_module:
        # A module of torch's own, such as torch.distributed.run, is ours.
        ours = script.replace("torch", "rushlight", 1) if script.partition(".")[0] == "torch" else script
        return runpy.run_module(ours, run_name="__main__", alter_sys=True)
    sys.path[0] = str(Path(script).resolve().parent)
    return runpy.run_path(os.path.abspath(script), run_name="__main__")      # as Python says `__file__`
