"""OpenMP is not here: kernels share Rushlight's own threads."""


def is_available() -> bool:
    """False."""
    return False
