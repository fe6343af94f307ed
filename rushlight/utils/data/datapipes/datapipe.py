"""The two kinds of datapipe, and what keeps their iterators honest.

Enters: classes that define `__iter__` or `__getitem__`. Leaves: datasets whose steps are called as methods
(`pipe.map(f).shuffle()`), registered by `functional_datapipe`. An iterable datapipe has one valid iterator at a time:
making another resets the pipe, and the first one refuses to go on.
"""

from __future__ import annotations

import functools
import inspect
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from ..dataset import Dataset, IterableDataset

__all__ = ["DataChunk", "DFIterDataPipe", "IterDataPipe", "MapDataPipe"]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class DataChunk(list[_T]):
    """A batch of samples; `items` is the plain list."""

    def __init__(self, items: Iterable[_T]) -> None:
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        return f"{indent}[{', '.join(str(i) for i in self)}]"

    def raw_iterator(self) -> Iterator[_T]:
        """The samples as they were given, whatever a subclass makes of iterating."""
        yield from self.items


class _WithFunctions:
    """Steps as methods: `functions` maps a name to a call whose first argument is the pipe."""

    functions: dict[str, Callable]

    def __getattr__(self, attribute_name: str) -> Any:
        function = type(self).functions.get(attribute_name)
        if function is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{attribute_name}'")
        bound = functools.partial(function, self)
        functools.update_wrapper(bound, function, assigned=("__doc__",), updated=())
        return bound

    @classmethod
    def register_function(cls, function_name: str, function: Callable) -> None:
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Any, enable_df_api_tracing: bool = False
    ) -> None:
        """Make `pipe.function_name(...)` mean `cls_to_register(pipe, ...)`."""
        if enable_df_api_tracing:
            raise NotImplementedError(
                "functional_datapipe: enable_df_api_tracing needs dataframe datapipes, which are not supported"
            )
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")

        def make(source: Any, *args: Any, **kwargs: Any) -> Any:
            return cls_to_register(source, *args, **kwargs)

        make.__doc__ = cls_to_register.__doc__
        cls.functions[function_name] = make

    def __repr__(self) -> str:
        return type(self).__qualname__

    __str__ = __repr__

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *type(self).functions]


# --- one iterator at a time -------------------------------------------------------------------------------------------


def describe(pipe: Any) -> str:
    """The pipe's class and the arguments it was made with, as far as it kept them."""
    names = inspect.signature(type(pipe)).parameters
    kept = [f"{n}={getattr(v, '__name__', None) or repr(v)}" for n, v in pipe.__dict__.items() if n in names]
    return f"{type(pipe).__name__}({', '.join(sorted(kept))})"


def _begin(pipe: Any) -> int:
    """Make all earlier iterators of `pipe` invalid; the number of the one that begins now."""
    if pipe._is_child_datapipe:
        return pipe._set_main_datapipe_valid_iterator_id()
    pipe._valid_iterator_id = 0 if pipe._valid_iterator_id is None else pipe._valid_iterator_id + 1
    pipe._number_of_samples_yielded = 0
    pipe.reset()
    return pipe._valid_iterator_id


def _check(pipe: Any, number: int) -> None:
    if pipe._is_child_datapipe:
        if not pipe._check_valid_iterator_id(number):
            raise RuntimeError(
                "iterator invalidated: there is a newer one of a child of "
                f"{describe(pipe.main_datapipe)}. An IterDataPipe has one iterator at a time."
            )
    elif pipe._valid_iterator_id != number:
        raise RuntimeError(
            "iterator invalidated because another iterator of the same IterDataPipe was made: "
            f"{describe(pipe)}\nWhere several readers share a pipe, "
            "give each its own with `.fork()`."
        )


def _name_the_pipe(error: Exception, pipe: Any) -> None:
    """Say in the error's message which step it came from, once."""
    mark = "This exception is thrown by __iter__ of"
    first = error.args[0] if error.args and isinstance(error.args[0], str) else ""
    if mark not in first and "iterator per IterDataPipe" not in first:
        error.args = (f"{first}\n{mark} {describe(pipe)}", *error.args[1:])


