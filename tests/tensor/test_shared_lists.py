"""Lists belong to the caller, who may change them while a call runs or after it: the call keeps its own."""

import subprocess
import sys
import textwrap

import pytest

import rushlight as rl

RACE = """
    import sys, threading
    import rushlight as rl
    sys.setswitchinterval(1e-6)
    body = {body!r}
    stop = threading.Event()
    shared = []
    def clear():
        while not stop.is_set():
            del shared[:]
    rival = threading.Thread(target=clear)
    rival.start()
    try:
        for _ in range(6):
            shared.extend(rl.ones(100_000) for _ in range(8))
            try:
                eval(body)
            except (RuntimeError, ValueError, IndexError, TypeError):
                pass   # the list may be empty by the time it is looked at
    finally:
        stop.set()
        rival.join()
"""


@pytest.mark.share(2)
@pytest.mark.parametrize("body", [
    "rl.cat(shared)", "rl.stack(shared)", "rl._foreach_add(shared, 1.0)", "rl._foreach_mul_(shared, shared)",
    "rl.block_diag(*shared[:2])", "rl.broadcast_tensors(*shared)", "rl.tensor(shared[:1])", "rl.hstack(shared)",
])
def test_a_list_cleared_by_another_thread(body):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(RACE).format(body=body)], timeout=120, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_lists_changed_after_the_call_do_not_change_gradients():
    x = rl.arange(6.0).view(2, 3).requires_grad_()
    dims = [0]
    y = x.sum(dims)
    dims[0] = 1
    y.sum().backward()
    assert x.grad.tolist() == [[1.0] * 3] * 2
    parts = [rl.ones(2, requires_grad=True), rl.ones(3, requires_grad=True)]
    joined = rl.cat(parts)
    first, second = parts
    parts.clear()
    joined.sum().backward()
    assert first.grad.shape == (2,) and second.grad.shape == (3,)


class _Greedy:
    """A sequence whose reading drops the list that holds it."""

    def __init__(self, holder):
        self.holder = holder

    def __len__(self):
        return 1

    def __getitem__(self, at):
        self.holder.clear()
        if at:
            raise IndexError
        return 1.0


def test_nested_data_that_empties_its_holder_while_read():
    for _ in range(20):
        holder = []
        holder.extend(_Greedy(holder) for _ in range(3))
        with pytest.raises((ValueError, TypeError, RuntimeError, IndexError)):
            rl.tensor(holder)
            raise ValueError
