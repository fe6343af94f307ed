"""nn.Module and the containers, side by side with PyTorch's: the same program, the same record of what happened."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from typing import Any

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

LIBRARIES = [pytest.param(torch, id="torch"), pytest.param(rl, id="rushlight")]


def layer(t: Any) -> type:
    """A class with a parameter, a buffer of each kind and a name without a parameter."""

    class Layer(t.nn.Module):
        def __init__(self, wide: int, out: int) -> None:
            super().__init__()
            self.w = t.nn.Parameter(t.ones(out, wide))
            self.register_buffer("b", t.zeros(out))
            self.register_buffer("scratch", t.zeros(1), persistent=False)
            self.register_parameter("q", None)

        def forward(self, x: Any, scale: float = 1) -> Any:
            return (x @ self.w.t() + self.b) * scale

        def extra_repr(self) -> str:
            return "settings"

    return Layer


def same(program: Any) -> None:
    """Both libraries answer the same."""
    ours, theirs = (str(program(t, t.nn, layer(t))) for t in (rl, torch))
    assert ours.replace("rushlight", "torch") == theirs


def problem(call: Any) -> Any:
    try:
        return call()
    except Exception as error:
        return type(error).__name__


def test_names_and_text() -> None:
    def program(t, nn, Layer):
        m = nn.Sequential(Layer(3, 4), nn.ModuleDict({"a": Layer(4, 2)}))
        m.add_module("shared", m[0])
        listed = nn.ModuleList([Layer(3, 3) for _ in range(3)] + [Layer(1, 1)])
        return [m, listed, list(m.state_dict()), dict(m.state_dict()._metadata), [n for n, _ in m.named_parameters()],
                [n for n, _ in m.named_modules(prefix="p")], [n for n, _ in m.named_parameters(remove_duplicate=False)],
                [n for n, _ in m.named_buffers(recurse=False)], [n for n, _ in m.named_buffers()],
                [n for n, _ in m.named_children()], nn.ParameterList([t.ones(2), t.zeros(3, 1)]),
                nn.ParameterDict({"z": t.ones(2), "a": t.ones(1)})]

    same(program)


def test_assignment_rules() -> None:
    def program(t, nn, Layer):
        m = nn.Sequential(Layer(3, 4))
        half = Layer.__new__(Layer)
        calls = [lambda: setattr(m[0], "w", 3), lambda: setattr(m[0], "b", 3), lambda: setattr(m, "0", 3),
                 lambda: m.foo, lambda: m[0].register_parameter("a.b", None), lambda: m[0].register_buffer("", None),
                 lambda: m[9], lambda: nn.Module()(1), lambda: m.get_submodule("0.x"),
                 lambda: m.get_parameter("0.w").shape[0], lambda: m.get_buffer("0.w"), lambda: nn.Module(3),
                 lambda: m.append(3), lambda: nn.ParameterList()(1), lambda: m.train(3),
                 lambda: setattr(half, "p", nn.Parameter(t.ones(1))), lambda: setattr(half, "m", nn.Module()),
                 lambda: m.register_buffer("training", t.ones(1)), lambda: m[0].register_parameter("n", t.ones(1)),
                 lambda: m.to(t.int32), lambda: m.set_submodule("", m), lambda: m.set_submodule("0", 3),
                 lambda: m[0].register_parameter("n", nn.Parameter(t.ones(1)) * 2)]
        log = [problem(call) for call in calls]
        one = m[0]
        one.plain = 3
        one.plain = nn.Parameter(t.ones(1))
        one.b = nn.Parameter(t.ones(1))
        one.scratch = None
        one.kept = nn.Buffer(t.ones(2))
        one.hidden = nn.Buffer(t.ones(2), persistent=False)
        log += [list(one._parameters), list(one._buffers), list(one.state_dict()), "plain" in one.__dict__]
        del one.plain
        m.set_submodule("0.inner", nn.Module())
        return [*log, hasattr(one, "plain"), "w" in dir(one), [n for n, _ in m.named_modules()]]

    same(program)


def test_hooks_run_in_order() -> None:
    def program(t, nn, Layer):
        m, log = nn.Sequential(Layer(3, 4), Layer(4, 2)), []
        handles = [
            m.register_forward_pre_hook(lambda mod, a: log.append("pre")),
            m.register_forward_pre_hook(lambda mod, a: log.append("first") or (a[0] * 2,), prepend=True),
            m.register_forward_hook(lambda mod, a, o: log.append("post") or o + 1),
            m[0].register_forward_pre_hook(lambda mod, a, k: (a, {"scale": 3}), with_kwargs=True),
            m[0].register_forward_hook(lambda mod, a, k, o: log.append(sorted(k)), with_kwargs=True),
            m[0].register_full_backward_hook(lambda mod, gi, go: log.append(("in", gi[0] is None, tuple(go[0].shape)))),
            m.register_full_backward_pre_hook(lambda mod, go: log.append("bpre") or (go[0] * 2,)),
            m[1].register_full_backward_hook(
                lambda mod, gi, go: log.append((tuple(gi[0].shape), len(go))) or (gi[0] * 5,)
            ),
            nn.modules.module.register_module_forward_hook(lambda mod, a, o: log.append(type(mod).__name__)),
        ]
        m(t.ones(5, 3)).sum().backward()
        log.append(m[0].w.grad.sum().item())
        for handle in handles:
            handle.remove()
        count = len(log)
        return [*log, m(t.ones(5, 3)).sum().item(), len(log) - count]

    same(program)


def test_always_called_hooks_see_errors() -> None:
    def program(t, nn, Layer):
        class Broken(nn.Module):
            def forward(self, x):
                raise ValueError("no")

        m, log = Broken(), []
        m.register_forward_hook(lambda mod, a, o: log.append(("always", o)), always_call=True)
        m.register_forward_hook(lambda mod, a, o: log.append("never"))
        return [
            problem(lambda: m(1)),
            log,
            problem(lambda: m.register_backward_hook(print) and m.register_full_backward_hook(print)),
        ]

    same(program)


def test_a_hook_without_gradients_of_inputs_warns() -> None:
    """Of a module whose inputs need no gradients; not where they do."""

    def program(t, nn, Layer):
        m, counts = nn.Sequential(Layer(3, 4)), []
        for needs in (False, True):
            handle = m.register_full_backward_hook(lambda *args: None)
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                m(t.ones(5, 3, requires_grad=needs)).sum().backward()
            handle.remove()
            counts.append(len(seen))
        return counts

    same(program)


def test_state_dict_errors_and_hooks() -> None:
    def program(t, nn, Layer):
        m, log = nn.Sequential(Layer(3, 4), Layer(4, 2)), []
        state = m.state_dict()
        del state["0.w"]
        state["zzz"], state["1.b"], state["1.deep.w"] = t.ones(1), t.ones(7), t.ones(1)
        try:
            m.load_state_dict(state)
        except RuntimeError as error:
            log.append(
                (type(error).__name__, sorted(re.findall(r"size mismatch for \S+:|[\"'][\w.]+[\"']", str(error))))
            )
        del state["1.b"]
        log += [
            m.load_state_dict(state, strict=False),
            m.load_state_dict(m.state_dict()),
            problem(lambda: m.load_state_dict(3)),
        ]
        m.register_state_dict_post_hook(lambda mod, sd, p, meta: sd.pop("0.b", None) is None or None)
        m[1].register_state_dict_pre_hook(lambda mod, p, keep: log.append(("pre", p, keep)))
        m.register_load_state_dict_pre_hook(lambda mod, sd, p, *rest: log.append(("load", p, len(rest))))
        m.register_load_state_dict_post_hook(lambda mod, keys: keys.missing_keys.clear())
        state = m.state_dict(keep_vars=True)
        log += [list(state), state["0.w"].requires_grad, m.load_state_dict(state)]
        given = {k: v + 1 for k, v in state.items()}
        m.load_state_dict(given, assign=True)
        return [*log, m[0].b is given.get("0.b"), m[0].w.is_leaf, m[0].w.sum().item()]

    same(program)


def test_extra_state_travels() -> None:
    def program(t, nn, Layer):
        class Counting(nn.Module):
            count = 0

            def get_extra_state(self):
                return {"count": self.count}

            def set_extra_state(self, state):
                self.count = state["count"]

        a, b = Counting(), Counting()
        a.count = 5
        log = [list(a.state_dict()), b.load_state_dict(a.state_dict()), b.count]
        return [
            *log,
            problem(lambda: b.load_state_dict({})),
            problem(lambda: nn.Module().load_state_dict({"_extra_state": 1})),
        ]

    same(program)


def test_conversions_keep_identity() -> None:
    def program(t, nn, Layer):
        m = nn.Sequential(Layer(3, 4))
        w = m[0].w
        m(t.ones(1, 3)).sum().backward()
        m.double()
        log = [w is m[0].w, w.dtype, w.grad.dtype, m[0].b.dtype]
        m.to(t.bfloat16)
        log += [
            w.dtype,
            m.half()[0].b.dtype,
            m.float()[0].b.dtype,
            m.to("cpu", t.float64)[0].w.dtype,
            m.to(t.ones(1))[0].w.dtype,
        ]
        m.zero_grad(set_to_none=False)
        log += [
            w.grad.sum().item(),
            m.zero_grad(),
            w.grad,
            m.requires_grad_(False)[0].w.requires_grad,
            m.eval().training,
            m[0].training,
        ]
        return [*log, m.to("meta")[0].w.is_meta, m.to_empty(device="cpu")[0].w.is_meta]

    same(program)


def test_containers_behave_like_lists_and_dicts() -> None:
    def program(t, nn, Layer):
        s = nn.Sequential(*[Layer(i, i) for i in range(1, 5)])
        log = [len(s[1:]), len(s), s.pop(1).w.shape[0], [m.w.shape[0] for m in s], len(s + s), len(s * 2)]
        s.insert(1, Layer(9, 9)).extend([Layer(8, 8)])
        s[-1] = Layer(7, 7)
        del s[0]
        listed = nn.ModuleList([Layer(i, i) for i in range(1, 4)])
        listed.insert(0, Layer(6, 6))
        listed += [Layer(5, 5)]
        del listed[1:3]
        log += [[m.w.shape[0] for m in s], [m.w.shape[0] for m in listed], list(s._modules), list(listed._modules)]
        d = nn.ModuleDict([("x", Layer(1, 1))])
        d.update({"y": Layer(2, 2)})
        log += [list(d), "x" in d, d.pop("x").w.shape[0], len(d)]
        p = nn.ParameterDict({"b": t.ones(1), "a": t.ones(2)})
        p |= nn.ParameterDict({"c": 3})
        log += [
            list(p),
            p["c"],
            p.get("zz"),
            p.popitem()[0],
            len(p),
            list(reversed(p)),
            [n for n, _ in p.named_parameters()],
        ]
        q = nn.ParameterList(range(3))
        q.append(t.ones(2))
        return [*log, len(q), list(q[:3]), [n for n, _ in q.named_parameters()], problem(lambda: q[7])]

    same(program)


class Pickled(rl.nn.Module):
    """At module level, so that pickle finds it."""

    def __init__(self) -> None:
        super().__init__()
        self.w = rl.nn.Parameter(rl.ones(2))
        self.tied = self.w
        self.register_buffer("b", rl.zeros(1))

    def forward(self, x: Any) -> Any:
        return x * self.w


def test_copies_and_pickles_keep_ties() -> None:
    m = Pickled()
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert other.w is other.tied and other.w is not m.w and isinstance(other.w, rl.nn.Parameter)
        assert rl.equal(other(rl.ones(2)), rl.ones(2)) and list(other.state_dict()) == ["w", "tied", "b"]


def test_quick_paths_give_way() -> None:
    """A forward on the instance, a __getattr__ of the class's own, and one assigned to the class later all count."""
    m = Pickled()
    m.forward = lambda x: "mine"
    assert m(1) == "mine" and m(x=1) == "mine"

    class Wrapping(Pickled):
        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                if name != "anything":
                    raise
                return f"made {name}"

    assert Wrapping().anything == "made anything" and Wrapping().w.shape == (2,)

    class Later(Pickled):
        pass

    later = Later()
    Later.__getattr__ = lambda self, name: "later"
    assert later.unknown == "later"
    with pytest.raises(RuntimeError, match="nothing"):
        Pickled().compile(backend="nothing")


