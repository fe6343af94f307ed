"""A worker: a process that holds one model and runs it for the server.

Enters: the number of its end of a pair of sockets, and over that first what to load (with the descriptor of memory that
holds it), then requests. Leaves: what the model takes and gives, then answers, one at a time in the order of the
requests. Refuses: to live on when the server has gone; what a model prints goes to the server's standard error.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
import sys
import time
import traceback
from typing import Any

from .refusals import LoadError, Refusal
from .wire import Connection


def main(descriptor: int) -> int:
    os.set_inheritable(descriptor, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)      # a terminal's Ctrl-C is for the server, which lets workers finish
    os.dup2(2, 1)
    sock = socket.socket(fileno=descriptor)
    connection = Connection(sock)
    importlib.import_module("rushlight.serve.programs")      # while nobody has said what to load yet
    try:
        begun, given, _, _ = socket.recv_fds(sock, 1, 1)
        if not begun:
            return 0
        wanted, _ = connection.receive()
        wanted["fd"] = next(iter(given), None)
        model = _loaded(wanted, connection)
        while model is not None:
            said, buffers = connection.receive()
            if said["do"] == "stop":
                break
            _answer(connection, model, said, buffers)
    except (EOFError, OSError):      # the server has gone
        _end_all()
    return 0


def _end_all() -> None:
    """End this process and those that a handler started; its threads are not waited for, nobody would."""
    if os.getpgrp() == os.getpid():
        sys.stderr.flush()
        os.killpg(0, signal.SIGKILL)


def _loaded(wanted: dict[str, Any], connection: Connection) -> Any:
    """The model, announced; None where it cannot be had, and why has been said."""
    try:
        import rushlight

        if wanted.get("threads"):
            rushlight.set_num_threads(wanted["threads"])
        if wanted["kind"] == "program":
            from .programs import Program as Kind
        else:
            from .handlers import Handled as Kind
        model = Kind(wanted)
        model.warm()
    except LoadError as refused:
        connection.send({"failed": str(refused)})
        return None
    except BaseException as error:
        traceback.print_exc()
        connection.send({"failed": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"})
        return None
    connection.send({"ready": model.description})
    return model


def _answer(connection: Connection, model: Any, said: dict[str, Any], buffers: list[memoryview]) -> None:
    begun = time.perf_counter_ns()
    model.say = lambda part, contents: connection.send({"id": said["id"], "is_part": True, **part}, contents)
    try:
        answer, results = model.answer(said, buffers)
    except Refusal as refused:
        answer, results = {"error": [refused.status, refused.message, refused.kind]}, []
    except Exception as error:
        traceback.print_exc()
        why = f"the model failed: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
        answer = {"error": [500, why, None]}
        results = []
    connection.send({"id": said["id"], **answer, "took": time.perf_counter_ns() - begun}, results)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
