"""Ahead of time: what is written runs without Python and without Rushlight, and equals eager mode within rounding."""

from __future__ import annotations

import platform
import shutil
import struct
import subprocess

import numpy as np
import pytest

import rushlight as rl
from benchmarks import networks
from rushlight import nn
from rushlight.export import Dim, export
from rushlight.freestanding import NotFreestanding, aot_compile
from tests.freestanding.browser import browser, in_browser, needs_browser
from tests.freestanding.running import Library, cpp_program, in_node, needs

TARGETS = ("x86-64", "x86-64-avx512", "aarch64", "riscv64", "wasm32")


def mlp():
    rl.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 7), nn.Softmax(-1)).eval()


def resnet():
    rl.manual_seed(0)
    return networks.resnet18(rl).eval(), rl.randn(1, 3, 32, 32)


def gpt():
    rl.manual_seed(0)
    model = networks.gpt(rl, layers=2, width=64, heads=4, vocabulary=50, context=32).eval()
    return model, rl.randint(0, 50, (2, 16))


def result(model, x) -> np.ndarray:
    with rl.no_grad():
        return model(x).numpy()


# --- here -------------------------------------------------------------------------------------------------------------


@needs("cc")
def test_a_shared_library_equals_eager(tmp_path):
    model, x = mlp(), rl.randn(5, 20)
    answer = aot_compile(model, (x,), name="mlp", folder=tmp_path)
    out = np.zeros((5, 7), np.float32)
    run = Library(answer)
    assert run([x.numpy()], [out]) == 0
    np.testing.assert_allclose(out, result(model, x), rtol=1e-5, atol=1e-6)
    assert run.size() == answer.workspace_size and answer.code_size < 100_000


@needs("cc")
def test_batch_sizes_vary(tmp_path):
    model = mlp()
    program = export(model, (rl.randn(4, 20),), dynamic_shapes=({0: Dim("batch", min=1, max=40)},))
    answer = aot_compile(program, name="mlp", folder=tmp_path)
    run = Library(answer)
    for n in (1, 2, 3, 8, 17, 40):
        x, out = rl.randn(n, 20), np.zeros((n, 7), np.float32)
        assert run([x.numpy()], [out], n) == 0
        np.testing.assert_allclose(out, result(model, x), rtol=1e-5, atol=1e-6)
        assert run.size(n) <= answer.workspace_size
    assert run.size(0) == run.size(41) == -1
    assert run([x.numpy()], [out], 41) == 1


@needs("cc")
@pytest.mark.parametrize("make", [resnet, gpt], ids=["resnet18", "gpt"])
def test_networks_equal_eager(make, tmp_path):
    model, x = make()
    expected = result(model, x)
    out = np.zeros_like(expected)
    assert Library(aot_compile(model, (x,), name="net", folder=tmp_path))([x.numpy()], [out]) == 0
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4 * abs(expected).max())


@needs("cc")
def test_several_arguments_and_results(tmp_path):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("shift", rl.arange(4.0))
            self.scale = rl.tensor(3.0)

        def forward(self, x, mask, *, index):
            y = rl.where(mask, x + self.shift, -x) * self.scale
            return {"y": y.t(), "picked": y[index], "same": x, "total": y.sum(1).view(1, -1)}

    model = Two()
    x, mask, index = rl.randn(3, 4), rl.tensor([[True], [False], [True]]), rl.tensor([2, 0])
    result = aot_compile(model, (x, mask), {"index": index}, name="two", folder=tmp_path)
    expected = [np.ascontiguousarray(t.numpy()) for t in model(x, mask, index=index).values()]
    outs = [np.zeros_like(e) for e in expected]
    run = Library(result)
    assert run([x.numpy(), mask.numpy(), index.numpy()], outs) == 0
    for out, e in zip(outs, expected, strict=True):
        np.testing.assert_allclose(out, e, rtol=1e-6)
    assert run([x.numpy(), mask.numpy(), np.array([2, 9])], outs) == 2      # an index out of range


# --- from C and C++ ---------------------------------------------------------------------------------------------------


