"""What users may set of the inductor, for the process (`rushlight.inductor.settings.fuse = False`), for one function
(`compile(options={"fuse": False})`), or for a block (`with settings.applied({...})`).

`rushlight._inductor.config` shows the same under PyTorch's names. Settings count when a graph is compiled.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..base import environment
from .pytorch_options import WITHOUT_EFFECT

# inference: pack weights, and fold what depends on them alone, once instead of at each call; costs their memory again
prepare_weights = True
# inference: norms become part of the weights of the convolutions before them; rounds otherwise than eager mode
freeze = False
# ops share kernels; without, every op has its own, as in eager mode
fuse = True
# ops of one kernel: larger ones take long to compile, and no longer fit the registers
most_fused = 64
# on CUDA: graphs are recorded and replayed as a whole where they can be, not small ones only; a replay does not check
# indices, and keeps the memory of what it returned
replay = False
# with `replay`: graphs for many sizes are not recorded, instead of once for each size
skip_dynamic_replays = False
# where every compiled graph leaves its code, its kernels, what they took, and a page that shows it; empty: nowhere
debug_folder = environment.get("RUSHLIGHT_DEBUG_FOLDER")

# measure the ways there are to compute a convolution, for the sizes at hand, and keep what was found on disk
tune = False

# what is made of graphs is kept on disk, for later processes
cache_graphs = environment.get("RUSHLIGHT_GRAPH_CACHE") != "0"

_NAMES = {
    "prepare_weights": bool, "freeze": bool, "fuse": bool, "most_fused": int, "replay": bool, "debug_folder": str,
    "tune": bool, "cache_graphs": bool, "skip_dynamic_replays": bool,
}
# what `compile(mode=...)` stands for
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "lite": {"fuse": False},      # an op, a kernel: little to compile
    "reduce-overhead": {"replay": True},
    "max-autotune": {"tune": True, "replay": True},
    "max-autotune-no-cudagraphs": {"tune": True},
}
# PyTorch's names for them
_THEIRS = {
    "freezing": "freeze", "max_fusion_size": "most_fused", "max_autotune": "tune",
    "triton.cudagraphs": "replay", "fx_graph_cache": "cache_graphs",
    "triton.cudagraph_skip_dynamic_graphs": "skip_dynamic_replays", "trace.debug_dir": "debug_folder",
}
_said: set[str] = set()


def say_once(about: str, text: str) -> None:
    """Warn of something that a program asks for and does not get."""
    if about not in _said:
        _said.add(about)
        warnings.warn(text, stacklevel=5)


def current() -> dict[str, Any]:
    """All settings as they are."""
    return {name: globals()[name] for name in _NAMES}


def resolved(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options by our names or PyTorch's as settings. Those without an effect here are said once; others refused."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        if name == "trace.enabled":
            found["debug_folder"] = (debug_folder or "rushlight_debug") if value else ""
            continue
        own = _THEIRS.get(name, name)
        if own in _NAMES:
            kind = _NAMES[own]
            if not isinstance(value, kind) or (kind is int and (isinstance(value, bool) or value < 1)):
                wanted = "a positive int" if kind is int else f"a {kind.__name__}"
                raise RuntimeError(f"compile: expected {wanted} for the option {name!r}, got {value!r}.")
            found[own] = value
        elif name in WITHOUT_EFFECT:
            say_once(name, f"compile: the option {name!r} of PyTorch's inductor has no effect here.")
        else:
            raise RuntimeError(
                f"compile: unexpected option {name!r}; the inductor has {', '.join([*_NAMES, *_THEIRS])}."
            )
    return found


@contextmanager
def applied(options: Mapping[str, Any]) -> Iterator[None]:
    """Settings for a block."""
    here, changes = globals(), resolved(options)
    before = {name: here[name] for name in changes}
    here.update(changes)
    try:
        yield
    finally:
        here.update(before)
