"""What handlers of `__torch_dispatch__` see: ATen's calls, as PyTorch makes them, forward and backward; and programs of
tensor subclasses that know ATen's ops only."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from rushlight.utils._pytree import tree_map
from tests.dispatch.seen_calls import calls_of, stored

aten = rl.ops.aten


class Calls(TorchDispatchMode):
    def __init__(self, name: str = "", log: list[str] | None = None) -> None:
        super().__init__()
        self.name, self.log = name, [] if log is None else log

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        self.log.append(self.name + str(func))
        return func(*args, **(kwargs or {}))


def test_modes_see_what_pytorchs_see() -> None:
    found, expected = calls_of("rushlight"), stored()
    assert len(expected) > 60
    assert {program: calls for program, calls in found.items() if calls != expected[program]} == {}


def test_stored_calls_are_pytorchs() -> None:
    pytest.importorskip("torch")
    assert calls_of("torch") == stored()


def test_overloads_are_those_of_the_namespace() -> None:
    seen = []

    class Looking(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x = rl.ones(2, 2)
    with Looking():
        F.linear(x, x, x[0])
        x.add_(1)
        x.sum(0)
    named = [aten.select.int, aten.t.default, aten.addmm.default, aten.add_.Tensor, aten.sum.dim_IntList]
    assert all(a is b for a, b in zip(seen, named, strict=True))
    assert [f.overloadpacket for f in seen] == [aten.select, aten.t, aten.addmm, aten.add_, aten.sum]
    assert [f._schema.name for f in seen] == ["aten::select", "aten::t", "aten::addmm", "aten::add_", "aten::sum"]
    assert [f.name() for f in seen] == [
        "aten::select.int", "aten::t", "aten::addmm", "aten::add_.Tensor", "aten::sum.dim_IntList"]
    assert [f._overloadname for f in seen] == ["int", "default", "default", "Tensor", "dim_IntList"]
    assert {f.namespace for f in seen} == {"aten"}
    assert [f._schema.is_mutable for f in seen] == [False, False, False, True, False]
    assert [a.name for a in seen[2]._schema.arguments] == ["self", "mat1", "mat2", "beta", "alpha"]


def test_arguments_have_pytorchs_form() -> None:
    given = []

    class Looking(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            given.append(([a for a in args if not isinstance(a, rl.Tensor)], kwargs))
            return func(*args, **(kwargs or {}))

    x = rl.rand(1, 3, 8, 8)
    with Looking():
        F.conv2d(x, rl.ones(4, 3, 3, 3), None, 2, 1)
        x.sum(1, keepdim=True)
        x.to(rl.float64)
        x.sub(x, alpha=2)
    device = rl.device("cpu")
    assert given == [
        ([[4, 3, 3, 3]], {"device": device, "pin_memory": False}),
        ([None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1], {}),
        ([[1], True], {}),
        ([], {"dtype": rl.float64}),
        ([], {"alpha": 2}),
    ]


# --- modes together with other things ---------------------------------------------------------------------------------


def test_modes_one_in_another_see_the_same() -> None:
    log: list[str] = []
    x = rl.ones(2, 3, requires_grad=True)
    with Calls("outer ", log), Calls("inner ", log):
        F.linear(x, rl.ones(4, 3)).mul(2).sum().backward()
    inner = [name.removeprefix("inner ") for name in log[::2]]
    assert inner == [name.removeprefix("outer ") for name in log[1::2]]
    assert inner[:4] == ["aten.ones.default", "aten.t.default", "aten.mm.default", "aten.mul.Tensor"]


def test_a_graph_from_outside_is_shown_too() -> None:
    x = rl.ones(3, requires_grad=True)
    y = (x * 2).exp().sum()
    with Calls() as mode:
        y.backward()
    assert mode.log == ["aten.ones_like.default", "aten.expand.default", "aten.detach.default", "aten.mul.Tensor",
                        "aten.mul.Tensor", "aten.detach.default"]


def test_transforms_inside_a_mode() -> None:
    with Calls() as mode:
        g = rl.func.grad(lambda x: (x.sin() * 2).sum())(rl.zeros(3))
        gradient = rl.func.grad(lambda w, x: F.linear(x, w).pow(2).sum())
        v = rl.func.vmap(gradient, (None, 0))(rl.ones(2, 3), rl.ones(4, 3))
        _, t = rl.func.jvp(rl.tanh, (rl.zeros(2),), (rl.ones(2),))
    assert g.tolist() == [2.0] * 3 and v.sum().item() == 144.0 and t.tolist() == [1.0, 1.0]
    assert {"aten.sin.default", "aten.cos.default"} <= set(mode.log)
    assert not [name for name in mode.log if "_vjp" in name or "linear" in name]


def test_inference_takes_nothing_apart() -> None:
    with Calls() as mode, rl.inference_mode():
        F.linear(rl.ones(2, 3), rl.ones(4, 3), rl.ones(4))
    assert mode.log[-1] == "aten.linear.default"


def test_results_keep_their_class() -> None:
    x = rl.tensor([[1.0, 3.0, 2.0]], requires_grad=True)
    with Calls():
        found = x.max(1)
        parts = x.split(1, 1)
    assert found.values.item() == 3.0 and found.indices.item() == 1 and type(found) is type(x.max(1))
    assert found.values.requires_grad and not found.indices.requires_grad and len(parts) == 3


def test_second_derivatives_in_a_mode() -> None:
    x = rl.tensor([0.3, 0.7], requires_grad=True)

    def hessian_rows() -> list:
        (g,) = rl.autograd.grad((x.exp() * x.tanh()).sum(), x, create_graph=True)
        return rl.autograd.grad(g.sum(), x)[0].tolist()

    plain = hessian_rows()
    with Calls():
        assert hessian_rows() == pytest.approx(plain, rel=1e-5)


def test_a_mode_may_answer_itself() -> None:
    class Subtracting(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            return rl.sub(*args) if func is aten.add.Tensor else func(*args, **(kwargs or {}))

    with Subtracting():
        assert (rl.ones(2) + rl.ones(2)).tolist() == [0.0, 0.0]


# --- subclasses -------------------------------------------------------------------------------------------------------


class Quantized(rl.Tensor):
    """Weights of few bits: knows the ops of products alone."""

    @staticmethod
    def __new__(cls, data: Any, scale: float) -> Any:
        return rl.Tensor._make_wrapper_subclass(cls, data.shape, dtype=rl.float32, device=data.device)

    def __init__(self, data: Any, scale: float) -> None:
        self.data_, self.scale = data, scale

    def full(self) -> Any:
        return self.data_.float() * self.scale

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if func is aten.detach.default:
            return cls(args[0].data_, args[0].scale)
        if func is aten.t.default:
            return cls(args[0].data_.t(), args[0].scale)
        if func is aten._to_copy.default:
            return args[0].full().to(kwargs["dtype"])
        if func in (aten.mm.default, aten.addmm.default):
            return func(*[a.full() if isinstance(a, cls) else a for a in args], **(kwargs or {}))
        raise NotImplementedError(str(func))


def test_quantized_weights_of_a_layer() -> None:
    layer = rl.nn.Linear(4, 3)
    rl.nn.init.ones_(layer.bias)
    layer.weight = rl.nn.Parameter(Quantized(rl.arange(12, dtype=rl.int8).view(3, 4), 0.5), requires_grad=False)
    x = rl.ones(2, 4, requires_grad=True)
    y = layer(x)
    assert type(y) is rl.Tensor and y.tolist() == [[4.0, 12.0, 20.0]] * 2
    y.sum().backward()
    assert x.grad.tolist() == [[6.0, 7.5, 9.0, 10.5]] * 2 and layer.bias.grad.tolist() == [2.0] * 3
    assert layer(rl.ones(1, 2, 4)).shape == (1, 2, 3)
    assert layer.weight.to(rl.float64).dtype is rl.float64


class Two(rl.Tensor):
    """Two tensors for one: every op runs on both."""

    @staticmethod
    def __new__(cls, a: Any, b: Any) -> Any:
        return rl.Tensor._make_wrapper_subclass(cls, a.size(), strides=a.stride(), dtype=a.dtype, device=a.device)

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        assert func.namespace == "aten" and func._schema.name.startswith("aten::"), str(func)

        def run(part: str) -> Any:
            given = tree_map(lambda x: getattr(x, part) if isinstance(x, Two) else x, (args, kwargs or {}))
            return func(*given[0], **given[1])

        first, second = run("a"), run("b")
        if isinstance(first, (list, tuple)):
            out: Any = [Two(x, y) if isinstance(x, rl.Tensor) else x for x, y in zip(first, second, strict=True)]
        else:
            out = Two(first, second) if isinstance(first, rl.Tensor) else first
        return return_and_correct_aliasing(func, args, kwargs or {}, out)


def trained(wrapped: bool) -> list[float]:
    rl.manual_seed(0)
    net = rl.nn.Sequential(rl.nn.Linear(4, 8), rl.nn.LayerNorm(8), rl.nn.GELU(), rl.nn.Linear(8, 3))
    if wrapped:
        for layer in net:
            for name, p in list(layer.named_parameters(recurse=False)):
                setattr(layer, name, rl.nn.Parameter(Two(p.detach().clone(), p.detach().clone())))
    optimizer = rl.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    x, y, losses = rl.randn(5, 4), rl.tensor([0, 1, 2, 0, 1]), []
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append((loss.b if wrapped else loss).item())
    return losses


def test_two_tensors_are_trained_as_one() -> None:
    assert trained(wrapped=True) == pytest.approx(trained(wrapped=False), rel=1e-5)


# --- PyTorch's op records ---------------------------------------------------------------------------------------------


def records() -> Any:
    pytest.importorskip("torch")
    pytest.importorskip("expecttest", reason="PyTorch's op records need it")
    from tests.parity.records import RECORDS  # noqa: PLC0415 - they need PyTorch

    return RECORDS


def runs_of(name: str) -> Any:
    """The record's calls: for each library the function and its arguments, made anew each time."""
    import torch  # noqa: PLC0415

    from tests.parity.checks import Pair, main_dtype, spread  # noqa: PLC0415
    from tests.parity.convert import thing  # noqa: PLC0415

    record = records()[name]
    torch.manual_seed(5)
    try:
        ours = Pair(record.op).ours
        samples = spread(record.sample_inputs("cpu", main_dtype(record), requires_grad=record.supports_autograd), 2)
    except Exception:   # noqa: BLE001 - not a record that can be asked
        return
    for sample in samples:
        tree = (sample.input, list(sample.args), dict(sample.kwargs))
        yield (torch, record.op, tree), (rl, ours, thing(tree, {}))


