"""Recurrent layers and transformers as scripts; a class stands for the layer of its name (see layers.py).

All recurrent layers go one way: say whether a batch was given, add one where none was, choose the state to start from,
run one op over the whole sequence, and take the added batch away again.
"""

# ruff: noqa: UP006, UP007, UP035, UP045 - annotations as the language reads them
from __future__ import annotations

from typing import Any, Optional, Tuple

from ..._C import Tensor
from .language import F, torch

# --- recurrent layers -------------------------------------------------------------------------------------------------


def _no_sizes() -> Optional[Tensor]:
    """Lengths of a packed sequence, where there is none. A bare None would not have the optional type."""
    return None


def _has_batch(layer: str, steps: Tensor) -> bool:
    """Whether a sequence holds a batch. Refuses what is no sequence (ValueError)."""
    dims = steps.dim()
    if dims < 2 or dims > 3:
        raise ValueError(f"{layer}: Expected input to be 2D or 3D (a sequence, or a batch of them), got {dims}D")
    return dims == 3


def _refuse_rank(batched: bool, found: str) -> None:
    """Says that a state has not as many dims as the input (RuntimeError)."""
    kind = "batched 3-D" if batched else "unbatched 2-D"
    rank = 3 if batched else 2
    raise RuntimeError(f"{kind} input: hx should also be {rank}-D (layers, the batch if there is one, features), got"
                       f" {found}")


def _blank(like: Tensor, rows: int, columns: int, width: int) -> Tensor:
    """A state of zeros for an input."""
    return torch.zeros([rows, columns, width], dtype=like.dtype, device=like.device)


def _state_of(steps: Tensor, given: Optional[Tensor], batched: bool, rows: int, columns: int, width: int) -> Tensor:
    """The state a layer starts from, with a batch: the one given, or zeros. Refuses one of another rank."""
    if given is None:
        state = _blank(steps, rows, columns, width)
    else:
        if given.dim() != (3 if batched else 2):
            _refuse_rank(batched, f"{given.dim()}-D")
        state = given if batched else given.unsqueeze(1)
    return state


def _pair_of(given: Tuple[Tensor, Tensor], batched: bool) -> Tuple[Tensor, Tensor]:
    """As above for the two states an LSTM was given."""
    hidden, cell = given
    rank = 3 if batched else 2
    if hidden.dim() != rank or cell.dim() != rank:
        _refuse_rank(batched, f"({hidden.dim()}-D, {cell.dim()}-D)")
    if not batched:
        given = (hidden.unsqueeze(1), cell.unsqueeze(1))
    return given


def _as_given(made: Tensor, batched: bool, dim: int) -> Tensor:
    """A result without the batch that was added at `dim`, where one was."""
    return made if batched else made.squeeze(dim)


class RNNBase:
    __jit_unused_properties__ = ("all_weights", "_flat_weights")

    @staticmethod
    def __script_extra__(module: Any) -> dict[str, Any]:
        """What a compiled layer holds besides: its weights in a row."""
        return {"_flat_weights": list(module._flat_weights)}

    def _state_sizes(self, input: Tensor, batch_sizes: Optional[Tensor], width: int) -> Tuple[int, int, int]:
        """Layers in all directions, batch, features: the shape of a state."""
        columns = input.size(0 if self.batch_first else 1) if batch_sizes is None else int(batch_sizes[0])
        return (self.num_layers * (2 if self.bidirectional else 1), columns, width)

    def check_input(self, input: Tensor, batch_sizes: Optional[Tensor]) -> None:
        """Refuses an input of another rank or width (RuntimeError); a packed one has a dim less."""
        rank = 3 if batch_sizes is None else 2
        if input.dim() != rank:
            raise RuntimeError(f"input must have {rank} dimensions here, got {input.dim()}")
        width = input.size(-1)
        if width != self.input_size:
            raise RuntimeError(f"the last dim of input must have size input_size={self.input_size}, got {width}")

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Optional[Tensor]) -> Tuple[int, int, int]:
        return self._state_sizes(input, batch_sizes, self.proj_size if self.proj_size > 0 else self.hidden_size)

    def check_hidden_size(self, hx: Tensor, expected_hidden_size: Tuple[int, int, int],
                          msg: str = "Expected hidden size {}, got {}") -> None:
        """Refuses a state of another shape (RuntimeError)."""
        rows, columns, width = expected_hidden_size
        if hx.size(0) != rows or hx.size(1) != columns or hx.size(2) != width:
            raise RuntimeError(msg.format(expected_hidden_size, hx.size()))

    def check_forward_args(self, input: Tensor, hidden: Tensor, batch_sizes: Optional[Tensor]) -> None:
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))


