"""Where processes listen for each other, and how they get there: through the kernel on one machine, else over TCP.

Enters: nothing, or the address that another process gave. Leaves: sockets. An address is four words: what processes of
one machine have in common, a name there, a host and a port.
"""

from __future__ import annotations

import os
import socket
import struct

from ..base import environment
from .errors import DistBackendError


def listen() -> tuple[list[socket.socket], str]:
    """A door for processes of this machine and one for others, and the address of both."""
    local, remote = socket.socket(socket.AF_UNIX), socket.create_server(("", 0))
    local.bind("")       # Linux chooses a name without a file
    local.listen(128)
    name, port = local.getsockname()[1:].decode(), remote.getsockname()[1]
    return [local, remote], f"{this_machine()} {name} {own_address()} {port}"


def connect(address: str, timeout: float | None) -> socket.socket:
    """A connection to who listens there; OSError if nobody does. What it sends and receives waits that long too."""
    machine, name, host, port = address.split()
    if machine != this_machine():
        connection = socket.create_connection((host, int(port)), timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(timeout)
    connection.connect("\0" + name)
    return connection


def this_machine() -> str:
    """What two processes have in common that can reach each other without a network."""
    if environment.get("RUSHLIGHT_DISTRIBUTED_TRANSPORT") == "tcp":
        return f"process-{os.getpid()}"
    with open("/proc/sys/kernel/random/boot_id") as file:
        return f"{file.read().strip()}-{os.stat('/proc/self/ns/net').st_ino}"


def own_address() -> str:
    """An address of this machine that other machines reach: of GLOO_SOCKET_IFNAME, or the one its name stands for."""
    interface = environment.get("GLOO_SOCKET_IFNAME")
    if interface:
        import fcntl

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                row = fcntl.ioctl(probe.fileno(), 0x8915, struct.pack("256s", interface.encode()[:15]))
            except OSError:
                raise DistBackendError(f"GLOO_SOCKET_IFNAME={interface}: there is no such interface") from None
            return socket.inet_ntoa(row[20:24])
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
