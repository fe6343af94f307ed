"""Layers as models have them: forward, gradient of the input, gradient of the weight, float32. Attention and LSTM give
all their gradients at once.

    python -m benchmarks layers --threads 1                     batches of 1 and 8
    python -m benchmarks layers --batches 32 --only ResNet-50   another batch, one model

Besides the ratio to PyTorch each line shows the share of the floor: the time that the machine needs at least, flops
over the rate of a generated loop of multiply-adds or bytes over the rate of reading memory, whichever is longer, both
measured in the same run. To add a layer, add an entry to LAYERS; `convolution`, `linear`, `attention` and `lstm`
know flops, bytes and what the passes are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from benchmarks.cases import Case, Group, Section
from benchmarks.harness import Session, Worker

PASSES = ("forward", "input gradient", "weight gradient")
# Per pass: what it differentiates by, and its flops over those of the forward pass.
GRADIENTS = (("input gradient", "x,", 1.0), ("weight gradient", "w,", 1.0))
SIZE = 4             # bytes of an element
FLOOR_FROM = 50e6    # flops from which a layer should come near the floor


@dataclasses.dataclass(frozen=True)
class Layer:
    """One layer at one batch: `make` defines call() and its tensors, in terms of `torch`; flops and bytes are those of
    the forward pass."""

    name: str
    make: str
    flops: float
    bytes: float
    gradients: tuple[tuple[str, str, float], ...] = GRADIENTS

    def passes(self) -> Iterator[tuple[Case, float]]:
        """The case of every pass, and its flops."""
        setup = "torch.manual_seed(0)\nF = torch.nn.functional\n" + self.make
        yield Case(f"{self.name} {PASSES[0]}", "call()", setup), self.flops
        for name, which, times in self.gradients:
            more = f"\nby = ({which})\nfor t in by: t.requires_grad_()\ny = call()\ng = torch.randn(*y.shape)"
            code = "torch.autograd.grad(y, by, g, retain_graph=True)"
            yield Case(f"{self.name} {name}", code, setup + more), times * self.flops


def convolution(
    model: str,
    channels: int,
    outs: int,
    size: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    transposed: bool = False,
    padding: int | None = None,
):
    """A layer of `model` by batch: square images and kernels,
    padding that keeps the size (none for transposed ones) unless it is given."""
    padding = 0 if transposed else kernel // 2 if padding is None else padding
    result = size * stride if transposed else (size + 2 * padding - kernel) // stride + 1
    taps = channels * outs // groups * kernel * kernel
    shape = (channels, outs // groups, kernel, kernel) if transposed else (outs, channels // groups, kernel, kernel)
    call = (
        f"F.conv_transpose2d(x, w, None, {stride})"
        if transposed
        else f"F.conv2d(x, w, None, {stride}, {padding}, 1, {groups})"
    )
    kind = "depthwise " if groups == channels and groups > 1 else "transposed " if transposed else ""
    name = f"{model} {kind}{channels}->{outs} {size}x{size} k{kernel}{f' s{stride}' if stride > 1 else ''}"

    def at(batch: int) -> Layer:
        pixels = batch * (size if transposed else result) ** 2
        memory = SIZE * (batch * (channels * size * size + outs * result * result) + taps)
        make = f"x = torch.randn({batch}, {channels}, {size}, {size})\nw = torch.randn{shape}\ncall = lambda: {call}"
        return Layer(f"{name} b{batch}", make, 2.0 * pixels * taps, memory)

    return at


def linear(model: str, rows: int, ins: int, outs: int):
    """A product of `rows` rows per example with a weight [outs, ins]."""

    def at(batch: int) -> Layer:
        count = batch * rows
        make = f"x = torch.randn({count}, {ins})\nw = torch.randn({outs}, {ins})\ncall = lambda: F.linear(x, w)"
        memory = SIZE * (count * (ins + outs) + ins * outs)
        return Layer(f"{model} linear {rows}x{ins}->{outs} b{batch}", make, 2.0 * count * ins * outs, memory)

    return at


def attention(model: str, heads: int, length: int, size: int = 64, causal: bool = False):
    """Every position with every other, or with those before it: half the products."""

    def at(batch: int) -> Layer:
        shape = f"{batch}, {heads}, {length}, {size}"
        make = f"q, k, v = (torch.randn({shape}) for _ in range(3))\n"
        make += f"call = lambda: F.scaled_dot_product_attention(q, k, v, is_causal={causal})"
        flops = 4.0 * batch * heads * length * (length + 1 if causal else 2 * length) / 2 * size
        name = f"{model} attention {heads}x{length}x{size} b{batch}"
        memory = SIZE * 4 * batch * heads * length * size
        return Layer(name, make, flops, memory, (("gradients", "q, k, v", 2.5),))    # five products for two

    return at


def lstm(model: str, steps: int, width: int):
    """One layer of LSTM, as wide inside as outside."""

    def at(batch: int) -> Layer:
        make = f"layer = torch.nn.LSTM({width}, {width}).requires_grad_(False)\n"
        make += f"x = torch.randn({steps}, {batch}, {width})\ncall = lambda: layer(x)[0]"
        weights = 8 * width * width
        memory = SIZE * (weights + 2 * steps * batch * width)
        name = f"{model} layer {steps}x{width} b{batch}"
        gradients = (("gradients", "x, *layer.parameters()", 2.0),)
        return Layer(name, make, 2.0 * steps * batch * weights, memory, gradients)

    return at


def resnet18() -> list:
    result = [convolution("ResNet-18", 3, 64, 224, 7, 2), convolution("ResNet-18", 64, 64, 56, 3)]
    for channels, size in ((64, 56), (128, 28), (256, 14)):
        result += [convolution("ResNet-18", channels, 2 * channels, size, kernel, 2) for kernel in (3, 1)]
        result.append(convolution("ResNet-18", 2 * channels, 2 * channels, size // 2, 3))
    return result


def resnet50() -> list:
    result = [convolution("ResNet-50", 64, 64, 56, 1)]
    for narrow, size in ((64, 56), (128, 28), (256, 14), (512, 7)):
        wide = 4 * narrow
        result += [convolution("ResNet-50", *pair, size, 1) for pair in ((narrow, wide), (wide, narrow))]
        if size > 7:
            result.append(convolution("ResNet-50", wide, 2 * narrow, size, 1))
            result.append(convolution("ResNet-50", 2 * narrow, 2 * narrow, size, 3, 2))
            result.append(convolution("ResNet-50", wide, 2 * wide, size, 1, 2))
    return result


def mobilenet() -> list:
    result = [convolution("MobileNetV3", 3, 16, 224, 3, 2)]
    for inside, channels, size, kernel, stride, outs in (
        (16, 16, 112, 3, 1, 16), (16, 64, 112, 3, 2, 24), (24, 72, 56, 3, 1, 24), (24, 72, 56, 5, 2, 40),
        (40, 120, 28, 5, 1, 40), (40, 240, 28, 3, 2, 80), (80, 200, 14, 3, 1, 80), (80, 480, 14, 3, 1, 112),
        (112, 672, 14, 5, 2, 160), (160, 960, 7, 5, 1, 160),
    ):
        if inside != channels:
            result.append(convolution("MobileNetV3", inside, channels, size, 1))
        result.append(convolution("MobileNetV3", channels, channels, size, kernel, stride, channels))
        result.append(convolution("MobileNetV3", channels, outs, size // stride, 1))
    return result


def unet() -> list:
    result = [
        convolution("U-Net", 3, 64, 256, 3),
        convolution("U-Net", 64, 64, 256, 3),
        convolution("U-Net", 64, 2, 256, 1),
    ]
    for channels, size in ((64, 128), (128, 64), (256, 32), (512, 16)):
        result += [
            convolution("U-Net", channels, 2 * channels, size, 3),
            convolution("U-Net", 2 * channels, 2 * channels, size, 3),
        ]
        result.append(convolution("U-Net", 2 * channels, channels, size, 2, 2, transposed=True))
        result.append(convolution("U-Net", 2 * channels, channels, 2 * size, 3))
    return result


def transformers() -> list:
    """BERT-mini, the character GPT, ViT-tiny and the LSTM language model as networks.py has them."""
    result = [convolution("ViT", 3, 192, 224, 16, 16, padding=0)]
    for model, length, width, heads in (("BERT", 128, 256, 4), ("GPT", 256, 384, 6), ("ViT", 197, 192, 3)):
        for ins, outs in ((1, 3), (1, 1), (1, 4), (4, 1)):
            result.append(linear(model, length, ins * width, outs * width))
        result.append(attention(model, heads, length, causal=model == "GPT"))
    return [*result, linear("GPT", 256, 384, 65), lstm("LSTM", 35, 256), linear("LSTM", 35, 256, 1000)]


# Each once: what ResNet-50 shares with ResNet-18 is listed there.
LAYERS = list(
    {at(1).name: at for at in (*resnet18(), *resnet50(), *mobilenet(), *unet(), *transformers())}.values()
)


# --- the floor --------------------------------------------------------------------------------------------------------

PEAK = """
import ctypes, threading
from rushlight.codegen.stored.cache import load_code
from rushlight.codegen.llvm.cpu import compile_ir, host_target
from rushlight.codegen.text.writer import Reg, Writer, declarations
target = host_target()
lanes, sums = max(128, target.vector_bits) // 32, 24 if target.registers >= 32 else 12
vector = f"<{lanes} x float>"
w = Writer("peak", [("i64", "turns"), ("ptr", "out")])
factor = w.load(vector, w["out"], 4)
with w.loop(0, w["turns"], carry=[factor] * sums) as k:
    k.next = [w.fma(factor, factor, s) for s in k.carry]
