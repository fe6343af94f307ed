"""Statements in C++: compiled by this machine's compiler, then timed or counted.

Enters: a statement, its setup and what stands before both at the top of the file. Leaves: a function that runs it a
number of times and gives seconds, or a program that does so under valgrind. A source is compiled once per process; what
was compiled goes with the process. Refuses: machines without a compiler, and statements that need PyTorch's C++ API,
which is not here, naming what they asked for.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import textwrap
import timeit
from collections.abc import Callable
from typing import Any, NoReturn

from ...base import late
from ...base.digest import digest
from ..cpp_extension import get_cxx_compiler
from . import client_requests

FLAGS = ("-std=c++20", "-O2", "-g", "-fPIC")
ROOM = 1024      # bytes of an exception's message
# What PyTorch's headers would provide; a source that defines these names itself compiles, and nothing is said of them.
_TORCH = re.compile(
    r"\b(?:torch|at|c10|aten|caffe2)::\w+|#\s*include\s*[<\"](?:torch|ATen|c10|caffe2|pybind11)/[^>\"]*[>\"]"
)
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)

_TIMED = """#include <chrono>
#include <cstdio>
#include <exception>
{global_setup}
static double rushlight_run(long long rushlight_number) {{
{setup}
  {{
{stmt}
  }}
  auto rushlight_start = std::chrono::steady_clock::now();
  for (long long rushlight_at = 0; rushlight_at < rushlight_number; ++rushlight_at) {{
{stmt}
  }}
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - rushlight_start).count();
}}
extern "C" int rushlight_timeit(long long number, double *seconds, char *message, unsigned long long room) {{
  try {{
    *seconds = rushlight_run(number);
    return 0;
  }} catch (const std::exception &error) {{
    std::snprintf(message, room, "%s", error.what());
  }} catch (...) {{
    std::snprintf(message, room, "an exception that is no std::exception");
  }}
  return 1;
}}
"""

_COUNTED = """#include <cstdlib>
{requests}
{global_setup}
int main(int, char **rushlight_words) {{
  const long rushlight_number = std::atol(rushlight_words[1]), rushlight_repeats = std::atol(rushlight_words[2]);
{setup}
  rushlight_request({start});
  for (long rushlight_at = 0; rushlight_at < (rushlight_number < 10 ? rushlight_number : 10); ++rushlight_at) {{
{stmt}
  }}
  for (long rushlight_repeat = 0; rushlight_repeat < rushlight_repeats; ++rushlight_repeat) {{
    rushlight_request({toggle});
    for (long rushlight_at = 0; rushlight_at < rushlight_number; ++rushlight_at) {{
{stmt}
    }}
    rushlight_request({toggle});
    rushlight_request({dump});
  }}
  return 0;
}}
"""


def compiler() -> list[str]:
    """The command of this machine's C++ compiler. Refuses machines without one."""
    command = shlex.split(get_cxx_compiler())
    if not command or shutil.which(command[0]) is None:
        raise NotImplementedError(
            f"Timer: C++ statements need a compiler, and there is none: {get_cxx_compiler()!r} is not found. Install"
            " one, name it in CXX, or write the statement in Python."
        )
    return command


@functools.cache
def _folder() -> str:
    """Where this process compiles, removed when it ends."""
    folder = tempfile.mkdtemp(prefix="rushlight_timer_")
    owner = os.getpid()
    # A forked child leaves what its parent still uses.
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True))
    return folder


def _refuse(source: str, said: str) -> NoReturn:
    wanted = _TORCH.findall(_COMMENTS.sub("", source))
    if wanted:
        raise NotImplementedError(
            f"Timer: the C++ statement needs PyTorch's C++ API ({', '.join(dict.fromkeys(wanted))}), whose headers are"
            " not part of Rushlight. Time plain C++, or write the statement in Python."
        )
    raise RuntimeError(f"Timer: the C++ statement does not compile:\n{said}")


@functools.cache
def _built(source: str, users: str, flags: tuple[str, ...]) -> str:
    """The path of what `source` compiles to; `users` is the part of it that a user wrote."""
    command = compiler()
    stem = os.path.join(_folder(), digest(source.encode()).hex())
    with open(f"{stem}.cpp", "w") as f:
        f.write(source)
    done = subprocess.run(
        [*command, *FLAGS, *flags, f"{stem}.cpp", "-o", stem], capture_output=True, text=True, check=False
    )
    if done.returncode:
        _refuse(users, done.stderr)
    return stem


def _filled(template: str, stmt: str, setup: str, global_setup: str, **words: Any) -> str:
    return template.format(
        stmt=textwrap.indent(stmt, "    "), setup=textwrap.indent(setup, "  "), global_setup=global_setup, **words
    )


def timed(stmt: str, setup: str, global_setup: str) -> Callable[[int], float]:
    """A function that runs the statement a number of times, after `setup`, and gives the seconds that took."""
    source, users = _filled(_TIMED, stmt, setup, global_setup), "\n".join((global_setup, setup, stmt))
    run = ctypes.CDLL(_built(source, users, ("-shared",))).rushlight_timeit
    run.argtypes = [ctypes.c_longlong, ctypes.POINTER(ctypes.c_double), ctypes.c_char_p, ctypes.c_ulonglong]

    def timeit(number: int) -> float:
        seconds, message = ctypes.c_double(), ctypes.create_string_buffer(ROOM)
        if run(number, ctypes.byref(seconds), message, ROOM):
            raise RuntimeError(message.value.decode(errors="replace"))
        return seconds.value

    return timeit


def counted(stmt: str, setup: str, global_setup: str) -> str:
    """The path of a program that takes how often the statement runs and how often that is counted, for valgrind."""
    source = _filled(
        _COUNTED, stmt, setup, global_setup, requests=client_requests.CPP,
        start=client_requests.START_INSTRUMENTATION, toggle=client_requests.TOGGLE_COLLECT,
        dump=client_requests.DUMP_STATS,
    )
    return _built(source, "\n".join((global_setup, setup, stmt)), ())


class CPPTimer:
    """What `Timer` runs for C++: compiles at its first use. Refuses globals, and accelerators that would need to be
    waited for unless `timer` says that none is used."""

    def __init__(
        self, stmt: str, setup: str, global_setup: str, timer: Callable[[], float], globals: dict[str, Any]
    ) -> None:
        if timer is not timeit.default_timer and late.provided("accelerator").is_available():
            raise NotImplementedError(
                "Timer: C++ statements are not timed on accelerators, and there is one. If the statement does not use"
                " it, say so: timer=timeit.default_timer."
            )
        if globals:
            raise ValueError(f"C++ timing does not support globals, got {', '.join(sorted(globals))}.")
        self._parts = textwrap.dedent(stmt), textwrap.dedent(setup), textwrap.dedent(global_setup)
        self._run: Callable[[int], float] | None = None

    def timeit(self, number: int) -> float:
        """Seconds of `number` runs."""
        if self._run is None:
            self._run = timed(*self._parts)
        return self._run(number)
