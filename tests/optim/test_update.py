"""The multi-tensor update: which tensors it takes, what it leaves to ops, and that both give the same."""

from __future__ import annotations

import collections
import ctypes
import math

import pytest

import rushlight as rl
from rushlight import codegen, optim
from rushlight.devices import register
from rushlight.loops.expr import load, var
from rushlight.loops.nest import Nest, Store, operands, rows
from rushlight.loops.vocabulary import Scalars
from rushlight.op.multi_tensor import update_nest
from rushlight.optim.adam import RULE, adam
from rushlight.optim.rule import KnownNumbers, Numbers
from rushlight.optim.sgd import sgd
from tests.devices.reference_device import ReferenceDevice


def make(shape, dtype=None, requires_grad: bool = True) -> rl.Tensor:
    return rl.nn.Parameter(rl.randn(shape, dtype=dtype), requires_grad)


def updated_by_ops(p: rl.Tensor, grads: list[rl.Tensor], **options) -> rl.Tensor:
    """AdamW's rule through ordinary ops."""
    p = p.detach().clone()
    hyper = {"lr": 1e-2, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01, "amsgrad": False, "maximize": False,
             "decoupled_weight_decay": True, **options}
    state = {
        "step": rl.zeros(()),
        "exp_avg": rl.zeros_like(p),
        "exp_avg_sq": rl.zeros_like(p),
        "max_exp_avg_sq": rl.zeros_like(p),
    }
    for g in grads:
        RULE.update_with_ops(p, g, state, hyper, RULE.choices(hyper))
    return p


@pytest.mark.parametrize("sizes", [(1,), (5, 17, 3), (40_000, 1, 100_000, 70_000)])
def test_kernel_equals_ops(sizes: tuple[int, ...]) -> None:
    rl.manual_seed(0)
    ps = [make(n) for n in sizes]
    grads = [[rl.randn(n) for n in sizes] for _ in range(3)]
    expected = [updated_by_ops(p, [g[i] for g in grads]) for i, p in enumerate(ps)]
    optimizer = optim.AdamW(ps, lr=1e-2)
    for step in grads:
        for p, g in zip(ps, step, strict=True):
            p.grad = g
        optimizer.step()
    for p, e in zip(ps, expected, strict=True):
        assert rl.allclose(p, e, rtol=1e-6, atol=1e-7)


def test_results_do_not_depend_on_neighbours() -> None:
    """Bit for bit: however the elements of a list are cut into chunks and vectors."""
    rl.manual_seed(6)
    first, grad = rl.randn(50_001), rl.randn(50_001)
    seen = []
    for before in ((), (7,), (33_333, 5)):
        p = rl.nn.Parameter(first.clone())
        others = [make(n) for n in before]
        for q in others:
            q.grad = rl.randn(q.shape)
        p.grad = grad
        optim.AdamW([*others, p], lr=0.1).step()
        seen.append(p.detach())
    assert rl.equal(seen[0], seen[1]) and rl.equal(seen[0], seen[2])


def test_replaced_data_gradients_and_state_are_seen() -> None:
    p = make(4)
    optimizer = optim.SGD([p], lr=1.0, momentum=0.9)
    p.grad = rl.ones(4)
    optimizer.step()
    p.data = rl.zeros(4)
    optimizer.state[p]["momentum_buffer"] = rl.full((4,), 10.0)
    p.grad = rl.zeros(4)
    optimizer.step()
    assert rl.equal(p, rl.full((4,), -9.0))
    assert rl.equal(optimizer.state[p]["momentum_buffer"], rl.full((4,), 9.0))


def test_parameters_without_gradient_keep_their_step() -> None:
    a, b = make(3), make(3)
    optimizer = optim.Adam([a, b])
    a.grad = rl.ones(3)
    optimizer.step()
    b.grad = rl.ones(3)
    optimizer.step()
    assert optimizer.state[a]["step"].item() == 2 and optimizer.state[b]["step"].item() == 1
    assert b not in optim.Adam([a, b]).state


