"""Python runs out of memory at any moment of a call: MemoryError,
never a result with an exception pending or a gradient that is lost."""

from __future__ import annotations

import pytest

import rushlight as rl

_testcapi = pytest.importorskip("_testcapi")   # CPython's own means to make the n-th allocation fail

ONE = rl.ones(())
CALLS = {
    "add": lambda x: x + x,
    "leaf": lambda x: x.clone().requires_grad_(True) * 2,
    "matmul": lambda x: x @ x,
    "cat": lambda x: rl.cat([x, x]),
    "view": lambda x: x.view(16),
    "several": lambda x: x.unbind(),
    "in place": lambda x: (x * 1).mul_(2),
    "view in place": lambda x: (x * 1)[0].mul_(2),
    # The core alone: where a function of Python's cannot be made,
    # Python 3.12 and 3.13 let go of its globals once too often, and die of it.
    "backward": lambda x: rl._C._run_backward(((x * x).sum(),), (ONE,), True, True, (x,), False),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_failed_allocation_is_a_memory_error(name: str) -> None:
    function = CALLS[name]
    function(rl.ones(4, 4, requires_grad=True))   # planned and compiled: what is left are the call's own allocations
    raised = []
    for n in range(40):
        x = rl.ones(4, 4, requires_grad=True)
        _testcapi.set_nomemory(n, n + 1)
        try:
            result = function(x)
        except BaseException as error:   # whatever it is, it is looked at below
            raised.append(type(error))
            continue
        finally:
            _testcapi.remove_mem_hooks()
        first = result[0] if isinstance(result, tuple) else result
        assert first.requires_grad
    assert set(raised) == {MemoryError}
