"""What the whole suite shares: a quick tier, and records of what has passed and how long each test took (clock.py).

    pytest --quick            nothing marked `slow` or `ecosystem`, and a few cases of each test that has many (tiers.py
                              has the rule)
    pytest --still-to-pass    only tests that have not passed in an earlier run here. `.ci/run` uses it after PyTorch
                              has been
                              installed, to run exactly what the first run could not:
                              no list of "tests that need PyTorch" to keep.
    pytest --turn all         every case of the sweeps that else take turns (shares.py)
"""

from __future__ import annotations

import os

import pytest

from tests.clock import Clock
from tests.shares import Turns, left_out as not_in_turn, share  # noqa: F401 - a fixture
from tests.tiers import quick

# Tests of the compiler are to compile: graphs that an earlier run kept would be found. Tests of that turn it on.
os.environ.setdefault("RUSHLIGHT_GRAPH_CACHE", "0")

PASSED = "rushlight/passed"   # in pytest's own cache: the ids of the tests that have passed


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("rushlight")
    group.addoption(
        "--quick", action="store_true", help="a few cases of each test, none that is slow (about 3 minutes on 2 cores)"
    )
    group.addoption(
        "--still-to-pass", action="store_true", help="only tests that no earlier run with this cache has passed"
    )
    group.addoption(
        "--turn", metavar="NUMBER", help="of long sweeps the share that a tree of this number takes; `all`: every case"
    )
    group.addoption("--twice", action="store_true", help="each test twice on end; what it took is what the second did")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = quick(config, items) if config.getoption("--quick") else not_in_turn(config, items)
    if config.getoption("--still-to-pass"):
        done = set(config.cache.get(PASSED, []))
        left_out += [item for item in items if item.nodeid in done]
    gone = set(left_out)
    if gone:
        config.hook.pytest_deselected(items=list(gone))
        items[:] = [item for item in items if item not in gone]


class Passed:
    """Notes the tests that pass in all their phases, and keeps them for a later run.
    Only the process that hears of all of them has one."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.good: set[str] = set()
        self.bad: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.good.add(report.nodeid)
        elif not report.passed:
            self.bad.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        before = set(self.config.cache.get(PASSED, [])) if self.config.getoption("--still-to-pass") else set()
        self.config.cache.set(PASSED, sorted((before | self.good) - self.bad))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Turns(config), "rushlight-turns")
    if hasattr(config, "cache"):
        config.pluginmanager.register(Clock(config), "rushlight-clock")
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(Passed(config), "rushlight-passed")


@pytest.fixture
def without_suppositions(monkeypatch):
    """In captured frames, branches on elements that are else supposed to go as in the first call break the graph."""
    monkeypatch.setattr("rushlight.dynamo.rules.checks.supposed", lambda *args: None)
