"""Serving: how soon a server is ready, how many requests it answers, what batching brings, and how soon it recovers.

Enters: nothing. Leaves: a table of ratios; PyTorch stands behind the same HTTP stack (aiohttp), in a server that does
no more than it must: JSON in, `torch.export.load`'s module, JSON out. Refuses: to compare runs of different times; both
sides of a ratio are run in turns, and client and servers share one machine.

    python -m benchmarks serving [start] [rate] [recovery] [batching] [language]
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FREE = ["--port", "0", "--management-port", "0", "--metrics-port", "0", "--grpc-port", "0"]
CLIENTS = 8

# PyTorch behind aiohttp: a file, a port of its own choosing, one line when it is ready.
PEER = '''
import asyncio, json, sys
from aiohttp import web
import torch
torch.set_num_threads(int(sys.argv[2]))
model = torch.export.load(sys.argv[1]).module(check_guards=False)
if len(sys.argv) > 3:
    model = torch.compile(model, dynamic=True)
shape = json.loads(sys.stdin.readline())
with torch.no_grad():
    model(torch.zeros(shape)); model(torch.zeros([2, *shape[1:]]))
async def infer(request):
    said = json.loads(await request.read())
    one = said["inputs"][0]
    with torch.no_grad():
        found = model(torch.tensor(one["data"], dtype=torch.float32).reshape(one["shape"]))
    answer = {"model_name": "net", "outputs": [{"name": "out", "datatype": "FP32", "shape": list(found.shape),
                                                "data": found.flatten().tolist()}]}
    return web.Response(body=json.dumps(answer).encode(), content_type="application/json")
async def main():
    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/v2/models/net/infer", infer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print("ready http", site._server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
'''

MLP = '''
import sys
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(),
                          torch.nn.Linear(256, 10)).eval()
rows = torch.export.Dim("rows")
torch.export.save(torch.export.export(net, (torch.randn(3, 64),), dynamic_shapes=({0: rows},)), sys.argv[1])
'''
RESNET = '''
import sys
import torch
from torch import nn
torch.manual_seed(0)
class Block(nn.Module):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.one = nn.Sequential(nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU())
        self.two = nn.Sequential(nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer))
        self.short = nn.Identity() if stride == 1 and inner == outer else nn.Sequential(
            nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))
    def forward(self, x):
        return torch.relu(self.two(self.one(x)) + self.short(x))
layers, inner = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
for outer, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
    layers += [Block(inner, outer, stride), Block(outer, outer, 1)]
    inner = outer
net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)).eval()
rows = torch.export.Dim("rows")
torch.export.save(torch.export.export(net, (torch.randn(3, 3, 64, 64),), dynamic_shapes=({0: rows},)), sys.argv[1])
'''


def environment() -> dict[str, str]:
    """Both sides keep the bytecode of what they import, as programs do that were started before."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(ROOT),
            "PYTHONPYCACHEPREFIX": os.path.join(tempfile.gettempdir(), "rushlight_benchmark_bytecode")}


class Started:
    """A server process that is ready, and how long that took."""

    def __init__(self, command: list[str], first: str = "") -> None:
        began = time.perf_counter()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, cwd=ROOT,
                                        env=environment())
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(first)
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        self.seconds = time.perf_counter() - began
        if "ready" not in line:
            raise RuntimeError(f"the server did not start: {line}")
        self.ports = {name: int(number) for name, number in re.findall(r"(http|management) (\d+)", line)}

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *error: Any) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


def ours(path: str, *options: Any) -> Started:
    return Started([sys.executable, "-m", "rushlight", "serve", *FREE, "--models", f"net={path}", *map(str, options)])


def peer(path: str, shape: list[int], threads: int = 1) -> Started:
    return Started([sys.executable, "-c", PEER, path, str(threads)], json.dumps(shape) + "\n")


