"""An archive by hand: a handler of one function, in a zip file, registered while the server runs.

    pip install 'rushlight[serve]'
    python examples/serve/archive.py
"""

import json
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from pathlib import Path

HANDLER = '''
import torch

def handle(data, context):
    if data is None:            # once, before the first request
        return None
    rows = [row["body"]["values"] for row in data]
    return [{"mean": torch.tensor(values).mean().item()} for values in rows]
'''


def ask(url: str, data: dict | None = None, method: str | None = None) -> object:
    body = None if data is None else json.dumps(data).encode()
    asked = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(asked) as answer:
        return json.loads(answer.read())


def main() -> None:
    store = Path(tempfile.mkdtemp())
    with zipfile.ZipFile(store / "mean.mar", "w") as archive:
        archive.writestr("handler.py", HANDLER)
        archive.writestr("MAR-INF/MANIFEST.json", json.dumps(
            {"runtime": "python", "model": {"modelName": "mean", "modelVersion": "1.0", "handler": "handler.py"}}))
    command = [sys.executable, "-m", "rushlight", "serve", "--model-store", str(store), "--port", "0", "--no-grpc",
               "--management-port", "0", "--metrics-port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        words = server.stdout.readline().replace(":", " ").split()
        http, management = (words[words.index(name) + 1] for name in ("http", "management"))
        asked = "/models?url=mean.mar&initial_workers=2&synchronous=true"
        print(ask(f"http://127.0.0.1:{management}{asked}", method="POST")["status"])
        print(ask(f"http://127.0.0.1:{http}/predictions/mean", {"values": [1.0, 2.0, 6.0]}))
        print(len(ask(f"http://127.0.0.1:{management}/models/mean")[0]["workers"]), "workers")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