def test_mixed_dtypes_and_layouts_in_one_group() -> None:
    rl.manual_seed(1)
    ps = [make(6), make((3, 4), rl.float64), rl.nn.Parameter(rl.randn(4, 3).t()), make((2, 3), rl.bfloat16),
          make((2, 2), rl.complex64), rl.nn.Parameter(rl.randn(8)[::2]), make(())]
    before = [p.detach().clone() for p in ps]
    grads = [rl.randn(p.shape, dtype=p.dtype) for p in ps]
    optimizer = optim.SGD(ps, lr=0.5, momentum=0.5)
    for _ in range(2):
        for p, g in zip(ps, grads, strict=True):
            p.grad = g
        optimizer.step()
    for p, b, g in zip(ps, before, grads, strict=True):
        near = 2e-2 if p.dtype is rl.bfloat16 else 1e-6
        assert rl.allclose(p, b - 0.5 * g - 0.5 * (0.5 * g + g), rtol=near, atol=near)


def test_gradients_laid_out_otherwise_go_through_the_kernel(monkeypatch) -> None:
    rl.manual_seed(4)
    p = rl.nn.Parameter(rl.randn(2, 3, 4, 4).to(memory_format=rl.channels_last))
    q = rl.nn.Parameter(p.detach().contiguous())
    monkeypatch.setattr(type(RULE), "update_with_ops", None)   # not needed
    a, b = optim.AdamW([p], lr=0.1), optim.AdamW([q], lr=0.1)
    for _ in range(3):
        p.grad = q.grad = rl.randn(2, 3, 4, 4)
        a.step()
        b.step()
    assert rl.allclose(p, q, rtol=1e-6, atol=1e-7) and a.state[p]["exp_avg"].stride() == p.stride()


def test_versions_of_parameters_rise() -> None:
    p = make(3)
    loss = (p * p).sum()
    p.grad = rl.ones(3)
    optim.SGD([p], lr=0.1).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_modes_see_the_step() -> None:
    from rushlight.utils._python_dispatch import TorchDispatchMode

    class Count(TorchDispatchMode):
        calls = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            Count.calls += 1
            return func(*args, **(kwargs or {}))

    p, q = make(3), make(3)
    q.data.copy_(p)
    p.grad = q.grad = rl.ones(3)
    with Count():
        optim.AdamW([p]).step()
    optim.AdamW([q]).step()
    assert Count.calls > 0 and rl.allclose(p, q)


def test_gradient_scaler_hands_over_scale_and_infinities() -> None:
    for name, kwargs in (("SGD", {"momentum": 0.9}), ("Adam", {}), ("AdamW", {}), ("Adagrad", {})):
        rl.manual_seed(2)
        p = make(100)
        q = rl.nn.Parameter(p.detach().clone())
        scaled, plain = getattr(optim, name)([p], lr=0.1, fused=True, **kwargs), getattr(optim, name)(
            [q], lr=0.1, **kwargs
        )
        assert scaled._step_supports_amp_scaling
        for found in (0.0, 1.0, 0.0):
            g = rl.randn(100)
            p.grad, q.grad = g * 1024, g
            scaled.grad_scale, scaled.found_inf = rl.tensor(1024.0), rl.tensor(found)
            scaled.step()
            del scaled.grad_scale, scaled.found_inf
            if not found:
                plain.step()
                assert rl.allclose(p.grad, g)   # left unscaled
            assert rl.allclose(p, q, rtol=1e-6, atol=1e-7), name


def test_capturable_needs_an_accelerator() -> None:
    p = make(3)
    p.grad = rl.ones(3)
    with pytest.raises(AssertionError, match="capturable"):
        optim.Adam([p], capturable=True).step()
    optim.Adam([p], capturable=True, fused=True).step()


