"""A WebAssembly module in a browser without a window: a page fetches it, runs it and posts the bytes of its result."""

from __future__ import annotations

import functools
import http.server
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import numpy as np
import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARRAYS = {"float32": "Float32Array", "int64": "BigInt64Array"}
PATIENCE = 120.0    # seconds: a browser starts in two, on a machine that does nothing else

PAGE = """<!doctype html><meta charset="utf-8"><title>a model</title>
<script type="module">
const told = (path, body) => fetch(path, {{ method: "POST", body }});
try {{
  const {{ load }} = await import("./{name}.mjs");
  const bytes = async (file) => await (await fetch(file)).arrayBuffer();
  const model = await load(await bytes("{name}.wasm"), await bytes("{name}.weights"));
  const [y] = model({sizes}new {array}(await bytes("x.bin")));
  await told("/result", new Uint8Array(y.buffer, y.byteOffset, y.byteLength).slice());
}} catch (problem) {{
  await told("/problem", String(problem && problem.stack || problem));
}}
</script>
"""


def browser() -> str | None:
    """The browser of this machine."""
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


needs_browser = pytest.mark.skipif(browser() is None, reason=f"none of {', '.join(BROWSERS)} is installed")


class _Files(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, and keeps what the page posts."""

    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}

    def __init__(self, *request: Any, posted: Queue, **options: Any) -> None:
        self.posted = posted
        super().__init__(*request, **options)

    def do_POST(self) -> None:
        self.posted.put((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *words: Any) -> None:
        """Says nothing: pytest shows what a failing page posted."""


@contextmanager
def _served(folder: Path) -> Iterator[tuple[str, Queue]]:
    posted: Queue = Queue()
    handler = functools.partial(_Files, posted=posted, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", posted
        finally:
            server.shutdown()
            thread.join()


def in_browser(result: Any, folder: Path, x: np.ndarray, shape: tuple[int, ...], sizes: tuple = ()) -> np.ndarray:
    """The result of a WebAssembly module, computed by a page."""
    x.tofile(folder / "x.bin")
    given = "".join(f"{n}, " for n in sizes)
    page = PAGE.format(name=result.name, sizes=given, array=ARRAYS[x.dtype.name])
    (folder / "index.html").write_text(page)
    with _served(folder) as (address, posted):
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"]
        command = [browser(), *options, f"--user-data-dir={folder / 'profile'}", f"{address}/index.html"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            kind, body = posted.get(timeout=PATIENCE)
        except Empty:
            process.kill()
            said = process.communicate()[1].decode(errors="replace")
            pytest.fail(f"the page posted nothing in {PATIENCE:.0f} s; the browser said:\n{said[-2000:]}")
        finally:
            process.kill()
            process.communicate()
    assert kind == "/result", body.decode(errors="replace")
    return np.frombuffer(body, np.float32).reshape(shape)
