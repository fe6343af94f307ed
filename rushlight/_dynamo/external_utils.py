"""Questions that code asks to know whether it is being compiled."""


def is_compiling() -> bool:
    """Whether this runs inside a capture: there is none yet."""
    return False
