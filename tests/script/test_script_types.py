"""The types of scripts: which may stand for which, what two have in common, how they print, as PyTorch 2.13 has it."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.script import types as t

INT, FLOAT, STR, BOOL, NONE, ANY, NUMBER = (t.IntType(), t.FloatType(), t.StringType(), t.BoolType(), t.NoneType(),
                                            t.AnyType(), t.NumberType())
SHAPED = t.TensorType.of(rl.ones(2, 3))
UNDER = [
    (INT, NUMBER), (INT, t.OptionalType(INT)), (NONE, t.OptionalType(INT)), (INT, t.UnionType([INT, STR])),
    (t.OptionalType(INT), t.UnionType([INT, STR, NONE])), (t.OptionalType(INT), t.OptionalType(NUMBER)),
    (t.TupleType([INT, t.TENSOR]), t.TupleType([INT, t.OptionalType(t.TENSOR)])), (SHAPED, t.TENSOR),
    (t.FutureType(INT), t.FutureType(ANY)), (t.ListType(INT), ANY), (t.UnionType([FLOAT, INT]), NUMBER),
]
APART = [
    (BOOL, INT), (INT, FLOAT), (t.TENSOR, SHAPED), (t.ListType(INT), t.ListType(NUMBER)), (ANY, INT),
    (t.ListType(SHAPED), t.ListType(t.TENSOR)), (t.DictType(STR, INT), t.DictType(STR, ANY)),
    (t.OptionalType(INT), INT),
    (t.TupleType([INT]), t.TupleType([INT, INT])), (STR, NONE),
]


@pytest.mark.parametrize(("lower", "upper"), UNDER)
def test_what_may_stand_for_what(lower: t.Type, upper: t.Type) -> None:
    assert lower.is_subtype_of(upper)


@pytest.mark.parametrize(("lower", "upper"), APART)
def test_what_may_not(lower: t.Type, upper: t.Type) -> None:
    assert not lower.is_subtype_of(upper)


@pytest.mark.parametrize(("type", "annotation", "graph"), [
    (t.ListType(t.OptionalType(INT)), "List[Optional[int]]", "int?[]"), (t.TupleType([]), "Tuple[()]", "()"),
    (t.DictType(STR, t.ListType(t.TENSOR)), "Dict[str, List[Tensor]]", "Dict(str, Tensor[])"),
    (NUMBER, "number", "Scalar"),
    (t.UnionType([INT, STR]), "Union[int, str]", "Union(int, str)"), (t.AwaitType(INT), "Await[int]", "Await(int)"),
    (SHAPED, "Tensor", "Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)"),
    (t.TensorType.of(rl.ones(())), "Tensor", "Float(requires_grad=0, device=cpu)"),
    (t.TENSOR.with_sizes([2, None, 3]), "Tensor", "Tensor(2, *, 3)"),
    (t.TENSOR.with_dtype(rl.half), "Tensor", "HalfTensor"),
    (t.union_of([INT, FLOAT, t.ComplexType()]), "number", "Scalar"),
    (t.optional_of(t.OptionalType(INT)), "Optional[int]", "int?"),
])
def test_how_they_print(type: t.Type, annotation: str, graph: str) -> None:
    assert (type.annotation_str, type.ir_text) == (annotation, graph)


def test_what_two_have_in_common() -> None:
    assert t.unify(INT, NONE) == t.OptionalType(INT)
    assert t.unify(SHAPED, t.TensorType.of(rl.ones(2, 4))).ir_text.startswith("Float(2, *")
    assert t.unify(t.TupleType([INT, NONE]), t.TupleType([INT, STR])) == t.TupleType([INT, t.OptionalType(STR)])
    assert t.unify(INT, STR) is None and t.unify(INT, STR, to_union=True) == t.UnionType([STR, INT])
    with pytest.raises(RuntimeError, match="dict for key type"):
        t.DictType(t.ListType(INT), INT)
