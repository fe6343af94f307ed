"""Definitions and the registry: an op is one class, and rules belong to its kind.

Adding an op: write a class in `rushlight/ops/` deriving from one of the kinds (Pointwise, Reduction, View, Indexed,
Composite, Extern) with a `schema` and that kind's body. Defining the class registers it; functions, methods,
in-place and `out=` forms, stubs and the generic tests follow from the registry. Nothing else lists op names.

Enters: definition classes. Leaves: the core's `Op` objects, whose overloads are made when first called, so that
importing hundreds of definitions costs little.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from .. import _C
from .schema import TYPES, Param, Schema, op_name, parse

KIND_POINTWISE, KIND_PLANNED, KIND_PYTHON = 0, 1, 2
SAVE_NO, SAVE_DATA, SAVE_META, SAVE_VALUE = 0, 1, 2, 3


class Meta:
    """Annotation in a vjp's signature: keep the shape, dtype and device of this tensor, not its data."""


class OpDefinition:
    """What every kind shares. One instance serves one schema (and its in-place form another)."""

    schema: ClassVar[str | tuple[str, ...]]
    aliases: ClassVar[tuple[str, ...]] = ()  # other names; "special.expit" is a function in that namespace only
    function: ClassVar[bool] = True          # published as rushlight.<name> (or in `namespace`)
    method: ClassVar[bool] = True            # published as Tensor.<name>
    inplace: ClassVar[bool] = False          # derive <name>_
    only_inplace: ClassVar[bool] = False     # publish <name>_ alone: copy_, zero_
    out: ClassVar[bool] = True               # accept out=
    own_out: ClassVar[bool] = False          # out= may share no memory with an input: elements are read after others are written
    exact_out: ClassVar[bool] = False        # out= must have the result's dtype: libraries write it directly
    namespace: ClassVar[str | None] = None   # "special", "linalg", "nn.functional", ...
    dunder: ClassVar[tuple[str, ...]] = ()   # operator methods: "__add__", and reflected "__radd__"
    method_self: ClassVar[str | None] = None # the parameter a method call is made on, when it is not the first
    inplace_flag: ClassVar[bool] = False     # the function also takes a last `inplace=False`, as nn.functional's do
    compiled_in: ClassVar[tuple[str, ...]] = ()   # number parameters for which 2, 0.5 and the like deserve their own kernel
    spread: ClassVar[bool] = False           # f(a, b) means f([a, b])
    differentiable: ClassVar[bool] = True
    custom: ClassVar[bool] = False           # made by rushlight.library: never decomposed
    body: ClassVar[bool] = False             # `run` is written with ops: transforms pass through it
    batch: ClassVar[str | None] = None       # how vmap runs it: see op/batching.py
    example_ndim: ClassVar[int] = 0          # batch = "fold": dims of one example
    vmap: ClassVar[Callable | None] = None   # vmap(self, level, args, dims): a batching rule of its own, see op/batching.py
    kind: ClassVar[int] = KIND_PYTHON
    vjp: ClassVar[Callable | None] = None
    saved_results: ClassVar[tuple[int, ...] | None] = None   # of several results, those the vjp reads; None: all
    transpose_at: ClassVar[float] = 0.0      # the gradient at which forward mode transposes the vjp; for rules that take its logarithm

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "schema" in cls.__dict__:
            register(cls)

    def __init__(self, schema: Schema, is_inplace: bool = False) -> None:
        clash = type(self).vjp is not None and any(p.name == "result" for p in schema.params)
        assert not clash, f"{schema}: 'result' names the op's output in derivative rules"
        self.spec = schema
        self.is_inplace = is_inplace
        self.name = schema.name + ("_" if is_inplace else "")

    # What the kind supplies -----------------------------------------------------------------------------------------

    def plan(self, args: tuple) -> Any:
        """The plan for these bound arguments, or None to run in Python every time."""
        return None

    def run(self, *args: Any) -> Any:
        """The op in Python, for kinds and cases without a plan."""
        raise NotImplementedError(f"{self.name}: no implementation for these arguments")

    def is_view(self) -> bool:
        return False

    def records(self) -> bool:
        """Whether calls put a node of their own on the tape."""
        return self.differentiable and type(self).vjp is not None

    # Making the core's overload -----------------------------------------------------------------------------------------

    def saved_names(self) -> dict[str, int]:
        """Parameters the vjp names, with how each is kept; `result` included."""
        if type(self).vjp is None:
            return {}
        kept = {}
        for name, p in list(inspect.signature(type(self).vjp).parameters.items())[2:]:
            kept[name] = SAVE_META if p.annotation in (Meta, "Meta") else SAVE_DATA
        return kept

    def overload(self) -> Any:
        """The core's object for this schema."""
        saved = self.saved_names()
        params = []
        for i, p in enumerate(self.spec.params):
            keep = saved.get(p.name, SAVE_NO)
            if keep == SAVE_DATA and not p.is_tensor:
                keep = SAVE_VALUE
            last = i + 1 == len(self.spec.params) or self.spec.params[i + 1].keyword_only
            varargs = (p.type in ("int[]", "int[]?") or self.spread) and last and not p.keyword_only
            default = None if p.required else p.default
            params.append((p.name, TYPES[p.type], p.keyword_only, varargs, not p.required, default, keep))
        return _C.Overload(
            self.name, self, self.kind, params,
            run=self.run, vjp=self.positional_vjp(saved), mask_vjp=self.mask_vjp(), inplace=self.is_inplace,
            records=self.records(), is_view=self.is_view(), saves_result=self.kept_results() if "result" in saved else 0, has_out=self.out and not self.is_inplace,
            keys_numbers=bool(self.compiled_in),
        )  # fmt: skip

    def kept_results(self) -> int:
        """Bit i is set when the vjp reads result i; the others reach it as None, and may be freed or overwritten."""
        return -1 & (1 << 64) - 1 if self.saved_results is None else sum(1 << i for i in self.saved_results)

    def mask_vjp(self) -> Callable | None:
        return None

    def positional_vjp(self, saved: dict[str, int]) -> Callable | None:
        """The vjp as the tape calls it: gradient, then saved values by parameter order, then the result.

        Answers with gradients by parameter name, or as a tuple aligned with the tensor parameters.
        """
        rule = type(self).vjp
        if rule is None:
            return None
        order = [p.name for p in self.spec.params if p.name in saved]
        tensors = [p.name for p in self.spec.params if p.is_tensor]
        # A rule shared by overloads may name parameters one of them lacks.
        absent = {name: None for name in saved if name not in order and name != "result"}
        keeps_result = "result" in saved

        def named(g: Any, *values: Any) -> dict[str, Any]:
            kept = dict(zip(order, values, strict=False))
            if keeps_result:
                kept["result"] = values[len(order)]
            return rule(self, g, **kept, **absent)

        # Rules usually name their parameters in the schema's order: then the tape calls them as they are, and looks the
        # gradients up by name itself.
        if not absent and list(saved) == ([*order, "result"] if keeps_result else order):
            return functools.partial(rule, self)

        def vjp(g: Any, *values: Any) -> tuple:
            grads = named(g, *values)
            return tuple([grads.get(name) for name in tensors])

        return vjp

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.spec.text}>"


