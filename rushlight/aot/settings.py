"""Settings of AOTAutograd that programs set; `torch._functorch.config` is this module (torch_names/home_rows.py).

`activation_memory_budget` is how much the min-cut partition may save,
from 0 (nothing that can be computed again) to 1 (see `aot.min_cut`).
"""

from __future__ import annotations

activation_memory_budget = 1.0
