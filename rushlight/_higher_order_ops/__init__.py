"""`torch._higher_order_ops`: control flow as functions, so that one program can run eagerly and be captured whole.

`core` says what they have in common; each op has a file. `flex_attention` is in `nn.attention`.
"""

from .associative_scan import associative_scan
from .cond import cond
from .core import HigherOrderOp, NotRecordable
from .inline_asm_elementwise import inline_asm_elementwise as _inline_asm  # noqa: F401 - as the next
from .out_dtype import out_dtype as _out_dtype  # noqa: F401 - registered; the name is its module's
from .scan import map, scan  # noqa: A004 - PyTorch's name
from .while_loop import while_loop
from .wrap import wrap_with_autocast, wrap_with_set_grad_enabled

__all__ = ["HigherOrderOp", "NotRecordable", "associative_scan", "cond", "map", "scan", "while_loop",
           "wrap_with_autocast", "wrap_with_set_grad_enabled"]
