"""What the server and a worker say to each other over a pair of sockets.

Enters: messages, which are a JSON object and buffers of plain bytes. Leaves: frames (two lengths, the object, the
buffers one behind the other), and messages again on the other side, on an event loop or in a process that waits.
Refuses: frames that are no messages; nothing that arrives is ever run.
"""

from __future__ import annotations

import json
import select
import socket
import struct
from collections.abc import Sequence
from typing import Any

HEAD = struct.Struct("<IQ")
Buffer = bytes | bytearray | memoryview
SMALL = 1 << 15      # bytes up to which messages are read as they come, with what follows


def packed(said: dict[str, Any], buffers: Sequence[Buffer] = ()) -> list[Buffer]:
    """A frame, in pieces to be written one after the other."""
    sizes = [memoryview(b).nbytes for b in buffers]
    text = json.dumps({**said, "sizes": sizes} if sizes else said).encode()
    return [HEAD.pack(len(text), sum(sizes)) + text, *buffers]


def _message(text: Buffer, body: memoryview) -> tuple[dict[str, Any], list[memoryview]]:
    said, buffers, at = json.loads(text if isinstance(text, bytes) else bytes(text)), [], 0
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
        self._held = b""      # what came behind the last message

    def _exactly(self, count: int) -> Buffer:
        """So many bytes; they may be written to where they are many."""
        if count <= len(self._held):
            found, self._held = self._held[:count], self._held[count:]
            return found
        if count <= SMALL:
            while len(self._held) < count:
                more = self._socket.recv(2 * SMALL)
                if not more:
                    raise EOFError("the server has gone")
                self._held += more
            return self._exactly(count)
        found, at = bytearray(count), len(self._held)
        found[:at], self._held = self._held, b""
        view = memoryview(found)
        while at < count:
            got = self._socket.recv_into(view[at:])
            if not got:
                raise EOFError("the server has gone")
            at += got
        return found

    def has_more(self, patience: float) -> bool:
        """Whether a message has begun to come, or begins to within so many seconds."""
        return bool(self._held) or bool(select.select([self._socket], [], [], patience)[0])

    def receive(self) -> tuple[dict[str, Any], list[memoryview]]:
        """The next message, its buffers to be written to as one likes; EOFError when the server has gone."""
        head, body = HEAD.unpack(self._exactly(HEAD.size))
        text = self._exactly(head)
        data = self._exactly(body)
        return _message(text, memoryview(data if isinstance(data, bytearray) else bytearray(data)))

    def send(self, said: dict[str, Any], buffers: Sequence[Buffer] = ()) -> None:
        self._socket.sendall(b"".join(packed(said, buffers)))
