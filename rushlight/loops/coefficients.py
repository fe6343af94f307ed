"""Polynomial coefficients, lowest power first, by dtype: `coefficients.EXP["f64"]`.
"lite" is for arithmetic in float64 of which the result is rounded to float32.

tools/fit_coefficients.py writes the text beside this module, which is read when a table is first asked for.
"""

from __future__ import annotations

from typing import Any

from ..base.tables import float_tables

_table = float_tables(__name__, __file__)


def __getattr__(name: str) -> Any:
    """The table of a name."""
    return _table(name)
