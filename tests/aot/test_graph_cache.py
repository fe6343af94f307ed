"""Compiled graphs that are kept on disk: found again where everything is the same, and nowhere else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight.aot.graphs import cache as graph_cache
from rushlight.codegen.stored import graphs as stored_graphs
from tests.aot.programs import run_program

PROGRAM = """
import json
import rushlight as rl, rushlight.codegen as codegen
from rushlight.aot.graphs import cache as graph_cache
made = []
host = codegen._host_object
codegen._host_object = lambda nest: made.append(nest.name) or host(nest)
rl.manual_seed(0)
model = rl.nn.Sequential(rl.nn.Embedding(11, 8), rl.nn.Linear(8, 16), rl.nn.GELU(), rl.nn.Dropout(0.5),
                         rl.nn.LayerNorm(16), rl.nn.Linear(16, 3))
x = rl.arange(10).reshape(2, 5)
run = rl.compile(model, fullgraph=True)
rl.manual_seed(1)
loss = run(x).square().sum()
loss.backward()
import sys
parts = [name for name in ("aot.partition", "aot.capture", "inductor.compile_fx") if "rushlight." + name in sys.modules]
grads = [p.grad.double().sum().item() for p in model.parameters()]
print(json.dumps({"counts": graph_cache.counts, "made": made, "loss": loss.item(), "grads": grads, "parts": parts}))
"""


@pytest.fixture(scope="module")
def first(tmp_path_factory: Any) -> tuple[Any, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("graphs") / "cache"
    return folder, run_program(folder, PROGRAM)


def test_a_second_process_compiles_nothing(first: Any) -> None:
    folder, cold = first
    assert cold["counts"] == {"missing": 1, "kept": 2} and cold["made"]
    warm = run_program(folder, PROGRAM)
    assert warm["counts"] == {"found": 1} and warm["made"] == []
    assert warm["parts"] == []      # nothing was traced, cut or lowered: the modules that do so were not loaded
    assert warm["loss"] == cold["loss"] and warm["grads"] == cold["grads"]


def test_the_variable_turns_it_off(first: Any) -> None:
    folder, cold = first
    off = run_program(folder, PROGRAM, RUSHLIGHT_GRAPH_CACHE="0")
    assert off["counts"] == {"not kept": 1} and off["made"] == [] and off["loss"] == cold["loss"]


def test_changed_sources_are_another_version(first: Any) -> None:
    folder, cold = first
    changed = PROGRAM.replace("made = []", "import rushlight.codegen.stored.graphs as stored\n"
                              "stored.package_identity = lambda: b'another version'\nmade = []")
    found = run_program(folder, changed)
    assert found["counts"] == {"missing": 1, "kept": 2} and found["loss"] == cold["loss"]


def test_a_packed_cache_brings_graphs(first: Any, tmp_path: Any) -> None:
    folder, cold = first
    packed = tmp_path / "packed"
    saving = f"{PROGRAM}\nopen({str(packed)!r}, 'wb').write(rl.compiler.save_cache_artifacts()[0])\n"
    run_program(folder, saving)
    loading = f"import rushlight as rl\ninfo = rl.compiler.load_cache_artifacts(open({str(packed)!r}, 'rb').read())\n"
    loading += "assert len(info.aot_autograd_artifacts) == 3, info\n"
    found = run_program(tmp_path / "elsewhere", loading + PROGRAM)
    assert found["counts"] == {"found": 1} and found["made"] == []
    assert found["loss"] == cold["loss"] and found["grads"] == cold["grads"]


# --- within one process -----------------------------------------------------------------------------------------------


def happened(function: Callable, *args: Any, **told: Any) -> tuple[dict[str, int], Any]:
    """What became of the graphs of one call by a program that has compiled nothing."""
    rl.compiler.reset()
    graph_cache.counts.clear()
    result = rl.compile(function, **told)(*args)
    return dict(graph_cache.counts), result


def wave(x: Any, scale: float = 2.0) -> Any:
    return (x.sin() * scale).sum(0)


def graph_files(folder: Any) -> list[Any]:
    """Entries of graphs; those of captured frames have rows."""
    found = {path: path.read_bytes() for path in folder.iterdir()}
    return [p for p, held in found.items() if held.startswith(stored_graphs.MAGIC) and b'"rows"' not in held]


def is_made_again(counts: dict[str, int]) -> bool:
    """Whether a graph was not found: by the frame that was, and then by the capture."""
    return counts == {"missing": 2, "kept": 1}


MISSES: dict[str, Callable[[], tuple[dict[str, int], Any]]] = {
    "graph": lambda: happened(lambda x: (x.cos() * 2.0).sum(0), rl.ones(3, 4)),
    "constant": lambda: happened(wave, rl.ones(3, 4), 3.0),
    "type of a constant": lambda: happened(wave, rl.ones(3, 4), 2),
    "dtype": lambda: happened(wave, rl.ones(3, 4, dtype=rl.float64)),
    "sizes": lambda: happened(wave, rl.ones(3, 5)),
    "strides": lambda: happened(wave, rl.ones(4, 3).t()),
    "offset": lambda: happened(wave, rl.ones(4, 4)[1:]),
    "gradients": lambda: happened(wave, rl.ones(3, 4, requires_grad=True)),
    "options": lambda: happened(wave, rl.ones(3, 4), options={"fuse": False}),
}


@pytest.mark.parametrize("what", MISSES)
def test_another(what: str, folder: Any) -> None:
    counts, before = happened(wave, rl.ones(3, 4))
    assert counts == {"missing": 1, "kept": 1}
    counts, after = happened(wave, rl.ones(3, 4))
    assert counts == {"found": 1} and rl.equal(before, after)
    counts, _ = MISSES[what]()
    assert "found" not in counts and counts["kept"] == 1, f"another {what} must not find it"


def test_modes_of_the_thread(folder: Any) -> None:
    x, w = rl.ones(3, 4), rl.ones(4, 4, requires_grad=True)
    product = lambda x, w: (x @ w).sum()  # noqa: E731 - one function, compiled three times
    assert happened(product, x, w)[0] == {"missing": 1, "kept": 1}
    with rl.no_grad():
        assert happened(product, x, w)[0] == {"missing": 1, "kept": 1}
    with rl.autocast("cpu"):
        counts, result = happened(product, x, w)
    assert counts == {"missing": 1, "kept": 1} and result.dtype == rl.bfloat16
    assert happened(product, x, w)[0] == {"found": 1}


def test_inputs_that_share_memory_are_another(folder: Any) -> None:
    def write(x: Any, y: Any) -> Any:
        x.mul_(2)
        return x + y

    x, y = rl.ones(4), rl.ones(4)
    assert happened(write, x, y)[0] == {"missing": 1, "kept": 1}
    memory = rl.ones(8)
    counts, result = happened(write, memory[:4], memory[:4].view(4))
    assert "found" not in counts and result.tolist() == [4, 4, 4, 4]
    x = rl.ones(4)
    counts, result = happened(write, x, y)
    assert counts == {"found": 1} and x.tolist() == [2] * 4 and result.tolist() == [3] * 4


def test_views_constants_and_mutation_come_back(folder: Any) -> None:
    def several(x: Any, y: Any) -> Any:
        y.add_(1)
        z = x * 2
        return x[1:], z.t(), z, x, 7, y

    for expected in ({"missing": 1, "kept": 1}, {"found": 1}):
        x, y = rl.arange(6.0).reshape(2, 3).clone(), rl.zeros(3)
        counts, (view, transposed, result, same, number, written) = happened(several, x, y)
        assert counts == expected
        assert same is x and number == 7 and written is y and y.tolist() == [1, 1, 1]
        x.zero_()
        assert view.tolist() == [[0, 0, 0]] and view._base is x
        result.zero_()
        assert transposed.sum() == 0 and transposed.shape == (3, 2)


def test_errors_of_kernels_are_the_same(folder: Any) -> None:
    def look(table: Any, index: Any) -> Any:
        return rl.nn.functional.embedding(index, table)

    table = rl.ones(3, 2)
    said = []
    for expected in ({"missing": 1, "kept": 1}, {"found": 1}):
        counts, result = happened(look, table, rl.tensor([0, 2]))
        assert counts == expected and result.tolist() == [[1, 1], [1, 1]]
        with pytest.raises(IndexError) as caught:
            rl.compile(look)(table, rl.tensor([0, 3]))
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_a_backward_that_nobody_made_yet(folder: Any) -> None:
    def loss(x: Any) -> Any:
        return (x.exp() * x[0]).sum()

    def leaf() -> Any:
        return rl.ones(3, 2, requires_grad=True)

    assert happened(loss, leaf())[0] == {"missing": 1, "kept": 1}      # forward only
    x = leaf()
    counts, result = happened(loss, x * 1)
    assert counts == {"missing": 1, "kept": 1}                          # no leaf
    counts, result = happened(loss, x)
    assert counts == {"found": 1}
    result.backward()
    assert graph_cache.counts == {"found": 1, "kept": 1}
    wanted = leaf()
    loss(wanted).backward()
    rl.testing.assert_close(x.grad, wanted.grad)
    x = leaf()
    happened(loss, x)[1].backward()
    assert graph_cache.counts == {"found": 1}
    rl.testing.assert_close(x.grad, wanted.grad)


def test_random_numbers_are_drawn_anew(folder: Any) -> None:
    def noisy(x: Any) -> Any:
        return rl.nn.functional.dropout(x, 0.5) + rl.rand(4)

    x = rl.ones(64, 4)
    rl.manual_seed(3)
    expected = [noisy(x), noisy(x)]
    for counts in ({"missing": 1, "kept": 1}, {"found": 1}):
        rl.compiler.reset()
        graph_cache.counts.clear()
        run = rl.compile(noisy)
        rl.manual_seed(3)
        assert rl.equal(run(x), expected[0]) and rl.equal(run(x), expected[1])
        assert graph_cache.counts == counts


def test_parameters_that_change_are_prepared_again(folder: Any) -> None:
    layer, x = rl.nn.Linear(64, 64), rl.ones(2, 64)
    for expected in ({"missing": 1, "kept": 1}, {"found": 1}):
        with rl.no_grad():
            counts, result = happened(layer, x)
            assert counts == expected
            rl.testing.assert_close(result, layer(x))
            run = rl.compile(layer)
            run(x)
            layer.weight.mul_(2)
            rl.testing.assert_close(run(x), layer(x))


@pytest.mark.parametrize("damage", [
    lambda data: b"", lambda data: data[:-1], lambda data: data[:40], lambda data: b"PK" + data,
    lambda data: data + b" ", lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
])
def test_damaged_entries_are_made_again(damage: Callable, folder: Any) -> None:
    _, before = happened(wave, rl.ones(3, 4))
    (path,) = graph_files(folder)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    counts, after = happened(wave, rl.ones(3, 4))
    assert is_made_again(counts) and rl.equal(before, after)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("contents", [b"null", b"[]", b"{}", b'{"meta": 1, "saved": [], "plan": {}}', b"{", b"\xff"])
def test_entries_that_say_something_else_are_made_again(contents: bytes, folder: Any) -> None:
    _, before = happened(wave, rl.ones(3, 4))
    (path,) = graph_files(folder)
    (name,) = [n for n, held in stored_graphs.used().items() if stored_graphs.key_by(n).hex() == path.name]
    assert stored_graphs.write_contents(name, contents) is None
    counts, after = happened(wave, rl.ones(3, 4))
    assert is_made_again(counts) and rl.equal(before, after)


@pytest.mark.slow
def test_kernels_that_are_gone_are_made_again(folder: Any) -> None:
    program = PROGRAM.replace("Linear(16, 3)", "Linear(16, 4)")
    cold = run_program(folder, program)
    for path in folder.iterdir():
        if path.read_bytes().startswith(b"RLKERNEL"):
            path.unlink()
    found = run_program(folder, program)
    assert "found" not in found["counts"] and found["counts"]["kept"] == 2 and found["made"]
    assert found["loss"] == cold["loss"] and found["grads"] == cold["grads"]


def test_folders_that_others_can_write_to_are_not_used(folder: Any) -> None:
    _, before = happened(wave, rl.ones(3, 4))
    folder.chmod(0o777)
    counts, after = happened(wave, rl.ones(3, 4))
    assert counts == {"missing": 1, "not kept": 1} and rl.equal(before, after)


def test_folders_that_cannot_be_written(folder: Any, monkeypatch: Any) -> None:
    folder.parent.joinpath("file").write_text("no folder")
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(folder.parent / "file" / "cache"))
    counts, result = happened(wave, rl.ones(3, 4))
    assert counts == {"missing": 1, "not kept": 1} and rl.equal(result, wave(rl.ones(3, 4)))


@pytest.mark.slow
def test_two_processes_at_once(tmp_path: Any) -> None:
    results: list[Any] = []
    both = [threading.Thread(target=lambda: results.append(run_program(tmp_path / "cache", PROGRAM)))
            for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert len(results) == 2 and results[0]["loss"] == results[1]["loss"] and results[0]["grads"] == results[1]["grads"]
    assert run_program(tmp_path / "cache", PROGRAM)["counts"] == {"found": 1}


# --- what is not kept -------------------------------------------------------------------------------------------------


def test_ops_of_the_program_are_not_kept(folder: Any) -> None:
    @rl.library.custom_op("graph_cache_tests::twice", mutates_args=())
    def twice(x: rl.Tensor) -> rl.Tensor:
        return x * 2

    twice.register_fake(lambda x: rl.empty_like(x))
    counts, result = happened(lambda x: rl.ops.graph_cache_tests.twice(x) + 1, rl.ones(3))
    assert counts == {"not kept": 1} and result.tolist() == [3, 3, 3]


def test_kernels_registered_over_ours_are_not_kept(folder: Any) -> None:
    assert happened(wave, rl.ones(3, 4))[0] == {"missing": 1, "kept": 1}
    registered = rl.library.Library("aten", "IMPL")
    registered.impl("sin", lambda x: x + 100, "CPU")
    try:
        counts, _ = happened(wave, rl.ones(3, 4))
        assert "found" not in counts
    finally:
        registered._destroy()
    assert happened(wave, rl.ones(3, 4))[0] == {"found": 1}


def test_why_a_graph_is_not_kept_is_told(folder: Any, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setenv("RUSHLIGHT_SHOW", "cache")
    happened(wave, rl.ones(3, 4), options={"cache_graphs": False})
    assert "not kept" in (told := capsys.readouterr().err) and "cache_graphs is off" in told
    happened(wave, rl.ones(3, 4), options={"fx_graph_cache": True})
    assert "a graph is kept" in capsys.readouterr().err
