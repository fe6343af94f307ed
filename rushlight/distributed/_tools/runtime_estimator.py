"""RuntimeEstimator: how long a program's ops would take on the GPU, by module, without its tensors having elements.

Enters: a program under `FakeTensorMode`. Leaves: milliseconds of each module's forward and backward, and the order in
which modules run. Communication is not counted. Refuses: use outside of that mode, kinds of estimates it does not know,
and machines without a GPU.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Self

from ...dispatch.modes import TorchDispatchMode
from ...fake import FakeTensor, FakeTensorMode
from . import op_costs
from .mod_tracker import ModTracker
from .storages import active_fake_mode

__all__ = ["RuntimeEstimator"]

BENCHMARK, COST_MODEL = "operator-level-benchmark", "operator-level-cost-model"


def estimate_of(kind: str) -> Any:
    """The function for a kind of estimate: (op, args, kwargs) -> (result, milliseconds)."""
    known = {BENCHMARK: RuntimeEstimator._benchmark_estimate, COST_MODEL: RuntimeEstimator._roofline_estimate}
    if kind not in known:
        raise NotImplementedError(f"estimate_mode_type {kind} not supported: expected one of {', '.join(known)}")
    return known[kind]


class RuntimeEstimator(TorchDispatchMode):
    """`with RuntimeEstimator()("operator-level-cost-model") as estimator:` around the work, under FakeTensorMode."""

    fake_mode: FakeTensorMode
    _no_fallback_kernel: set[Any] = set()

    def __init__(self) -> None:
        super().__init__()
        self._estimate: Any = self._roofline_estimate
        self._estimate_mode_type = COST_MODEL
        self._mod_tracker = ModTracker()
        self.mod_runtimes: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self.mod_fw_pre_order: list[str] = []
        self.mod_bw_pre_order: list[str] = []
        self.mod_fw_post_order: list[str] = []
        self.mod_bw_post_order: list[str] = []
        self.total_runtime = 0.0

    @classmethod
    def _benchmark_estimate(cls, func: Any, args: tuple, kwargs: dict | None) -> tuple[Any, float]:
        """An op's result, and the time it takes when it is run."""
        if not isinstance(getattr(cls, "fake_mode", None), FakeTensorMode):
            raise AssertionError("RuntimeEstimator: enter it under FakeTensorMode before ops are timed")
        if not op_costs.gpu().is_available():
            raise AssertionError("RuntimeEstimator: ops are timed on a GPU, and there is none")
        took = 0.0
        if func.overloadpacket.__name__ not in op_costs.VIEWS:
            try:
                took = op_costs.measured_ms(func, args, kwargs or {}, lambda t: isinstance(t, FakeTensor))
            except NotImplementedError:
                cls._no_fallback_kernel.add(func.overloadpacket)
        return func(*args, **(kwargs or {})), took

    @classmethod
    def _roofline_estimate(cls, func: Any, args: tuple, kwargs: dict | None) -> tuple[Any, float]:
        """An op's result, and the time it should take by its flops and bytes."""
        if not op_costs.gpu().is_available():
            raise AssertionError("RuntimeEstimator: a roofline is a GPU's, whose peaks it needs, and there is none")
        out = func(*args, **(kwargs or {}))
        return out, op_costs.roofline_ms(func, args, kwargs or {}, out)

    def display_modulewise_stats(self, depth: int = 2) -> None:
        """Print the orders in which modules start, and their times, down to a depth."""
        for title, names in (("Forward", self.mod_fw_pre_order), ("Backward", self.mod_bw_pre_order)):
            print(f"Pre-{title} Execution Order: ")
            for name in names:
                if name.count(".") < depth:
                    print(name)
        for name, times in self.mod_runtimes.items():
            if name.count(".") < depth:
                print(f"{name} fw: {times.get('fw', 0.0):.3f}ms bw: {times.get('bw', 0.0):.3f}ms")

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        result, took = self._estimate(func, args, kwargs)
        way = "bw" if self._mod_tracker.is_bw else "fw"
        for name in self._mod_tracker.parents:
            self.mod_runtimes[name][way] += took
        self.total_runtime += took
        return result

    def __call__(self, estimate_mode_type: str) -> Self:
        """Choose the kind of estimate: "operator-level-benchmark" or "operator-level-cost-model"."""
        self._estimate, self._estimate_mode_type = estimate_of(estimate_mode_type), estimate_mode_type
        return self

    def __enter__(self) -> Self:
        mode = active_fake_mode()
        if mode is None:
            raise AssertionError("RuntimeEstimator: expected an active FakeTensorMode, found none")
        RuntimeEstimator.fake_mode = mode
        self.total_runtime = 0.0
        self.mod_runtimes = defaultdict(lambda: defaultdict(float))
        orders = (self.mod_fw_pre_order, self.mod_fw_post_order, self.mod_bw_pre_order, self.mod_bw_post_order)
        for order in orders:
            order.clear()
        name_of = self._mod_tracker.get_known_fqn
        self._mod_tracker.register_user_hooks(
            *(lambda mod, *rest, order=order: order.append(name_of(mod)) for order in orders)
        )
        self._mod_tracker.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        print(f"Estimated ({self._estimate_mode_type})total_time: {self.total_runtime:.3f} ms")
        if self._no_fallback_kernel:
            print("no_fallback_kernel: ", list(self._no_fallback_kernel))
        super().__exit__(*exc)
        self._mod_tracker.clear_user_hooks()
        self._mod_tracker.__exit__(*exc)
