"""Steps that apply a function to each sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ..._utils.collate import default_collate
from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..streams import check_callable, check_parameters
from .source import length_of

__all__ = ["CollatorIterDataPipe", "MapperIterDataPipe"]

_T_co = TypeVar("_T_co", covariant=True)


def call_on_columns(fn: Callable, data: Any, columns: Any) -> Any:
    """`fn` of the whole sample, of one column, or of several."""
    if columns is None:
        return fn(data)
    return fn(*(data[c] for c in columns)) if isinstance(columns, (list, tuple)) else fn(data[columns])


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe[_T_co]):
    """`fn` of each sample, or of its columns `input_col`; the result replaces them,
    or goes to `output_col` (-1: the end)."""

    def __init__(self, datapipe: IterDataPipe, fn: Callable, input_col: Any = None, output_col: Any = None) -> None:
        super().__init__()
        check_callable(fn)
        if input_col is None and output_col is not None:
            raise ValueError("output_col: expected None where input_col is None.")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError("output_col: expected a list or tuple of one element")
            output_col = output_col[0]
        check_parameters(fn, input_col)
        self.datapipe = datapipe
        self.fn = fn
        self.input_col = input_col
        self.output_col = output_col

    def _apply_fn(self, data: Any) -> Any:
        result = call_on_columns(self.fn, data, self.input_col)
        if self.input_col is None:
            return result
        answer = list(data) if isinstance(data, tuple) else data
        if self.output_col == -1:
            answer.append(result)
        elif self.output_col is not None:
            answer[self.output_col] = result
        elif isinstance(self.input_col, (list, tuple)):
            answer[self.input_col[0]] = result
            for column in sorted(self.input_col[1:], reverse=True):
                del answer[column]
        else:
            answer[self.input_col] = result
        return tuple(answer) if isinstance(data, tuple) else answer

    def __iter__(self) -> Iterator[_T_co]:
        for data in self.datapipe:
            yield self._apply_fn(data)

    def __len__(self) -> int:
        return length_of(self, self.datapipe)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Each batch through a collate function."""

    def __init__(
        self, datapipe: IterDataPipe, conversion: Any = default_collate, collate_fn: Callable | None = None
    ) -> None:
        fn = conversion if collate_fn is None else collate_fn
        if not callable(fn):
            raise NotImplementedError(
                "collate: a dict as `conversion` is for dataframes, which are not supported. Pass a function."
            )
        super().__init__(datapipe, fn=fn)
