"""A statement run under valgrind, and the counts it leaves.

Enters: a task and its globals. Leaves: counts by function, per repeat and of an empty statement. The statement runs in
another process, whose globals are copies; instructions are counted around its loop only, so that imports and setup run
at a tenth of the cost. Refuses: platforms without valgrind, and globals that are not marked as copyable.
"""

from __future__ import annotations

import mmap
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from typing import Any

from ... import _C
from ...base import environment, homes, late
from . import client_requests, cpp_statement
from .callgrind import CallgrindStats, CopyIfCallgrind, FunctionCount, FunctionCounts, Serialization
from .measurement import TaskSpec

COMMANDS = ("valgrind", "callgrind_annotate")
WARM_UPS, UNROLLED = 10, 100
_ROW = re.compile(r"^\s*([0-9,]+)\s+(.+:.+)$")
_TOTAL = re.compile(r"^([0-9,]+)\s+PROGRAM TOTALS")
_HEAD = re.compile(r"^Ir\s+file:function")

Counts = tuple[FunctionCounts, FunctionCounts, "str | None"]      # with callees, without, and callgrind's own file


def check_platform() -> None:
    """Refuse where instructions cannot be counted, with what is missing."""
    if not client_requests.is_supported():
        raise OSError("Valgrind is not supported on this platform.")
    missing = [command for command in COMMANDS if shutil.which(command) is None]
    if missing:
        raise OSError(f"Missing: {', '.join(missing)}. Debian's package valgrind has them.")


def has_debug_symbols() -> bool:
    """Whether the core says which lines its instructions come from."""
    with open(_C.__file__, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b"\0.debug_line\0") >= 0


def _globals_text(globals: dict[str, Any], folder: str) -> str:
    """Source that reads copies of the globals, which are written to `folder`."""
    package = late.provided("package")
    lines = []
    for name, value in globals.items():
        if name in ("torch", package.__name__):
            if value is not package:
                raise ValueError(f"`collect_callgrind` does not support mocking out `{name}`.")
        elif name != "__builtins__":
            if not isinstance(value, CopyIfCallgrind):
                raise ValueError(
                    "`collect_callgrind` requires that globals be wrapped in `CopyIfCallgrind` so that serialization is"
                    f" explicit. {name!r} is not."
                )
            path = os.path.join(folder, name)
            if value.setup is not None:
                lines.append(textwrap.dedent(value.setup))
            if value.serialization is Serialization.PICKLE:
                with open(path, "wb") as f:
                    pickle.dump(value.value, f)
                lines.append(f"with open({path!r}, 'rb') as file:\n    {name} = pickle.load(file)")
            else:
                package.save(value.value, path)
                lines.append(f"{name} = torch.load({path!r}, weights_only=False)")
    return "\n".join(lines)


def _unrolled(stmt: str, number: int) -> str:
    """`number` runs of a statement, written out by the hundred: a loop of Python costs instructions of its own."""
    blocks = number // UNROLLED if number >= 2 * UNROLLED else 0
    text = f"for _ in range({blocks}):\n" + textwrap.indent("\n".join([stmt] * UNROLLED), "    ") if blocks else ""
    return "\n".join([text, *[stmt] * (number - blocks * UNROLLED)])


def _script(task: TaskSpec, globals_text: str, number: int, repeats: int, collect_baseline: bool) -> str:
    """The program that valgrind runs."""
    package = late.provided("package").__name__
    serve = "from rushlight import compat\ncompat.install()" if homes.shown != homes.PACKAGE else ""
    counted = "callgrind_toggle()\n{}\ncallgrind_toggle()\ncallgrind_dump()\n"
    body = f"for _ in range({repeats}):\n"
    body += textwrap.indent(counted.format(_unrolled(task.stmt, number)) + "gc.collect()\n", "    ")
    body += counted.format(_unrolled("pass", number)) if collect_baseline else ""
    return "\n".join([
        f"import gc, pickle, sys\nsys.path[:] = {sys.path!r}\nimport rushlight\n{serve}\ntorch = rushlight",
        f"{package} = rushlight",
        f"import {client_requests.__spec__.name} as callgrind_requests",
        "if not callgrind_requests.request(callgrind_requests.RUNNING_ON_VALGRIND):",
        "    sys.exit('not run by valgrind')",
        "callgrind_toggle = callgrind_requests.prepared(callgrind_requests.TOGGLE_COLLECT)",
        "callgrind_dump = callgrind_requests.prepared(callgrind_requests.DUMP_STATS)",
        f"torch.set_num_threads({task.num_threads})",
        globals_text,
        task.setup,
        f"for _ in range({min(number, WARM_UPS)}):\n{textwrap.indent(task.stmt, '    ')}",
        f"callgrind_body = compile({body!r}, __file__, 'exec')",
        "gc.collect()",
        "callgrind_requests.request(callgrind_requests.START_INSTRUMENTATION)",
        # Python's loop is entered again: callgrind knows only the functions that it saw being called.
        "exec(callgrind_body)",
    ])


