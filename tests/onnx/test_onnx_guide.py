"""The code of docs/onnx.md runs."""

from __future__ import annotations

from pathlib import Path


def test_the_table_of_operators_is_made_from_the_rules():
    from rushlight.onnx.importing import loading  # noqa: F401 - which loads every family
    from rushlight.onnx.importing.checking import CONTROL
    from rushlight.onnx.importing.table import listed

    text = (Path(__file__).parents[2] / "docs" / "onnx.md").read_text(encoding="utf-8")
    written = text.split("<!-- operators -->\n")[1].split("\n<!-- end -->")[0]
    assert written == listed(CONTROL), "write what listed(CONTROL) gives between the marks in docs/onnx.md"
