"""Styles: how a module's parameters lie on a mesh, and what becomes of what goes in and comes out.

A style turns plain tensors that enter into distributed ones (as the layouts given say they lie), moves them to where
the module wants them, and does the same to what leaves, which becomes plain again if asked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ...._C import Tensor
from ....nn import Embedding, Linear, Module, Parameter
from ...device_mesh import DeviceMesh
from .._api import DTensor, distribute_tensor
from .._modules import distribute_module
from ..placement_types import Placement, Replicate, Shard

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput",
    "RowwiseParallel", "SequenceParallel",
]


class ParallelStyle(ABC):
    """How one module is spread; `_apply` does it."""

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        """The module, spread over the mesh."""


def _entering(value: Any, mesh: DeviceMesh, lies: Placement, wanted: Placement) -> DTensor:
    """A tensor as the module wants it."""
    if not isinstance(value, DTensor):
        value = DTensor.from_local(value, mesh, (lies,), run_check=False)
    return value if value.placements == (wanted,) else value.redistribute(placements=(wanted,))


def _leaving(value: DTensor, wanted: Placement, local: bool) -> Tensor:
    """A tensor as it is wanted outside."""
    if value.placements != (wanted,):
        value = value.redistribute(placements=(wanted,))
    return value.to_local() if local else value


class _Sharded(ParallelStyle):
    """What the styles of layers with weights share: one input, one output, parameters cut along a dimension."""

    def __init__(
        self, input_layouts: Placement, output_layouts: Placement, use_local_output: bool, wanted: Placement
    ) -> None:
        super().__init__()
        self.input_layouts, self.output_layouts = (input_layouts,), (output_layouts,)
        self.desired_input_layouts = (wanted,)
        self.use_local_output = use_local_output

    def _cuts(self, module: Module) -> dict[str, Placement]:
        """How each parameter lies."""
        raise NotImplementedError

    def _partition(self, name: str, module: Module, mesh: DeviceMesh) -> None:
        cuts = self._cuts(module)
        for key, param in list(module.named_parameters(recurse=False)):
            spread = distribute_tensor(param, mesh, [cuts.get(key, Replicate())], src_data_rank=self.src_data_rank)
            module.register_parameter(key, Parameter(spread, requires_grad=param.requires_grad))

    def _enter(self, module: Module, inputs: tuple, mesh: DeviceMesh) -> DTensor:
        return _entering(inputs[0], mesh, self.input_layouts[0], self.desired_input_layouts[0])

    def _leave(self, module: Module, outputs: DTensor, mesh: DeviceMesh) -> Tensor:
        return _leaving(outputs, self.output_layouts[0], self.use_local_output)

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self._cuts(module)      # says what it does not know before anything is changed
        return distribute_module(module, device_mesh, self._partition, self._enter, self._leave)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(input_layouts={self.input_layouts}, output_layouts={self.output_layouts}, "
            f"use_local_output={self.use_local_output})"
        )


class ColwiseParallel(_Sharded):
    """Each process has some of the outputs of a Linear (some of the columns of an Embedding)."""

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__(input_layouts or Replicate(), output_layouts or Shard(-1), use_local_output, Replicate())

    def _cuts(self, module: Module) -> dict[str, Placement]:
        if isinstance(module, Linear):
            return {"weight": Shard(0), "bias": Shard(0)}
        if isinstance(module, Embedding):
            return {"weight": Shard(1)}
        raise NotImplementedError(
            f"ColwiseParallel: it spreads Linear and Embedding, got {type(module).__name__}. Use distribute_module."
        )

    def _leave(self, module: Module, outputs: DTensor, mesh: DeviceMesh) -> Tensor:
        lies = self.output_layouts[0]
        wanted = Shard(lies.dim + outputs.ndim) if isinstance(lies, Shard) and lies.dim < 0 else lies
        return _leaving(outputs, wanted, self.use_local_output)


class RowwiseParallel(_Sharded):
    """Each process has some of the inputs of a Linear (some of the rows of an Embedding); outputs are summed."""

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__(input_layouts or Shard(-1), output_layouts or Replicate(), use_local_output, Shard(-1))

    def _cuts(self, module: Module) -> dict[str, Placement]:
        if isinstance(module, Linear):
            return {"weight": Shard(1)}
        if isinstance(module, Embedding):
            return {"weight": Shard(0)}
        raise NotImplementedError(
            f"RowwiseParallel: it spreads Linear and Embedding, got {type(module).__name__}. Use distribute_module."
        )

    def _enter(self, module: Module, inputs: tuple, mesh: DeviceMesh) -> DTensor:
        given = inputs[0]
        last = Shard(given.ndim - 1)
        lies = last if self.input_layouts[0] == Shard(-1) else self.input_layouts[0]
        return _entering(given, mesh, lies, Replicate() if isinstance(module, Embedding) else last)

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.desired_input_layouts = (Replicate() if isinstance(module, Embedding) else Shard(-1),)
        return super()._apply(module, device_mesh)


class SequenceParallel(ParallelStyle):
    """Each process has some of the positions of a sequence: for norms and dropout between the other two."""

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        super().__init__()
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _partition(self, name: str, module: Module, mesh: DeviceMesh) -> None:
        for key, param in list(module.named_parameters(recurse=False)):
            copies = DTensor.from_local(param.detach(), mesh, [Replicate()], run_check=False)
            module.register_parameter(key, Parameter(copies, requires_grad=param.requires_grad))

    def _enter(self, module: Module, inputs: tuple, mesh: DeviceMesh) -> DTensor:
        if not isinstance(inputs[0], Tensor):
            raise ValueError(f"SequenceParallel: expected a tensor to enter {module}, got {inputs[0]!r}")
        return _entering(inputs[0], mesh, self.sequence_sharding[0], self.sequence_sharding[0])

    def _leave(self, module: Module, outputs: Any, mesh: DeviceMesh) -> Any:
        return outputs.to_local() if self.use_local_output else outputs

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        return distribute_module(module, device_mesh, self._partition, self._enter, self._leave)

    def __repr__(self) -> str:
        dim = self.sequence_sharding[0].dim
        return f"SequenceParallel(sequence_dim={dim}, use_local_output={self.use_local_output})"


Layouts = Placement | Sequence[Placement | None] | None


def _many(layouts: Layouts) -> tuple[Placement | None, ...] | None:
    if layouts is None:
        return None
    return (layouts,) if isinstance(layouts, Placement) else tuple(layouts)


def _prepared(value: Any, mesh: DeviceMesh, lies: Any, wanted: Any, local: bool) -> Any:
    """A value, moved if it is one that a layout is given for."""
    if lies is None and not isinstance(value, DTensor):
        return value
    if not isinstance(value, Tensor):
        raise TypeError(f"expected a tensor where a layout is given, got {value!r}")
    if not isinstance(value, DTensor):
        value = DTensor.from_local(value, mesh, (lies,), run_check=False)
    if wanted is not None and value.placements != (wanted,):
        value = value.redistribute(placements=(wanted,))
    return value.to_local() if local else value


class PrepareModuleInput(ParallelStyle):
    """What enters a module, moved first: positional values by `input_layouts`, named ones by `input_kwarg_layouts`."""

    def __init__(
        self, *, input_layouts: Layouts = None, desired_input_layouts: Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None, use_local_output: bool = False,
    ) -> None:
        super().__init__()
        self.input_layouts, self.desired_input_layouts = _many(input_layouts), _many(desired_input_layouts)
        self.use_local_output = use_local_output
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        self.with_kwargs = input_kwarg_layouts is not None
        if self.input_layouts is not None and self.desired_input_layouts is None:
            raise AssertionError("PrepareModuleInput: desired_input_layouts must be given with input_layouts")
        if self.input_layouts is not None and len(self.input_layouts) != len(self.desired_input_layouts or ()):
            raise AssertionError(
                "PrepareModuleInput: input_layouts and desired_input_layouts must be of the same length, got "
                f"{self.input_layouts} and {self.desired_input_layouts}"
            )
        if self.input_kwarg_layouts.keys() != self.desired_input_kwarg_layouts.keys():
            raise AssertionError(
                "PrepareModuleInput: input_kwarg_layouts and desired_input_kwarg_layouts must be of the same names"
            )

    def _positional(self, inputs: tuple, mesh: DeviceMesh) -> tuple:
        if self.input_layouts is None:
            return inputs
        if len(inputs) != len(self.input_layouts):
            raise ValueError(
                f"PrepareModuleInput: {len(inputs)} values enter the module, but {len(self.input_layouts)} layouts are"
                " given"
            )
        wanted = self.desired_input_layouts or ()
        return tuple(
            _prepared(value, mesh, lies, want, self.use_local_output)
            for value, lies, want in zip(inputs, self.input_layouts, wanted, strict=True)
        )

    def _named(self, kwargs: dict[str, Any], mesh: DeviceMesh) -> dict[str, Any]:
        layouts, wanted = self.input_kwarg_layouts, self.desired_input_kwarg_layouts
        return {
            name: _prepared(value, mesh, layouts.get(name), wanted.get(name), self.use_local_output)
            if name in layouts
            else value
            for name, value in kwargs.items()
        }

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def enter(_: Module, inputs: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
            return self._positional(inputs, device_mesh), self._named(kwargs, device_mesh)

        if self.with_kwargs:
            module.register_forward_pre_hook(enter, with_kwargs=True)
        else:
            module.register_forward_pre_hook(lambda _, inputs: self._positional(inputs, device_mesh))
        return module

    def __repr__(self) -> str:
        return (
            f"PrepareModuleInput(input_layouts={self.input_layouts}, desired_input_layouts="
            f"{self.desired_input_layouts}, input_kwarg_layouts={self.input_kwarg_layouts}, "
            f"desired_input_kwarg_layouts={self.desired_input_kwarg_layouts}, use_local_output={self.use_local_output})"
        )


class PrepareModuleOutput(ParallelStyle):
    """What leaves a module, moved by `output_layouts`."""

    def __init__(
        self, *, output_layouts: Layouts, desired_output_layouts: Layouts, use_local_output: bool = True
    ) -> None:
        super().__init__()
        self.output_layouts, self.desired_output_layouts = _many(output_layouts), _many(desired_output_layouts)
        self.use_local_output = use_local_output
        if len(self.output_layouts or ()) != len(self.desired_output_layouts or ()):
            raise AssertionError(
                "PrepareModuleOutput: output_layouts and desired_output_layouts must be of the same length, got "
                f"{self.output_layouts} and {self.desired_output_layouts}"
            )

    def _leave(self, outputs: Any, mesh: DeviceMesh) -> Any:
        layouts, wanted = self.output_layouts or (), self.desired_output_layouts or ()
        values = outputs if isinstance(outputs, tuple) else (outputs,)
        if len(values) != len(layouts):
            raise ValueError(
                f"PrepareModuleOutput: {len(values)} values leave the module, but {len(layouts)} layouts are given"
            )
        results = tuple(
            _prepared(value, mesh, lies, want, self.use_local_output) if lies is not None else value
            for value, lies, want in zip(values, layouts, wanted, strict=True)
        )
        return results if isinstance(outputs, tuple) else results[0]

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        module.register_forward_hook(lambda _, inputs, outputs: self._leave(outputs, device_mesh))
        return module

    def __repr__(self) -> str:
        return (
            f"PrepareModuleOutput(output_layouts={self.output_layouts}, desired_output_layouts="
            f"{self.desired_output_layouts}, use_local_output={self.use_local_output})"
        )


class PrepareModuleInputOutput(ParallelStyle):
    """What enters and what leaves a module, moved."""

    def __init__(
        self, *, input_layouts: Layouts = None, desired_input_layouts: Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None, use_local_input: bool = False,
        output_layouts: Layouts, desired_output_layouts: Layouts, use_local_output: bool = True,
    ) -> None:
        super().__init__()
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts, desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts, desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts, desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)

    def __repr__(self) -> str:
        return f"PrepareModuleInputOutput({self.prepare_module_input}, {self.prepare_module_output})"
