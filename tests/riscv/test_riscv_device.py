"""The RISC-V example: kernels of `codegen` under an emulator give the host's results, however wide its vectors are, and
an emulator that dies is told of and replaced."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.codegen.llvm.cpu import compile_ir

PACKAGE = Path(__file__).parents[2] / "examples" / "riscv_package"
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the server's memory is a file of Linux")


@pytest.fixture(scope="module")
def package() -> Iterator[Any]:
    sys.path.insert(0, str(PACKAGE))
    import rushlight_riscv  # an example: it is not installed where the tests run

    yield rushlight_riscv
    sys.path.remove(str(PACKAGE))


@pytest.fixture
def riscv(package: Any) -> Any:
    if not package.riscv.is_available():
        pytest.skip("qemu-riscv64 is not installed (Debian: qemu-user)")
    return package.riscv


def sample(*shape: int, dtype: Any = rl.float32) -> Any:
    count = rl.Size(shape).numel()
    return ((rl.arange(count) * 37 % 23).to(rl.float64) / 7 - 1.5).to(dtype).reshape(shape)


CALLS = {
    "add": lambda x, y: x + y,
    "strided": lambda x, y: x.t()[1:, ::2] * y.t()[1:, ::2],
    "expansions": lambda x, y: x.exp().sin() + y.abs().sqrt().log1p() + rl.erf(x) + rl.tanh(y),
    "rounding": lambda x, y: rl.trunc(x * 3) + rl.floor(y * 3) + rl.ceil(x) + rl.round(y * 2),
    "integers": lambda x, y: (x * 9).to(rl.int32) // 3 + (y * 9).to(rl.int8) % 4,
    "where": lambda x, y: rl.where(x > y, x, y.square()),
    "sum": lambda x, y: x.sum() + y.mean(0).sum(),
    "variance": lambda x, y: x.var(1) + y.std(1),
    "extremes": lambda x, y: x.amax(1) + y.argmin(1),
    "softmax": lambda x, y: rl.softmax(x, -1) + rl.log_softmax(y, 0),
    "layer_norm": lambda x, y: rl.layer_norm(x, (x.shape[-1],), y[0], y[1]),
    "product": lambda x, y: x @ y.t(),
    "gather": lambda x, y: x.gather(1, (y > 0).to(rl.int64)),
    "cumsum": lambda x, y: x.cumsum(1),
    "scatter": lambda x, y: x.clone().index_add_(0, rl.tensor([0, 2, 2], device=x.device), y[:3]),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_are_the_host_s(riscv: Any, name: str) -> None:
    for dtype in (rl.float32, rl.float64, rl.bfloat16):
        x, y = sample(7, 67, dtype=dtype), sample(7, 67, dtype=dtype).flip(0)
        got, want = CALLS[name](x.to("riscv"), y.to("riscv")), CALLS[name](x, y)
        assert got.device.type == "riscv" and got.dtype is want.dtype
        room = {rl.float32: 1e-5, rl.float64: 1e-12}.get(got.dtype, 3e-2 if got.is_floating_point() else 0.0)
        assert rl.allclose(got.cpu().to(rl.float64), want.to(rl.float64), rtol=room, atol=room)


def test_vectors_of_any_width_give_the_same_bits(riscv: Any) -> None:
    x, y = sample(7, 67), sample(7, 67).flip(0)
    found: dict[int, list[bytes]] = {}
    before = riscv.vlen
    try:
        for riscv.vlen in (128, 256, 512):
            riscv.stop()
            found[riscv.vlen] = [call(x.to("riscv"), y.to("riscv")).cpu().numpy().tobytes() for call in CALLS.values()]
            command = Path(f"/proc/{riscv.server.pid}/cmdline").read_bytes()
            assert f"vlen={riscv.vlen},elen=64,vext_spec=v1.0".encode() in command
    finally:
        riscv.stop()
        riscv.vlen = before
    assert found[128] == found[256] == found[512]


def test_kernels_set_vector_lengths(riscv: Any, package: Any) -> None:
    x = rl.ones(3, device="riscv")
    (x - 0.5).mul(x).atan2(x)     # whatever other tests loaded, this is new
    text = riscv.disassembly()
    assert "atan2" in text and "vsetvli" in text and "vle32.v" in text
    at = next(place for place, name in riscv.names.items() if "atan2" in name) - package.BASE
    halves = struct.unpack_from("<2000H", riscv.memory, at)
    words = [low | high << 16 for low, high in pairwise(halves)]
    assert any(word & 0x8000707F == 0x7057 for word in words), "vsetvli is in the machine code too"


HALVES = [0.0, -0.0, 1.0, 65504.0, 65519.0, 65520.0, -1e9, 2.0**-24, 2.0**-25, 3 * 2.0**-26, 1e-8, 0.1, 2049.0, 2051.0,
          float("inf"), float("-inf"), float("nan")]


def test_half_precision_without_instructions_for_it(riscv: Any) -> None:
    every = rl.arange(-(1 << 15), 1 << 15, dtype=rl.int32).to(rl.int16).view(rl.float16)
    got, want = every.to("riscv").to(rl.float32).cpu(), every.to(rl.float32)
    is_number = ~want.isnan()
    assert rl.equal(got.isnan(), want.isnan())
    assert rl.equal(got.view(rl.int32)[is_number], want.view(rl.int32)[is_number])
    numbers = rl.cat([rl.tensor(HALVES * 4), want[is_number][::7] * 1.0004883])
    got, want = numbers.to("riscv").to(rl.float16).cpu(), numbers.to(rl.float16)
    is_number = ~want.isnan()
    assert rl.equal(got.view(rl.int16)[is_number], want.view(rl.int16)[is_number]) and got[~is_number].isnan().all()


def test_floats_become_integers_towards_zero(riscv: Any) -> None:
    x = rl.tensor([0.0, -0.0, 0.5, -0.5, 1.5, -2.5, 8388607.5, -2147483648.0, 2147483520.0, 126.9] * 8)
    for dtype in (rl.int8, rl.uint8, rl.int32, rl.int64):
        inside = x.clamp(rl.iinfo(dtype).min, min(rl.iinfo(dtype).max, 2147483520))
        assert rl.equal(inside.to("riscv").to(dtype).cpu(), inside.to(dtype))
    beyond = rl.tensor([float("inf"), float("-inf"), float("nan"), 1e20] * 16, device="riscv")
    assert beyond.to(rl.int32).cpu()[:4].tolist() == [2**31 - 1, -(2**31), 0, 2**31 - 1]    # as AArch64 has it


def net(name: str) -> tuple[Any, Any, Any]:
    if name == "mlp":
        return (rl.nn.Sequential(rl.nn.Linear(12, 40), rl.nn.GELU(), rl.nn.LayerNorm(40), rl.nn.Linear(40, 3)),
                rl.randn(16, 12), rl.randint(3, (16,)))
    if name == "convolutions":
        layers = rl.nn.Conv2d(1, 4, 3), rl.nn.BatchNorm2d(4), rl.nn.ReLU(), rl.nn.MaxPool2d(2), rl.nn.Flatten()
        return rl.nn.Sequential(*layers, rl.nn.Linear(36, 3)), rl.randn(6, 1, 8, 8), rl.randint(3, (6,))
    block = rl.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    layers = rl.nn.Embedding(11, 16), block, rl.nn.Flatten(), rl.nn.Linear(16 * 5, 11)
    return rl.nn.Sequential(*layers), rl.randint(11, (4, 5)), rl.randint(11, (4,))


@pytest.mark.filterwarnings("ignore:.*computed on the host")
@pytest.mark.parametrize("name", ["mlp", "convolutions", "transformer"])
def test_training_follows_the_host(riscv: Any, name: str) -> None:
    losses: dict[str, list[float]] = {}
    for device in ("cpu", "riscv"):
        rl.manual_seed(3)
        model, inputs, targets = net(name)
        model.to(device)
        optimizer = rl.optim.AdamW(model.parameters(), lr=0.01)
        losses[device] = []
        for _ in range(3):
            loss = rl.nn.functional.cross_entropy(model(inputs.to(device)), targets.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[device].append(loss.item())
    assert losses["riscv"] == pytest.approx(losses["cpu"], rel=1e-4)
    assert losses["riscv"][2] < losses["riscv"][0]


# --- the server -------------------------------------------------------------------------------------------------------


def test_a_server_that_is_killed_is_told_of_and_replaced(riscv: Any) -> None:
    x = rl.arange(5.0, device="riscv")
    assert (x * 3).tolist() == [0.0, 3.0, 6.0, 9.0, 12.0]
    first = riscv.server.pid
    os.kill(first, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=r"riscv: the server ended by SIGKILL .*mul"):
        (x * 3).tolist()
    assert (x * 3).tolist() == [0.0, 3.0, 6.0, 9.0, 12.0], "tensors outlive the server"
    assert riscv.server.pid != first


def test_an_illegal_instruction_names_the_kernel(riscv: Any, package: Any) -> None:
    x = rl.arange(5.0, device="riscv")
    x.sinh().tolist()
    place = next(at for at, name in riscv.names.items() if name == "sinh") - package.BASE
    code = riscv.memory[place : place + 4]
    riscv.stop()                     # an emulator keeps what it translated
    riscv.memory[place : place + 4] = bytes(4)
    try:
        later = x.sinh()             # is only queued
        with pytest.raises(RuntimeError, match=r"riscv: the server ended by SIGILL while it ran sinh"):
            later.tolist()
    finally:
        riscv.memory[place : place + 4] = code
    assert x.sinh().tolist() == pytest.approx([0.0, 1.1752012, 3.6268604, 10.0178749, 27.2899172])


def test_an_interrupted_wait_leaves_nothing_behind(riscv: Any) -> None:
    x = rl.zeros(50_000, device="riscv")
    x.cpu()
    riscv.num_replies += 1
    riscv.post("reply", 0, 0, riscv.num_replies, 0)      # asked for, and then not read
    assert x.exp_()[-1].item() == 1.0, "the answer to an earlier question was taken"


def test_events_are_reached_in_order(riscv: Any) -> None:
    x = rl.ones(20_000, device="riscv")
    start, end = (rl.Event(device="riscv", enable_timing=True) for _ in range(2))
    start.record()
    x.exp()
    end.record()
    end.synchronize()
    assert start.query() and end.query() and start.elapsed_time(end) > 0


def test_a_forked_process_is_refused(riscv: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = rl.ones(3, device="riscv")
    monkeypatch.setattr(riscv, "pid", riscv.pid + 1)
    with pytest.raises(RuntimeError, match="forked"):
        x + 1


def test_memory_that_is_freed_joins_its_neighbours(riscv: Any, package: Any) -> None:
    own = package.Riscv()
    own.size = package.TENSORS + 64 * package.PAGE
    places = [own.allocate(3 * package.PAGE - 5, 0) for _ in range(21)]
    assert all(b - a == 3 * package.PAGE for a, b in pairwise(places))
    with pytest.raises(MemoryError, match="riscv: 8192 bytes"):
        own.allocate(8192 if package.PAGE == 4096 else 2 * package.PAGE, 0)
    for place in places[::2] + places[1::2]:
        own.free(place, 3 * package.PAGE - 5, 0)
    assert own.pieces == [(package.TENSORS, 64 * package.PAGE)]
    with pytest.raises(rl.OutOfMemoryError):
        rl.empty(1 << 40, device="riscv")
    assert rl.ones(2, device="riscv").sum().item() == 2.0


def test_names_that_nobody_defines_are_refused(riscv: Any, package: Any) -> None:
    text = f'target triple = "{package.TARGET.triple}"\ndeclare void @sinf()\ndefine void @f() nounwind {{\n' \
           "  call void @sinf()\n  call void @sinf()\n  ret void\n}\n"
    with pytest.raises(RuntimeError, match="nobody defines 'sinf'"):
        package.Object(compile_ir(text, package.TARGET), package.BASE)


def test_without_an_emulator_it_says_so() -> None:
    code = (
        "import rushlight as rl, rushlight_riscv\n"
        "assert not rl.riscv.is_available() and rl.riscv.device_count() == 0\n"
        "try:\n    rl.ones(3, device='riscv')\n"
        "except OSError as error:\n    assert 'qemu-riscv64' in str(error) and 'qemu-user' in str(error)\n"
        "else:\n    raise SystemExit('made')\n"
    )
    path = os.pathsep.join([str(PACKAGE), str(PACKAGE.parents[1])])
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PATH": "", "PYTHONPATH": path},
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
