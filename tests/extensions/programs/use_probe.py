"""Every kernel of probe.cpp, called."""

from __future__ import annotations

import gc
import math
import sys
import threading
import warnings

from reporting import run_all

import rushlight as rl

rl.ops.load_library(sys.argv[1])
from rushlight import _stable  # noqa: E402

op = rl.ops.probe


def raises(kind: type, words: str, call: object, *args: object) -> BaseException:
    try:
        call(*args)
    except kind as error:
        assert type(error) is kind and words in str(error), (type(error), str(error))
        return error
    raise AssertionError(f"nothing was raised, expected {kind.__name__}: {words}")


def check_library_is_known():
    assert sys.argv[1] in rl.ops.loaded_libraries
    rl.ops.load_library(sys.argv[1])      # a second time changes nothing


def check_values_come_back():
    x = rl.arange(6.0).reshape(2, 3)
    for name, given in {
        "int": (0, -1, 2**63 - 1, -(2**63)), "symint": (5,), "float": (0.0, -2.5, math.inf, 3),
        "bool": (True, False), "str": ("", "word", "é\0z"), "dtype": (rl.float32, rl.bfloat16, rl.bool, rl.uint64,
        rl.complex64, rl.float8_e4m3fn), "device": (rl.device("cpu"), rl.device("meta"), rl.device("cpu", 0)),
        "layout": (rl.strided, rl.sparse_coo, rl.sparse_csr), "format": (rl.contiguous_format, rl.channels_last),
        "ints": ([], [1, 2, -3]), "floats": ([], [1.5, -0.0]), "bools": ([True, False],), "strs": ([], ["a", ""]),
        "optional_int": (None, 0, 4), "optional_ints": (None, [], [3]), "optional_str": (None, "", "s"),
        "optional_float": (None, 0.0), "optional_bool": (None, False, True), "optional_dtype": (None, rl.int8),
        "optional_device": (None, rl.device("cpu")), "optional_tensor": (None, x), "tensor": (x, x.T, x[0, 0]),
        "tensors": ([], [x, x.T]), "optional_tensors": ([None, x], [None]),
    }.items():
        call = getattr(op, f"keep_{name}")
        for value in given:
            back = call(value)
            if isinstance(value, list):
                assert len(back) == len(value) and all(
                    a is b if isinstance(b, rl.Tensor) else a == b for a, b in zip(back, value, strict=True)), name
            else:
                assert back is value if isinstance(value, rl.Tensor) else back == value, (name, value, back)
            assert type(back) is type(value) or (isinstance(value, (bool, int)) and name in ("int", "float")), name


def check_nan_comes_back():
    assert math.isnan(op.keep_float(math.nan))


def check_defaults_and_keywords():
    x = rl.ones(2)
    assert op.keep_int() == -3 and op.keep_optional_tensor() is None
    assert op.keep_all(x, 1) == (x, 1, 2.5, "x")
    assert op.keep_all(x, b=4, d="y", c=0.5) == (x, 4, 0.5, "y")


def check_wrong_types_are_refused():
    raises(TypeError, "", op.keep_int, "x")
    raises(TypeError, "", op.keep_tensor, 3)
    raises(TypeError, "", op.keep_tensors, [rl.ones(1), 3])
    raises(TypeError, "", op.keep_str, 3)
    raises(TypeError, "", op.keep_strs, ["a", 3])
    assert _stable.live_handles() == 0


def check_tensors_of_every_kind():
    for t in (rl.empty(0, 3), rl.tensor(1.0), rl.ones(2, 3).T, rl.ones(4)[::2], rl.ones(2).to(rl.float16),
              rl.nn.Parameter(rl.ones(2)), rl.tensor([math.nan]), rl.zeros(2, dtype=rl.complex64)):
        kept = op.keep_tensor(t.detach())
        assert kept.shape == t.shape and kept.stride() == t.stride() and kept.dtype is t.dtype


def check_calls_of_ops():
    x = rl.arange(4.0)
    assert op.add_all([x, x, x]).tolist() == [0, 3, 6, 9] and op.add_all([x]) is x
    made, dims = op.clone_and_size(x.reshape(2, 2))
    assert dims == 2 and made.tolist() == [[0, 1], [2, 3]] and made.data_ptr() != x.data_ptr()
    raises(ValueError, "add_all: no tensors", op.add_all, [])


def check_writes_are_seen():
    x = rl.arange(100000.0)
    before = x._version
    assert op.square_(x) is x
    assert x._version > before and x[300].item() == 90000 and math.isclose(x[-1].item(), 99999.0**2, rel_tol=1e-6)
    raises(ValueError, "must be contiguous", op.square_, rl.ones(4, 4).T[1:])
    saved = rl.ones(3, requires_grad=True)
    inner = saved * 2
    product = inner * inner
    op.square_(inner.detach())
    raises(RuntimeError, "", product.sum().backward)


