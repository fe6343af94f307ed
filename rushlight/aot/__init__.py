"""rushlight.aot: functions to graphs, ahead of their backward.

Enters: a function, or a graph that Dynamo captured, with example arguments. Leaves: a callable whose forward and
backward are functional graphs that backends compiled; what the function wrote is written, what it returned views of
are views.

A function is captured on fake tensors with its backward (`capture`), its writes rewritten (`functional_graph`), the
joint graph cut in two (`partition`, `min_cut`), both halves handed to compilers (`compile_graph`) and wrapped so that
effects and aliases are as in eager mode (`runtime`). `specialized` captures anew for each kind of arguments. PyTorch's
names for all this are in `rushlight._functorch`.
"""

from ..base import late

__getattr__, __dir__ = late.names(
    globals(),
    late.by_name({
        "capture": "Captured capture", "compile_graph": "AotConfig compile_captured",
        "partition": "Partition default_partition", "specialized": "Specialized", "refused": "NotCaptured",
        "metadata": "GraphMeta",
    }),
    files=("capture", "compile_graph", "functional_graph", "metadata", "module_state", "partition", "refused",
           "runtime", "specialized"),
)
