"""Running an answer over the cases of its exercise, in the process that calls.

Enters: an exercise and the text of an answer. Leaves: one record per case, plain data: the value and how it looks, or
what was raised and on which line; or one record that says why nothing could be run. Refuses: to judge; that is done
elsewhere, where the answer never was.
"""

from __future__ import annotations

import ast
import io
import linecache
import sys
import tokenize
from collections.abc import Iterator
from types import ModuleType, TracebackType
from typing import Any

from . import catalogue
from .exercise import Exercise
from .plain import plain, show

Record = dict[str, Any]
TEXT_LIMIT = 1 << 20


def records(exercise: Exercise, text: str, name: str) -> Iterator[Record]:
    """What an answer makes of every case, as it is computed."""
    try:
        tree = ast.parse(text, name)
        refused = broken_rule(exercise, tree)
        code = compile(text, name, "exec")
    except SyntaxError as wrong:
        line = (wrong.text or "").strip()[:80]
        quoted = f"That line is: {line}" if line else "Nothing was run"
        mark = "" if wrong.msg.endswith("?") else "."
        yield {"refused": f"Line {wrong.lineno or 1} cannot be read: {wrong.msg.rstrip('.')}{mark} {quoted}."}
        return
    except (ValueError, MemoryError, RecursionError, OverflowError) as wrong:
        yield {"refused": f"The file cannot be read as Python: {brief(wrong)}. Nothing was run."}
        return
    if refused is not None:
        yield {"refused": refused}
        return
    module = ModuleType("answer")
    module.__file__ = name
    sys.modules["answer"] = module
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)     # for what reads sources: jit.script
    try:
        catalogue.provide(exercise, module)
        exec(code, module.__dict__)
    except BaseException as wrong:
        record = {"at_once": f"{brief(wrong)}{where(wrong, name)}"}
        if isinstance(wrong, ModuleNotFoundError) and str(wrong.name).partition(".")[0] == "torch":
            record["advice"] = "Write `import rushlight as torch`, which has the same names."
        yield record
        return
    if exercise.entry not in module.__dict__:
        yield {"refused": f"The file defines nothing called {exercise.entry}. Start from what `start` writes."}
        return
    yield from outcomes(exercise, module, name)


def decoded(data: bytes) -> str:
    """A file as Python reads it: in UTF-8, or as its first lines say. Raises ValueError with the reason."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding)
    except UnicodeDecodeError as wrong:
        raise ValueError(f"is not text in {wrong.encoding.upper()}: {wrong.reason} at byte {wrong.start}") from None
    except (SyntaxError, LookupError) as wrong:
        raise ValueError(f"is not text in UTF-8, nor in an encoding that Python knows: {wrong}") from None


def broken_rule(exercise: Exercise, tree: ast.Module) -> str | None:
    """Why the exercise does not allow an answer, before any of it ran."""
    if exercise.rule is None:
        return None
    return exercise.rule(tree, exercise.entry, tuple(catalogue.find(name).entry for name in exercise.needs))


def outcomes(exercise: Exercise, module: ModuleType, name: str) -> Iterator[Record]:
    """One record per case."""
    for number, case in enumerate(exercise.ordered_cases()):
        try:
            value = exercise.ask(module, case)
            record: Record = {"case": number, "value": plain(value), "shown": show(value)}
        except BaseException as wrong:
            record = {"case": number, "error": brief(wrong), "at": where(wrong, name)}
        yield record


def expected(exercise: Exercise) -> list[Record]:
    """What the solution makes of every case; an error of it is an error of ours."""
    return list(records(exercise, exercise.solution, f"<solution {exercise.id}>"))


def brief(wrong: BaseException) -> str:
    """An exception in one line."""
    try:
        lines = " ".join(str(wrong).split()).partition("Traceback")[0].rstrip()
    except BaseException:
        lines = ""
    said = lines if len(lines) <= 200 else f"{lines[:200]}…"
    return f"{type(wrong).__name__}: {said.rstrip('.')}" if said else type(wrong).__name__


def where(wrong: BaseException, name: str) -> str:
    """` on line N`, N being the innermost line of the answer that was running; empty where none was."""
    line, at = None, wrong.__traceback__
    while isinstance(at, TracebackType):
        if at.tb_frame.f_code.co_filename == name:
            line = at.tb_lineno
        at = at.tb_next
    return f" on line {line}" if line is not None else ""
