"""The text of traced programs equals PyTorch's: code, graphs, node names;
errors are of the same class and speak of the same things."""

from __future__ import annotations

import pytest
from both import same

PROGRAMS = {
    "operators": """
def f(x, y):
    a = x + y - 1; b = 2 * a / 3; c = b // 2 % 5; d = -c ** 2; e = ~(d > 0) & (d <= 1) | (x == y) ^ (x != y)
    g = x @ y; h = x[0]; i = x[:, 1:3, None, ...]; j = x << 1; k = 3 >> x; l = abs(x); m = 2 - x; n = 2 ** x; o = 5 // x
    p = 1 / x; q = +x
    return a, b, c, d, e, g, h, i, j, k, l, m, n, o, p, q, x < 1, 1 < x
gm = fx.symbolic_trace(f); print(gm.code); print(gm.graph)
""",
    "methods and attributes": """
def f(x):
    y = x.view(-1, 2).to(torch.float64).to(dtype=torch.int64).size(0)
    z = x.T.contiguous().shape[0] + x.ndim
    return x.sum(dim=1, keepdim=True).add_(1, alpha=2), y, z, x.device, x.data.transpose(0, 1), x.new_zeros(2, 3)
gm = fx.symbolic_trace(f); print(gm.code); print(gm.graph)
""",
    "functional": """
def f(x, w):
    x = F.relu(x); x = torch.relu(x); x = F.gelu(x); x = F.silu(x); x = F.leaky_relu(x, 0.2); x = F.hardswish(x)
    x = F.elu(x); x = F.softplus(x)
    x = F.softmax(x, dim=-1); x = F.log_softmax(x, 1); x = torch.softmax(x, -1); x = F.dropout(x, 0.1, training=False)
    x = F.linear(x, w)
    x = F.conv2d(x, w, stride=2); x = F.max_pool2d(x, 2); x = F.avg_pool2d(x, 2); x = F.adaptive_avg_pool2d(x, (1, 1))
    x = F.interpolate(x, scale_factor=2.0)
    x = F.layer_norm(x, (2,)); x = F.batch_norm(x, w, w); x = F.group_norm(x, 2); x = F.pad(x, (1, 1))
    x = F.normalize(x); x = F.one_hot(x)
    x = F.cross_entropy(x, w); x = F.mse_loss(x, w); x = F.nll_loss(x, w); x = F.binary_cross_entropy_with_logits(x, w)
    x = F.embedding(x, w)
    x = F.scaled_dot_product_attention(x, w, w); x = F.glu(x); x = F.unfold(x, 2); x = F.pixel_shuffle(x, 2)
    x = F.sigmoid(x); x = F.tanh(x); x = F.prelu(x, w)
    x = F.grid_sample(x, w); x = F.huber_loss(x, w); x = F.l1_loss(x, w); x = F.smooth_l1_loss(x, w)
    x = F.cosine_similarity(x, w); x = F.logsigmoid(x)
    return F.upsample(x, scale_factor=2)
gm = fx.symbolic_trace(f); print(gm.code)
""",
    "top level": """
def f(x, y):
    a = torch.cat([x, y], dim=1); b = torch.stack((x, y)); c = torch.matmul(x, y); d = torch.bmm(x, y)
    e = torch.where(x > 0, x, y)
    f = torch.einsum('ij,jk->ik', x, y); g = torch.split(x, 2); h = torch.chunk(x, 2, dim=0); i = torch.flatten(x, 1)
    j = torch.zeros_like(x)
    k = torch.arange(x.size(0)); l = torch.clamp(x, min=0.0, max=1); m = torch.norm(x); n = torch.linalg.norm(x)
    o = torch.fft.fft(x); p = torch.special.erf(x)
    q = torch.addmm(x, y, y); r = torch.topk(x, 2)[0]; s = torch.sum(x, (0, 1)); t = torch.mean(x, 1, keepdim=True)
    u = torch.sigmoid(x); v = torch.exp(x)
    w = torch.permute(x, (1, 0)); z = torch.unsqueeze(x, 0); aa = torch.full((x.size(0), 2), 1.0)
    ab = torch.broadcast_tensors(x, y); ac = torch.max(x)
    ad = torch.conv2d(x, y); ae = torch.is_floating_point(x); af = torch.numel(x); ag = torch.tensordot(x, y, dims=1)
    ah = torch.meshgrid(x, y)
    return a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, z, aa, ab, ac, ad, ae, af, ag, ah
gm = fx.symbolic_trace(f); print(gm.code); print(gm.graph)
""",
    "modules": """
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.lin, self.scale = nn.LayerNorm(width), nn.Linear(width, width), nn.Parameter(torch.ones(width))
        self.register_buffer("offset", torch.zeros(width))
    def forward(self, x):
        return x + F.gelu(self.lin(self.norm(x))) * self.scale + self.offset
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        self.blocks = nn.ModuleList(Block(8) for _ in range(2))
        self.heads = nn.ModuleDict({"a": nn.Linear(8, 2), "b": nn.Linear(8, 3)})
        self.pool, self.drop = nn.AdaptiveAvgPool2d(1), nn.Dropout(0.1)
        self.plain = torch.ones(8)
    def forward(self, x: torch.Tensor, *, scale: float = 1.0):
        x = self.pool(self.stem(x)).flatten(1)
        for block in self.blocks:
            x = block(x)
        x = self.drop(x * scale) + self.plain + torch.arange(8)
        return {name: head(x) for name, head in self.heads.items()}
gm = fx.symbolic_trace(Net()); print(gm.code); print(gm.graph); print(gm); gm.print_readable()
print(sorted(gm.state_dict()), [n.name for n in gm.graph.nodes])
for n in gm.graph.nodes:
    print(n.name, list(n.meta.get("nn_module_stack", {})), n.all_input_nodes, list(n.users), n.next.name, n.prev.name)
""",
    "signatures": """
def f(x: torch.Tensor, y: "int" = 3, z: list[int] = None, *args, k: int = 2, **kw) -> tuple[torch.Tensor, int]:
    return x + y + args[0] + kw["a"], k
gm = fx.symbolic_trace(f); print(gm.code); print(gm.graph)
class M(nn.Module):
    def forward(self, input, self_=1, *, type=None): return input, type
print(fx.symbolic_trace(M()).code)
def g(): return torch.ones(2)
print(fx.symbolic_trace(g).code)
def h(x): return x
print(fx.symbolic_trace(h).code)
""",
    "concrete arguments": """
def f(d, t): return [d["a"] + t[0], {"z": d["b"], "c": [t[1]]}]
gm = fx.symbolic_trace(f, concrete_args={"d": {"a": fx.PH, "b": fx.PH}, "t": (fx.PH, 3)})
print(gm.code); print(gm.graph); print(gm({"a": 1, "b": 2}, (3, 3)))
try: gm({"a": 1, "b": 2}, (3, 4))
except AssertionError as e: print("AssertionError", e)
def g(x, flag, opt=None): return (x if flag else -x) if opt is None else x
gm = fx.symbolic_trace(g, concrete_args={"flag": True, "opt": None}); print(gm.code)
""",
    "values in arguments": """
def f(x):
    y = x.sum((0, 1)); z = x.view(size=(2, -1)); a = x[None, 1, ..., ::2]; b = torch.full((2,), float("inf")) + x
    c = x * float("nan"); d = x.to("cpu", non_blocking=True)
    return y, z, a, b, c, d, x.to(torch.device("cpu")), x.clone(memory_format=torch.channels_last), \\
        {"a": [x, (y, None)], "b": slice(1, x)}, x + 1j, "text", True, ...
gm = fx.symbolic_trace(f); print(gm.code); print(gm.graph)
""",
    "naming": """
def f(x, relu, input, in_1):
    a = torch.relu(x); b = torch.relu(a); c = a.max(); d = a.max().max(dim=0); e = x.sum(); e = e.sum()
    g = x.__call__(2); h = x.ALLCaps(); i = x.camelCase()
    return a, b, c, d, e, relu, input, in_1, g, h, i, x.type, x.list(), x.print
gm = fx.symbolic_trace(f); print(gm.code); print([n.name for n in gm.graph.nodes])
g = fx.Graph()
x = g.placeholder("x"); y = g.create_node("call_function", torch.add, (x, x), name="y_2")
z = g.create_node("call_function", torch.add, (x, y), name="y_2")
w = g.call_function(torch.mul, (z, 3)); v = g.call_method("view", (w, -1)); u = g.get_attr("a.b.0.c")
t = g.call_module("m.0.n", (u,)); g.output([v, t])
print(g); print(g.python_code("self").src)
""",
    "unpacking and containers": """
def f(x):
    a, b = x.split(2); (c, d), e = x.foo(); first, *_ = [a, b]
    return [a, b], (c,), {"e": e}, first
print(fx.symbolic_trace(f).code)
""",
    "modules of nn": """
torch.manual_seed(0)
cases = [
    nn.Linear(2, 3), nn.ReLU(), nn.Conv2d(1, 2, 3), nn.Embedding(3, 4), nn.LayerNorm(4), nn.Flatten(), nn.Identity(),
    nn.GELU(), nn.MaxPool2d(2), nn.Softmax(dim=1),
    nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.Linear(2, 2))), nn.Dropout(0.3), nn.CrossEntropyLoss(),
    nn.MSELoss(), nn.Upsample(scale_factor=2), nn.Sigmoid(), nn.AvgPool2d(2), nn.ZeroPad2d(1), nn.PReLU(),
    nn.Bilinear(2, 3, 4), nn.PixelShuffle(2), nn.CosineSimilarity(), nn.GroupNorm(1, 2), nn.Hardtanh(),
    nn.ConvTranspose2d(1, 2, 3).eval()]
for m in cases:
    try:
        print(type(m).__name__, fx.symbolic_trace(m).graph)
    except Exception as e:
        print(type(m).__name__, type(e).__name__)
""",
    "editing": """
def f(x, y): return torch.relu(x + y).sum()
gm = fx.symbolic_trace(f); g = gm.graph
relu = g.find_nodes(op="call_function", target=torch.relu)[0]
with g.inserting_after(relu):
    s = g.call_function(torch.sigmoid, (relu,)); s.meta["note"] = 1
relu.replace_all_uses_with(s, delete_user_cb=lambda u: u is not s)
with g.inserting_before(relu):
    m = g.call_method("mul", (relu.args[0], 2))
relu.replace_input_with(relu.args[0], m)
g.lint(); gm.recompile(); print(gm.code)
dead = g.call_function(torch.exp, (m,)); print(dead.next.op, dead > m, sorted([dead, m, relu]))
m.append(dead); print(gm.graph.eliminate_dead_code(), gm.graph)
h = fx.Graph(); values = {}; out = h.graph_copy(g, values); h.output((out, out))
print(h, len(h.nodes), [n.meta for n in h.nodes if n.meta])
c = copy.deepcopy(g); print(c); s2 = c.find_nodes(op="call_function", target=torch.sigmoid); print(s2, s2[0].meta)
s.update_arg(0, m); s.insert_arg(1, 3); s.update_kwarg("k", m); print(s.format_node(), list(m.users), relu.users)
s._rename("renamed"); print(g)
p = fx.Proxy(m)
with g.inserting_after(m): q = (p + 1).relu().node
print(g, q.stack_trace)
with g.on_generate_code(lambda current: (lambda body: ["print('hi')\\n", *body])):
    gm.recompile(); print(gm.code)
""",
}

