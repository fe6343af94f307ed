"""Tensors shared between processes: what is seen on both sides, how processes end, and that nothing is left behind."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import stat
import tempfile

import numpy as np
import pytest

import rushlight
import rushlight.multiprocessing as mp
from rushlight import nn
from rushlight._C import SharedArena

LIMIT = 60


def finish(process):
    process.join(LIMIT)
    if process.exitcode is None:
        process.kill()
        pytest.fail("the process hangs")
    assert process.exitcode == 0


# --- storages ---------------------------------------------------------------------------------------------------------


def test_share_memory_moves_the_storage_in_place():
    base = rushlight.arange(12.0)
    view = base.view(3, 4)[1:]
    assert not base.is_shared()
    assert base.share_memory_() is base
    assert base.is_shared() and view.is_shared()
    view[0, 0] = -1
    assert base[4].item() == -1
    assert base.share_memory_().untyped_storage().data_ptr() == base.data_ptr()


def test_share_memory_keeps_what_numpy_looks_at():
    t = rushlight.ones(1000)
    seen = t.numpy()
    t.share_memory_()
    t.fill_(2)
    rushlight.empty(1000).fill_(5)
    assert seen.sum() == 1000


def test_shared_storage_refuses_to_grow():
    t = rushlight.ones(4).share_memory_()
    with pytest.raises(RuntimeError, match="not resizable"):
        t.resize_(100)


def test_storage_names_of_pytorch():
    storage = rushlight.UntypedStorage._new_shared(16)
    assert storage.is_shared() and storage.nbytes() == 16
    descriptor, size = storage._share_fd_cpu_()
    other = rushlight.UntypedStorage._new_shared_fd_cpu(descriptor, size)
    storage.write(b"0123456789abcdef")
    assert other.tobytes() == b"0123456789abcdef"
    assert rushlight.UntypedStorage._new_using_fd_cpu(8).is_shared()
    with pytest.raises(RuntimeError, match="the file holds 16 bytes"):
        rushlight.UntypedStorage._new_shared_fd_cpu(descriptor, 1 << 20)


def test_many_shared_tensors_outgrow_the_soft_descriptor_limit():
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip("the hard limit is low here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        held = [rushlight.ones(2).share_memory_() for _ in range(600)]
        assert all(t.is_shared() for t in held)
        del held
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_sharing_strategies():
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() == "file_system"
    mp.set_sharing_strategy("file_descriptor")
    with pytest.raises(AssertionError, match="invalid sharing strategy"):
        mp.set_sharing_strategy("by post")


# --- processes --------------------------------------------------------------------------------------------------------


def _fill(queue, back):
    t, again, param = queue.get()
    t.fill_(7)
    back.put((again[0].item(), type(param).__name__, param.requires_grad, rushlight.arange(3)))
    queue.get()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_queue_shares_tensors(method):
    context = mp.get_context(method)
    queue, back = context.Queue(), context.Queue()
    process = context.Process(target=_fill, args=(queue, back))
    process.start()
    t = rushlight.zeros(3)
    queue.put((t, t[1:], nn.Parameter(rushlight.ones(2))))
    first, name, requires_grad, result = back.get(timeout=LIMIT)
    assert (first, name, requires_grad) == (7, "Parameter", True)
    assert t.tolist() == [7, 7, 7]
    assert result.tolist() == [0, 1, 2] and result.is_shared()
    queue.put(None)
    finish(process)


def test_a_tensor_of_a_graph_is_not_sent():
    context = mp.get_context("fork")
    reader, writer = context.Pipe()
    with pytest.raises(RuntimeError, match="non-leaf"):
        writer.send(rushlight.ones(2, requires_grad=True) * 2)
    reader.close(), writer.close()


def _double(t):
    return t * 2


def test_pool_maps_tensors():
    with mp.get_context("fork").Pool(2) as pool:
        results = pool.map_async(_double, [rushlight.full((2,), float(i)) for i in range(5)]).get(LIMIT)
    assert [r.tolist() for r in results] == [[2.0 * i] * 2 for i in range(5)]


def _train(model, inputs, targets, steps):
    for _ in range(steps):
        loss = ((model(inputs) - targets) ** 2).mean()
        for p in model.parameters():
            p.grad = None
        loss.backward()
        with rushlight.no_grad():
            for p in model.parameters():
                p.add_(p.grad, alpha=-0.05)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_hogwild_training(method):
    """Processes update one model without locks; the parent's parameters learn."""
    rushlight.manual_seed(0)
    model = nn.Linear(4, 1)
    inputs = rushlight.randn(64, 4)
    targets = inputs @ rushlight.tensor([[1.0], [-2.0], [3.0], [0.5]]) + 0.25
    assert model.share_memory() is model
    assert all(p.is_shared() for p in model.parameters())
    before = ((model(inputs) - targets) ** 2).mean().item()
    context = mp.get_context(method)
    processes = [context.Process(target=_train, args=(model, inputs, targets, 100)) for _ in range(2)]
    for p in processes:
        p.start()
    for p in processes:
        finish(p)
    after = ((model(inputs) - targets) ** 2).mean().item()
    assert after < before / 1000


