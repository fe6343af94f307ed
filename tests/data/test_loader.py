"""DataLoader against PyTorch's: the same batches for the same seeds, with and without workers,
and the same refusals."""

from __future__ import annotations

import random
import warnings
from collections import namedtuple

import numpy as np
import pytest

import rushlight
import rushlight.utils.data

torch = pytest.importorskip("torch")
pytest.importorskip("torch.utils.data")

BOTH = (rushlight, torch)
Pair = namedtuple("Pair", "x y")


def plain(value):
    """Batches as plain Python, with the kinds of containers kept visible."""
    if isinstance(value, (rushlight.Tensor, torch.Tensor)):
        return ["tensor", str(value.dtype).split(".")[-1], list(value.shape), value.tolist()]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *(plain(v) for v in value)]
    if isinstance(value, np.ndarray):
        return ["array", value.tolist()]
    return value


def same(build):
    """Whether `build(lib)` gives the same for both libraries."""
    mine, theirs = plain(build(rushlight)), plain(build(torch))
    assert mine == theirs
    return mine


class Random:
    """Samples that depend on every generator a worker seeds."""

    def __init__(self, lib, size=14):
        self.lib, self.size = lib, size

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        info = self.lib.utils.data.get_worker_info()
        who = (info.id, info.num_workers, info.seed) if info else ()
        return {
            "i": i,
            "rng": (random.random(), self.lib.rand(2), np.random.rand(2)),
            "name": str(i),
            "pair": Pair(i, float(i)),
            "who": who,
        }


def stream(lib, length=10, report=None):
    class Stream(lib.utils.data.IterableDataset):
        def __iter__(self):
            info = lib.utils.data.get_worker_info()
            part, parts = (info.id, info.num_workers) if info else (0, 1)
            return iter(range(part, length, parts))

        if report is not None:

            def __len__(self):
                return report

    return Stream()


# --- order and seeds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [
    dict(batch_size=4, shuffle=True), dict(batch_size=4, shuffle=True, drop_last=True), dict(batch_size=None), dict(),
    dict(batch_size=None, shuffle=True),
], ids=str)
def test_order_in_this_process(options):
    def build(lib):
        data = lib.utils.data
        lib.manual_seed(11), random.seed(0), np.random.seed(0)
        loader = data.DataLoader(Random(lib), **options)
        return [list(loader), list(loader), lib.rand(2)]

    same(build)


@pytest.mark.parametrize("persistent", [False, True])
def test_order_and_seeds_with_workers(persistent):
    def build(lib):
        lib.manual_seed(5)
        loader = lib.utils.data.DataLoader(
            Random(lib), batch_size=3, shuffle=True, num_workers=2, persistent_workers=persistent
        )
        return [list(loader), list(loader), lib.rand(2)]

    same(build)


def test_order_with_a_generator():
    def build(lib):
        generator = lib.Generator()
        generator.manual_seed(42)
        loader = lib.utils.data.DataLoader(
            Random(lib, 9), batch_size=4, shuffle=True, generator=generator, num_workers=1
        )
        return [list(loader), list(loader), lib.rand(1, generator=generator)]

    same(build)


def test_streams_with_workers():
    def build(lib):
        data = lib.utils.data
        return [
            list(data.DataLoader(stream(lib), batch_size=3, num_workers=2)),
            list(data.DataLoader(stream(lib, 11), batch_size=3, num_workers=2, drop_last=True)),
            list(data.DataLoader(stream(lib), batch_size=None, num_workers=2)),
            list(data.DataLoader(stream(lib) + stream(lib, 4), batch_size=4)),
        ]

    same(build)


def test_samplers():
    def build(lib):
        data = lib.utils.data
        lib.manual_seed(1)
        result = [
            list(data.RandomSampler(range(7), num_samples=17)),
            list(data.RandomSampler(range(7), replacement=True, num_samples=70)),
        ]
        result += [
            list(data.WeightedRandomSampler([0.1, 3, 2, 0], 8)),
            list(data.WeightedRandomSampler([0.1, 3, 2], 2, replacement=False)),
        ]
        result += [
            list(data.SubsetRandomSampler([4, 5, 9])),
            list(data.BatchSampler(data.SequentialSampler(range(5)), 2, False)),
        ]
        for replicas, drop in ((3, True), (3, False), (12, False)):
            for rank in range(replicas):
                sampler = data.DistributedSampler(range(10), replicas, rank, drop_last=drop, seed=3)
                sampler.set_epoch(2)
                result += [list(sampler), len(sampler)]
        return result

    same(build)


