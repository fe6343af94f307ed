"""Compiled models: steady state against torch.compile and against our own eager mode,
how near pointwise chains, rows and optimizer steps come to memory's rate, and how long compiling takes.

Enters: the session's settings. Leaves: five sections. Both libraries run the same source through `torch.compile(model,
fullgraph=True)`; PyTorch needs a C++ compiler for that. A training step is zero_grad, forward, loss and backward. Cold
first calls run in fresh processes with empty caches, warm ones with the caches that the cold ones left; what a step
takes is left out. A floor is the longer of two times, both measured in the same run with the same threads: in which
`add(a, b, out=c)` moves the bytes of inputs and results, each once; and in which a product of matrices does as many
multiply-adds as the computation has instructions at least, however it is written.
"""

from __future__ import annotations

import math
import tempfile

from benchmarks.cases import LIBRARIES, Case, Check, Group, Section
from benchmarks.harness import Session
from benchmarks.models import CLASSIFY, TOKENS
from benchmarks.startup import run_python

SETUP = """
from benchmarks import networks
F = torch.nn.functional
torch.manual_seed(0)
if torch.__name__ == "torch" and {is_compiled}:
    torch._dynamo.config.allow_rnn = True     # PyTorch refuses recurrent layers unless told
network = networks.{network}(torch)
{data}
model = torch.compile(network, fullgraph=True) if {is_compiled} else network
"""
TRAIN = """
def step():
    network.zero_grad()
    output = model(x)
    loss = {loss}
    loss.backward()
step()
"""
INFER = """
network.eval()
def step():
    with torch.no_grad():
        model(x)
step()
"""
IMAGES = "x, y = torch.randn({count}, 3, {side}, {side}), torch.randint(0, 10, ({count},))"
NETWORKS = {
    "MLP": ("mlp", "x, y = torch.randn(8, 16), torch.randn(8, 1)", "F.mse_loss(output, y)"),
    "ResNet-18": ("resnet18", IMAGES.format(count=8, side=32), "F.cross_entropy(output, y)"),
    "GPT": ("gpt", TOKENS.format(vocabulary=65, shape=(4, 256)), CLASSIFY),
    "BERT-mini": (
        "bert",
        TOKENS.format(vocabulary=1000, shape=(4, 64)),
        "output[0].square().mean() + output[1].mean()",
    ),
    "ViT-tiny": ("vit", IMAGES.format(count=2, side=224), "F.cross_entropy(output, y)"),
    "LSTM": ("lstm_language_model", TOKENS.format(vocabulary=1000, shape=(35, 20)), CLASSIFY),
    "U-Net": (
        "unet",
        "x, y = torch.randn(2, 3, 64, 64), torch.randint(0, 2, (2, 64, 64))",
        "F.cross_entropy(output, y)",
    ),
}
# inference of few examples: what weights that are packed once gain
SERVED = {
    "ResNet-18, 1 of 224x224": ("resnet18", IMAGES.format(count=1, side=224), "1000, True"),
    "MobileNetV3, 1 of 224x224": ("mobilenet", IMAGES.format(count=1, side=224), ""),
    "MobileNetV3, 8 of 224x224": ("mobilenet", IMAGES.format(count=8, side=224), ""),
    "U-Net, 1 of 64x64": ("unet", IMAGES.format(count=1, side=64), ""),
    "ViT-tiny, 1 of 224x224": ("vit", IMAGES.format(count=1, side=224), ""),
    "BERT-mini, 1 of 16": ("bert", "x = torch.randint(0, 1000, (1, 16))", "vocabulary=1000"),
    "GPT, 1 of 32": ("gpt", "x = torch.randint(0, 65, (1, 32))", ""),
    "LSTM, 35 of 1": ("lstm_language_model", "x = torch.randint(0, 1000, (35, 1))", ""),
    "MLP, 1": ("mlp", "x = torch.randn(1, 16)", ""),
}
SERVE = """
from benchmarks import networks
torch.manual_seed(0)
network = networks.{network}(torch{arguments}).eval()
{data}
def runs(model):
    def step():
        with torch.no_grad():
            model(x)
    step()
    return step
steps = [runs(network), runs(torch.compile(network)), runs(torch.compile(network, options={{"freezing": True}}))]
"""
COLD_PATIENCE = 900.0    # seconds that a first call may take: torch.compile's run a C++ compiler
FIRST = """
import importlib, os, time
torch = importlib.import_module({library!r})
torch.set_num_threads({threads})
def megabytes(field):
    with open("/proc/self/status") as handle:
        return next(int(line.split()[1]) for line in handle if line.startswith(field)) / 1024
before = megabytes("VmRSS")
clock = {clock}
start = clock()
{setup}
first = clock() - start
start = clock()
step()
second = clock() - start
with open("/proc/self/clear_refs", "w") as handle:
    handle.write("5")      # the high-water mark begins anew: what compiling took does not count
step(), step()
print(first - second, megabytes("VmHWM") - before)
"""
# of processor time, that of the compilers that were called counts too
FIRST_CLOCKS = {"wall": "time.perf_counter", "cpu": "lambda: sum(os.times()[:4])"}