def _fail(rank, how):
    if rank == 1:
        if how == "raise":
            raise ValueError("from rank 1")
        if how == "exit":
            os._exit(4)
        os.kill(os.getpid(), signal.SIGKILL)
    import time

    time.sleep(30)


def _succeed(rank, shared):
    shared[rank] = rank + 1


def test_spawn_runs_every_rank():
    shared = rushlight.zeros(3).share_memory_()
    mp.spawn(_succeed, args=(shared,), nprocs=3)
    assert shared.tolist() == [1, 2, 3]


@pytest.mark.parametrize("how", ["raise", "exit", "kill"])
def test_start_processes_reports_the_first_failure(how):
    context = mp.start_processes(_fail, args=(how,), nprocs=2, join=False, start_method="fork")
    assert len(context.pids()) == 2
    with pytest.raises(mp.ProcessException) as caught:
        while not context.join(timeout=LIMIT):
            pass
    assert caught.value.error_index == 1
    assert caught.value.error_pid == context.pids()[1]
    if how == "raise":
        assert isinstance(caught.value, mp.ProcessRaisedException)
        assert "-- Process 1 terminated with the following error" in str(caught.value)
        assert "ValueError: from rank 1" in str(caught.value)
    else:
        assert isinstance(caught.value, mp.ProcessExitedException)
        assert caught.value.exit_code == (4 if how == "exit" else -signal.SIGKILL)
        assert caught.value.signal_name == (None if how == "exit" else "SIGKILL")
    assert all(not p.is_alive() for p in context.processes)


