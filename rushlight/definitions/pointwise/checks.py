"""What pointwise ops refuse, said once.

Enters: tensors and Python numbers, of which only types are looked at (and static values). Leaves: nothing,
or PyTorch's exception.
"""

from __future__ import annotations

from rushlight.base.shape import INTS


def dtypes_of(*operands: object) -> list[object]:
    """The dtypes of the tensors among operands; Python numbers have none."""
    return [o.dtype for o in operands if hasattr(o, "dtype")]


def is_integral(operand: object) -> bool:
    """Whether a tensor or a Python number is integral (booleans are)."""
    if hasattr(operand, "dtype"):
        return not (operand.dtype.is_complex or operand.dtype.is_floating_point)
    return isinstance(operand, INTS)


def is_bool(operand: object) -> bool:
    """Whether a tensor or a Python number is boolean."""
    return operand.dtype.name == "bool" if hasattr(operand, "dtype") else isinstance(operand, bool)


def is_complex(operand: object) -> bool:
    """Whether a tensor or a Python number is complex."""
    return operand.dtype.is_complex if hasattr(operand, "dtype") else isinstance(operand, complex)


def check_alpha(name: str, alpha: object, *operands: object) -> None:
    """Refuse an `alpha` that the result's dtype cannot hold."""
    if isinstance(alpha, bool) and not all(map(is_bool, operands)):
        raise RuntimeError(f"{name}: a boolean alpha needs boolean tensors. Pass 1 or 0.")
    if isinstance(alpha, float) and all(map(is_integral, operands)):
        raise RuntimeError(
            f"{name}: integral tensors need an integer alpha, got the floating point number {alpha}. "
            "Pass an int, or cast the tensors."
        )
    if isinstance(alpha, complex) and not any(map(is_complex, operands)):
        raise RuntimeError(f"{name}: for real tensors alpha must not be complex, got {alpha}.")


def check_no_bool(name: str, *operands: object) -> None:
    """Refuse boolean operands of a subtraction."""
    if all(map(is_bool, operands)):
        raise RuntimeError(
            f"{name}: bool tensors have no subtraction. Use the `^` operator or logical_xor()."
        )
    if any(map(is_bool, operands)):
        raise RuntimeError(
            f"{name}: subtraction with a bool tensor is not supported. "
            "To invert a mask use the `~` operator or logical_not()."
        )


def check_same_dtype(name: str, *operands: object) -> None:
    """Refuse tensors of different dtypes."""
    names = [d.name for d in dtypes_of(*operands)]
    if len(set(names)) > 1:
        raise RuntimeError(f"{name}: tensors must have one dtype, got {' and '.join(names)}. Cast one of them.")


def refuse_bool_and_complex(name: str, *operands: object) -> None:
    """Refuse complex operands, and operands that are all boolean."""
    if any(map(is_complex, operands)):
        raise NotImplementedError(f'"{name}" not implemented for complex numbers')
    if all(map(is_bool, operands)):
        raise NotImplementedError(f"\"{name}\" not implemented for 'Bool'")


def check_mask(name: str, role: str, mask: object, allow_bytes: bool = False) -> None:
    """Refuse a mask that is not boolean."""
    dtype = mask.dtype
    if dtype.name != "bool" and not (allow_bytes and dtype.name == "uint8"):
        raise RuntimeError(f"{name}: {role} must be a bool tensor, got {dtype.name}. Compare it with 0 first.")