def setup(name: str, what: str, is_compiled: bool = True) -> str:
    """The code that makes `step()` of a case."""
    network, data, loss = NETWORKS[name]
    text = SETUP.format(network=network, data=data, is_compiled=is_compiled)
    return text + (TRAIN.format(loss=loss) if what == "step" else INFER)


def chosen(session: Session) -> list[tuple[str, str]]:
    return [
        (name, what)
        for name in NETWORKS
        for what in ("step", "inference")
        if not session.only or session.only in f"{name} {what}"
    ]


def steady(session: Session) -> Section:
    """Compiled against compiled."""
    cases = tuple([Case(f"{name} {what}", "step()", setup(name, what)) for name, what in chosen(session)])
    session.patience = max(session.patience, COLD_PATIENCE)
    return session.compare(
        Group("compiled", "Compiled models against torch.compile", cases, mean_bar=2.0, worst_bar=1.2)
    )


def against_eager(session: Session) -> Section:
    """What compiling gains over our own eager mode: the medians of one run of each, in one process."""
    checks, gains = [], {"step": [], "inference": []}
    for name, what in chosen(session):
        code = f"import rushlight as torch\ntorch.set_num_threads({session.threads})\nimport time\nsteps = []\n"
        for is_compiled in (False, True):
            code += (
                f"scope = {{'torch': torch}}\nexec({setup(name, what, is_compiled)!r},"
                " scope)\nsteps.append(scope['step'])\n"
            )
        code += INTERLEAVED.replace("CLOCK", CLOCKS[session.clock])
        ratio = float(run_python(code, OMP_NUM_THREADS=str(session.threads)))
        gains[what].append(ratio)
        checks.append(Check(f"{name} {what} over eager", f"{ratio:.2f}x", "", None))
    for what, bar in (("step", 1.2), ("inference", 1.4)):
        if gains[what]:
            mean = math.exp(sum(map(math.log, gains[what])) / len(gains[what]))
            checks.append(Check(f"geometric mean, {what}", f"{mean:.2f}x", f"at least {bar:g}x", mean >= bar))
    return Section("Compiled against our own eager mode", checks=checks)


