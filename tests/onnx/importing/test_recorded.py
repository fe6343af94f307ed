"""Graphs that are made when somebody needs them, and the native reader of messages."""

from __future__ import annotations

import copy
import pickle
import threading

import pytest

import rushlight as torch
from rushlight import _C
from rushlight.onnx.importing import reader
from rushlight.onnx.wire import Message

from .files import model, node, value


def small() -> bytes:
    """relu(x) + y, and a node that no result needs."""
    return model([node("Relu", "x", "r"), node("Neg", "r", "unused"), node("Add", "r y", "z")],
                 [value("x", "n", 2), value("y", "n", 2)], [value("z", "n", 2)])


def test_loading_makes_no_graph_and_a_call_makes_it():
    loaded = torch.onnx.load(small())
    assert "_graph" not in vars(loaded) and "_recorded" in vars(loaded)
    x = torch.tensor([[-1.0, 2.0]])
    assert loaded(x, x).tolist() == [[-1.0, 4.0]]
    assert "_graph" in vars(loaded) and "_recorded" not in vars(loaded)
    assert not [n for n in loaded._graph.nodes if "unused" in n.name]
    calls = [n.target for n in loaded.graph.nodes if n.op == "call_function"]
    assert calls == [torch.ops.aten.relu.default, torch.ops.aten.add.Tensor]


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_of_what_never_ran_runs(copied):
    x = torch.tensor([[-1.0, 2.0]])
    loaded = torch.onnx.load(small())
    assert copied(loaded)(x, x).tolist() == [[-1.0, 4.0]]
    assert loaded(x, x).tolist() == [[-1.0, 4.0]]


def test_threads_that_call_first_share_a_graph():
    loaded, x = torch.onnx.load(small()), torch.ones(1, 2)
    seen: list = []
    threads = [threading.Thread(target=lambda: seen.append((loaded(x, x), loaded._graph))) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(seen) == 8 and len({id(g) for _, g in seen}) == 1


def test_hooks_of_registration_see_the_weights():
    from rushlight.nn.modules import hooks

    weighted = model([node("Add", "x w", "z")], [value("x", 2)], [value("z", 2)], {"w": torch.tensor([1.0, 2.0])})
    seen: list = []
    handle = hooks.register_module_parameter_registration_hook(lambda m, name, p: seen.append(name))
    try:
        torch.onnx.load(weighted)
    finally:
        handle.remove()
    assert seen == ["w"]


def read(message: Message, table: list) -> list:
    return _C.read_message(memoryview(bytes(message)), table, 5)


def test_messages_become_lists_of_values():
    inner = [1, (None, (0, 0, None))]
    table = [10, tuple([None] + [(k, k, inner) for k in range(10)])]
    given = Message().text(1, "a").text(2, "b").text(2, "c").integer(3, -1).integer(4, 5).integers(4, [6, -7])
    given.real(5, 1.5).real(6, 2.0).reals(6, [3.0]).message(7, Message().text(1, "x")).message(8, Message())
    given.data(9, b"raw").data(10, b"p").integer(10, 1 << 63).integer(99, 3)
    *found, raw, parts = read(given, table)
    assert found == ["a", ["b", "c"], -1, [5, 6, -7], 1.5, [2.0, 3.0], ["x"], [[None]]]
    assert bytes(raw) == b"raw" and [bytes(parts[0]), parts[1]] == [b"p", 1 << 63]
    assert read(Message(), table) == [None] * 10
    assert read(Message().data(1, b"\xff"), table)[0] == "\udcff"


@pytest.mark.parametrize(("data", "why"), [
    (b"\x0a\x05ab", "cut off"), (b"\x80" * 11, "cut off"), (b"\x0b", "cut off"), (b"\x08\x01", "a number stands where"),
    (b"\x1a\x00", "bytes stand where"), (b"\x28\x01", "a float of 32 bits"), (b"\x32\x03abc", "list of floats"),
    (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "cut off"), (b"\x22\x01\x80", "cut off"),
])
def test_what_is_no_message_is_refused(data, why):
    table = [10, tuple([None] + [(k, k, [1, (None,)]) for k in range(10)])]
    with pytest.raises(ValueError, match=why):
        _C.read_message(memoryview(data), table, 5)


def test_messages_without_end_are_refused():
    data = b""
    for _ in range(reader.DEEPEST + 2):
        data = bytes(Message().data(7, data))
    table: list = [1, ()]
    table[1] = (*[None] * 7, (6, 0, table))
    with pytest.raises(ValueError, match="more than 200 deep"):
        _C.read_message(memoryview(data), table, reader.DEEPEST)


@pytest.mark.parametrize("table", [[], [1], [1, [0]], [1, ((0, 1, None),)], [1, ((10, 0, None),)], [1, ((6, 0, None),)],
                                   ["1", ()], [1, ((0, 0),)]])
def test_a_table_that_is_none_is_refused(table):
    with pytest.raises(TypeError, match="read_message"):
        _C.read_message(memoryview(b""), table, 5)


def test_an_array_is_told_how_it_becomes_a_tensor():
    import numpy

    with pytest.raises(TypeError, match="from_numpy"):
        torch.onnx.load(small())(numpy.ones((1, 2), "float32"), torch.ones(1, 2))