def test_random_split_and_datasets():
    def build(lib):
        data = lib.utils.data
        lib.manual_seed(2)
        base = data.TensorDataset(lib.arange(20.0).reshape(10, 2), lib.arange(10))
        parts = data.random_split(base, [0.35, 0.65]) + data.random_split(base, [3, 7], lib.Generator().manual_seed(1))
        joined = base + parts[1]
        stacked = data.StackDataset(a=base, b=list(range(10)))
        return [
            [list(p.indices) for p in parts], [list(data.DataLoader(p, batch_size=4, shuffle=True)) for p in parts],
            len(joined), joined[-1], joined[12], stacked[3], stacked.__getitems__([1, 2]), joined.cumulative_sizes,
            list(data.DataLoader(stacked, batch_size=4, shuffle=True)),
        ]

    same(build)


def test_tensor_dataset_batches_whatever_its_rows_are():
    def build(lib):
        data = lib.utils.data
        lib.manual_seed(8)
        grid = lib.arange(48.0).reshape(6, 2, 4)
        sets = [
            data.TensorDataset(grid.transpose(0, 1)), data.TensorDataset(grid.transpose(1, 2), lib.arange(6) > 2),
            data.TensorDataset(lib.arange(6)[::2]), data.TensorDataset(grid[:, 0, 0].to(lib.complex64)),
        ]
        result = [list(data.DataLoader(s, batch_size=4, shuffle=True)) for s in sets]
        result += [
            list(data.DataLoader(sets[0], batch_sampler=[[-1, 0], [1]])),
            list(data.DataLoader(sets[1], batch_size=4, num_workers=2)),
        ]
        return [b[0].real if b[0].is_complex() else b for batches in result for b in batches]

    same(build)


def test_datasets_that_change_rows_are_asked_for_them():
    def build(lib):
        data = lib.utils.data
        base = data.TensorDataset(lib.arange(6.0))

        class Wrapper:
            def __len__(self):
                return 6

            def __getitem__(self, i):
                return base[i][0] * 10

            def __getattr__(self, name):
                return getattr(base, name)

        class Doubled(data.TensorDataset):
            def __getitem__(self, i):
                return (self.tensors[0][i] * 2,)

        class Batched(data.TensorDataset):
            def __getitems__(self, indices):
                return [(self.tensors[0][i] + 100,) for i in indices]

        sets = [
            Wrapper(),
            Doubled(lib.arange(6.0)),
            Batched(lib.arange(6.0)),
            data.Subset(Doubled(lib.arange(6.0)), [3, 4]),
        ]
        sets += [
            data.Subset(Wrapper(), [1, 2]),
            data.Subset(Batched(lib.arange(6.0)), [1, 2]),
            data.Subset(base, [5, -1]),
        ]
        return [list(data.DataLoader(s, batch_size=4)) for s in sets]

    same(build)


def test_rows_that_require_grad_keep_their_graph():
    rows = rushlight.ones(4, 2, requires_grad=True)
    (batch,) = next(iter(rushlight.utils.data.DataLoader(rushlight.utils.data.TensorDataset(rows), batch_size=3)))
    batch.sum().backward()
    assert rows.grad.sum().item() == 6


# --- batches from workers ---------------------------------------------------------------------------------------------


class Mixed:
    """Everything a batch can hold: views, arrays, strings, nested containers, nothing."""

    def __init__(self, lib):
        self.lib = lib
        self.big = lib.arange(100_000.0)

    def __len__(self):
        return 6

    def __getitem__(self, i):
        return i


def mixed_batch(dataset, ids):
    lib = dataset.lib
    view = dataset.big[10:20]
    return {
        "view": view, "same": (view, view[2:4]), "empty": lib.empty(0, 3), "array": np.full((50, 50), ids[0]),
        "text": "abc", "nested": [Pair(lib.tensor(ids), None), {"x": [lib.ones(2, 3).t()]}],
        "grad": lib.ones(2, requires_grad=True), "scalar": lib.tensor(3), "half": lib.ones(3, dtype=lib.bfloat16),
        "flag": lib.tensor([True, False]),
    }


