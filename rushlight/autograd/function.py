"""Custom differentiable functions: `Function`, its context, and `once_differentiable`.

Enters: a subclass with static `forward` and `backward` (and `setup_context`, `jvp`). Leaves: `apply`, which runs
forward unrecorded and puts one node on the tape whose backward is the user's. Refuses: contexts that mark tensors which
were neither inputs nor outputs, and backward results that do not match the inputs.

The node holds the context; the context refers to the node weakly. Tensors given to `save_for_backward` live in the
node, where an output saved by its own function is no cycle.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

from .. import _C, _extras
from ..op.registry import find_op
from ..rules import levels
from .function_levels import apply_at_level
from .grad_mode import no_grad

_FRESH, _DIRTY, _NOT_DIFFERENTIABLE = 0, 1, 2
_DIFFERENTIABLE_CODES = frozenset(
    d.code for d in vars(_C).values() if isinstance(d, _C.dtype) and (d.is_floating_point or d.is_complex)
)


class FunctionCtx:
    """What `forward` leaves for `backward`."""

    to_save: tuple = ()
    saved_for_forward: tuple = ()
    dirty_tensors: tuple = ()
    non_differentiable: tuple = ()
    materialize_grads: bool = True
    needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (inputs, outputs or others) or None for `saved_tensors`. Call at most once."""
        _check_tensors("save_for_backward", tensors)
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for `jvp`."""
        _check_tensors("save_for_forward", tensors)
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Say which inputs forward modified in place; they must be returned."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """Say which outputs get no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether missing output gradients reach backward as zeros (the default) or as None."""
        self.materialize_grads = value


def _check_tensors(name: str, values: tuple) -> None:
    for value in values:
        if value is not None and not isinstance(value, _C.Tensor):
            raise TypeError(
                f"{name} can only save tensors or None, got {type(value).__name__}. Keep other values as attributes of"
                " ctx."
            )


class BackwardCFunction(FunctionCtx):
    """The context of one call; what Python sees as the node of a custom function."""

    _forward_cls: ClassVar[type[Function]]
    _node_name: ClassVar[str]
    _node: Any = None
    _tensor_inputs: list[bool]      # which arguments are tensors
    _constants: dict[int, tuple] | None = None   # sizes, type and device of outputs that have no gradient

    @property
    def node(self) -> Any:
        """The graph node, while it lives."""
        found = None if self._node is None else self._node()
        if found is None:
            raise RuntimeError(
                f"{self._node_name}: this context has no node: nothing was recorded, or its graph is gone"
            )
        return found

    @property
    def saved_tensors(self) -> tuple:
        """What `save_for_backward` got, checked for modification since."""
        if self._node is None:
            return self.saved_for_forward or self.to_save
        return self.node._kept_values()

    saved_variables = saved_tensors

    def name(self) -> str:
        return self._node_name

    def register_hook(self, fn: Callable) -> Any:
        return self.node.register_hook(fn)

    def register_prehook(self, fn: Callable) -> Any:
        return self.node.register_prehook(fn)

    @property
    def next_functions(self) -> tuple:
        return self.node.next_functions

    @property
    def metadata(self) -> dict:
        return self.node.metadata

    def _run_backward(self, grads: tuple) -> tuple:
        """Called by the engine: gradients of the outputs in, gradients of all arguments of `apply` out."""
        if self.materialize_grads and any(g is None for g in grads):
            described = self.node._input_metadata
            grads = tuple(
                (self._zeros(i) if d is None else d.zeros()) if g is None else g
                for i, (g, d) in enumerate(zip(grads, described, strict=True))
            )
        cls = self._forward_cls
        if cls.backward is not Function.backward and cls.vjp is not Function.vjp:
            raise RuntimeError(f"{cls.__name__}: implement either backward or vjp, not both: they are the same thing")
        rule = cls.vjp if cls.vjp is not Function.vjp else cls.backward
        result = rule(self, *grads)
        result = result if isinstance(result, tuple) else (result,)
        return self._checked(result)

    def _zeros(self, place: int) -> Any:
        """The gradient of an output that has none; None where it was no tensor."""
        if self._constants is None or place not in self._constants:
            return None
        shape, dtype, device = self._constants[place]
        return find_op("zeros")(shape, dtype=dtype, device=device)

    def _checked(self, result: tuple) -> tuple:
        expected = len(self.needs_input_grad)
        if len(result) > expected and all(g is None for g in result[expected:]):
            result = result[:expected]
        if len(result) != expected:
            raise RuntimeError(f"function {self._node_name}: expected {expected} gradients, got {len(result)}")
        for i, (g, is_tensor) in enumerate(zip(result, self._tensor_inputs, strict=True)):
            if g is not None and not is_tensor:
                raise RuntimeError(
                    f"function {self._node_name} returned a gradient at position {i}, "
                    "and that input of forward is not a Tensor. Return None for it"
                )
            if g is not None and not isinstance(g, _C.Tensor):
                raise TypeError(
                    f"function {self._node_name}: expected a Tensor or None at position {i}, got {type(g).__name__}"
                )
        return result


class FunctionMeta(type):
    """Gives every Function a context class of its own."""

    def __init__(cls, name: str, bases: tuple, attrs: dict) -> None:
        super().__init__(name, bases, attrs)
        backward_name = name + "Backward"
        cls._backward_cls = type(
            backward_name, (BackwardCFunction,), {"_forward_cls": cls, "_node_name": backward_name}
        )


class Function(metaclass=FunctionMeta):
    """Subclass with static `forward(ctx, *args)` and `backward(ctx, *grads)`; call `apply`, never an instance."""

    generate_vmap_rule = False
    _backward_cls: ClassVar[type[BackwardCFunction]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(f"{type(self).__name__} should not be instantiated: call {type(self).__name__}.apply(...)")

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The result. First argument `ctx`, unless `setup_context` is defined."""
        raise NotImplementedError("forward: a custom autograd.Function must define this static method.")

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Any) -> None:
        """Fill `ctx` from inputs and output, for a `forward` without ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: FunctionCtx, *grad_outputs: Any) -> Any:
        """Gradients of every argument of forward, from gradients of every output."""
        raise NotImplementedError(
            "backward: this autograd.Function defines neither backward nor vjp, so gradients cannot flow through it."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: FunctionCtx, *grad_inputs: Any) -> Any:
        """Tangents of every output, from tangents (or None) of every argument."""
        raise NotImplementedError("jvp: this autograd.Function does not define it, so tangents cannot flow through it.")

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *args: Any) -> Any:
        """How to batch; asked by vmap."""
        raise NotImplementedError(
            "vmap: this autograd.Function defines no vmap staticmethod, and generate_vmap_rule is not True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward and record one node for it."""
        return apply(cls, args, kwargs)

    @classmethod
    def _has_setup_context(cls) -> bool:
        return has_setup_context(cls)

    @classmethod
    def _has_own_vmap(cls) -> bool:
        return cls.vmap is not Function.vmap

    @classmethod
    def _new_context(cls, args: tuple) -> BackwardCFunction:
        """A context for one call."""
        ctx = cls._backward_cls()
        ctx._tensor_inputs = [isinstance(a, _C.Tensor) for a in args]
        ctx.needs_input_grad = tuple([t and a.requires_grad for t, a in zip(ctx._tensor_inputs, args, strict=True)])
        return ctx

    @classmethod
    def _record(cls, args: tuple, result: Any) -> Any:
        """Outputs computed elsewhere from `args`, recorded with this Function's backward."""
        ctx = cls._new_context(args)
        records = _C.is_grad_enabled() and True in ctx.needs_input_grad
        edges = _C._collect_edges(*args) if records else ()
        with no_grad():
            cls.setup_context(ctx, args, result)
        is_tuple = isinstance(result, tuple)
        outputs = _finish(ctx, args, result if is_tuple else (result,), edges, records)
        return outputs if is_tuple else outputs[0]