for value in k.carry:
    w.store(value, w["out"], 4)
text = f'target triple = "{target.triple}"' + chr(10) + w.text() + chr(10) + declarations(lanes, "float")
spin = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(load_code(compile_ir(text, target, "object"))["peak"])
places = [ctypes.create_string_buffer(4 * lanes) for _ in range(THREADS)]
TURNS = FLOPS // (THREADS * sums * lanes * 2)
def sample(clock):
    threads = [threading.Thread(target=spin, args=(TURNS, ctypes.addressof(place))) for place in places]
    start = clock()
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return clock() - start
"""

BANDWIDTH = """
x, y = torch.ones(BYTES // 8), torch.ones(BYTES // 8)
def sample(clock):
    start = clock()
    x.sum(), y.sum()
    middle = clock()
    y.copy_(x)
    return min(middle - start, clock() - middle)
"""
FLOPS, BYTES = 4_000_000_000, 1 << 28   # of one sample


@dataclasses.dataclass(frozen=True)
class Floor:
    """Seconds per flop and per byte, the best of a few samples on all threads."""

    flop: float
    byte: float

    def seconds(self, flops: float, bytes: float) -> float:
        return max(flops * self.flop, bytes * self.byte)


def measure_floor(threads: int, patience: float = 120.0, clock: str = "wall") -> Floor:
    """What this machine can do at most, measured by a process of its own."""
    worker = Worker("rushlight", threads, patience, clock)
    try:
        best = []
        for name, setup, per in (("peak", PEAK, FLOPS), ("bandwidth", BANDWIDTH, BYTES)):
            for word, number in (("THREADS", threads), ("FLOPS", FLOPS), ("BYTES", BYTES)):
                setup = setup.replace(word, str(number))
            answers = [worker.ask(Case(name, setup=setup, per=per), 0.02) for _ in range(5)]
            failed = [answer["error"] for answer in answers if "error" in answer]
            if failed:
                raise RuntimeError(f"layers: the floor could not be measured: {failed[0]}")
            best.append(min(answer["seconds"] for answer in answers))
        return Floor(*best)
    finally:
        worker.close()


def run(session: Session) -> Iterator[Section]:
    """A section per model, as soon as it is measured; rows carry their floor."""
    session = dataclasses.replace(session, rounds=min(session.rounds, 3), processes=1)
    floor = measure_floor(session.threads, clock=session.clock)
    models: dict[str, list[Layer]] = {}
    for at in LAYERS:
        for batch in session.batches:
            layer = at(batch)
            models.setdefault(layer.name.split()[0], []).append(layer)
    for model, layers in models.items():
        costs = {case: (flops, layer.bytes) for layer in layers for case, flops in layer.passes()}
        if not any(session.only in case.name for case in costs):
            continue
        section = session.compare(Group("layers", f"Layers of {model}", tuple(costs), worst_bar=1.0))
        by_name = {case.name: cost for case, cost in costs.items()}
        for row in section.rows:
            row.floor = floor.seconds(*by_name[row.case])
        large = {name for name, (flops, _) in by_name.items() if flops >= FLOOR_FROM}
        section.notes += summary(section, large, floor)
        yield section


def summary(section: Section, large: set[str], floor: Floor) -> list[str]:
    """The rates that the floor is made of, and how near large layers come."""
    shares = [share for row in section.rows if row.case in large and (share := row.share()) is not None]
    notes = [f"floor: {1e-9 / floor.flop:.0f} GFLOP/s, {1e-9 / floor.byte:.1f} GB/s"]
    if shares:
        near = sum(share >= 0.8 for share in shares)
        notes.append(
            f"{near} of {len(shares)} cases above {FLOOR_FROM / 1e6:.0f} MFLOP reach 80% of the floor; the lowest"
            f" {min(shares):.0%}"
        )
    return notes
