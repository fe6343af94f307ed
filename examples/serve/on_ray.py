"""A program behind Ray Serve: two replicas, each with batches.

    pip install 'rushlight[serve]' 'ray[serve]'
    python examples/serve/on_ray.py
"""

import json
import tempfile
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ray import serve

import rushlight as torch
from rushlight.serve import ray as on_ray


def main() -> None:
    path = Path(tempfile.mkdtemp()) / "net.pt2"
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()
    rows = torch.export.Dim("rows")
    torch.export.save(torch.export.export(net, (torch.zeros(3, 4),), dynamic_shapes=({0: rows},)), path)
    serve.run(on_ray.application(path, replicas=2, batch_size=8, threads=1), route_prefix="/")

    def ask(number: int) -> list[float]:
        given = {"name": "input", "shape": [1, 4], "datatype": "FP32", "data": [number, 1, 2, 3]}
        body = json.dumps({"inputs": [given]}).encode()
        with urllib.request.urlopen("http://127.0.0.1:8000/v2/models/net/infer", body) as answer:
            return json.loads(answer.read())["outputs"][0]["data"]

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(ask, range(32)))
    wanted = net(torch.tensor([[float(n), 1, 2, 3] for n in range(32)])).tolist()
    assert all(abs(a - b) < 1e-5 for one, two in zip(found, wanted) for a, b in zip(one, two))
    with urllib.request.urlopen("http://127.0.0.1:8000/") as answer:
        print("32 requests, of which one replica ran its part in", json.loads(answer.read())["executions"], "batches")
    serve.shutdown()


if __name__ == "__main__":
    main()
