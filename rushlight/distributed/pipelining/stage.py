"""`torch.distributed.pipelining.stage`: a part of a model, and what it keeps of the microbatches under way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..._C import Tensor
from ...autograd import backward
from ...nn import Module
from ...utils._pytree import tree_leaves
from .. import groups
from ..data_parallel import DistributedDataParallel
from ._backward import input_gradients, weight_gradients

__all__ = ["PipelineStage", "build_stage"]


def as_tuple(output: Any) -> tuple[Any, ...]:
    """What a stage gives to the next one, as its positional arguments."""
    if isinstance(output, list):
        return tuple(output)
    return output if isinstance(output, tuple) else (output,)


def _tensors(values: Any) -> list[Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, Tensor)]


class _PipelineStageBase:
    """A stage: a module, its number, and the ranks that it exchanges tensors with."""

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: Any,
        group: Any = None,
        dw_builder: Callable[[], Callable[..., None]] | None = None,
    ) -> None:
        if not 0 <= stage_index < num_stages:
            raise ValueError(f"stage_index must be between 0 and num_stages - 1 ({num_stages - 1}), got {stage_index}")
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.device, self.group, self.dw_builder = device, group, dw_builder
        self.group_rank, self.group_size = groups.get_rank(group), groups.get_world_size(group)
        if self.group_size > num_stages:
            raise RuntimeError(f"a pipeline of {num_stages} stages cannot be spread over {self.group_size} ranks")
        self.stage_index_to_group_rank = {i: i % self.group_size for i in range(num_stages)}
        self.has_backward = False
        self.output_chunks: list[Any] = []
        self.clear_runtime_states()

    @property
    def is_first(self) -> bool:
        """Whether it is given the batch."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether it gives the result."""
        return self.stage_index == self.num_stages - 1

    def clear_runtime_states(self) -> None:
        """Forget the microbatches."""
        self.fwd_cache: dict[int, tuple[tuple[Any, ...], list[Any], tuple]] = {}
        self._later: dict[int, Callable[[], None]] = {}
        self.output_chunks.clear()

    # --- computing ----------------------------------------------------------------------------------------------------

    def _quiet(self) -> AbstractContextManager:
        """Gradients are added up over microbatches, and reduced over processes once."""
        return self.submod.no_sync() if isinstance(self.submod, DistributedDataParallel) else nullcontext()

    def forward_one_chunk(
        self, fwd_chunk_id: int, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
        save_forward_output: bool = True,
    ) -> Any:
        """Compute a microbatch: `args` are the batch's, or what the stage before sent."""
        try:
            with self._quiet():
                output = self.submod(*args, **(kwargs or {}))
        except Exception as error:
            shapes = [tuple(t.shape) for t in _tensors((args, kwargs))]
            error.add_note(f"in pipeline stage {self.stage_index}, microbatch {fwd_chunk_id}, on tensors of {shapes}")
            raise
        outputs = as_tuple(output)
        if not self.is_last and not all(isinstance(value, Tensor) for value in outputs):
            kinds = [type(value).__name__ for value in outputs]
            raise TypeError(f"pipeline stage {self.stage_index} must give tensors to the next one, got {kinds}")
        if self.is_last and save_forward_output:
            self.output_chunks.append(output)
        self.fwd_cache[fwd_chunk_id] = outputs, list(args), tuple(_tensors(kwargs))
        return output

    def _roots(self, chunk: int, loss: Any, grads: list[Any] | None) -> tuple[list[Tensor], list[Any], list[Any]]:
        """Where the backward pass of a microbatch begins: tensors, their gradients; and the stage's inputs."""
        if chunk not in self.fwd_cache:
            raise RuntimeError(f"pipeline stage {self.stage_index}: backward of microbatch {chunk} before its forward")
        outputs, inputs, _ = self.fwd_cache.pop(chunk)
        if self.is_last:
            if loss is None:
                raise RuntimeError(f"pipeline stage {self.stage_index} is the last and needs a loss to go back from")
            return [loss], [None], inputs
        pairs = [
            (output, gradient)
            for output, gradient in zip(outputs, grads or (), strict=True)
            if output.requires_grad and gradient is not None
        ]
        return [o for o, _ in pairs], [g for _, g in pairs], inputs

    def backward_one_chunk(
        self, bwd_chunk_id: int, loss: Any = None, full_backward: bool = True, last_backward: bool = False,
        grads: list[Any] | None = None,
    ) -> list[Any]:
        """Go back through a microbatch: the gradients of the stage's inputs. Without `full_backward` those of the
        weights wait for `backward_weight_one_chunk`."""
        outputs, output_grads, inputs = self._roots(bwd_chunk_id, loss, grads)
        needed = [i for i in inputs if isinstance(i, Tensor) and i.requires_grad]
        if self.dw_builder is not None or full_backward:
            backward(outputs, output_grads)
            if self.dw_builder is not None:
                later = self.dw_builder()
                if full_backward:
                    later()
                else:
                    self._later[bwd_chunk_id] = later
        elif self.is_first or not needed or not outputs:
            # Nobody waits for gradients of the batch: all of it can come later.
            self._later[bwd_chunk_id] = lambda: backward(outputs, output_grads) if outputs else None
            return []
        else:
            weights = [p for p in self.submod.parameters() if p.requires_grad]
            found, branches = input_gradients(outputs, output_grads, needed, weights)
            for tensor, gradient in zip(needed, found, strict=True):
                tensor.grad = gradient
            self._later[bwd_chunk_id] = lambda: weight_gradients(branches)
        return [i.grad if isinstance(i, Tensor) else None for i in inputs]

    def backward_weight_one_chunk(self, bwd_chunk_id: int, last_backward: bool = False) -> None:
        """The gradients that `backward_one_chunk(full_backward=False)` left."""
        if bwd_chunk_id not in self._later:
            raise RuntimeError(f"pipeline stage {self.stage_index}: no weights' gradients wait for microbatch "
                               f"{bwd_chunk_id}")
        self._later.pop(bwd_chunk_id)()

    # --- the end of a step --------------------------------------------------------------------------------------------

    def scale_grads(self, grad_scale_factor: int) -> None:
        """Divide the gradients: the loss of a batch is the mean of its microbatches'."""
        if grad_scale_factor != 1:
            for parameter in self.submod.parameters():
                if parameter.grad is not None:
                    parameter.grad.div_(grad_scale_factor)

    def prepare_gradient_sync(self, is_last: bool) -> None:
        """Tell modules that keep parameters in parts whether this backward pass is the step's last."""
        for module in self.submod.modules():
            if hasattr(module, "set_requires_gradient_sync"):
                module.set_is_last_backward(is_last)
                module.set_requires_gradient_sync(is_last, recurse=False)

    def reduce_gradients(self) -> None:
        """Reduce the gradients of a data parallel stage over its processes, in its own buckets."""
        if not isinstance(self.submod, DistributedDataParallel):
            return
        reducer = self.submod.reducer
        reducer.prepare([])
        reducer.unused = [parameter for _, parameter in reducer.named if parameter.grad is None]
        for _, parameter in reducer.named:
            reducer._mark(parameter)
        reducer._end_of_pass()