Function.vjp = Function.__dict__["backward"]


def has_setup_context(cls: type[Function]) -> bool:
    return cls.setup_context is not Function.setup_context


def apply(cls: type[Function], args: tuple, kwargs: dict[str, Any]) -> Any:
    """The body of `Function.apply`."""
    if kwargs:
        if not has_setup_context(cls):
            raise TypeError(f"{cls.__name__}.apply() takes no keyword arguments")
        import inspect  # a large module, for a rare form of call

        bound = inspect.signature(cls.forward).bind(*args, **kwargs)
        bound.apply_defaults()
        args = bound.args
    if levels.state.stack:
        return apply_at_level(cls, args, apply)
    if _extras.profile_is_on():
        handle = _extras.named_begin(cls.__name__, args)
        try:
            return _applied(cls, args)
        finally:
            _extras.record_end(handle)
    return _applied(cls, args)


def _applied(cls: type[Function], args: tuple) -> Any:
    ctx = cls._new_context(args)
    grad_mode = _C.is_grad_enabled()
    records = grad_mode and True in ctx.needs_input_grad
    edges = _C._collect_edges(*args) if records else ()
    _C._set_grad_enabled(False)
    try:
        if not has_setup_context(cls):
            result = cls.forward(ctx, *args)
        else:
            result = cls.forward(*args)
            cls.setup_context(ctx, args, result)
    finally:
        _C._set_grad_enabled(grad_mode)
    is_tuple = isinstance(result, tuple)
    outputs = _finish(ctx, args, result if is_tuple else (result,), edges, records)
    return outputs if is_tuple else outputs[0]