def test_compile_in_place() -> None:
    graphs = []

    def backend(graph: Any, inputs: list) -> Any:
        graphs.append(graph)
        return graph

    model = rl.nn.Sequential(rl.nn.Linear(3, 3), rl.nn.ReLU())
    x = rl.randn(2, 3)
    expected, names = model(x), list(model.state_dict())
    model.compile(backend=backend)
    assert not graphs and rl.equal(model(x), expected) and len(graphs) == 1
    model(x)
    assert len(graphs) == 1 and list(model.state_dict()) == names and [*model.children()] == [*model]
    handle = model.register_forward_hook(lambda module, args, result: result * 2)
    assert rl.equal(model(x), expected * 2) and len(graphs) == 2
    handle.remove()
    assert rl.equal(model(x), expected) and len(graphs) == 2
    model.forward = lambda x: x
    assert rl.equal(model(x), x)
    del model.forward
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert rl.equal(copied(x), expected)
        assert copied._compiled_call_impl is None
    assert len(graphs) == 2 and rl.equal(rl.compile(model, backend="eager", fullgraph=True)(x), expected)


def test_functional_call_and_stacked_state() -> None:
    models = [Pickled() for _ in range(2)]
    params, buffers = rl.func.stack_module_state(models)
    out = rl.vmap(lambda p, b, x: rl.func.functional_call(models[0], (p, b), (x,)), in_dims=(0, 0, None))(
        params, buffers, rl.ones(2)
    )
    assert out.shape == (2, 2)
    assert rl.func.functional_call(models[0], {"w": rl.zeros(2)}, rl.ones(2)).sum().item() == 0


