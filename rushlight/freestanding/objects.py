"""Machine code of a program for a target: kernels and driver in one relocatable object.

Enters: members and a target. Leaves: object bytes, with no symbols but the program's own and, on some targets,
`memcpy` and `memset`. For WebAssembly the object becomes a module: its functions are exported (wasm.py).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm

from ..codegen.llvm import cpu
from ..codegen.text.targets import Target
from .driver import Driver, Member
from .kernels import kernel_text

EXTRA = {"riscv64": {"abiname": "lp64d"}, "wasm32": {}}


@functools.cache
def machine(target: Target) -> Any:
    """The code generator: as `codegen`'s own, with what objects for other systems need."""
    cpu.machine(target)      # initialises LLVM
    is_wasm = target.triple.startswith("wasm")
    features = target.features + (",+bulk-memory" if is_wasm else "")
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=features, opt=2, reloc="static" if is_wasm else "pic", codemodel="small",
        **EXTRA.get(target.name, {}),
    )


def built(name: str, members: Sequence[Member], target: Target, limits: Sequence[tuple[int, int]] = ()) -> bytes:
    """The object of a program; `limits` are those of its dims."""
    with cpu._LOCK:
        builder = machine(target)
        kernels: dict[int, str] = {}
        modules = []
        for address in dict.fromkeys(step.kernel for m in members for step in m.steps):
            function, text = kernel_text(address, target)
            module = _parsed(text, builder)
            kernels[address] = f"{name}_k{len(kernels)}"
            module.get_function(function).name = kernels[address]
            _hide_others(module, kernels[address])
            if function == "plain_product":
                _optimise(module, builder)
            elif "@rl_fma_" in text:
                _inline(module, builder)
            modules.append(module)
        whole = _parsed(Driver(name, kernels, target.triple, limits).text(members), builder)
        for module in modules:
            whole.link_in(module)
        for function in whole.functions:
            if function.name in kernels.values():
                function.linkage = "internal"
        whole.verify()
        cpu._set_options(cpu._SKIPPED)
        try:
            return builder.emit_object(whole)
        finally:
            cpu._set_options(cpu._RESTORED)


def _parsed(text: str, builder: Any) -> Any:
    module = llvm.parse_assembly(text)
    module.data_layout = str(builder.target_data)
    return module


def _hide_others(module: Any, kept: str) -> None:
    """Helpers of one kernel are nobody else's."""
    for value in (*module.functions, *module.global_variables):
        if value.name != kept and not value.is_declaration:
            value.linkage = "internal"


def _inline(module: Any, builder: Any) -> None:
    passes = llvm.create_pass_builder(builder, llvm.create_pipeline_tuning_options(speed_level=0))
    manager = llvm.create_new_module_pass_manager()
    manager.add_always_inliner_pass()
    manager.run(module, passes)


def _optimise(module: Any, builder: Any) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    passes = llvm.create_pass_builder(builder, options)
    passes.getModulePassManager().run(module, passes)
