"""SACEstimator: what recomputing a module's activations would save of memory, and cost in time, op by op.

Enters: a program's forward under `FakeTensorMode`. Leaves: for every module that has parts, its ops with bytes and
milliseconds, the order in which to recompute them, and the trade-off between both, as figures and tables. Refuses: use
outside of that mode, and machines without a GPU.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Self

from ... import _C
from ...autograd.graph import saved_tensors_hooks
from ...dispatch.modes import TorchDispatchMode
from ...nn import Module
from ...utils._pytree import tree_leaves
from ...utils.checkpoint import SAC_IGNORED_OPS
from .mod_tracker import ModTracker
from .runtime_estimator import COST_MODEL, RuntimeEstimator, estimate_of
from .sac_records import (
    MSPS,
    ModuleRecord,
    OpRecord,
    SACGreedyOrderMeta,
    SACStats,
    SACTradeOffStats,
    greedy_order,
)
from .snapshots import table_of
from .storages import active_fake_mode, bytes_taken, get_untyped_storages

__all__ = ["MSPS", "SACEstimator", "SACGreedyOrderMeta", "SACStats", "SACTradeOffStats"]

_SKIPPED = frozenset({str(op) for op in SAC_IGNORED_OPS} | {"aten.lift_fresh.default", "aten.clone.default"})
_RANDOM = frozenset(
    "native_dropout rand randn randint randperm rand_like randn_like randint_like rrelu_with_noise".split()
)
_STATS = ("Op Idx", "Op Name", "Runtimes(ms)", "Memory (B)", "View-like", "Random", "Saved Autograd", "In-place")
_TRADE = ("Op Id(s)", "Op Name(s)", "Discarded Mem (%)", "Discarded Mem (B)", "Recomp time (%)", "Recomp time (ms)",
          "MSPS", "Always Stored", "Always Recomputed")


def _is_random(func: Any) -> bool:
    draws = any(str(p.type).startswith("Generator") for p in func._schema.arguments)
    return draws or func.overloadpacket.__name__ in _RANDOM


def _print_rows(headers: tuple[str, ...], rows: list[list[str]], print_tabular: bool) -> None:
    if print_tabular:
        print(table_of(rows, headers))
        return
    lines = [list(headers), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("\t".join(f"{text:<{width}}" for text, width in zip(line, widths, strict=True)))


class SACEstimator(TorchDispatchMode):
    """`with SACEstimator()("operator-level-cost-model") as estimator:` around a forward, under FakeTensorMode."""

    def __init__(self) -> None:
        super().__init__()
        self.sac_mod_stats: dict[str, SACStats] = {}
        self.sac_mod_tradeoff_stats: dict[str, SACTradeOffStats] = {}
        self.sac_mod_greedy_order_meta: dict[str, SACGreedyOrderMeta] = {}
        self._mod_tracker = ModTracker()
        self._sac_metadata: list[OpRecord] = []
        self._sac_mod_metadata: dict[str, ModuleRecord] = {}
        self._leaf_modules: set[str] = set()
        self._saved_hooks = saved_tensors_hooks(self._note_saved, lambda x: x)
        self._saved_tensor_ids: set[int] = set()
        self._estimate_runtime: Any = estimate_of(COST_MODEL)

    def _note_saved(self, x: Any) -> Any:
        self._saved_tensor_ids.update(s._cdata for s in get_untyped_storages(x))
        return x

    def _pre_fw_hook(self, mod: Module, inputs: Any) -> None:
        name = self._mod_tracker.get_known_fqn(mod)
        assert name is not None, "SACEstimator: a module runs that ModTracker has not named"
        if next(mod.children(), None) is None:
            self._leaf_modules.add(name)
            return
        has_tensors = any(isinstance(x, _C.Tensor) for x in tree_leaves(inputs))
        self._sac_mod_metadata[name] = ModuleRecord(len(self._sac_metadata), not has_tensors, [])

    def _post_fw_hook(self, mod: Module, inputs: Any, outputs: Any) -> None:
        name = self._mod_tracker.get_known_fqn(mod)
        assert name is not None, "SACEstimator: a module ends that ModTracker has not named"
        if name not in self._leaf_modules:
            record = self._sac_mod_metadata[name]
            self.sac_mod_stats[name] = self._stats_of(record.sac_metadata, record.force_store_random)
            self.sac_mod_greedy_order_meta[name] = greedy_order(self.sac_mod_stats[name])

    def _stats_of(self, data: list[OpRecord], force_store_random: bool) -> SACStats:
        kept = [record for record in data if str(record.func) not in _SKIPPED]
        numbers = [record.curr_idx for record in kept]
        try:
            inplace = [(numbers.index(own), numbers.index(first))
                       for own, first in (record.inplace_info for record in kept if record.inplace_info)]
        except ValueError as error:
            raise ValueError(
                f"SACEstimator: an op writes in place to what one of {sorted(_SKIPPED)} made, which is not recorded"
            ) from error
        views = [i for i, record in enumerate(kept) if record.is_view_like]
        memory = [record.memory_used for record in kept]
        # The last result is what the module gives: it is stored in any case.
        last, skipped = len(kept) - 1, {*views, *(op for op, _ in inplace)}
        while last in skipped:
            last -= 1
        memory[last] = 0
        return SACStats(
            func_names=[record.func.overloadpacket.__name__ for record in kept],
            runtimes=[record.time_taken for record in kept],
            memory=memory,
            view_like_ops=views,
            rand_ops=[i for i, record in enumerate(kept) if record.is_rand_op],
            saved_autograd_ops=[i for i, r in enumerate(kept) if self._saved_tensor_ids.issuperset(r.output_ids)],
            inplace_ops=inplace,
            force_store_random=force_store_random,
        )

    def _first_writer(self, name: str, output_ids: tuple[int, ...], own: int) -> int:
        """The first op of a module that made what is written now; the write itself where it came from outside."""
        record = self._sac_mod_metadata.get(name)
        start = record.start_idx if record is not None else 0
        for i, earlier in enumerate(self._sac_metadata):
            if i >= start and set(output_ids) <= set(earlier.output_ids):
                return i
        return own

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        out, took = self._estimate_runtime(func, args, kwargs)
        tensors = [t for t in tree_leaves(out) if isinstance(t, _C.Tensor)]
        devices = {t.device for t in tensors if t.device.type == "cuda"}
        if len(devices) > 1:
            raise AssertionError(f"SACEstimator: {func} gives tensors on several GPUs: {devices}")
        storages = {s._cdata: (s, t.device) for t in tensors for s in get_untyped_storages(t)}
        is_view = bool(func.is_view)
        taken = 0 if is_view else sum(bytes_taken(s.nbytes(), device) for s, device in storages.values())
        ids, own = tuple(storages), len(self._sac_metadata)
        for name in self._mod_tracker.parents - self._leaf_modules:
            writer = (own, self._first_writer(name, ids, own)) if func.inplace else ()
            record = OpRecord(func, took, taken, own, ids, writer, is_view, _is_random(func))
            known = self._sac_mod_metadata.get(name)
            (known.sac_metadata if known is not None else self._sac_metadata).append(record)
        return out

    # --- the trade-off ------------------------------------------------------------------------------------------------

    def _curve(self, stats: SACStats, order: SACGreedyOrderMeta) -> OrderedDict[float, float]:
        """Share of memory given up (and a hundredth) -> share of time to recompute."""
        memory, runtime = sum(stats.memory), sum(stats.runtimes)
        always = {i for op in order.recomputed_ops for i in order.together(op)}
        never = {i for op in order.stored_ops for i in order.together(op)}

        def cost(ops: set[int]) -> tuple[int, float]:
            return sum(stats.memory[i] for i in ops), sum(stats.runtimes[i] for i in ops)

        steps = [cost(always), *((each.memory, each.runtime) for each in order.msps_meta), cost(never)]
        found, freed, took = OrderedDict(), 0, 0.0
        for more, longer in steps:
            freed, took = freed + more, took + longer
            found[freed / memory + 1e-2] = took / runtime
        return found

    def _trade_off(self, name: str, n_segments: int, save_tradeoff_graph: bool) -> SACTradeOffStats:
        try:
            import pwlf  # noqa: PLC0415 - a package of its own, needed here only
        except ImportError as error:
            raise ImportError("SACEstimator: fitting lines needs the package pwlf: pip install pwlf") from error
        stats = self.sac_mod_stats[name]
        curve = self._curve(stats, self.sac_mod_greedy_order_meta[name])
        # Each share of memory with the next share of time: the fit shall not promise too little time.
        x, y = list(curve)[:-1], list(curve.values())[1:]
        fit, n_segments = pwlf.PiecewiseLinFit(x, y), max(min(len(x) - 2, n_segments), 1)
        fit.fit(n_segments=n_segments)
        if save_tradeoff_graph:
            _draw(fit, x, y, curve, name)
        return SACTradeOffStats(n_segments, fit.calc_slopes().tolist(), fit.intercepts.tolist(),
                                fit.fit_breaks.tolist(), curve, sum(stats.memory), sum(stats.runtimes))

    def pwlf_sac_tradeoff_curve(self, n_segments: int = 2, save_tradeoff_graphs: bool = False) -> None:
        """Fit pieces of lines to every module's trade-off, and draw it into ./tradeoff_graphs if asked to."""
        for name in self.sac_mod_stats:
            self.sac_mod_tradeoff_stats[name] = self._trade_off(name, n_segments, save_tradeoff_graphs)

    # --- what is shown ------------------------------------------------------------------------------------------------

    def display_sac_stats(self, sac_stats: SACStats, print_tabular: bool = False) -> None:
        """Print a module's ops; as a table with the package tabulate."""
        s = sac_stats
        totals = f"Total Memory: {sum(s.memory)} B Total Runtime: {sum(s.runtimes)} ms"
        print(f"{totals} Store Random: {s.force_store_random}")
        first = dict(s.inplace_ops)
        _print_rows(_STATS, [
            [str(i), name, f"{s.runtimes[i]:.4f}", str(s.memory[i]), str(i in s.view_like_ops), str(i in s.rand_ops),
             str(i in s.saved_autograd_ops), str(first.get(i))]
            for i, name in enumerate(s.func_names)
        ], print_tabular)

    def display_sac_tradeoff_stats(
        self, greedy_order_meta: SACGreedyOrderMeta, sac_stats: SACStats, print_tabular: bool = False
    ) -> None:
        """Print the order of recomputation with the memory given up and the time taken so far."""
        order, s = greedy_order_meta, sac_stats
        rows, freed, took = [], 0, 0.0
        steps = [(op, None, False, True) for op in order.recomputed_ops]
        steps += [(each.op_idx, each.msps, False, False) for each in order.msps_meta]
        steps += [(op, None, True, False) for op in order.stored_ops]
        for op, ratio, is_stored, is_recomputed in steps:
            ops = order.together(op)
            freed, took = freed + sum(s.memory[i] for i in ops), took + sum(s.runtimes[i] for i in ops)
            rows.append([
                str(ops), str({s.func_names[i] for i in ops}), f"{freed / sum(s.memory):.4f}", str(freed),
                f"{took / sum(s.runtimes):.4f}", str(took), "nan" if ratio is None else f"{ratio:.2e}",
                str(is_stored), str(is_recomputed),
            ])
        _print_rows(_TRADE, rows, print_tabular)

    def display_modulewise_sac_stats(self, depth: int = 2, print_tabular: bool = False) -> None:
        """Print ops and trade-offs of all modules down to a depth."""
        for name, stats in self.sac_mod_stats.items():
            if name.count(".") < depth:
                print(f"Module: {name}")
                self.display_sac_stats(stats, print_tabular)
                print(f"AC Trade-off for Module: {name} MSPS = Memory/Runtime")
                self.display_sac_tradeoff_stats(self.sac_mod_greedy_order_meta[name], stats, print_tabular)

    # --- the mode -----------------------------------------------------------------------------------------------------

    def __call__(self, estimate_mode_type: str) -> Self:
        """Choose the kind of estimate: "operator-level-benchmark" or "operator-level-cost-model"."""
        self._estimate_runtime = estimate_of(estimate_mode_type)
        return self

    def __enter__(self) -> Self:
        mode = active_fake_mode()
        if mode is None:
            raise AssertionError("SACEstimator: expected an active FakeTensorMode, found none")
        RuntimeEstimator.fake_mode = mode
        self._mod_tracker.register_user_hooks(pre_fw_hook=self._pre_fw_hook, post_fw_hook=self._post_fw_hook)
        self._mod_tracker.__enter__()
        self._saved_hooks.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        self._saved_hooks.__exit__(*exc)
        self._mod_tracker.clear_user_hooks()
        self._mod_tracker.__exit__(*exc)


def _draw(fit: Any, x: list[float], y: list[float], curve: OrderedDict[float, float], name: str) -> None:
    """The trade-off and the lines fitted to it, as ./tradeoff_graphs/NAME.png."""
    import os  # noqa: PLC0415

    import matplotlib.pyplot as plt  # noqa: PLC0415 - a package of its own, needed here only
    import numpy as np  # noqa: PLC0415

    along = np.linspace(min(x), max(x), num=10000)
    plt.figure()
    plt.plot(x, y, "o", label="Shifted")
    plt.plot(along, fit.predict(along), "-", label="Predicted")
    plt.plot(list(curve), list(curve.values()), "x", label="Original")
    plt.ylabel("Recomp time / Total recomp time")
    plt.xlabel("Memory discarded / Total memory")
    plt.legend()
    plt.title(name)
    os.makedirs("tradeoff_graphs", exist_ok=True)
    plt.savefig(os.path.join("tradeoff_graphs", f"{name}.png"))