# --- registry ---------------------------------------------------------------------------------------------------------------

definitions: dict[str, list[type[OpDefinition]]] = {}
ops: dict[str, Any] = {}
forms: dict[str, list[Any]] = {}   # every op object of a name: the function, and its operator forms
_new_names: list[str] = []


def schemas_of(cls: type[OpDefinition]) -> tuple[str, ...]:
    """The schemas of a definition, always as a tuple."""
    return (cls.schema,) if isinstance(cls.schema, str) else tuple(cls.schema)


def register(cls: type[OpDefinition]) -> None:
    """Called when a definition class is made: its names become ops."""
    name = op_name(schemas_of(cls)[0])
    definitions.setdefault(name, []).append(cls)
    names = [(name, False)] + ([(name + "_", True)] if cls.inplace else [])
    for op, is_inplace in names:
        if op in ops:
            ops[op]._reset()
        else:
            ops[op] = make_op(op, name, is_inplace)
            _new_names.append(op)


def make_op(op: str, name: str, is_inplace: bool, mode: int = 0) -> Any:
    """The public op object; its overloads are built at the first call."""

    def resolve() -> list:
        if mode == OPERATOR:   # the same overloads, so that plans and registered kernels are shared
            return ops[op].overload_list
        found = []
        for cls in definitions[name]:
            if is_inplace and not cls.inplace:
                continue
            for text in schemas_of(cls):
                schema = parse(text)
                if is_inplace:
                    schema = with_first(schema, "Tensor")   # what is written cannot be a number
                elif mode == REFLECTED:
                    schema = with_first(schema, "Tensor|Scalar")   # 2 - x
                found.append(cls(schema, is_inplace).overload())
                if cls.inplace_flag and not is_inplace:
                    found.append(InplaceSwitch(schema).overload())
        return found

    made = _C.Op(op.removeprefix("_functional_"), resolve, mode)   # nn.functional's own spelling of an op is called as the op is
    forms.setdefault(op, []).append(made)
    first = definitions[name][0]
    made.__doc__ = " | ".join(schemas_of(first)) + "\n\n" + (first.__doc__ or "")
    return made