def served(session: Session) -> Section:
    """The same for inference of few examples, as it is and with `freezing`."""
    checks, gains = [], [[], []]
    for name, (network, data, arguments) in SERVED.items():
        if session.only and session.only not in name:
            continue
        code = f"import rushlight as torch\ntorch.set_num_threads({session.threads})\nimport time\n"
        code += SERVE.format(network=network, data=data, arguments=arguments and f", {arguments}")
        code += INTERLEAVED.replace("CLOCK", CLOCKS[session.clock])
        ratios = [float(word) for word in run_python(code, OMP_NUM_THREADS=str(session.threads)).split()]
        for found, ratio in zip(gains, ratios, strict=True):
            found.append(ratio)
        checks.append(Check(f"{name} over eager", f"{ratios[0]:.2f}x, frozen {ratios[1]:.2f}x", "", None))
    for what, found in zip(("as it is", "frozen"), gains, strict=True):
        if found:
            mean = math.exp(sum(map(math.log, found)) / len(found))
            checks.append(Check(f"geometric mean, {what}", f"{mean:.2f}x", "at least 1.4x", mean >= 1.4))
    return Section("Compiled inference of few examples against our own eager mode", checks=checks)


CLOCKS = {"wall": "perf_counter", "cpu": "process_time"}
INTERLEAVED = """
from time import CLOCK as clock
times = [[] for _ in steps]
begun = time.perf_counter()
while len(times[0]) < 5 or (time.perf_counter() - begun < 3 and len(times[0]) < 300):
    for k, run in enumerate(steps):
        start = clock(); run(); times[k].append(clock() - start)
first, *others = [sorted(t)[len(t) // 2] for t in times]
print(*[first / t for t in others])
"""


def first_call(session: Session, library: str, code: str, folder: str) -> tuple[float, float] | str:
    """Seconds that the first step takes more than the second, and MiB that later ones hold at their peak; why there
    are none."""
    threads = str(session.threads)
    try:
        # compilers called by other processes would not be counted: PyTorch is to call them itself
        told = run_python(code, RUSHLIGHT_CACHE=folder, RUSHLIGHT_GRAPH_CACHE="1", TORCHINDUCTOR_CACHE_DIR=folder,
                          TORCHINDUCTOR_COMPILE_THREADS=threads, OMP_NUM_THREADS=threads).split()
        return float(told[0]), float(told[1])
    except RuntimeError as error:
        return f"{library} failed: {error}"


def first_calls(session: Session) -> Section:
    """Seconds that making the model and compiling its training step take, cold and warm; and what steps of the warm
    process hold at their peak, beyond what the imported library takes."""
    checks = []
    for name, what in chosen(session):
        if what != "step":
            continue
        taken: dict[tuple[str, str], tuple[float, float] | str] = {}
        for library in LIBRARIES:
            with tempfile.TemporaryDirectory() as folder:
                code = FIRST.format(library=library, threads=session.threads, setup=setup(name, what),
                                    clock=FIRST_CLOCKS[session.clock])
                for state in ("cold", "warm"):
                    taken[library, state] = first_call(session, library, code, folder)
        for state, most in (("cold", 3.0), ("warm", 0.3)):
            ours, theirs = taken["rushlight", state], taken["torch", state]
            bar = f"under {most:g} s" + (", 15x sooner" if state == "cold" else "")
            if isinstance(ours, str) or isinstance(theirs, str):
                checks.append(Check(f"{name}, compiling, {state}", f"{ours}; {theirs}", bar, None))
                continue
            (seconds, held), (their_seconds, their_held) = ours, theirs
            met = seconds <= most and (state == "warm" or their_seconds >= 15 * seconds)
            shown = f"{seconds:.2f} s, torch {their_seconds:.2f} s ({their_seconds / seconds:.0f}x)"
            checks.append(Check(f"{name}, compiling, {state}", shown, bar, met))
            if state == "warm":
                shown = f"{held:.0f} MiB, torch {their_held:.0f} MiB"
                checks.append(Check(f"{name}, memory of steps", shown, "no more than torch's", held <= their_held))
    return Section("Compiling a training step", checks=checks)


# --- memory's rate ----------------------------------------------------------------------------------------------------

