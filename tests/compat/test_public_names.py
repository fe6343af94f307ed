"""Every public name of PyTorch exists here, those of systems not built yet aside,
and the rare ones do what PyTorch's do."""

from __future__ import annotations

import datetime
import importlib
import pickle

import pytest

import rushlight


def test_public_names_exist() -> None:
    pytest.importorskip("torch")
    from public_names import ours, torch_names

    missing = []
    for module, names in torch_names().items():
        here = ours(module)
        missing += [f"{module}.{name}" for name in names if here is None or not _has(here, name)]
    total = sum(map(len, torch_names().values()))
    assert total > 2700, f"only {total} names were found: the walk is broken"
    assert not missing, f"{len(missing)} of {total}:\n" + "\n".join(missing)


def _has(module: object, name: str) -> bool:
    if hasattr(module, name):
        return True
    try:
        importlib.import_module(f"{module.__spec__.name}.{name}")
    except ImportError:
        return False
    return True


def test_tensor_and_module_members_exist() -> None:
    torch = pytest.importorskip("torch")
    for theirs, mine in (
        (torch.Tensor, rushlight.Tensor),
        (torch.nn.Module, rushlight.nn.Module),
        (torch.nn.Parameter, rushlight.nn.Parameter),
    ):
        assert [name for name in dir(theirs) if not name.startswith("_") and not hasattr(mine, name)] == []


def test_systems_listed_as_missing_are_missing() -> None:
    """An entry that has become true is to be struck out."""
    pytest.importorskip("torch")
    from public_names import SYSTEMS, ours

    for system, reason in SYSTEMS.items():
        assert reason
        theirs, here = importlib.import_module(system), ours(system)
        names = getattr(theirs, "__all__", None) or [n for n in vars(theirs) if not n.startswith("_")]
        complete = here is not None and all(
            hasattr(here, n) and not hasattr(getattr(here, n), "_absent_reason") for n in names
        )
        assert not complete or system in PARTLY, f"{system} is all there: take it from SYSTEMS"


# Packages whose own names are there, while modules below them are not.
PARTLY = {"torch.jit", "torch.compiler", "torch.fx.experimental", "torch.fx.passes", "torch.utils.data.datapipes",
          "torch.utils.jit", "torch.utils.hipify", "torch.utils.benchmark.utils.valgrind_wrapper",
          "torch.utils.benchmark.op_fuzzers", "torch.ao", "torch.ao.ns", "torch.distributed", "torch.export"}


def test_names_of_systems_not_built_refuse() -> None:
    from rushlight.torch_names import unbuilt

    for name in unbuilt.NAMES:
        if name not in ("FatalError", "JITException", *unbuilt.SCRIPT_NAMES):
            with pytest.raises(NotImplementedError, match=name):
                getattr(rushlight, name)()


