"""Autocast on the CPU: which types ops compute in (PyTorch's lists), regions, the cache of casts,
and what autograd sees."""

from __future__ import annotations

import threading
import warnings

import pytest

import rushlight as rl
from rushlight.autograd import Function

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.share(2)   # of each test that has several cases

LOWER_TYPES = {"bfloat16": rl.bfloat16, "float16": rl.float16}


def to_rushlight(value):
    """PyTorch's sample arguments as Rushlight's."""
    if isinstance(value, torch.Tensor):
        return rl.tensor(value.float().tolist()).to(getattr(rl, str(value.dtype).split(".")[1]))
    if isinstance(value, torch.dtype):
        return getattr(rl, str(value).split(".")[1])
    if isinstance(value, (list, tuple)):
        return type(value)(map(to_rushlight, value))
    return value


def cast_all(value, dtype):
    if isinstance(value, rl.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    return type(value)(cast_all(v, dtype) for v in value) if isinstance(value, (list, tuple)) else value


def records():
    """(name, args, kwargs) of PyTorch's own table of ops that CPU autocast knows."""
    from torch.testing._internal.autocast_test_lists import AutocastCPUTestLists

    torch.manual_seed(0)
    lists = AutocastCPUTestLists(torch.device("cpu"))
    found = []
    for table in (
        "torch_16",
        "torch_fp32",
        "nn_16",
        "nn_fp32",
        "torch_expect_builtin_promote",
        "torch_need_autocast_promote",
    ):
        for entry in getattr(lists, table):
            kwargs = next((part for part in entry[2:] if isinstance(part, dict)), {})
            found.append((f"{table}-{entry[0]}", entry[0], entry[1], kwargs))
    return found


@pytest.mark.parametrize(("name", "args", "kwargs"), [pytest.param(*r[1:], id=r[0]) for r in records()])
@pytest.mark.parametrize("lower", LOWER_TYPES)
def test_result_types_are_pytorchs(name, args, kwargs, lower):
    if name == "_native_multi_head_attention":
        pytest.skip("an internal of PyTorch's module, which Rushlight writes otherwise")
    if lower == "float16":   # the table's arguments for float16 are the same, with that type
        args = [
            (
                a.half()
                if isinstance(a, torch.Tensor) and a.dtype is torch.bfloat16
                else (
                    tuple(x.half() if x.dtype is torch.bfloat16 else x for x in a)
                    if isinstance(a, tuple) and a and isinstance(a[0], torch.Tensor)
                    else a
                )
            )
            for a in args
        ]
    theirs = next(
        (getattr(space, name) for space in (torch, torch.nn.functional, torch._C._nn) if hasattr(space, name)), None
    )
    mine = next((getattr(space, name) for space in (rl, rl.nn.functional) if hasattr(space, name)), None)
    # whose sample F.margin_ranking_loss refuses in both
    if theirs is None or mine is None or name == "margin_ranking_loss":
        pytest.skip("no public function of this name")
    with torch.autocast("cpu", dtype=getattr(torch, lower)):
        expected = theirs(*args, **kwargs)
    with rl.autocast("cpu", dtype=LOWER_TYPES[lower]):
        result = mine(*to_rushlight(args), **kwargs)
    assert result.dtype.name == str(expected.dtype).split(".")[1]
    computed = (
        LOWER_TYPES[lower]
        if name in ("prelu", "linear") or "conv" in name or "mm" in name or name == "matmul"
        else rl.float32
    )
    control = mine(*cast_all(to_rushlight(args), computed), **kwargs)   # the same by hand
    assert result.tolist() == control.tolist()


def test_other_ops_run_as_they_are():
    x, y = rl.ones(2, 2), rl.ones(2, 2)
    with rl.autocast("cpu"):
        assert (x + y).dtype is rl.float32
        assert x.softmax(0).dtype is rl.float32
        assert (x.bfloat16() * y).dtype is rl.float32
        assert (x.double() @ y.double()).dtype is rl.float64      # doubles are left alone
        assert x.mm(y, out=rl.empty(2, 2)).dtype is rl.float32     # and so are forms that write
        assert rl.ones(2, 2).addmm_(x, y).dtype is rl.float32


def test_regions_nest_and_restore():
    x = rl.ones(2, 2)
    assert not rl.is_autocast_enabled("cpu")
    with rl.autocast("cpu", dtype=rl.float16):
        assert (x @ x).dtype is rl.float16
        with rl.autocast("cpu", enabled=False):
            assert not rl.is_autocast_enabled("cpu")
            assert (x @ x).dtype is rl.float32
            with rl.autocast("cpu", dtype=rl.bfloat16):
                assert (x @ x).dtype is rl.bfloat16
        assert rl.get_autocast_dtype("cpu") is rl.float16
        assert (x @ x).dtype is rl.float16
    assert not rl.is_autocast_enabled("cpu")
    assert rl.get_autocast_dtype("cpu") is rl.bfloat16
    with pytest.raises(ZeroDivisionError), rl.autocast("cpu"):
        1 / 0
    assert (x @ x).dtype is rl.float32


def test_one_region_object_can_be_entered_again():
    region, x = rl.autocast("cpu"), rl.ones(2, 2)
    with region, region:
        assert (x @ x).dtype is rl.bfloat16
    assert not rl.is_autocast_enabled("cpu")


def test_decorator():
    @rl.autocast("cpu", dtype=rl.bfloat16)
    def product(x):
        """Multiply."""
        return x @ x

    assert product(rl.ones(2, 2)).dtype is rl.bfloat16
    assert product.__doc__ == "Multiply."
    with pytest.raises(TypeError, match="requires a callable"):
        rl.autocast("cpu")(3)


def test_another_thread_is_not_in_the_region():
    seen = []
    x = rl.ones(2, 2)
    with rl.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append((x @ x).dtype))
        thread.start()
        thread.join()
    assert seen == [rl.float32]


