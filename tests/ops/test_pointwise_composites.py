"""Composite ops of the pointwise families against PyTorch: polynomials, prelu, rrelu, conj, positive,
methods and flags."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402

POLYNOMIALS = [
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
    "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w", "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
    "legendre_polynomial_p",
]


def same(ours, theirs, rtol=1e-6, atol=1e-7):
    assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
    torch.testing.assert_close(
        torch.tensor(ours.tolist()), torch.tensor(theirs.tolist()), rtol=rtol, atol=atol, equal_nan=True
    )


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_orthogonal_polynomials(name):
    points = [0.3, 0.7, 0.9, 0.05]
    for degrees in (0, 1, 2, 5, [0, 1, 3, 6], [[2], [4]]):
        got = []
        for module in (rl, torch):
            n = degrees if isinstance(degrees, int) else module.tensor(degrees)
            got.append(getattr(module.special, name)(module.tensor(points, dtype=module.float64), n))
        same(*got)
    integers = [getattr(m.special, name)(m.tensor([0, 1, 2]), 3) for m in (rl, torch)]
    same(*integers)


@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 3, 4)])
@pytest.mark.parametrize("count", [1, 3])
def test_prelu_and_its_gradients(shape, count):
    if count == 3 and len(shape) == 1:
        return
    got = []
    for module in (rl, torch):
        total = 1
        for n in shape:
            total *= n
        x = module.tensor([0.37 * i - 2 for i in range(total)]).reshape(shape).requires_grad_(True)
        w = module.tensor([0.1, 0.25, 0.5][:count], requires_grad=True)
        y = module.nn.functional.prelu(x, w)
        (y * y).sum().backward()
        got.append((y.detach(), x.grad, w.grad))
    for ours, theirs in zip(*got):
        same(ours, theirs)


def test_prelu_refuses_a_weight_of_another_length():
    for module in (rl, torch):
        with pytest.raises(RuntimeError):
            module.nn.functional.prelu(module.ones(2, 3), module.ones(2))


def test_rrelu():
    points = [-2.0, -0.5, 0.0, 1.0, -3.0, 2.0]
    same(rl.nn.functional.rrelu(rl.tensor(points)), torch.nn.functional.rrelu(torch.tensor(points)))
    x = rl.tensor(points)
    y = rl.nn.functional.rrelu(x, 0.1, 0.3, training=True)
    for before, after in zip(points, y.tolist()):
        assert after == before if before > 0 else 0.3 * before - 1e-6 <= after <= 0.1 * before + 1e-6


def test_conj_positive_and_resolve():
    x = rl.tensor([1.0, -2.0])
    assert x.conj() is x and (+x) is x and x.resolve_conj() is x
    same(rl.tensor([1 + 2j]).conj(), torch.tensor([1 + 2j]).conj())
    with pytest.raises(RuntimeError):
        +rl.tensor([True])


FLAGGED = ["relu", "relu6", "leaky_relu", "elu", "selu", "celu", "silu", "mish", "hardtanh", "hardsigmoid", "hardswish"]


@pytest.mark.parametrize("name", FLAGGED)
def test_the_inplace_flag(name):
    points = [-4.0, -0.5, 0.0, 2.0, 7.0]
    x = rl.tensor(points)
    function = getattr(rl.nn.functional, name)
    same(function(x), getattr(torch.nn.functional, name)(torch.tensor(points)))
    assert x.tolist() == points
    assert function(x, inplace=True) is x
    same(x, getattr(torch.nn.functional, name)(torch.tensor(points)))


def test_methods_whose_self_is_not_the_first_argument():
    points = [0.5, 1.5, 2.5]
    same(
        rl.tensor(points).where(rl.tensor([True, False, True]), 0),
        torch.tensor(points).where(torch.tensor([True, False, True]), 0),
    )
    same(rl.tensor(points).polygamma(2), torch.tensor(points).polygamma(2))
    same(rl.tensor(points).polygamma_(1), torch.tensor(points).polygamma_(1))


def test_operators_with_numbers_on_either_side():
    for expression in ("x + 2", "2 + x", "x - 2", "2 - x", "x * 3", "3 * x", "x / 2", "2 / x", "x // 2", "7 // x",
                       "x % 2", "7 % x", "x ** 2", "2 ** x", "-x", "+x", "abs(x)", "x < 2", "2 < x", "x == 2", "x != 2",
                       "~(x > 1)", "(x > 1) & (x < 3)", "(x > 1) | True", "(x > 1) ^ (x < 3)", "i << 1", "i >> 1",
                       "1 << i", "64 >> i", "i & 3", "3 | i", "i ^ 1", "~i", "2 - i", "i ** 3", "2 ** i", "i / 2",
                       "7 // i", "i % 2", "7 % i", "-i"):
        got = []
        for module in (rl, torch):
            scope = {"x": module.tensor([0.5, 1.0, 2.0, 3.5]), "i": module.tensor([1, 2, 3, 5])}
            got.append(eval(expression, scope))
        same(*got)


def test_augmented_assignment_writes_in_place():
    for statement in (
        "x += 1",
        "x -= 2",
        "x *= 3",
        "x /= 4",
        "x //= 2",
        "x %= 2",
        "x **= 2",
        "i &= 6",
        "i |= 1",
        "i ^= 3",
        "i <<= 2",
        "i >>= 1",
    ):
        got = []
        for module in (rl, torch):
            scope = {"x": module.tensor([0.5, 1.0, 2.0, 3.5]), "i": module.tensor([1, 2, 3, 5])}
            before = scope[statement[0]]
            exec(statement, scope)
            assert scope[statement[0]] is before
            got.append(before)
        same(*got)


def test_integer_division_by_zero_raises():
    for expression in (
        "i // 0",
        "i % 0",
        "i // z",
        "i % z",
        "torch.div(i, z, rounding_mode='trunc')",
        "torch.fmod(i, z)",
    ):
        for module in (rl, torch):
            scope = {"i": module.tensor([1, 2]), "z": module.tensor([1, 0]), "torch": module}
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                eval(expression, scope)


def test_fractional_numbers_do_not_fit_integers_in_place():
    for statement in ("i += 1.5", "i *= 2.5", "i /= 2"):
        for module in (rl, torch):
            with pytest.raises(RuntimeError):
                exec(statement, {"i": module.tensor([1, 2])})


def test_incomplete_gamma_functions():
    a = [0.0, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 39.0, 41.0, 100.0, 1000.0, float("inf"), -1.0]
    x = [0.0, 0.01, 0.5, 1.0, 3.0, 9.0, 11.0, 30.0, 45.0, 90.0, 110.0, 1000.0, 1005.0, float("inf"), -1.0]
    for name in ("igamma", "igammac"):
        for dtype, rtol in (("float64", 1e-8), ("float32", 2e-5)):  # PyTorch's float64 has about ten digits
            got = []
            for module in (rl, torch):
                kind = getattr(module, dtype)
                got.append(
                    getattr(module, name)(module.tensor(a, dtype=kind).unsqueeze(1), module.tensor(x, dtype=kind))
                )
            same(*got, rtol=rtol, atol=1e-38)
    with pytest.raises(NotImplementedError):
        rl.igamma(rl.tensor([1]), rl.tensor([2]))


def test_incomplete_gamma_gradients():
    got = []
    for module in (rl, torch):
        x = module.tensor([0.5, 2.0, 60.0], dtype=module.float64, requires_grad=True)
        a = module.tensor([1.0, 3.0, 50.0], dtype=module.float64)
        (module.igamma(a, x) + 2 * module.igammac(a, x)).sum().backward()
        got.append(x.grad)
        a.requires_grad_(True)
        with pytest.raises(NotImplementedError):
            module.igamma(a, x).sum().backward()
    same(*got, rtol=1e-9)


def test_numbers_alone_and_numbers_that_cannot_be_written():
    same(rl.add(2, 3), torch.add(2, 3))
    same(rl.mul(2, rl.tensor([1.5])), torch.mul(2, torch.tensor([1.5])))
    same(rl.pow(2.0, rl.tensor([3])), torch.pow(2.0, torch.tensor([3])))
    for name in ("add_", "mul_", "pow_", "remainder_", "bitwise_and_", "xlogy_"):
        with pytest.raises(TypeError):
            getattr(rl.Tensor, name)(5, rl.ones(2))