class PipelineStage(_PipelineStageBase):
    """A stage made by hand: `submodule` takes what the stage before returns, tensors as positional arguments.

    Shapes and dtypes travel with the tensors, and may change from one microbatch to the next. `input_args` and
    `output_args`, if given, are examples that microbatches are checked against. `dw_builder` is called after each
    backward pass, and gives a function that computes weights' gradients when the schedule wants them."""

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: Any,
        input_args: Any = None,
        output_args: Any = None,
        output_grads: Any = None,
        input_grads: Any = None,
        group: Any = None,
        dw_builder: Callable[[], Callable[..., None]] | None = None,
        get_mesh: Any = None,
    ) -> None:
        if get_mesh is not None:
            raise NotImplementedError("PipelineStage: get_mesh is not supported: stages exchange plain tensors")
        super().__init__(submodule, stage_index, num_stages, device, group, dw_builder)
        self._examples = {
            "input": _examples(input_args), "output": _examples(output_args),
            "gradient of outputs": _examples(output_grads), "gradient of inputs": _examples(input_grads),
        }

    def _check(self, what: str, values: Any) -> None:
        expected = self._examples[what]
        if expected is None:
            return
        found = [(tuple(v.shape), v.dtype) if isinstance(v, Tensor) else None for v in values]
        if found != expected:
            raise ValueError(f"pipeline stage {self.stage_index}: {what} is {found}, and the example {expected}")

    def forward_one_chunk(self, fwd_chunk_id: int, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
                          save_forward_output: bool = True) -> Any:
        self._check("input", args)
        output = super().forward_one_chunk(fwd_chunk_id, args, kwargs, save_forward_output)
        self._check("output", as_tuple(output))
        return output

    def backward_one_chunk(self, bwd_chunk_id: int, loss: Any = None, full_backward: bool = True,
                           last_backward: bool = False, grads: list[Any] | None = None) -> list[Any]:
        if grads is not None:
            self._check("gradient of outputs", grads)
        found = super().backward_one_chunk(bwd_chunk_id, loss, full_backward, last_backward, grads)
        if not self.is_first:
            self._check("gradient of inputs", found)
        return found


def _examples(given: Any) -> list[Any] | None:
    if given is None:
        return None
    return [(tuple(t.shape), t.dtype) if isinstance(t, Tensor) else None for t in as_tuple(given)]


class _PipelineStage(_PipelineStageBase):
    """A stage that `pipeline` made."""

    def __init__(self, stage_module: Module, stage_index: int, pipe_info: Any, device: Any, group: Any = None) -> None:
        super().__init__(stage_module.to(device), stage_index, pipe_info.num_stages, device, group)


def build_stage(
    stage_module: Module, stage_index: int, pipe_info: Any, device: Any, group: Any = None
) -> _PipelineStage:
    """A stage of a traced pipeline: `pipe_info` is `pipe.info()`."""
    return _PipelineStage(stage_module, stage_index, pipe_info, device, group)