@needs("g++")
def test_the_cpp_class_runs_and_refuses_other_weights(tmp_path):
    model, x = mlp(), rl.randn(6, 20)
    shapes = ({0: Dim("batch", max=16)},)
    answer = aot_compile(model, (x,), dynamic_shapes=shapes, name="mlp", folder=tmp_path, link=False)
    assert answer.library is None
    program = cpp_program(answer, tmp_path, dims=(6,))
    x.numpy().tofile(tmp_path / "x.bin")
    run = subprocess.run([program, answer.weights, tmp_path / "x.bin"], capture_output=True, check=True)
    out = np.frombuffer(run.stdout, np.float32).reshape(6, 7)
    np.testing.assert_allclose(out, result(model, x), rtol=1e-5, atol=1e-6)
    data = bytearray((tmp_path / "mlp.weights").read_bytes())
    data[200] ^= 1
    for wrong in (bytes(data), bytes(data[:100]), b"", bytes(len(data))):
        (tmp_path / "wrong.weights").write_bytes(wrong)
        command = [program, tmp_path / "wrong.weights", tmp_path / "x.bin"]
        run = subprocess.run(command, capture_output=True, check=False)
        assert run.returncode == 1 and b"not the weights file" in run.stderr
    x.numpy()[:5].tofile(tmp_path / "x.bin")
    run = subprocess.run([program, answer.weights, tmp_path / "x.bin"], capture_output=True, check=False)
    assert run.returncode == 1 and b"expected [batch, 20]" in run.stderr


@needs("gcc")
def test_c_needs_the_header_and_the_object_alone(tmp_path):
    result = aot_compile(mlp(), (rl.randn(2, 20),), name="mlp", folder=tmp_path, link=False)
    (tmp_path / "main.c").write_text("""#include "mlp.h"
#include <stdio.h>
static _Alignas(64) unsigned char weights[MLP_WEIGHTS_SIZE], space[1 << 20];
int main(int argc, char **argv) {
  float x[MLP_INPUT_COUNT()] = {0}, y[MLP_OUT0_COUNT()];
  FILE *f = fopen(argv[argc - 1], "rb");
  if (!f || fread(weights, 1, sizeof weights, f) != sizeof weights) return 3;
  if (!mlp_check_weights(weights, sizeof weights) || mlp_workspace_size(0) > (int64_t)sizeof space) return 4;
  if (mlp_call(weights, space, x, y)) return 5;
  printf("%.6f\\n", y[0] + y[1] + y[2] + y[3] + y[4] + y[5] + y[6]);
  return 0;
}
""")
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", str(tmp_path / "main.c"), result.object, "-o",
               str(tmp_path / "main")]
    subprocess.run(command, check=True)
    assert subprocess.run([tmp_path / "main", result.weights], capture_output=True, check=True).stdout == b"1.000000\n"


# --- other machines ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_has_an_object(target, tmp_path):
    result = aot_compile(mlp(), (rl.randn(2, 20),), target=target, name="mlp", folder=tmp_path, link=False)
    data = open(result.object, "rb").read()
    if target == "wasm32":
        assert data[:8] == b"\0asm\1\0\0\0" and result.javascript is not None
        return
    machine = {"x86-64": 62, "x86-64-avx512": 62, "aarch64": 183, "riscv64": 243}[target]
    assert data[:4] == b"\x7fELF" and struct.unpack_from("<H", data, 18)[0] == machine
    assert b"mlp_run" in data and b"fma" not in data.replace(b"vfma", b"")


ENGINES = [
    pytest.param(in_node, marks=needs("node"), id="node"),
    pytest.param(in_browser, marks=needs_browser, id="browser"),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "gpt"])
def test_webassembly_runs(name, tmp_path):
    """Compiled once, run by each engine that there is."""
    engines = [engine for engine, is_here in ((in_node, shutil.which("node")), (in_browser, browser())) if is_here]
    if not engines:
        pytest.skip("neither node nor a browser is installed")
    model, x = resnet() if name == "resnet18" else gpt()
    answer = aot_compile(model, (x,), target="wasm", name="net", folder=tmp_path)
    expected = result(model, x)
    for engine in engines:
        out = engine(answer, tmp_path, x.numpy(), expected.shape)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4 * abs(expected).max())


@pytest.mark.parametrize("engine", ENGINES)
def test_webassembly_with_batch_sizes_that_vary(engine, tmp_path):
    model, x = mlp(), rl.randn(9, 20)
    answer = aot_compile(model, (x,), dynamic_shapes=({0: Dim("batch", max=16)},), target="wasm", name="net",
                       folder=tmp_path)
    out = engine(answer, tmp_path, x.numpy(), (9, 7), (9,))
    np.testing.assert_allclose(out, result(model, x), rtol=1e-5, atol=1e-6)


MACHINES = ["aarch64", "riscv64", "x86_64"]


