"""Run a program of this folder with another build of `rushlight._stable`: with_stable.py PATH PROGRAM ARGUMENTS..."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path

import rushlight

path, program, *arguments = sys.argv[1:]
# The libraries that extensions name lie beside the module that was installed, and are looked for beside this one.
installed = Path(importlib.util.find_spec("rushlight._stable").origin).with_name("lib")
if installed.exists() and not Path(path).with_name("lib").exists():
    Path(path).with_name("lib").symlink_to(installed)
spec = importlib.util.spec_from_file_location("rushlight._stable", path)
module = importlib.util.module_from_spec(spec)
sys.modules["rushlight._stable"] = rushlight._stable = module
spec.loader.exec_module(module)
sys.argv = [program, *arguments]
runpy.run_path(str(Path(__file__).with_name(program)), run_name="__main__")