def test_tensor_options() -> None:
    rl.manual_seed(0)
    p = make(20)
    q = rl.nn.Parameter(p.detach().clone())
    p.grad = q.grad = rl.randn(20)
    lr = rl.tensor(0.05)
    a = optim.Adam([p], lr=lr, betas=(rl.tensor(0.8), rl.tensor([0.9])))
    b = optim.Adam([q], lr=0.05, betas=(0.8, 0.9))
    for rate in (0.05, 0.01):
        lr.fill_(rate)
        b.param_groups[0]["lr"] = rate
        a.step()
        b.step()
    assert rl.allclose(p, q)
    with pytest.raises(ValueError, match="1-element"):
        optim.SGD([p], lr=rl.tensor([1.0, 2.0]))


@pytest.mark.parametrize(
    "name", ["SGD", "Adam", "AdamW", "RMSprop", "Adamax", "NAdam", "RAdam", "Adadelta", "Adagrad", "ASGD", "Rprop"]
)
def test_differentiable_steps_carry_gradients_to_rates_and_parameters(name: str) -> None:
    """The derivative of a loss after one step, by autograd and by differences."""
    rl.manual_seed(0)
    start, grad = rl.randn(4, dtype=rl.float64), rl.randn(4, dtype=rl.float64)

    def after(w: rl.Tensor, g: rl.Tensor) -> rl.Tensor:
        p = w.clone()
        optimizer = getattr(optim, name)([p], lr=0.1, differentiable=True)
        p.grad = g
        optimizer.step()
        return p

    w, g = start.clone().requires_grad_(), grad.clone().requires_grad_()
    assert rl.autograd.gradcheck(after, (w, g))


def test_differentiable_rate() -> None:
    p0, g = rl.randn(3), rl.randn(3)
    lr = rl.tensor(0.1, requires_grad=True)
    p = p0.clone()
    optimizer = optim.SGD([p], lr=lr, differentiable=True)
    p.grad = g
    optimizer.step()
    p.sum().backward()
    assert rl.allclose(lr.grad, -g.sum())


def test_functional_forms() -> None:
    rl.manual_seed(0)
    p, g = rl.randn(5), rl.randn(5)
    q = rl.nn.Parameter(p.clone())
    q.grad = g
    mean, square, step = rl.zeros(5), rl.zeros(5), rl.tensor(0.0)
    adam(
        [p],
        [g],
        [mean],
        [square],
        [],
        [step],
        amsgrad=False,
        beta1=0.9,
        beta2=0.999,
        lr=0.1,
        weight_decay=0.1,
        eps=1e-8,
        maximize=False,
    )
    optim.Adam([q], lr=0.1, weight_decay=0.1).step()
    assert rl.allclose(p, q) and step.item() == 1 and float(mean.abs().sum()) > 0
    buffers = [None]
    sgd([p], [g], buffers, weight_decay=0, momentum=0.9, lr=0.1, dampening=0.5, nesterov=False, maximize=False)
    assert rl.allclose(buffers[0], g)
    with pytest.raises(RuntimeError, match="state_steps"):
        adam(
            [p],
            [g],
            [mean],
            [square],
            [],
            [3],
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=0.1,
            weight_decay=0,
            eps=1e-8,
            maximize=False,
        )


def test_bad_state_is_refused_not_run() -> None:
    p = make(3)
    p.grad = rl.ones(3)
    optimizer = optim.Adam([p])
    optimizer.step()
    for broken in (rl.zeros(4), "text", None):
        optimizer.state[p]["exp_avg"] = broken
        with pytest.raises((RuntimeError, AttributeError, TypeError)):
            optimizer.step()


def test_groups_given_as_tuples_and_state_of_other_kinds() -> None:
    p, q = make(3), make(3)
    q.data.copy_(p)
    p.grad = q.grad = rl.ones(3)
    a, b = optim.AdamW([p]), optim.AdamW([q])
    a.param_groups[0]["params"] = (p,)
    b.state = UserState()
    for optimizer in (a, b):
        optimizer.step()
        optimizer.step()
        optimizer.zero_grad()
    assert rl.allclose(p, q) and p.grad is None


class UserState(collections.UserDict):
    """A mapping that is no dict."""

    def __missing__(self, key):
        self[key] = {}
        return self[key]