class _CheckedIterator:
    """An iterator that refuses to go on once the pipe has begun another."""

    def __init__(self, iterator: Iterator, pipe: Any, number: int) -> None:
        self.iterator = iterator
        self.datapipe = pipe
        self.iterator_id = number

    def __iter__(self) -> _CheckedIterator:
        return self

    def __next__(self) -> Any:
        _check(self.datapipe, self.iterator_id)
        value = next(self.iterator)
        self.datapipe._number_of_samples_yielded += 1
        return value

    def __getattr__(self, name: str) -> Any:
        return getattr(self.iterator, name)


def _hook(method: Callable) -> Callable:
    """`__iter__` with the checks. A generator's pipe begins when its first value is asked for, as in PyTorch."""
    if inspect.isgeneratorfunction(method):

        @functools.wraps(method)
        def begin_later(self: Any) -> Iterator:
            values = method(self)
            number = _begin(self)
            try:
                for value in values:
                    self._number_of_samples_yielded += 1
                    yield value
                    _check(self, number)
            except Exception as e:
                _name_the_pipe(e, self)
                raise

        return begin_later

    @functools.wraps(method)
    def begin_now(self: Any) -> Iterator:
        iterator = method(self)
        return _CheckedIterator(iterator, self, _begin(self))

    return begin_now


# --- the kinds --------------------------------------------------------------------------------------------------------


class IterDataPipe(_WithFunctions, IterableDataset[_T_co]):
    """A stream of samples, usually made from another one. Subclasses give `__iter__`,
    and `reset` if they keep state."""

    functions: dict[str, Callable] = {}
    _valid_iterator_id: int | None = None
    _number_of_samples_yielded: int = 0
    _is_child_datapipe = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__iter__" in cls.__dict__ and not cls.__dict__.get("_iterates_unchecked", False):
            cls.__iter__ = _hook(cls.__dict__["__iter__"])  # type: ignore[method-assign]

    def __iter__(self) -> Iterator[_T_co]:
        return self  # type: ignore[return-value]

    def reset(self) -> None:
        """Forget the last pass. Called before every new one."""


class DFIterDataPipe(IterDataPipe):
    """The name of dataframe pipes, for isinstance; there are none here."""

    def _is_dfpipe(self) -> bool:
        return True


class MapDataPipe(_WithFunctions, Dataset[_T_co]):
    """A map from keys to samples, usually made from another one. Subclasses give `__getitem__` and `__len__`."""

    functions: dict[str, Callable] = {}


# --- inside a loader --------------------------------------------------------------------------------------------------


class _DataPipeSerializationWrapper:
    """A pipe on its way to workers: pickled by itself, so that an error names it and not the loader."""

    def __init__(self, datapipe: Any) -> None:
        self._datapipe = datapipe

    def __getstate__(self) -> bytes:
        return pickle.dumps(self._datapipe)

    def __setstate__(self, state: bytes) -> None:
        self._datapipe = pickle.loads(state)

    def __len__(self) -> int:
        try:
            return len(self._datapipe)
        except Exception as e:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length") from e


class _IterDataPipeSerializationWrapper(_DataPipeSerializationWrapper, IterDataPipe):
    _iterates_unchecked = True

    def __iter__(self) -> Iterator:
        return iter(self._datapipe)


class _MapDataPipeSerializationWrapper(_DataPipeSerializationWrapper, MapDataPipe):
    def __getitem__(self, idx: Any) -> Any:
        return self._datapipe[idx]


def wrap_for_workers(datapipe: Any) -> Any:
    """What a DataLoader keeps in place of a datapipe."""
    kind = _IterDataPipeSerializationWrapper if isinstance(datapipe, IterDataPipe) else _MapDataPipeSerializationWrapper
    return kind(datapipe)
