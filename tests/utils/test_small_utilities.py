"""The smaller parts of utils: weak dictionaries, decorators, environment reports, throughput,
and what is refused when used."""

from __future__ import annotations

import copy
import gc
import os
import stat

import pytest

import rushlight as rl
from rushlight.utils import _pytree as pytree
from rushlight.utils.weak import WeakIdKeyDictionary, WeakTensorKeyDictionary, WeakTensorRefKey


def test_every_name_loads():
    for name in dir(rl.utils):
        getattr(rl.utils, name)
    with pytest.raises(TypeError, match="ScriptModule"):
        rl.utils.mobile_optimizer.optimize_for_mobile(None)


def test_weak_keys_go_by_identity():
    a, b = rl.ones(2), rl.ones(2)
    names = WeakTensorKeyDictionary({a: "a", b: "b"})
    assert (names[a], names[b], len(names)) == ("a", "b", 2)
    assert a in names
    assert rl.ones(2) not in names
    assert 3 not in names
    copied = names.copy()
    del b
    gc.collect()
    assert len(names) == len(copied) == 1
    assert list(names) == [a] or next(iter(names)) is a
    assert copy.deepcopy(names)[a] == "a"
    del names[a]
    assert not names
    assert WeakTensorRefKey(a) == WeakTensorRefKey(a)
    with pytest.raises(KeyError):
        WeakIdKeyDictionary()[a]


def test_swap_tensors():
    a, b = rl.nn.Parameter(rl.ones(2)), rl.nn.Parameter(rl.zeros(3), requires_grad=False)
    a.grad = rl.full((2,), 5.0)
    holder = [a]
    rl.utils.swap_tensors(a, b)
    assert holder[0].tolist() == [0.0, 0.0, 0.0]
    assert (a.requires_grad, b.requires_grad, a.grad) == (False, True, None)
    assert b.grad.tolist() == [5.0, 5.0]
    c = rl.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        rl.utils.swap_tensors(c * 2, rl.ones(2))


def test_decorators_of_contexts():
    from rushlight.utils._contextlib import _DecoratorContextManager, context_decorator

    depth = []

    class Inside(_DecoratorContextManager):
        def __enter__(self):
            depth.append(1)

        def __exit__(self, *exc):
            depth.pop()

    @Inside()
    def once():
        return len(depth)

    @Inside()
    def many():
        for _ in range(2):
            yield len(depth)

    assert once() == 1
    result = many()
    assert [next(result), len(depth), next(result), len(depth)] == [1, 0, 1, 0]
    with pytest.raises(RuntimeError, match="classes"):
        context_decorator(Inside().clone, int)


def test_device_contexts():
    from rushlight.utils._device import DeviceContext, set_device

    with DeviceContext("meta"):
        assert rl.ones(1).is_meta

    @set_device("meta")
    def make():
        return rl.ones(1)

    assert make().is_meta
    assert not rl.ones(1).is_meta


def test_environment_is_described():
    said = rl.utils.collect_env.get_pretty_env_info()
    assert "Python version: 3." in said
    assert "numpy==" in said


def test_throughput():
    bench = rl.utils.ThroughputBenchmark(rl.nn.Linear(4, 4))
    with pytest.raises(RuntimeError, match="add_input"):
        bench.benchmark()
    bench.add_input(rl.ones(2, 4))
    stats = bench.benchmark(num_calling_threads=2, num_warmup_iters=2, num_iters=20)
    assert stats.num_iters == 20
    assert stats.iters_per_second > 0
    assert "Average latency" in str(stats)
    assert rl.utils.throughput_benchmark.format_time(time_us=1500) == "1.500ms"


def test_extensions_of_other_systems_are_refused_by_name():
    from rushlight.utils import cpp_extension

    for build in (
        lambda: cpp_extension.load("x", ["x.cpp"], with_sycl=True),
        lambda: cpp_extension.load_inline("x", "", sycl_sources=["x"]),
        lambda: cpp_extension.SyclExtension("x", []),
    ):
        with pytest.raises(NotImplementedError, match="SYCL"):
            build()


def test_dispatch_mode_questions():
    from rushlight.utils import _python_dispatch as d

    assert not d.is_in_torch_dispatch_mode()
    with d.BaseTorchDispatchMode() as mode:
        assert d._get_current_dispatch_mode() is mode
        with d._pop_mode_temporarily():
            assert d._get_current_dispatch_mode() is None
        with rl.utils._mode_utils.no_dispatch():
            assert not d.is_in_torch_dispatch_mode()
    assert rl.utils._mode_utils.all_same_mode([1, 1])


def test_groups_of_tensors():
    from rushlight.utils._foreach_utils import _group_tensors_by_device_and_dtype

    a, b, c = rl.ones(1), rl.ones(1, dtype=rl.float64), rl.ones(2)
    groups = _group_tensors_by_device_and_dtype([[a, b, c], [1, 2, 3]], with_indices=True)
    assert {k[1].name: v[1] for k, v in groups.items()} == {"float32": [0, 2], "float64": [1]}


