"""First calls of layers in a fresh process: with an empty kernel cache, with the cache that another process filled, and
of a second shape once the kernels of the first exist. Forward and backward.

    python -m benchmarks first_calls                     every layer
    python -m benchmarks first_calls --only LSTM         those whose names say so

Times are processor time of one thread, the compiler loaded before: on a busy machine the clock says little. The note
of each layer shows forward / backward for both shapes, cold and warm. To add a layer, add an entry to LAYERS.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile

from benchmarks.cases import Check, Section
from benchmarks.harness import Progress, Session
from benchmarks.startup import run_python

COLD_BAR, SHAPE_BAR = 150.0, 10.0      # ms: a first call whose kernels are new; one of which only the sizes are

MEASURE = """
import json, time
import rushlight as torch
from rushlight import nn
from rushlight.codegen import cpu
F = nn.functional
torch.set_num_threads(1)
torch.manual_seed(0)
cpu.machine(cpu.host_target())
import rushlight.codegen.llvm.lower, rushlight.loops.verify
times = []

def timed(call):
    start = time.process_time()
    result = call()
    times.append((time.process_time() - start) * 1e3)
    return result

def given(*sizes, dtype=torch.float32):
    return torch.randn(*sizes, dtype=dtype).requires_grad_()

for setup in {setups!r}:
    names = dict(globals())
    exec(setup, names)
    result = timed(lambda: eval({call!r}, names))
    if isinstance(result, torch.Tensor) and result.requires_grad:
        seed = torch.ones(result.shape, dtype=result.dtype)
        timed(lambda: result.backward(seed))