# --- sparse products --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["spmm", "dsmm", "smm", "hspmm", "hsmm", "sspaddmm"])
def test_sparse_products(name: str) -> None:
    torch = pytest.importorskip("torch")
    a, b, c = [[0.0, 2.0, 0.0], [0.0, 0.0, 0.0]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [[1.0, 0.0], [0.0, 1.0]]

    def call(lib):
        args = [lib.tensor(a).to_sparse(), lib.tensor(b)]
        return getattr(lib, name)(*([lib.tensor(c).to_sparse(), *args] if name == "sspaddmm" else args))

    mine, theirs = call(rushlight), call(torch)
    assert str(mine.layout).split(".")[1] == str(theirs.layout).split(".")[1]
    dense = [t.to_dense() if t.is_sparse else t for t in (mine, theirs)]
    assert dense[0].tolist() == dense[1].tolist()
    if name in ("smm", "hspmm", "hsmm"):
        with pytest.raises(RuntimeError):
            getattr(rushlight, name)(rushlight.ones(2, 2), rushlight.ones(2, 2))


def test_copies_of_sparse_parts() -> None:
    torch = pytest.importorskip("torch")
    for lib in (rushlight, torch):
        csr = lib.eye(3).to_sparse_csr()
        part = lib.crow_indices_copy(csr)
        part.zero_()
        assert csr.crow_indices().tolist() == [0, 1, 2, 3] and lib.values_copy(csr).tolist() == [1.0, 1.0, 1.0]


# --- quantization's small change --------------------------------------------------------------------------------------


def test_quantization_schemes() -> None:
    assert repr(rushlight.per_tensor_affine) == "rushlight.per_tensor_affine" and isinstance(
        rushlight.per_channel_symmetric, rushlight.qscheme
    )
    assert pickle.loads(pickle.dumps(rushlight.per_channel_affine)) is rushlight.per_channel_affine
    with pytest.raises(TypeError):
        rushlight.qscheme()
    with pytest.raises(NotImplementedError):
        rushlight.ones(1).q_scale()


@pytest.mark.parametrize("by_channel", [False, True])
def test_fake_quantization_and_its_gradient(by_channel: bool) -> None:
    torch = pytest.importorskip("torch")
    values = [[-1.7, -0.26, 0.0, 0.24], [0.26, 0.6, 1.3, 9.0]]
    results = []
    for lib in (rushlight, torch):
        x = lib.tensor(values, requires_grad=True)
        if by_channel:
            y = lib.fake_quantize_per_channel_affine(
                x, lib.tensor([0.5, 0.25]), lib.tensor([1, 0], dtype=lib.int32), 0, -2, 5
            )
        else:
            y = lib.fake_quantize_per_tensor_affine(x, 0.5, 1, -2, 5)
        (y * y).sum().backward()
        results.append((y.tolist(), x.grad.tolist()))
    assert results[0] == results[1]


# --- old types and storages -------------------------------------------------------------------------------------------


def test_legacy_types_of_a_device_that_is_not_there() -> None:
    x = rushlight.ones(2)
    assert (
        rushlight.cuda.FloatTensor.dtype is rushlight.float32
        and rushlight.cuda.FloatTensor.is_cuda
        and not isinstance(x, rushlight.cuda.FloatTensor)
    )
    with pytest.raises(TypeError, match="CUDA"):
        rushlight.cuda.FloatTensor(2)
    with pytest.raises((AssertionError, RuntimeError)):
        x.type("rushlight.cuda.DoubleTensor")
    with pytest.raises((AssertionError, RuntimeError)):
        x.type(rushlight.cuda.DoubleTensor)
    with pytest.raises(AssertionError, match="CUDA"):
        rushlight.cuda.LongStorage(2)
    assert rushlight.Storage is rushlight.FloatStorage and x.storage_type() is rushlight.FloatStorage


def test_tensor_over_a_file(tmp_path) -> None:
    torch = pytest.importorskip("torch")
    for lib in (rushlight, torch):
        name = str(tmp_path / lib.__name__)
        mapped = lib.from_file(name, shared=True, size=4, dtype=lib.int32)
        mapped.copy_(lib.arange(4))
        assert lib.from_file(name, size=3, dtype=lib.int32).tolist() == [0, 1, 2]


# --- autograd ---------------------------------------------------------------------------------------------------------


def test_saved_tensors_may_be_changed_in_place() -> None:
    torch = pytest.importorskip("torch")
    results = []
    for lib in (rushlight, torch):
        allow = importlib.import_module(f"{lib.__name__}.autograd.graph").allow_mutation_on_saved_tensors
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        with allow() as context:
            b = x.clone()
            y, z = b.sin(), b * b
            b.mul_(5)
            b.add_(1)
            b[:1].mul_(7)
            assert len(context.cloned) >= 1
            (y * z + b).sum().backward()
        with allow():
            late = (x.clone() * x).sin()
        with pytest.raises((RuntimeError, AssertionError)):
            late.sum().backward()
        results.append(x.grad.tolist())
    assert results[0] == pytest.approx(results[1])
    y = (b := x.clone()).sin()
    b.mul_(2)
    with pytest.raises(RuntimeError):
        y.sum().backward()


def test_jacobians_by_hand() -> None:
    torch = pytest.importorskip("torch")
    shown = []
    for lib in (rushlight, torch):
        check = importlib.import_module(f"{lib.__name__}.autograd.gradcheck")
        check = (
            importlib.import_module("sys").modules[f"{lib.__name__}.autograd.gradcheck"]
            if not hasattr(check, "get_analytical_jacobian")
            else check
        )
        x = lib.tensor([1.0, 2.0], dtype=lib.float64, requires_grad=True)
        numeric = check.get_numerical_jacobian(lambda v: v[0].flip(0) * v[0] * 2, (x,), eps=1e-6)
        exact = check.get_analytical_jacobian((x,), x.flip(0) * x * 2)
        shown.append(([[round(v, 4) for v in row] for row in numeric[0].tolist()], exact[0][0].tolist(), exact[1:]))
    assert shown[0] == shown[1]


# --- others -----------------------------------------------------------------------------------------------------------


def test_rearranging() -> None:
    torch = pytest.importorskip("torch")
    for pattern, sizes in (
        ("a b c -> c b a", {}),
        ("a (b d) c -> b (a c) d", {"b": 2}),
        ("... c -> c ...", {}),
        ("a b c -> (a b c)", {}),
        ("a b c -> a 1 b c", {}),
    ):
        mine, theirs = (
            lib.func.rearrange(lib.arange(24).reshape(2, 4, 3), pattern, **sizes) for lib in (rushlight, torch)
        )
        assert tuple(mine.shape) == tuple(theirs.shape) and mine.tolist() == theirs.tolist()
    with pytest.raises(ValueError, match="split"):
        rushlight.func.rearrange(rushlight.ones(5), "(a b) -> a b", a=2)


def test_batch_norms_without_running_statistics() -> None:
    net = rushlight.nn.Sequential(rushlight.nn.BatchNorm1d(2), rushlight.nn.Sequential(rushlight.nn.BatchNorm1d(2)))
    assert rushlight.func.replace_all_batch_norm_modules_(net) is net
    assert net[0].running_mean is None and net[1][0].running_var is None and not net[1][0].track_running_stats


def test_batch_norm_statistics() -> None:
    torch = pytest.importorskip("torch")
    result = []
    for lib in (rushlight, torch):
        x, mean, var = lib.arange(12.0).reshape(2, 2, 3) ** 2, lib.zeros(2), lib.ones(2)
        saved = lib.batch_norm_update_stats(x, mean, var, 0.1)
        result.append([v for t in (*saved, mean, var) for v in t.tolist()])
    assert result[0] == pytest.approx(result[1], rel=1e-6)


def test_classes_of_extensions() -> None:
    with pytest.raises(RuntimeError, match="foo.Bar"):
        rushlight.classes.foo.Bar  # noqa: B018


def test_monitor_windows_and_events() -> None:
    torch = pytest.importorskip("torch")
    importlib.import_module("torch.monitor")
    logged = []
    for lib in (rushlight, torch):
        monitor, got = importlib.import_module(f"{lib.__name__}.monitor"), []
        handle = monitor.register_event_handler(lambda event, got=got: got.append((event.name, dict(event.data))))
        kinds = [
            monitor.Aggregation.SUM,
            monitor.Aggregation.COUNT,
            monitor.Aggregation.MEAN,
            monitor.Aggregation.MAX,
            monitor.Aggregation.MIN,
        ]
        stat = monitor.Stat("loss", kinds, datetime.timedelta(hours=1), 3)
        for v in (1.0, 5.0, 3.0, 7.0):
            stat.add(v)
        seen = {kind.name: value for kind, value in stat.get().items()}
        count = stat.count
        monitor.log_event(monitor.Event("mine", datetime.datetime(2026, 1, 2), {"a": 1, "b": "x"}))
        del stat
        monitor.unregister_event_handler(handle)
        monitor.log_event(monitor.Event("after", datetime.datetime(2026, 1, 2), {}))
        logged.append((seen["SUM"], seen["MAX"], count, got))
        with pytest.raises(TypeError):
            monitor.Event("bad", datetime.datetime.now(), {"a": [1]})
    assert logged[0] == logged[1]


def test_attention_over_sequences_end_to_end() -> None:
    varlen = importlib.import_module("rushlight.nn.attention.varlen")
    rushlight.manual_seed(0)
    q, k, v = (rushlight.randn(7, 4, 8, requires_grad=True) for _ in range(3))
    starts = rushlight.tensor([0, 3, 7])
    out = varlen.varlen_attn(q, k[:, :2], v[:, :2], starts, starts, 4, 4, window_size=(-1, 0), enable_gqa=True)
    for low, high in ((0, 3), (3, 7)):
        one = [
            t[low:high].transpose(0, 1) for t in (q, k[:, :2].repeat_interleave(2, 1), v[:, :2].repeat_interleave(2, 1))
        ]
        expected = rushlight.nn.functional.scaled_dot_product_attention(*one, is_causal=True).transpose(0, 1)
        assert (out[low:high] - expected).abs().max() < 1e-5
    with pytest.raises(ValueError, match="enable_gqa"):
        varlen.varlen_attn(q, k[:, :2], v[:, :2], starts, starts, 4, 4)


def test_aten_has_the_aliases() -> None:
    """`ops.aten` knows an op by each of its public names, and says which of them was asked for."""
    aten = rushlight.ops.aten
    x = rushlight.tensor([0.5])
    for alias, name in (
        ("arctan", "atan"),
        ("clip", "clamp"),
        ("absolute", "abs"),
        ("special_expit", "sigmoid"),
        ("special_gammaln", "lgamma"),
        ("arctan_", "atan_"),
    ):
        assert hasattr(aten, alias), alias
        if not alias.endswith("_") and alias != "clip":
            assert getattr(aten, alias)(x).item() == getattr(aten, name)(x).item()
    with pytest.raises(AttributeError):
        aten.no_such_op  # noqa: B018