def emulated(model, x, machine, folder, kind="float") -> np.ndarray:
    """What the model gives on another processor, by a C++ program."""
    compiler, emulator = f"{machine}-linux-gnu-g++", f"qemu-{machine}"
    for tool in (compiler, emulator):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} not installed")
    result = aot_compile(model, (x,), target=machine, name="net", folder=folder, link=False)
    program = cpp_program(result, folder, kind, compiler=compiler)
    x.numpy().tofile(folder / "x.bin")
    options = ["-cpu", "rv64,v=true,vlen=128,elen=64,vext_spec=v1.0"] if machine == "riscv64" else ["-cpu", "max"]
    if machine != platform.machine():
        options += ["-L", f"/usr/{machine}-linux-gnu"]      # where the compiler's package keeps the C library
    run = subprocess.run([emulator, *options, program, result.weights, folder / "x.bin"], capture_output=True,
                         check=True)
    return np.frombuffer(run.stdout, np.float32)


@pytest.mark.parametrize("machine", MACHINES)
def test_other_processors_run_under_an_emulator(machine, tmp_path):
    model, x = mlp(), rl.randn(4, 20)
    expected = result(model, x)
    out = emulated(model, x, machine, tmp_path).reshape(expected.shape)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


class Attention(nn.Module):
    def forward(self, x):
        q, k, v = x.view(2, 16, 3, 2, 16).permute(2, 0, 3, 1, 4).unbind(0)
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


@pytest.mark.parametrize("machine", MACHINES)
def test_tiles_are_cut_for_the_same_vectors_everywhere(machine, tmp_path):
    model, x = Attention(), rl.randn(2, 16, 96)
    expected = result(model, x)
    out = emulated(model, x, machine, tmp_path).reshape(expected.shape)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


class Joined(nn.Module):
    """Copies of dense rows, among them rows that become columns."""

    def forward(self, x):
        rows = x.view(2, 16, 3, 32)
        return rl.cat([rl.cat([x, x], 1), rows.permute(0, 2, 1, 3).reshape(2, 16, 96), x.mT.reshape(2, 16, 96)], 1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", [Joined, Attention])
def test_copies_of_rows_and_tiles_go_to_every_target(make, target, tmp_path):
    aot_compile(make(), (rl.randn(2, 16, 96),), target=target, name="net", folder=tmp_path, link=False)


@pytest.mark.parametrize("machine", MACHINES)
def test_copies_of_rows_are_exact_under_an_emulator(machine, tmp_path):
    model, x = Joined(), rl.randn(2, 16, 96)
    expected = result(model, x)
    assert (emulated(model, x, machine, tmp_path).reshape(expected.shape) == expected).all()


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("make", [resnet, gpt], ids=["resnet18", "gpt"])
def test_networks_run_under_an_emulator(make, machine, tmp_path):
    model, x = make()
    expected = result(model, x)
    out = emulated(model, x, machine, tmp_path, "int64_t" if make is gpt else "float").reshape(expected.shape)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4 * abs(expected).max())


# --- refusals ---------------------------------------------------------------------------------------------------------


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", rl.zeros(()))

    def forward(self, x):
        self.n.add_(1)
        return x + self.n


class Numbers(nn.Module):
    def forward(self, x):
        return x, x.shape[0]


def test_what_cannot_go_along_is_refused(tmp_path):
    x = rl.randn(4, 20)
    with pytest.raises(NotFreestanding, match="writes to n"):
        aot_compile(Counts(), (x,), folder=tmp_path)
    with pytest.raises(NotFreestanding, match="random numbers"):
        aot_compile(nn.Dropout(), (x,), folder=tmp_path)
    with pytest.raises(NotFreestanding, match="max"):
        aot_compile(mlp(), (x,), dynamic_shapes=({0: Dim("batch")},), folder=tmp_path)
    with pytest.raises(NotFreestanding, match="returns a number"):
        aot_compile(Numbers(), (x,), folder=tmp_path)
    with pytest.raises(ValueError, match="unknown target 'z80'"):
        aot_compile(mlp(), (x,), target="z80", folder=tmp_path)
    with pytest.raises(ValueError, match="identifier"):
        aot_compile(mlp(), (x,), name="my model", folder=tmp_path)
    with pytest.raises(ValueError, match="example arguments"):
        aot_compile(mlp(), folder=tmp_path)
    with pytest.raises(ValueError, match="already"):
        aot_compile(export(mlp(), (x,)), (x,), folder=tmp_path)
    with pytest.raises(TypeError, match="expected an ExportedProgram"):
        aot_compile(len, (x,), folder=tmp_path)
