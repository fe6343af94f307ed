"""rushlight.symbols: numbers that stand for all sizes a program may meet.

Enters: sizes as hints. Leaves: numbers that stand for any size, and guards for what was assumed of them. Refuses:
formulas it cannot decide without a hint.

    env = ShapeEnv()
    s = env.create_symbol(6)       # a SymInt with the hint 6
    t = (s * 4 + 2) // 2           # 2*s0 + 1
    if t > 9: ...                  # True, and env.guards is [9 < 2*s0 + 1]
    env.holds_for({"s0": 3})       # False

The layers: `expression` (integers), `real` (reals and truths), `ranges`, `env` (who owns symbols and decides),
`numbers` (what programs hold), `functions` (`sym_max` and its like).
"""

from .env import ConstraintViolationError, DimDynamic, Guard, GuardOnDataDependentSymNode
from .expression import Expression, Formula
from .functions import (
    expect_true,
    guard_or_false,
    guard_or_true,
    statically_known_false,
    statically_known_true,
    sym_acos,
    sym_asin,
    sym_atan,
    sym_cos,
    sym_cosh,
    sym_exp,
    sym_float,
    sym_fresh_size,
    sym_int,
    sym_ite,
    sym_log2,
    sym_max,
    sym_min,
    sym_not,
    sym_sin,
    sym_sinh,
    sym_sqrt,
    sym_sum,
    sym_tan,
    sym_tanh,
    symbolic_math,
)
from .numbers import SymBool, SymFloat, SymInt, expression_of, wrapped
from .real import Real, Truth
from .shape_env import ShapeEnv

__all__ = [
    "ConstraintViolationError", "DimDynamic", "Expression", "Formula", "Guard", "GuardOnDataDependentSymNode", "Real",
    "ShapeEnv", "SymBool", "SymFloat", "SymInt", "Truth", "expect_true", "expression_of", "guard_or_false",
    "guard_or_true", "statically_known_false", "statically_known_true", "sym_acos",
    "sym_asin", "sym_atan", "sym_cos", "sym_cosh", "sym_exp", "sym_float", "sym_fresh_size", "sym_int", "sym_ite",
    "sym_log2", "sym_max", "sym_min", "sym_not", "sym_sin", "sym_sinh", "sym_sqrt", "sym_sum", "sym_tan", "sym_tanh",
    "symbolic_math", "wrapped",
]
