"""Gradients of pointwise ops where the samples of the parity tests do not reach: writes in place, broadcasting,
mixed dtypes, half precision, ties and kinks, and refusals of autograd."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402

pytestmark = pytest.mark.share(2)   # of each test that has several cases

IN_PLACE = [
    ("relu_", ()), ("sigmoid_", ()), ("tanh_", ()), ("exp_", ()), ("sin_", ()), ("sqrt_", ()), ("abs_", ()),
    ("square_", ()), ("neg_", ()), ("reciprocal_", ()), ("log_", ()), ("clamp_", (0.2, 0.8)), ("pow_", (3,)),
    ("pow_", (2.5,)), ("add_", (2,)), ("mul_", (3.0,)), ("div_", (4,)), ("sub_", (1,)), ("floor_", ()),
    ("lerp_", (1.0, 0.3)), ("addcmul_", (2.0, 3.0)), ("masked_fill_", (True, 2.0)), ("fmod_", (0.4,)),
    ("remainder_", (0.4,)), ("atan2_", (0.5,)), ("copysign_", (-1.0,)),
    ("nan_to_num_", ()), ("erf_", ()), ("xlogy_", (0.7,)),
]


def values(module):
    return module.tensor([[0.1, 0.5, 0.9], [1.5, 0.3, 0.7]], dtype=module.float64)


def arguments(module, name, args):
    """Tensors where the method takes only tensors."""
    if name == "masked_fill_":
        return (values(module) > 0.4, args[1])
    if name == "lerp_":
        return (module.full((2, 3), args[0], dtype=module.float64), args[1])
    if name in ("addcmul_", "atan2_"):
        return tuple(module.full((2, 3), a, dtype=module.float64) for a in args)
    return args


def write_and_differentiate(module, name, args):
    x = values(module).requires_grad_(True)
    y = x * 1.5
    returned = getattr(y, name)(*arguments(module, name, args))
    assert returned is y
    (y * values(module)).sum().backward()
    return x.grad


@pytest.mark.parametrize("name,args", IN_PLACE, ids=[f"{n}{a}" for n, a in IN_PLACE])
def test_gradient_through_a_write_in_place(name, args):
    ours, theirs = (write_and_differentiate(m, name, args) for m in (rl, torch))
    torch.testing.assert_close(torch.tensor(ours.tolist(), dtype=torch.float64), theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["add_", "mul_", "exp_", "relu_"])
def test_a_leaf_that_requires_grad_refuses_writes(name):
    for module in (rl, torch):
        x = values(module).requires_grad_(True)
        with pytest.raises(RuntimeError, match="leaf"):
            getattr(x, name)(*([] if name in ("exp_", "relu_") else [2.0]))


def test_a_saved_operand_that_was_written_is_noticed():
    for module in (rl, torch):
        x = values(module).requires_grad_(True)
        y = x * 2
        z = y * y
        y.add_(1)
        with pytest.raises(RuntimeError, match="modified"):
            z.sum().backward()


BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "pow",
    "maximum",
    "atan2",
    "hypot",
    "fmod",
    "logaddexp",
    "xlogy",
    "copysign",
    "where",
]
SHAPES = [((3, 1), (1, 4)), ((4,), (3, 4)), ((), (3, 4)), ((3, 4), ()), ((2, 3, 1), (4,)), ((1, 1), (3, 4))]


def ramp(module, shape, start, dtype):
    count = 1
    for n in shape:
        count *= n
    return module.tensor([start + 0.13 * i for i in range(count)], dtype=module.float64).reshape(shape).to(dtype)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("types", [("float64", "float64"), ("float32", "float64"), ("float64", "int64")])
def test_gradients_have_the_shape_and_dtype_of_their_operands(name, types):
    for first, second in SHAPES:
        got = []
        for module in (torch, rl):
            dtypes = [getattr(module, t) for t in types]
            operands = [ramp(module, shape, 0.6 + k, d) for k, (shape, d) in enumerate(zip((first, second), dtypes))]
            leaves = [x.requires_grad_(True) for x in operands if x.dtype.is_floating_point]
            if name in ("hypot", "logaddexp") and types[1] == "int64":
                return
            call = getattr(module, name)
            y = call(operands[0] > operands[1], *operands) if name == "where" else call(*operands)
            (y * y).sum().backward()
            got.append([(tuple(x.grad.shape), str(x.grad.dtype).split(".")[1], x.grad.tolist()) for x in leaves])
        for theirs, ours in zip(*got):
            assert ours[:2] == theirs[:2], (name, first, second)
            torch.testing.assert_close(torch.tensor(ours[2]), torch.tensor(theirs[2]), rtol=3e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid", "relu", "sqrt", "log", "sin", "square"])
def test_half_precision_gradients(name, dtype):
    got = []
    for module in (torch, rl):
        x = module.tensor([0.25, 0.5, 1.0, 2.0, 3.5], dtype=getattr(module, dtype), requires_grad=True)
        getattr(module, name)(x).sum().backward()
        got.append(x.grad.float().tolist())
        assert str(x.grad.dtype).endswith(dtype)
    torch.testing.assert_close(torch.tensor(got[1]), torch.tensor(got[0]), rtol=2**-7, atol=2**-9)


KINKS = [
    "abs",
    "relu",
    "sign",
    "floor",
    "round",
    "frac",
    "sqrt",
    "log",
    "sinc",
    "reciprocal",
    "square",
    "i0",
    "xlogy_self",
]


@pytest.mark.parametrize("name", KINKS)
def test_gradients_at_zero_and_at_infinity(name):
    points = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1.0]
    got = []
    for module in (torch, rl):
        x = module.tensor(points, dtype=module.float64, requires_grad=True)
        y = module.xlogy(x, x) if name == "xlogy_self" else getattr(module, name)(x)
        y.sum().backward()
        got.append(x.grad.tolist())
    torch.testing.assert_close(torch.tensor(got[1]), torch.tensor(got[0]), equal_nan=True, rtol=1e-6, atol=0)


def test_ties_share_the_gradient():
    for name in ("maximum", "minimum", "fmax", "fmin"):
        got = []
        for module in (torch, rl):
            a = module.tensor([1.0, 2.0, float("nan"), 3.0], requires_grad=True)
            b = module.tensor([1.0, 3.0, 1.0, float("nan")], requires_grad=True)
            getattr(module, name)(a, b).sum().backward()
            got.append(a.grad.tolist() + b.grad.tolist())
        assert got[0] == got[1], name


def test_clamp_gradients_reach_tensor_limits():
    got = []
    for module in (torch, rl):
        x = module.tensor([-1.0, 0.5, 2.0, 1.0], requires_grad=True)
        low = module.tensor([0.0, 0.0, 0.0, 3.0], requires_grad=True)
        high = module.tensor([1.0, 1.0, 1.0, 2.0], requires_grad=True)
        module.clamp(x, low, high).sum().backward()
        got.append([t.grad.tolist() for t in (x, low, high)])
    assert got[0] == got[1]


def test_third_derivatives():
    for name in ("sin", "exp", "tanh", "sigmoid", "log", "reciprocal", "sqrt"):
        got = []
        for module in (torch, rl):
            x = values(module).requires_grad_(True)
            y = getattr(module, name)(x)
            for _ in range(3):
                (y,) = module.autograd.grad(y.sum(), x, create_graph=True)
                if not y.requires_grad:
                    break
            got.append(y.tolist())
        torch.testing.assert_close(torch.tensor(got[1]), torch.tensor(got[0]), rtol=1e-6, atol=1e-9)


def test_conjugation_conjugates_the_gradient():
    got = []
    for module in (torch, rl):
        x = module.tensor([0.5 + 0.3j, -1.0 + 2.0j], dtype=module.complex128, requires_grad=True)
        (module.conj_physical(x) * (1 + 0.3j) + x.conj() * x).abs().sum().backward()
        got.append(torch.tensor(x.grad.tolist()))
    torch.testing.assert_close(got[1], got[0])


@pytest.mark.parametrize("name", ["ceil", "floor", "sign", "trunc", "round"])
def test_gradient_that_is_always_zero_has_no_graph(name: str) -> None:
    x = rl.tensor([0.5, -1.5], requires_grad=True)
    (g,) = rl.autograd.grad(getattr(x, name)(), x, rl.ones(2, requires_grad=True), create_graph=True)
    assert g.tolist() == [0.0, 0.0]
    assert not g.requires_grad
    (g,) = rl.autograd.grad(x.sin(), x, rl.ones(2, requires_grad=True), create_graph=True)
    assert g.requires_grad


@pytest.mark.parametrize("name", ["copysign", "nextafter"])
def test_only_the_gradient_that_is_always_zero_has_no_graph(name: str) -> None:
    x, y = rl.tensor([0.5, -1.5], requires_grad=True), rl.tensor([2.0, 3.0], requires_grad=True)
    left, right = rl.autograd.grad(getattr(rl, name)(x, y), (x, y), rl.ones(2, requires_grad=True), create_graph=True)
    assert left.requires_grad
    assert right.tolist() == [0.0, 0.0]
    assert not right.requires_grad


@pytest.mark.parametrize("name", ["sgn", "angle"])
def test_gradient_that_is_zero_for_real_numbers_only_has_a_graph(name: str) -> None:
    x = rl.tensor([0.5 + 1j, -1.5 + 2j], dtype=rl.complex128, requires_grad=True)
    assert rl.autograd.gradgradcheck(getattr(rl, name), (x,))


def test_gradient_of_a_complex_numbers_part_has_a_graph() -> None:
    parts = [rl.tensor([0.5, -1.5], dtype=rl.float64, requires_grad=True) for _ in range(2)]
    assert rl.autograd.gradgradcheck(lambda real, imag: rl.complex(real, imag) ** 2, parts)


@pytest.mark.parametrize("repeats", [(0,), (0, 2), (2, 0)])
def test_gradient_of_no_repeats_has_no_graph(repeats: tuple[int, ...]) -> None:
    x = rl.tensor([0.5, -1.5], requires_grad=True)
    for result in (x.repeat(repeats), x.tile(repeats)):
        (g,) = rl.autograd.grad(result, x, rl.ones(result.shape, requires_grad=True), create_graph=True)
        assert g.tolist() == [0.0, 0.0]
        assert not g.requires_grad
    (g,) = rl.autograd.grad(x.repeat(2), x, rl.ones(4, requires_grad=True), create_graph=True)
    assert g.requires_grad


@pytest.mark.parametrize("order, second", [(2, True), (1, False), (3, False)])
def test_second_gradient_of_a_norm_at_zero(order: int, second: bool) -> None:
    """That of the 2-norm has no bound towards 0: NaN, as in PyTorch, while the first is the subgradient 0."""
    x = rl.zeros(3, dtype=rl.float64, requires_grad=True)
    (g,) = rl.autograd.grad(rl.linalg.vector_norm(x, order), x, create_graph=True)
    assert g.tolist() == [0.0] * 3
    (h,) = rl.autograd.grad(g.sum(), x)
    assert h.isnan().all().item() is second


def gradients_and_their_graphs(module, function, count):
    """The first gradients of a function of two vectors, as numbers, and whether each has a graph;
    or what was raised."""
    given = [
        module.tensor(numbers, dtype=module.float64, requires_grad=True)
        for numbers in ([3.0, -5.0, 7.5], [2.0, 3.0, 0.5])
    ][:count]
    try:
        grads = module.autograd.grad(function(module, *given).sum(), given, create_graph=True)
    except RuntimeError as error:   # NotImplementedError is one
        return type(error).__name__
    return [(g.tolist(), g.requires_grad) for g in grads]


@pytest.mark.parametrize(("function", "count"), [
    (lambda m, x, y: m.div(x, y, rounding_mode="floor"), 2),
    (lambda m, x, y: m.div(x, y, rounding_mode="trunc"), 2),
    (lambda m, x: m.div(x, 2.0, rounding_mode="trunc"), 1),
    (lambda m, x, y: m.div(x, y, rounding_mode=None), 2),
    (lambda m, x: x**0, 1),
    (lambda m, x: m.float_power(x, 0.0), 1),
    (lambda m, x: x**1, 1),
    (lambda m, x: x**2, 1),
    (lambda m, x: (x * 1).pow_(0), 1),
])
def test_gradients_that_are_0_with_these_settings_have_no_graph(function, count):
    expected = gradients_and_their_graphs(torch, function, count)
    assert gradients_and_their_graphs(rl, function, count) == expected


@pytest.mark.parametrize(("function", "count"), [
    (lambda m, x, y: m.floor_divide(x, y), 2),
    (lambda m, x: x // 2, 1),
    (lambda m, x: (x * 1).floor_divide_(2), 1),
    (lambda m, x, y: m.heaviside(x, y), 2),
    (lambda m, x: m.heaviside(x, m.ones(3, dtype=m.float64)), 1),
    (lambda m, x, y: m.special.zeta(x, y), 2),
])
def test_a_derivative_that_pytorch_has_not_is_refused_by_the_backward_pass(function, count):
    expected = gradients_and_their_graphs(torch, function, count)
    assert expected in ("RuntimeError", "NotImplementedError")
    assert gradients_and_their_graphs(rl, function, count) == expected


def test_zeta_has_a_derivative_in_its_start_alone():
    result = []
    for module in (torch, rl):
        power, start = (module.tensor([3.0, 4.0], dtype=module.float64, requires_grad=True) for _ in range(2))
        (grad,) = module.autograd.grad(module.special.zeta(power, start).sum(), [start])
        result.append(grad.tolist())
    assert result[1] == pytest.approx(result[0], rel=1e-12)
