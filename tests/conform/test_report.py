"""The report a vendor gets: plain data by its schema, a page that works from disk, sentences that say what differs."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser

import pytest

import rushlight as rl
from rushlight.conform import edges, extremes, same, values, whole
from rushlight.conform.page import html
from rushlight.conform.report import Area, Failure, Report, lines

NAN, INF = float("nan"), float("inf")


def report() -> Report:
    """One with something of everything."""
    failed = Failure("ops", "add <b>", "the result is <1> & not 2", "import rushlight as rl\nprint('<x>')\n")
    row = {"name": "add of 4x4, a call", "value": 12.3456, "unit": "µs", "host": 0.5}
    skipped = Area(seconds=0.1, reasons={"the device has no streams": ["first", "second"]})
    areas = {"ops": Area(3, 1, 2.0), "streams": skipped, "performance": Area(1)}
    return Report("chip", True, areas, [failed], [row], Counter({"linalg_qr": 4}))


def test_plain_data_has_the_promised_keys_and_no_others() -> None:
    data = json.loads(json.dumps(report().as_json()))
    assert set(data) == {"device", "areas", "failures", "performance"}
    assert data["device"] == "chip"
    assert data["areas"]["ops"] == {"passed": 3, "failed": 1, "skipped": 0, "seconds": 2.0}
    assert data["areas"]["streams"]["skipped"] == 2
    assert set(data["failures"][0]) == {"area", "case", "message", "repro"}
    names = [row["name"] for row in data["performance"]]
    assert names == ["add of 4x4, a call", "linalg_qr, computed on the host"]      # told, not held against the device


class Page(HTMLParser):
    """Tags that are closed in order, and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tables, self.text = 0, ""

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tables += tag == "table"
        assert not {"src", "href", "onclick"} & {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_stands_alone_and_shows_everything() -> None:
    text = html(report())
    page = Page()
    page.feed(text)
    assert page.open == [] and page.tables == 4
    assert "http" not in text and "<script" not in text and "url(" not in text and "@import" not in text
    for said in ("chip", "add <b>", "the result is <1> & not 2", "print('<x>')", "linalg_qr", "12.3", "first, second"):
        assert said in page.text, said
    clean = html(Report("chip", areas={"ops": Area(3)}))
    assert "all of 3 cases passed" in clean and "Failures" not in clean


def test_the_terminal_is_told_the_verdict_last_and_a_script_before_it() -> None:
    told = list(lines(report()))
    assert told[-1] == "chip: 1 of 5 cases failed, in ops, 2 skipped"
    text = "\n".join(told)
    assert re.search(r"^ops +3 +1 +- +2\.0$", text, re.M)
    assert "skipped in streams: 2, because the device has no streams" in text
    assert "    print('<x>')" in text and "linalg_qr (4)" in text


@pytest.mark.parametrize("got, want, how, said", [
    (rl.tensor([1.0, 2.0]), rl.tensor([1.0, 2.5]), {}, r"at \[1\] is 2\.0, the host has 2\.5, 0\.5 apart"),
    (rl.tensor([0.0]), rl.tensor([-0.0]), {"exact": True}, "is 0.0, the host has -0.0"),
    (rl.tensor([1.0]), rl.tensor([NAN]), {"rtol": 9.0}, "the host has nan"),
    (rl.tensor([NAN]), rl.tensor([1.0]), {"rtol": 9.0}, "is nan"),
    (rl.tensor([1e38]), rl.tensor([INF]), {"rtol": 9.0}, "the host has inf"),
    (rl.tensor([INF]), rl.tensor([-INF]), {}, "the host has -inf"),
    (rl.tensor([1]), rl.tensor([1.0]), {}, "is of int64, the host's of float32"),
    (rl.ones(2, 3), rl.ones(3, 2), {}, r"sizes \(2, 3\)"),
    (rl.tensor([2**53]), rl.tensor([2**53 + 1]), {}, "1 of 1 elements differ"),
    (rl.tensor([True, False]), rl.tensor([True, True]), {}, r"at \[1\] is False"),
    ((rl.ones(2), rl.ones(2)), (rl.ones(2), rl.zeros(2)), {}, r"the result\[1\] at \[0\]"),
    (rl.tensor([1 + 2j]), rl.tensor([1 + 3j]), {}, r"at \[0, 1\] is 2\.0"),
    (1.0, 2.0, {}, "is 1.0, the host has 2.0"),
    (rl.tensor([1.0 + 2**-23]), rl.tensor([1.0]), {"exact": True}, "every bit must agree"),
])
def test_what_differs_is_said(got: object, want: object, how: dict, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        same(got, want, **how)


def test_what_is_the_same_passes() -> None:
    specials = rl.tensor([NAN, INF, -INF, 0.0, -0.0, 1e-45])
    same(specials, specials.clone(), exact=True)
    same(rl.tensor([1.0 + 1e-6, 0.0]), rl.tensor([1.0, -0.0]))
    same({"a": [rl.empty(0, 3), 2]}, {"a": [rl.empty(0, 3), 2]})


def test_numbers_are_spread_and_special_ones_are_all_there() -> None:
    x = values(1000)
    assert len(set(x.tolist())) == 1000 and x.min() < -1.9 and x.max() > 1.9 and abs(x.mean()) < 0.1
    assert not rl.equal(values(50), values(50, seed=1))
    assert set(whole(200, low=-2, high=3).tolist()) == {-2, -1, 0, 1, 2}
    found = edges().tolist()
    assert any(v != v for v in found) and {INF, -INF, 0.0}.issubset(found)
    assert [v for v in extremes().tolist() if 0 < v < 2**-126] and 2**31 - 1 in edges(rl.int32).tolist()
