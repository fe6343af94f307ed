"""torch.overrides: what can be overridden, under which names, and the questions about modes."""

from __future__ import annotations

import inspect

import pytest

import rushlight as rl
from rushlight import overrides


def test_functions_are_listed_by_namespace():
    listed = overrides.get_overridable_functions()
    assert rl.add in listed[rl]
    assert rl.nn.functional.gelu in listed[rl.nn.functional]
    assert rl.linalg.svd in listed[rl.linalg]
    assert rl.fft.fft in listed[rl.fft]
    assert rl.Tensor.add_ in listed[rl.Tensor]
    assert not any(rl.zeros in functions for functions in listed.values())
    assert rl.zeros in overrides.get_ignored_functions()


def test_most_of_pytorchs_functions_are_there():
    torch = pytest.importorskip("torch")
    listed = overrides.get_overridable_functions()
    mine = {name for functions in listed.values() for name in (getattr(f, "__name__", "") for f in functions)}
    theirs = {getattr(f, "__name__", "") for f in torch.overrides.get_overridable_functions()[torch]}
    missing = {
        n
        for n in theirs - mine
        if not n.startswith(("_", "quantized", "cudnn", "miopen", "mkldnn", "fbgemm", "native_"))
    }
    assert len(missing) / len(theirs) < 0.2, sorted(missing)


def test_names():
    assert overrides.resolve_name(rl.add) == "torch.add"
    assert overrides.resolve_name(rl.linalg.svd) == "torch.linalg.svd"
    assert overrides.resolve_name(rl.Tensor.grad.__get__) == "torch.Tensor.grad.__get__"
    assert overrides.resolve_name(len) is None
    assert overrides.is_tensor_method_or_property(rl.Tensor.add_)
    assert overrides.is_tensor_method_or_property(rl.Tensor.grad.__get__)
    assert not overrides.is_tensor_method_or_property(len)


def test_stand_ins_take_the_same_arguments():
    stand_ins = overrides.get_testing_overrides()
    assert stand_ins[rl.add](1, 2) == -1
    assert list(inspect.signature(stand_ins[rl.add]).parameters) == ["input", "other", "alpha"]


def test_questions_about_modes():
    class Seen(overrides.BaseTorchFunctionMode):
        pass

    assert overrides._get_current_function_mode() is None
    with Seen() as mode:
        assert overrides._get_current_function_mode() is mode
        assert overrides.has_torch_function_variadic(1, 2)
        assert rl.ones(2).sum().item() == 2.0
        with overrides._pop_mode_temporarily():
            assert overrides._len_torch_function_stack() == 0
    assert not overrides.has_torch_function_unary(rl.ones(1))