def seen(library: Any, function: Any, tree: Any) -> tuple[list[str], list[str] | None] | None:
    """What a mode sees of a call, and of its backward; None where the call is refused."""
    import importlib  # noqa: PLC0415

    from tests.fake.symbolic_calls import leaves  # noqa: PLC0415

    base = importlib.import_module(f"{library.__name__}.utils._python_dispatch").TorchDispatchMode
    mode = type("Seen", (base,), {"__torch_dispatch__": Calls.__torch_dispatch__})()
    mode.name, mode.log = "", []
    try:
        with mode:
            out = function(tree[0], *tree[1], **tree[2])
        forward, mode.log = mode.log, []
        outs = [o for o in leaves(out) if isinstance(o, library.Tensor) and o.grad_fn is not None]
        if not outs:
            return forward, None
        given = [library.ones_like(o.detach()) for o in outs]
        with mode:
            library.autograd.backward(outs, given)
    except Exception:   # noqa: BLE001 - refused, by whom is not this check's business
        return None
    return forward, mode.log


def agreement(names: list[str]) -> tuple[int, int]:
    same = total = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            for theirs, ours in runs_of(name):
                expected = seen(*theirs)
                if expected is None:
                    continue
                found = seen(*ours) or ([], [])
                pairs = [(a, b) for a, b in zip(expected, found, strict=True) if a is not None]
                total += len(pairs)
                same += sum(a == b for a, b in pairs)
    print(f"{same} of {total} sequences of ATen's calls agree")
    return same, total


