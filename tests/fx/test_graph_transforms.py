"""Interpreting, transforming, rewriting and splitting graphs: the same results and texts as PyTorch's."""

from __future__ import annotations

import pytest
from both import same

NET = """
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.w = nn.Parameter(torch.ones(4) * 2); self.register_buffer("k", torch.full((4,), 3.0))
    def forward(self, x, scale=2):
        x = torch.relu(self.a(x)) * scale
        y = self.b(x) + self.w
        z = torch.sigmoid(self.c(y)) - self.k
        return (x + z).sum(-1), y.neg()
net = Net(); gm = fx.symbolic_trace(net); x = torch.arange(8.0).reshape(2, 4) / 8
def show(t): print([[round(v, 4) for v in r.flatten().tolist()] for r in (t if isinstance(t, (tuple, list)) else [t])])
"""

PROGRAMS = {
    "interpreter": """
show(net(x)); show(gm(x)); show(fx.Interpreter(gm).run(x)); show(fx.Interpreter(gm).run(x, 3))
show(fx.Interpreter(gm).boxed_run([x, 3]))
class Swap(fx.Interpreter):
    def call_function(self, target, args, kwargs):
        return super().call_function(torch.tanh if target is torch.sigmoid else target, args, kwargs)
    def call_method(self, target, args, kwargs):
        return super().call_method("abs" if target == "neg" else target, args, kwargs)
show(Swap(gm).run(x))
class Log(fx.Interpreter):
    def run_node(self, n):
        print(n.op, n.name, sorted(v.name for v in self.env)); return super().run_node(n)
Log(gm).run(x); Log(gm, garbage_collect_values=False).run(x)
env = {n: torch.zeros(2, 4) for n in gm.graph.nodes if n.name == "sigmoid"}
show(fx.Interpreter(gm).run(x, initial_env=env))
try: fx.Interpreter(gm).run()
except RuntimeError as e: print(str(e).splitlines()[0])
try: fx.Interpreter(gm).run(torch.ones(2, 3))
except RuntimeError as e: print([l for l in str(e).splitlines() if l.startswith("While")])
""",
    "transformer": """
class T(fx.Transformer):
    def call_function(self, target, args, kwargs):
        if target is torch.sigmoid: return torch.tanh(args[0]) + 1
        return super().call_function(target, args, kwargs)
    def call_method(self, target, args, kwargs):
        return super().call_method("abs" if target == "neg" else target, args, kwargs)
new = T(gm).transform(); print(new.code); show(new(x)); print(fx.Transformer(gm).transform().code)
""",
    "replace pattern": """
def f(x, w1, w2):
    a = torch.cat([w1, w2]).sum(); b = torch.cat([x, w2]).sum()
    return x + a.max() + b.max()
gm = fx.symbolic_trace(f)
matches = fx.replace_pattern(gm, lambda p, q: torch.cat([p, q]).sum(), lambda p, q: torch.stack([p, q]))
print(gm.code, [(m.anchor, {k.name: v.name for k, v in m.nodes_map.items()}) for m in matches])
gm = fx.symbolic_trace(lambda x: torch.relu(torch.relu(torch.relu(x))))
fx.replace_pattern(gm, lambda x: torch.relu(x), lambda x: torch.sigmoid(x) * 2); print(gm.code)
gm = fx.symbolic_trace(lambda x, y: (x * 2 + y, x * 3 + y))
fx.replace_pattern(gm, lambda a, b: a * 2 + b, lambda a, b: torch.add(b, a, alpha=2)); print(gm.code)
gm = fx.symbolic_trace(lambda x: (x.neg() + 1, x.neg()))
print(len(fx.replace_pattern(gm, lambda a: a.neg() + 1, lambda a: 1 - a)), gm.code)
gm = fx.symbolic_trace(lambda x: x.exp().log()); fx.replace_pattern(gm, lambda a: a.exp().log(), lambda a: a)
print(gm.code)
gm = fx.symbolic_trace(lambda x: (x + 1, (x + 1) * 2))
fx.replace_pattern(gm, lambda a: (a + 1, (a + 1) * 2), lambda a: (a - 1, a - 2)); print(gm.code)
from_ = fx.symbolic_trace(net)
class P(nn.Module):
    def __init__(self): super().__init__(); self.lin = nn.Linear(4, 4)
    def forward(self, x): return self.lin(x).relu()
fx.replace_pattern(from_, lambda x: torch.sigmoid(x), fx.symbolic_trace(P()))
print(from_.code, [n for n, _ in from_.named_modules()])
from_ = fx.symbolic_trace(lambda x: (x + 1) * (x + 2) * (x + 3)); rewriter = fx.subgraph_rewriter
done = rewriter.replace_pattern_with_filters(from_, lambda a: a + 1, lambda a: a - 1,
    match_filters=[lambda m, g, p: True], ignore_literals=True)
print(from_.code, [(d.anchor, d.replacements) for d in done])
""",
    "split module": """
names = {}
def part(node): return 0 if node.name in ("a", "relu", "mul") else 1 if node.name in ("b", "add", "neg") else 2
s = fx.passes.split_module.split_module(gm, net, part, names); print(s.code, s.graph, sorted(names.items()))
for n, m in s.named_children(): print(n, m.code)
show(s(x)); show(s(x, 3)); print(sorted(s.state_dict()))
s = fx.passes.split_module.split_module(gm, net, part, keep_original_order=True); print(s.code); show(s(x))
s = fx.passes.split_module.split_module(gm, net, part, tuple_return=True, partition_affix="p"); print(s.code)
show(s(x))
try: fx.passes.split_module.split_module(gm, net, lambda n: 0 if n.name in ("a", "b") else 1)
except RuntimeError as e: print(e)
""",
    "shape propagation": """
fx.passes.shape_prop.ShapeProp(gm).propagate(x)
for n in gm.graph.nodes:
    m = n.meta.get("tensor_meta")
    shown = m if m is None else len(m)
    if hasattr(m, "shape"):
        words = [str(v).split(".")[-1] for v in (m.dtype, m.memory_format)]
        shown = (tuple(m.shape), m.stride, m.requires_grad, *words)
    print(n.name, n.meta["type"].__name__, shown)
gm.print_readable()
""",
    "other passes": """
import importlib; P = lambda name: importlib.import_module(fx.__name__ + ".passes." + name)
def f(x, y):
    a = torch.relu(x + y); b = torch.relu(x + y); c = torch.exp(a) + torch.exp(b); d = torch.rand(2); e = torch.rand(2)
    return c, x.sum() + x.sum()
r = P("dialect.common.cse_pass").CSEPass()(fx.symbolic_trace(f)); print(r.modified, r.graph_module.code)
base, manager = P("infra.pass_base"), P("infra.pass_manager")
class Count(base.PassBase):
    def call(self, gm): print("count", len(gm.graph.nodes)); return base.PassResult(gm, False)
def drop(gm): gm.graph.eliminate_dead_code(); return gm
second = manager.pass_result_wrapper(drop)
first = Count()
pm = manager.PassManager([second, first], [manager.this_before_that_pass_constraint(first, second)], steps=2)
out = pm(fx.symbolic_trace(lambda x: (torch.exp(x), x)[1]))
print(out.modified, out.graph_module.code, [p is first for p in pm.passes])
sup, tools, part = P("operator_support"), P("tools_common"), P("infra.partitioner")
for n in gm.graph.nodes:
    if n.op in tools.CALLABLE_NODE_OPS: print(tools.get_node_target(dict(gm.named_modules()), n))
ok = sup.OperatorSupport({"_operator.add": None, "torch.relu": None, "_operator.mul": None, "torch.sigmoid": None})
print([n.name for n in gm.graph.nodes if ok.is_node_supported(dict(gm.named_modules()), n)])
def g(x): a = torch.relu(x) + 1; b = torch.exp(a); c = torch.sigmoid(a) * 2; return b + c, a.sum()
t = fx.symbolic_trace(g)
only = sup.create_op_support(lambda m, n: n.op == "call_function" and n.target is not torch.exp)
p = part.CapabilityBasedPartitioner(t, only, allows_single_node_partition=True); parts = p.propose_partitions()
print(sorted(sorted(n.name for n in q.nodes) for q in parts))
fused = p.fuse_partitions(parts); show(fused(x)); show(g(x)); print(sorted(n.op for n in fused.graph.nodes))
tagged = fx.symbolic_trace(g)
for i, n in enumerate(tagged.graph.nodes): n.tag = "first" if i < 4 else "second"
print(P("split_utils").split_by_tags(tagged, ["first", "second"]).code)
def drawn(): return P("graph_drawer").FxGraphDrawer(gm, "net").get_dot_graph().to_string()
print("digraph" in (drawn() if fx.__name__ != "torch.fx" else "digraph"))
""",
    "normal form": """
from_ = fx.symbolic_trace(net)
for n in from_.graph.nodes:
    if n.op == "call_module": print(n.normalized_arguments(from_, normalize_to_only_use_kwargs=True))
t = fx.symbolic_trace(lambda x: F.relu(x, True)); n = list(t.graph.nodes)[1]
print(n.normalized_arguments(t, normalize_to_only_use_kwargs=True))
t = fx.symbolic_trace(lambda x: torch.relu(x)); n = list(t.graph.nodes)[1]
print(n.normalized_arguments(t, normalize_to_only_use_kwargs=True))
""",
    "copies": """
class Sub(fx.GraphModule):
    tag = "sub"
s = Sub(net, gm.graph); print(type(s).__name__, s.tag, isinstance(s, fx.GraphModule)); c = copy.deepcopy(s)
print(c.tag, type(c).__name__); show(c(x))
gm.meta["a"] = 1; c = copy.deepcopy(gm); c.a.weight.data.zero_(); show(gm(x))
print(c.meta, c.a.weight.sum().item(), type(c).__name__, copy.copy(gm).meta)
gm.add_submodule("q.r.s", nn.Linear(2, 2))
print([n for n, _ in gm.named_modules()], gm.delete_submodule("q.r.s"), gm.delete_submodule("q.nope"))
gm.delete_all_unused_submodules(); print([n for n, _ in gm.named_modules()])
g = fx.Graph(); v = g.placeholder("x"); g.output(g.call_module("l.0", (g.get_attr("p.q"),)))
m = fx.GraphModule({"l.0": nn.Linear(1, 2), "p.q": torch.ones(1)}, g, "Named")
print(m.code, m, sorted(m.state_dict()), type(m).__name__)
gm.eval(); print(gm.a.training, fx.symbolic_trace(net.eval()).training)
e = fx.symbolic_trace(fx.symbolic_trace(net)); print(e.code)
""",
    "tracers": """
class Deep(fx.Tracer):
    def is_leaf_module(self, m, name): return False
g = Deep().trace(net); print(g); show(fx.GraphModule(net, g)(x))
class Buffers(fx.Tracer):
    proxy_buffer_attributes = True; record_stack_traces = True
g = Buffers().trace(net); print(g, [bool(n.stack_trace) for n in g.nodes])
class Shapes(nn.Module):
    def __init__(self): super().__init__(); self.w = nn.Parameter(torch.ones(2, 3))
    def forward(self, x): return x if self.w.shape[0] == 2 else self.w.dim() + x
print(fx.Tracer(param_shapes_constant=True).trace(Shapes()))
def helper(a, b=2): return a * b
print(fx.Tracer(autowrap_functions=(helper,)).trace(lambda x: helper(x, b=3) + math.sqrt(x)))
class Iter(fx.Tracer):
    def iter(self, obj): return iter([obj[0], obj[1]])
    def to_bool(self, obj): return True
print(Iter().trace(lambda x: [y + 1 for y in x] if x > 0 else x))
class Scaled(fx.CodeGen):
    def gen_fn_def(self, free, ann): return super().gen_fn_def(free, ann) + "\\n    print('called')"
    def generate_output(self, out): return f"return [{out!r}]"
gm.graph.set_codegen(Scaled()); gm.recompile(); print(gm.code)
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_equal_pytorchs(name: str) -> None:
    assert same(NET + PROGRAMS[name])
