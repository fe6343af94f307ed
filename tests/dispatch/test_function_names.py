"""`__torch_function__`: which function handlers are shown, and how its arguments are split.

`overridden_calls.txt` holds PyTorch's answers for its list of overridable functions: a call with an object that has the
protocol, and what arrived there. `seen_by_handlers.txt` holds programs and the functions that a mode, or a subclass,
saw. Both were made with PyTorch 2.13, and are checked against it where it is installed.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight import overrides

HERE = Path(__file__).parent
CALLS = [line.split("\t") for line in (HERE / "overridden_calls.txt").read_text().splitlines()]
PROGRAMS = [line.split("\t") for line in (HERE / "seen_by_handlers.txt").read_text().splitlines()]
# Functions that arrive under another name, with fewer options, or not at all.
APART = frozenset(
    "dequantize spmm hspmm fake_quantize_per_channel_affine fake_quantize_per_tensor_affine sspaddmm smm sym_max"
    " sym_min sym_ite sym_sqrt nn.functional._sym_int nn.functional.logsigmoid nn.functional.threshold"
    "".split()
)


def value_of(lib: Any, kind: str, like: type) -> Any:
    """An argument of one of PyTorch's types."""
    made = {
        "Tensor": like, "like": like, "TensorList": lambda: [like(), like()],
        "ITensorListRef": lambda: [like(), like()],
        "IntArrayRef": lambda: (1, 1), "SymIntArrayRef": lambda: (1, 1), "Scalar": lambda: 3.5, "bool": lambda: False,
        "int64_t": lambda: 1, "SymInt": lambda: 1, "double": lambda: 1.0, "DimnameList": lambda: ("N", "N"),
        "Dimname": lambda: "N", "c10::string_view": lambda: "mean", "::std::string_view": lambda: "mean",
        "ScalarType": lambda: lib.float32, "Generator": lambda: None, "ArrayRef<double>": lambda: (1.0, 1.0),
        "ArrayRef<Scalar>": lambda: (1.0, 1.0), "Stream": lambda: None, "Layout": lambda: lib.strided,
        "Device": lambda: "cpu", "MemoryFormat": lambda: lib.contiguous_format,
        "Storage": lambda: lib.tensor([1.0]).untyped_storage(),
    }
    return made[kind]()


def arrives(lib: Any, name: str, spec: str) -> tuple[str, str, str, str] | None:
    """What an object with the protocol is told of a call."""
    seen: list[tuple] = []

    class Like:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append((func.__name__, lib.overrides.resolve_name(func), args, kwargs or {}))
            return -1

    function = functools.reduce(getattr, name.split("."), lib)
    parts = [part.rpartition("=") for part in filter(None, spec.split(";"))]
    args = [value_of(lib, kind, Like) for label, _, kind in parts if not label]
    with contextlib.suppress(Exception):
        function(*args, **{label: value_of(lib, kind, Like) for label, _, kind in parts if label})
    if not seen:
        return None
    label, resolved, given, named = seen[0]
    return label, str(resolved).removeprefix("torch."), str(len(given)), ",".join(sorted(named))


def test_every_overridable_function_arrives_under_its_name() -> None:
    """Functions, with objects as arguments and in lists; methods go by `seen_by_handlers.txt`."""
    wrong = {}
    for name, spec, *wanted in CALLS:
        function = rl
        for part in name.split("."):
            function = getattr(function, part, None)
        is_absent = function is None or type(function).__name__ == "_Absent"     # named in docs as not supported
        if is_absent or name in APART or name.startswith("Tensor.") or name.endswith("_with_indices"):
            continue
        got = arrives(rl, name, spec)
        if got is None or list(got) != wanted:
            wrong[name] = (got, wanted)
    assert not wrong


def test_the_stored_calls_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    for name, spec, *wanted in CALLS[::7]:
        assert list(arrives(torch, name, spec) or ()) == wanted, name


