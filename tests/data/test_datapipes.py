"""Datapipes against PyTorch's: the same samples for the same seeds, alone and inside a DataLoader."""

from __future__ import annotations

import importlib
import pickle
import warnings

import pytest

import rushlight
import rushlight.utils.data

torch = pytest.importorskip("torch")
pytest.importorskip("torch.utils.data.datapipes.iter")

pytestmark = pytest.mark.filterwarnings("ignore")
BOTH = (rushlight, torch)


def pipes(lib, kind="iter"):
    return importlib.import_module(f"{lib.__name__}.utils.data.datapipes.{kind}")


def double(x):
    return x * 2


def is_even(x):
    return x % 2 == 0


def add(a, b):
    return a + b


def thirds(x):
    return x % 3


def drop_five(x):
    return None if x == 5 else x % 2


def plain(value):
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value.tolist() if hasattr(value, "tolist") else value


CASES = {
    "map": lambda it, r: it.IterableWrapper(r).map(double).filter(is_even),
    "columns": lambda it, r: it.IterableWrapper([(1, 2, 3), (4, 5, 6)])
    .map(add, input_col=[0, 2])
    .map(double, input_col=1, output_col=-1),
    "column": lambda it, r: it.IterableWrapper([[1, 2], [3, 4]]).map(double, input_col=0).filter(is_even, input_col=1),
    "batch": lambda it, r: it.IterableWrapper(r).batch(3).batch(2, drop_last=True),
    "unbatch": lambda it, r: it.IterableWrapper(r).batch(3).batch(2).unbatch(unbatch_level=2),
    "unbatch_all": lambda it, r: it.IterableWrapper(r).batch(3).batch(2).unbatch(unbatch_level=-1),
    "collate": lambda it, r: it.IterableWrapper(r).batch(4).collate(),
    "shuffle": lambda it, r: it.IterableWrapper(r).shuffle(),
    "shuffle_small": lambda it, r: it.IterableWrapper(r).shuffle(buffer_size=3).batch(2).shuffle(unbatch_level=1),
    "concat": lambda it, r: it.IterableWrapper(r).concat(it.IterableWrapper("abc")),
    "zip": lambda it, r: it.IterableWrapper(r).zip(it.IterableWrapper("abc")),
    "mux": lambda it, r: it.IterableWrapper(r).mux(it.IterableWrapper("abc")),
    "group": lambda it, r: it.IterableWrapper(r).groupby(thirds, group_size=2, keep_key=True),
    "group_small": lambda it, r: it.IterableWrapper(r).groupby(thirds, buffer_size=4),
    "sampler": lambda it, r: it.Sampler(it.IterableWrapper(r)),
    "shard": lambda it, r: it.IterableWrapper(r).sharding_filter(),
}


@pytest.mark.parametrize("name", CASES)
def test_steps(name):
    got = []
    for lib in BOTH:
        lib.manual_seed(4)
        pipe = CASES[name](pipes(lib), range(11))
        first, second = plain(list(pipe)), plain(list(pipe))
        try:
            length = len(pipe)
        except TypeError as e:
            length = str(e)
        got.append((first, second, length, lib.rand(1).item()))
    assert got[0] == got[1]


def test_fork_and_demux():
    def build(lib):
        it = pipes(lib)
        a, b = it.IterableWrapper(range(7)).fork(2)
        joined = list(a.zip(b.map(double)))
        apart = list(a), list(b)
        even, odd = it.IterableWrapper(range(9)).demux(2, drop_five, drop_none=True)
        split = list(even), list(odd)
        return joined, apart, split, len(a)

    assert plain(build(rushlight)) == plain(build(torch))


@pytest.mark.parametrize("make", [
    lambda it: list(it.IterableWrapper(range(9)).fork(2, buffer_size=2)[0]),
    lambda it: list(it.IterableWrapper(range(9)).demux(2, is_even, buffer_size=1)[0]),
    lambda it: it.IterableWrapper(range(9)).fork(0),
    lambda it: it.IterableWrapper(range(9)).batch(0),
    lambda it: it.IterableWrapper(range(9)).map(3),
    lambda it: it.IterableWrapper(range(9)).map(add),
    lambda it: it.IterableWrapper(range(9)).map(double, output_col=1),
    lambda it: list(it.IterableWrapper(range(9)).filter(double)),
    lambda it: list(it.IterableWrapper(range(9)).unbatch()),
    lambda it: it.IterableWrapper(range(9)).no_such_step,
    lambda it: it.Concater(),
    lambda it: list(it.IterableWrapper(range(9)).groupby(thirds, buffer_size=3, group_size=3)),
])
def test_refusals(make):
    kinds = []
    for lib in BOTH:
        with pytest.raises(Exception) as caught:
            make(pipes(lib))
        kinds.append(type(caught.value))
    assert kinds[0] is kinds[1]