class Collate:
    def __init__(self, dataset):
        self.dataset = dataset

    def __call__(self, ids):
        return mixed_batch(self.dataset, ids)


def test_any_structure_comes_back_from_workers():
    def build(lib):
        dataset = Mixed(lib)
        return list(lib.utils.data.DataLoader(dataset, batch_size=2, num_workers=2, collate_fn=Collate(dataset)))

    same(build)


def test_batches_from_workers_are_shared_writable_and_stay_as_they_are():
    class Rows:
        def __len__(self):
            return 64

        def __getitem__(self, i):
            return rushlight.full((500,), float(i)), np.full(2000, i)

    loader = rushlight.utils.data.DataLoader(Rows(), batch_size=4, num_workers=2)
    held = list(loader)
    for i, (tensor, array) in enumerate(held):
        assert tensor.is_shared()
        assert tensor[:, 0].tolist() == array[:, 0].tolist() == [4.0 * i + k for k in range(4)]
    held[0][0].mul_(2)
    assert held[0][0][1, 0].item() == 2
    with pytest.raises(RuntimeError, match="not resizable"):
        held[0][0].resize_(10, 10_000)


def test_arrays_from_workers_can_be_written_to():
    loader = rushlight.utils.data.DataLoader(range(4), num_workers=1, collate_fn=lambda ids: np.full(5000, ids[0]))
    for i, array in enumerate(loader):
        array += 1
        assert (array == i + 1).all()


def test_a_view_of_a_large_storage_sends_only_itself():
    big = rushlight.zeros(1 << 20)
    loader = rushlight.utils.data.DataLoader(
        range(2), batch_size=None, num_workers=1, collate_fn=lambda i: big[i : i + 4]
    )
    for part in loader:
        assert part.untyped_storage().nbytes() < 1000


def stack_as_libraries_do(rows):
    elem = rows[0]
    storage = elem.untyped_storage()._new_shared(len(rows) * elem.numel() * elem.element_size(), device=elem.device)
    return rushlight.stack(rows, 0, out=elem.new(storage).resize_(len(rows), *elem.shape))


def test_a_library_s_own_shared_storage_is_in_the_arena():
    rows = rushlight.randn(400, 300)
    loader = rushlight.utils.data.DataLoader(rows, batch_size=4, num_workers=1, collate_fn=stack_as_libraries_do)
    addresses = set()
    for i, batch in enumerate(loader):
        assert rushlight.equal(batch, rows[4 * i : 4 * i + 4])
        addresses.add(batch.data_ptr())
    assert len(addresses) < 10


def test_workers_collate_into_memory_used_before():
    loader = rushlight.utils.data.DataLoader(
        rushlight.utils.data.TensorDataset(rushlight.randn(4000, 256)), batch_size=40, num_workers=1
    )
    addresses = {batch.data_ptr() for (batch,) in loader}
    assert len(addresses) < 10


