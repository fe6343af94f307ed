"""Attention under a bool mask on devices that skip what it hides.

Enters: what attention/flash.py takes, and a bool mask [1 or batch, 1 or heads, queries, keys]. Leaves: the result and
the logarithms of the summed exponentials, by the device's

    _hidden_attention((result, logarithms), query, key, value, mask, scale)

which fills its first argument or returns False; attention with any mask serves then, and for the gradients.
"""

from __future__ import annotations

from ... import _C
from ...op import Extern, Spec, find_op
from ...op.extern import own_function
from .device import like_query
from .scaled import HALF

FLASH = "_scaled_dot_product_flash_attention_for_cpu"


class AttentionHidden(Extern):
    """Attention of which a mask hides much, and the logarithms of the summed exponentials."""

    batch = "loop"
    schema = (
        "_attention_hidden(Tensor query, Tensor key, Tensor value, Tensor mask, float scale) -> (Tensor output, Tensor"
        " logsumexp)"
    )
    function = method = out = False

    def meta(self, query, key, value, mask, scale):
        shape = (*query.shape[:3], value.shape[3])
        log = _C.float32 if query.dtype in HALF else query.dtype
        return Spec(shape, query.dtype, like_query(query, shape)), Spec(tuple(query.shape[:3]), log)

    def cpu(self, out, query, key, value, mask, scale):
        found = find_op(FLASH)(query, key, value, 0.0, False, attn_mask=mask, scale=scale)
        for target, source in zip(out, found, strict=True):
            target.copy_(source)

    def elsewhere(self, out, query, key, value, mask, scale):
        own = own_function("_hidden_attention", query.device)
        if own is None or not own(out, query, key, value, mask, scale):
            self.cpu(out, query, key, value, mask, scale)

    def vjp(self, g, query, key, value, mask, scale, result):
        if g[0] is None:
            return {}
        found = find_op(f"{FLASH}_backward")(
            g[0], query, key, value, result[0], result[1], 0.0, False, attn_mask=mask, scale=scale
        )
        return {"query": found[0], "key": found[1], "value": found[2]}