def test_parameters_are_cast_once_per_region():
    weight = rl.ones(2, 2, requires_grad=True)
    x = rl.ones(2, 2, dtype=rl.bfloat16)
    with rl.autocast("cpu"):
        first, second = x @ weight, x @ weight
        assert first.grad_fn.next_functions[1][0] is second.grad_fn.next_functions[1][0]
        with rl.autocast("cpu", cache_enabled=False):
            third = x @ weight
        assert third.grad_fn.next_functions[1][0] is not first.grad_fn.next_functions[1][0]
        rl.clear_autocast_cache()
        fourth = x @ weight
        assert fourth.grad_fn.next_functions[1][0] is not first.grad_fn.next_functions[1][0]
    from rushlight.dispatch.autocast import state

    assert not state.casts


def test_cast_made_without_grad_is_not_used_for_training():
    layer, x = rl.nn.Linear(2, 2), rl.ones(1, 2)
    with rl.autocast("cpu"):
        with rl.no_grad():
            layer(x)
        layer(x).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype is rl.float32


def test_cast_follows_an_updated_parameter():
    weight, x = rl.ones(2, 2, requires_grad=True), rl.ones(1, 2)
    with rl.autocast("cpu"):
        assert (x @ weight).tolist() == [[2.0, 2.0]]
        with rl.no_grad():
            weight.zero_()
        assert (x @ weight).tolist() == [[0.0, 0.0]]


def test_widest_refuses_a_third_type():
    with rl.autocast("cpu", dtype=rl.bfloat16), pytest.raises(RuntimeError, match="float16"):
        rl.cat([rl.ones(2, dtype=rl.float16), rl.ones(2, dtype=rl.bfloat16)])


def test_unusable_regions_warn_and_do_nothing():
    x = rl.ones(2, 2)
    with pytest.warns(UserWarning, match="CUDA is not available"), rl.autocast("cuda"):
        assert not rl.is_autocast_enabled("cuda")
    with pytest.warns(UserWarning, match="target dtype is not supported"):
        region = rl.autocast("cpu", dtype=rl.float32)
    with region:
        assert (x @ x).dtype is rl.float32
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'meta'"):
        rl.autocast("meta")
    with pytest.raises(ValueError, match="of type `str`"):
        rl.autocast(rl.device("cpu"))


