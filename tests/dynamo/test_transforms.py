"""What `func.vmap`, `func.grad` and their like returned, compiled or called by compiled code."""

from __future__ import annotations

import functools
import gc
import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight import func
from rushlight.dynamo.machine import interpreter
from rushlight.dynamo.record.breaks import GraphBreak
from rushlight.utils import _pytree as pytree

WEIGHT = rl.linspace(-1, 1, 3)
MADE: dict[str, Callable] = {
    "vmap": func.vmap(lambda a: a.sin() * WEIGHT),
    "vmap along others": func.vmap(lambda a: a.sin(), in_dims=1, out_dims=1),
    "grad": func.grad(lambda a: (a.sin() * 2).sum()),
    "grad with more": func.grad(lambda a: ((a * a).sum(), a + 1), has_aux=True),
    "grad_and_value": func.grad_and_value(lambda a: (a * a).sum()),
    "jacrev": func.jacrev(lambda a: a.sum(0) ** 2),
    "jacfwd": func.jacfwd(lambda a: a.sum(0).cos()),
    "vmap of grad": func.vmap(func.grad(lambda a: (a**2).sum())),
}


def same(a: Any, b: Any) -> bool:
    mine, other = pytree.tree_leaves(a), pytree.tree_leaves(b)
    return len(mine) == len(other) and all(rl.allclose(x, y) for x, y in zip(mine, other, strict=True))


@pytest.mark.parametrize("name", MADE)
def test_is_captured_whole(name: str) -> None:
    x, made = rl.randn(4, 3), MADE[name]
    assert same(rl.compile(made, fullgraph=True)(x), made(x))
    assert same(rl.compile(lambda t: made(t * 2), fullgraph=True)(x), made(x * 2))


def test_options_and_functions_are_guarded() -> None:
    def product(a: Any, b: Any) -> Any:
        return (a * b * b).sum()

    compiled = rl.compile(lambda f, a, b: f(a, b))
    x, y = rl.randn(4), rl.randn(4)
    for made in (func.grad(product), func.grad(product, argnums=1), func.grad(lambda a, b: (a + b).sin().sum())):
        assert same(compiled(made, x, y), made(x, y))


class Finder:
    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        self.asked = name


def test_finders_of_other_packages_may_be_asked_while_a_built_in_function_imports(monkeypatch: Any) -> None:
    finder = Finder()
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])

    def watched(call: Callable) -> None:
        gc.collect()      # what others left is not to be finished here
        sys.setprofile(interpreter._watch)
        try:
            call()
        finally:
            sys.setprofile(None)

    with pytest.raises(ModuleNotFoundError):
        watched(functools.partial(importlib.import_module, "no_module_of_this_name"))
    assert finder.asked == "no_module_of_this_name"
    with pytest.raises(GraphBreak):
        watched(functools.partial(finder.find_spec, "asked by the program", None))


def test_an_installed_copy_is_known_as_our_own(tmp_path: Path) -> None:
    """Built-in functions may call it while graphs are captured, though other packages lie beside it."""
    package = tmp_path / "site-packages" / "rushlight"
    package.mkdir(parents=True)
    native = [Path(sys.modules[f"rushlight.{name}"].__file__) for name in ("_C", "_extras")]
    for part in [*Path(rl.__file__).parent.glob("*"), *native]:
        if not (package / part.name).exists():
            (package / part.name).symlink_to(part)
    program = """
import sys
# An editable installation finds the package by a finder that stands before the path.
sys.meta_path[:] = [finder for finder in sys.meta_path if "ditable" not in f"{type(finder).__module__} {finder!r}"]
import rushlight as rl
assert "site-packages" in rl.__file__
x = rl.ones(2, 3)
made = rl.func.vmap(rl.func.grad(lambda a: a.sin().sum()))
assert rl.allclose(rl.compile(made, fullgraph=True)(x), made(x))
layers = rl.nn.ModuleList([rl.nn.Linear(3, 3) for _ in range(3)])
def walk(x):
    for i, layer in enumerate(layers):
        x = layer(x).tanh() * (i + 1)
    return x
assert rl.allclose(rl.compile(walk, fullgraph=True)(x), walk(x))
"""
    given = {**os.environ, "PYTHONPATH": str(tmp_path / "site-packages")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=given, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
