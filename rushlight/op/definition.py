"""Definitions: an op is one class, and rules belong to its kind.

Adding an op: write a class in `rushlight/definitions/` deriving from one of the kinds (Pointwise, Reduction, View,
Indexed, Composite, Extern) with a `schema` and that kind's body. Defining the class registers it; functions, methods,
in-place and `out=` forms, stubs and the generic tests follow from the registry. Nothing else lists op names.

Enters: definition classes. Leaves: the core's overloads, made when the op is first called. How names become ops, and
why most definitions are never imported, is in `registry.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

from .. import _C
from ..loops.lowered import Lowered, NotLowerable
from .layout import Layout
from .registry import (  # noqa: F401 - kinds import theirs from here
    KIND_PLANNED,
    KIND_POINTWISE,
    KIND_PYTHON,
    find_op,
    ops,
    register,
    schemas_of,
)
from .schema import TYPES, Param, Schema, parse
from .unchanged import conditions

SAVE_NO, SAVE_DATA, SAVE_META, SAVE_VALUE, SAVE_FREED_META = 0, 1, 2, 3, 4
OUT_POINTWISE, OUT_APART, OUT_ASKED = 0, 1, 2  # what the core may do with out= by itself


class OverloadName(str):
    """The name of an overload's op. Called, as handlers written for PyTorch do, it tells the namespace too."""

    __slots__ = ()

    def __call__(self) -> str:
        return str(self) if "::" in self else f"aten::{self}"


class Meta:
    """Annotation in a vjp's signature: keep the shape, dtype and device of this tensor, not its data."""


class FreedMeta:
    """The same, of a tensor that PyTorch keeps whole: a second backward without retain_graph misses it."""


SAVE_BY_ANNOTATION = {"Meta": SAVE_META, "FreedMeta": SAVE_FREED_META}


