"""Exercises of the chapter on MLIR: text of modules, index maps, lowering passes."""

from typing import Any

from ..exercise import Exercise, chapter

CHAPTER = chapter(
    "mlir",
    "MLIR: dialects and lowering",
    "MLIR：方言与下降",
    Exercise(
        title="Write a tensor type",
        title_zh="写出张量类型",
        text="""Write a type as MLIR does: `tensor_type((2, None), "f32")` is "tensor<2x?xf32>"; None is a size that
        is not known. A shape of no dims is "tensor<f32>".""",
        solution='''
        def tensor_type(shape, element):
            """The text of a tensor's type."""
            sizes = "".join("?x" if size is None else f"{size}x" for size in shape)
            return f"tensor<{sizes}{element}>"
        ''',
        hint="An x behind every size, then the element type.",
        cases=lambda: [((), "f32"), ((3,), "i64"), ((2, None), "f32"), ((0, 4, None), "bf16")],
    ),
    Exercise(
        title="Dialects in a module",
        title_zh="模块里的方言",
        text="""Given the text of a module, return a dictionary from dialect to the number of its ops. An op is a word
        "dialect.name" that begins a line, after spaces and possibly results "%0 = " or "%a, %b = "; the name may be
        quoted, as in "\\"stablehlo.add\\"". Words without a dot there are none, and other lines do not count.""",
        solution='''
        import re


        def dialects(text):
            """How many ops there are of each dialect."""
            counts = {}
            for line in text.splitlines():
                found = re.match(r'\\s*(?:%[\\w, %]+ = )?"?([a-z_]+)\\.[a-z_]', line)
                if found:
                    counts[found[1]] = counts.get(found[1], 0) + 1
            return counts
        ''',
        hint="""One regular expression for the beginning of a line: spaces, results up to ' = ', a quote, the dialect,
        a dot.""",
        cases=lambda: [
            ("",),
            ("}",),
            ("  return %0 : f32",),
            ("  func.return",),
            ("  %0 = arith.addf %a, %b : f32",),
            ("%a, %b = scf.if %c",),
            ('  %0 = "stablehlo.add"(%a, %b)',),
            (
                "func.func @f() {\n  %0 = arith.mulf %x, %x\n  %1 = arith.addf %0, %x\n"
                "  // arith.subf\n  func.return %1\n}",
            ),
            ("%0 = stablehlo.dot_general %a\n\n  memref.store %v",),
        ],
    ),
    Exercise(
        title="Index maps of a generic op",
        title_zh="通用算子的索引映射",
        text="""A linalg op runs over loops (d0, d1, …) and reads each operand at places given by a map: a tuple with
        the number of a loop for every dim of the operand. Given the maps and the shapes of all operands, return the
        sizes of the loops as a tuple. Operands that disagree on a loop raise ValueError; a loop that no operand shows
        raises ValueError, too.""",
        solution='''
        def loop_sizes(loops, maps, shapes):
            """The size of every loop."""
            sizes = {}
            for dims, shape in zip(maps, shapes):
                for loop, size in zip(dims, shape):
                    if sizes.setdefault(loop, size) != size:
                        raise ValueError(f"d{loop} is {sizes[loop]} and {size}")
            if len(sizes) < loops:
                raise ValueError("a loop without a size")
            return tuple(sizes[loop] for loop in range(loops))
        ''',
        hint="A dictionary from loop to size, filled operand by operand: `setdefault` returns what was there.",
        cases=lambda: [
            (0, [], []),
            (1, [(0,)], [(4,)]),
            (2, [(1, 0)], [(4, 5)]),
            (1, [(0,), (0,)], [(4,), (5,)]),
            (2, [(0,)], [(4,)]),
            (3, [(0, 2), (2, 1), (0, 1)], [(2, 4), (4, 3), (2, 3)]),
            (3, [(0, 2), (2, 1), (0, 1)], [(2, 4), (5, 3), (2, 3)]),
            (2, [(0, 0), (1,)], [(3, 3), (2,)]),
        ],
        probe=lambda answer, *case: refused(answer.loop_sizes, *case),
    ),
    Exercise(
        title="Lower a tree to SSA",
        title_zh="把树下降为 SSA",
        text="""An expression is a name (a string) or a tuple (op, operand, operand). Return the list of lines that
        compute it, innermost and leftmost first, as "%0 = arith.OP A, B : f32", where operands are "%name" for names
        and "%k" for earlier lines; ops are "addf", "mulf", …. A subtree that occurs again is not computed again.""",
        solution='''
        def lower(tree):
            """Lines in single-assignment form."""
            lines = []
            known = {}

            def value(node):
                if isinstance(node, str):
                    return f"%{node}"
                if node not in known:
                    op, left, right = node
                    text = f"arith.{op} {value(left)}, {value(right)} : f32"
                    known[node] = f"%{len(lines)}"
                    lines.append(f"{known[node]} = {text}")
                return known[node]

            value(tree)
            return lines
        ''',
        hint="""A recursive function that gives the name of a subtree's value, with a dictionary of those already
        computed.""",
        cases=lambda: [
            ("x",),
            (("addf", "x", "y"),),
            (("mulf", ("addf", "x", "y"), "x"),),
            (("mulf", "x", ("addf", "x", "y")),),
            (("addf", ("mulf", "a", "a"), ("mulf", "a", "a")),),
            (("subf", ("addf", ("mulf", "a", "b"), "c"), ("mulf", "a", "b")),),
        ],
    ),
)


def refused(function: Any, *case: Any) -> Any:
    """A result, or that it was refused."""
    try:
        return function(*case)
    except ValueError:
        return "ValueError"