def _finish(ctx: BackwardCFunction, args: tuple, outputs: tuple, edges: tuple, records: bool) -> tuple:
    """Outputs as the user gets them: aliased where they are inputs, attached to the node where it exists."""
    dirty, constant = set(map(id, ctx.dirty_tensors)), set(map(id, ctx.non_differentiable))
    inputs = set(map(id, args))
    if dirty and not dirty <= set(map(id, outputs)):
        raise RuntimeError(
            "mark_dirty: a tensor marked as dirty is not among the outputs of forward. "
            "The inputs that are modified inplace must all be outputs of the Function."
        )
    finished, roles = [], []
    for o in outputs:
        role = _FRESH
        if not isinstance(o, _C.Tensor) or id(o) in constant or o.dtype.code not in _DIFFERENTIABLE_CODES:
            role = _NOT_DIFFERENTIABLE
            if isinstance(o, _C.Tensor) and records and id(o) in inputs and id(o) not in dirty:
                o = o.detach()
        elif id(o) in dirty:
            role = _DIRTY
            if records and o.requires_grad and o.is_leaf:
                raise RuntimeError("in-place operation on a leaf Variable that requires grad.")
        elif id(o) in inputs or o.requires_grad:
            o = o.detach() if records else o
        finished.append(o)
        roles.append(role)
    if records and (_FRESH in roles or _DIRTY in roles):
        constants = [i for i, role in enumerate(roles) if role == _NOT_DIFFERENTIABLE]
        if constants:
            tensors = {i: finished[i] for i in constants if isinstance(finished[i], _C.Tensor)}
            ctx._constants = {i: (o.shape, o.dtype, o.device) for i, o in tensors.items()}
        node = _C._function_node(ctx, edges, tuple(finished), tuple(roles), ctx.to_save)
        ctx._node = weakref.ref(node)
        ctx.to_save = ()
    return tuple(finished)


def once_differentiable(fn: Callable) -> Callable:
    """For a backward whose body cannot be recorded: differentiating it again raises instead of being wrong."""

    @functools.wraps(fn)
    def wrapper(ctx: FunctionCtx, *args: Any) -> Any:
        with no_grad():
            outputs = fn(ctx, *args)
        if not _C.is_grad_enabled() or not any(isinstance(a, _C.Tensor) and a.requires_grad for a in args):
            return outputs
        is_tuple = isinstance(outputs, tuple)
        result = tuple(o.detach() if isinstance(o, _C.Tensor) else o for o in (outputs if is_tuple else (outputs,)))
        roles = tuple(_FRESH if isinstance(o, _C.Tensor) else _NOT_DIFFERENTIABLE for o in result)
        _C._function_node(_refuse_twice, _C._collect_edges(*args), result, roles, (), True)
        return result if is_tuple else result[0]

    return wrapper


def _refuse_twice(*grads: Any) -> None:
    raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


class InplaceFunction(Function):
    """A Function that remembers whether it was asked to work in place."""

    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace


class NestedIOFunction(Function):
    """A function of nested lists and tuples, as it was written before functions were static. Kept by name:
    using it is refused."""

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            "NestedIOFunction: write a Function with static forward and backward, and flatten what is nested"
        )
