"""gradcheck finds wrong derivatives and accepts right ones, in every mode it offers."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.autograd import Function, gradcheck, gradgradcheck
from rushlight.autograd.gradcheck import GradcheckError


def leaf(values, dtype=rl.float64):
    return rl.tensor(values, dtype=dtype).requires_grad_()


class Wrong(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * g


@pytest.mark.parametrize("fast_mode", [False, True])
def test_accepts_and_refuses(fast_mode: bool) -> None:
    x, y = leaf([[0.5, 1.0], [2.0, -1.0]]), leaf([0.3, 0.7])
    assert gradcheck(lambda a, b: (a * b.exp()).sin(), (x, y), fast_mode=fast_mode)
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(Wrong.apply, (x,), fast_mode=fast_mode)
    assert not gradcheck(Wrong.apply, (x,), fast_mode=fast_mode, raise_exception=False)


def test_inputs_are_left_as_they_were() -> None:
    x = leaf([0.5, 1.5])
    gradcheck(lambda a: a.exp(), x)
    assert x.tolist() == [0.5, 1.5] and x._version == 0


def test_complex_inputs_and_outputs() -> None:
    z, x = leaf([0.5 + 1j, -1 + 0.25j], rl.complex128), leaf([0.5, 2.0])
    assert gradcheck(lambda a, b: a * a * b, (z, x))


def test_several_outputs() -> None:
    x = leaf([0.5, 1.5])
    assert gradcheck(lambda a: (a * 2, a.exp(), a.detach() * 0), x)


def test_second_order() -> None:
    x, y = leaf([0.5, 1.5]), leaf([2.0, -0.5])
    assert gradgradcheck(lambda a, b: a.exp() * b * b, (x, y))
    assert gradgradcheck(lambda a, b: a.exp() * b * b, (x, y), fast_mode=True)


def test_needs_an_input_that_requires_grad() -> None:
    with pytest.raises(ValueError):
        gradcheck(lambda a: a, rl.ones(2))


def test_warns_about_single_precision() -> None:
    with pytest.warns(UserWarning, match="double precision"):
        gradcheck(lambda a: a * 2, rl.ones(2).requires_grad_(), eps=1e-2, atol=1e-2)


def test_undefined_gradients_must_be_handled() -> None:
    class Careless(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if g is None:
                raise RuntimeError("no gradient?")
            return g * 2

    with pytest.raises(GradcheckError, match="undefined"):
        gradcheck(Careless.apply, leaf([1.0]))
    assert gradcheck(Careless.apply, leaf([1.0]), check_undefined_grad=False)


def test_nondeterministic_backward() -> None:
    calls = [0]

    class Drifts(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            calls[0] += 1
            return g * (2 + 1e-7 * calls[0])

    with pytest.raises(GradcheckError, match="not reentrant"):
        gradcheck(Drifts.apply, leaf([1.0]))
    assert gradcheck(Drifts.apply, leaf([1.0]), nondet_tol=1e-3)


def test_unsupported_checks_say_so() -> None:
    with pytest.raises(NotImplementedError):
        gradcheck(lambda a: a, leaf([1.0]), masked=True)
    with pytest.raises(ValueError):
        gradcheck(lambda a: a, leaf([1.0]), check_batched_forward_grad=True)


def test_batched_checks_and_forward_over_reverse() -> None:
    x, y = leaf([[0.5, 1.0], [2.0, -1.0]]), leaf([0.3, 0.7])
    f = lambda a, b: (a * b.exp()).softmax(1).cumsum(0)  # noqa: E731
    assert gradcheck(f, (x, y), check_forward_ad=True, check_batched_forward_grad=True, check_batched_grad=True)
    assert gradgradcheck(f, (x, y), check_fwd_over_rev=True, check_batched_grad=True)


def test_is_also_a_module() -> None:
    import rushlight.autograd.gradcheck as module

    assert module.GradcheckError is GradcheckError and rl.autograd.gradcheck(lambda a: a * 2, leaf([1.0]))
