"""Custom Functions under function transforms: forward runs below the level, the user's rules serve the level itself.

Enters: a Function with `setup_context` and arguments of which some belong to the innermost level. Leaves: outputs of
that level: recorded with the user's `backward` (grad), with tangents from the user's `jvp` (jvp), or batched by the
user's `vmap` or by running forward, backward and jvp under vmap (`generate_vmap_rule = True`). Refuses: Functions whose
`forward` takes the context, since what it saves cannot be told apart by level.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .. import _C
from ..rules import levels
from ..rules.levels import VmapLevel, behind


class VmapInfo(NamedTuple):
    """What a `vmap` staticmethod is told."""

    batch_size: int
    randomness: str


def apply_at_level(cls: Any, args: tuple, apply: Callable) -> Any:
    """`cls.apply(*args)` at the innermost level."""
    level = levels.state.stack[-1]
    own = [a for a in args if isinstance(a, _C.Tensor) and behind(a, level) is not None]
    if not own:
        result = levels.below(level, apply, cls, args, {})
        return result if level.kind in ("vmap", "functionalize") else map_flat(lambda t: join(level, t), result)
    if not cls._has_setup_context() and level.kind != "jvp":
        raise RuntimeError(
            f"{cls.__name__}: to be used with function transforms (vmap, grad, jvp, jacrev, ...), an autograd.Function"
            " must define the setup_context staticmethod and a forward without ctx."
        )
    handlers: dict[str, Callable] = {"grad": at_grad, "jvp": at_jvp, "vmap": at_vmap}
    return handlers[level.kind](level, cls, args, apply)


def join(level: levels.Level, t: Any) -> Any:
    """A tensor made below, as one of the level."""
    return levels.track(level, t) if level.kind == "grad" else levels.dual(level, t)


def map_flat(function: Callable, result: Any) -> Any:
    """Outputs of a Function: one tensor, or a tuple of tensors and others."""
    if isinstance(result, tuple):
        return tuple([function(t) if isinstance(t, _C.Tensor) else t for t in result])
    return function(result) if isinstance(result, _C.Tensor) else result


def values_of(level: levels.Level, args: tuple) -> tuple:
    """Arguments one level down."""
    return tuple([levels.lowered(a, level) if isinstance(a, _C.Tensor) else a for a in args])


def rewrapped(level: levels.Level, args: tuple, values: tuple, result: Any) -> Any:
    """Outputs at the level; an input that came back (written in place) is the argument it was."""
    known = {id(v): a for v, a in zip(values, args, strict=True) if isinstance(v, _C.Tensor)}
    return map_flat(lambda t: known[id(t)] if id(t) in known else join(level, t), result)


def at_grad(level: levels.Level, cls: Any, args: tuple, apply: Callable) -> Any:
    """Forward below; one node with the user's backward at this level."""
    values = values_of(level, args)
    mode = _C.is_grad_enabled()
    result = levels.below(level, apply, cls, values, {}, grad_mode=mode and level.outer_grad_mode)
    outputs = rewrapped(level, args, values, result)
    return cls._record(args, outputs)


def at_jvp(level: levels.Level, cls: Any, args: tuple, apply: Callable) -> Any:
    """Forward below, then the user's jvp on what setup_context kept."""
    values = values_of(level, args)
    tangents = tuple(
        [w.tangent if isinstance(a, _C.Tensor) and (w := behind(a, level)) is not None else None for a in args]
    )

    def run() -> tuple[Any, Any]:
        result = apply(cls, values, {})
        if all(t is None for t in tangents):
            return result, None
        ctx = cls._new_context(values)
        if cls._has_setup_context():
            cls.setup_context(ctx, values, result)
        else:   # forward fills the context itself: run it once more for that
            cls.forward(ctx, *values)
        return result, cls.jvp(ctx, *tangents)

    result, pushed = levels.below(level, run)
    outputs = rewrapped(level, args, values, result)
    if pushed is None:
        return outputs
    pushed = pushed if isinstance(pushed, tuple) else (pushed,)
    flat = outputs if isinstance(outputs, tuple) else (outputs,)
    if len(pushed) != len(flat):
        raise RuntimeError(f"{cls.__name__}.jvp returned {len(pushed)} tangents for {len(flat)} outputs")
    for out, tangent in zip(flat, pushed, strict=True):
        if isinstance(out, _C.Tensor) and tangent is not None:
            behind(out, level).tangent = tangent
    return outputs


# --- vmap -------------------------------------------------------------------------------------------------------------


def at_vmap(level: VmapLevel, cls: Any, args: tuple, apply: Callable) -> Any:
    """The user's batching rule, or one made by running the Function under vmap."""
    dims = tuple([w.dim if isinstance(a, _C.Tensor) and (w := behind(a, level)) is not None else None for a in args])
    values = values_of(level, args)
    if cls.generate_vmap_rule:
        if cls._has_own_vmap():
            raise RuntimeError(f"{cls.__name__}: it both defines vmap and sets generate_vmap_rule = True; choose one")
        fronts = tuple([a if d is None else a.movedim(d, 0) for a, d in zip(values, dims, strict=True)])
        batched = tuple([d is not None for d in dims])
        result = levels.below(level, apply, vmapped(cls, batched, level), fronts, {})
        return map_flat(lambda t: levels.batch(level, t, 0), result)
    if not cls._has_own_vmap():
        raise RuntimeError(
            f"{cls.__name__}: to be used under vmap, an autograd.Function must define the vmap staticmethod or set"
            " generate_vmap_rule = True"
        )
    answer = levels.below(level, lambda: cls.vmap(VmapInfo(level.batch_size, level.randomness), dims, *values))
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise RuntimeError(f"{cls.__name__}.vmap must return (output, out_dims), got {type(answer).__name__}")
    return with_dims(level, *answer, cls.__name__)


