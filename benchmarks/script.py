"""TorchScript: compiled programs against PyTorch's, and the time compiling takes.

Enters: the session's settings. Leaves: one section with a bar of its own for each program: how many times faster than
PyTorch's executor, in processor time, one thread, in turns. Programs are called often enough before that both libraries
have done what they do to hot code. The last rows compile.
"""

from __future__ import annotations

from benchmarks.cases import Case, Check, Group, Row, Section
from benchmarks.harness import Session
from benchmarks.profiler import settled

SETUP = """
import importlib, warnings
warnings.simplefilter("ignore")
programs = importlib.import_module("benchmarks.script_programs")
functions = programs.functions(torch)
torch.manual_seed(0)

def warm(function, *args):
    for _ in range(200):
        function(*args)
    return function
"""
RESNET = Case("compile resnet50", setup=SETUP + """
model = programs.resnet50(torch).eval()

def sample(clock):
    start = clock()
    torch.jit.script(model)
    return clock() - start
""")
CASES = {
    Case("voice detector, one chunk of 512 samples", "listen(sound)", SETUP + """
detector = torch.jit.script(programs.voice(torch).eval())
sound = torch.randn(1, 512)

def listen(sound):
    with torch.no_grad():
        return detector(sound, 16000)

warm(listen, sound)
"""): 2.0,
    Case("cell of small ops, 50 steps", "cell(x, h)", SETUP + """
x, h = torch.randn(1, 16), torch.randn(1, 16)
cell = warm(torch.jit.script(functions["cell"]), x, h)
"""): 2.0,
    Case("cell with a product, a split and a branch, 50 steps", "cell(x, h, w)", SETUP + """
x, h, w = torch.randn(1, 32), torch.randn(1, 16), torch.randn(16, 32)
cell = warm(torch.jit.script(functions["mixed_cell"]), x, h, w)
"""): 2.0,
    Case("pointwise chain of 60 ops, 16 elements", "chain(x, y)", SETUP + """
x, y = torch.randn(16), torch.randn(16)
chain = warm(torch.jit.script(functions["chain"]), x, y)
"""): 2.0,
    Case("pointwise chain of 60 ops, 4,096 elements", "chain(x, y)", SETUP + """
x, y = torch.randn(4096), torch.randn(4096)
chain = warm(torch.jit.script(functions["chain"]), x, y)
"""): 2.0,
    Case("the same with gradients", "chain(x, y).sum().backward()", SETUP + """
x, y = torch.randn(4096, requires_grad=True), torch.randn(4096)
chain = warm(torch.jit.script(functions["chain"]), x, y)
"""): 2.0,
    Case("frozen MLP of 8 layers", "mlp(x)", SETUP + """
x = torch.randn(1, 64)
mlp = warm(torch.jit.freeze(torch.jit.script(programs.mlp(torch).eval())), x)
"""): 2.0,
    Case("integer loop with a branch, per turn", "count(10000)", SETUP + """
count = warm(torch.jit.script(functions["count"]), 10)
""", per=10000): 1.5,
    Case("while loop over integers, per turn", "collatz(837799)", SETUP + """
collatz = warm(torch.jit.script(functions["collatz"]), 10)
""", per=524): 1.5,
    RESNET: 1.0,
    Case("compile the voice detector", setup=SETUP + """
def sample(clock):
    model = programs.voice(torch).eval()
    start = clock()
    torch.jit.script(model)
    return clock() - start
"""): 1.0,
}


def check(row: Row, bar: float) -> Check:
    ratio = row.ratio()
    shown = "not measured" if ratio is None else f"{ratio:.2f}x"
    return Check(row.case, shown, f"at least {bar:g}x", ratio is not None and ratio >= bar)


def run(session: Session) -> list[Section]:
    bars = {case.name: bar for case, bar in CASES.items()}
    section = settled(session).compare(Group("script", "TorchScript", tuple(CASES)))
    section.checks = [check(row, bars[row.case]) for row in section.rows]
    return [section]
