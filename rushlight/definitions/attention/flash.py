"""Attention that never holds all scores: blocks of queries against blocks of keys, on one thread each.

Enters: 4-D query, key and value [batch, heads, length, width], the fewer heads of key and value shared by groups of
query heads. Leaves: the result and, per query, the logarithm of its summed exponentials, from which the backward
recomputes the weights. Refuses: dropout. Both directions are nests of tiles (codegen/schedule/cpu/attention.py,
cpu/attention_backward.py); scratch memory is a few blocks per thread, whatever the lengths. Blocks of keys that
causal attention hides are skipped, forward also those that a mask hides from a group of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _C
from ...op import Composite, Library, Spec, find_op
from ...op.step import Step
from ...planners.attention.flash import backward_schedule, forward_schedule, readable
from ...planners.attention.tiles import fits as fits_tiles
from ...rules.batching import batch, expanded, folded
from ..norm.rows import through_body
from .device import backward_step, forward_step, gradients, like_query
from .scaled import HALF


class _Flash(Library):
    """What both directions share: they are planned for single and double precision, and for bfloat16 on tile registers;
    other half types are computed in single."""

    batch = "fold"
    example_ndim = 3
    method = False
    out = False

    def check(self, query: Any, key: Any, value: Any, dropout_p: float) -> None:
        if dropout_p != 0:
            raise RuntimeError(
                f"{self.name}: does not support dropout, got dropout_p={dropout_p}. Use"
                " _scaled_dot_product_attention_math."
            )
        if not (query.ndim == key.ndim == value.ndim == 4):
            raise RuntimeError(
                f"{self.name}: expected 4-D query, key and value, got {query.ndim}-D, {key.ndim}-D and {value.ndim}-D"
            )
        if not (query.dtype is key.dtype is value.dtype) or not query.dtype.is_floating_point:
            raise RuntimeError(
                f"{self.name}: expected one floating dtype, got {query.dtype.name}, {key.dtype.name} and"
                f" {value.dtype.name}"
            )
        same = key.shape[:3] == value.shape[:3] and key.shape[0] == query.shape[0] and key.shape[3] == query.shape[3]
        if not same or not key.shape[1] or query.shape[1] % key.shape[1]:
            raise RuntimeError(
                f"{self.name}: shapes {list(query.shape)}, {list(key.shape)} and {list(value.shape)} do not fit"
                " together"
            )

    @staticmethod
    def has_kernels(query: Any, key: Any, value: Any, mask: Any, read: Sequence[Any]) -> bool:
        """Whether kernels take such tensors, `read` being those whose rows they multiply; else `run` makes others."""
        if query.device.type not in ("cpu", "meta"):
            return False
        if query.dtype.code not in ("f32", "f64") and not fits_tiles(query, value):
            return False
        if 0 in query.shape or 0 in key.shape or not value.shape[3]:
            return False
        masks = (_C.bool, query.dtype, *((_C.float32,) if query.dtype in HALF else ()))
        return all(readable(t) for t in read) and (mask is None or mask.dtype in masks)

    @staticmethod
    def widened(dtype: Any, tensors: Sequence[Any], on_tiles: bool) -> list[Any]:
        """Tensors of a type and layout that plans take; those that fit already are the same objects."""
        wide = dtype if on_tiles or dtype.code in ("f32", "f64") else _C.float32
        outs = [t if t.dtype is wide else t.to(wide) for t in tensors]
        return [t if not t.numel() or readable(t) else t.contiguous() for t in outs]

    @staticmethod
    def widened_mask(dtype: Any, mask: Any) -> Any:
        wide = dtype if dtype.code in ("f32", "f64") else _C.float32
        return mask if mask is None or mask.dtype in (_C.bool, wide) else mask.to(wide)


def visible_scores(query: Any, key: Any, is_causal: bool) -> int:
    """How many pairs of a query and a key attention looks at."""
    rows, columns = query.shape[2], key.shape[2]
    hidden = sum([columns - i - 1 for i in range(min(rows, columns))]) if is_causal else 0
    return query.shape[0] * query.shape[1] * (rows * columns - hidden)


def is_elsewhere(t: Any) -> bool:
    """Whether a tensor is on a plugged-in device, whose own function is asked first."""
    return t.device.type not in ("cpu", "meta")


class FlashAttention(_Flash):
    """Attention and the logarithms of its summed exponentials, block by block."""

    schema = (
        "_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, bool"
        " is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)"
    )

    def meta(self, query, key, value, dropout_p, is_causal, mask, scale):
        self.check(query, key, value, dropout_p)
        shape, log = (*query.shape[:3], value.shape[3]), query.dtype
        if query.dtype in HALF:
            log = _C.float32
        return Spec(shape, query.dtype, like_query(query, shape)), Spec(tuple(query.shape[:3]), log)

    def flops(self, query, key, value, dropout_p, is_causal, mask, scale):
        """Those of the products: scores, and their sums of values."""
        return 2 * visible_scores(query, key, is_causal) * (query.shape[3] + value.shape[3])

    def is_planned(self, args):
        return is_elsewhere(args[0]) or self.has_kernels(*args[:3], args[5], args[:3])

    def steps(self, args, room):
        if not is_elsewhere(args[0]):
            return super().steps(args, room)
        query, _, _, _, is_causal, mask, scale = args
        return [Step(forward_step(query, is_causal, mask, scale), list(range(room.next)), [], 1, 1, -1)]

    def launches(self, args):
        query, key, value, _, is_causal, mask, scale = args
        result = like_query(query, (*query.shape[:3], value.shape[3]))
        return forward_schedule(query, key, value, mask, is_causal, scale, result)

    def run(self, query, key, value, dropout_p, is_causal, mask, scale):
        given = (query, key, value, mask)
        on_tiles = fits_tiles(query, value)
        wide = self.widened(query.dtype, given[:3], on_tiles)
        mask = mask if on_tiles else self.widened_mask(query.dtype, mask)
        # the op again, on operands it has a plan for
        if any(a is not b for a, b in zip(given, (*wide, mask), strict=True)):
            out, log = find_op(self.name)(*wide, 0.0, is_causal, attn_mask=mask, scale=scale)
            return self.wrap((out.to(query.dtype), log))
        out, _ = find_op("_scaled_dot_product_attention_math")(
            query, key, value, None if is_causal else mask, 0.0, is_causal, None, scale=scale, enable_gqa=True
        )
        return self.wrap((out, query.new_zeros(query.shape[:3])))

    def vjp(self, g, query, key, value, dropout_p, is_causal, attn_mask, scale, result):
        if g[1] is not None:   # forward mode asks for it; the form that holds all scores answers
            grad = g[0] if g[0] is not None else result[0].new_zeros(result[0].shape)
            out = gradients(grad, query, key, value, is_causal, attn_mask, scale, g[1])
            return {"query": out[0], "key": out[1], "value": out[2]}
        if g[0] is None:
            return {}
        backward = find_op("_scaled_dot_product_flash_attention_for_cpu_backward")
        out = backward(g[0], query, key, value, result[0], result[1], 0.0, is_causal, attn_mask=attn_mask, scale=scale)
        return {"query": out[0], "key": out[1], "value": out[2]}


class FlashAttentionBackward(_Flash):
    """Gradients of attention for query, key and value, from the weights recomputed block by block."""

    schema = (
        "_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value,"
        " Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, float? scale=None)"
        " -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)"
    )

    def meta(self, grad, query, key, value, out, log, dropout_p, is_causal, mask, scale):
        self.check(query, key, value, dropout_p)
        shapes = [tuple(t.shape) for t in (query, key, value)]
        return tuple([Spec(shape, query.dtype, like_query(query, shape)) for shape in shapes])

    def flops(self, grad, query, key, value, out, log, dropout_p, is_causal, mask, scale):
        """Those of the products: the scores again, and one for each of their gradient, values', queries' and keys'."""
        return 2 * visible_scores(query, key, is_causal) * (3 * query.shape[3] + 2 * value.shape[3])

    def is_planned(self, args):
        return is_elsewhere(args[1]) or (
            self.has_kernels(*args[1:4], args[8], args[:5]) and args[5]._is_contiguous()
        )

    def steps(self, args, room):
        if not is_elsewhere(args[1]):
            return super().steps(args, room)
        is_causal, mask, scale = args[7:]
        return [Step(backward_step(args[1], is_causal, mask, scale), list(range(room.next)), [], 1, 1, -1)]

    def launches(self, args):
        query, is_causal, mask, scale = args[1], *args[7:]
        results = [like_query(query, tuple(t.shape))[:3] for t in args[1:4]]
        return backward_schedule(args[:5], mask, is_causal, scale, results)

    def run(self, grad, query, key, value, out, log, dropout_p, is_causal, mask, scale):
        given = (grad, query, key, value, out, log, mask)
        on_tiles = fits_tiles(query, value)
        wide = self.widened(query.dtype, given[:5], on_tiles)
        mask, log = mask if on_tiles else self.widened_mask(query.dtype, mask), log.contiguous()
        if any(a is not b for a, b in zip(given, (*wide, log, mask), strict=True)):
            found = find_op(self.name)(*wide, log, 0.0, is_causal, attn_mask=mask, scale=scale)
            return self.wrap(tuple(t.to(query.dtype) for t in found))
        return self.wrap(tuple(t.new_zeros(t.shape) for t in (query, key, value)))   # nothing to attend to

    def vmap(self, level: Any, overload: Any, args: tuple) -> Any:
        """The batch joins dim 0; the logarithms get the dim they lack for that."""
        at = self.spec.index("logsumexp")
        log = batch(level, expanded(args[at], level).unsqueeze(-1), 0)
        return folded(level, overload, (*args[:at], log, *args[at + 1 :]))

    def vjp(self, g, grad_out, query, key, value, is_causal, attn_mask, scale):
        body = through_body(
            lambda a, q, k, v: gradients(a, q, k, v, is_causal, attn_mask, scale),
            g,
            {"grad_out": grad_out, "query": query, "key": key, "value": value},
        )
        return body