# `attempt(call, mentioned...)`: the class, and which of the names and values mentioned are missing from the message.
ERRORS = """
def attempt(f, *mentioned):
    try: print(f())
    except Exception as e: print(type(e).__name__, [word for word in mentioned if word not in str(e)])
attempt(lambda: fx.symbolic_trace(lambda x: x if x > 0 else -x))
attempt(lambda: fx.symbolic_trace(lambda x: [y for y in x]), "Proxy", "*args", "**kwargs")
attempt(lambda: fx.symbolic_trace(lambda x: len(x)), "len", "wrap('len')")
attempt(lambda: fx.symbolic_trace(lambda x: [1, 2][x]), "Proxy")
attempt(lambda: fx.symbolic_trace(lambda x: int(x)), "int()", "Proxy")
attempt(lambda: fx.symbolic_trace(lambda x: {x: 1}), "Node", "x")
class M(nn.Module):
    def forward(self, x): return self.inner(x)
m = M(); object.__setattr__(m, "inner", nn.Linear(2, 2))
attempt(lambda: fx.symbolic_trace(m))
g = fx.Graph(); x = g.placeholder("x"); y = g.call_function(torch.relu, (x,)); g.output(y)
attempt(lambda: g.erase_node(x), "x", "1", "relu")
attempt(lambda: y.args.append(1) if hasattr(y.args, "append") else y.args[0])
n = g.call_function(torch.cat, ([x, y],))
attempt(lambda: n.args[0].append(3), "immutable_list")
attempt(lambda: n.kwargs.update(a=1), "immutable_dict")
x.append(n); y2 = fx.Graph().placeholder("q"); n.args = (y2,)
attempt(lambda: g.lint(), "'q'", "'cat'", "node_copy()")
attempt(lambda: fx.GraphModule({}, (lambda g: (g.get_attr("w"), g.output(None), g)[2])(fx.Graph())), "w")
attempt(lambda: fx.wrap("foo"), "wrap")
attempt(lambda: fx.GraphModule(nn.Module(), 3), "'int'", "nodes")
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_text_equals_pytorchs(name: str) -> None:
    assert same(PROGRAMS[name])


def test_errors_are_of_pytorchs_class_and_name_the_same_things() -> None:
    assert same(ERRORS).count("Error []") == 14
