"""Process-wide settings that programs for PyTorch set and ask for.

Enters: the values programs set. Leaves: the same values when asked, so that such programs run. Kernels here do not
depend on the number of threads or on chance; asking for determinism fills memory nobody wrote to, and refuses (or warns
about) the few ops that PyTorch refuses on the CPU, which write one element several times. Float32 products are always
computed in full precision, which every precision setting permits. Refuses: values PyTorch refuses.
"""

from __future__ import annotations

import warnings

from .. import _C

PRECISIONS = ("highest", "high", "medium")
DEBUG_MODES = {"default": 0, "warn": 1, "error": 2}


class _Settings:
    deterministic: bool = False
    warn_only: bool = False
    warn_always: bool = False
    precision: str = "highest"
    conv_tf32: bool = True
    interop_threads: int = 1
    einsum_strategy: str | None = "auto"   # how opt_einsum chooses the order of contractions; None: from left to right
    fills_memory: bool = True


_settings = _Settings()


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Fill fresh memory, and refuse (or with `warn_only` warn about) ops whose result is not determined.

    Arguments:
        mode: whether determinism is asked for
        warn_only: whether a warning is enough

    Example:
        >>> rl.use_deterministic_algorithms(True)
        >>> rl.are_deterministic_algorithms_enabled()
        True
        >>> rl.use_deterministic_algorithms(False)
    """
    if not isinstance(mode, bool) or not isinstance(warn_only, bool):
        raise TypeError(
            f"use_deterministic_algorithms: mode and warn_only must be bool, got {type(mode).__name__} and"
            f" {type(warn_only).__name__}"
        )
    _settings.deterministic, _settings.warn_only = mode, warn_only
    _choose_plans()


def _choose_plans() -> None:
    """Plans made with and without determinism are kept apart: the former fill memory, and refuse."""
    _C.choose_plans(
        2,
        (
            _settings.deterministic + 2 * _settings.warn_only + 4 * _settings.fills_memory
            if _settings.deterministic
            else 0
        ),
    )


def alert_not_deterministic(caller: str) -> None:
    """For ops that write one element several times: an error or a warning where determinism was asked for."""
    if not _settings.deterministic:
        return
    said = (
        f"{caller} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True"
    )
    if _settings.warn_only:
        warnings.warn(f"{said}, warn_only=True)'.", stacklevel=4)
    else:
        raise RuntimeError(f"{said})'. Turn determinism off around it, or pass warn_only=True to be told only.")


def set_fill_uninitialized_memory(mode: bool) -> None:
    """Whether determinism includes filling memory nobody wrote to."""
    if not isinstance(mode, bool):
        raise TypeError(f"fill_uninitialized_memory: expected a bool, got {type(mode).__name__}")
    _settings.fills_memory = mode
    _choose_plans()


def fills_uninitialized_memory() -> bool:
    """Whether determinism includes filling memory nobody wrote to."""
    return _settings.fills_memory


def must_fill_memory() -> bool:
    """Whether fresh memory is to be filled now."""
    return _settings.deterministic and _settings.fills_memory


def are_deterministic_algorithms_enabled() -> bool:
    """Whether determinism was asked for.

    Example:
        >>> rl.are_deterministic_algorithms_enabled()
        False
    """
    return _settings.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether determinism was asked for with a warning instead of an error."""
    return _settings.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """"default", "warn" or "error" (0, 1, 2)."""
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"set_deterministic_debug_mode: expected str or int, got {type(debug_mode).__name__}")
    mode = DEBUG_MODES.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if mode not in (0, 1, 2):
        raise RuntimeError(
            f"set_deterministic_debug_mode: expected 'default', 'warn', 'error', 0, 1 or 2, got {debug_mode!r}"
        )
    use_deterministic_algorithms(mode > 0, warn_only=mode == 1)


def get_deterministic_debug_mode() -> int:
    """0 without determinism, 1 with a warning, 2 with an error."""
    return (1 if _settings.warn_only else 2) if _settings.deterministic else 0


def set_float32_matmul_precision(precision: str) -> None:
    """How exact float32 products must be: below "highest" CUDA devices may round to TF32;
    elsewhere they are always exact to float32.

    Arguments:
        precision: "highest", "high" or "medium"

    Example:
        >>> rl.set_float32_matmul_precision("high")
        >>> rl.get_float32_matmul_precision()
        'high'
        >>> rl.set_float32_matmul_precision("highest")
    """
    if precision not in PRECISIONS:
        raise RuntimeError(f"set_float32_matmul_precision: expected one of {', '.join(PRECISIONS)}, got {precision!r}")
    _settings.precision = precision
    _C.cuda_allow_tf32(precision != "highest")


def get_float32_matmul_precision() -> str:
    """The precision that was asked for.

    Example:
        >>> rl.get_float32_matmul_precision()
        'highest'
    """
    return _settings.precision


def set_conv_tf32(allowed: bool) -> None:
    """Whether float32 convolutions may be rounded to TF32 on CUDA devices."""
    _settings.conv_tf32 = allowed


def conv_tf32() -> bool:
    """Whether they may."""
    return _settings.conv_tf32


def set_warn_always(b: bool, /) -> None:
    """Whether warnings that come once should come always."""
    if not isinstance(b, bool):
        raise TypeError(f"set_warn_always: expected a bool, got {type(b).__name__}")
    _settings.warn_always = b


def is_warn_always_enabled() -> bool:
    """Whether warnings that come once come always."""
    return _settings.warn_always


def set_num_interop_threads(n: int) -> None:
    """Threads between ops; ops run one after another here, whatever the number.

    Arguments:
        n: how many

    Example:
        >>> rl.set_num_interop_threads(rl.get_num_interop_threads())
    """
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(f"set_num_interop_threads: expects an int, but got {type(n).__name__}")
    if n <= 0:
        raise RuntimeError(f"set_num_interop_threads: expected a positive number of threads, got {n}")
    _settings.interop_threads = n


def get_num_interop_threads() -> int:
    """The number that was set, 1 at first."""
    return _settings.interop_threads


def set_flush_denormal(mode: bool) -> bool:
    """Refused, with False: denormal numbers are always kept."""
    return not mode


def compiled_with_cxx11_abi() -> bool:
    """True: the native core uses the present C++ ABI."""
    return True


def set_einsum_strategy(strategy: str | None) -> None:
    """How the order of an einsum's contractions is chosen, where the package opt_einsum is installed:
    any of its own names."""
    _settings.einsum_strategy = strategy


def get_einsum_strategy() -> str | None:
    """The strategy that was set; None contracts from left to right."""
    return _settings.einsum_strategy