class OpDefinition:
    """What every kind shares. One instance serves one schema (and its in-place form another)."""

    schema: ClassVar[str | tuple[str, ...]]
    aliases: ClassVar[tuple[str, ...]] = ()  # other names; "special.expit" is a function in that namespace only
    function: ClassVar[bool] = True          # published as rushlight.<name> (or in `namespace`)
    method: ClassVar[bool] = True            # published as Tensor.<name>
    inplace: ClassVar[bool] = False          # derive <name>_
    only_inplace: ClassVar[bool] = False     # publish <name>_ alone: copy_, zero_
    out: ClassVar[bool] = True               # accept out=
    # out= may share no memory with an input (with these inputs): elements are read after others are written
    own_out: ClassVar[bool | tuple[str, ...]] = False
    takes_out_dtype: ClassVar[bool] = False  # without dtype=, the result is made in that of out=
    exact_out: ClassVar[bool] = False        # out= must have the result's dtype: libraries write it directly
    namespace: ClassVar[str | None] = None   # "special", "linalg", "nn.functional", ...
    dunder: ClassVar[tuple[str, ...]] = ()   # operator methods: "__add__", and reflected "__radd__"
    method_self: ClassVar[str | None] = None # the parameter a method call is made on, when it is not the first
    inplace_flag: ClassVar[bool] = False     # the function also takes a last `inplace=False`, as nn.functional's do
    # number parameters for which 2, 0.5 and the like deserve their own kernel
    compiled_in: tuple[str, ...] = ()
    spread: ClassVar[bool] = False           # f(a, b) means f([a, b])
    differentiable: ClassVar[bool] = True
    custom: ClassVar[bool] = False           # made by rushlight.library: never decomposed
    layout: ClassVar[Layout] = Layout.OWN    # how results lie in memory
    # when the first argument already is the result: what each parameter asks for then, see op/unchanged.py
    unchanged: ClassVar[dict[str, Any] | None] = None
    begins: ClassVar[bool] = False           # its result is filled while the program goes on: begin(target, *args)
    ends: ClassVar[bool] = False             # gives its argument when what fills that is done
    # law(self, dtype, *numbers): of an op that fills its argument with random numbers: what the core's sampler takes
    law: ClassVar[Callable | None] = None
    is_composite: ClassVar[bool] = False     # the op is its body: the dispatcher sees the ops in it
    is_portable: ClassVar[bool] = False      # exported programs hold the call, as its body suits one processor
    body: ClassVar[bool] = False             # `run` is written with ops: transforms pass through it
    replays: ClassVar[bool] = False          # the body, or `run`, may become part of a plan: see op/replay.py
    joins: ClassVar[str | None] = None       # "along" or "anew": the core puts tensors together by itself (csrc/join.h)
    plan_per_shape: ClassVar[bool] = False   # where it replays: sizes decide too much for a plan to hold for others
    # results: "keep" views of tensors the body made (PyTorch's are such), "hide" views of arguments
    views: ClassVar[str | None] = None
    batch: ClassVar[str | None] = None       # how vmap runs it: see rules/batching.py
    example_ndim: ClassVar[int] = 0          # batch = "fold": dims of one example
    # vmap(self, level, args, dims): a batching rule of its own, see rules/batching.py
    vmap: ClassVar[Callable | None] = None
    kind: ClassVar[int] = KIND_PYTHON
    tag: ClassVar[str] = ""                  # what PyTorch's tags call the kind
    vjp: ClassVar[Callable | None] = None
    saved_results: ClassVar[tuple[int, ...] | None] = None   # of several results, those the vjp reads; None: all

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

    @classmethod
    def overloads(cls, is_inplace: bool, is_reflected: bool) -> list[Any]:
        """The core's objects for the schemas, in a form that writes its first argument or takes it second (`2 - x`)."""
        found = []
        for text in schemas_of(cls) if cls.inplace or not is_inplace else ():
            schema = parse(text)
            if is_inplace:
                schema = with_first(schema, "Tensor")   # what is written cannot be a number
            elif is_reflected:
                schema = with_first(schema, "Tensor|Scalar")
            found.append(cls(schema, is_inplace).overload())
            if cls.inplace_flag and not is_inplace:
                found.append(InplaceSwitch(schema).overload())
        return found

    @classmethod
    def self_position(cls) -> int:
        """Which parameter a method call is made on."""
        return 0 if cls.method_self is None else parse(schemas_of(cls)[0]).index(cls.method_self)

    # What the kind supplies -----------------------------------------------------------------------------------------

    def plan(self, args: tuple) -> Any:
        """The plan for these bound arguments, or None to run in Python every time. Kinds make plans; no definition."""
        return None

    def is_planned(self, args: tuple) -> bool:
        """Whether the kind plans such a call; where not, `run` serves it. May raise for arguments the op refuses."""
        return True

    def lower(self, args: tuple) -> Lowered:
        """What the op computes for these bound arguments, element by element. Kinds that cannot say so are externs."""
        raise NotLowerable(
            f"{self.name}: a {type(self).__mro__[1].__name__} op is an extern: it has no loops to lower to"
        )

    def run(self, *args: Any) -> Any:
        """The op in Python, for kinds and cases without a plan."""
        raise NotImplementedError(f"{self.name}: no implementation for these arguments")

    def is_view(self) -> bool:
        return False

    def records(self) -> bool:
        """Whether calls put a node of their own on the tape."""
        return self.differentiable and type(self).vjp is not None

    # Making the core's overload
    # -----------------------------------------------------------------------------------------

    def saved_names(self) -> dict[str, int]:
        """Parameters the vjp names, with how each is kept; `result` included."""
        if type(self).vjp is None:
            return {}
        kept = {}
        rule = type(self).vjp
        for name in parameters_of(rule)[2:]:
            said: Any = rule.__annotations__.get(name)
            kept[name] = SAVE_BY_ANNOTATION.get(getattr(said, "__name__", said), SAVE_DATA)
        return kept

    def overload(self) -> Any:
        """The core's object for this schema."""
        if self.joins:
            _C.set_join(self, self.joins == "anew")
        saved = self.saved_names()
        params = []
        for i, p in enumerate(self.spec.params):
            keep = saved.get(p.name, SAVE_NO)
            if keep == SAVE_DATA and not p.is_tensor:
                keep = SAVE_VALUE
            last = i + 1 == len(self.spec.params) or self.spec.params[i + 1].keyword_only
            varargs = (p.type in ("int[]", "int[]?") or self.spread) and last and not p.keyword_only
            default = None if p.required else p.default
            params.append((p.name, TYPES[p.type], p.keyword_only, varargs, not p.required, default, keep, p.varies))
        return _C.Overload(
            OverloadName(self.name), self, self.kind, params,
            run=self.run, vjp=self.positional_vjp(saved), mask_vjp=self.mask_vjp(), inplace=self.is_inplace,
            records=self.records(), is_view=self.is_view(), results=self.result_views(),
            # others are handed the elements that a tensor with a conjugate or negative bit shows (base/bits.py)
            sees_bits=self.is_view() or self.body or self.kind == KIND_POINTWISE,
            saves_result=self.kept_results() if "result" in saved else 0, has_out=self.out and not self.is_inplace,
            out_rule=OUT_ASKED if self.takes_out_dtype else OUT_APART if self.own_out else OUT_POINTWISE,
            keys_numbers=bool(self.compiled_in), replays=self.replays and self.kind == KIND_PYTHON,
            unchanged=None if self.unchanged is None or self.is_inplace else conditions(self.spec, self.unchanged),
        )

    def result_views(self) -> int:
        """What becomes of results that are views, as the core counts it: see `views`."""
        if self.views is None:
            return int("(a" in self.spec.text[self.spec.text.rindex("->") :])
        return {"keep": 1, "hide": 2}[self.views]

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

        # Rules usually name their parameters in the schema's order: then the tape calls them as they are, and looks the
        # gradients up by name itself.
        if list(saved) == [*([*order, "result"] if keeps_result else order), *absent]:
            if not absent:
                return functools.partial(rule, self)
            nothing = (None,) * len(absent)
            return lambda g, *values: rule(self, g, *values, *nothing)

        def named(g: Any, *values: Any) -> dict[str, Any]:
            kept = dict(zip(order, values, strict=False))
            if keeps_result:
                kept["result"] = values[len(order)]
            return rule(self, g, **kept, **absent)

        def vjp(g: Any, *values: Any) -> tuple:
            grads = named(g, *values)
            return tuple([grads.get(name) for name in tensors])

        return vjp

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.spec.text}>"


def parameters_of(rule: Any) -> tuple[str, ...]:
    """Names of the parameters of a plain function, without the cost of importing `inspect`."""
    code = rule.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


class InplaceSwitch(OpDefinition):
    """`relu(x, inplace=True)`: the op, or its in-place form."""

    out = False
    body = True
    is_composite = True

    def __init__(self, schema: Schema) -> None:
        last = Param("inplace", "bool", False, False)
        super().__init__(schema.but(params=(*(p.but(keyword_only=False) for p in schema.params), last)))

    def run(self, *args: Any) -> Any:
        *rest, inplace = args
        return ops[self.spec.name + "_" if inplace else self.spec.name](*rest)


def with_first(schema: Schema, kind: str) -> Schema:
    """The schema with its first parameter of type `kind`."""
    if not schema.params or schema.params[0].type == kind:
        return schema
    return schema.but(params=(schema.params[0].but(type=kind), *schema.params[1:]))