class InplaceSwitch(OpDefinition):
    """`relu(x, inplace=True)`: the op, or its in-place form."""

    out = False
    body = True

    def __init__(self, schema: Schema) -> None:
        last = Param("inplace", "bool", False, False)
        super().__init__(replace(schema, params=(*(replace(p, keyword_only=False) for p in schema.params), last)))

    def run(self, *args: Any) -> Any:
        *rest, inplace = args
        return ops[self.spec.name + "_" if inplace else self.spec.name](*rest)


def with_first(schema: Schema, kind: str) -> Schema:
    """The schema with its first parameter of type `kind`."""
    if not schema.params or schema.params[0].type == kind:
        return schema
    return replace(schema, params=(replace(schema.params[0], type=kind), *schema.params[1:]))


def find_op(name: str) -> Any:
    """The op called `name`; AttributeError if there is none."""
    try:
        return ops[name]
    except KeyError:
        raise AttributeError(f"rushlight has no op called {name!r}") from None


def suffixes(cls: type[OpDefinition]) -> tuple[str, ...]:
    """Endings under which an op is published: itself, its in-place form, or both."""
    if cls.only_inplace:
        return ("_",)
    return ("", "_") if cls.inplace else ("",)


def published(namespace: str) -> dict[str, Any]:
    """Public functions of a namespace ("" is the top level), by name."""
    found: dict[str, Any] = {}
    for name, classes in definitions.items():
        for cls in classes:
            for label in (name, *cls.aliases) if cls.function else ():
                space, _, last = label.rpartition(".")
                if (space or cls.namespace or "") == namespace:
                    last = last.removeprefix(namespace + "_") if namespace else last   # linalg_svd is linalg.svd
                    for suffix in suffixes(cls):
                        found.setdefault(last + suffix, ops[name + suffix])
    return found


def publish(tensor_type: type) -> None:
    """Install methods and operators on the tensor type."""
    for name, classes in definitions.items():
        for cls in classes:
            for suffix in suffixes(cls):
                for label in (name, *cls.aliases):
                    if cls.method and "." not in label and label + suffix not in tensor_type.__dict__:
                        setattr(tensor_type, label + suffix, as_method(cls, ops[name + suffix]))
            for special in cls.dunder:
                install_operator(tensor_type, special, name)


def as_method(cls: type[OpDefinition], op: Any) -> Any:
    """The op as a method; where `self` is not its first parameter, a function that puts it in place."""
    if cls.method_self is None:
        return op
    position = parse(schemas_of(cls)[0]).index(cls.method_self)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return op(*args[:position], self, *args[position:], **kwargs)

    method.__name__ = method.__qualname__ = op.__name__
    method.__doc__ = op.__doc__
    return method


_IN_PLACE = frozenset(("add", "sub", "mul", "div", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift", "matmul"))
OPERATOR, REFLECTED = 1, 2


def install_operator(tensor_type: type, special: str, name: str) -> None:
    """`x + y`, `2 - x` and `x += y`: the op in a form that answers NotImplemented to operands it cannot take."""
    base = special.strip("_")
    is_inplace = base[0] == "i" and base[1:] in _IN_PLACE
    is_reflected = base[0] == "r" and base[1:] in _IN_PLACE
    target = name + "_" if is_inplace and name + "_" in ops else name
    setattr(tensor_type, special, make_op(target, name, target != name, REFLECTED if is_reflected else OPERATOR))


def is_body(overload: Any) -> bool:
    """Whether transforms pass through the op, seeing the ops it is written with instead."""
    definition = overload.definition
    is_open = type(definition).vmap is None and definition.batch in (None, "random", "body")
    return definition.body and is_open and not overload.records


def explain_mismatch(op: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    """Raise the TypeError that says what was given and what the op takes."""
    overloads = op.overload_list if isinstance(op, _C.Op) else [op]
    name = op.__name__ if isinstance(op, _C.Op) else op.name
    given = [type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()]
    wanted = "\n".join(f"    {o.definition.spec}" for o in overloads)
    known = {p for o in overloads for p in o.param_names}
    unknown = [k for k in kwargs if k not in known and k != "out"]
    if unknown:
        raise TypeError(f"{name}() got an unexpected keyword argument '{unknown[0]}'. Signatures:\n{wanted}")
    raise TypeError(f"{name}(): argument types ({', '.join(given)}) fit no signature. Expected one of:\n{wanted}")