def test_annotations_of_modules_are_objects_not_text():
    assert all(not isinstance(kind, str) for kind in rl.nn.Module.__annotations__.values())


def test_parameters_are_those_that_subclasses_name() -> None:
    def program(t, nn, Layer):
        class Some(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first, self.second = nn.Linear(2, 3), nn.Linear(3, 1)

        class Fewer(Some):
            def named_parameters(self, *args, **kwargs):
                return (pair for pair in super().named_parameters(*args, **kwargs) if "bias" in pair[0])

        class Hidden(Some):
            def named_modules(self, memo=None, prefix="", remove_duplicate=True):
                yield prefix, self

        class Members(Some):
            def _named_members(self, get_members, prefix="", recurse=True, **kwargs):
                yield "own", self.second.weight

        def shapes(m):
            return [tuple(p.shape) for p in m.parameters()]

        inside = [nn.Sequential(nn.Linear(1, 1), kind()) for kind in (Fewer, Hidden, Members)]
        patched, shared = Some(), Some()
        patched.named_parameters = lambda *args, **kwargs: iter([("own", patched.first.bias)])
        shared.second, shared.again, shared.none = shared.first, shared.first.weight, None
        alone = [shapes(kind()) for kind in (Some, Fewer, Hidden, Members)]
        return [alone, *map(shapes, inside), shapes(patched), shapes(shared),
                [tuple(p.shape) for p in shared.parameters(recurse=False)]]

    same(program)
