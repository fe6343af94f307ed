"""What TorchConfig.cmake asks: `python -m rushlight.cxx.cmake`.

Enters: nothing but the environment (CXX). Leaves: three lines: folders of headers, the runtime library, and what links
the interpreter, each separated by bars. Refuses a Python without a shared library, which no program can embed.
"""

from __future__ import annotations

import os
import sysconfig

from . import build, inline


def answer() -> str:
    """The three lines."""
    folder = sysconfig.get_config_var("LIBDIR")
    name = f"libpython{sysconfig.get_config_var('LDVERSION')}"
    if not any(os.path.exists(os.path.join(folder, name + ending)) for ending in (".so", ".a")):
        raise RuntimeError(
            f"this Python has no {name} in {folder} that a program could link; use one built with --enable-shared"
        )
    runtime = build.runtime_folder()
    headers = [str(build.HEADERS), str(runtime / "include"), *build.python_includes()]
    archive = str(runtime / "lib" / f"lib{build.LIBRARY}.a")
    return "\n".join(("|".join(headers), archive, "|".join(inline.embedding_flags())))


if __name__ == "__main__":
    print(answer())
