"""Programs of LAPACK calls on a device: the same definitions, run step by step, with the device's routines.

Enters: a program's copies and calls, as they are written. Leaves: results on the device. Copies between matrices are
tensor ops, kernels of the definitions run on the device, and a call goes to the device's `routines()`:
f(program, routine, code, args), which is False for a routine it does not have; then the host computes. A status that
raises makes the host wait, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import _C
from .lapack import INFO_BIAS, SIZES, Block, Lacking, Program, raise_status


class DeviceProgram(Program):
    """A program whose steps run as they are written."""

    shares = False      # one large matrix is the library's business

    def __init__(self, device: Any, tensors: Sequence[Any], batch: tuple[int, ...], routines: Callable) -> None:
        super().__init__(device, len(tensors), batch)
        self.tensors, self.routines = list(tensors), routines

    def settle(self) -> None:
        """Memory for the slots that are new."""
        for _, dtype, shape, strides, *_ in self.slots[len(self.tensors) - self.inputs :]:
            self.tensors.append(_C.empty(shape, strides, dtype, self.device))

    def flush(self) -> None:
        """Run the kernels that were written."""
        self.settle()
        if self.steps:
            slots = [("arg", self.tensors[-1].dtype, (), None, len(self.tensors) - 1, 0)]
            steps, self.steps = self.steps, []
            _C.Plan(len(self.tensors), self.device, slots, steps, True, None, self.on_error)(*self.tensors)

    def view(self, block: Block) -> Any:
        """A block's matrices: [batch, rows, columns]."""
        self.settle()
        t = self.tensors[block.slot]
        sizes, strides = (self.count, block.rows, block.cols), (block.batch, block.row, block.col)
        return t.as_strided(sizes, strides, block.offset + t.storage_offset())

    def address(self, block: Block) -> int:
        """Where its first element is."""
        return self.tensors[block.slot].data_ptr() + block.offset * SIZES[block.code]

    def copy(self, source: Block, target: Block, low: int | None = None, high: int | None = None) -> None:
        if not self.count * target.rows * target.cols:
            return
        self.flush()
        value = self.view(source.but(rows=target.rows, cols=target.cols))
        if low is not None:
            value = value.triu(low)
        if high is not None:
            value = value.tril(high)
        self.view(target).copy_(value)

    def mirror(self, source: Block, target: Block, upper: bool) -> None:
        if not self.count * target.rows:
            return
        self.flush()
        half = self.view(source)
        half = half.triu() + half.triu(1).mH if upper else half.tril() + half.tril(-1).mH
        self.view(target).copy_(half)

    def constant(self, target: Block, value: int, low: int | None = None, high: int | None = None) -> None:
        if not self.count * target.rows * target.cols:
            return
        self.flush()
        place = self.view(target)
        if low is None and high is None:
            place.fill_(value)
            return
        assert low == high == 0, "constants are whole matrices or diagonals"
        place.zero_()
        place.diagonal(0, -2, -1).fill_(value)

    def call(self, routine: str, code: str, *args: Any, work: int = 0, strips: int | None = None) -> None:
        if self.count:
            self.flush()
            if not self.routines(self, routine, code, args):
                raise Lacking(routine)

    def status(
        self, target: Block | None, info: Block, name: str | None = None, explain: Callable | None = None
    ) -> None:
        if not self.count:
            return
        self.flush()
        if target is not None:
            self.view(target).copy_(self.view(info))
        for which, status in enumerate(self.view(info).reshape(-1).cpu().tolist() if name else ()):
            if status:
                assert name is not None and explain is not None, "what is raised has words"
                raise_status(name, ((which + 1) << 32) + status + INFO_BIAS, not self.batch, explain)

    def results(self, wrap: Callable | None) -> Any:
        """The results; one bare, several as `wrap` makes them."""
        self.flush()
        outs = tuple(
            t for slot, t in zip(self.slots, self.tensors[self.inputs :], strict=True) if slot[0] == "new"
        )
        return outs[0] if len(outs) == 1 else outs if wrap is None else wrap(outs)


__all__ = ["DeviceProgram"]