# --- trees ------------------------------------------------------------------------------------------------------------


def test_trees_equal_pytorchs():
    torch = pytest.importorskip("torch")
    from collections import OrderedDict, defaultdict, deque, namedtuple

    import torch.utils._pytree as theirs

    point = namedtuple("point", "x y")
    tree = {
        "a": [1, (2, None)],
        "p": point(4, OrderedDict(z=5)),
        "d": defaultdict(list, {"q": 6}),
        "k": deque([7, 8], maxlen=3),
        "e": [],
    }
    results = []
    for m in (theirs, pytree):
        leaves, spec = m.tree_flatten(tree)
        plain = {k: v for k, v in tree.items() if k != "p"}
        results.append((
            leaves, str(spec), spec.num_nodes, m.treespec_pprint(spec), m.tree_map(lambda x: (x,), tree),
            [m.keystr(k) for k, _ in m.tree_leaves_with_path(tree)], m.treespec_dumps(m.tree_structure(plain)),
            m._broadcast_to_and_flatten([1, 2], m.tree_structure([[0, 0], 0])),
            m._broadcast_to_and_flatten([1], m.tree_structure([0, 0])), m.tree_map_only(int, lambda x: -x, tree),
            m.tree_map_with_path(lambda k, x: m.keystr(k), tree), m.tree_any(lambda x: x == 8, tree),
            m.tree_all_only(int, lambda x: x > 0, tree),
            spec.flatten_up_to({"a": [[0], (2, 3)], "p": point(4, {"z": 5}), "d": {"q": 6}, "k": deque([7, 8]),
                                "e": []}),
        ))
        assert m.tree_unflatten(leaves, spec) == tree
        assert m.treespec_loads(results[-1][6]) == m.tree_structure(plain)
        assert hash(spec) == hash(m.tree_structure(tree))
    assert str(results[0]) == str(results[1])
    assert torch is not None


def test_trees_that_do_not_fit():
    spec = pytree.tree_structure([1, {"a": 2}])
    with pytest.raises(ValueError, match="holds 2 items"):
        spec.unflatten([1])
    for other, reason in (((1, {"a": 2}), "type"), ([1], "arity"), ([1, {"b": 2}], "keys")):
        with pytest.raises(ValueError, match=reason):
            spec.flatten_up_to(other)
    with pytest.raises(TypeError, match="PyTreeSpec"):
        pytree.tree_unflatten([1], [2])


def test_classes_can_be_registered():
    from dataclasses import dataclass

    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda v, _: Pair(*v),
                                serialized_type_name="tests.Pair",
                                flatten_with_keys_fn=lambda p: ([(pytree.GetAttrKey("a"), p.a),
                                                                 (pytree.GetAttrKey("b"), p.b)], None))
    with pytest.raises(ValueError, match="already registered"):
        pytree.register_pytree_node(Pair, lambda p: ([], None), lambda v, _: None)
    result = pytree.tree_map(lambda x: x * 2, Pair(1, [2]))
    assert (result.a, result.b) == (2, [4])
    path, leaf = pytree.tree_leaves_with_path(Pair(1, [2]))[1]
    assert (pytree.keystr(path), leaf, pytree.key_get(Pair(1, [2]), path)) == (".b[0]", 2, 2)
    assert pytree.treespec_loads(pytree.treespec_dumps(pytree.tree_structure(Pair(1, 2)))) == pytree.tree_structure(
        Pair(1, 2)
    )

    @dataclass
    class Point:
        x: int
        y: int | None = None

    pytree.register_dataclass(Point)
    assert pytree.tree_map(lambda v: v + 1, Point(1)) == Point(2)

    @dataclass(frozen=True)
    class Name:
        text: str

    pytree.register_constant(Name)
    leaves, spec = pytree.tree_flatten([Name("a"), 1])
    assert leaves == [1]
    assert pytree.tree_unflatten([5], spec) == [Name("a"), 5]


def test_results_of_ops_are_containers():
    result = pytree.tree_map(lambda t: t + 1, rl.tensor([[1.0, 3.0]]).max(1))
    assert result.values.tolist() == [4.0]
    assert result.indices.tolist() == [2]


def test_extensions_are_built_below_the_users_cache_for_this_user_only(tmp_path, monkeypatch):
    from rushlight.utils import cpp_extension

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TORCH_EXTENSIONS_DIR", raising=False)
    assert cpp_extension.get_default_build_root() == str((tmp_path / "cache" / "torch_extensions").resolve())
    folder = cpp_extension._get_build_directory("mine", False)
    assert folder.startswith(cpp_extension.get_default_build_root() + os.sep) and folder.endswith("/mine")
    while folder != str(tmp_path):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        folder = os.path.dirname(folder)
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "elsewhere"))
    assert cpp_extension._get_build_directory("mine", False) == str(tmp_path / "elsewhere" / "mine")
