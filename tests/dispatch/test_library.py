"""rushlight.library: definitions, kernels per key, fallbacks, custom ops with autograd and fakes, and their removal."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import rushlight as rl
from rushlight.library import (
    Library,
    custom_op,
    define,
    fallthrough_kernel,
    impl,
    infer_schema,
    opcheck,
    register_autograd,
    register_fake,
    register_kernel,
    register_torch_dispatch,
)
from rushlight.utils._python_dispatch import TorchDispatchMode


def test_define_and_impl() -> None:
    lib = Library("q1", "DEF")
    assert lib.define("twice(Tensor x, int n=2) -> Tensor") == "twice"
    lib.impl("twice", lambda x, n=2: x * n, "CPU")
    assert rl.ops.q1.twice(rl.ones(2)).tolist() == [2.0, 2.0]
    assert rl.ops.q1.twice(rl.ones(2), n=5).tolist() == [5.0, 5.0]
    assert rl.ops.q1.twice.default(rl.ones(2), 3).tolist() == [3.0, 3.0]
    assert "twice" in dir(rl.ops.q1) and rl.ops.q1.twice.overloads() == ["default"]
    assert str(rl.ops.q1.twice.default) == "q1.twice.default"
    with pytest.raises(RuntimeError):
        lib.define("twice(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError):
        lib.impl("twice", lambda x: x, "CPU")
    with pytest.raises(NotImplementedError, match="q1::twice"):
        rl.ops.q1.twice(rl.ones(2, device="meta"))
    with pytest.raises(TypeError):
        rl.ops.q1.twice("no tensor")
    with pytest.raises(TypeError):
        rl.ops.q1.twice(rl.ones(2), m=3)
    lib._destroy()
    with pytest.raises(AttributeError):
        rl.ops.q1.twice


def test_refusals_of_libraries() -> None:
    with pytest.raises(ValueError):
        Library("q2", "NONSENSE")
    with pytest.raises(ValueError):
        Library("prim", "DEF")
    lib = Library("q2", "FRAGMENT")
    with pytest.raises(RuntimeError):
        lib.impl("missing", lambda x: x, "CPU")
    lib.define("known(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="dispatch key"):
        lib.impl("known", lambda x: x, "NoSuchKey")
    with pytest.raises(TypeError):
        lib.impl("known", 3, "CPU")
    with pytest.raises((ValueError, RuntimeError)):
        lib.define("broken(Tensor x -> Tensor")
    with pytest.raises((ValueError, RuntimeError)):
        lib.define("unknown(Strange x) -> Tensor")
    with pytest.raises(RuntimeError):
        Library("q2", "IMPL").define("more(Tensor x) -> Tensor")
    lib._destroy()


def test_overriding_a_builtin_and_giving_it_back() -> None:
    x = rl.tensor([1.0, 4.0])
    lib = Library("aten", "IMPL")
    seen: list[str] = []

    def louder(x: Any) -> Any:
        seen.append("sqrt")
        return x * 0 + 7

    lib.impl("sqrt", louder, "CPU")
    assert x.sqrt().tolist() == [7.0, 7.0] and seen == ["sqrt"]
    assert rl.sqrt(x).tolist() == [7.0, 7.0]
    y = x.clone().requires_grad_()
    y.sqrt().sum().backward()   # the derivative is the op's own: 1 / (2 * result)
    assert rl.allclose(y.grad, rl.full((2,), 1 / 14))
    del lib
    gc.collect()
    assert x.sqrt().tolist() == [1.0, 2.0] and len(seen) == 3
    assert not rl.ops.aten.sqrt.default.overridden


def test_kernels_may_call_the_op_below_them() -> None:
    lib = Library("aten", "IMPL")
    lib.impl("cos", lambda x: rl.cos(x) + 100, "AutogradCPU")
    assert rl.cos(rl.zeros(1)).tolist() == [101.0]
    lib._destroy()
    assert rl.cos(rl.zeros(1)).tolist() == [1.0]


def test_kernels_see_other_overridden_ops() -> None:
    lib = Library("aten", "IMPL")
    lib.impl("sin", lambda x: x * 0 + 5, "CPU")
    lib.impl("cos", lambda x: rl.sin(x) + 1, "CPU")
    assert rl.cos(rl.zeros(1)).tolist() == [6.0]
    lib._destroy()
    assert rl.cos(rl.zeros(1)).tolist() == [1.0] and rl.sin(rl.zeros(1)).tolist() == [0.0]


def test_rules_of_modes_per_op() -> None:
    class Plain(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    register_torch_dispatch("aten::tan", Plain, lambda mode, func, types, args, kwargs: func(*args) + 50)
    with Plain():
        assert rl.tan(rl.zeros(1)).tolist() == [50.0] and rl.sin(rl.zeros(1)).tolist() == [0.0]
    assert rl.tan(rl.zeros(1)).tolist() == [0.0]


def test_fallthrough_skips_a_key() -> None:
    lib = Library("q3", "DEF")
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x + 1, "CPU")
    lib.impl("f", fallthrough_kernel, "Autograd")
    assert rl.ops.q3.f(rl.zeros(2)).tolist() == [1.0, 1.0]
    lib._destroy()


def test_fallbacks_serve_ops_without_a_kernel() -> None:
    lib, everything = Library("q4", "DEF"), Library("_", "IMPL")
    lib.define("lost(Tensor x) -> Tensor")
    lib.define("found(Tensor x) -> Tensor")
    lib.impl("found", lambda x: x + 1, "CPU")
    everything.fallback(lambda op, *args, **kwargs: str(op), "CPU")
    assert rl.ops.q4.lost(rl.ones(1)) == "q4.lost.default"
    assert rl.ops.q4.found(rl.ones(1)).tolist() == [2.0]
    assert (rl.ones(1) + 1).tolist() == [2.0]   # built-in ops have kernels on every device
    with pytest.raises(RuntimeError):
        lib.fallback(lambda *a: None, "CPU")
    everything._destroy()
    with pytest.raises(NotImplementedError):
        rl.ops.q4.lost(rl.ones(1))
    lib._destroy()


def test_composite_kernels_differentiate_through_their_body() -> None:
    lib = Library("q5", "DEF")
    lib.define("cube(Tensor x) -> Tensor")
    lib.impl("cube", lambda x: x * x * x, "CompositeImplicitAutograd")
    x = rl.tensor([2.0], requires_grad=True)
    rl.ops.q5.cube(x).sum().backward()
    assert x.grad.tolist() == [12.0]
    assert rl.ops.q5.cube(rl.ones(3, device="meta")).shape == (3,)
    lib._destroy()


def test_functions_define_and_impl() -> None:
    define("q6::plus", "(Tensor x, Tensor y) -> Tensor")

    @impl("q6::plus", "cpu")
    def plus(x: Any, y: Any) -> Any:
        return x + y

    @register_fake("q6::plus")
    def plus_fake(x: Any, y: Any) -> Any:
        return rl.empty_like(x)

    assert rl.ops.q6.plus(rl.ones(1), rl.ones(1)).item() == 2
    assert rl.ops.q6.plus(rl.ones(1, device="meta"), rl.ones(1, device="meta")).device.type == "meta"
    register_fake("q6::plus", plus_fake)     # takes the place of the first
    with pytest.raises(RuntimeError):
        register_fake("q6::plus", plus_fake, allow_override=False)
    with pytest.raises(RuntimeError):
        register_fake("q6::missing", plus_fake)
    with pytest.raises(ValueError):
        define("noname", "(Tensor x) -> Tensor")


@custom_op("q7::scaled_sin", mutates_args=())
def scaled_sin(x: rl.Tensor, scale: float = 2.0) -> rl.Tensor:
    """sin(x) times a number."""
    return rl.from_numpy(x.detach().numpy().copy()).sin() * scale


@scaled_sin.register_fake
def _(x: rl.Tensor, scale: float = 2.0) -> rl.Tensor:
    return rl.empty_like(x)


def _setup(ctx: Any, inputs: tuple, output: Any) -> None:
    x, scale = inputs
    ctx.save_for_backward(x)
    ctx.scale = scale


scaled_sin.register_autograd(lambda ctx, g: (g * ctx.saved_tensors[0].cos() * ctx.scale, None), setup_context=_setup)


def test_custom_ops() -> None:
    x = rl.randn(3, dtype=rl.float64, requires_grad=True)
    y = scaled_sin(x, 3.0)
    assert rl.allclose(y, x.sin() * 3) and y.requires_grad
    y.sum().backward()
    assert rl.allclose(x.grad, x.detach().cos() * 3)
    assert rl.ops.q7.scaled_sin(x).requires_grad and scaled_sin(x.detach(), scale=1.0).requires_grad is False
    assert scaled_sin(rl.empty(4, device="meta")).shape == (4,)
    assert rl.autograd.gradcheck(lambda x: scaled_sin(x), (x.detach().requires_grad_(),))
    assert opcheck(scaled_sin, (rl.randn(3, requires_grad=True),)) == dict.fromkeys(
        ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"), "SUCCESS"
    )
    assert scaled_sin.__doc__ == "sin(x) times a number."


def test_custom_ops_that_write() -> None:
    @custom_op("q8::bump", mutates_args={"x"})
    def bump(x: rl.Tensor, by: float) -> None:
        x.detach().add_(by)

    x = rl.zeros(2)
    version = x._version
    assert bump(x, 2.0) is None
    assert x.tolist() == [2.0, 2.0] and x._version > version
    with pytest.raises(RuntimeError):
        bump.register_autograd(lambda ctx, g: g)
    assert "Tensor(a0!) x" in str(bump._opoverload._schema)


def test_opcheck_finds_broken_promises() -> None:
    @custom_op("q9::liar", mutates_args=())
    def liar(x: rl.Tensor) -> rl.Tensor:
        x.detach().add_(1)
        return x * 2

    with pytest.raises(Exception, match="test_schema"):
        opcheck(liar, (rl.zeros(2),))
    assert isinstance(opcheck(liar, (rl.zeros(2),), raise_exception=False)["test_schema"], Exception)

    @custom_op("q9::alias", mutates_args=())
    def alias(x: rl.Tensor) -> rl.Tensor:
        return x

    with pytest.raises(Exception, match="alias"):
        opcheck(alias, (rl.zeros(2),), test_utils="test_schema")

    @custom_op("q9::undone", mutates_args=())
    def undone(x: rl.Tensor) -> rl.Tensor:
        return x.detach() * 2

    with pytest.raises(Exception, match="test_faketensor"):
        opcheck(undone, (rl.zeros(2),), test_utils=("test_faketensor",))
    undone.register_fake(lambda x: x.new_empty(7))
    with pytest.raises(Exception, match="fake"):
        opcheck(undone, (rl.zeros(2),), test_utils=("test_faketensor",))
    with pytest.raises(Exception, match="autograd"):
        opcheck(undone, (rl.zeros(2, requires_grad=True),), test_utils=("test_autograd_registration",))
    with pytest.raises(ValueError):
        opcheck(undone, (rl.zeros(2),), test_utils=("nonsense",))


def test_kernels_per_device() -> None:
    @custom_op("q10::where", mutates_args=(), device_types="cpu")
    def where(x: rl.Tensor) -> rl.Tensor:
        return x + 1

    register_kernel(where, "meta")(lambda x: x.new_empty(9))
    assert where(rl.zeros(1)).item() == 1 and where(rl.zeros(1, device="meta")).shape == (9,)


def test_several_outputs_and_lists() -> None:
    @custom_op("q11::parts", mutates_args=())
    def parts(xs: list[rl.Tensor], flag: bool = False, name: str | None = None) -> tuple[rl.Tensor, rl.Tensor]:
        return sum(xs[1:], xs[0].clone()), xs[-1].clone() if flag else xs[0].clone()

    a, b = parts([rl.ones(2), rl.ones(2) * 3], flag=True)
    assert a.tolist() == [4.0, 4.0] and b.tolist() == [3.0, 3.0]


def test_infer_schema() -> None:
    def f(
        x: rl.Tensor, n: int, s: float | None = None, *, k: bool = True, names: list[int] = ()
    ) -> tuple[rl.Tensor, int]:
        raise NotImplementedError

    assert (
        infer_schema(f, mutates_args=())
        == "(Tensor x, int n, float? s=None, *, bool k=True, int[] names=()) -> (Tensor, int)"
    )
    for bad in (lambda x: x, lambda *xs: xs):
        with pytest.raises(ValueError):
            infer_schema(bad, mutates_args=())
    with pytest.raises(ValueError):
        infer_schema(f, mutates_args=("nothing",))
    with pytest.raises(ValueError):
        infer_schema(f, mutates_args=("n",))


def test_register_autograd_by_name() -> None:
    define("q12::half", "(Tensor x) -> Tensor")
    impl("q12::half", "cpu", lambda x: x.detach() / 2)
    register_autograd("q12::half", lambda ctx, g: g / 2)
    x = rl.ones(2, requires_grad=True)
    rl.ops.q12.half(x).sum().backward()
    assert x.grad.tolist() == [0.5, 0.5]


def test_builtin_ops_by_qualified_name() -> None:
    x = rl.ones(2)
    assert rl.ops.aten.add(x, 1).tolist() == [2.0, 2.0] and rl.ops.aten.add.Tensor(x, x).tolist() == [2.0, 2.0]
    assert rl.ops.aten.mm.default.namespace == "aten" and str(rl.ops.aten.mm.default) == "aten.mm.default"
    assert rl.ops.aten.mm.default.overloadpacket is rl.ops.aten.mm
    with pytest.raises(AttributeError):
        rl.ops.aten.no_such_op
    with pytest.raises(AttributeError):
        rl.ops.no_such_namespace.no_such_op
