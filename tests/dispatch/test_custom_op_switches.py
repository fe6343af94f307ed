"""Custom ops: kernels that are switched off, rules of modes, tags, kernels by key, and opcheck's compiled check."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.library import CustomOpDef, Library, custom_op, get_kernel, opcheck
from rushlight.library.checks import OpCheckError
from rushlight.utils._python_dispatch import TorchDispatchMode


@pytest.fixture
def scale() -> CustomOpDef:
    @custom_op("switches::scale", mutates_args=(), tags=rl.Tag.pointwise)
    def scale(x: rl.Tensor, k: float) -> rl.Tensor:
        return x * k

    scale.register_fake(lambda x, k: rl.empty_like(x))
    return scale


def test_a_disabled_kernel_steps_back_for_the_function(scale) -> None:
    scale.register_kernel("cpu")(lambda x, k: x * k + 1)
    x = rl.ones(1)
    assert scale(x, 2.0).item() == 3
    with scale.set_kernel_enabled("cpu", enabled=False):
        assert scale(x, 2.0).item() == 2
        with scale.set_kernel_enabled("cpu"):
            assert scale(x, 2.0).item() == 3
        assert scale(x, 2.0).item() == 2
    assert scale(x, 2.0).item() == 3
    with pytest.warns(UserWarning, match="no kernel of its own for 'cuda'"), scale.set_kernel_enabled("cuda"):
        pass


def test_a_mode_has_its_own_rule_for_an_op(scale) -> None:
    class Doubling(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    @scale.register_torch_dispatch(Doubling)
    def _(mode, func, types, args, kwargs):
        return args[0] * -1

    with Doubling():
        assert scale(rl.ones(1), 2.0).item() == -1
    assert scale(rl.ones(1), 2.0).item() == 2


def test_tags_follow_from_kinds_and_from_what_is_said(scale) -> None:
    aten, tag = rl.ops.aten, rl.Tag
    assert sorted(scale._opoverload.tags) == [tag.pointwise, tag.pt2_compliant_tag]
    assert aten.add.Tensor.tags == [tag.pointwise, tag.pt2_compliant_tag]
    assert tag.reduction in aten.sum.dim_IntList.tags and tag.inplace in aten.mul_.Tensor.tags
    assert tag.nondeterministic_seeded in aten.bernoulli.default.tags
    assert tag.dynamic_output_shape in aten.nonzero.default.tags
    library = Library("switches_tags", "DEF")
    library.define("plain(Tensor x) -> Tensor")
    assert rl.ops.switches_tags.plain.default.tags == []


def test_kernels_are_found_by_key_and_stay(scale) -> None:
    keys = rl._C.DispatchKeySet(rl._C.DispatchKey.CPU)
    first = get_kernel(scale, "CompositeExplicitAutograd")
    assert first.call_boxed(keys, rl.ones(1), 4.0).item() == 4
    x = rl.ones(2, requires_grad=True)
    add = get_kernel("aten::add.Tensor", "CPU").call_boxed(keys, x, x)
    assert add.tolist() == [2, 2] and not add.requires_grad
    with pytest.raises(ValueError, match="Invalid dispatch key: FPGA"):
        get_kernel("aten::add.Tensor", "FPGA")
    with pytest.raises(RuntimeError, match="does not exist"):
        get_kernel("aten::no_such_op", "CPU")
    with pytest.raises(RuntimeError, match="no kernel is registered"):
        get_kernel(scale, "CUDA")


def test_opcheck_compiles_the_op(scale) -> None:
    scale.register_autograd(lambda ctx, g: (g * ctx.k, None),
                            setup_context=lambda ctx, inputs, output: setattr(ctx, "k", inputs[1]))
    x = rl.randn(3, requires_grad=True)
    found = opcheck(scale, (x, 2.0))
    assert found["test_aot_dispatch_dynamic"] == "SUCCESS" and len(found) == 4

    @custom_op("switches::counting", mutates_args=())
    def counting(x: rl.Tensor) -> rl.Tensor:
        counting.calls += 1
        return x * counting.calls

    counting.calls = 0
    counting.register_fake(lambda x: rl.empty_like(x))
    with pytest.raises(OpCheckError, match="other values"):
        opcheck(counting, (rl.ones(3),), test_utils="test_aot_dispatch_dynamic")