# --- the forms of other devices, by their names -----------------------------------------------------------------------


class FlashAttentionForward(Composite):
    """Blocked attention over [batch, length, heads, width], as graphs made for accelerators name it.
    Dense batches only."""

    schema = (
        "_flash_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? cum_seq_q, Tensor? cum_seq_k, int"
        " max_q, int max_k, float dropout_p, bool is_causal, bool return_debug_mask, *, float? scale=None, int?"
        " window_size_left=None, int? window_size_right=None, Tensor? seqused_k=None, Tensor? alibi_slopes=None,"
        " Tensor? block_table=None, int? num_splits=None) -> (Tensor output, Tensor softmax_logsumexp, Tensor"
        " rng_state, Tensor unused, Tensor debug_attn_mask)"
    )
    function = method = out = False

    def compute(
        self,
        query,
        key,
        value,
        cum_seq_q,
        cum_seq_k,
        max_q,
        max_k,
        dropout_p,
        is_causal,
        return_debug_mask,
        scale,
        window_size_left,
        window_size_right,
        seqused_k,
        alibi_slopes,
        block_table,
        num_splits,
    ):
        given = {
            "cum_seq_q": cum_seq_q, "cum_seq_k": cum_seq_k, "window_size_left": window_size_left,
            "window_size_right": window_size_right, "seqused_k": seqused_k, "alibi_slopes": alibi_slopes,
            "block_table": block_table,
        }
        refuse("_flash_attention_forward", dropout_p, given)
        out, log = find_op("_scaled_dot_product_flash_attention_for_cpu")(
            *(t.transpose(1, 2) for t in (query, key, value)), 0.0, is_causal, scale=scale
        )
        nothing = query.new_empty((0,))
        return out.transpose(1, 2), log, nothing, nothing, nothing


