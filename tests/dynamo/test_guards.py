"""Guards hold for what was captured, and fail for everything else a graph could not serve."""

import gc
import weakref

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.dynamo.values.guards import (
    Guard,
    GuardTree,
    Kind,
    Predicate,
    Symbolic,
    TensorLayout,
    mode_guard,
    same_value,
)
from rushlight.dynamo.values.sources import (
    Attribute,
    Cell,
    Constant,
    DictKey,
    DictOf,
    Global,
    Item,
    Length,
    Local,
    ShapeOf,
    StrideOf,
    TypeOf,
)

X = Local("x")


def holds(guard, value, globals=None, cells=(), freevars=()):
    tree = GuardTree([guard], ("x",), freevars)
    answer = tree.check((value,), globals or {}, cells)
    assert answer is (tree.explain((value,), globals or {}, cells) is None)
    return answer


class Plain:
    def __init__(self, **fields):
        self.__dict__.update(fields)


MARK = object()
VALUE_CASES = [
    (Kind.TYPE_IS, int, [1], [True, 1.0, "a", None]),
    (Kind.ID_IS, MARK, [MARK], [object(), None]),
    (Kind.ID_IS, None, [None], [0, False]),
    (Kind.EQUALS, 1, [1], [True, 1.0, 2, None]),
    (Kind.EQUALS, 2**70, [2**70], [2**70 + 1]),
    (Kind.EQUALS, 0.0, [0.0], [-0.0, 0, False]),
    (Kind.EQUALS, float("nan"), [float("nan")], [0.0]),
    (Kind.EQUALS, "abc", ["abc", "".join(["a", "bc"])], ["abd", b"abc"]),
    (Kind.EQUALS, (1, (2.0, "x")), [(1, (2.0, "x"))], [(True, (2.0, "x")), (1, (2, "x")), [1, (2.0, "x")], (1,)]),
    (Kind.EQUALS, slice(1, 2), [slice(1, 2)], [slice(1, 3)]),
    (Kind.EQUALS, torch.float32, [torch.float32], [torch.float64]),
    (Kind.LENGTH, 2, [[1, 2], (1, 2), {1: 1, 2: 2}, "ab"], [[], [1, 2, 3], 5]),
    (Kind.DICT_KEYS, ("a", 1), [{"a": 0, 1: 0}], [{1: 0, "a": 0}, {"a": 0}, {"a": 0, True: 0}, {"a": 0, 1: 0, 2: 0}]),
    (Kind.HAS_KEY, "a", [{"a": 1}], [{}, {"b": 1}]),
    (Kind.LACKS_KEY, "a", [{}, {"b": 1}], [{"a": 1}]),
    (Kind.HAS_ATTR, "a", [Plain(a=1)], [Plain(), 3]),
    (Kind.LACKS_ATTR, "a", [Plain(), 3], [Plain(a=1)]),
    (Kind.PREDICATE, Predicate(lambda v: v > 3, "more than 3"), [4], [3, "a"]),
    (Kind.SYMBOLIC, Symbolic((ShapeOf(X, 0), Length(X)), lambda a, b: a == b and a % 2 == 0, "x is even"),
     [torch.ones(2), torch.ones(4)], [torch.ones(3), 7]),
]


@pytest.mark.parametrize("kind, wanted, good, bad", VALUE_CASES, ids=lambda v: v.name if isinstance(v, Kind) else None)
def test_guards_on_values(kind, wanted, good, bad):
    guard = Guard(X, kind, wanted, "here.py:1 in f")
    for value in good:
        assert holds(guard, value), (guard, value)
    for value in bad:
        assert not holds(guard, value), (guard, value)
    tree = GuardTree([guard], ("x",))
    failed, why = tree.explain((bad[0],), {})
    assert failed.source is X and failed.kind is kind and "x" in why and "here.py:1" in str(guard)


