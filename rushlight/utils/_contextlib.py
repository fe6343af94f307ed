"""Context managers that are decorators too, of functions, generators and (deprecated) classes."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Generator
from typing import Any


def _wrap_generator(ctx_factory: Callable[[], Any], func: Callable) -> Callable:
    """A generator function whose body runs inside the context, its consumers outside."""

    @functools.wraps(func)
    def generator_context(*args: Any, **kwargs: Any) -> Generator:
        result = func(*args, **kwargs)
        try:
            with ctx_factory():
                response = result.send(None)
            while True:
                try:
                    request = yield response
                except GeneratorExit:
                    with ctx_factory():
                        result.close()
                    raise
                except BaseException as error:
                    with ctx_factory():
                        response = result.throw(error)
                else:
                    with ctx_factory():
                        response = result.send(request)
        except StopIteration as end:
            return end.value

    return generator_context


def context_decorator(ctx: Any, func: Callable) -> Callable:
    """`func` run inside a context: `ctx` is a context manager that can be entered again,
    or a function that makes one."""
    if callable(ctx) and hasattr(ctx, "__enter__"):
        raise AssertionError(
            f"{ctx} can be called and has __enter__ as well, so it is ambiguous how to get a context from it. Pass a"
            " function that makes one."
        )
    make = ctx if callable(ctx) else lambda: ctx
    if inspect.isclass(func):
        raise RuntimeError(
            "classes cannot be decorated: the context could be meant for __init__ or for all methods. Decorate the"
            " methods."
        )
    if inspect.isgeneratorfunction(func):
        return _wrap_generator(make, func)

    @functools.wraps(func)
    def decorate_context(*args: Any, **kwargs: Any) -> Any:
        with make():
            return func(*args, **kwargs)

    return decorate_context


class _DecoratorContextManager:
    """A base of context managers that can decorate: each call of the function gets a `clone()`."""

    def __call__(self, orig_func: Callable) -> Callable:
        if inspect.isclass(orig_func):
            warnings.warn("decorating classes is deprecated. Decorate their methods.", FutureWarning, stacklevel=2)
            orig_func.__init__ = context_decorator(self.clone, orig_func.__init__)
            return orig_func
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        raise NotImplementedError

    def clone(self) -> Any:
        """A context manager like this one, not entered yet."""
        return self.__class__()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """The same, where `@manager` without parentheses decorates too."""

    def __new__(cls, orig_func: Callable | None = None) -> Any:
        return super().__new__(cls) if orig_func is None else cls()(orig_func)