class RNN:
    def forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        batched = _has_batch("RNN", input)
        at = 0 if self.batch_first else 1
        steps = input if batched else input.unsqueeze(at)
        rows, columns, width = self.get_expected_hidden_size(steps, _no_sizes())
        state = _state_of(steps, hx, batched, rows, columns, width)
        self.check_forward_args(steps, state, _no_sizes())
        if self.mode == "RNN_TANH":
            made, last = torch.rnn_tanh(steps, state, self._flat_weights, self.bias, self.num_layers, self.dropout,
                                        self.training, self.bidirectional, self.batch_first)
        else:
            made, last = torch.rnn_relu(steps, state, self._flat_weights, self.bias, self.num_layers, self.dropout,
                                        self.training, self.bidirectional, self.batch_first)
        return _as_given(made, batched, at), _as_given(last, batched, 1)


class GRU:
    def forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        batched = _has_batch("GRU", input)
        at = 0 if self.batch_first else 1
        steps = input if batched else input.unsqueeze(at)
        rows, columns, width = self.get_expected_hidden_size(steps, _no_sizes())
        state = _state_of(steps, hx, batched, rows, columns, width)
        self.check_forward_args(steps, state, _no_sizes())
        made, last = torch.gru(steps, state, self._flat_weights, self.bias, self.num_layers, self.dropout,
                               self.training, self.bidirectional, self.batch_first)
        return _as_given(made, batched, at), _as_given(last, batched, 1)


class LSTM:
    def get_expected_cell_size(self, input: Tensor, batch_sizes: Optional[Tensor]) -> Tuple[int, int, int]:
        return self._state_sizes(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Tuple[Tensor, Tensor], batch_sizes: Optional[Tensor]) -> None:
        self.check_input(input, batch_sizes)
        state, cell = hidden
        self.check_hidden_size(state, self.get_expected_hidden_size(input, batch_sizes),
                               "Expected hidden[0] size {}, got {}")
        self.check_hidden_size(cell, self.get_expected_cell_size(input, batch_sizes),
                               "Expected hidden[1] size {}, got {}")

    def _zero_states(self, steps: Tensor) -> Tuple[Tensor, Tensor]:
        """States of zeros: of the projection's width, and of the cells'."""
        rows, columns, width = self.get_expected_hidden_size(steps, _no_sizes())
        return _blank(steps, rows, columns, width), _blank(steps, rows, columns, self.hidden_size)

    def forward(self, input: Tensor,
                hx: Optional[Tuple[Tensor, Tensor]] = None) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        batched = _has_batch("LSTM", input)
        at = 0 if self.batch_first else 1
        steps = input if batched else input.unsqueeze(at)
        if hx is None:
            states = self._zero_states(steps)
        else:
            states = _pair_of(hx, batched)
            self.check_forward_args(steps, states, _no_sizes())
        made, hidden, cell = torch.lstm(steps, states, self._flat_weights, self.bias, self.num_layers, self.dropout,
                                        self.training, self.bidirectional, self.batch_first)
        return _as_given(made, batched, at), (_as_given(hidden, batched, 1), _as_given(cell, batched, 1))


# --- cells: one step --------------------------------------------------------------------------------------------------


def _check_step(cell: str, name: str, given: Tensor) -> None:
    """Refuses a tensor that is neither one row nor a batch of rows (ValueError)."""
    if given.dim() < 1 or given.dim() > 2:
        raise ValueError(f"{cell}: Expected {name} to be 1D or 2D (a row, or a batch of rows), got {given.dim()}D")


def _rows_of(given: Tensor, batched: bool) -> Tensor:
    return given if batched else given.unsqueeze(0)


def _step_state(cell: str, step: Tensor, given: Optional[Tensor], width: int) -> Tensor:
    """The state a cell starts from, as rows: the one given, or zeros. Refuses ranks of input and state."""
    _check_step(cell, "input", step)
    batched = step.dim() == 2
    if given is None:
        state = torch.zeros([step.size(0) if batched else 1, width], dtype=step.dtype, device=step.device)
    else:
        _check_step(cell, "hidden", given)
        state = _rows_of(given, batched)
    return state