def test_a_second_iterator_makes_the_first_invalid():
    pipe = pipes(rushlight).IterableWrapper(range(5)).map(double)
    first = iter(pipe)
    assert next(first) == 0
    assert next(iter(pipe)) == 0
    with pytest.raises(RuntimeError, match="invalidated because another iterator"):
        next(first)


def test_an_error_names_the_step():
    pipe = pipes(rushlight).IterableWrapper([1, "a"]).map(thirds)
    with pytest.raises(TypeError, match=r"(?s)thrown by __iter__ of MapperIterDataPipe\(.*fn=thirds"):
        list(pipe)


def test_map_style():
    def build(lib):
        mp = pipes(lib, "map")
        base = mp.SequenceWrapper(list(range(7)))
        mapped = base.map(double)
        batches, joined, zipped = mapped.batch(3), mapped.concat(base), mapped.zip(base)
        lib.manual_seed(0)
        return [
            [batches[i] for i in range(len(batches))], [joined[i] for i in range(len(joined))],
            [zipped[i] for i in range(len(zipped))], list(base.shuffle()), list(base.shuffle().set_seed(3)),
            list(base.shuffle().set_shuffle(False)), lib.rand(1),
        ]

    assert plain(build(rushlight)) == plain(build(torch))


@pytest.mark.parametrize("workers", [0, 2])
def test_inside_a_loader(workers):
    def build(lib):
        data, it = lib.utils.data, pipes(lib)
        lib.manual_seed(6)
        pipe = it.IterableWrapper(range(20)).shuffle().sharding_filter().map(double)
        loader = data.DataLoader(pipe, batch_size=3, shuffle=True, num_workers=workers)
        passes = [list(loader), list(loader)]
        keys = pipes(lib, "map").SequenceWrapper(list(range(5))).map(double)
        return passes, list(data.DataLoader(keys, batch_size=2, num_workers=workers)), lib.rand(1)

    assert plain(build(rushlight)) == plain(build(torch))


def test_graphs():
    def build(lib):
        it = pipes(lib)
        settings = importlib.import_module(f"{lib.__name__}.utils.data.graph_settings")
        graph = importlib.import_module(f"{lib.__name__}.utils.data.graph")
        source = it.IterableWrapper(range(10))
        a, b = source.shuffle().fork(2)
        pipe = a.zip(b.map(double).sharding_filter())
        names = [type(p).__name__ for p in settings.get_all_graph_pipes(graph.traverse_dps(pipe))]
        settings.apply_random_seed(pipe, lib.Generator().manual_seed(2))
        settings.apply_sharding(pipe, 2, 1)
        return names, list(pipe)

    assert plain(build(rushlight)) == plain(build(torch))


def test_sharding_twice_is_refused():
    from rushlight.utils.data.graph_settings import apply_sharding

    pipe = pipes(rushlight).IterableWrapper(range(4)).sharding_filter().map(double).sharding_filter()
    with pytest.raises(RuntimeError, match="Sharding twice"):
        apply_sharding(pipe, 2, 0)


def test_files(tmp_path):
    for name, text in (("b.txt", "two"), ("a.txt", "one"), ("c.bin", "no")):
        (tmp_path / name).write_text(text)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "d.txt").write_text("three")
    read = {}
    for lib in BOTH:
        it = pipes(lib)
        pipe = it.FileLister(str(tmp_path), masks="*.txt", recursive=True).open_files(mode="rb").read_from_stream()
        read[lib] = list(pipe)
        assert list(it.FileLister(str(tmp_path), masks=["*.bin"])) == [str(tmp_path / "c.bin")]
    assert read[rushlight] == read[torch]
    assert [content for _, content in read[rushlight]] == [b"one", b"two", b"three"]


def test_own_steps():
    data = rushlight.utils.data

    @data.functional_datapipe("plus_for_test")
    class Plus(data.IterDataPipe):
        def __init__(self, source, n):
            self.source, self.n = source, n

        def __iter__(self):
            for x in self.source:
                yield x + self.n

    source = pipes(rushlight).IterableWrapper(range(3))
    assert list(source.plus_for_test(5)) == [5, 6, 7]
    with pytest.raises(Exception, match="already taken"):
        data.functional_datapipe("plus_for_test")(Plus)
    assert "plus_for_test" in dir(source)

    @data.non_deterministic
    class Varies(data.IterDataPipe):
        pass

    assert Varies() is not None
    with data.guaranteed_datapipes_determinism(), pytest.raises(TypeError, match="non-deterministic"):
        Varies()


def test_checks_of_types():
    data = rushlight.utils.data

    class Ints(data.IterDataPipe[int]):
        @data.runtime_validation
        def __iter__(self):
            yield from (1, "x")

    with pytest.raises(RuntimeError, match="Expected an instance"):
        list(Ints())
    with data.runtime_validation_disabled():
        assert list(Ints()) == [1, "x"]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert (
            pickle.loads(
                pickle.dumps(pipes(rushlight).IterableWrapper(range(3)).map(double).shuffle())
            ).__class__.__name__
            == "ShufflerIterDataPipe"
        )
