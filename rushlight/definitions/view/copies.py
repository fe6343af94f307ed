"""The copying forms of views: `permute_copy` is `permute` with memory of its own.

Enters: the definitions of this package's views. Leaves: an op `<name>_copy` for each public one, with the view's
own schema, whose body is the view and a copy; gradients and shapes without data pass through both. Besides, the two
that are no views of this package: `split_with_sizes`, made of `split`, and `detach`.
"""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.base.shape import contiguous_format
from rushlight.definitions.view import dims, parts, reinterpret, shape
from rushlight.op import Composite, Geometry, View, find_op
from rushlight.op.registry import op_name, schemas_of

METHODS = ("narrow",)   # the only copying form that PyTorch also publishes as a method


def renamed(schema: str, name: str) -> str:
    """The schema under another name; its results alias nothing."""
    return name + schema[len(schema.partition("(")[0].partition(".")[0]) :].replace("Tensor(a)", "Tensor")


def copied(view: Any) -> Any:
    """A view, or the parts of a splitting one, as dense tensors."""
    if isinstance(view, (tuple, list)):
        return tuple(copied(part) for part in view)
    return view.clone(memory_format=contiguous_format)


def copying_form(name: str, view: type) -> type:
    """Define `<name>_copy` for the view op `name`."""

    def compute(self: Any, *args: Any) -> Any:
        if name == "narrow" and args[1] >= args[0].ndim > 0:   # not the view's IndexError
            raise RuntimeError(f"narrow_copy: expected dim to be less than {args[0].ndim}, got {args[1]}")
        keywords = {p.name: a for p, a in zip(self.spec.params, args, strict=True) if p.keyword_only}
        if name == "view" and not isinstance(args[1], _C.dtype):   # a copy can have any elements side by side
            return copied(find_op("reshape")(*args))
        return copied(find_op(name)(*args[: len(args) - len(keywords)], **keywords))

    body = {
        "__doc__": f"`{name}` with memory of its own.",
        "__module__": __name__,
        "schema": tuple(renamed(s, f"{name}_copy") for s in schemas_of(view)),
        "method": name in METHODS,
        "compute": compute,
        "batch": "body",
        "vjp": view.vjp,
    }
    return type(f"{view.__name__}Copy", (Composite,), body)


class Alias(View):
    """The same elements through another tensor."""

    schema = "alias(Tensor(a) input) -> Tensor(a)"
    function = method = False

    def geometry(self, t):
        return Geometry(tuple(t.shape), t.stride())

    def vjp(self, g):
        return {"input": g}

    def inverse(self, base, new, which):
        return new


class DetachCopy(Composite):
    """The elements with memory of their own and without history."""

    schema = "detach_copy(Tensor input) -> Tensor"
    method = False

    def compute(self, input):
        return copied(input.detach())


def define_all() -> None:
    """Define the copying form of every public view of this package."""
    known = [Alias, *(item for module in (dims, parts, reinterpret, shape) for item in vars(module).values())]
    for cls in known:
        if isinstance(cls, type) and "schema" in vars(cls):
            name = op_name(schemas_of(cls)[0])
            if (issubclass(cls, View) and not name.startswith("_")) or name == "split_with_sizes":
                copying_form(name, cls)


define_all()