def _run(command: list[str], log: str, **kwargs: Any) -> tuple[int, str]:
    """A command's status and what it printed, by way of a file: pipes fill."""
    with open(log, "wb") as f:
        status = subprocess.run(command, stdout=f, stderr=subprocess.STDOUT, check=False, **kwargs).returncode
    with open(log, errors="replace") as f:
        return status, f.read()


def read_counts(text: str, inclusive: bool) -> FunctionCounts:
    """The counts in what `callgrind_annotate` prints. Refuses text that has no table of functions."""
    lines, total = iter(text.splitlines()), None
    for line in lines:
        said = _TOTAL.match(line)
        total = _number(said[1]) if said is not None else total
        if _HEAD.match(line):
            break
    else:
        raise OSError(f"callgrind_annotate: expected a table of functions, got:\n{text}")
    found = []
    for line in lines:
        row = _ROW.match(line)
        if row is not None:
            found.append(FunctionCount(_number(row[1]), row[2]))
        elif not line.startswith("-"):
            break
    # From its second file on, callgrind writes everything as the own cost of whatever was running when it wrote.
    if not inclusive and total is not None and sum(c for c, _ in found) > total:
        found = [each for each in found if each.count != total]
    return FunctionCounts(tuple(sorted(found, reverse=True)), inclusive)


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _annotated(path: str, inclusive: bool, log: str) -> FunctionCounts:
    status, said = _run(
        ["callgrind_annotate", f"--inclusive={'yes' if inclusive else 'no'}", "--threshold=100", "--show-percs=no",
         path], log,
    )
    if status:
        raise OSError(f"callgrind_annotate failed:\n{said}")
    return read_counts(said, inclusive)


def _command(
    task: TaskSpec, globals: dict[str, Any], folder: str, number: int, repeats: int, collect_baseline: bool,
    is_python: bool,
) -> list[str]:
    """What valgrind runs."""
    if not is_python:
        program = cpp_statement.counted(task.stmt, task.setup, task.global_setup)
        return [program, str(number), str(repeats)]
    data = os.path.join(folder, "globals")
    os.mkdir(data)
    path = os.path.join(folder, "timer_callgrind.py")
    with open(path, "w") as f:
        f.write(_script(task, _globals_text(globals, data), number, repeats, collect_baseline))
    return [sys.executable, path]


def collect(
    task: TaskSpec, globals: dict[str, Any], *, number: int, repeats: int, collect_baseline: bool, is_python: bool,
    retain_out_file: bool,
) -> tuple[CallgrindStats, ...]:
    """Counts of `number` runs of a statement, `repeats` times."""
    check_platform()
    with tempfile.TemporaryDirectory(prefix="rushlight_callgrind_") as folder:
        out, log = os.path.join(folder, "callgrind.out"), os.path.join(folder, "log")
        command = _command(task, globals, folder, number, repeats, collect_baseline, is_python)
        status, said = _run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--dump-line=yes", "--dump-instr=yes",
             "--instr-atstart=no", "--collect-atstart=no", *command],
            log, env=environment.with_changes({"OMP_NUM_THREADS": str(task.num_threads)}),
        )
        if status:
            raise OSError(f"Failed to collect callgrind profile:\n{said}")

        def read(k: int) -> Counts:
            path, content = f"{out}.{k + 1}", None
            if retain_out_file:
                with open(path) as f:
                    content = f.read()
            return _annotated(path, True, log), _annotated(path, False, log), content

        base = read(repeats) if collect_baseline else (FunctionCounts((), True), FunctionCounts((), False), None)
        return tuple(
            CallgrindStats(task, number, has_debug_symbols(), base[0], base[1], *read(k)) for k in range(repeats)
        )
