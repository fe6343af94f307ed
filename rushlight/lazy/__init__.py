"""rushlight.lazy: a device that writes down what a program does, and runs it when somebody looks.

Enters: tensors moved or made on "lazy". Leaves: their elements, when they are asked for or a step ends. Between two
steps nothing is computed: the core writes calls down as words (csrc/recording.h), `tape` reads them, `graph` makes
functional graphs of them, an `engine` compiles and runs those, and `cache` keeps what was compiled by the words
themselves.

    x = rushlight.randn(8, 8).to("lazy")
    y = (x @ x).relu().sum()        # written down
    lazy.mark_step()                # one graph, compiled once for each structure, run
"""

from ..base import late

__getattr__, __dir__ = late.names(globals(), {
    "mark_step": "step", "sync_multi": "step", "wait_device_ops": "step", "get_tensor_id": "step", "to_cpu": "step",
    "save": "step", "Engine": "engine", "register_engine": "engines", "add_step_closure": "closures",
    "run_step_closures": "closures",
}, files=("cache", "closures", "computation", "debug", "device", "engine", "engines", "graph", "metrics", "native",
          "settings", "step", "tape"))

__all__ = ["Engine", "add_step_closure", "get_tensor_id", "mark_step", "register_engine", "run_step_closures", "save",
           "sync_multi", "to_cpu", "wait_device_ops"]