def test_state_functions_equal_pytorchs():
    for device in ("cpu", "cuda", "xpu", "mps", "hpu", "xla"):
        assert rl.get_autocast_dtype(device).name == str(torch.get_autocast_dtype(device)).split(".")[1]
        assert rl.amp.is_autocast_available(device) == torch.amp.is_autocast_available(device)
        assert not rl.is_autocast_enabled(device)
    assert not rl.amp.is_autocast_available("meta")
    rl.set_autocast_enabled("cpu", True)
    try:
        assert (rl.ones(2, 2) @ rl.ones(2, 2)).dtype is rl.bfloat16
    finally:
        rl.set_autocast_enabled("cpu", False)
    with pytest.warns(DeprecationWarning):
        assert rl.get_autocast_cpu_dtype() is rl.bfloat16
    with pytest.warns(DeprecationWarning):
        assert not rl.is_autocast_cpu_enabled()
    assert rl.is_autocast_cache_enabled()
    with pytest.warns(FutureWarning), rl.cpu.amp.autocast():
        assert rl.is_autocast_enabled("cpu")
    rl.autocast_increment_nesting()
    assert rl.autocast_decrement_nesting() == 0


class Product(Function):
    """A product whose rules say what region they ran in."""

    seen: list = []

    @staticmethod
    @rl.amp.custom_fwd(device_type="cpu")
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    @rl.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        result = g @ b.t(), a.t() @ g
        Product.seen.append((rl.is_autocast_enabled("cpu"), result[0].dtype))
        return result


def test_custom_functions_run_backward_as_forward():
    a, b = rl.ones(2, 2, requires_grad=True), rl.ones(2, 2, requires_grad=True)
    Product.seen.clear()
    with rl.autocast("cpu"):
        result = Product.apply(a, b)
        assert result.dtype is rl.bfloat16
    result.sum().backward()
    Product.apply(a, b).sum().backward()
    assert Product.seen == [(True, rl.bfloat16), (False, rl.float32)]
    assert a.grad.dtype is rl.float32


def test_custom_fwd_casts_inputs_and_leaves_the_region():
    class InFloat(Function):
        @staticmethod
        @rl.amp.custom_fwd(device_type="cpu", cast_inputs=rl.float32)
        def forward(ctx, a):
            assert not rl.is_autocast_enabled("cpu")
            return a @ a

        @staticmethod
        @rl.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            return g

    x = rl.ones(2, 2, dtype=rl.bfloat16)
    with rl.autocast("cpu"):
        assert InFloat.apply(x).dtype is rl.float32


def build(module, space):
    space.manual_seed(3)
    n = space.nn
    return n.Sequential(
        n.Conv2d(3, 8, 3),
        n.BatchNorm2d(8),
        n.ReLU(),
        n.Conv2d(8, 8, 3),
        n.GELU(),
        n.AdaptiveAvgPool2d(2),
        n.Flatten(),
        n.Linear(32, 16),
        n.LayerNorm(16),
        n.Linear(16, 5),
    )


def train(space, lower, steps=4):
    """Losses and gradient types of a few steps in mixed precision."""
    model = build(None, space)
    space.manual_seed(4)
    x, y = space.randn(6, 3, 8, 8), space.tensor([0, 1, 2, 3, 4, 0])
    losses, kinds = [], set()
    for _ in range(steps):
        model.zero_grad()
        with space.autocast("cpu", dtype=getattr(space, lower)):
            loss = space.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        losses.append(loss.item())
        with space.no_grad():
            for p in model.parameters():
                kinds.add(str(p.grad.dtype).split(".")[1])
                p -= 0.1 * p.grad
    return losses, kinds


@pytest.mark.parametrize("lower", LOWER_TYPES)
def test_training_follows_pytorch(lower):
    losses, kinds = train(rl, lower)
    expected, their_kinds = train(torch, lower)
    assert kinds == their_kinds == {"float32"}
    assert losses == pytest.approx(expected, abs=0.03)
    assert losses[-1] < losses[0]


