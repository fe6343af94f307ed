"""Loads a library of stable.cpp into PyTorch or into Rushlight and says for each check what went wrong, or nothing.

Arguments: the module's name (`torch` or `rushlight`), the library.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback

torch = importlib.import_module(sys.argv[1])
torch.ops.load_library(sys.argv[2])
ops = torch.ops.stable_probe


def check_types_and_loops():
    x = torch.arange(1000.0).reshape(10, 100).t()
    assert torch.equal(ops.doubled(x), x * 2) and ops.doubled(x.double()).dtype is torch.float64
    assert ops.doubled(torch.tensor([3])).tolist() == [6]


def check_a_type_without_a_kernel():
    try:
        ops.doubled(torch.ones(2, dtype=torch.float16))
    except RuntimeError as error:
        assert "doubled" in str(error) and "Half" in str(error), error
    else:
        raise AssertionError("half precision has no case")


def check_writing_in_place():
    x = torch.zeros(3)
    version = x._version
    found = ops.add_scaled_(x, torch.ones(3), 2.0)
    assert found is x or found.data_ptr() == x.data_ptr()
    assert x.tolist() == [2, 2, 2] and x._version > version


def check_several_results():
    flat, dim, said = ops.described(torch.ones(2, 3), "two")
    assert flat.shape == (6,) and dim == 2 and said == "two cpu" and ops.described(torch.ones(1))[2] == "none cpu"


def check_lists():
    assert ops.joined([torch.ones(4), torch.ones(4), torch.ones(4)], [2, 2]).tolist() == [[3, 3], [3, 3]]


def check_an_error_of_the_kernel():
    try:
        ops.joined([], [1])
    except RuntimeError as error:
        assert "no tensors" in str(error), error
    else:
        raise AssertionError("an empty list is refused")


def check_an_error_of_an_op():
    try:
        ops.beyond(torch.ones(2))
    except (RuntimeError, IndexError) as error:
        assert "range" in str(error).lower(), error
    else:
        raise AssertionError("there is no dimension 5")


def check_factories():
    t = ops.made([2, 3], torch.float64, torch.device("cpu"), False)
    assert t.dtype is torch.float64 and t.tolist() == [[3, 3, 3], [3, 3, 3]]
    assert ops.made([2]).dtype is torch.float32 and ops.made([2], torch.bfloat16, None, True).tolist() == [0, 0]


def check_ops():
    x = torch.arange(6.0).reshape(2, 3)
    assert ops.corner(x).item() == (x @ x.T)[0].sum().item()


def check_strides():
    x = torch.arange(6).reshape(2, 3)
    assert ops.strided(x) == 3 and ops.strided(x.t()) == 1


def check_optional_arguments():
    assert ops.maybe(torch.ones(1), 2.0) is True and ops.maybe() is False and ops.maybe(None, 2.0) is False


def check_memory_of_others():
    assert ops.from_memory(4).tolist() == [0, 1, 2, 3]


def outcome(check):
    try:
        check()
    except Exception:
        return traceback.format_exc()
    return ""


print(json.dumps({name: outcome(check) for name, check in list(globals().items()) if name.startswith("check_")}))