@pytest.mark.parametrize("target", ["x86-64-avx2", "x86-64-avx512", "aarch64", "riscv64", "wasm32"])
def test_kernels_for_other_machines(target: str) -> None:
    choices = (True, True, True, True)

    def body(s, tensors, numbers):
        return dict(zip((0, 2, 3, 4), RULE.expr(s, choices, Numbers(RULE.names, numbers), *tensors), strict=True))

    for codes in (["f32"] * 5, ["bf16", "bf16", "f32", "f32", "f32"]):
        nest = update_nest("adam_update", codes, "f32", len(RULE.names), body)
        assert len(codegen.emit_object(nest, target)) > 500
        fetch = {"aarch64": "prfm", "x86-64-avx2": "prefetcht0", "x86-64-avx512": "prefetcht0"}.get(target, "")
        assert fetch in codegen.emit_asm(nest, target)   # memory is asked for ahead of five streams


def test_near_quotients() -> None:
    """Within two units in the last place, and right at 0 and infinity, whichever unit divides."""
    s, i = Scalars(), var("i")
    nest = Nest(
        "near",
        operands(["f32", "f32"], ["f32"]),
        (),
        rows(Store(2, i, s.near_div(load(0, i, "f32"), load(1, i, "f32"))), vector=True),
    )
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
        codegen.compile(nest).address
    )
    rl.manual_seed(0)
    a, b = rl.randn(4096), rl.rand(4096) * 10 + 1e-6
    special = [(1.0, 0.0), (0.0, 0.0), (1.0, math.inf), (math.nan, 1.0), (1.0, math.nan), (-2.0, 4.0)]
    for k, (x, y) in enumerate(special * 20):
        a[k], b[k] = x, y
    out = rl.empty(4096)
    run((ctypes.c_void_p * 3)(a.data_ptr(), b.data_ptr(), out.data_ptr()), None, 0, 4096)
    exact = a.double() / b.double()
    finite = exact.isfinite()
    assert float(((out.double() - exact).abs() / exact.abs().clamp(min=1e-30))[finite].max()) < 2.5e-7
    assert rl.equal(out.isnan(), exact.isnan()) and rl.equal(out.isinf(), exact.isinf())


def test_clipping_of_many_gradients() -> None:
    rl.manual_seed(5)
    ps = [make((3, 4)) for _ in range(40)]
    for p in ps:
        p.grad = rl.randn(3, 4)
    ps[3].grad = rl.randn(4, 3).t()
    ps[5].grad = ps[6].grad = rl.randn(3, 4)   # scaled once for each, as in PyTorch
    before = [p.grad.clone() for p in ps]
    total = rl.nn.utils.clip_grad_norm_(ps, 2.0)
    assert rl.allclose(total, rl.cat([g.reshape(-1) for g in before]).norm())
    factor = 2.0 / (total + 1e-6)
    for i, (p, g) in enumerate(zip(ps, before, strict=True)):
        assert rl.allclose(p.grad, g * factor ** (2 if i in (5, 6) else 1))
    for p in ps[7:]:
        p.grad = p.grad * 0
    assert rl.nn.utils.clip_grad_norm_(ps[7:], 2.0).item() == 0


def test_numbers_on_a_device_are_known_until_they_change():
    """Steps of fused updates are not read from the device, unless someone else wrote to them."""
    device = ReferenceDevice("numbersform")
    register(device)
    known, cells = KnownNumbers(), [rl.zeros((), device="numbersform") for _ in range(3)]
    assert known.read(cells[0]) == 0
    known.write(cells, 0.0, 1.0)
    read = []
    given = device.copy_to_host
    device.copy_to_host = lambda *args: (read.append(1), given(*args))[1]
    assert [known.read(cell) for cell in cells] == [1.0, 1.0, 1.0] and not read
    cells[1].fill_(7)
    assert known.read(cells[1]) == 7 and read and [cell.item() for cell in cells] == [1, 7, 1]
    del cells
    assert not known.found
