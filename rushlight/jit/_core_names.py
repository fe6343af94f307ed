"""What `torch._C` has of scripted modules: freezing, and passes over all methods of a module.

Enters: a module's handle (`module._c`). Leaves: the same, changed in place, or a new handle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..script.passes.dead_code import drop_dead
from ..script.passes.freezing import walk
from ..script.passes.frozen import remove_dropout
from ..script.passes.rewrite import SubgraphRewriter
from ._freeze import frozen_object, run_frozen_optimizations
from ._handles import ModuleHandle


def _freeze_module(module: ModuleHandle, preservedAttrs: Sequence[str] = (), freezeInterfaces: bool = True,  # noqa: N803
                   preserveParameters: bool = False) -> ModuleHandle:  # noqa: N803
    """A frozen copy; interfaces' methods are not followed, so what they read stays."""
    return ModuleHandle(frozen_object(module.object, list(preservedAttrs), preserveParameters))


def _functions(module: ModuleHandle) -> Iterator[Any]:
    """All methods of a module and of those within."""
    seen = {id(function): function for held in walk(module.object) for function in held.type.methods.values()}
    yield from seen.values()


def _jit_pass_remove_dropout(module: ModuleHandle) -> None:
    """Dropouts that are off, out of all methods. Refuses modules that are training."""
    if module.object.has("training") and module.object.get("training"):
        raise RuntimeError("Dropout removal is only for modules in eval mode: call .eval() on it first")
    for function in _functions(module):
        remove_dropout(function.graph)
        drop_dead(function.graph)
        function._program = None


def _jit_pass_custom_pattern_based_rewrite(pattern: str, replacement: str, module: ModuleHandle) -> None:
    """Replace what one text describes by what the other does, in all methods."""
    rewriter = SubgraphRewriter()
    rewriter.register_pattern(pattern, replacement)
    for function in _functions(module):
        if rewriter.run(function.graph):
            function._program = None


def _jit_pass_optimize_for_inference(module: ModuleHandle, other_methods: Sequence[str] = ()) -> None:
    """What a frozen module allows, for forward and some other methods."""
    run_frozen_optimizations(_Held(module), True, list(other_methods))


class _Held:
    """A handle as modules have it."""

    def __init__(self, module: ModuleHandle) -> None:
        self._c = module


NAMES = {function.__name__: function for function in (
    _freeze_module, _jit_pass_remove_dropout, _jit_pass_custom_pattern_based_rewrite, _jit_pass_optimize_for_inference)}