def request_of(port: int, shape: list[int], name: str, is_binary: bool = False) -> bytes:
    """A request as KServe's clients write it: numbers in JSON, or as bytes behind it."""
    values = [round(i % 7 * 0.1, 1) for i in range(math.prod(shape))]
    said: dict[str, Any] = {"name": name, "shape": shape, "datatype": "FP32"}
    asked: dict[str, Any] = {"inputs": [said]}
    rest = array("f", values).tobytes() if is_binary else b""
    if is_binary:
        said["parameters"], asked["parameters"] = {"binary_data_size": len(rest)}, {"binary_data_output": True}
    else:
        said["data"] = values
    head = json.dumps(asked).encode()
    length = f"Inference-Header-Content-Length: {len(head)}\r\n" if is_binary else ""
    return (f"POST /v2/models/net/infer HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            f"{length}Content-Length: {len(head) + len(rest)}\r\n\r\n").encode() + head + rest


async def _client(port: int, request: bytes, until: float, times: list[float]) -> None:
    """Requests one after the other over one connection; plain sockets, so that the client costs little."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while (began := time.perf_counter()) < until:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        found = re.search(rb"\n[Cc]ontent-[Ll]ength: (\d+)", head)
        assert found is not None
        await reader.readexactly(int(found.group(1)))
        times.append(time.perf_counter() - began)
    writer.close()


def load(port: int, request: bytes, seconds: float, clients: int = CLIENTS) -> tuple[float, float]:
    """Requests in a second, and the time within which 99 of 100 were answered."""
    times: list[float] = []

    async def run() -> None:
        until = time.perf_counter() + seconds
        await asyncio.gather(*(_client(port, request, until, times) for _ in range(clients)))

    asyncio.run(run())
    return len(times) / seconds, statistics.quantiles(times, n=100)[98]


def processor_time(process: int) -> float:
    """Seconds that a process and those it started have run, as the system counts them for every thread."""
    total, found = 0, [process]
    for one in found:
        for task in Path(f"/proc/{one}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
            found += map(int, (task / "children").read_text().split())
    return total / 1e9


def made(source: str, path: Path) -> str:
    subprocess.run([sys.executable, "-c", source, str(path)], check=True, cwd=ROOT, capture_output=True)
    return str(path)


def row(what: str, ours_: str, theirs: str, ratio: float, bar: str) -> None:
    print(f"{what:58} {ours_:>14} {theirs:>14} {ratio:7.2f}x  (bar {bar})", flush=True)


def starts(path: str) -> None:
    """Start to ready, files of the compiler's cache there already."""
    found: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(4):
        with ours(path, "--threads", 1) as server:
            found["ours"].append(server.seconds)
        with peer(path, [1, 64]) as server:
            found["theirs"].append(server.seconds)
    a, b = min(found["ours"][1:]), min(found["theirs"][1:])
    row("start to ready, MLP", f"{a:.2f} s", f"{b:.2f} s", b / a, "4x sooner")


def rates(path: str, shape: list[int], name: str, what: str) -> None:
    with ours(path, "--threads", 1, "--batch-size", CLIENTS, "--max-batch-delay", 0) as one, peer(path, shape) as other:
        found: list[list[tuple[float, float, float]]] = [[], []]
        for _ in range(4):
            for at, server in enumerate((one, other)):
                port, spent = server.ports["http"], processor_time(server.process.pid)
                rate, slowest = load(port, request_of(port, shape, name), 2.0)
                spent = processor_time(server.process.pid) - spent
                found[at].append((rate, slowest, spent / (rate * 2.0) * 1e6))
        (a, a99, a_us), (b, b99, b_us) = ([statistics.median(column) for column in zip(*side[1:], strict=True)]
                                          for side in found)
    row(f"requests/s, {what}, {CLIENTS} clients", f"{a:.0f}", f"{b:.0f}", a / b, "2x")
    row(f"99% latency, {what}, {CLIENTS} clients", f"{a99 * 1e3:.2f} ms", f"{b99 * 1e3:.2f} ms", a99 / b99, "0.6x")
    # What holds on a machine that others use too; all processes of a server.
    row(f"processor time of a request, {what}", f"{a_us:.0f} us", f"{b_us:.0f} us", a_us / b_us, "none")


def batching(path: str, shape: list[int], name: str, what: str) -> None:
    """Both sides of one server's kind; tensors come as bytes, as Triton's clients send pictures."""
    with ours(path, "--batch-size", 8, "--max-batch-delay", 5) as on, ours(path) as off:
        found: list[list[float]] = [[], []]
        for _ in range(4):
            for at, server in enumerate((on, off)):
                port = server.ports["http"]
                found[at].append(load(port, request_of(port, shape, name, is_binary=True), 4.0)[0])
        a, b = (statistics.median(side[1:]) for side in found)
    row(f"batching on against off, {what}, requests/s", f"{a:.1f}", f"{b:.1f}", a / b, "1.3x")


def recovery(path: str) -> None:
    """From a worker's death to the next good answer."""
    import urllib.error
    import urllib.request

    def ask(port: int, request: str, data: bytes | None = None) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{request}", data, timeout=10) as answer:
            return answer.read()

    found = []
    body = request_of(0, [1, 64], "input").partition(b"\r\n\r\n")[2]
    for _ in range(3):
        with ours(path, "--threads", 1) as server:
            described = json.loads(ask(server.ports["management"], "/models/net"))
            ask(server.ports["http"], "/v2/models/net/infer", body)
            os.kill(described[0]["workers"][0]["pid"], signal.SIGKILL)
            began = time.perf_counter()
            while True:
                try:
                    ask(server.ports["http"], "/v2/models/net/infer", body)
                    break
                except (urllib.error.HTTPError, OSError):
                    time.sleep(0.01)
            found.append(time.perf_counter() - began)
    print(f"{'a worker killed: seconds to the next good answer':58} {statistics.median(found):12.2f} s  (bar under 2)")


def run(only: set[str] | None = None) -> None:
    """All rows; `only` names some: start, rate, recovery, batching, language."""
    with tempfile.TemporaryDirectory() as folder:
        mlp = made(MLP, Path(folder) / "mlp.pt2")
        print(f"{'':58} {'ours':>14} {'PyTorch':>14}")
        if not only or "start" in only:
            starts(mlp)
        if not only or "rate" in only:
            rates(mlp, [1, 64], "input", "MLP")
        if not only or "recovery" in only:
            recovery(mlp)
        if not only or "batching" in only:
            batching(made(RESNET, Path(folder) / "resnet.pt2"), [1, 3, 64, 64], "input", "ResNet-18 at 64")
    if not only or "language" in only:      # a process of its own: its threads and what it imports are counted apart
        subprocess.run([sys.executable, "-m", "benchmarks.serving_language"], check=True, cwd=ROOT, env=environment())


if __name__ == "__main__":
    run(set(sys.argv[1:]))
