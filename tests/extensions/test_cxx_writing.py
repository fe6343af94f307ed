"""Tensors that C++ writes into: resize_, set_ and `_out` functions, and sparse tensors from their parts."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.cxx import generate, outs
from rushlight.utils import cpp_extension

SOURCE = Path(__file__).with_name("programs") / "written.cpp"
LINES = SOURCE.read_text()
CHECKS = re.findall(r'holds\(.*"([^"]+)"\);$', LINES, re.M)
CHECKS += [f"{name}_out" for name in re.findall(r"(?:ONE|TWO)\((\w+), ", LINES) if name != "name"]


@pytest.fixture(scope="module")
def said(compiler, tmp_path_factory):
    program = cpp_extension.load("written", SOURCE, extra_cflags=["-O0"], is_standalone=True,
                                 build_directory=tmp_path_factory.mktemp("written"))
    done = subprocess.run([program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.endswith("end\n"), done.stdout + done.stderr
    return dict(line.split(": ") for line in done.stdout.splitlines()[:-1])


@pytest.mark.slow  # a compiler runs
@pytest.mark.parametrize("check", CHECKS)
def test_programs(said, check):
    assert said[check] == "ok"


# --- what is generated ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written():
    functions, _ = generate.collected()
    return [f for f in functions if f.outs]


def target(function):
    name, overload = function.op
    return outs.out_function(name, getattr(rl, name) if overload is None else overload)


def test_every_out_function_has_a_target(written):
    assert len(written) > 700
    for function in written:
        assert callable(target(function)), function.name


def test_no_call_means_two_functions():
    for functions in generate.collected():
        forms: dict[str, list] = {}
        for f in functions:
            forms.setdefault(f.name, []).append(f.parameters)
        for name, several in forms.items():
            for a in several:
                for b in several:
                    is_longer = len(a) < len(b) and [p.type for p in b[: len(a)]] == [p.type for p in a]
                    assert not is_longer or not all(p.default for p in b[len(a) :]), name


def test_ops_with_out_in_pytorch_have_it_in_cpp(written):
    names = {f.name for f in written}
    expected = "sort topk kthvalue mode max min binary_cross_entropy glu upsample_bicubic2d"
    expected += " split_copy unbind_copy native_layer_norm_backward linalg_lstsq absolute xlogy slice_backward zero"
    missing = {f"{name}_out" for name in expected.split()} - names
    assert not missing
    assert not any("sparse_coo" in name for name in names)


def test_an_op_without_out_computes_and_writes():
    x = rl.tensor([-1.0, 2.0])
    into = rl.empty(0)
    outs.out_function("relu", rl.relu)(x, out=into)
    assert into.tolist() == [0, 2]
    with pytest.warns(UserWarning, match="was resized"):
        outs.out_function("relu", rl.relu)(rl.ones(3), out=into)
    halves = rl.empty(2, dtype=rl.float16)
    outs.out_function("relu", rl.relu)(x, out=halves)
    assert halves.tolist() == [0, 2]
    with pytest.raises(RuntimeError, match="can't be cast"):
        outs.out_function("relu", rl.relu)(x, out=rl.empty(2, dtype=rl.int64))
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        outs.out_function("relu", rl.relu)(x.requires_grad_(), out=into)
    with rl.no_grad():
        outs.out_function("relu", rl.relu)(x, out=halves)
    with pytest.raises(TypeError, match="expected 2 tensors in 'out', got 1"):
        outs.out_function("adaptive_max_pool2d", "default")(rl.ones(1, 4, 4), [2, 2], out=rl.empty(0))
    assert outs.out_function("add", rl.add) is rl.add