def test_sources_are_followed():
    inner = Plain(items=[1, {"k": "found"}], t=torch.ones(2, 3))
    cell = (lambda: inner).__closure__[0]
    cases = [
        (Item(Item(Attribute(X, "items"), 1), "k"), "found"),
        (Item(Item(Item(DictOf(X), "items"), 1), "k"), "found"),
        (DictKey(Item(Attribute(X, "items"), 1), 0), "k"),
        (Length(Attribute(X, "items")), 2),
        (ShapeOf(Attribute(X, "t"), 1), 3),
        (StrideOf(Attribute(X, "t"), 0), 3),
        (Item(Attribute(Cell("c"), "items"), 0), 1),
        (Global("g"), 5),
        (Item(Constant({"z": 3}), "z"), 3),
    ]
    for source, value in cases:
        guard = Guard(source, Kind.EQUALS, value)
        assert holds(guard, inner, {"g": 5}, (cell,), ("c",)), source
        assert not holds(Guard(source, Kind.EQUALS, "other"), inner, {"g": 5}, (cell,), ("c",)), source
    assert holds(Guard(Global("len"), Kind.ID_IS, len), inner)
    assert not holds(Guard(Global("len"), Kind.ID_IS, len), inner, {"len": 3})
    assert holds(Guard(TypeOf(X), Kind.ID_IS, Plain), inner)
    assert str(cases[1][0]) == "x.items[1]['k']"


def test_paths_that_end_early_fail_the_guard():
    guard = Guard(Item(Attribute(X, "items"), "k"), Kind.EQUALS, 1)
    for value in (Plain(), Plain(items={}), Plain(items=[1]), None):
        assert not holds(guard, value)


def layout_guard(t, dynamic=()):
    return Guard(X, Kind.TENSOR, TensorLayout.of(t, dynamic))


def test_tensor_guard():
    t = torch.ones(4, 6)
    guard = layout_guard(t)
    assert holds(guard, torch.zeros(4, 6))
    others = [torch.ones(4, 7), torch.ones(4), torch.ones(6, 4).t(), torch.ones(4, 6, dtype=torch.float64),
              torch.ones(4, 6, requires_grad=True), nn.Parameter(t.clone(), requires_grad=False),
              torch.ones(4, 6, device="meta"), 3, None]
    for other in others:
        assert not holds(guard, other), other
    with torch.inference_mode():
        assert not holds(guard, torch.ones(4, 6))


def test_tensor_guard_with_open_sizes():
    guard = layout_guard(torch.ones(4, 6, 2), dynamic=(1,))
    assert holds(guard, torch.ones(4, 9, 2))
    assert not holds(guard, torch.ones(5, 6, 2)) and not holds(guard, torch.ones(4, 6, 3))
    assert not holds(guard, torch.ones(4, 2, 9).transpose(1, 2))
    assert not holds(guard, torch.ones(4, 18, 2)[:, ::2])


def test_aliasing():
    a, b = torch.ones(2), torch.ones(2)
    same = Guard(Local("a"), Kind.ALIASED, Local("b"))
    distinct = Guard(Local("a"), Kind.NOT_ALIASED, (Local("b"),))
    for guard, values, answer in ((same, (a, a), True), (same, (a, b), False),
                                  (distinct, (a, b), True), (distinct, (a, a), False)):
        assert GuardTree([guard], ("a", "b")).check(values, {}) is answer