def test_sequences_of_records() -> None:
    """On the tree before the view one in six agreed."""
    same, total = agreement(list(records())[::12])
    assert total > 100 and same >= 0.55 * total


@pytest.mark.slow
def test_sequences_of_all_records(share: Callable[[list[str], int], list[str]]) -> None:
    names = share(list(records()), 3)
    same, total = agreement(names)
    assert total > 2.5 * len(names) and same >= 0.6 * total


def test_gradients_in_a_mode_are_those_without() -> None:
    """The rules of the view compute what the definitions do."""
    from tests.fake.symbolic_calls import leaves  # noqa: PLC0415

    def computed(function: Any, tree: Any, mode: Any) -> list[Any]:
        inputs = [t for t in leaves(tree) if isinstance(t, rl.Tensor) and t.requires_grad]
        rl.manual_seed(3)
        with mode:
            outs = [o for o in leaves(function(tree[0], *tree[1], **tree[2])) if isinstance(o, rl.Tensor)]
            wanted = [o for o in outs if o.grad_fn is not None and o.layout is rl.strided]
            if not wanted or not inputs:
                return outs
            weights = [rl.full_like(o.detach(), 0.5) for o in wanted]
            return [*outs, *rl.autograd.grad(wanted, inputs, weights, allow_unused=True)]

    checked = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in list(records())[::10]:
            for _, (_, function, tree) in runs_of(name):
                try:
                    expected = computed(function, tree, rl.enable_grad())
                except Exception:   # noqa: BLE001 - refused without a mode too
                    continue
                for a, b in zip(computed(function, tree, Calls()), expected, strict=True):
                    if a is None or b is None or a.layout is not rl.strided or name.startswith(("empty", "new_empty")):
                        continue
                    wide = [t.detach().resolve_conj().to(rl.complex128) for t in (a, b)]
                    assert rl.allclose(*wide, rtol=1e-3, atol=1e-4, equal_nan=True), name
                    checked += 1
    assert checked > 100