def seen_in(lib: Any, kind: str, program: str) -> list[str]:
    """The names of the functions that a mode or a subclass sees while a program runs."""
    log: list[str] = []

    def note(func: Any) -> None:
        log.append(f"{func.__name__}<{lib.overrides.resolve_name(func)}>")

    class Mode(lib.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            note(func)
            return func(*args, **(kwargs or {}))

    class Sub(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            note(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x, w = lib.arange(6.0).view(2, 3) + 1, lib.nn.Parameter(lib.ones(3))
    x = x.as_subclass(Sub) if kind == "sub" else x
    log.clear()
    with warnings.catch_warnings(), Mode() if kind == "mode" else contextlib.nullcontext():
        warnings.simplefilter("ignore")
        try:
            exec(program, {"T": lib, "F": lib.nn.functional, "x": x, "w": w})      # noqa: S102
        except Exception as error:      # noqa: BLE001
            log.append(type(error).__name__)
        found = list(log)
    return [entry for entry in found if not entry.startswith("_set_grad_enabled")][:12]


def test_programs_show_handlers_what_pytorchs_do() -> None:
    wrong = {}
    for label, wanted in PROGRAMS:
        kind, _, program = label.partition(" ")
        if seen_in(rl, kind, program) != wanted.split():
            wrong[label] = (seen_in(rl, kind, program), wanted.split())
    assert not wrong


def test_the_stored_programs_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    for label, wanted in PROGRAMS[::5]:
        kind, _, program = label.partition(" ")
        assert seen_in(torch, kind, program) == wanted.split(), label


def test_objects_are_indices_and_values() -> None:
    class Like:
        seen: list = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.seen.append((func, types, len(args)))
            return 7

    x, o = rl.zeros(3), Like()
    assert x[o] == 7 and x[0, o] == 7
    x[0] = o
    x[o] = 1.0
    get, put = rl.Tensor.__getitem__, rl.Tensor.__setitem__
    assert [(f, n) for f, _, n in Like.seen] == [(get, 2), (get, 2), (put, 3), (put, 3)]
    assert all(types == (Like,) for _, types, _ in Like.seen) and x.tolist() == [0, 0, 0]
    with pytest.raises(IndexError):
        x[object()]


def test_the_most_derived_class_is_asked_first() -> None:
    order = []

    class Base(rl.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            order.append(cls.__name__)
            return NotImplemented

    class Derived(Base):
        pass

    a, b = rl.ones(2).as_subclass(Base), rl.ones(2).as_subclass(Derived)
    with pytest.raises(TypeError, match="Derived"):
        rl.add(a, b)
    assert order == ["Derived", "Base"]


def test_attributes_are_asked_for_only_outside_the_library() -> None:
    """What the library reads of tensors by itself is nobody's business; what a handler answers is what is read."""
    class Renamed(rl.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func == rl.Tensor.shape.__get__:
                return "a shape"
            return super().__torch_function__(func, types, args, kwargs or {})

    x = rl.ones(2, 3).as_subclass(Renamed)
    assert x.shape == "a shape" and x.sum().item() == 6 and x.size() == (2, 3)
    with rl._C.DisableTorchFunctionSubclass():
        assert x.shape == (2, 3)


def test_names_are_of_the_function_that_was_asked_about() -> None:
    wanted = {
        "torch.ones": rl.ones, "torch.add": rl.add, "torch.Tensor.add": rl.Tensor.add, "torch.fft.fft": rl.fft.fft,
        "torch.special.erf": rl.special.erf, "torch.erf": rl.erf, "torch.nn.functional.relu": rl.nn.functional.relu,
        "torch.relu": rl.relu, "torch.swapdims": rl.swapdims, "torch.transpose": rl.transpose,
        "torch.Tensor.T.__get__": rl.Tensor.T.__get__, "torch.Tensor.grad.__set__": rl.Tensor.grad.__set__,
        "torch.nn.init.uniform_": rl.nn.init.uniform_,
    }
    assert {name: overrides.resolve_name(f) for name, f in wanted.items()} == {name: name for name in wanted}
    assert rl.Tensor.add == rl.add and rl.Tensor.add is not rl.add