# exp: limit, multiply-add, subtract, multiply-add; 6 of a polynomial; shift, multiply. A word of the twister: 6 to make
# it, 10 to temper it; a coin takes two words, one of them tempered, a comparison of 4 and a choice.
EXP, COIN = 12, 2 * 6 + 10 + 5
# name: what makes step(), the elements of 4 bytes that it reads and writes, and instructions for elements of 4 bytes
FLOORS: dict[str, tuple[str, int, int]] = {
    "chain of 8 ops, 16M": (
        "x, y = torch.randn(1 << 24), torch.randn(1 << 24)\n"
        "f = torch.compile(lambda x, y: ((x * y + 1).abs() - y).relu() * 0.5 + x - y)\n"
        "step = lambda: f(x, y)", 3 << 24, 8 << 24),
    "softmax, dropout, add, 4096x4096": (
        "x, y = torch.randn(4096, 4096), torch.randn(4096, 4096)\n"
        "f = torch.compile(lambda x, y: F.dropout(x.softmax(-1), 0.1) + y)\n"
        "step = lambda: f(x, y)", 3 << 24, (6 + EXP + COIN) << 24),
    "layer_norm of a sum, 16384x1024": (
        "x, y = torch.randn(16384, 1024), torch.randn(16384, 1024)\n"
        "w, b = torch.randn(1024), torch.randn(1024)\n"
        "f = torch.compile(lambda x, y: F.layer_norm(x + y, (1024,), w, b))\n"
        "step = lambda: f(x, y)", 3 << 24, 7 << 24),
    "cross entropy and its gradient, 2048x32000": (
        "x, y = torch.randn(2048, 32000, requires_grad=True), torch.randint(0, 32000, (2048,))\n"
        "f = torch.compile(F.cross_entropy)\n"
        "def step():\n    x.grad = None\n    f(x, y).backward()", 3 * 2048 * 32000,
        (5 + 2 * EXP) * 2048 * 32000),
    "AdamW, 25M in 200 tensors": (
        "tensors = [torch.randn(125000, requires_grad=True) for _ in range(200)]\n"
        "for t in tensors:\n    t.grad = torch.randn(125000)\n"
        "optimizer = torch.optim.AdamW(tensors)\noptimizer.step()\n"
        "step = torch.compile(optimizer.step)", 7 * 25_000_000, 10 * 25_000_000),
}
FLOOR = """
import time
from time import CLOCK as clock
F = torch.nn.functional
{setup}
left, right, total = torch.ones({third}), torch.ones({third}), torch.ones({third})
square, product = torch.ones(512, 512), torch.ones(512, 512)
runs = (lambda: torch.add(left, right, out=total), lambda: torch.mm(square, square, out=product), step)
times = [[] for _ in runs]
for turn in range(9):
    for k, run in enumerate(runs):
        start = clock(); run(); times[k].append(clock() - start)
moving, multiplying, taken = (sorted(t[2:])[3] for t in times)
print(moving, multiplying / 512**3 * {instructions}, taken)
"""


def floors(session: Session) -> Section:
    """Compiled code against what memory and arithmetic take at least."""
    checks = []
    for name, (code, elements, instructions) in FLOORS.items():
        if session.only and session.only not in name:
            continue
        text = f"import rushlight as torch\ntorch.set_num_threads({session.threads})\n"
        text += FLOOR.replace("CLOCK", CLOCKS[session.clock]).format(
            setup=code, third=elements // 3, instructions=instructions
        )
        memory, arithmetic, taken = map(float, run_python(text, OMP_NUM_THREADS=str(session.threads)).split())
        ratio = taken / max(memory, arithmetic)
        shown = f"{ratio:.2f} of the floor, {taken * 1e3:.1f} ms (memory {memory * 1e3:.1f}, arithmetic"
        checks.append(Check(name, f"{shown} {arithmetic * 1e3:.1f})", "at most 1.3", ratio <= 1.3))
    return Section("Compiled code against the machine's rates", checks=checks)


def run(session: Session) -> list[Section]:
    return [steady(session), against_eager(session), served(session), floors(session), first_calls(session)]
