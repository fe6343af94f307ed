"""`FlatUnit`: parameters as one line of elements, in parts of one length; a parameter may lie on two processes."""

from __future__ import annotations

from typing import Any

from ...nn.parameter import Parameter
from ...op import find_op
from ._unit import Owner, Unit, memory_of

_empty = find_op("empty")
FLAT = "_flat_param"


class FlatParameter(Parameter):
    """This process's part of all parameters of a unit; `_fqns` are their names, `_shapes` their shapes."""


class FlatUnit(Unit):
    """Parameters of one type. Optimizers see one flat part (`parts[0]`, which `holder` has), or with `keeps_names` the
    piece of each parameter that lies here."""

    def __init__(
        self, owners: list[list[Owner]], names: list[str], params: list[Any], group: Any, replicas: Any, device: Any,
        home: Any, keeps_names: bool, holder: Any,
    ) -> None:
        super().__init__(group, replicas)
        self.owners, self.names, self.device, self.home = owners, names, device, home
        self.keeps_names, self.holder = keeps_names, holder
        self.shapes = [tuple(p.shape) for p in params]
        self.counts = [p.numel() for p in params]
        self.starts = [sum(self.counts[:i]) for i in range(len(params))]
        self.length = -(-max(sum(self.counts), 1) // self.size)       # of a part
        self.trains = [p.requires_grad for p in params]
        self._fill(params)
        self._make_whole()
        self._make_parts()
        self.show_parts()

    def _fill(self, params: list[Any]) -> None:
        first = params[0]
        self._buffer = _empty(self.length, dtype=first.dtype, device=self.home).zero_()
        for i, p in enumerate(params):
            here = self.piece(i)
            begin = self.rank * self.length + here.start - self.starts[i]
            self._buffer[here].copy_(p.detach().reshape(-1)[begin : begin + here.stop - here.start])

    def piece(self, i: int) -> slice:
        """Where parameter i lies in this process's part; nothing if it does not."""
        begin = min(max(self.starts[i] - self.rank * self.length, 0), self.length)
        end = min(max(self.starts[i] + self.counts[i] - self.rank * self.length, 0), self.length)
        return slice(begin, end)

    def _make_whole(self) -> None:
        dtype = self.compute_dtype or self._buffer.dtype
        self._flat = _empty(self.length * self.size, dtype=dtype, device=self.device)
        self.whole = [
            Parameter(self._flat[s : s + n].view(shape), requires_grad=t)
            for s, n, shape, t in zip(self.starts, self.counts, self.shapes, self.trains)
        ]
        memory = memory_of(self._flat)
        self._sizes = [(memory, memory.nbytes())]
        memory.resize_(0)

    def use_types(self, compute: Any, reduce: Any) -> None:
        """Types to compute and to reduce in; None for the parameters' own."""
        self.compute_dtype = compute if compute != self._buffer.dtype else None
        self.reduce_dtype = reduce or compute
        self._make_whole()
        self.show_parts()

    def _make_parts(self) -> None:
        if self.keeps_names:
            self.parts = [Parameter(self._buffer[self.piece(i)], requires_grad=t) for i, t in enumerate(self.trains)]
            return
        flat = FlatParameter(self._buffer, requires_grad=self.trains[0])
        flat._fqns, flat._shapes, flat._numels = list(self.names), list(self.shapes), list(self.counts)
        self.parts = [flat]

    # --- modules

    def show(self, tensors: list[Any]) -> None:
        if tensors is self.whole:
            self.holder._parameters.pop(FLAT, None)
            for owners, tensor in zip(self.owners, tensors, strict=True):
                for module, name in owners:
                    module.__dict__.pop(name, None)
                    module._parameters[name] = tensor
        else:
            self.show_parts()

    def show_parts(self) -> None:
        """Modules have pieces, or the holder has the flat part and modules tensors without memory."""
        if self.keeps_names:
            super().show(self.parts)
            return
        for owners, tensor in zip(self.owners, self.whole, strict=True):
            for module, name in owners:
                module._parameters.pop(name, None)
                module.__dict__[name] = tensor
        self.holder._parameters[FLAT] = self.parts[0]

    def refresh(self) -> None:
        """Parts that were replaced by `module.to(...)` come into the buffer again."""
        current = (
            [owners[0][0]._parameters[owners[0][1]] for owners in self.owners] if self.keeps_names
            else [self.holder._parameters[FLAT]]
        )
        places = [self.piece(i).start for i in range(len(self.owners))] if self.keeps_names else [0]
        size = self._buffer.element_size()
        if all(p is old and (not p.numel() or p.data_ptr() == self._buffer.data_ptr() + at * size)
               for p, old, at in zip(current, self.parts, places)):
            return
        buffer = _empty(self.length, dtype=current[0].dtype, device=current[0].device).zero_()
        for i, (p, at) in enumerate(zip(current, places)):
            buffer[at : at + p.numel()].copy_(p.detach())
            p.data = buffer[at : at + p.numel()]
            self.parts[i] = p
        self._buffer, self.home = buffer, buffer.device
        if buffer.device.type != "cpu":
            self.device = buffer.device
        self._make_whole()
        self.show_parts()

    # --- what is sent

    def part_buffer(self) -> Any:
        return self._buffer

    def memories(self) -> list[tuple[Any, int]]:
        return self._sizes

    def send_parts(self, sent: Any, options: Any) -> tuple[Any, Any]:
        memory, size = self._sizes[0]
        memory.resize_(size)
        out = self._flat.data
        return self.group._allgather_base(out, sent, options), out

    def spread(self, gathered: Any) -> None:
        if gathered.data_ptr() != self._flat.data_ptr():
            self._flat.data.copy_(gathered)

    def write_back(self) -> None:
        """Whole parameters, which the program may have changed, become the parts."""
        self._buffer.copy_(self._flat.data[self.rank * self.length : (self.rank + 1) * self.length])

    def pack(self, gradients: list[Any], dtype: Any) -> Any:
        packed = _empty(self.length * self.size, dtype=dtype, device=self.device)
        packed[sum(self.counts) :].zero_()
        for start, count, gradient in zip(self.starts, self.counts, gradients):
            target = packed[start : start + count]
            target.zero_() if gradient is None else target.copy_(gradient.detach().reshape(-1))
        return packed

    keeps_low_precision = False

    def keep_gradient(self, flat: Any, used: list[int]) -> None:
        flat = flat.to(device=self.home, dtype=flat.dtype if self.keeps_low_precision else self._buffer.dtype)
        if self.keeps_names:
            for i in used:
                _add_gradient(self.parts[i], flat[self.piece(i)])
        else:
            _add_gradient(self.parts[0], flat)

    def gathered(self, flat: Any) -> list[Any]:
        """Tensors of the parameters' shapes from this process's part of such ones (an optimizer's state)."""
        whole = flat
        if self.size > 1:
            whole = _empty(flat.numel() * self.size, dtype=flat.dtype, device=flat.device)
            self.group._allgather_base(whole, flat.contiguous()).wait()
        return [whole[s : s + n].view(shape) for s, n, shape in zip(self.starts, self.counts, self.shapes)]


def _add_gradient(part: Any, value: Any) -> None:
    if part.grad is None:
        part.grad = value
    else:
        part.grad.add_(value)
