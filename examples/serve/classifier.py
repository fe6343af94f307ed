"""A classifier as a `.pt2` file, served, and asked by Triton's client and by plain HTTP.

    pip install 'rushlight[serve]' 'tritonclient[http]'
    python examples/serve/classifier.py

It trains a small network on points in two classes, exports it with a free number of rows, starts the server and
asks it.
"""

import json
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import rushlight as torch


def trained() -> torch.nn.Module:
    """A network that tells points within a circle from those outside."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(200):
        points = torch.rand(256, 2) * 2 - 1
        classes = (points.square().sum(1) < 0.5).long()
        loss = torch.nn.functional.cross_entropy(net(points), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net.eval()


def main() -> None:
    path = Path(tempfile.mkdtemp()) / "circle.pt2"
    rows = torch.export.Dim("rows")
    torch.export.save(torch.export.export(trained(), (torch.zeros(3, 2),), dynamic_shapes=({0: rows},)), path)
    command = [sys.executable, "-m", "rushlight", "serve", "--models", f"circle={path}", "--port", "0", "--no-grpc",
               "--management-port", "0", "--metrics-port", "0", "--batch-size", "8", "--max-batch-delay", "5"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        line = server.stdout.readline()
        print(line.strip())
        port = line.split("http ")[1].split()[0]
        points = [[0.0, 0.1], [0.9, 0.9]]
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/predictions/circle", json.dumps(points).encode())
        with urllib.request.urlopen(asked) as answer:
            scores = json.loads(answer.read())
        for point, score in zip(points, scores):
            print(point, "within" if score[1] > score[0] else "outside")
        triton(port, points)
    finally:
        server.terminate()
        server.wait()


def triton(port: str, points: list[list[float]]) -> None:
    """The same by Triton's client, where it is installed."""
    try:
        import numpy
        import tritonclient.http as triton_http
    except ImportError:
        return
    with triton_http.InferenceServerClient(f"127.0.0.1:{port}") as client:
        said = client.get_model_metadata("circle")
        given = triton_http.InferInput(said["inputs"][0]["name"], [2, 2], "FP32")
        given.set_data_from_numpy(numpy.array(points, numpy.float32))
        print(client.infer("circle", [given]).as_numpy(said["outputs"][0]["name"]).shape)


if __name__ == "__main__":
    main()
