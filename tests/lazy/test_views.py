"""What tensors see of storages: random programs of views and writes against eager mode, and mutants of the rules, which
such programs catch."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import rushlight as rl
from rushlight import lazy
from rushlight.lazy import cache, graph, views
from tests.lazy import programs


def compared(seed: int) -> None:
    """One program, on the host and on the lazy device."""
    want = programs.run(random.Random(seed).randrange, rl, "cpu", lambda: None)
    got = programs.run(random.Random(seed).randrange, rl, "lazy", lazy.mark_step)
    assert got == want, seed


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10**9))
def test_random_programs_of_views_and_writes_are_those_of_eager_mode(seed):
    compared(seed)


@settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10**9))
def test_any_view_is_what_as_strided_shows(seed):
    choose = random.Random(seed)
    sizes = [choose.randint(1, 5) for _ in range(choose.randint(1, 4))]
    base = rl.arange(float(rl.Size(sizes).numel())).reshape(sizes)
    if choose.random() < 0.4:
        base = base.permute(choose.sample(range(base.ndim), base.ndim))
    t = base
    for _ in range(choose.randint(0, 4)):
        if t.ndim:
            t = programs.VIEWS[choose.randrange(len(programs.VIEWS))](t, choose.randrange)
    if choose.random() < 0.3:
        t = t.unsqueeze(0).expand(choose.randint(1, 3), *t.shape)
    seen = views.seen(base, t.shape, t.stride(), t.storage_offset())
    assert seen.shape == t.shape and seen.equal(t)
    assert seen.data_ptr() == t.data_ptr() or not t.numel()


def wrong_offset(own):
    return lambda base, sizes, strides, offset: own(base, sizes, strides, max(offset - 1, 0))


def wrong_order(own):
    def seen(base, sizes, strides, offset):
        found = own(base, sizes, strides, offset)
        same = found.ndim == 2 and found.shape[0] == found.shape[1]
        return found.t() if same else found
    return seen


def wrong_step(own):
    def cut(x, size, stride, offset, rest):
        found, inner = own(x, size, stride, offset, rest)
        return found, 0 if found is not None and found.shape[-1] > 1 else inner
    return cut


def copies(own):
    return lambda base, sizes, strides, offset: own(base, sizes, strides, offset).clone()


def forgets_writes(own):
    return lambda call: [] if call.overload.inplace else own(call)


def keeps_too_little(own):
    return lambda calls, wanted: (own(calls, wanted)[0][1:], own(calls, wanted)[1])


@pytest.mark.slow
@pytest.mark.parametrize(("owner", "name", "mutant"), [
    (views, "seen", wrong_offset), (views, "seen", wrong_order), (views, "_cut", wrong_step), (views, "seen", copies),
    (graph, "written", forgets_writes), (graph, "needed", keeps_too_little),
], ids=lambda v: getattr(v, "__name__", v))
def test_mutants_of_the_rules_are_caught(monkeypatch, owner, name, mutant):
    cache.reset()
    monkeypatch.setattr(owner, name, mutant(getattr(owner, name)))
    try:
        for seed in range(60):
            try:
                compared(seed)
            except Exception:  # noqa: BLE001  a mutant may fail in any way
                return
        pytest.fail("the mutant lives")
    finally:
        monkeypatch.undo()
        cache.reset()
        for _ in range(3):
            try:
                lazy.mark_step()
                break
            except Exception:  # noqa: BLE001  what a mutant left behind
                rl._C.recording("lazy").finish((), [])
