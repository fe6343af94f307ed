"""Fused bodies: every op is lowered as it would be alone, with its arguments and its types,
and one kernel runs all of them."""

import pytest

import rushlight as R
from rushlight.op.fused import Fused, bind, call, column
from rushlight.op.schema import parse


class Body(Fused):
    """A fused op of this test, unregistered: `compute` is given."""

    def __init__(self, text, compute, out=None, **kinds):
        self.row_operands, self.column_operands = kinds.get("rows", ()), kinds.get("columns", ())
        self.index_operand = None
        self.given, self.out_types = compute, out
        super().__init__(parse(text))

    def compute(self, *args):
        return self.given(*args)

    def row_dims(self, *args):
        return 1

    def out_dtype(self, k, args):
        return self.out_types[k] if self.out_types else args[0].dtype


def ran(body, *tensors):
    """The kernel's results, and those of the ops one after the other."""
    return body.plan(tensors)(*tensors), body.compute(*tensors)


@pytest.mark.parametrize("dtype", [R.float32, R.float64])
def test_types_are_what_the_ops_say(dtype):
    x, n = R.randn(6, 9).to(dtype), R.randint(-3, 4, (6, 9))

    def compute(x, n):
        positive = n > 0
        return (
            (x * positive).sum(-1, keepdim=True),
            (n * n + positive).sum(-1, keepdim=True),
            x / n.abs().amax(-1, keepdim=True),
        )

    body = Body("_test(Tensor x, Tensor n) -> (Tensor, Tensor, Tensor)", compute, (dtype, R.int64, dtype))
    for got, expected in zip(*ran(body, x, n), strict=True):
        assert got.dtype is expected.dtype
        R.testing.assert_close(got, expected)


def test_large_integers_stay_exact():
    n = R.tensor([[2**53, 1], [3, 2**53 + 2]])
    body = Body("_test(Tensor n) -> Tensor", lambda n: n - n.sum(-1, keepdim=True), (R.int64,))
    got, expected = ran(body, n)
    assert R.equal(got, expected)


def test_arguments_of_reductions_are_kept():
    x = R.randn(5, 40)
    for compute, dtype in (
        (lambda x: x.sum(-1, keepdim=True, dtype=R.float64), R.float64),
        (lambda x: x.logsumexp(-1, keepdim=True), R.float32),
    ):
        body = Body("_test(Tensor x) -> Tensor", compute, (dtype,))
        got, expected = ran(body, x)
        assert got.dtype is expected.dtype
        R.testing.assert_close(got, expected)
    for order in (1, 2, 3, float("inf")):
        body = Body(
            "_test(Tensor x) -> Tensor", lambda x, order=order: call("linalg_vector_norm", (x, order, (-1,), True), {})
        )
        R.testing.assert_close(body.plan((x,))(x), R.linalg.vector_norm(x, order, -1, True))


def test_reductions_of_anything_but_whole_rows_are_refused():
    x = R.randn(3, 4, 5)
    for compute in (
        lambda x: x.sum(0, keepdim=True),
        lambda x: x.sum(-1),
        lambda x: x.sum(),
        lambda x: x.var(-1, keepdim=True),
        lambda x: x.argmax(-1, keepdim=True),
    ):
        with pytest.raises(TypeError, match="whole rows"):
            Body("_test(Tensor x) -> Tensor", compute).plan((x,))
    with pytest.raises(TypeError, match="pointwise ops and reductions"):
        Body("_test(Tensor x) -> Tensor", lambda x: x.cumsum(-1)).plan((x,))


def test_rows_of_several_dims_and_strided_operands():
    x = R.randn(4, 3, 5).permute(1, 0, 2)
    weight = R.randn(10)[::2]
    body = Body(
        "_test(Tensor x, Tensor weight) -> (Tensor, Tensor)",
        lambda x, weight: (x * weight - x.amax(-1, keepdim=True), (x * x).mean(-1, keepdim=True)),
        columns=("weight",),
    )
    for got, expected in zip(*ran(body, x, weight), strict=True):
        R.testing.assert_close(got, expected)


def test_elements_are_kept_for_later_loops_one_after_another():
    """Both functions take longer than memory, so each is kept where the result will be, the second over the first."""
    x, w = R.randn(5, 77), R.randn(77)

    def compute(x, w):
        soft = (x * x).log1p().sin()
        e = (soft - soft.amax(-1, keepdim=True)).exp()
        return e / e.sum(-1, keepdim=True) * w

    body = Body("_test(Tensor x, Tensor w) -> Tensor", compute, columns=("w",))
    R.testing.assert_close(*ran(body, x, w))

    def twice(x, w):
        soft = (x * x).log1p().sin()
        e = (soft - soft.amax(-1, keepdim=True)).exp()
        return e / e.sum(-1, keepdim=True) * w + soft       # what is kept first is still needed

    R.testing.assert_close(*ran(Body("_test(Tensor x, Tensor w) -> Tensor", twice, columns=("w",)), x, w))


def test_half_types_are_widened_once():
    x = R.randn(4, 600).bfloat16()
    got = R.softmax(x, -1)
    wide = x.float().softmax(-1)
    assert got.dtype is R.bfloat16 and R.equal(got, wide.bfloat16())


def test_the_schema_that_fits_is_chosen():
    definition, bound = bind("sum", (R.randn(2),), {"dim": (0,), "keepdim": True})
    given = dict(zip([p.name for p in definition.spec.params], bound, strict=True))
    assert given["dim"] == (0,) and given["keepdim"] is True


@pytest.mark.parametrize("cols", [1, 5, 70])
def test_the_picked_element_of_a_row_is_written_where_it_belongs(cols):
    x, grad = R.randn(6, cols), R.randn(6, 1)
    target = R.randint(0, cols, (6, 1))
    body = Body(
        "_test(Tensor x, Tensor grad, Tensor target) -> Tensor",
        lambda x, grad, target: (x.exp() - column(target, x)) * grad + x,
        rows=("grad", "target"),
    )
    body.index_operand = "target"
    R.testing.assert_close(*ran(body, x, grad, target))
    body = Body(
        "_test(Tensor x, Tensor grad, Tensor target) -> Tensor",
        lambda x, grad, target: x + column(target, x) * x.amax(-1, keepdim=True) - column(target, x) * grad,
        rows=("grad", "target"),
    )
    body.index_operand = "target"
    R.testing.assert_close(*ran(body, x, grad, target))
