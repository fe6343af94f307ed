"""Operators and classes that a compiled library registers."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.utils.cpp_extension import load

pytestmark = pytest.mark.slow  # a compiler runs


@pytest.fixture(scope="module")
def own(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = load(
        "operators",
        str(Path(__file__).with_name("operators.cpp")),
        extra_cflags=["-O0"],
        is_python_module=False,
        build_directory=tmp_path_factory.mktemp("operators"),
    )
    assert path in rl.ops.loaded_libraries
    return rl.ops.extops


def test_kernels_take_defaults_keywords_and_optionals(own):
    x = rl.arange(3.0)
    assert own.blend(x, x).tolist() == [0, 3, 6] and own.blend(x, b=x, k=3.0).tolist() == [0, 4, 8]
    assert own.two(x, None, [1, 2], "ab")[1] == 4 and own.two(x, x, [], "")[0].tolist() == [0, 2, 4]
    assert [t.tolist() for t in own.sorted(rl.tensor([2.0, 1.0]))] == [[1, 2], [1, 0]]
    assert own.older(x, 3).tolist() == [0, 3, 6]
    assert [t.item() for t in own.totals({"a": x, "b": x + 1}, ["b", "a"])] == [6, 3]


def test_boxed_kernels_see_the_operator(own):
    assert own.tenfold(rl.ones(2)).tolist() == [10, 10]


def test_kernels_write_in_place(own):
    x = rl.zeros(2)
    before = x._version
    assert own.inc_(x) is x and x.tolist() == [1, 1] and x._version > before


def test_errors_of_kernels_keep_their_class(own):
    with pytest.raises(ValueError, match="by design"):
        own.fails(rl.ones(1))


def test_autograd_kernels_call_the_operator_below(own):
    a, b = rl.ones(2, requires_grad=True), rl.ones(2, requires_grad=True)
    own.blend(a, b, 5.0).sum().backward()
    assert a.grad.tolist() == [1, 1] and b.grad.tolist() == [5, 5]


def test_meta_kernels_serve_fake_tensors_and_compile(own):
    assert own.blend(rl.empty(2, device="meta"), rl.empty(2, device="meta")).device.type == "meta"
    compiled = rl.compile(lambda t: own.blend(t, t) * 2, fullgraph=True)
    assert compiled(rl.ones(3)).tolist() == [6, 6, 6]
    rl.library.opcheck(own.blend, (rl.ones(2, requires_grad=True), rl.ones(2), 2.0))


def test_classes_have_methods_properties_and_state(own):
    pile = rl.classes.extops.Pile(["a", "b"])
    pile.push("c")
    pile.push()
    assert pile.pop() == "default" and pile.pop() == "c" and pile.top() == "b" and pile.size == 2
    pile.mark = 4
    assert pile.mark == 4 and rl.classes.extops.Pile.of("z").top() == "z"
    assert own.depth(pile, rl.ones(1)) == 2
    for other in (copy.deepcopy(pile), pickle.loads(pickle.dumps(pile))):
        other.push("x")
        assert other.size == 3 and pile.size == 2
    with pytest.raises(IndexError, match="empty"):
        for _ in range(3):
            pile.pop()
    with pytest.raises(TypeError, match="expected 0 arguments"):
        pile.pop(1)


def test_a_second_registration_says_where_the_first_is(own, tmp_path):
    source = tmp_path / "again.cpp"
    source.write_text('#include <torch/library.h>\nTORCH_LIBRARY(extops, m) { m.def("more(Tensor x) -> Tensor"); }\n')
    with pytest.raises(RuntimeError, match=r"operators\.cpp:\d+"):
        load("again", str(source), extra_cflags=["-O0"], is_python_module=False, build_directory=tmp_path / "build")
    assert not hasattr(own, "more")
