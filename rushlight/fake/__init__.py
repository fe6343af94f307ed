"""rushlight.fake: tensors without data. Shapes, strides, dtypes and devices through every op,
with symbolic sizes if wanted.

Enters: tensors, and calls of ops. Leaves: tensors that have everything but elements, and guards on symbolic sizes.
Refuses: what needs elements.

    env = ShapeEnv()
    with FakeTensorMode(shape_env=env) as mode:
        x = mode.from_tensor(rushlight.randn(3, 5))
        y = (x @ x.T).softmax(-1).flatten()
    y.shape          # Size([s0**2])
    env.guards       # what was assumed of the sizes: nothing here
"""

from ..symbols import (
    Expression,
    Guard,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    SymBool,
    SymFloat,
    SymInt,
    sym_max,
    sym_min,
)
from .tensor import (
    DataDependentOutputException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    is_for_others,
)

__all__ = [
    "DataDependentOutputException", "Expression", "FakeTensor", "FakeTensorMode", "Guard",
    "GuardOnDataDependentSymNode", "ShapeEnv", "SymBool", "SymFloat",
    "SymInt", "UnsupportedFakeTensorException", "is_for_others", "sym_max", "sym_min",
]
