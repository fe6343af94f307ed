"""`jit.save` and `jit.load`: archives of compiled modules and functions.

Enters: a scripted or traced module or function and where to write it; or a path or file object with an archive. Leaves:
an archive that PyTorch reads too; a module that runs. Refuses: modules that are not compiled, files that are no such
archives.
"""

from __future__ import annotations

from typing import Any

from .. import _C
from ..base import late
from ..nn import Module


def save(m: Any, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
    """Write a compiled module or function to a path or a file object."""
    from ..script.archive.writer import write_archive

    held = getattr(m, "__script_object__", None)
    if held is None:
        held = getattr(m, "__script_function__", None)
    if held is None:
        what = "an nn.Module that is not scripted" if isinstance(m, Module) else f"a {type(m).__name__}"
        raise AttributeError(f"jit.save: expected what jit.script or jit.trace returns, got {what}")
    write_archive(held, f, _extra_files, getattr(m, "_traced_inputs", None))


def load(f: Any, map_location: Any = None, _extra_files: dict[str, Any] | None = None,
         _restore_shapes: bool = False) -> Any:
    """The module of an archive. `_restore_shapes` asks for the shapes of a trace's examples in its graphs: refused
    where the file holds examples, nothing to restore where it does not."""
    from ..script.archive.reader import read_archive

    if not isinstance(f, str) and not hasattr(f, "__fspath__") and not hasattr(f, "read"):
        raise AttributeError(f"jit.load: expected a path or a file object with 'read', got {type(f).__name__}")
    wanted = _extra_files if _extra_files is not None else {}
    loaded = read_archive(f, validate_map_location(map_location), wanted)
    if _restore_shapes and loaded.has_inputs:
        raise NotImplementedError("jit.load(_restore_shapes=True): shapes of traced examples are not restored. Load"
                                  " without it: graphs need no shapes to run.")
    wanted.update((name, loaded.extra.get(name, b"")) for name in list(wanted))
    return late.provided("script module")(loaded.root)


def validate_map_location(map_location: Any = None) -> Any:
    """A device from what `map_location` may be. Refuses other things."""
    if isinstance(map_location, str):
        return _C.device(map_location)
    if map_location is None or isinstance(map_location, _C.device):
        return map_location
    raise ValueError(f"map_location: expected None, a string or a torch.device, got a {type(map_location)}")
