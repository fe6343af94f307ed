"""Regions below autograd, which kernels of extensions open, belong to the thread that opened them."""

from __future__ import annotations

import threading

import rushlight as rl
from rushlight import _C
from rushlight.base import late


def test_regions_below_autograd_belong_to_their_thread():
    opened, close = threading.Event(), threading.Event()
    seen = []

    def work():
        rl.set_grad_enabled(False)
        with late.provided("below autograd")():
            opened.set()
            close.wait(10)
        seen.append((rl.is_grad_enabled(), _C._is_below_autograd()))

    thread = threading.Thread(target=work)
    thread.start()
    assert opened.wait(10) and not _C._is_below_autograd()
    with late.provided("below autograd")():       # inside of the other thread's region in time
        assert not rl.is_grad_enabled() and _C._is_below_autograd()
        close.set()
        thread.join()
        assert _C._is_below_autograd()
        with late.provided("below autograd")():
            pass
        assert _C._is_below_autograd()            # until the outermost ends
    assert rl.is_grad_enabled() and not _C._is_below_autograd() and seen == [(False, False)]