class EfficientAttentionForward(Composite):
    """Blocked attention over [batch, length, heads, width] with a bias added to the scores. Dense batches only."""

    schema = (
        "_efficient_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? bias, Tensor? cu_seqlens_q,"
        " Tensor? cu_seqlens_k, int? max_seqlen_q, int? max_seqlen_k, float dropout_p, int custom_mask_type, bool"
        " compute_log_sumexp=False, *, float? scale=None, Tensor? seqlen_k=None, int? window_size=None) -> (Tensor,"
        " Tensor, Tensor, Tensor, int, int)"
    )
    function = method = out = False

    def compute(
        self,
        query,
        key,
        value,
        bias,
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        dropout_p,
        custom_mask_type,
        compute_log_sumexp,
        scale,
        seqlen_k,
        window_size,
    ):
        refuse(
            "_efficient_attention_forward",
            dropout_p,
            {
                "cu_seqlens_q": cu_seqlens_q,
                "cu_seqlens_k": cu_seqlens_k,
                "seqlen_k": seqlen_k,
                "window_size": window_size,
            },
        )
        if custom_mask_type not in (0, 1):
            raise NotImplementedError(
                "_efficient_attention_forward: custom_mask_type must be 0 (none) or 1 (causal from the upper left),"
                f" got {custom_mask_type}"
            )
        q, k, v = (t.transpose(1, 2) for t in (query, key, value))
        out, log = find_op("_scaled_dot_product_flash_attention_for_cpu")(
            q, k, v, 0.0, custom_mask_type == 1, attn_mask=bias, scale=scale
        )
        nothing = query.new_empty((), dtype=_C.int64)
        return (
            out.transpose(1, 2),
            log if compute_log_sumexp else log.new_empty((*log.shape[:2], 0)),
            nothing,
            nothing,
            query.shape[1],
            key.shape[1],
        )


def refuse(name: str, dropout_p: float, given: dict[str, Any]) -> None:
    """Raise for what the CPU's blocks do not do."""
    wanted = [n for n, value in given.items() if value is not None]
    if dropout_p != 0 or wanted:
        raise NotImplementedError(f"{name}: not supported on the CPU: {', '.join(wanted) or f'dropout_p={dropout_p}'}")
