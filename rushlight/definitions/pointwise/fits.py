"""Chebyshev coefficients of special functions, each named by what it fits and where: `fits.K0_SMALL`.

Computed by tools/fit_special.py in 40-digit arithmetic, accurate to float64 rounding; read when first asked for.
"""

from __future__ import annotations

from typing import Any

from ...base.tables import float_tables

_table = float_tables(__name__, __file__)


def __getattr__(name: str) -> Any:
    """The table of a name."""
    return _table(name)