def test_passes_share_pages_but_never_a_batch_that_is_kept():
    rows = rushlight.arange(4000.0).reshape(40, 100)
    loader = rushlight.utils.data.DataLoader(rushlight.utils.data.TensorDataset(rows), batch_size=4, num_workers=2)
    kept = []
    for _ in range(4):
        for i, (batch,) in enumerate(loader):
            assert rushlight.equal(batch, rows[4 * i : 4 * i + 4])
            if i in (0, 5, 9):
                kept.append((i, batch))
        del batch
    for i, batch in kept:
        assert rushlight.equal(batch, rows[4 * i : 4 * i + 4])
    assert len({batch.data_ptr() for _, batch in kept}) == 12


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_start_methods(method):
    class_free = rushlight.utils.data.TensorDataset(rushlight.arange(10))
    loader = rushlight.utils.data.DataLoader(class_free, batch_size=4, num_workers=1, multiprocessing_context=method)
    assert [b[0].tolist() for b in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_what_does_not_fit_in_the_arena_goes_through_the_pipe():
    import os

    from rushlight._C import SharedArena
    from rushlight.utils.data._utils import channel

    fd, size = os.memfd_create("small"), 1 << 16
    os.ftruncate(fd, size)
    channel.arenas[-1] = arena = SharedArena(fd, size)
    try:
        big, small = rushlight.arange(100_000.0), arena.call(rushlight.arange, 5)
        batch = {"big": big, "view": big[10:20], "small": small, "twice": small[1:], "array": np.arange(50_000)}
        task, got = channel.decode(channel.encode(7, batch, arena, -1))
        assert task == 7 and plain(got) == plain(batch)
        assert not got["big"].is_shared() and got["small"].is_shared()
        with pytest.raises(RuntimeError, match="non-leaf"):
            channel.encode(8, [small, rushlight.ones(2, requires_grad=True) * 2], arena, -1)
        del batch, small, got
        assert arena.in_use == 0
    finally:
        del channel.arenas[-1]


def test_large_batches_of_indices_do_not_block():
    loader = rushlight.utils.data.DataLoader(
        range(2_000_000), batch_size=500_000, num_workers=2, collate_fn=len, prefetch_factor=4
    )
    assert list(loader) == [500_000] * 4


def test_large_messages_do_not_block():
    loader = rushlight.utils.data.DataLoader(
        range(12), batch_size=1, num_workers=2, collate_fn=lambda ids: "x" * 1_000_000
    )
    assert sum(len(text) for text in loader) == 12_000_000


def test_unordered_loading_returns_everything():
    loader = rushlight.utils.data.DataLoader(range(40), batch_size=2, num_workers=2, in_order=False)
    assert sorted(v for b in loader for v in b.tolist()) == list(range(40))


def test_an_error_does_not_end_the_iteration():
    class Holes:
        def __len__(self):
            return 6

        def __getitem__(self, i):
            if i == 2:
                raise LookupError("a hole")
            return i

    iterator = iter(rushlight.utils.data.DataLoader(Holes(), batch_size=2, num_workers=2))
    assert next(iterator).tolist() == [0, 1]
    with pytest.raises(LookupError, match=r"Caught LookupError in DataLoader worker process 1\.(.|\n)*a hole"):
        next(iterator)
    assert next(iterator).tolist() == [4, 5]
    with pytest.raises(StopIteration):
        next(iterator)


class Counting:
    """Counts, in the worker's own copy, how often it was read."""

    def __init__(self):
        self.reads = 0

    def __len__(self):
        return 4

    def __getitem__(self, i):
        self.reads += 1
        return self.reads


def test_persistent_workers_keep_their_dataset_and_start_anew_after_a_break():
    loader = rushlight.utils.data.DataLoader(Counting(), num_workers=1, persistent_workers=True, batch_size=None)
    assert list(loader) == [1, 2, 3, 4]
    for value in loader:
        assert value == 5
        break
    again = list(loader)
    assert len(again) == 4 and again == list(range(again[0], again[0] + 4)) and again[0] >= 6
    first = loader._iterator
    assert iter(loader) is first
    pids = [w.pid for w in first._workers]
    assert len(pids) == 1


def test_loaders_side_by_side_and_inside_each_other():
    data = rushlight.utils.data
    first = data.DataLoader(
        data.TensorDataset(rushlight.arange(24)), batch_size=4, num_workers=2, persistent_workers=True
    )
    second = data.DataLoader(data.TensorDataset(rushlight.arange(24) + 1000), batch_size=4, num_workers=1)
    for (x,), (y,) in zip(first, second):
        assert rushlight.equal(x + 1000, y)
    for i, (x,) in enumerate(first):
        assert x.tolist() == list(range(4 * i, 4 * i + 4))
        assert next(iter(second))[0].tolist() == [1000, 1001, 1002, 1003]


def test_loaders_in_threads():
    import threading

    data, sums = rushlight.utils.data, []

    def run(k):
        sums.append(sum(x.sum().item() for x in data.DataLoader(rushlight.arange(20) + k, batch_size=4, num_workers=1)))

    threads = [threading.Thread(target=run, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert sorted(sums) == [190, 210, 230]


def test_a_worker_started_while_another_thread_closes_its_pipes():
    import os
    import threading

    data, sums = rushlight.utils.data, []

    def run():
        sums.append(sum(x.sum().item() for x in data.DataLoader(rushlight.arange(20), batch_size=4, num_workers=1)))

    iterator = iter(data.DataLoader(range(8), batch_size=4, num_workers=1))
    results, other = iterator._links[0].results, threading.Thread(target=run)
    close = results._close

    def close_and_let_others_run():
        # The number is free, the object still has it, the next file gets it: a moment of `close` like any other.
        number, below = results.fileno(), [os.dup(0)]
        while below[-1] < number:
            below.append(os.dup(0))
        close()
        other.start()
        other.join(60)
        for fd in below:
            os.close(fd)

    results._close = close_and_let_others_run
    assert [batch.tolist() for batch in iterator] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert sums == [190]


def test_a_forked_process_uses_workers_of_its_own():
    import rushlight.multiprocessing as mp

    loader = rushlight.utils.data.DataLoader(range(6), batch_size=3, num_workers=1, persistent_workers=True)
    iterator = iter(loader)
    assert next(iterator).tolist() == [0, 1, 2]
    results = mp.get_context("fork").SimpleQueue()

    def child():
        try:
            next(iterator)
        except RuntimeError as e:
            results.put(str(e))
        results.put([b.tolist() for b in loader])

    process = mp.get_context("fork").Process(target=child)
    process.start()
    assert "another process" in results.get()
    assert results.get() == [[0, 1, 2], [3, 4, 5]]
    process.join(60)
    assert next(iterator).tolist() == [3, 4, 5]


class DiesOnce:
    """Ends its first process; the second finds the mark."""

    def __init__(self, path):
        self.path = path

    def __len__(self):
        return 2

    def __getitem__(self, i):
        import os

        if not self.path.exists():
            self.path.touch()
            os._exit(1)
        return i


def test_persistent_workers_that_died_are_replaced(tmp_path):
    loader = rushlight.utils.data.DataLoader(
        DiesOnce(tmp_path / "mark"), num_workers=1, persistent_workers=True, batch_size=None
    )
    with pytest.raises(RuntimeError, match="exited unexpectedly with exit code 1"):
        list(loader)
    assert list(loader) == [0, 1]


# --- arguments --------------------------------------------------------------------------------------------------------

REFUSED = [
    dict(num_workers=-1), dict(timeout=-1), dict(prefetch_factor=2), dict(persistent_workers=True),
    dict(shuffle=True, sampler=[0]), dict(batch_sampler=[[0]], batch_size=2), dict(batch_sampler=[[0]], shuffle=True),
    dict(batch_size=None, drop_last=True), dict(batch_size=0), dict(multiprocessing_context="fork"),
    dict(num_workers=1, multiprocessing_context="by hand"), dict(num_workers=1, multiprocessing_context=3),
    dict(num_workers=1, prefetch_factor=-2),
]


@pytest.mark.parametrize("options", REFUSED, ids=str)
def test_refused_arguments(options):
    raised = []
    for lib in BOTH:
        with pytest.raises((ValueError, TypeError)) as caught:
            lib.utils.data.DataLoader(range(3), **options)
        raised.append(type(caught.value))
        assert any(name in str(caught.value) for name in options), "the message names none of the arguments"
    assert raised[0] is raised[1]


@pytest.mark.parametrize("options", [dict(shuffle=True), dict(sampler=[0]), dict(batch_sampler=[[0]])], ids=str)
def test_streams_refuse_orders(options):
    raised = []
    for lib in BOTH:
        with pytest.raises(ValueError) as caught:
            lib.utils.data.DataLoader(stream(lib), **options)
        raised.append(str(caught.value))
    assert raised[0] == raised[1]


def test_what_was_fixed_cannot_be_set():
    loader = rushlight.utils.data.DataLoader(range(3))
    for name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"):
            setattr(loader, name, None)
    loader.timeout = 3


def test_lengths():
    def build(lib):
        data = lib.utils.data
        loaders = [data.DataLoader(range(7), batch_size=3), data.DataLoader(range(7), batch_size=3, drop_last=True)]
        loaders += [
            data.DataLoader(stream(lib, 10, 10), batch_size=4),
            data.DataLoader(stream(lib, 10, 10), batch_size=None),
        ]
        return [len(loader) for loader in loaders]

    same(build)
    with pytest.raises(TypeError):
        len(rushlight.utils.data.DataLoader(stream(rushlight)))


def test_a_stream_longer_than_it_said_is_warned_about():
    loader = rushlight.utils.data.DataLoader(stream(rushlight, 5, 3), batch_size=None)
    assert len(loader) == 3
    with pytest.warns(UserWarning, match="was reported to be 3"):
        list(loader)


def test_pin_memory_without_an_accelerator_warns():
    with pytest.warns(UserWarning, match="no accelerator is found"):
        assert [b.tolist() for b in rushlight.utils.data.DataLoader(range(2), pin_memory=True)] == [[0], [1]]


def test_more_workers_than_processors_are_warned_about():
    with pytest.warns(UserWarning, match="This DataLoader will create 999 worker processes"):
        rushlight.utils.data.DataLoader(range(2), num_workers=999)


def test_worker_info_is_read_only_and_absent_here():
    from rushlight.utils.data._utils.worker import WorkerInfo

    assert rushlight.utils.data.get_worker_info() is None
    with pytest.raises(AttributeError):
        WorkerInfo(0, 1, 2, None).id = 3


def test_iterators_are_not_pickled():
    import pickle

    with pytest.raises(NotImplementedError):
        pickle.dumps(iter(rushlight.utils.data.DataLoader(range(2))))


# --- collate ----------------------------------------------------------------------------------------------------------


def test_collate():
    def build(lib):
        collate = lib.utils.data.default_collate
        one = {
            "int": 1,
            "float": [1.5, np.float32(2)],
            "str": "x",
            "deep": (np.arange(3), lib.ones(2)),
            "bool": True,
            "b": b"x",
            "np": np.int16(3),
        }
        return [
            collate([one, one]),
            collate([Pair(1, 2.0), Pair(3, 4.0)]),
            collate([0, 1, 2]),
            collate([np.float64(1), np.float64(2)]),
        ]

    same(build)


@pytest.mark.parametrize(
    "batch", [[object()] * 2, [[1, 2], [1]], [np.array(["s"])], [None]], ids=["object", "ragged", "strings", "none"]
)
def test_collate_refuses(batch):
    raised = []
    for lib in BOTH:
        with pytest.raises((TypeError, RuntimeError)) as caught:
            lib.utils.data.default_collate(batch)
        raised.append(type(caught.value))
        assert "batch" in str(caught.value)
    assert raised[0] is raised[1]


def test_collate_of_own_types():
    from rushlight.utils.data._utils.collate import collate, collate_tensor_fn, default_collate_fn_map

    class Own:
        pass

    def merge(batch, *, collate_fn_map=None):
        return len(batch)

    assert np.ndarray in default_collate_fn_map
    assert collate([Own(), Own()], collate_fn_map={Own: merge}) == 2
    assert collate([[rushlight.ones(1)]], collate_fn_map={rushlight.Tensor: collate_tensor_fn})[0].shape == (1, 1)
    default_collate_fn_map[Own] = merge
    try:
        assert rushlight.utils.data.default_collate([{"a": Own()}] * 3) == {"a": 3}
    finally:
        del default_collate_fn_map[Own]


def test_convert():
    same(
        lambda lib: lib.utils.data.default_convert([Pair(np.array(0), 3), {"a": np.ones(2)}, (1, "s"), np.array(["a"])])
    )


def test_subclass_of_subset_must_override_both():
    class Half(rushlight.utils.data.Subset):
        def __getitem__(self, i):
            return i

    with pytest.raises(NotImplementedError, match="overrides __getitem__ but not __getitems__"):
        Half(range(3), [0])


def test_split_refusals():
    split = rushlight.utils.data.random_split
    with pytest.raises(ValueError, match="Sum of input lengths"):
        split(range(4), [1, 2])
    with pytest.raises(ValueError, match="Fraction at index 0"):
        split(range(4), [1.2, -0.2])
    with pytest.warns(UserWarning, match=r"index \d is 0"):
        split(range(2), [0.9, 0.1 / 2, 0.1 / 2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [len(p) for p in split(range(10), [0.5, 0.5])] == [5, 5]
