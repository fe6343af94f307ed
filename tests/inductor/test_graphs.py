"""Graphs as one plan: what a compiled graph gives is what the ops give one by one."""

from __future__ import annotations

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn
from tests.inductor.harness import check, compiled, kernels


def test_pointwise_ops_share_a_kernel() -> None:
    made = check(lambda x, y: ((x * y + 1).sigmoid() * x).tanh(), rl.randn(5, 7), rl.randn(7))
    assert kernels(made) == ["points[mul, add, sigmoid, mul, tanh]"]


def test_what_is_read_outside_of_a_group_is_stored() -> None:
    def f(x, y):
        h = (x + y).relu()
        return h, h.exp().sum(), h @ y.t()

    made = check(f, rl.randn(33, 8), rl.randn(33, 8))
    assert kernels(made)[0] == "points[add, relu, exp]"


def test_a_group_never_runs_before_what_one_of_its_members_needs() -> None:
    """The product needs the first op and feeds the last: they cannot share a kernel."""

    def f(x):
        a = x * 2
        b = a @ a
        return a + b

    assert kernels(check(f, rl.randn(6, 6))) == ["points[mul]", "steps[matmul]", "points[add]"]


def test_rows_around_a_fused_body_share_its_kernel() -> None:
    x, y, w, b = rl.randn(40, 24), rl.randn(40, 24), rl.randn(24), rl.randn(24)
    made = check(lambda x, y, w, b: F.layer_norm(x + y, (24,), w, b).relu() * 2, x, y, w, b)
    assert kernels(made) == ["rows[add, _layer_norm_rows, relu, mul]"]


def test_folds_of_rows_share_a_kernel_with_what_stands_around_them() -> None:
    made = check(lambda x: x * 2 / (x * 2).sum(-1, keepdim=True).sqrt().abs(), rl.rand(64, 31) + 0.5)
    assert len(kernels(made)) == 1 and kernels(made)[0].startswith("rows[")


@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16])
def test_sums_over_rows_share_the_kernel_of_their_rows(dtype) -> None:
    """The gradients of a norm's weights, beside that of a residual connection."""

    def f(x, y, w, b):
        h = x * y
        return rl.autograd.grad((F.layer_norm(h, (24,), w, b) + h).sin().sum(), [x, w, b])

    tensors = [rl.randn(40, 24), rl.randn(40, 24), rl.randn(24), rl.randn(24)]
    near = {"rtol": 0.05, "atol": 0.3} if dtype is rl.bfloat16 else {"rtol": 1e-4, "atol": 1e-5}
    made = check(f, *[t.to(dtype).requires_grad_() for t in tensors], **near)
    assert any("_layer_norm_backward" in name and "add" in name for name in kernels(made)), kernels(made)


def test_rows_of_an_expanded_tensor_are_not_read_as_if_they_lay_in_memory() -> None:
    check(lambda x: x.expand(16, 3, 5).norm(dim=-1, keepdim=True) + 1, rl.randn(3, 5))


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.bfloat16, rl.float16])
def test_types_between_ops_are_rounded_as_if_stored(dtype) -> None:
    x = rl.randn(64, 32).to(dtype)
    check(
        lambda x: (x * 1.1 + x).exp() - x.softmax(-1),
        x,
        rtol=0.02 if dtype.itemsize < 4 else 1e-5,
        atol=0.02 if dtype.itemsize < 4 else 1e-6,
    )
    check(lambda x: (x * 1.1 + 0.3) * x, x, rtol=0, atol=0)


def test_numbers_of_one_op_may_be_of_different_types() -> None:
    """The kernel of an integer alpha must not serve a float one."""
    x, y = rl.randn(9), rl.randn(9)
    for alpha in (2, -3.125, 4):
        check(lambda x, y, alpha=alpha: rl.rsub(x, y, alpha=alpha), x, y)


def test_layouts_are_those_of_eager_mode() -> None:
    x = rl.randn(2, 3, 4, 5).contiguous(memory_format=rl.channels_last)
    check(lambda x: (x * 2).relu(), x)
    check(lambda x: x.transpose(0, 1) + 1, rl.randn(4, 6))
    check(lambda x: x.permute(2, 0, 1).exp().sum(1), rl.randn(3, 4, 5))
    check(lambda x: x.expand(4, 3) + x, rl.randn(3))


def test_views_of_inputs_and_results_are_outputs() -> None:
    def f(x):
        y = x * 2
        return y, y.t(), y.view(-1)[3:7], x[1], x, y.unsqueeze(0).expand(3, -1, -1)

    x = rl.randn(4, 5)
    made = check(f, x)
    y, transposed, *_, same, _ = made([x])
    assert same is x and transposed.data_ptr() == y.data_ptr()


@pytest.mark.parametrize("shape", [(), (0,), (0, 4), (1,), (1, 1)])
def test_shapes_with_few_elements_or_none(shape) -> None:
    check(lambda x: (x + 1).exp() * x, rl.randn(shape))
    check(lambda x: x.sum() * 2, rl.randn(shape))


def test_writes_in_place_are_seen_by_later_readers_only() -> None:
    def f(x):
        y = x * 2
        before = y + 1
        y.mul_(3)
        return before, y + 1, y.clamp_(max=1.0) * before

    check(f, rl.randn(5, 6))


