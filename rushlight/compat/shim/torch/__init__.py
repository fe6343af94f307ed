"""What `import torch` finds in a child process of `python -m rushlight run`: it puts Rushlight in its own place."""

from rushlight import compat

compat.install()
