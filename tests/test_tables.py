"""Tables of text beside modules: what a row is, floats to the last bit, names that are not there."""

import math
import subprocess
import sys

import pytest

from rushlight.base import tables
from rushlight.loops import coefficients


def test_rows_go_on_in_indented_lines_and_comments_are_none(tmp_path):
    (tmp_path / "some.txt").write_text("# what it is\n\nA f32: 1\n    2\n# between\n    3\nB: 4\n")
    assert tables.rows(str(tmp_path / "some.py")) == ["A f32: 1 2 3", "B: 4"]


def test_floats_come_back_to_the_last_bit(tmp_path):
    numbers = (0.1, math.pi, 5e-324, -1.7976931348623157e308, 2.0**-149, math.nextafter(1, 2))
    (tmp_path / "some.txt").write_text(f"PLAIN: {' '.join(map(repr, numbers))}\nBY f32: 0.5\nBY f64: 0.25 1.0\n")
    table = tables.float_tables("some", str(tmp_path / "some.py"))
    assert [x.hex() for x in table("PLAIN")] == [x.hex() for x in numbers]
    assert table("BY") == {"f32": (0.5,), "f64": (0.25, 1.0)}
    with pytest.raises(AttributeError, match="module 'some' has no attribute 'OTHER'"):
        table("OTHER")


def test_constants_are_sums_of_their_parts():
    assert math.fsum(coefficients.LN2["f64"]) == math.log(2) and math.fsum(coefficients.PI["f64"]) == math.pi
    assert [len(coefficients.TURNS[f"part{j}"]) for j in range(4)] == [33] * 4


def test_importing_reads_no_table():
    code = ("import sys\nsys.addaudithook(lambda event, args: event == 'open' "
            "and str(args[0]).endswith('.txt') and print(args[0]))")
    done = subprocess.run([sys.executable, "-c", f"{code}\nimport rushlight, rushlight.loops.math.special"],
                          capture_output=True, text=True, check=True)
    assert "rushlight" not in done.stdout
