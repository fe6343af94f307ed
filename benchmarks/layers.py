"""Layers as models have them: forward, gradient of the input, gradient of the weight, float32.

    python -m benchmarks layers --threads 1                     batches of 1 and 8
    python -m benchmarks layers --batches 32 --only ResNet-50   another batch, one model

Besides the ratio to PyTorch each line shows the share of the floor: the time that the machine needs at least, flops
over the rate of a generated loop of multiply-adds or bytes over the rate of reading memory, whichever is longer, both
measured in the same run. To add a layer, add an entry to LAYERS; `convolution` and `linear` know flops,
bytes and what the three passes are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from benchmarks.cases import Case, Group, Section
from benchmarks.harness import Session, Worker

PASSES = ("forward", "input gradient", "weight gradient")
SIZE = 4             # bytes of an element
FLOOR_FROM = 50e6    # flops from which a layer should come near the floor


@dataclasses.dataclass(frozen=True)
class Layer:
    """One layer at one batch: `make` defines x, w and call(), in terms of `torch`;
    flops and bytes hold for each pass."""

    name: str
    make: str
    flops: float
    bytes: float

    def cases(self) -> Iterator[Case]:
        setup = "torch.manual_seed(0)\nF = torch.nn.functional\n" + self.make
        yield Case(f"{self.name} {PASSES[0]}", "call()", setup)
        for name, which in zip(PASSES[1:], ("x", "w"), strict=True):
            more = f"\n{which}.requires_grad_()\ny = call()\ng = torch.randn(*y.shape)"
            yield Case(f"{self.name} {name}", f"torch.autograd.grad(y, {which}, g, retain_graph=True)", setup + more)


def convolution(
    model: str,
    channels: int,
    outs: int,
    size: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    transposed: bool = False,
):
    """A layer of `model` by batch: square images and kernels,
    padding that keeps the size (none for transposed ones)."""
    padding = 0 if transposed else kernel // 2
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
    ):  # fmt: skip
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


# Each once: what ResNet-50 shares with ResNet-18 is listed there.
LAYERS = list({at(1).name: at for at in (*resnet18(), *resnet50(), *mobilenet(), *unet())}.values())


# --- the floor --------------------------------------------------------------------------------------------------------

PEAK = """
import ctypes, threading
from rushlight.codegen.cache import load_code
from rushlight.codegen.cpu import compile_ir, host_target
from rushlight.codegen.writer import Reg, Writer, declarations
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

    def seconds(self, layer: Layer) -> float:
        return max(layer.flops * self.flop, layer.bytes * self.byte)


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


def run(session: Session) -> list[Section]:
    """A section per model; rows carry their floor."""
    session = dataclasses.replace(session, rounds=min(session.rounds, 3), processes=1)
    floor = measure_floor(session.threads, clock=session.clock)
    sections: dict[str, tuple[list[Case], dict[str, Layer]]] = {}
    for at in LAYERS:
        for batch in session.batches:
            layer = at(batch)
            cases, layers = sections.setdefault(layer.name.split()[0], ([], {}))
            cases += layer.cases()
            layers.update((case.name, layer) for case in layer.cases())
    result = []
    for model, (cases, layers) in sections.items():
        if not any(session.only in case.name for case in cases):
            continue
        section = session.compare(Group("layers", f"Layers of {model}", tuple(cases), worst_bar=1.0))
        for row in section.rows:
            row.floor = floor.seconds(layers[row.case])
        section.notes += summary(section, layers, floor)
        result.append(section)
    return result


def summary(section: Section, layers: dict[str, Layer], floor: Floor) -> list[str]:
    """The rates that the floor is made of, and how near large layers come."""
    shares = [
        share for row in section.rows if layers[row.case].flops >= FLOOR_FROM and (share := row.share()) is not None
    ]
    notes = [f"floor: {1e-9 / floor.flop:.0f} GFLOP/s, {1e-9 / floor.byte:.1f} GB/s"]
    if shares:
        near = sum(share >= 0.8 for share in shares)
        notes.append(
            f"{near} of {len(shares)} cases above {FLOOR_FROM / 1e6:.0f} MFLOP reach 80% of the floor; the lowest"
            f" {min(shares):.0%}"
        )
    return notes
