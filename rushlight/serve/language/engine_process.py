"""An engine as a process of its own: steps while there is work, and listens between them.

Enters: the number of its end of a pair of sockets; over it what to load, then sequences to add and to cancel. Leaves:
one message for a step: what became of sequences, and how much runs. Refuses: sequences that the engine refuses, by
name; to live on when the server has gone.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
from dataclasses import asdict
from typing import Any

from ..wire import Connection

FEW = 1.0      # seconds between looks at whether the server lives


def main(descriptor: int) -> int:
    os.set_inheritable(descriptor, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)      # a terminal's Ctrl-C is for the server, which lets this finish
    os.dup2(2, 1)
    sock = socket.socket(fileno=descriptor)
    connection = Connection(sock)
    try:
        wanted, _ = connection.receive()
        engine = loaded(wanted, connection)
        if engine is not None:
            serve(engine, connection)
    except (EOFError, OSError):      # the server has gone
        pass
    return 0


def loaded(wanted: dict[str, Any], connection: Connection) -> Any:
    """The engine, announced; None where it cannot be had, and why has been said."""
    try:
        from .engine import Engine
        from .settings import Settings

        if wanted.get("threads"):
            import rushlight

            rushlight.set_num_threads(wanted["threads"])
        engine = Engine.load(wanted["folder"], Settings(**wanted["settings"]))
        warm(engine)
    except BaseException as error:
        traceback.print_exc()
        connection.send({"failed": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"})
        return None
    connection.send({"ready": {
        "max_len": engine.max_len, "words": engine.config.words, "blocks": engine.blocks.count - 1,
        "first": engine.config.first, "ends": list(engine.config.ends),
    }})
    return engine


def warm(engine: Any) -> None:
    """Run what every request runs, so that the first one does not wait for it."""
    from .engine import Counts
    from .sampling import Sampling

    count = min(3, engine.max_len - 1)
    if count > 0:
        for name in range(2):
            sampling = Sampling(max_tokens=2, temperature=float(name), ignore_eos=True)
            engine.add(name, [0] * (count - name or 1), sampling)
        while engine.busy:
            engine.step()
    engine.blocks.clear()
    engine.counts = Counts()


def serve(engine: Any, connection: Connection) -> None:
    """Until told to stop."""
    while True:
        while connection.has_more(0 if engine.busy else FEW):
            said, _ = connection.receive()
            if said["do"] == "stop":
                return
            told(engine, said, connection)
        if engine.busy:
            events = engine.step()
            connection.send({"events": [as_list(e) for e in events], "stats": stats(engine)})


def told(engine: Any, said: dict[str, Any], connection: Connection) -> None:
    """A sequence comes, or nobody wants it any more."""
    from .sampling import Sampling

    if said["do"] == "cancel":
        for name in said["names"]:
            engine.cancel(name)
        connection.send({"events": [], "stats": stats(engine)})
        return
    given = said["sampling"]
    given["logit_bias"] = {int(k): v for k, v in given["logit_bias"].items()}
    given["stop_ids"] = tuple(given["stop_ids"])
    try:
        engine.add(said["name"], said["words"], Sampling(**given), said["after"])
    except ValueError as error:
        connection.send({"refused": said["name"], "why": str(error)})


def as_list(event: Any) -> list[Any]:
    """An event as the server reads it."""
    c = event.chosen
    chosen = None if c is None else [c.word, c.logprob, c.likeliest]
    prompt = None if event.prompt is None else [[p.word, p.logprob, p.likeliest] for p in event.prompt]
    return [event.name, chosen, event.finish, event.cached, prompt]


def stats(engine: Any) -> dict[str, Any]:
    return {
        "running": len(engine.running), "waiting": len(engine.waiting), "usage": engine.blocks.usage,
        **asdict(engine.counts),
    }


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