def test_modes():
    def fails_under(context):
        with context:
            return not holds(guard, 1)

    guard = mode_guard()
    assert holds(guard, 1)
    assert fails_under(torch.no_grad()) and fails_under(torch.inference_mode())
    assert fails_under(torch.autocast("cpu", dtype=torch.bfloat16))
    assert fails_under(torch.device("meta"))
    torch.set_default_dtype(torch.float64)
    try:
        assert not holds(guard, 1)
    finally:
        torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(True)
    try:
        assert not holds(guard, 1)
    finally:
        torch.use_deterministic_algorithms(False)
    assert holds(guard, 1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = mode_guard()
        assert holds(half, 1)
    with torch.autocast("cpu", dtype=torch.float16):
        assert not holds(half, 1)


def test_identity_is_held_weakly():
    thing = Plain()
    tree = GuardTree([Guard(X, Kind.ID_IS, thing)], ("x",))
    assert tree.check((thing,), {})
    alive = weakref.ref(thing)
    del thing
    gc.collect()
    assert alive() is None
    assert not tree.check((Plain(),), {}) and not tree.check((None,), {})


def test_same_value_of_sets():
    assert same_value(frozenset((1, 2)), frozenset((2, 1)))
    assert not same_value(frozenset((1,)), frozenset((True,)))


def module_tree(net):
    """Guards of the kinds that captured modules have."""
    fields = DictOf(X)
    own = Item(fields, "_parameters")
    inner = Item(Item(fields, "_modules"), "inner")
    guards = [
        mode_guard(), Guard(X, Kind.TYPE_IS, type(net)), Guard(Item(fields, "scale"), Kind.EQUALS, net.scale),
        Guard(Item(fields, "_forward_hooks"), Kind.LENGTH, 0), Guard(fields, Kind.LACKS_KEY, "forward"),
        Guard(own, Kind.DICT_KEYS, tuple(net._parameters)), Guard(inner, Kind.TYPE_IS, nn.Linear),
        Guard(Item(own, "weight"), Kind.TENSOR, TensorLayout.of(net.weight)),
        Guard(Item(Item(DictOf(inner), "_parameters"), "bias"), Kind.TENSOR, TensorLayout.of(net.inner.bias)),
        Guard(Item(Item(fields, "sizes"), 1), Kind.EQUALS, 4),
        Guard(Item(own, "weight"), Kind.NOT_ALIASED, (Item(Item(DictOf(inner), "_parameters"), "weight"),)),
    ]
    return GuardTree(guards, ("x",))


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 2))
        self.inner = nn.Linear(2, 3)
        self.scale, self.sizes = 2.0, [3, 4]


def replaced_fields(net):
    net.__dict__ = {**net.__dict__, "scale": 3.0}


CHANGES = {
    "an attribute": (lambda net: setattr(net, "scale", 3.0), lambda net: setattr(net, "scale", 2.0)),
    "a hook": (lambda net: net.register_forward_hook(lambda *a: None), lambda net: net._forward_hooks.clear()),
    "a method": (lambda net: setattr(net, "forward", len), lambda net: delattr(net, "forward")),
    "a parameter more": (lambda net: net.register_parameter("b", None), lambda net: net._parameters.pop("b")),
    "an item of a list": (lambda net: net.sizes.__setitem__(1, 5), lambda net: net.sizes.__setitem__(1, 4)),
    "a flag of a tensor": (lambda net: net.weight.requires_grad_(False), lambda net: net.weight.requires_grad_()),
    "a tensor in place": (lambda net: setattr(net.weight, "data", torch.ones(2, 3)),
                          lambda net: setattr(net.weight, "data", torch.ones(3, 2))),
    "a tensor inside": (lambda net: setattr(net.inner, "bias", nn.Parameter(torch.ones(4))),
                        lambda net: setattr(net.inner, "bias", nn.Parameter(torch.ones(3)))),
    "a module inside": (lambda net: setattr(net, "inner", nn.Identity()),
                        lambda net: setattr(net, "inner", nn.Linear(2, 3))),
    "a class": (lambda net: setattr(net, "__class__", type("Other", (Scaled,), {})),
                lambda net: setattr(net, "__class__", Scaled)),
    "two names of a tensor": (lambda net: net.inner._parameters.__setitem__("weight", net.weight),
                              lambda net: net.inner._parameters.__setitem__("weight", nn.Parameter(torch.ones(3, 2)))),
    "all fields": (replaced_fields, lambda net: setattr(net, "scale", 2.0)),
}


@pytest.mark.parametrize("change, undo", CHANGES.values(), ids=list(CHANGES))
def test_what_was_checked_before_is_seen_to_change(change, undo):
    net = Scaled()
    tree = module_tree(net)
    for _ in range(3):      # the second check and later ones take the short way
        assert tree.check((net,), {})
    change(net)
    for _ in range(2):
        assert not tree.check((net,), {})
    undo(net)
    for _ in range(3):
        assert tree.check((net,), {})
    assert tree.check((Scaled(),), {})
    assert tree.check((net,), {})
