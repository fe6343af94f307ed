"""What PyTorch's public examples of FX do, in programs of our own: the same code text on both frameworks."""

from __future__ import annotations

import pytest

from tests.fx.both import same

INLINE = """
def inlined(gm, function):
    # replace calls of a function by what it is made of
    for node in list(gm.graph.nodes):
        if node.op == "call_function" and node.target is function:
            with gm.graph.inserting_before(node):
                tracer = fx.proxy.GraphAppendingTracer(node.graph)
                args = [fx.Proxy(a, tracer) if isinstance(a, fx.Node) else a for a in node.args]
                result = function(*args)
            node.replace_all_uses_with(result.node)
            gm.graph.erase_node(node)
    gm.graph.lint()
    gm.recompile()
    return gm

def double(x):
    return x.relu() + x.neg() * 2

graph = fx.Graph()
x = graph.placeholder("x")
a = graph.call_function(double, (x,))
b = graph.call_function(torch.sin, (a,))
c = graph.call_function(double, (b,))
graph.output(c)
gm = inlined(fx.GraphModule(nn.Module(), graph), double)
print(gm.code)
v = torch.tensor([-1.0, 2.0])
print(torch.allclose(gm(v), double(torch.sin(double(v)))))
"""

INVERT = """
inverse = {torch.sin: torch.asin, torch.exp: torch.log, torch.tanh: torch.atanh, operator.add: operator.sub,
           operator.mul: operator.truediv}

def inverted(model):
    gm = fx.symbolic_trace(model)
    made = fx.Graph()
    last = next(n for n in gm.graph.nodes if n.op == "output").args[0]
    value, node = made.placeholder("out"), last
    while node.op != "placeholder":
        value = made.call_function(inverse[node.target], (value, *node.args[1:]))
        node = node.args[0]
    made.output(value)
    made.lint()
    return fx.GraphModule(gm, made)

class Chain(nn.Module):
    def forward(self, x):
        return torch.exp(torch.tanh(torch.sin(x * 0.5) + 0.25))

gm = inverted(Chain())
print(gm.code)
x = torch.linspace(-1, 1, 7)
print(torch.allclose(gm(Chain()(x)), x, atol=1e-5))
"""

REWRITE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 3))

    def forward(self, x, y):
        a = torch.cat([x, y]).sum(0).relu()
        b = torch.cat([y, x]).sum(0).relu()
        return (a @ self.weight) * torch.sigmoid(a @ self.weight) + b

gm = fx.symbolic_trace(Net())

def pattern(p, q):
    return torch.cat([p, q]).sum(0)

def replacement(p, q):
    return torch.stack([p.sum(0), q.sum(0)]).amax(0)

print(len(fx.replace_pattern(gm, pattern, replacement)))
print(gm.code)

def swish(v):
    return v * torch.sigmoid(v)

print(len(fx.replace_pattern(gm, swish, lambda v: F.silu(v))))
print(gm.code)
print(gm.graph)
"""

MODULES = """
class ModulePaths(fx.Tracer):
    # which module each node was made in
    def __init__(self):
        super().__init__()
        self.path, self.origin = [], {}

    def is_leaf_module(self, m, qualified_name):
        return False

    def call_module(self, m, forward, args, kwargs):
        self.path.append(self.path_of_module(m))
        try:
            return super().call_module(m, forward, args, kwargs)
        finally:
            self.path.pop()

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, *rest):
        proxy = super().create_proxy(kind, target, args, kwargs, name, type_expr, *rest)
        self.origin[proxy.node.name] = ".".join(self.path[-1:])
        return proxy

class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a, self.act = nn.Linear(n, n), nn.ReLU()

    def forward(self, x):
        return self.act(self.a(x)) + x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(4), Block(4))
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.blocks(x)).softmax(-1)

tracer = ModulePaths()
graph = tracer.trace(Net())
for node in graph.nodes:
    print(node.name, node.op, repr(tracer.origin.get(node.name)))
"""

PROFILE = """
class Counting(fx.Interpreter):
    # how often each node ran, and what it gave
    def __init__(self, gm):
        super().__init__(gm)
        self.runs, self.table = 0, {}

    def run(self, *args):
        self.runs += 1
        return super().run(*args)

    def run_node(self, n):
        result = super().run_node(n)
        shape = tuple(result.shape) if hasattr(result, "shape") else type(result).__name__
        self.table.setdefault((n.op, n.name), []).append(shape)
        return result

    def summary(self):
        for (op, name), seen in self.table.items():
            print(f"{op:14} {name:10} {len(seen) / self.runs:.1f} {seen[0]} {seen[-1]}")

net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5))
counting = Counting(fx.symbolic_trace(net))
for n in (1, 2, 3):
    counting.run(torch.ones(n, 3, 8, 8))
counting.summary()
"""

PRIMITIVES = """
# a library of few operations, and the program rewritten with them
table = {operator.add: ("add", lambda a, b: torch.add(a, b)), torch.add: ("add", lambda a, b: torch.add(a, b)),
         operator.sub: ("sub", lambda a, b: torch.add(a, torch.neg(b))),
         operator.mul: ("mul", lambda a, b: torch.mul(a, b)),
         F.relu: ("relu", lambda x, inplace=False: torch.clamp(x, min=0.0)),
         torch.square: ("square", lambda x: torch.mul(x, x))}

class Lowered(fx.Transformer):
    def call_function(self, target, args, kwargs):
        known = table.get(target)
        return known[1](*args, **kwargs) if known else super().call_function(target, args, kwargs)

    def call_method(self, target, args, kwargs):
        if target == "relu":
            return torch.clamp(args[0], min=0.0)
        return super().call_method(target, args, kwargs)

class Net(nn.Module):
    def forward(self, x, y):
        return F.relu(torch.square(x) - y) + (x * y).relu()

gm = Lowered(fx.symbolic_trace(Net())).transform()
print(gm.code)
print([str(n.op) for n in gm.graph.nodes], gm.graph)
x, y = torch.tensor([1.0, -2.0]), torch.tensor([3.0, 0.5])
print(torch.equal(gm(x, y), Net()(x, y)))
"""


EXAMPLES = {"inline function": INLINE, "invert": INVERT, "rewriting": REWRITE, "module tracer": MODULES,
            "profiling": PROFILE, "primitives": PRIMITIVES}


@pytest.mark.parametrize("source", EXAMPLES.values(), ids=EXAMPLES)
def test_examples_print_the_same_on_both(source):
    pytest.importorskip("torch")
    text = same(source)
    assert text.strip() and "False" not in text.replace("inplace = False", "").replace("inplace: False", "")
