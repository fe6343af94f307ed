"""What overloads can be told and asked beside being called, and effects of users' ops."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.library import EffectType, Library, custom_op
from rushlight.utils._python_dispatch import TorchDispatchMode

KEY, KEYS = rl._C.DispatchKey, rl._C.DispatchKeySet
said: list[int] = []


@custom_op("overload_rules::say", mutates_args=())
def say(x: rl.Tensor, n: int) -> rl.Tensor:
    said.append(n)
    return x.clone()


@say.register_fake
def _(x, n):
    return rl.empty_like(x)


@custom_op("overload_rules::tell", mutates_args=())
def tell(x: rl.Tensor, n: int) -> None:
    said.append(n)


tell.register_fake(lambda x, n: None)


def talk(x):
    say(x, 1)
    y = x * 2
    tell(y, 2)
    say(y, 3)
    say(y, 3)
    return y + 1


class Talk(rl.nn.Module):
    def forward(self, x):
        return talk(x)


@pytest.fixture
def effects():
    for op in (say, tell):
        op.register_effect(EffectType.ORDERED)
    said.clear()
    yield
    for op in (say, tell):
        op.register_effect(None)


@pytest.mark.parametrize("backend", ["inductor", "aot_eager", "eager"])
def test_compiled_graphs_keep_effects_in_order(effects, backend):
    rl.compiler.reset()
    assert rl.compile(talk, fullgraph=True, backend=backend)(rl.ones(3)).tolist() == [3, 3, 3]
    assert said == [1, 2, 3, 3]


def test_graphs_with_derivatives_and_exported_ones_keep_them(effects):
    rl.compiler.reset()
    x = rl.ones(3, requires_grad=True)
    rl.compile(talk, fullgraph=True)(x).sum().backward()
    assert said == [1, 2, 3, 3] and x.grad.tolist() == [2, 2, 2]
    program = rl.export.export(Talk(), (rl.ones(3),))
    for one in (program, program.run_decompositions()):
        said.clear()
        one.module()(rl.ones(3))
        assert said == [1, 2, 3, 3]


def test_without_effects_results_that_nobody_uses_are_left_out():
    said.clear()
    rl.compiler.reset()
    rl.compile(talk, fullgraph=True, backend="aot_eager")(rl.ones(3))
    assert said == []


def test_effects_of_another_kind_are_refused():
    with pytest.raises(TypeError, match="EffectType"):
        say.register_effect("Ordered")
    from rushlight._library.effects import EffectType as same

    assert same is EffectType and EffectType.ORDERED.value == "Ordered"


def test_py_impl_for_keys_modes_and_classes():
    lib = Library("overload_rules_own", "DEF")
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x + 1, "CPU")
    op = rl.ops.overload_rules_own.f.default

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    @op.py_impl(Mode)
    def _(mode, x):
        assert isinstance(mode, Mode)
        return x * 100

    @op.py_impl(KEY.Meta)
    def _(x):
        return rl.empty_like(x)

    x = rl.ones(2)
    assert op(x).tolist() == [2, 2] and op(x.to("meta")).is_meta
    with Mode():
        assert op(x).tolist() == [100, 100]
    assert {KEY.CPU, KEY.Meta, Mode} <= set(op.py_kernels)
    with pytest.raises(RuntimeError, match="already"):
        op.py_impl(KEY.CPU)(lambda x: x)
    with pytest.raises(NotImplementedError, match="py_impl"):
        op.py_impl(3)


def test_kernels_by_key():
    add, hstack, own = rl.ops.aten.add.Tensor, rl.ops.aten.hstack.default, say._opoverload
    assert add.has_kernel_for_dispatch_key(KEY.CPU) and add.has_kernel_for_dispatch_key(KEY.Meta)
    assert not add.has_kernel_for_dispatch_key(KEY.CompositeImplicitAutograd) and not add._can_decompose()
    assert hstack.has_kernel_for_dispatch_key(KEY.CompositeImplicitAutograd) and hstack._can_decompose()
    assert not hstack.has_kernel_for_dispatch_key(KEY.CPU)
    assert own.has_kernel_for_dispatch_key(KEY.CompositeExplicitAutograd)
    assert not own.has_kernel_for_dispatch_key(KEY.CPU)
    assert own.has_kernel_for_any_dispatch_key(KEYS(KEY.CPU) | KEYS(KEY.CompositeExplicitAutograd))
    assert own._defined_in_python and not add._defined_in_python


def test_decompose_runs_the_body_of_composites():
    x = rl.arange(2.0)
    assert rl.ops.aten.hstack.default.decompose([x, x]).tolist() == [0, 1, 0, 1]
    assert rl.ops.aten.add.Tensor.decompose(x, x) is NotImplemented
    assert say._opoverload.decompose(x, 1) is NotImplemented
    lib = Library("overload_rules_body", "DEF")
    lib.define("g(Tensor x) -> Tensor")
    lib.impl("g", lambda x: x * 2 + 1, "CompositeImplicitAutograd")
    assert rl.ops.overload_rules_body.g.default.decompose(x).tolist() == [1, 3]


def test_redispatch_begins_at_the_first_key():
    x = rl.ones(2, requires_grad=True)
    add = rl.ops.aten.add.Tensor
    assert add.redispatch(KEYS(KEY.AutogradCPU), x, x).requires_grad
    assert not add.redispatch(KEYS(KEY.CPU), x, x).requires_grad
    assert say._opoverload.redispatch(KEYS(KEY.CPU), x, 4).tolist() == [1, 1]


def test_autocast_keys_belong_to_their_device():
    lib = Library("overload_rules_cast", "DEF")
    lib.define("h(Tensor x) -> Tensor")
    lib.impl("h", lambda x: x + 1, "CPU")
    for key in ("AutocastCPU", "AutocastCUDA", "AutocastXPU"):
        lib.impl("h", lambda x, key=key: (_ for _ in ()).throw(RuntimeError(key)), key)
    h, x = rl.ops.overload_rules_cast.h, rl.ones(1)
    assert h(x).item() == 2
    with rl.autocast("cpu", dtype=rl.bfloat16), pytest.raises(RuntimeError, match="AutocastCPU"):
        h(x)
    with rl.autocast("cpu", enabled=False):
        assert h(x).item() == 2


def test_second_registrations_say_where_the_first_was():
    lib = Library("overload_rules_twice", "DEF")
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x, "CPU")
    with pytest.raises(RuntimeError, match=r"already.*test_overload_rules.py:\d+.*test_overload_rules.py:\d+"):
        lib.define("f(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match=r"already.*test_overload_rules.py:\d+"):
        lib.impl("f", lambda x: x, "CPU")


def test_sizes_from_data_in_fakes_are_symbols():
    @custom_op("overload_rules::found", mutates_args=())
    def found(x: rl.Tensor) -> rl.Tensor:
        return x.nonzero()

    @found.register_fake
    def _(x):
        return x.new_empty((rl.library.get_ctx().new_dynamic_size(), x.ndim), dtype=rl.int64)

    rl.compiler.reset()
    x = rl.tensor([0.0, 2, 3])
    assert rl.compile(lambda x: found(x) + 1, fullgraph=True)(x).tolist() == [[2], [3]]

    class Model(rl.nn.Module):
        def forward(self, x):
            return found(x)

    assert rl.export.export(Model(), (x,)).module()(rl.tensor([1.0, 0, 0])).tolist() == [[0]]
    assert rl.library.opcheck(found._opoverload, (x,))["test_faketensor"] == "SUCCESS"
    with pytest.raises(RuntimeError, match="new_dynamic_size"):
        found(x.to("meta"))
    with pytest.raises(ValueError, match="not negative"):
        rl.library.get_ctx().new_dynamic_size(min=-1)