@pytest.mark.parametrize("how", ["raise", "exit", None], ids=str)
def test_error_files_are_in_a_private_folder_that_goes_with_the_processes(how, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shared = rushlight.zeros(2).share_memory_()
    function, given = (_succeed, shared) if how is None else (_fail, how)
    context = mp.start_processes(function, args=(given,), nprocs=2, join=False, start_method="fork")
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {os.path.dirname(path) for path in context.error_files} == {str(folder)}
    with contextlib.suppress(mp.ProcessException):
        while not context.join(timeout=LIMIT):
            pass
    assert not folder.exists()


# --- after a fork -----------------------------------------------------------------------------------------------------


def _compute(shared, size):
    x = rushlight.ones(size)
    shared[0] = (x + x).sum().item()  # large enough for the thread pool
    a = rushlight.ones(256, 256)
    shared[1] = (a @ a)[0, 0].item()
    loss = (rushlight.ones(512, 512, requires_grad=True) * 3).sum()
    loss.backward()
    shared[2] = loss.item()
    shared[3] = rushlight.erfcx(rushlight.zeros(300_001))[-1].item() if hasattr(rushlight, "erfcx") else 1
    shared[4] = rushlight.rand(1).item()


def test_a_forked_process_computes_with_threads_of_its_own():
    size = 1 << 20
    x = rushlight.ones(size)
    (x + x).sum()  # threads and kernels exist in the parent
    rushlight.manual_seed(3)
    context = mp.get_context("fork")
    tables = [rushlight.zeros(5).share_memory_() for _ in range(3)]
    processes = [context.Process(target=_compute, args=(t, size)) for t in tables]
    for p in processes:
        p.start()
    _compute(rushlight.zeros(5), size)  # at the same time
    for p in processes:
        finish(p)
    rushlight.manual_seed(3)
    drawn = rushlight.rand(1).item()
    for t in tables:
        assert t[:3].tolist() == [2 * size, 256, 3 * 512 * 512]
        assert t[4].item() == drawn, "a child continues the parent's random numbers"


# --- arenas -----------------------------------------------------------------------------------------------------------


def test_arena_reuses_blocks_once_both_sides_let_go():
    arena = SharedArena()
    first = arena.new(1000)
    address = first.data_ptr()
    assert address % 64 == 0
    at = arena.give(first)
    taken = arena.take(at, 1000)
    taken.write(b"x" * 1000)
    assert first.tobytes() == b"x" * 1000
    del first
    second = arena.new(1000)
    assert second.data_ptr() != address, "the taker still looks at it"
    del taken, second
    assert arena.in_use == 0
    assert arena.new(1000).data_ptr() == address


def test_arena_joins_neighbours():
    arena = SharedArena()
    blocks = [arena.new(1 << 16) for _ in range(8)]
    low = blocks[0].data_ptr()
    del blocks[1:7]
    wide = arena.new(5 << 16)
    assert wide.data_ptr() - low < 2 << 16
    del blocks, wide
    assert arena.in_use == 0


def test_restarted_arena_keeps_what_is_held():
    arena = SharedArena()
    blocks = [arena.new(5000) for _ in range(6)]
    addresses = [b.data_ptr() for b in blocks]
    blocks[3].write(b"k" * 5000)
    abandoned = arena.give(blocks[1])  # given, never taken: its maker ends
    del blocks[4:], blocks[:3]
    assert abandoned
    assert arena.restart()
    again = [arena.new(5000) for _ in range(5)]
    for b in again:
        b.write(b"n" * 5000)
    assert blocks[0].tobytes() == b"k" * 5000
    assert {b.data_ptr() for b in again} == set(addresses) - {addresses[3]}
    del blocks, again, b
    assert arena.in_use == 0


def test_arena_outlives_its_object():
    arena = SharedArena()
    storage = arena.new(64)
    storage.write(b"a" * 64)
    del arena
    gc.collect()
    assert storage.tobytes() == b"a" * 64
    assert storage.is_shared()


def test_full_arena_says_so():
    arena = SharedArena()
    assert arena.new(1 << 60) is None
    with pytest.raises(ValueError, match="no block"):
        arena.take(1 << 60, 8)
    assert arena.give(rushlight.UntypedStorage(8)) is None


def test_a_block_passed_on_by_queue_gets_memory_of_its_own():
    arena = SharedArena()
    storage = arena.new(8)
    storage.write(b"12345678")
    storage.share_memory_()
    assert storage.tobytes() == b"12345678"
    assert arena.give(storage) is None


def test_a_block_seen_by_a_forked_process_is_not_used_again():
    arena = SharedArena()
    storage = arena.new(1 << 12)
    address = storage.data_ptr()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    del storage
    assert arena.new(1 << 12).data_ptr() != address


def test_numpy_view_of_a_block_keeps_it():
    arena = SharedArena()
    t = rushlight.empty(0)
    t._set_storage(arena.new(400), 0, (100,), (1,))
    t.fill_(3)
    seen = t.numpy()
    del t
    other = arena.new(400)
    assert np.all(seen == 3)
    del seen, other
    assert arena.in_use == 0
