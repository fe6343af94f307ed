"""Programs for tests of the cache on disk: run in processes of their own, or as if they were."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rushlight as rl
from rushlight.aot.graphs import cache as graph_cache

FOUND, MADE, NOT_KEPT = {"found": 1}, {"missing": 1, "kept": 1}, {"missing": 1, "not kept": 1}


def run_program(folder: Any, program: str, **environment: str) -> dict[str, Any]:
    """What a program prints, as JSON, in a process that keeps graphs and frames in a folder."""
    given = {**os.environ, "RUSHLIGHT_CACHE": str(folder), "RUSHLIGHT_GRAPH_CACHE": "1", **environment}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=given)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run_elsewhere(folder: Any, program: str, place: Path) -> dict[str, Any]:
    """The same of a program whose caches were packed in a folder and unpacked in an empty one."""
    packed = str(place / "packed")
    run_program(folder, f"{program}\nopen({packed!r}, 'wb').write(rl.compiler.save_cache_artifacts()[0])\n")
    loading = f"import rushlight as rl\nrl.compiler.load_cache_artifacts(open({packed!r}, 'rb').read())\n"
    return run_program(place / "elsewhere", loading + program)


def happened(function: Callable, *args: Any, **told: Any) -> tuple[dict[str, int], Any]:
    """What became of the frames of one call by a program that has compiled nothing, and its result."""
    rl.compiler.reset()
    graph_cache.frame_counts.clear()
    result = rl.compile(function, **told)(*args)
    return dict(graph_cache.frame_counts), result
