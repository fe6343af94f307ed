"""New shapes: what a call costs whose sizes were never met, against one whose sizes were,
and generation with a key-value cache that grows.

A program whose lengths change (text, graphs, the last batch) meets new sizes at every step;
a framework that plans per shape pays for each.
"""

from __future__ import annotations

from benchmarks.cases import Case, Check, Group, Section
from benchmarks.harness import Session

AT_MOST, DECODE_AT_MOST = 1.5, 1.2

# Sizes come from a long row of pairs, so that no pair comes twice. SEEN takes the same few again and again.
SETUP = """
import itertools
F = torch.nn.functional
grid = [(n, m) for n in range(16, 80) for m in range(16, 80)]
pairs = itertools.cycle([grid[k * 1597 % len(grid)] for k in range(len(grid))])
w, i = torch.ones(200, 8), torch.tensor([3, 1])
def make(n, m):
    return MAKE
def call(x, n, m):
    return CODE
few = [(make(n, m), n, m) for n, m in itertools.islice(pairs, 32)]
for _ in range(3):
    for args in few:
        call(*args)
def sample(clock):
    inputs = few if SEEN else [(make(n, m), n, m) for n, m in itertools.islice(pairs, 32)]
    start = clock()
    for args in inputs:
        call(*args)
    return clock() - start
"""

CALLS = {
    "sum": "x.sum(1)",
    "max": "x.max(1)",
    "index_select": "x.index_select(0, i)",
    "cat": "torch.cat((x, x))",
    "cumsum": "x.cumsum(0)",
    "matmul": "x @ x.T",
    "view": "x.view(m, n)",
    "attention": "F.scaled_dot_product_attention(x, x, x)",
    "softmax": "x.softmax(1)",
    "layer_norm": "F.layer_norm(x, (m,))",
}
# batches and lengths change, heads have the size of their model
MAKES = {"attention": "torch.ones(m - 15, 1, n, 32)"}

DECODE = """
torch.manual_seed(0)
F = torch.nn.functional
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = torch.nn.LayerNorm(64), torch.nn.Linear(64, 192), torch.nn.Linear(64, 64)
        self.norm2, self.up, self.down = torch.nn.LayerNorm(64), torch.nn.Linear(64, 256), torch.nn.Linear(256, 64)
    def forward(self, x, cache):
        q, k, v = (t.view(1, -1, 4, 16).transpose(1, 2) for t in self.qkv(self.norm(x)).split(64, 2))
        if cache is not None:
            k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(1, -1, 64))
        return x + self.down(F.gelu(self.up(self.norm2(x)))), (k, v)
tokens, places = torch.nn.Embedding(96, 64), torch.nn.Embedding(1024, 64)
blocks, head = [Block() for _ in range(2)], torch.nn.Linear(64, 96)
@torch.no_grad()
def generate(steps):
    token, caches = torch.tensor([[1]]), [None, None]
    for step in range(steps):
        x = tokens(token) + places(torch.arange(step, step + 1))
        for k, block in enumerate(blocks):
            x, caches[k] = block(x, caches[k])
        token = head(x[:, -1]).argmax(-1, keepdim=True)
forget = getattr(torch._C, "forget_plans", lambda: None)
def sample(clock):
    if NEW:
        forget()
    generate(6 if NEW else 256)
    start = clock()
    generate(256)
    return clock() - start
"""


def case(name: str, seen: bool) -> Case:
    setup = (
        SETUP.replace("MAKE", MAKES.get(name, "torch.ones(n, m)"), 1)
        .replace("CODE", CALLS[name])
        .replace("SEEN", str(seen))
    )
    return Case(f"{name}, {'seen' if seen else 'new'}", setup=setup, per=32)


GROUP = Group(
    "shapes", "Sizes met before and new ones", tuple(case(name, seen) for name in CALLS for seen in (True, False))
)
GENERATE = Group(
    "decode",
    "256 tokens from a tiny GPT with a key-value cache",
    tuple(
        Case(f"lengths {'new' if new else 'met before'}", setup=DECODE.replace("NEW", str(new)), per=256)
        for new in (False, True)
    ),
)


def growth(section: Section, pairs: list[tuple[str, str, str]], at_most: float) -> list[Check]:
    """For each (name, seen, new): how much more a new shape costs, in each library."""
    rows, checks = {row.case: row for row in section.rows}, []
    for name, seen, new in pairs:
        if (
            seen not in rows
            or new not in rows
            or rows[seen].median("rushlight") is None
            or rows[new].median("rushlight") is None
        ):
            continue
        times = {
            library: rows[new].median(library) / rows[seen].median(library)
            for library in ("rushlight", "torch")
            if rows[seen].median(library) and rows[new].median(library)
        }
        shown = f"{times['rushlight']:.2f}" + (f" (torch {times['torch']:.2f})" if "torch" in times else "")
        checks.append(Check(f"{name}: new / seen", shown, f"at most {at_most:.2f}", times["rushlight"] <= at_most))
    return checks


def run(session: Session) -> list[Section]:
    shapes, decode = session.compare(GROUP), session.compare(GENERATE)
    shapes.checks = growth(shapes, [(name, f"{name}, seen", f"{name}, new") for name in CALLS], AT_MOST)
    decode.checks = growth(decode, [("decode", "lengths met before", "lengths new")], DECODE_AT_MOST)
    return [shapes, decode]