MODULES = {
    "GRU": ((4, 5), ((3, 2, 4),)), "RNN": ((4, 5), ((3, 2, 4),)), "LSTMCell": ((4, 5), ((2, 4),)),
    "GRUCell": ((4, 5), ((2, 4),)), "MultiheadAttention": ((4, 2), ((3, 2, 4),) * 3),
    "TransformerEncoderLayer": ((4, 2), ((3, 2, 4),)), "Bilinear": ((3, 4, 5), ((2, 3), (2, 4))),
    "ConvTranspose2d": ((3, 4, 3), ((1, 3, 5, 5),)), "PReLU": ((), ((2, 3),)),
    "Transformer": ((4, 2, 1, 1, 8), ((3, 2, 4), (3, 2, 4))),
}


def kinds_of(value):
    return tuple(map(kinds_of, value)) if isinstance(value, tuple) else str(value.dtype).split(".")[1]


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("training", [True, False])
def test_modules_answer_in_pytorchs_types(name, training):
    sizes, shapes = MODULES[name]
    answers = []
    for space in (torch, rl):
        module = getattr(space.nn, name)(*sizes).train(training)
        with space.autocast("cpu"), space.set_grad_enabled(training), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = module(*(space.randn(*s) for s in shapes))
        answers.append(kinds_of(result))
        if training:
            (result[0] if isinstance(result, tuple) else result).float().sum().backward()
            assert {kinds_of(p.grad) for p in module.parameters()} == {"float32"}
    assert answers[0] == answers[1]


def test_lstm_answers():
    module = rl.nn.LSTM(4, 5, num_layers=2, bidirectional=True)
    with rl.autocast("cpu"):
        out, _ = module(rl.randn(3, 2, 4))
    out.float().sum().backward()
    assert all(p.grad.dtype is rl.float32 for p in module.parameters())


def test_transforms_cast_too():
    w, x = rl.randn(3, 3), rl.randn(4, 3)
    with rl.autocast("cpu"):
        assert rl.func.vmap(lambda row: row @ w)(x).dtype is rl.bfloat16
        grad = rl.func.grad(lambda w: (x @ w).float().sum())(w)
    assert grad.dtype is rl.float32
    torch.testing.assert_close(
        torch.tensor(grad.tolist()), torch.tensor(x.sum(0).tolist())[:, None].expand(3, 3), rtol=2e-2, atol=2e-2
    )


def test_modes_see_cast_arguments():
    from rushlight.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Look(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((func.name, [a.dtype.name for a in args if isinstance(a, rl.Tensor)]))
            return func(*args, **(kwargs or {}))

    x = rl.ones(2, 2)
    with rl.autocast("cpu"), Look():
        x.mm(x)
    assert ("mm", ["bfloat16", "bfloat16"]) in seen


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_recomputes_in_the_region(reentrant):
    from rushlight.utils.checkpoint import checkpoint

    rl.manual_seed(0)
    layer = rl.nn.Sequential(rl.nn.Linear(4, 4), rl.nn.Tanh(), rl.nn.Linear(4, 4))
    x = rl.randn(3, 4, requires_grad=True)

    def gradients(run):
        layer.zero_grad()
        x.grad = None
        with rl.autocast("cpu"):
            result = run()
            assert result.dtype is rl.bfloat16
        result.float().square().sum().backward()
        return [p.grad.tolist() for p in layer.parameters()] + [x.grad.tolist()]

    assert gradients(lambda: layer(x)) == gradients(lambda: checkpoint(layer, x, use_reentrant=reentrant))


def test_custom_ops_can_have_a_policy():
    @rl.library.custom_op("amp_tests::double", mutates_args=())
    def double(x: rl.Tensor, n: int) -> rl.Tensor:
        return x * 2 * n

    x = rl.ones(2)
    with rl.autocast("cpu"):
        assert double(x, 3).dtype is rl.float32
    double.register_autocast("cpu", rl.bfloat16)
    with rl.autocast("cpu"):
        assert double(x, 3).dtype is rl.bfloat16
    assert double(x, 3).dtype is rl.float32
    with pytest.raises(ValueError, match="does not support autocast"):
        rl.library.register_autocast("amp_tests::double", "meta", rl.float16)