class RNNCell:
    __jit_unused_properties__ = ("mode",)

    def forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tensor:
        state = _step_state("RNNCell", input, hx, self.hidden_size)
        batched = input.dim() == 2
        rows = _rows_of(input, batched)
        if self.nonlinearity == "tanh":
            made = torch.rnn_tanh_cell(rows, state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        elif self.nonlinearity == "relu":
            made = torch.rnn_relu_cell(rows, state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        else:
            raise RuntimeError(f"Unknown nonlinearity: it must be 'tanh' or 'relu', got '{self.nonlinearity}'")
        return _as_given(made, batched, 0)


class GRUCell:
    def forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tensor:
        state = _step_state("GRUCell", input, hx, self.hidden_size)
        batched = input.dim() == 2
        made = torch.gru_cell(_rows_of(input, batched), state, self.weight_ih, self.weight_hh, self.bias_ih,
                              self.bias_hh)
        return _as_given(made, batched, 0)


class LSTMCell:
    def forward(self, input: Tensor, hx: Optional[Tuple[Tensor, Tensor]] = None) -> Tuple[Tensor, Tensor]:
        _check_step("LSTMCell", "input", input)
        batched = input.dim() == 2
        rows = _rows_of(input, batched)
        if hx is None:
            blank = _step_state("LSTMCell", input, None, self.hidden_size)
            states = (blank, blank)
        else:
            hidden, cell = hx
            _check_step("LSTMCell", "hx[0]", hidden)
            _check_step("LSTMCell", "hx[1]", cell)
            states = (_rows_of(hidden, batched), _rows_of(cell, batched))
        hidden, cell = torch.lstm_cell(rows, states, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return _as_given(hidden, batched, 0), _as_given(cell, batched, 0)


# --- attention and transformers ---------------------------------------------------------------------------------------


def _turned(query: Tensor, key: Tensor, value: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """Three sequences with batch and steps swapped. What was one tensor stays one: its projection is one product."""
    queries = query.transpose(0, 1)
    if key is value:
        keys = queries if query is key else key.transpose(0, 1)
        values = keys
    else:
        keys = key.transpose(0, 1)
        values = value.transpose(0, 1)
    return queries, keys, values


class MultiheadAttention:
    __annotated__ = {"bias_k": Optional[Tensor], "bias_v": Optional[Tensor]}

    def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Optional[Tensor] = None,
                need_weights: bool = True, attn_mask: Optional[Tensor] = None, average_attn_weights: bool = True,
                is_causal: bool = False) -> Tuple[Tensor, Optional[Tensor]]:
        turns = self.batch_first and query.dim() == 3
        if turns:
            query, key, value = _turned(query, key, value)
        made, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias,
            bias_k=self.bias_k, bias_v=self.bias_v, add_zero_attn=self.add_zero_attn,
            use_separate_proj_weight=not self._qkv_same_embed_dim, q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight, v_proj_weight=self.v_proj_weight, out_proj_weight=self.out_proj.weight,
            out_proj_bias=self.out_proj.bias, dropout_p=self.dropout, training=self.training, attn_mask=attn_mask,
            key_padding_mask=key_padding_mask, is_causal=is_causal, need_weights=need_weights,
            average_attn_weights=average_attn_weights)
        return made.transpose(0, 1) if turns else made, weights


class TransformerEncoderLayer:
    def forward(self, src: Tensor, src_mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None,
                is_causal: bool = False) -> Tensor:
        if self.norm_first:
            mixed = src + self._sa_block(self.norm1(src), src_mask, src_key_padding_mask, is_causal)
            made = mixed + self._ff_block(self.norm2(mixed))
        else:
            mixed = self.norm1(src + self._sa_block(src, src_mask, src_key_padding_mask, is_causal))
            made = self.norm2(mixed + self._ff_block(mixed))
        return made

    def _sa_block(self, x: Tensor, attn_mask: Optional[Tensor], key_padding_mask: Optional[Tensor],
                  is_causal: bool = False) -> Tensor:
        seen, _ = self.self_attn(x, x, x, key_padding_mask=key_padding_mask, attn_mask=attn_mask, is_causal=is_causal,
                                 need_weights=False)
        return self.dropout1(seen)

    def _ff_block(self, x: Tensor) -> Tensor:
        wide = self.activation(self.linear1(x))
        return self.dropout2(self.linear2(self.dropout(wide)))


class TransformerDecoderLayer:
    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Optional[Tensor] = None,
                memory_mask: Optional[Tensor] = None, tgt_key_padding_mask: Optional[Tensor] = None,
                memory_key_padding_mask: Optional[Tensor] = None, tgt_is_causal: bool = False,
                memory_is_causal: bool = False) -> Tensor:
        if self.norm_first:
            own = tgt + self._sa_block(self.norm1(tgt), tgt_mask, tgt_key_padding_mask, tgt_is_causal)
            both = own + self._mha_block(self.norm2(own), memory, memory_mask, memory_key_padding_mask,
                                         memory_is_causal)
            made = both + self._ff_block(self.norm3(both))
        else:
            own = self.norm1(tgt + self._sa_block(tgt, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
            both = self.norm2(own + self._mha_block(own, memory, memory_mask, memory_key_padding_mask,
                                                    memory_is_causal))
            made = self.norm3(both + self._ff_block(both))
        return made

    def _sa_block(self, x: Tensor, attn_mask: Optional[Tensor], key_padding_mask: Optional[Tensor],
                  is_causal: bool = False) -> Tensor:
        seen, _ = self.self_attn(x, x, x, key_padding_mask=key_padding_mask, attn_mask=attn_mask, is_causal=is_causal,
                                 need_weights=False)
        return self.dropout1(seen)

    def _mha_block(self, x: Tensor, mem: Tensor, attn_mask: Optional[Tensor], key_padding_mask: Optional[Tensor],
                   is_causal: bool = False) -> Tensor:
        seen, _ = self.multihead_attn(x, mem, mem, key_padding_mask=key_padding_mask, attn_mask=attn_mask,
                                      is_causal=is_causal, need_weights=False)
        return self.dropout2(seen)

    def _ff_block(self, x: Tensor) -> Tensor:
        wide = self.activation(self.linear1(x))
        return self.dropout3(self.linear2(self.dropout(wide)))


class TransformerEncoder:
    def forward(self, src: Tensor, mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None,
                is_causal: Optional[bool] = None) -> Tensor:
        hinted = False if is_causal is None else is_causal
        seen = src
        for layer in self.layers:
            seen = layer(seen, src_key_padding_mask=src_key_padding_mask, src_mask=mask, is_causal=hinted)
        return seen if self.norm is None else self.norm(seen)


class TransformerDecoder:
    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Optional[Tensor] = None,
                memory_mask: Optional[Tensor] = None, tgt_key_padding_mask: Optional[Tensor] = None,
                memory_key_padding_mask: Optional[Tensor] = None, tgt_is_causal: Optional[bool] = None,
                memory_is_causal: bool = False) -> Tensor:
        hinted = False if tgt_is_causal is None else tgt_is_causal
        seen = tgt
        for layer in self.layers:
            seen = layer(seen, memory, tgt_mask=tgt_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                         tgt_is_causal=hinted, memory_mask=memory_mask,
                         memory_key_padding_mask=memory_key_padding_mask, memory_is_causal=memory_is_causal)
        return seen if self.norm is None else self.norm(seen)


class Transformer:
    def _check_sequences(self, src: Tensor, tgt: Tensor) -> None:
        """Refuses batches of two sizes, and features that are not the model's (RuntimeError)."""
        if src.dim() == 3:
            at = 0 if self.batch_first else 1
            if src.size(at) != tgt.size(at):
                raise RuntimeError(f"src and tgt must hold the same batch size, got {src.size(at)} and {tgt.size(at)}")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError(f"the last dim of src and tgt must have size d_model={self.d_model}, got {src.size(-1)}"
                               f" and {tgt.size(-1)}")

    def forward(self, src: Tensor, tgt: Tensor, src_mask: Optional[Tensor] = None, tgt_mask: Optional[Tensor] = None,
                memory_mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None,
                tgt_key_padding_mask: Optional[Tensor] = None, memory_key_padding_mask: Optional[Tensor] = None,
                src_is_causal: Optional[bool] = None, tgt_is_causal: Optional[bool] = None,
                memory_is_causal: bool = False) -> Tensor:
        self._check_sequences(src, tgt)
        memory = self.encoder(src, src_key_padding_mask=src_key_padding_mask, mask=src_mask, is_causal=src_is_causal)
        return self.decoder(tgt, memory, tgt_mask=tgt_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                            tgt_is_causal=tgt_is_causal, memory_mask=memory_mask,
                            memory_key_padding_mask=memory_key_padding_mask, memory_is_causal=memory_is_causal)
