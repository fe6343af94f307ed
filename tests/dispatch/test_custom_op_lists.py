"""Custom ops over lists of tensors, ops without a derivative, and what a user's functions are given."""

import pytest

import rushlight as rl
from rushlight.library import custom_op, opcheck


@custom_op("lists::scaled_sum", mutates_args=())
def scaled_sum(xs: list[rl.Tensor], n: float) -> rl.Tensor:
    return sum(x * n for x in xs)


@scaled_sum.register_fake
def _(xs, n):
    return rl.empty_like(xs[0])


def keep_count(ctx, inputs, output):
    assert isinstance(inputs[0], list)
    ctx.count, ctx.n = len(inputs[0]), inputs[1]


scaled_sum.register_autograd(lambda ctx, g: ([g * ctx.n] * ctx.count, None), setup_context=keep_count)


@custom_op("lists::multiples", mutates_args=())
def multiples(x: rl.Tensor) -> list[rl.Tensor]:
    return [x * 2, x * 3]


multiples.register_autograd(lambda ctx, grads: grads[0] * 2 + grads[1] * 3)


@custom_op("lists::plain", mutates_args=())
def plain(x: rl.Tensor) -> rl.Tensor:
    return x * 2


def test_gradients_reach_tensors_in_lists():
    x, y = rl.ones(2, requires_grad=True), rl.ones(2, requires_grad=True)
    scaled_sum([x, y, rl.ones(2), x], 3.0).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0] and y.grad.tolist() == [3.0, 3.0]


def test_gradients_leave_lists_of_results():
    x = rl.ones(2, requires_grad=True)
    results = multiples(x)
    assert isinstance(results, list)
    (results[0].sum() + 2 * results[1].sum()).backward()
    assert x.grad.tolist() == [8.0, 8.0]


def test_lists_in_a_compiled_graph():
    x, y = rl.ones(2, requires_grad=True), rl.ones(2, requires_grad=True)
    rl.compile(lambda a, b: scaled_sum([a, b], 2.0).sum(), backend="aot_eager", fullgraph=True)(x, y).backward()
    assert x.grad.tolist() == y.grad.tolist() == [2.0, 2.0]
    assert set(opcheck(scaled_sum, ([x, y], 2.0)).values()) == {"SUCCESS"}


def test_lists_under_transforms():
    x, y = rl.ones(2), rl.full((2,), 2.0)
    assert rl.func.grad(lambda a, b: scaled_sum([a, b], 3.0).sum())(x, y).tolist() == [3.0, 3.0]
    assert rl.func.grad(lambda a: (multiples(a)[0] * multiples(a)[1]).sum())(x).tolist() == [12.0, 12.0]


def test_a_wrong_number_of_gradients_for_a_list_is_refused():
    @custom_op("lists::short", mutates_args=())
    def short(xs: list[rl.Tensor]) -> rl.Tensor:
        return xs[0] + xs[1]

    short.register_autograd(lambda ctx, g: [g])
    with pytest.raises(RuntimeError, match="expected 2 gradients in a list for argument 'xs', got 1"):
        short([rl.ones(1, requires_grad=True), rl.ones(1)]).sum().backward()


def test_a_missing_derivative_is_told_and_not_left_out():
    x = rl.ones(2, requires_grad=True)
    loss = (plain(x) + x).sum()
    with pytest.raises(RuntimeError, match="register_autograd"):
        loss.backward()
    with rl.no_grad():
        assert not plain(x).requires_grad
    assert not plain(x.detach()).requires_grad


def test_an_op_that_returns_nothing_needs_no_fake():
    @custom_op("lists::doubles", mutates_args=("x",))
    def doubles(x: rl.Tensor) -> None:
        x.mul_(2)

    assert set(opcheck(doubles, (rl.ones(2),)).values()) == {"SUCCESS"}


@pytest.mark.parametrize("requires_grad", [False, True])
def test_functions_of_users_are_given_lists(requires_grad):
    seen = []

    @custom_op("lists::seen", mutates_args=())
    def seeing(xs: list[rl.Tensor], size: list[int], scale: list[float]) -> rl.Tensor:
        seen.extend([xs, size, scale])
        return xs[0].new_ones(size + [1])

    xs = (rl.ones(1, requires_grad=requires_grad),)
    assert seeing(xs, rl.Size((2,)), (1.0,)).shape == (2, 1)
    assert [type(value) for value in seen] == [list, list, list]
