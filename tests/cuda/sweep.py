"""PyTorch's op records on a CUDA device against the CPU's results: `python -m tests.cuda.sweep`.

Enters: the records of tests/parity, their samples as Rushlight's tensors. Leaves: a table of how many records give on
the device what they give on the CPU, forward (float32) and gradient (float64), the failures by what was said, and which
ops were computed on the host. Records run in child processes, many each; one that dies takes its record with it, and
the rest of its records go to another.

    python -m tests.cuda.sweep                          every record
    python -m tests.cuda.sweep --only 'sort*,fft.*'     some
    python -m tests.cuda.sweep --jobs 12 --json out.json --device cuda

A sample whose numbers the seed decides is compared by its form alone, and so is memory that nobody wrote.
"""

from __future__ import annotations

import argparse
import json
import queue
import re
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter, defaultdict
from fnmatch import fnmatchcase
from typing import Any

PATIENCE, CHECKS = 120, ("forward", "gradient")
SAMPLES = {"forward": 12, "gradient": 6}


# --- one record, in a child process -----------------------------------------------------------------------------------


class Sweep:
    """The checks of a record on one device; torch and its records are imported here, once a child."""

    def __init__(self, device: str) -> None:
        import rushlight as rl
        from rushlight.devices import base
        from tests.cuda import records_without_helpers  # noqa: F401  what PyTorch's records import must be there
        from tests.parity import checks, compare, convert, records

        self.rl, self.device, self.checks, self.compare, self.convert = rl, device, checks, compare, convert
        self.records = records.RECORDS
        if device not in ("cuda", "cpu", "lazy"):   # without a card: the device that tests/devices has
            from tests.devices.reference_device import ReferenceDevice

            base.register(ReferenceDevice(device))
        self.on_host: set[str] = set()
        plain = base.Device.own_or_report

        def noted(handler: Any, op: str, expected: bool = False) -> Any:
            found = plain(handler, op, expected)
            if found is None:
                self.on_host.add(op)
            return found

        base.Device.own_or_report = noted
        checks.SAMPLES.update(SAMPLES)
        self.seed = 0
        convert.HELPERS["wrapper_set_seed"] = self.seeded
        rl.backends.cudnn.allow_tf32 = False

    def seeded(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        """Records that bring a seed of their own get ours, which changes: so what chance decides is found out."""
        self.rl.manual_seed(self.seed)
        return op(*args, **kwargs)

    def run(self, name: str) -> dict[str, Any]:
        record, found = self.records[name], {}
        self.on_host.clear()
        for check in CHECKS:
            try:
                found[check] = self.one(record, check)
            except self.checks.NotApplicable:
                found[check] = "none"
            except Exception as error:   # noqa: BLE001  any failure is the finding
                found[check] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        return {**found, "host": sorted(self.on_host)}

    def one(self, record: Any, check: str) -> str:
        import torch

        checks, backward = self.checks, check == "gradient"
        if backward and not (record.supports_autograd and torch.float64 in record.dtypes):
            raise checks.NotApplicable
        pair, seen = checks._pair(record), False
        dtype = torch.float64 if backward else checks.main_dtype(record)
        for sample in checks.samples(record, dtype, check, requires_grad=backward):
            seen |= self.sample(pair, sample, backward)
        if not seen:
            raise checks.NotApplicable
        return "pass"

    def sample(self, pair: Any, sample: Any, backward: bool) -> bool:
        """Whether the CPU runs the sample; raises where the device gives something else."""
        where, kind = self.checks.describe(sample), pair.kind
        if backward:
            kind = self.checks.GRADIENT_KIND[1].get(kind, kind)
        try:
            want = self.results(pair, sample, "cpu", 11, backward)
        except Exception:   # noqa: BLE001  what the CPU refuses is the business of tests/parity
            return False
        if backward and not want:
            return False
        again = self.results(pair, sample, "cpu", 12, backward)
        got = self.results(pair, sample, self.device, 11, backward)
        slack = pair.slack * (self.checks.GRADIENT_SLACK if backward else 1.0)
        values = pair.values and self.same(want, again)
        if not backward and self.names_device(sample):
            for w, g in zip(self.compare.leaves(want), self.compare.leaves(got), strict=True):
                if isinstance(w, self.rl.Tensor) and isinstance(g, self.rl.Tensor):
                    self.placed(w, g, where)
        self.compare.compare(self.tree(want), self.tree(got, True), where, kind, values, slack)
        return True

    def names_device(self, sample: Any) -> bool:
        """Whether the arguments say where the result goes."""
        import torch

        given = self.compare.leaves((sample.input, sample.args))
        return "device" in sample.kwargs or any(isinstance(x, torch.Tensor) for x in given)

    def placed(self, w: Any, g: Any, where: str) -> None:
        if g.device.type != self.device and w.device.type == "cpu":
            raise self.compare.Different(f"{where}: the result is on {g.device}")
        plain = w.layout is self.rl.strided and g.layout is self.rl.strided
        if plain and self.compare.meaningful_strides(w) != self.compare.meaningful_strides(g):
            raise self.compare.Different(f"{where}: strides {w.stride()} on the CPU, {g.stride()} on the device")

    def tree(self, x: Any, ours: bool = False) -> Any:
        """Results as `compare` takes them: the CPU's as PyTorch's, the device's on the host."""
        if isinstance(x, self.rl.Tensor):
            return x.detach().cpu() if ours else self.torch_of(x)
        if isinstance(x, (list, tuple)):
            return [self.tree(item, ours) for item in x]
        if isinstance(x, dict):
            return {key: self.tree(item, ours) for key, item in x.items()}
        if isinstance(x, (self.rl.dtype, self.rl.device, self.rl.layout)):
            return str(x).split(":")[0].replace(self.device, "cpu") if isinstance(x, self.rl.device) else str(x)
        return x

    def torch_of(self, x: Any) -> Any:
        import torch

        if x.layout is self.rl.strided:
            return self.convert.back(x)
        layout = getattr(torch, str(x.layout).split(".")[-1])
        made = self.convert.back(x)
        return made.to_sparse(layout=layout) if layout is not torch.sparse_coo else made.to_sparse(x.sparse_dim())

    def same(self, a: Any, b: Any) -> bool:
        """Whether the seed left the results alone."""
        try:
            self.compare.compare(self.tree(a), self.tree(b, True), "", "moved")
        except self.compare.Different:
            return False
        return True

    def results(self, pair: Any, sample: Any, device: str, seed: int, backward: bool) -> Any:
        """What a sample gives on a device: its result, or the gradients of it."""
        rl, memo = self.rl, {}
        given = self.convert.thing((sample.input, list(sample.args), dict(sample.kwargs)), memo)
        first, args, kwargs = self.moved(given, device, {})
        self.seed = seed
        rl.manual_seed(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = pair.ours(first, *args, **kwargs)
        result = self.convert.thing(sample.output_process_fn_grad)(result)
        if not backward:
            return result
        outs = [t for t in self.compare.leaves(result) if isinstance(t, rl.Tensor) and t.requires_grad]
        leaves = self.compare.leaves((first, args, kwargs))
        inputs = [t for t in leaves if isinstance(t, rl.Tensor) and t.requires_grad]
        if not outs or not inputs:
            return None
        rl.manual_seed(3)
        heads = [rl.randn(t.shape, dtype=t.dtype).to(t.device) for t in outs]
        return list(rl.autograd.grad(outs, inputs, heads, allow_unused=True))

    def moved(self, x: Any, device: str, memo: dict[int, Any], key: str = "") -> Any:
        """Arguments on a device; those that share memory do so there."""
        rl = self.rl
        if isinstance(x, rl.Tensor):
            return self.moved_tensor(x, device, memo)
        if type(x) in (list, tuple):
            return type(x)(self.moved(item, device, memo, key) for item in x)
        if isinstance(x, dict):
            return {name: self.moved(item, device, memo, name) for name, item in x.items()}
        if isinstance(x, rl.device) or (isinstance(x, str) and (key == "device" or x == "cpu")):
            return rl.device(device) if str(x).split(":")[0] in ("cpu", self.device) else x
        if isinstance(x, rl.Generator) and device != "cpu":
            return rl.Generator(device=device).manual_seed(x.initial_seed())
        return x

    def moved_tensor(self, x: Any, device: str, memo: dict[int, Any]) -> Any:
        if id(x) not in memo:
            made = x.detach().to(device) if device != "cpu" else x.detach()
            strided = x.layout is self.rl.strided and device != "cpu" and x.device.type == "cpu"
            if strided and x.numel() and x.untyped_storage().nbytes() != x.numel() * x.element_size():
                span = x.untyped_storage().nbytes() // x.element_size()
                whole = x.detach().as_strided((span,), (1,), 0).to(device)
                made = whole.as_strided(x.shape, x.stride(), x.storage_offset())
            memo[id(x)] = x, made.requires_grad_(x.requires_grad)
        return memo[id(x)][1]


def child(device: str) -> None:
    """Records by their names, one a line on the input; an answer of JSON for each."""
    sweep = Sweep(device)
    for line in sys.stdin:
        name = line.strip()
        print(json.dumps({"start": name}), flush=True)
        print(json.dumps({"name": name, **sweep.run(name)}), flush=True)


# --- the parent -------------------------------------------------------------------------------------------------------


def attend(names: queue.Queue[str], results: dict[str, dict[str, Any]], device: str) -> None:
    """Feed a child until there is nothing left; a new one where it died or said nothing for too long."""
    while not names.empty():
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.cuda.sweep", "--child", "--device", device],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        errors: list[str] = []
        reader = threading.Thread(target=lambda p=process, e=errors: e.extend(p.stderr.readlines()), daemon=True)
        reader.start()
        while True:
            try:
                name = names.get_nowait()
            except queue.Empty:
                break
            timer = threading.Timer(PATIENCE, process.kill)
            timer.start()
            answer = ask(process, name)
            timer.cancel()
            if answer is None:
                reader.join(2)
                said = errors[-1].strip() if errors else ""
                results[name] = dict.fromkeys(CHECKS, f"the process died: {said[:200]}") | {"host": []}
                break
            results[name] = answer
        process.stdin.close()
        process.kill()
        process.wait()


def ask(process: Any, name: str) -> dict[str, Any] | None:
    try:
        process.stdin.write(name + "\n")
        process.stdin.flush()
    except OSError:
        return None
    for line in process.stdout:
        if line.startswith("{"):
            answer = json.loads(line)
            if answer.get("name") == name:
                return answer
    return None


def report(results: dict[str, dict[str, Any]]) -> str:
    lines = []
    for check in CHECKS:
        found = {name: result[check] for name, result in results.items() if result[check] != "none"}
        bad = {name: why for name, why in found.items() if why != "pass"}
        share = 1 - len(bad) / len(found) if found else 1.0
        lines.append(f"{check}: {len(found) - len(bad)} of {len(found)} records as on the CPU ({share:.1%})")
        groups: dict[str, list[str]] = defaultdict(list)
        for name, why in bad.items():
            groups[re.sub(r"[\d.\[\]e+-]+", "#", why.split(": ")[0] + ": " + why.split(": ")[-1])[:90]].append(name)
        for said, names in sorted(groups.items(), key=lambda item: -len(item[1])):
            lines.append(f"  {len(names):>3}  {said}\n       {' '.join(names)}\n       e.g. {bad[names[0]][:260]}")
    hosts = Counter(op for result in results.values() for op in result["host"])
    told = ", ".join(f"{op} ({n})" for op, n in hosts.most_common())
    lines.append(f"computed on the host, by how many records: {told or 'nothing'}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cuda.sweep")
    parser.add_argument("--only", default="*", help="glob patterns over record names, separated by commas")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--json", help="write the result of every record here")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no record after this long")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.device)
        return 0
    from tests.cuda import records_without_helpers  # noqa: F401
    from tests.parity.records import RECORDS

    chosen = [name for name in RECORDS if any(fnmatchcase(name, p) for p in options.only.split(","))]
    names: queue.Queue[str] = queue.Queue()
    for name in chosen:
        names.put(name)
    results: dict[str, dict[str, Any]] = {}
    threads = [threading.Thread(target=attend, args=(names, results, options.device)) for _ in range(options.jobs)]
    for thread in threads:
        thread.start()
    started = time.monotonic()
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.5)
        if time.monotonic() - started > options.seconds:
            with names.mutex:
                names.queue.clear()
    print(f"{len(results)} of {len(chosen)} records in {time.monotonic() - started:.0f} s")
    print(report(results))
    if options.json:
        with open(options.json, "w") as handle:
            json.dump(results, handle, indent=1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