def test_an_op_whose_elements_decide_is_called() -> None:
    made = check(lambda a, x: rl.igamma(a, x) + 1, rl.rand(6) * 60, rl.rand(6) * 50)
    assert made.calls == ("igamma",)
    made = check(lambda a: rl.linalg.matrix_exp(a), rl.randn(4, 4) * 3)
    assert "linalg_matrix_exp" in made.calls


def test_random_numbers_are_those_of_eager_mode() -> None:
    check(lambda x: F.dropout(x, 0.4, training=True) + rl.rand_like(x), rl.randn(50, 20))


def test_an_index_out_of_range_raises() -> None:
    table, rows = rl.randn(5, 3), rl.tensor([0, 4])
    made = check(lambda t, i: F.embedding(i, t) * 2, table, rows)
    with pytest.raises(IndexError):
        made([table, rl.tensor([0, 5])])
    logits, target = rl.randn(6, 4), rl.tensor([0, 1, 2, 3, 0, 1])
    made = compiled(lambda x, y: F.cross_entropy(x * 2, y), (logits, target))
    with pytest.raises(IndexError):
        made([logits, target + 3])


def step_of(model: nn.Module, loss):
    """A function from parameters and data to the loss and all gradients."""

    def step(params, x, y):
        value = loss(rl.func.functional_call(model, params, (x,)), y)
        return value, rl.autograd.grad(value, list(params.values()))

    return step


def test_a_training_step_of_a_transformer_layer() -> None:
    rl.manual_seed(0)
    model = nn.Sequential(
        nn.Embedding(11, 16), nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), nn.Linear(16, 11)
    )
    x, y = rl.randint(0, 11, (3, 5)), rl.randint(0, 11, (3, 5))
    step = step_of(model, lambda out, y: F.cross_entropy(out.flatten(0, 1), y.flatten()))
    made = check(step, dict(model.named_parameters()), x, y, rtol=1e-4, atol=1e-5)
    assert made.calls == ()


def test_a_training_step_of_a_convolutional_network() -> None:
    rl.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3),
        nn.GroupNorm(2, 8),
        nn.Flatten(),
        nn.Linear(8 * 4, 4),
    )
    x, y = rl.randn(4, 3, 8, 8), rl.randint(0, 4, (4,))
    check(step_of(model, F.cross_entropy), dict(model.named_parameters()), x, y, rtol=1e-4, atol=1e-5)


def test_temporaries_are_freed_when_nobody_reads_them_again() -> None:
    """A chain of products needs two matrices at a time, not all of them."""
    side, count = 256, 40

    def chain(x):
        y = x
        for _ in range(count):
            y = y @ x
        return y

    x = rl.eye(side)
    made = compiled(chain, (x,))
    kinds = [kind for kind, *_ in made.plan.outputs]
    assert kinds.count("new") == 1 and kinds.count("temp") >= count - 1
    rl.testing.assert_close(made([x])[0], x)


def test_steps_can_be_timed() -> None:
    x = rl.randn(64, 64)
    made = compiled(lambda x: (x @ x).relu(), (x,))
    times = made.times([x])
    assert [name for name, _ in times][-1].startswith("points[relu]") and all(ns > 0 for _, ns in times)


def test_a_graph_over_two_devices_runs_op_by_op() -> None:
    x, y = rl.randn(2), rl.randn(3, device="meta")
    result = compiled(lambda x, y: (x * 2 + 1, y.sum()), (x, y))([x, y])
    assert rl.equal(result[0], x * 2 + 1) and result[1].is_meta and result[1].shape == ()


def test_memory_that_is_returned_unwritten_is_made_at_each_call() -> None:
    x = rl.randn(3, 4)
    made = compiled(lambda x: rl.empty_like(x), (x,))
    first, second = made([x])[0], made([x])[0]
    assert first.shape == x.shape and first.data_ptr() != second.data_ptr()


def test_ops_that_draw_are_recorded_whole() -> None:
    weights = rl.rand(5, 7)
    made = check(lambda w: rl.multinomial(w, 4) + 1, weights)
    assert made.calls == ("multinomial",)
    check(lambda n, p: rl.binomial(n, p), rl.full((6,), 9.0), rl.rand(6))


def test_second_derivatives() -> None:
    """Their ops name two parameters alike: arguments go by place."""

    def f(x, w):
        inner = rl.autograd.grad(((x * w).sin() * w).sum(), [w], create_graph=True)[0]
        return rl.autograd.grad((inner * inner).sum(), [x, w])

    check(f, rl.randn(4, 5, requires_grad=True), rl.randn(4, 5, requires_grad=True))


def test_equal_calls_are_results_in_memory_of_their_own() -> None:
    a, b = rl.compile(lambda x: (x + 2, x + 2))(rl.ones(3))
    a.zero_()
    assert b.tolist() == [3.0, 3.0, 3.0]


@pytest.mark.parametrize("rows", [1, 3, 40, 4000])
def test_temporaries_small_and_large(rows: int) -> None:
    """Those of small plans lie in one piece of memory: none is where another still is."""

    def chain(x, w, v):
        a = x @ w
        b = a.transpose(0, 1) @ a
        c = (x.sum(1, keepdim=True) + a) @ v
        return b @ v, c @ b, a.softmax(-1) @ v + c

    x, w, v = rl.randn(rows, 6), rl.randn(6, 5), rl.randn(5, 5)
    check(chain, x, w, v, rtol=1e-4, atol=1e-4)
