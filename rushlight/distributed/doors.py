"""Where processes listen for each other, and how they get there: through the kernel on one machine, else over TCP.

Enters: a store that all processes of a group see, a rank and how many there are. Leaves: sockets whose other end knows
the group's secret. Refuses: everybody else, before a byte of theirs is looked at.

Processes of one machine listen at a name of the kernel's alone. Only where some are on another machine do they listen
at a port too, of the one interface that leads there. The secret is drawn by whoever comes first and handed on by the
store; both ends of a connection prove that they have it without saying it, since what comes afterwards may be pickles.

An address is four words: what processes of one machine have in common, a name there, a host and a port.
"""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import socket
import struct
from dataclasses import dataclass
from ipaddress import ip_address

from ..base import environment
from .errors import DistBackendError
from .store import Store

HANDSHAKE_SECONDS = 10.0      # a stranger that says nothing keeps a thread for this long
_NONCE = 32
_NOWHERE = "-"                # the host of an address that no other machine needs

log = logging.getLogger("torch.distributed.rendezvous")


# --- listening --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Doors:
    """Where a process listens: its sockets, their address, and the secret of those who may come in."""

    listeners: list[socket.socket]
    address: str
    secret: bytes

    def admit(self, connection: socket.socket) -> bool:
        """Whether who came through a door knows the secret; a stranger's connection is closed."""
        try:
            connection.settimeout(HANDSHAKE_SECONDS)
            own = secrets.token_bytes(_NONCE)
            connection.sendall(own)
            theirs, proof = receive_exactly(connection, _NONCE), receive_exactly(connection, _NONCE)
            is_known = hmac.compare_digest(proof, _proof(self.secret, b"caller", own, theirs))
            if is_known:
                connection.sendall(_proof(self.secret, b"door", own, theirs))
                connection.settimeout(None)
        except OSError:
            is_known = False
        if not is_known:
            log.warning("%s: somebody who does not know this job's secret was refused", self.address)
            connection.close()
        return is_known


def announce(store: Store, rank: int) -> None:
    """Tell the others which machine this rank is on. Every rank does, before any opens its doors."""
    store.set(f"machine/{rank}", this_machine())


def listen(store: Store, size: int, variables: tuple[str, ...] = ("GLOO_SOCKET_IFNAME",)) -> Doors:
    """Doors for the other ranks, once all of them were announced; `variables` may name the interface between machines.
    """
    mine, everyones = this_machine(), {found.decode() for found in store.multi_get(machine_keys(size))}
    # Whoever is first decides; the others read what it drew.
    secret = store.compare_set("secret", "", secrets.token_hex(_NONCE))
    remote = [] if everyones == {mine} else [_remote_door(store, variables, everyones)]
    local = socket.socket(socket.AF_UNIX)
    local.bind("")       # Linux chooses a name without a file
    local.listen(128)
    name = local.getsockname()[1:].decode()
    host, port = remote[0].getsockname()[:2] if remote else (_NOWHERE, 0)
    return Doors([local, *remote], f"{mine} {name} {host} {port}", secret)


def machine_keys(size: int) -> list[str]:
    """Where the store keeps what `announce` said."""
    return [f"machine/{rank}" for rank in range(size)]


def _remote_door(store: Store, variables: tuple[str, ...], machines: set[str]) -> socket.socket:
    host = own_address(store, variables)
    if ip_address(host.partition("%")[0]).is_loopback and len({m.partition("/")[0] for m in machines}) > 1:
        raise DistBackendError(
            f"the ranks are on several machines, and this one would listen at {host}, which no other machine reaches: "
            f"set {variables[0]} to the interface that leads to them"
        )
    return _server_at(host, variables)


def _server_at(host: str, variables: tuple[str, ...]) -> socket.socket:
    try:
        return socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise DistBackendError(
            f"cannot listen at {host} ({error.strerror}): set {variables[0]} to the interface that leads to the other "
            f"machines"
        ) from None


# --- connecting -------------------------------------------------------------------------------------------------------


def connect(address: str, secret: bytes, timeout: float | None) -> socket.socket:
    """A connection to who listens there; OSError if nobody does, or one who does not know the secret. What it sends
    and receives waits that long too."""
    machine, name, host, port = address.split()
    if machine != this_machine():
        connection = socket.create_connection((host, int(port)), timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    else:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(timeout)
        connection.connect("\0" + name)
    try:
        theirs, own = receive_exactly(connection, _NONCE), secrets.token_bytes(_NONCE)
        connection.sendall(own + _proof(secret, b"caller", theirs, own))
        if not hmac.compare_digest(receive_exactly(connection, _NONCE), _proof(secret, b"door", theirs, own)):
            raise ConnectionRefusedError("who listens there does not know this job's secret")
    except BaseException:
        connection.close()
        raise
    return connection


def _proof(secret: bytes, role: bytes, of_door: bytes, of_caller: bytes) -> bytes:
    """What only one who has the secret can say of these two numbers; in the other role it says something else, so that
    what one end sent is of no use to a stranger who sends it back."""
    return hmac.digest(secret, role + of_door + of_caller, "sha256")


def receive_exactly(connection: socket.socket, size: int) -> bytes:
    """So many bytes; a connection that ends before is an error."""
    found = bytearray(size)
    receive_all(connection, memoryview(found))
    return bytes(found)


def receive_all(connection: socket.socket, into: memoryview) -> None:
    """Fill the buffer; a connection that ends before is an error."""
    at = 0
    while at < into.nbytes:
        count = connection.recv_into(into[at:])
        if not count:
            raise ConnectionResetError("the connection ended")
        at += count


# --- machines and addresses -------------------------------------------------------------------------------------------


def this_machine() -> str:
    """What two processes have in common that can reach each other without a network."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        machine = f"{file.read().strip()}-{os.stat('/proc/self/ns/net').st_ino}"
    if environment.get("RUSHLIGHT_DISTRIBUTED_TRANSPORT") == "tcp":
        return f"{machine}/{os.getpid()}"
    return machine


def own_address(store: Store | None = None, variables: tuple[str, ...] = ("GLOO_SOCKET_IFNAME",)) -> str:
    """An address of this machine that other machines reach: of the interface that a variable names, the one that leads
    to where the store is served, or the one that this machine's name stands for."""
    for variable in variables:
        interface = environment.get(variable)
        if interface:
            return _address_of(interface, variable)
    towards = None if store is None else store.address_towards_server()
    if towards is not None:
        return towards
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


def _address_of(interface: str, variable: str) -> str:
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            row = fcntl.ioctl(probe.fileno(), 0x8915, struct.pack("256s", interface.encode()[:15]))
        except OSError:
            raise DistBackendError(f"{variable}={interface}: there is no such interface") from None
        return socket.inet_ntoa(row[20:24])