print(json.dumps(times))
"""


@dataclasses.dataclass(frozen=True)
class Layer:
    """`call` is an expression over what `first` and `second`, statements for two shapes, define."""

    name: str
    call: str
    first: str
    second: str


def module(name: str, *shapes: tuple[str, str], call: str = "m(x)") -> Layer:
    """A module of `nn` and sizes of its input, twice."""
    return Layer(name, call, *(f"m = nn.{made}; x = given({sizes})" for made, sizes in shapes))


def tensors(name: str, call: str, *shapes: dict[str, str]) -> Layer:
    """A function of tensors of given sizes."""
    return Layer(name, call, *("; ".join(f"{k} = given({v})" for k, v in sizes.items()) for sizes in shapes))


def heads(sizes: str) -> dict[str, str]:
    return dict.fromkeys("qkv", sizes)


def recurrent(name: str, kind: str, rest: str = "") -> Layer:
    return module(
        name, (f"{kind}(64, 128{rest})", "20, 16, 64"), (f"{kind}(80, 96{rest})", "30, 12, 80"), call="m(x)[0]"
    )


ATTEND = "F.scaled_dot_product_attention(q, k, v"
STEP = "m = nn.Linear({}); m(torch.randn({})).sum().backward(); o = torch.optim.AdamW(m.parameters())"
COMPLEX = "dtype=torch.complex64"
LAYERS = (
    module("linear, few rows", ("Linear(256, 256)", "4, 256"), ("Linear(256, 256)", "3, 256")),
    module("linear, many rows", ("Linear(256, 256)", "128, 256"), ("Linear(320, 200)", "200, 320")),
    tensors("matmul", "a @ b", {"a": "200, 300", "b": "300, 400"}, {"a": "210, 310", "b": "310, 420"}),
    tensors("matmul, right transposed", "a @ b.t()", {"a": "200, 300", "b": "400, 300"},
            {"a": "210, 310", "b": "420, 310"}),
    tensors("matmul, left transposed", "a.t() @ b", {"a": "300, 200", "b": "300, 400"},
            {"a": "310, 210", "b": "310, 420"}),
    tensors("matmul, batches", "a @ b", {"a": "8, 64, 48", "b": "8, 48, 80"}, {"a": "6, 100, 56", "b": "6, 56, 90"}),
    tensors("matrix and vector", "a @ b", {"a": "400, 300", "b": "300"}, {"a": "410, 310", "b": "310"}),
    tensors("matmul, complex", "a @ b", {"a": f"100, 120, {COMPLEX}", "b": f"120, 140, {COMPLEX}"},
            {"a": f"90, 100, {COMPLEX}", "b": f"100, 150, {COMPLEX}"}),
    module("conv 3x3", ("Conv2d(64, 64, 3, 1, 1)", "4, 64, 28, 28"), ("Conv2d(96, 80, 3, 1, 1)", "2, 96, 20, 20")),
    module("conv 1x1", ("Conv2d(64, 128, 1)", "4, 64, 28, 28"), ("Conv2d(96, 80, 1)", "2, 96, 20, 20")),
    module("conv, strided", ("Conv2d(64, 64, 3, 2, 1)", "4, 64, 28, 28"), ("Conv2d(96, 80, 3, 2, 1)", "2, 96, 20, 20")),
    module("conv, depthwise", ("Conv2d(64, 64, 3, 1, 1, groups=64)", "4, 64, 28, 28"),
           ("Conv2d(96, 96, 3, 1, 1, groups=96)", "2, 96, 20, 20")),
    module("conv, grouped", ("Conv2d(64, 64, 3, 1, 1, groups=4)", "4, 64, 28, 28"),
           ("Conv2d(96, 96, 3, 1, 1, groups=4)", "2, 96, 20, 20")),
    module("conv, transposed", ("ConvTranspose2d(64, 32, 4, 2, 1)", "4, 64, 14, 14"),
           ("ConvTranspose2d(96, 48, 4, 2, 1)", "2, 96, 10, 10")),
    module("conv 1-D", ("Conv1d(64, 64, 5, 1, 2)", "4, 64, 100"), ("Conv1d(96, 80, 5, 1, 2)", "2, 96, 120")),
    module("conv 3-D", ("Conv3d(16, 32, 3, 1, 1)", "2, 16, 8, 16, 16"),
           ("Conv3d(24, 16, 3, 1, 1)", "1, 24, 10, 12, 12")),
    module("batch_norm", ("BatchNorm2d(64)", "4, 64, 28, 28"), ("BatchNorm2d(96)", "2, 96, 20, 20")),
    module("layer_norm", ("LayerNorm(256)", "4, 32, 256"), ("LayerNorm(300)", "3, 20, 300")),
    module("group_norm", ("GroupNorm(8, 64)", "4, 64, 28, 28"), ("GroupNorm(6, 96)", "2, 96, 20, 20")),
    tensors("attention", f"{ATTEND})", heads("2, 8, 128, 64"), heads("3, 4, 200, 64")),
    tensors("attention, causal", f"{ATTEND}, is_causal=True)", heads("2, 8, 128, 64"), heads("3, 4, 200, 64")),
    tensors("attention, masked", f"{ATTEND}, m.detach())", {**heads("2, 8, 128, 64"), "m": "128, 128"},
            {**heads("3, 4, 200, 64"), "m": "200, 200"}),
    tensors("attention, one query", f"{ATTEND})", {**heads("2, 8, 128, 64"), "q": "2, 8, 1, 64"},
            {**heads("2, 8, 200, 64"), "q": "2, 8, 1, 64"}),
    recurrent("LSTM", "LSTM"),
    recurrent("LSTM, two layers", "LSTM", ", 2"),
    recurrent("LSTM, both directions", "LSTM", ", bidirectional=True"),
    recurrent("GRU", "GRU"),
    recurrent("RNN", "RNN"),
    module("MultiheadAttention", ("MultiheadAttention(128, 4, batch_first=True)", "4, 64, 128"),
           ("MultiheadAttention(192, 6, batch_first=True)", "3, 50, 192"), call="m(x, x, x, need_weights=False)[0]"),
    module("TransformerEncoderLayer", ("TransformerEncoderLayer(128, 4, 256, batch_first=True)", "4, 64, 128"),
           ("TransformerEncoderLayer(192, 6, 384, batch_first=True)", "3, 50, 192")),
    Layer("embedding", "m(x)", "m = nn.Embedding(1000, 64); x = torch.randint(0, 1000, (8, 32))",
          "m = nn.Embedding(500, 48); x = torch.randint(0, 500, (6, 20))"),
    Layer("cross_entropy", "F.cross_entropy(x, y)", "x = given(32, 100); y = torch.randint(0, 100, (32,))",
          "x = given(20, 50); y = torch.randint(0, 50, (20,))"),
    tensors("max_pool2d", "F.max_pool2d(x, 2)", {"x": "4, 16, 28, 28"}, {"x": "2, 20, 20, 20"}),
    tensors("avg_pool2d", "F.avg_pool2d(x, 2)", {"x": "4, 16, 28, 28"}, {"x": "2, 20, 20, 20"}),
    tensors("fft of 64, then 128", "torch.fft.fft(x).real", {"x": f"8, 64, {COMPLEX}"}, {"x": f"8, 128, {COMPLEX}"}),
    tensors("fft of 1000, then 1200", "torch.fft.fft(x).real", {"x": f"8, 1000, {COMPLEX}"},
            {"x": f"8, 1200, {COMPLEX}"}),
    tensors("fft of 1024, then 4096", "torch.fft.fft(x).real", {"x": f"8, 1024, {COMPLEX}"},
            {"x": f"8, 4096, {COMPLEX}"}),
    tensors("sort", "x.sort()[0]", {"x": "32, 100"}, {"x": "20, 150"}),
    tensors("topk", "x.topk(5)[0]", {"x": "32, 100"}, {"x": "20, 150"}),
    Layer("AdamW, a step", "o.step()", STEP.format("64, 32", "8, 64"), STEP.format("48, 20", "8, 48")),
)


def first_calls(layer: Layer, rounds: int) -> tuple[list[float], list[float]]:
    """Least ms over `rounds` processes of every timed call, cold and warm."""
    code = MEASURE.format(setups=[layer.first, layer.second], call=layer.call)
    runs: tuple[list, list] = ([], [])
    with tempfile.TemporaryDirectory() as folder:     # a source tree keeps its bytecode from here on
        run_python(code, RUSHLIGHT_CACHE=folder)
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            for found in runs:
                found.append(json.loads(run_python(code, RUSHLIGHT_CACHE=folder)))
    cold, warm = ([min(times) for times in zip(*found, strict=True)] for found in runs)
    return cold, warm


def run(session: Session) -> list[Section]:
    chosen = [layer for layer in LAYERS if session.only in layer.name]
    checks, notes = [], []
    progress = Progress(len(chosen))
    for layer in chosen:
        progress.step(layer.name)
        try:
            cold, warm = first_calls(layer, max(1, session.rounds // 4))
        except RuntimeError as error:
            checks.append(Check(layer.name, f"failed: {error}", "", False))
            continue
        half = len(cold) // 2
        shown = [" / ".join(f"{t:.1f}" for t in part) for part in (cold[:half], cold[half:], warm[:half], warm[half:])]
        checks.append(Check(f"{layer.name}, new", f"{shown[0]} ms", f"at most {COLD_BAR:.0f} each",
                            max(cold[:half]) <= COLD_BAR))
        checks.append(Check(f"{layer.name}, another shape", f"{shown[1]} ms", f"at most {SHAPE_BAR:.0f} each",
                            max(cold[half:]) <= SHAPE_BAR))
        notes.append(f"{layer.name}: from disk {shown[2]} ms, another shape {shown[3]} ms")
    progress.close()
    return [Section("First calls of layers, processor time", checks=checks, notes=notes)]
