"""Views of dicts held over a break of the graph, or handed from frame to frame: a fresh view of the same dict is the
same to a guard, and loops over containers compile once."""

import collections
import contextlib
import types
import warnings

import pytest

import rushlight as rl
from rushlight import nn
from rushlight._dynamo.utils import counters

MAKERS = {
    "Sequential": lambda: nn.Sequential(*_layers()),
    "nested": lambda: nn.Sequential(nn.Sequential(*_layers()), nn.Sequential(*_layers())),
    "ModuleDict": lambda: nn.ModuleDict(dict(zip("abc", _layers(), strict=True))),
}
CONTEXTS = {
    "nothing": contextlib.nullcontext, "no_grad": rl.no_grad, "inference": rl.inference_mode,
    "autocast": lambda: rl.autocast("cpu", dtype=rl.bfloat16), "set_grad": lambda: rl.set_grad_enabled(False),
}


def _layers():
    return [nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)]


def _broken(x):
    x = x + 1
    rl._dynamo.graph_break()
    return x + 1


def _through(view, x):
    for one in view:
        x = one[1](x) if isinstance(one, tuple) else one(x)
    return x


def _graphs(function, *args, around=contextlib.nullcontext, calls=5):
    """Compiled graphs after each call, and whether the last result is that of the function itself."""
    rl._dynamo.reset()
    counters.clear()
    compiled, found = rl.compile(function, backend="eager"), []
    with warnings.catch_warnings(), around():
        warnings.simplefilter("error")      # "was compiled 8 times, which is the limit"
        for _ in range(calls):
            result = compiled(*args)
            found.append(counters["stats"]["unique_graphs"])
        assert rl.equal(result, function(*args))
    return found


@pytest.mark.parametrize("kind", ["keys", "values", "items", "proxy"])
@pytest.mark.parametrize("mapping", [dict, collections.OrderedDict])
def test_a_view_is_guarded_by_what_it_looks_at(mapping, kind):
    members = mapping(a=2.0, b=3.0)
    view = types.MappingProxyType if kind == "proxy" else getattr(mapping, kind)

    def inner(view, x):
        for one in view:
            x = x * (members[one] if isinstance(one, str) else one[1] if isinstance(one, tuple) else one)
        return x

    def program(x):
        return inner(view(members), _broken(x))

    found = _graphs(program, rl.ones(2))
    assert found == [found[0]] * 5 and found[0] >= 2
    members["c"] = 5.0      # another structure is compiled for, and right
    assert rl.equal(rl.compile(program, backend="eager")(rl.ones(2)), rl.full((2,), 90.0))


@pytest.mark.parametrize("kind", ["values", "items"])
@pytest.mark.parametrize("where", CONTEXTS)
def test_modules_behind_a_break(where, kind):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = MAKERS["ModuleDict"]()

        def forward(self, x):
            return _through(getattr(self.parts, kind)(), _broken(x))

    found = _graphs(Net(), rl.ones(2, 4), around=CONTEXTS[where])
    assert found == [3] * 5       # before the break, behind it, and the loop


@pytest.mark.parametrize("where", CONTEXTS)
@pytest.mark.parametrize("name", ["Sequential", "nested"])
def test_containers_are_one_graph(name, where):
    assert _graphs(MAKERS[name](), rl.ones(2, 4), around=CONTEXTS[where]) == [1] * 5


def test_a_view_leaves_a_frame_and_comes_back():
    def program(x, d):
        view = d.items()
        x = _broken(x)
        for key, value in view:
            x = x + value * len(key)
        d["later"] = x
        return x, view

    x, d = rl.ones(2), {"a": rl.ones(2), "bb": rl.ones(2)}
    result, view = rl.compile(program, backend="eager")(x, d)
    assert rl.equal(result, rl.full((2,), 6.0))
    assert list(view) == list(d.items()) and "later" in d      # it looks at the caller's dict


def test_a_view_of_a_dict_made_inside():
    def program(x):
        made = {"a": x, "b": x + 1}
        view, proxy = made.values(), types.MappingProxyType(made)
        x = _broken(x)
        made["c"] = x
        return sum(view), proxy

    total, proxy = rl.compile(program, backend="eager")(rl.ones(2))
    assert rl.equal(total, rl.full((2,), 6.0)) and list(proxy) == ["a", "b", "c"] and len(proxy.values()) == 3


def test_the_text_of_a_view_is_that_of_its_members():
    for members in ({"a": 1}, {"a": 2, "b": 3}, {"a": rl.ones(1)}):
        assert rl.compile(lambda x, view: str(view), backend="eager")(rl.ones(1), members.values()) == str(
            members.values())


def test_a_net_of_images_under_autocast_is_one_graph():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.GELU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
                        nn.Linear(64, 2))
    with rl.autocast("cpu", dtype=rl.bfloat16):
        said = rl._dynamo.explain(net)(rl.ones(2, 3, 8, 8))
    assert said.graph_break_count == 0 and said.graph_count == 1
