"""How well the exercises check: the share of wrong answers, made from the solutions, that they refuse.

Enters: slugs, or none for all. Leaves: a table, or JSON, of mutants made and refused; with `--show`, those that
passed. Mutants change one operator, constant, comparison or result; hollow answers replace one function by a constant
or by one of its arguments, and every single one must be refused. Refuses: to wait for a mutant for longer than ten
times its solution.

    python -m benchmarks.learn [SLUG ...] [--json] [--show]
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from types import FrameType

from rushlight.learn import catalogue, checker, running
from rushlight.learn.exercise import Exercise

OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd, ast.MatMult: ast.Mult,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


@dataclass
class Score:
    """Of one exercise: how many wrong answers were made and refused, and the texts of those that passed."""

    id: str
    mutants: int = 0
    killed: int = 0
    hollow: int = 0
    refused: int = 0
    survivors: list[str] = field(default_factory=list)


def mutants(source: str) -> Iterator[str]:
    """Every text that differs from `source` by one mutation."""
    tree = ast.parse(source)
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise | ast.Expr)
        for inner in ast.walk(node)
        if isinstance(node, ast.Raise) or isinstance(node.value, ast.Constant)
    }
    for number, node in enumerate(ast.walk(tree)):
        if id(node) in skipped:
            continue
        for change in changes_of(node):
            mutant = copy.deepcopy(tree)
            target = next(found for at, found in enumerate(ast.walk(mutant)) if at == number)
            for name, value in change.items():
                setattr(target, name, value)
            yield ast.unparse(ast.fix_missing_locations(mutant))


def changes_of(node: ast.AST) -> Iterator[dict[str, object]]:
    """What a mutation sets in a node."""
    if isinstance(node, ast.BinOp | ast.AugAssign):
        yield {"op": OPERATORS[type(node.op)]()}
    elif isinstance(node, ast.Compare):
        yield {"ops": [COMPARISONS[type(node.ops[0])](), *node.ops[1:]]}
    elif isinstance(node, ast.BoolOp):
        yield {"op": ast.Or() if isinstance(node.op, ast.And) else ast.And()}
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        yield {"op": ast.UAdd() if isinstance(node.op, ast.USub) else ast.Invert()}
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield {"value": not node.value}
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield {"value": node.value + 1}
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield {"value": f"{node.value}x"}
    elif isinstance(node, ast.Return) and node.value is not None:
        yield {"value": ast.Constant(None)}


def hollow(source: str) -> Iterator[str]:
    """Every text in which one function returns a constant, or one of its arguments, and does nothing else."""
    tree = ast.parse(source)
    for number, node in enumerate(ast.walk(tree)):
        if not isinstance(node, ast.FunctionDef) or not any(isinstance(n, ast.Return) for n in ast.walk(node)):
            continue
        arguments = [one.arg for one in (*node.args.args, *node.args.kwonlyargs)]
        for result in ("None", "0", "1", "True", "False", "''", "[]", "()", "{}", "0.0", *arguments):
            mutant = copy.deepcopy(tree)
            target = next(found for at, found in enumerate(ast.walk(mutant)) if at == number)
            assert isinstance(target, ast.FunctionDef)
            target.body = ast.parse(f"return {result}").body  # type: ignore[assignment]
            yield ast.unparse(ast.fix_missing_locations(mutant))


def passes(exercise: Exercise, text: str, wanted: list[running.Record], seconds: float) -> bool:
    """Whether a text is taken for right, in this process."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("too slow")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.2)  # again and again: an answer may catch what is raised
    try:
        count = 0
        for got in running.records(exercise, text, "answer.py"):
            if count == len(wanted) or not checker.is_right(exercise, wanted[count], got):
                return False
            count += 1
        return count == len(wanted)
    except TimeoutError:
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def score(exercise: Exercise) -> Score:
    """Every wrong answer that can be made of an exercise's solution, judged."""
    began = time.perf_counter()
    wanted = running.expected(exercise)
    seconds = 0.5 + 10 * (time.perf_counter() - began)
    found = Score(exercise.id)
    original = ast.unparse(ast.parse(exercise.solution))
    for text in dict.fromkeys(mutants(exercise.solution)):
        if text != original:
            passed = passes(exercise, text, wanted, seconds)
            found.mutants, found.killed = found.mutants + 1, found.killed + (not passed)
            found.survivors += [text] * passed
    for text in dict.fromkeys(hollow(exercise.solution)):
        if text != original:
            passed = passes(exercise, text, wanted, seconds)
            found.hollow, found.refused = found.hollow + 1, found.refused + (not passed)
            found.survivors += [text] * passed
    return found


def scores(slugs: list[str]) -> list[Score]:
    """The scores of all exercises of some chapters, or of all chapters."""
    return [score(exercise) for slug in slugs or catalogue.SLUGS for exercise in catalogue.load(slug).exercises]


def mutants_killed(slugs: list[str] | None = None) -> dict[str, int]:
    """The sums that `python -m benchmarks book` tells: mutants made and killed, hollow answers made and refused."""
    found = scores(slugs or [])
    return {name: sum(getattr(one, name) for one in found) for name in ("mutants", "killed", "hollow", "refused")}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learn")
    parser.add_argument("slugs", nargs="*")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--show", action="store_true", help="print what passed and should not")
    chosen = parser.parse_args(arguments)
    found = scores(chosen.slugs)
    if chosen.json:
        print(json.dumps([asdict(one) for one in found]))
        return 0
    for one in found:
        print(
            f"{one.id:28} {one.killed:3} of {one.mutants:3} mutants, {one.refused:3} of {one.hollow:3} hollow answers"
        )
        for text in one.survivors if chosen.show else ():
            print("    " + text.replace("\n", "\n    "))
    made, killed = sum(one.mutants for one in found), sum(one.killed for one in found)
    print(f"{len(found)} exercises: {killed} of {made} mutants refused, {killed / max(made, 1):.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
