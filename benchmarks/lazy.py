"""The lazy device and XLA: recording, cached steps and new graphs, against PyTorch's lazy device, our own eager mode,
and plain jaxlib.

Enters: the session's settings. Leaves: a section whose checks are the bars. Everything is processor time on one thread,
both sides in turns. What op records give on these devices is counted by `python -m tests.lazy.records`.
"""

from __future__ import annotations

import statistics

from benchmarks.cases import Case, Check, Group, Row, Section
from benchmarks.harness import Session
from benchmarks.profiler import at_most, settled

SETUP = """
import importlib, time
lazy = importlib.import_module(torch.__name__ + "._lazy")
if not hasattr(lazy, "begun"):      # PyTorch's registers itself anew at each call, and fails
    importlib.import_module(torch.__name__ + "._lazy.ts_backend").init()
    lazy.begun = True
nn, F = torch.nn, torch.nn.functional
torch.manual_seed(0)

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.joined = [nn.Linear(width, width) for _ in range(4)]
        self.network = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.register_buffer("hidden", torch.ones(32, 32).triu(1) > 0)

    def forward(self, x):
        batch, length, width = x.shape
        y = self.before(x)
        q, k, v = [f(y).view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                   for f in (self.q, self.k, self.v)]
        scores = (q @ k.transpose(-2, -1)) * (width // self.heads) ** -0.5
        seen = scores.masked_fill(self.hidden, float("-inf")).softmax(-1) @ v
        x = x + self.joined(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.network(self.between(x))

class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.letter, self.place = nn.Embedding(65, 64), nn.Parameter(torch.zeros(32, 64))
        self.blocks = nn.Sequential(Block(64, 4), Block(64, 4))
        self.last, self.scores = nn.LayerNorm(64), nn.Linear(64, 65)

    def forward(self, x):
        return self.scores(self.last(self.blocks(self.letter(x) + self.place)))

class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(64, 128), nn.Linear(128, 128), nn.Linear(128, 8)

    def act(self, x):
        for _ in range(4):
            x = (x * 0.5 + x.abs() * 0.25).clamp(-3, 3) - x * x * 0.01
        return x * torch.sigmoid(x * 1.7)

    def forward(self, x):
        return self.third(self.act(self.second(self.act(self.first(x)))))

def lenet():
    model = nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                          nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                          nn.Linear(84, 10))
    return model, torch.randn(32, 1, 28, 28), torch.randint(0, 10, (32,)), F.cross_entropy

def gpt():
    return GPT(), torch.randint(0, 65, (8, 32)), torch.randint(0, 65, (8, 32)), lambda y, t: F.cross_entropy(
        y.flatten(0, 1), t.flatten())

def mlp():
    return Small(), torch.randn(128, 64), torch.randn(128, 8), F.mse_loss

def looped(make, device):
    model, x, t, loss_of = make()
    model, x, t = model.to(device), x.to(device), t.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        loss_of(model(x), t).backward()
        optimizer.step()
        if device != "cpu":
            lazy.mark_step(device)
            lazy.wait_device_ops()

    for _ in range(4):
        step()
    return step
"""
RECORDING = Case("recording one op", setup=SETUP + """
x = torch.ones(4, 4).to("lazy")

def sample(clock):
    lazy.mark_step("lazy")
    lazy.wait_device_ops()
    y = x
    start = clock()
    for _ in range(100):
        y = (y + x) * x
        y = y.relu() - x
    return clock() - start
""", per=400)
MODELS = {"lenet": "LeNet", "gpt": "GPT-mini", "mlp": "MLP of small ops"}
STEPS = {name: Case(f"cached step, {title}, on lazy", "step()", SETUP + f"step = looped({name}, 'lazy')")
         for name, title in MODELS.items()}
EAGER = {name: Case(f"step, {title}, eager", "step()", SETUP + f"step = looped({name}, 'cpu')")
         for name, title in MODELS.items()}
NEW = Case("a new graph of LeNet, from step to result", setup=SETUP + """
count = [16]

def sample(clock):
    count[0] += 1
    model, x, t, loss_of = lenet()
    model = model.to("lazy")
    x, t = torch.randn(count[0], 1, 28, 28).to("lazy"), torch.randint(0, 10, (count[0],)).to("lazy")
    lazy.mark_step("lazy")
    loss = loss_of(model(x), t)
    loss.backward()
    start = clock()
    lazy.mark_step("lazy")
    loss.item()
    return clock() - start
""")
XLA = """
import re
from rushlight.xla import client, engine
step = looped({name}, "xla")
kept = []
own = engine.XlaEngine.run
def run(self, compiled, given):
    kept[:] = [compiled, [client.value_of((x.tensor() if isinstance(x, client.Value) else x).clone()) for x in given]]
    return own(self, compiled, given)
engine.XlaEngine.run = run
step()
engine.XlaEngine.run = own
compiled, given = kept
plain = client.compile_text(compiled.text)
buffers = [x.buffer for x in given] + compiled.held
head = compiled.text[: compiled.text.index("->")]
taken = {{k: int(m[1]) for k, piece in enumerate(re.split(r"%arg\\d+", head)[1:])
         if (m := re.search(r"tf.aliasing_output = (\\d+)", piece))}}

def call():
    made = plain.execute(buffers)
    for k, at in taken.items():
        buffers[k] = made[at]
    made[0].block_until_ready()

for _ in range(3):
    call()

def sample(clock):
    start = clock()
    {what}
    return clock() - start
"""


def of_xla(name: str, what: str, title: str) -> Case:
    return Case(title, setup=SETUP + XLA.format(name=name, what=what))


def ratio(first: Row, second: Row) -> float | None:
    """How often the second goes into the first, both of them ours, in neighbouring rounds."""
    pairs = list(zip(first.times["rushlight"], second.times["rushlight"]))
    return statistics.median(one / other for one, other in pairs) if pairs else None


def at_least(name: str, found: float | None, bar: float) -> Check:
    shown = "not measured" if found is None else f"{found:.2f}x"
    return Check(name, shown, f"at least {bar:g}x", found is not None and found >= bar)


def run(session: Session) -> list[Section]:
    session = settled(session)
    cases = [RECORDING, NEW, *[c for name in MODELS for c in (STEPS[name], EAGER[name])]]
    xla = {name: (of_xla(name, "step()", f"cached step, {title}, on xla"), of_xla(name, "call()", f"the same by jaxlib"
                  f" alone, {title}")) for name, title in MODELS.items()}
    cases += [case for two in xla.values() for case in two]
    section = session.compare(Group("lazy", "The lazy device and XLA", tuple(cases)))
    rows = {row.case: row for row in section.rows}
    section.checks = [at_least(RECORDING.name, rows[RECORDING.name].ratio(), 4.0)]
    for name, title in MODELS.items():
        bar = 1.2 if name == "mlp" else 1.0
        step, eager = rows[STEPS[name].name], rows[EAGER[name].name]
        section.checks += [at_least(f"{title}: PyTorch's lazy device over ours", step.ratio(), 2.0),
                           at_least(f"{title}: our eager mode over lazy", ratio(eager, step), bar),
                           at_most(f"{title}: xla over jaxlib alone", ratio(*[rows[c.name] for c in xla[name]]), 1.15)]
    new = rows[NEW.name].median("rushlight")
    shown = "not measured" if new is None else f"{new:.2f} s"
    section.checks.append(Check(NEW.name, shown, "at most 0.3 s", new is not None and new <= 0.3))
    return [section]