def check_undefined_tensors_are_none():
    assert op.undefined() is None


def check_memory_of_others_is_given_back_once():
    t = op.from_memory()
    view = t[1:]
    assert t.tolist() == [0, 1, 2, 3] and op.count_given_back() == 0
    del t
    assert view.tolist() == [1, 2, 3] and op.count_given_back() == 0
    del view
    gc.collect()
    assert op.count_given_back() == 1


def check_mistakes_with_handles():
    x = rl.ones(3)
    raises(RuntimeError, "null handle", op.null_result, x)
    raises(RuntimeError, "deleted", op.deleted_result, x)
    raises(RuntimeError, "never was one", op.stray_result, x)
    raises(RuntimeError, "deleted before", op.twice_deleted, x)
    raises(RuntimeError, "was deleted", op.asks_deleted, x)
    raises(RuntimeError, "handle is null", op.asks_null)
    raises(RuntimeError, "dim 7", op.out_of_range, x)
    raises(RuntimeError, "bool", op.bad_bool, 1)
    raises(RuntimeError, "null handle", op.null_first_result, x, x)
    raises(RuntimeError, "null handle", op.null_first_of_list, [x, x, x])
    assert _stable.live_handles() == 0


def check_errors_keep_their_kind_and_cause():
    raises(RuntimeError, "no_such_op", op.unknown_op)
    error = raises(RuntimeError, "", op.bad_call, rl.ones(4))
    assert error.__cause__ is not None and str(error.__cause__) == str(error)
    raises(RuntimeError, "no std::exception", op.throws_int)
    raises(IndexError, "nothing there", op.throws_range)
    raises(MemoryError, "", op.throws_memory)
    raises(OverflowError, "too much", op.throws_overflow)
    raises(RuntimeError, "a thread failed", op.parallel_fails)


def check_warnings():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        op.warns()
    assert len(seen) == 1 and "a word of warning" in str(seen[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        raises(UserWarning, "a word of warning", op.warns)


def check_no_handle_is_left():
    x = rl.ones(3)
    references = sys.getrefcount(x)
    for _ in range(50):
        op.keep_tensor(x)
        op.keep_tensors([x, x])
        op.keep_optional_tensors([x, None])
        op.add_all([x, x])
        op.clone_and_size(x)
        raises(RuntimeError, "", op.bad_call, x)
        raises(OverflowError, "", op.keep_all, x, 2**70)
        raises(RuntimeError, "", op.null_first_result, x, x)
        raises(RuntimeError, "", op.null_first_of_list, [x, x, x])
        raises(RuntimeError, "", op.deleted_result, x)
    assert _stable.live_handles() == 0 and sys.getrefcount(x) == references


def check_errors_that_a_kernel_passes_over_are_let_go():
    def errors():
        gc.collect()
        return sum(isinstance(one, Exception) for one in gc.get_objects())

    x = rl.ones(4)
    op.swallows(x)
    before = errors()
    for _ in range(10):
        assert op.swallows(x) is x
    op.keep_tensor(x)
    assert errors() <= before


def check_threads():
    x, wrong = rl.ones(100), []

    def work():
        for _ in range(200):
            if op.add_all([x, x]).sum().item() != 200:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and _stable.live_handles() == 0


def check_modes_fakes_and_graphs_see_them():
    from rushlight.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = rl.arange(4.0)
    with Log():
        op.add_all([x, x])
    assert seen[0] == "probe.add_all.default"
    rl.library.register_fake("probe::add_all", lambda xs: rl.empty_like(xs[0]))
    compiled = rl.compile(lambda x: op.add_all([x * 2, x]) + 1, fullgraph=True)
    assert compiled(x).tolist() == [1, 4, 7, 10] and compiled(rl.ones(7)).tolist() == [4.0] * 7

    class Model(rl.nn.Module):
        def forward(self, x):
            return op.add_all([x, x])

    assert rl.export.export(Model(), (x,)).module()(x).tolist() == [0, 2, 4, 6]
    assert rl.library.opcheck(op.add_all, ([x, x],))["test_faketensor"] == "SUCCESS"
    assert op.add_all([x.to("meta"), x.to("meta")]).is_meta


def check_derivatives_are_registered_in_python():
    rl.library.register_autograd("probe::keep_tensor", lambda ctx, g: g * 3)
    x = rl.ones(2, requires_grad=True)
    (op.keep_tensor(x) * 2).sum().backward()
    assert x.grad.tolist() == [6, 6]


run_all(dict(globals()), sys.argv[2:])
