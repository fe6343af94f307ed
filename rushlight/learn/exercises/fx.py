"""Exercises of the chapter on FX: reading graphs, and rewriting them."""

from types import ModuleType
from typing import Any

import rushlight as torch

from ..exercise import Exercise, chapter

PROGRAMS = {
    "x + x": lambda x: x + x,
    "relu(x) * 2 + 1": lambda x: torch.relu(x) * 2 + 1,
    "relu(relu(x))": lambda x: torch.relu(torch.relu(x)),
    "relu(x) + relu(relu(x) - 1)": lambda x: torch.relu(x) + torch.relu(torch.relu(x) - 1),
    "sigmoid(x).sum()": lambda x: torch.sigmoid(x).sum(),
    "a value nobody uses": lambda x: [torch.relu(x), x * 2][1] + 0 * torch.sigmoid(x).relu(),
    "(x * 2).relu(), unused": lambda x: [(x * 2).relu(), x][1],
    "x": lambda x: x,
}
INPUT = [-2.0, -0.5, 0.0, 1.5]


def trace(name: Any) -> Any:
    return torch.fx.symbolic_trace(PROGRAMS[name])


def names(graph: Any) -> Any:
    return [f"{node.op} {getattr(node.target, '__name__', node.target)}" for node in graph.nodes]


def rewritten(answer: ModuleType, name: Any) -> Any:
    """The nodes of a graph after the answer rewrote it, and what it computes then."""
    module = trace(name)
    result = getattr(answer, answer_name(answer))(module)
    result.graph.lint()
    result.recompile()
    return names(result.graph), result(torch.tensor(INPUT))


def answer_name(answer: ModuleType) -> Any:
    return next(name for name in ("to_leaky", "once", "drop_dead") if hasattr(answer, name))


def with_dead_nodes(answer: ModuleType, name: Any, dead: Any) -> Any:
    """Values that nobody uses are put into a graph; what is left of it."""
    module = trace(name)
    last = next(iter(module.graph.nodes))
    for _ in range(dead):
        with module.graph.inserting_after(last):
            last = module.graph.call_function(torch.neg, (last,))
    removed = answer.drop_dead(module)
    module.graph.lint()
    module.recompile()
    return removed, names(module.graph), module(torch.tensor(INPUT))


CHAPTER = chapter(
    "fx",
    "FX: programs as graphs",
    "FX：把程序当作图",
    Exercise(
        title="Count the opcodes",
        title_zh="数一数操作码",
        text="""Given the graph of a traced program (`torch.fx.Graph`), return a dictionary from opcode
        ("placeholder", "call_function", …) to how many of its nodes have it. Opcodes that do not occur are left
        out.""",
        solution='''
        def opcodes(graph):
            """How many nodes there are of each opcode."""
            counts = {}
            for node in graph.nodes:
                counts[node.op] = counts.get(node.op, 0) + 1
            return counts
        ''',
        hint="`graph.nodes` can be gone through as a list; a node's opcode is `node.op`.",
        cases=lambda: [(name,) for name in PROGRAMS],
        probe=lambda answer, name: answer.opcodes(trace(name).graph),
        asks="the graph of the program {0}",
    ),
    Exercise(
        title="Replace an op",
        title_zh="替换一个运算",
        text="""Given a traced module, make every call of `torch.relu` a call of `torch.nn.functional.leaky_relu` with
        the slope 0.25 as its second positional argument. Return the module, recompiled.""",
        solution='''
        import rushlight as torch


        def to_leaky(module):
            """Every relu becomes a leaky_relu of slope 0.25."""
            for node in module.graph.nodes:
                if node.op == "call_function" and node.target is torch.relu:
                    node.target = torch.nn.functional.leaky_relu
                    node.args = (node.args[0], 0.25)
            module.recompile()
            return module
        ''',
        hint="""`node.target` and `node.args` can be assigned to; nothing runs until `module.recompile()` writes the
        code anew.""",
        cases=lambda: [(name,) for name in PROGRAMS if name != "a value nobody uses"],
        probe=rewritten,
        asks="[the nodes, the result on [-2, -0.5, 0, 1.5]] of the program {0}, rewritten",
    ),
    Exercise(
        title="Compute nothing twice",
        title_zh="同样的值只算一次",
        text="""Given a traced module, merge nodes that call the same function with the same positional arguments
        (none has keyword arguments here): users of the later node use the earlier one instead, and the later node is
        erased. Merged arguments count as the same, so one pass in the order of the graph is enough. Return the
        module, recompiled.""",
        solution='''
        def once(module):
            """Nodes that compute the same become one."""
            seen = {}
            for node in list(module.graph.nodes):
                if node.op != "call_function":
                    continue
                key = node.target, node.args
                if key in seen:
                    node.replace_all_uses_with(seen[key])
                    module.graph.erase_node(node)
                else:
                    seen[key] = node
            module.recompile()
            return module
        ''',
        hint="""A dictionary from (target, args) to the first node. `replace_all_uses_with` also changes the arguments
        of later nodes.""",
        cases=lambda: [(name,) for name in PROGRAMS],
        probe=rewritten,
        asks="[the nodes, the result on [-2, -0.5, 0, 1.5]] of the program {0}, rewritten",
    ),
    Exercise(
        title="Remove what nobody uses",
        title_zh="删去无人使用的值",
        text="""Given a traced module, erase every node that calls a function or a method and has no users, and those
        that have none afterwards. Return how many were erased. Do it yourself, without `eliminate_dead_code`; inputs
        and outputs stay.""",
        solution='''
        def drop_dead(module):
            """Erase calls without users; how many there were."""
            erased = 0
            for node in reversed(list(module.graph.nodes)):
                if node.op in ("call_function", "call_method") and not node.users:
                    module.graph.erase_node(node)
                    erased += 1
            return erased
        ''',
        hint="Go through the nodes from the last to the first: erasing a user may free what it used.",
        cases=lambda: [
            ("x + x", 0),
            ("x + x", 1),
            ("x", 3),
            ("sigmoid(x).sum()", 2),
            ("relu(relu(x))", 4),
            ("a value nobody uses", 0),
            ("(x * 2).relu(), unused", 0),
        ],
        probe=with_dead_nodes,
        asks="[how many, the nodes left, the result] of the program {0} with {1} values that nobody uses",
    ),
)
