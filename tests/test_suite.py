"""The suite itself: it can be collected, and passes,
on a machine that has nothing but what the README's test command installs."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import tiers

HERE = Path(__file__).resolve().parent
# The package, what it depends on, and its `test` extra; everything else must be asked for with pytest.importorskip.
PRESENT = {
    "rushlight",
    "tests",
    "benchmarks",
    "numpy",
    "llvmlite",
    "pytest",
    "_pytest",
    "xdist",
    "hypothesis",
    "mpmath",
    *sys.stdlib_module_names,
    *(tool.stem for tool in (HERE.parent / "tools").glob("*.py")),
}


def imported(node: ast.stmt) -> list[str]:
    """The top-level packages that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [node.module.partition(".")[0]]
    return []


def asked_for(node: ast.stmt) -> list[str]:
    """The packages a statement asks for with `importorskip`."""
    return [
        call.args[0].value.partition(".")[0]
        for call in ast.walk(node)
        if isinstance(call, ast.Call)
        and getattr(call.func, "attr", "") == "importorskip"
        and isinstance(call.args[0], ast.Constant)
    ]


def of_the_tests(node: ast.stmt, path: Path) -> list[Path]:
    """The files of the tests that a statement imports from: by their full names, or as neighbours."""
    if isinstance(node, ast.ImportFrom):
        names = [node.module] if node.module else [alias.name for alias in node.names]     # from . import neighbours
    else:
        names = [node.names[0].name] if isinstance(node, ast.Import) else []
    places = [
        place
        for name in names
        for place in (
            HERE.parent / (name.replace(".", "/") + ".py"),
            path.parent / f"{name}.py",
            HERE / "devices" / f"{name}.py",
        )
    ]
    return [place for place in places if place.is_relative_to(HERE) and place.exists()]


@cache
def statements(path: Path) -> list[ast.stmt]:
    return ast.parse(path.read_text()).body


def unguarded(path: Path, asked: frozenset[str] = frozenset()) -> Iterator[str]:
    """Packages that importing a file needs and that may be absent;
    modules of the tests that it imports are followed."""
    for node in statements(path):
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.If)):
            asked = asked | set(asked_for(node))
        if others := of_the_tests(node, path):
            for other in others:
                yield from unguarded(other, asked)
            continue
        for package in imported(node):
            if package not in PRESENT and package not in asked:
                yield f"{path.relative_to(HERE)}:{node.lineno}: {package}"


def test_every_module_of_tests_can_be_imported_with_nothing_else_installed() -> None:
    found = [problem for path in sorted(HERE.rglob("test_*.py")) for problem in unguarded(path)]
    assert not found, "\n".join(found)


# --- the quick tier ---------------------------------------------------------------------------------------------------


def case(test: str, *marks: str, **values: Any) -> Any:
    """What the rule of the quick tier looks at of a collected test."""
    shown = "-".join(map(str, values.values()))
    spec = SimpleNamespace(
        params=values,
        indices={name: int(str(value).strip("abcdefghijklmnopqrstuvwxyz") or 0) for name, value in values.items()},
    )
    item = SimpleNamespace(
        nodeid=f"{test}[{shown}]" if values else test, get_closest_marker=lambda name: name if name in marks else None
    )
    return SimpleNamespace(**vars(item), callspec=spec) if values else item


def ids(items: Any) -> list[str]:
    return sorted(item.nodeid for item in items)


def kept(items: list[Any]) -> list[str]:
    chosen = {id(item) for item in tiers.chosen(items)}
    return ids(item for item in items if id(item) in chosen)


def test_quick_tier_keeps_a_few_cases_of_every_test() -> None:
    sweep = [case("t.py::test_sweep", op=f"op{i}") for i in range(500)]
    single, few = [case("t.py::test_single")], [case("t.py::test_few", n=i) for i in range(tiers.FEW)]
    found = kept([*sweep, *single, *few])
    assert len([name for name in found if "sweep" in name]) == tiers.FEW
    assert set(ids(single + few)) <= set(found)


def test_quick_tier_meets_every_value_of_an_argument_that_has_few() -> None:
    cases = [
        case("t.py::test_grid", op=f"op{i}", dtype=f"d{j}", check=f"c{k}")
        for i in range(40)
        for j in range(tiers.MANY_VALUES)
        for k in range(3)
    ]
    found = kept(cases)
    assert all(any(f"-d{j}-" in name for name in found) for j in range(tiers.MANY_VALUES))
    assert all(any(name.endswith(f"-c{k}]") for name in found) for k in range(3))
    assert len(found) <= tiers.MANY_VALUES + 3


def test_quick_tier_does_not_hang_on_the_order_or_on_what_else_there_is() -> None:
    cases = [case("t.py::test_sweep", op=f"op{i}") for i in range(500)]
    assert kept(cases) == kept(cases[::-1])
    assert kept([case("a.py::test_other", n=1), *cases]) == ["a.py::test_other[1]", *kept(cases)]
    more = kept([*cases, case("t.py::test_sweep", op="op1000")])
    assert len(set(more) - set(kept(cases))) <= 1


@pytest.mark.parametrize("mark", tiers.LEFT_OUT)
def test_quick_tier_has_nothing_slow(mark: str) -> None:
    assert kept([case("t.py::test_all", mark), case("t.py::test_one")]) == ["t.py::test_one"]


def test_quick_tier_has_nothing_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "LONG", frozenset(["t.py::test_all"]))
    cases = [case("t.py::test_all", n=1), case("t.py::test_all", n=2), case("t.py::test_one")]
    assert kept(cases) == ["t.py::test_one"]


def test_what_is_noted_as_long_exists() -> None:
    names = [test.partition("::") for test in tiers.LONG]
    missing = [f"{path}::{test}" for path, _, test in names
               if f"def {test.rpartition('::')[2]}(" not in (HERE.parent / path).read_text()]
    assert not missing, f"write tests/long.txt again (python -m tests.clock RECORD --note-long): {missing}"


def test_quick_tier_of_this_run_represents_every_test(request: pytest.FixtureRequest) -> None:
    """With `--quick`: of what was collected, nothing but what is slow has lost all its cases."""
    missing = request.config.stash.get(tiers.UNREPRESENTED, None)
    if missing is None:
        pytest.skip("not a run of the quick tier")
    assert not missing
