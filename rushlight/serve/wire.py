"""What the server and a worker say to each other over a pair of sockets.

Enters: messages, which are a JSON object and buffers of plain bytes. Leaves: frames (two lengths, the object, the
buffers one behind the other), and messages again on the other side, on an event loop or in a process that waits.
Refuses: frames that are no messages; nothing that arrives is ever run.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Sequence
from typing import Any

HEAD = struct.Struct("<IQ")
Buffer = bytes | bytearray | memoryview


def packed(said: dict[str, Any], buffers: Sequence[Buffer] = ()) -> list[Buffer]:
    """A frame, in pieces to be written one after the other."""
    sizes = [memoryview(b).nbytes for b in buffers]
    text = json.dumps({**said, "sizes": sizes} if sizes else said).encode()
    return [HEAD.pack(len(text), sum(sizes)) + text, *buffers]


def _message(text: Buffer, body: memoryview) -> tuple[dict[str, Any], list[memoryview]]:
    said, buffers, at = json.loads(bytes(text)), [], 0
    for size in said.pop("sizes", ()):
        buffers.append(body[at : at + size])
        at += size
    return said, buffers


class Frames:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: Buffer) -> list[tuple[dict[str, Any], list[memoryview]]]:
        """The messages that these bytes complete."""
        held, found, at = self._held, [], 0
        held += data
        while len(held) - at >= HEAD.size:
            head, body = HEAD.unpack_from(held, at)
            start = at + HEAD.size
            if len(held) < start + head + body:
                break
            text = bytes(held[start : start + head])
            found.append(_message(text, memoryview(bytes(held[start + head : start + head + body]))))
            at = start + head + body
        if at:
            del held[:at]
        return found


class Connection:
    """A worker's end, which waits."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def _exactly(self, count: int) -> bytearray:
        found = bytearray(count)
        view, at = memoryview(found), 0
        while at < count:
            got = self._socket.recv_into(view[at:])
            if not got:
                raise EOFError("the server has gone")
            at += got
        return found

    def receive(self) -> tuple[dict[str, Any], list[memoryview]]:
        """The next message; EOFError when the server has gone."""
        head, body = HEAD.unpack(self._exactly(HEAD.size))
        text = self._exactly(head)
        return _message(text, memoryview(self._exactly(body)))

    def send(self, said: dict[str, Any], buffers: Sequence[Buffer] = ()) -> None:
        self._socket.sendall(b"".join(bytes(p) if isinstance(p, memoryview) else p for p in packed(said, buffers)))
