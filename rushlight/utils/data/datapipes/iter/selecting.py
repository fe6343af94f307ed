"""Steps that leave samples out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..streams import StreamWrapper, check_callable, check_parameters
from .callable import call_on_columns

__all__ = ["FilterIterDataPipe"]

_T_co = TypeVar("_T_co", covariant=True)


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe[_T_co]):
    """Samples for which `filter_fn`, of them or of their columns `input_col`, is True."""

    def __init__(self, datapipe: IterDataPipe[_T_co], filter_fn: Callable, input_col: Any = None) -> None:
        super().__init__()
        check_callable(filter_fn)
        check_parameters(filter_fn, input_col)
        self.datapipe = datapipe
        self.filter_fn = filter_fn
        self.input_col = input_col

    def __iter__(self) -> Iterator[_T_co]:
        for data in self.datapipe:
            wanted = call_on_columns(self.filter_fn, data, self.input_col)
            if not isinstance(wanted, bool):
                raise ValueError("filter_fn: expected it to return a bool, got", type(wanted))
            if wanted:
                yield data
            else:
                StreamWrapper.close_streams(data)