def with_dims(level: VmapLevel, result: Any, dims: Any, name: str) -> Any:
    """Outputs of a batching rule with the dims it says they have."""
    if isinstance(result, (tuple, list)):
        listed = dims if isinstance(dims, (tuple, list)) else (dims,) * len(result)
        if len(listed) != len(result):
            raise RuntimeError(f"{name}.vmap returned {len(result)} outputs and {len(listed)} out_dims")
        return type(result)([with_dims(level, m, d, name) for m, d in zip(result, listed, strict=True)])
    if not isinstance(result, _C.Tensor) or dims is None:
        return result
    return levels.batch(level, result, dims + result.ndim if dims < 0 else dims)


def vmapped(cls: Any, batched: tuple[bool, ...], outer: VmapLevel) -> Any:
    """A Function whose forward, backward and jvp are those of `cls` under vmap."""
    size, randomness = outer.batch_size, outer.randomness
    base = cls.__mro__[-2]   # Function itself

    def examples(level: VmapLevel, values: tuple, marks: Any) -> tuple:
        return tuple(
            [
                levels.batch(level, v, 0) if m and isinstance(v, _C.Tensor) else v
                for v, m in zip(values, marks, strict=True)
            ]
        )

    def everything(level: VmapLevel, result: Any) -> Any:
        return map_flat(lambda t: whole(level, t), result)

    class Context:
        """The user's context: what it saves is kept for the batch and handed out as examples."""

        def __init__(self, ctx: Any, level: VmapLevel, outputs: dict[int, Any] | None = None) -> None:
            object.__setattr__(self, "outer", ctx)
            object.__setattr__(self, "level", level)
            object.__setattr__(self, "outputs", outputs or {})   # the batch behind each output, by identity

        def save_for_backward(self, *tensors: Any) -> None:
            self.outer.marks = tuple([isinstance(t, _C.Tensor) and behind(t, self.level) is not None for t in tensors])
            self.outer.save_for_backward(
                *[whole(self.level, t) if m else t for t, m in zip(tensors, self.outer.marks, strict=True)]
            )

        def save_for_forward(self, *tensors: Any) -> None:
            self.outer.forward_marks = tuple(
                [isinstance(t, _C.Tensor) and behind(t, self.level) is not None for t in tensors]
            )
            self.outer.save_for_forward(
                *[whole(self.level, t) if m else t for t, m in zip(tensors, self.outer.forward_marks, strict=True)]
            )

        @property
        def saved_tensors(self) -> tuple:
            kept = self.outer.saved_tensors
            marks = getattr(self.outer, "marks", None)
            if marks is None or len(marks) != len(kept):
                marks = self.outer.forward_marks
            return examples(self.level, kept, marks)

        def mark_non_differentiable(self, *tensors: Any) -> None:
            self.outer.mark_non_differentiable(*[self.outputs.get(id(t), t) for t in tensors])

        def mark_dirty(self, *tensors: Any) -> None:
            raise RuntimeError(f"{cls.__name__}: mark_dirty cannot be used with generate_vmap_rule = True; define vmap")

        def __getattr__(self, name: str) -> Any:
            return getattr(self.outer, name)

        def __setattr__(self, name: str, value: Any) -> None:
            setattr(self.outer, name, value)

    def forward(*args: Any) -> Any:
        level = VmapLevel(size, randomness)
        with levels.opened(level):
            result = cls.forward(*examples(level, args, batched))
        return everything(level, result)

    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        level = VmapLevel(size, randomness)
        with levels.opened(level):
            flat = output if isinstance(output, tuple) else (output,)
            shown = examples(level, flat, (True,) * len(flat))
            context = Context(ctx, level, {id(e): p for e, p in zip(shown, flat, strict=True)})
            cls.setup_context(
                context, examples(level, inputs, batched), shown if isinstance(output, tuple) else shown[0]
            )

    def backward(ctx: Any, *grads: Any) -> tuple:
        level = VmapLevel(size, randomness)
        with levels.opened(level):
            result = cls.backward(Context(ctx, level), *examples(level, grads, (True,) * len(grads)))
        result = result if isinstance(result, tuple) else (result,)
        result = (*result, *(None,) * (len(batched) - len(result)))
        return tuple(
            [
                None if g is None else whole(level, g) if m else total(level, g)
                for g, m in zip(result, batched, strict=True)
            ]
        )

    def jvp(ctx: Any, *tangents: Any) -> Any:
        level = VmapLevel(size, randomness)
        with levels.opened(level):
            result = cls.jvp(Context(ctx, level), *examples(level, tangents, batched))
        return everything(level, result)

    rules = {"forward": forward, "setup_context": setup_context, "backward": backward, "jvp": jvp}
    members = {name: staticmethod(rule) for name, rule in rules.items()}
    return type(base)(f"Vmapped{cls.__name__}", (base,), members | {"generate_vmap_rule": True})


def whole(level: VmapLevel, t: Any) -> Any:
    """All examples with the batch in front; repeated where they are the same."""
    w = behind(t, level)
    if w is None:
        return t.unsqueeze(0).expand((level.batch_size, *t.shape))
    return w.value if w.dim == 0 else w.value.movedim(w.dim, 0)


def total(level: VmapLevel, g: Any) -> Any:
    """The gradient of an argument that was the same for all examples."""
    w = behind(g, level)
    return g * level.batch_size if w is None else w.value.sum(w.dim)
