"""Long sweeps take turns: which share of their cases a run goes through, and how to go through all of them.

A sweep over every op record, module or model finds what one in a few of its cases would have found, nearly always, and
what slips through is found by the next change. So a test may say which share of its cases one run is to take:

    @pytest.mark.share(4)                     on a test, or on some of its cases: one in four of those that bear it
    pytestmark = pytest.mark.share(4)         on a file: of every test in it that has several cases
    @pytest.mark.share(2, "sums of ranks")    on several tests: one in two of all that name the same group
    def test_sweep(share): share(names, 4)    the fixture, for a test that goes through its cases itself

Which ones is decided by the cases' names and the *turn*, a checksum of the package's sources: the same tree takes the
same share on every machine, and every change of the package takes another. `--turn all` takes every case,
`--turn NUMBER` the share of another tree. A run that names its tests (`file.py::test`, `-k`) takes every case too:
what failed is repeated by its name. The head of a run and the report of a test that failed say what the turn was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from zlib import crc32

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("rushlight/**/*.py", "rushlight/**/*.txt", "csrc/**/*.cpp", "csrc/**/*.h")
ALL = "all"


def turn_of_the_tree(root: Path = ROOT) -> str:
    """A number that any change of the package's sources changes."""
    checksum = 0
    for path in sorted(path for pattern in SOURCES for path in root.glob(pattern)):
        checksum = crc32(path.read_bytes(), crc32(path.relative_to(root).as_posix().encode(), checksum))
    return str(checksum)


def chosen(names: Iterable[str], of: int, turn: str) -> set[str]:
    """One in `of` of the names, rounded up; all of them where the turn says so."""
    found = set(names)
    if turn == ALL:
        return found
    order = sorted(found, key=lambda name: blake2b(f"{turn} {name}".encode(), digest_size=8).digest())
    return set(order[: -(-len(order) // of)])


def names_its_tests(config: pytest.Config) -> bool:
    return bool(config.getoption("keyword")) or any("::" in argument for argument in config.args)


def left_out(config: pytest.Config, items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The cases marked `share` whose turn it is not."""
    sharing: dict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("share")
        if mark is not None:
            of, among = mark.args if len(mark.args) > 1 else (mark.args[0], item.nodeid.partition("[")[0])
            sharing[among, of].append(item)
    found = []
    for (_, of), cases in sharing.items():
        kept = chosen((item.nodeid for item in cases), of, config.getoption("--turn"))
        found += [item for item in cases if item.nodeid not in kept]
    return found


@pytest.fixture
def share(request: pytest.FixtureRequest) -> Callable[[Iterable[str], int], list[str]]:
    """Of some names one in so many, in the order in which they were given; another test takes others."""
    test = request.node.nodeid

    def taken(names: Iterable[str], of: int) -> list[str]:
        names = list(names)
        kept = chosen((f"{test} {name}" for name in names), of, request.config.getoption("--turn"))
        return [name for name in names if f"{test} {name}" in kept]

    return taken


class Turns:
    """Decides the turn before workers are started, which are told, and shows it."""

    def __init__(self, config: pytest.Config) -> None:
        if config.getoption("--turn") is None:
            config.option.turn = ALL if names_its_tests(config) else turn_of_the_tree()
        self.turn = config.getoption("--turn")

    def pytest_report_header(self) -> str:
        return f"sweeps: turn {self.turn}"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> pytest.TestReport:
        report = yield
        shares = item.get_closest_marker("share") is not None or "share" in getattr(item, "fixturenames", ())
        if report.failed and shares and self.turn != ALL:
            report.sections.append(("Turn", f"of this sweep a share was taken; --turn {self.turn} takes it again"))
        return report
