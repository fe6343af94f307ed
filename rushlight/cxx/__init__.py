"""C++ that extends Rushlight: the generated headers, the runtime library, the build of sources.

Enters: sources written for PyTorch's C++ names. Leaves: compiled modules and programs against `rushlight/include`.
Refuses what was compiled against PyTorch itself: its classes have another layout.
"""
