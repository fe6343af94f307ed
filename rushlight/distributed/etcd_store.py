"""`EtcdStore`: a store in etcd, which outlives any machine of a job (`--rdzv-backend etcd --rdzv-endpoint host:2379`).

It speaks the JSON form of etcd's v3 interface, which servers since 3.4 have at their client port. Whatever changes a
value is a transaction that goes through only if nobody was quicker. All keys of a job hang on one lease, which every
process of the job renews: when the last has gone, so have the keys.
"""

from __future__ import annotations

import base64
import http.client
import json
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from .errors import DistNetworkError, QueueEmptyError
from .store import Store, Table, nobody_set

_LEASE_SECONDS = 60
_LONGEST_PAUSE = 0.1


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


class EtcdStore(Store):
    """Keys and values below `prefix` in the etcd at host:port."""

    def __init__(self, host: str, port: int, prefix: str, timeout: timedelta = timedelta(minutes=5)) -> None:
        super().__init__()
        self.host, self.port, self.prefix = host, port, prefix.rstrip("/") + "/"
        self._timeout = timeout
        self._connections = threading.local()
        self._lease = self._join_lease()
        self._stop = threading.Event()
        threading.Thread(target=self._renew, name="etcd-lease", daemon=True).start()

    # --- the server ---------------------------------------------------------------------------------------------------

    def _ask(self, path: str, question: dict[str, Any]) -> dict[str, Any]:
        """One call; a connection that broke meanwhile is made anew, once."""
        for attempt in range(2):
            connection = getattr(self._connections, "open", None)
            try:
                if connection is None:
                    connection = self._connections.open = http.client.HTTPConnection(self.host, self.port, timeout=30)
                connection.request("POST", f"/v3/{path}", json.dumps(question), {"Content-Type": "application/json"})
                answer = connection.getresponse()
                body = answer.read()
            except (OSError, http.client.HTTPException) as error:
                self._connections.open = None
                if attempt:
                    raise DistNetworkError(f"etcd at {self.host}:{self.port} cannot be reached: {error}") from None
                continue
            if answer.status != 200:
                raise DistNetworkError(
                    f"etcd at {self.host}:{self.port} refused {path} (status {answer.status}): {body[:200].decode()}"
                )
            return json.loads(body)
        raise AssertionError("the second attempt answers or raises")

    def _key(self, key: str) -> str:
        return _text((self.prefix + key).encode())

    def _row(self, key: str) -> dict[str, Any] | None:
        rows = self._ask("kv/range", {"key": self._key(key)}).get("kvs", [])
        return rows[0] if rows else None

    def _put(self, key: str, value: bytes) -> dict[str, Any]:
        return {"key": self._key(key), "value": _text(value), "lease": self._lease}

    def _join_lease(self) -> str:
        """The job's lease: the first process grants it, the others find it."""
        while True:
            row = self._row(".lease")
            if row is not None:
                lease = base64.b64decode(row["value"]).decode()
                if int(self._ask("lease/keepalive", {"ID": lease})["result"].get("TTL", 0)) > 0:
                    return lease
            self._lease = str(self._ask("lease/grant", {"TTL": _LEASE_SECONDS})["ID"])
            if self._swap(".lease", row, self._lease.encode()):
                return self._lease

    def _renew(self) -> None:
        while not self._stop.wait(_LEASE_SECONDS / 4):
            try:
                self._ask("lease/keepalive", {"ID": self._lease})
            except DistNetworkError:      # whoever uses the store is told; here there is another time to try
                continue

    def _swap(self, key: str, row: dict[str, Any] | None, value: bytes | None) -> bool:
        """Replace what was read by a value, or by nothing; whether nobody was quicker."""
        revision = "0" if row is None else row["mod_revision"]
        compare = {"key": self._key(key), "target": "MOD", "result": "EQUAL", "mod_revision": revision}
        change = (
            {"request_delete_range": {"key": self._key(key)}} if value is None
            else {"request_put": self._put(key, value)}
        )
        return bool(self._ask("kv/txn", {"compare": [compare], "success": [change]}).get("succeeded"))

    def _change(self, key: str, change: Callable[[bytes | None], tuple[Any, bytes | None]]) -> Any:
        """`change(value)` gives the answer and the new value; None leaves what is there."""
        while True:
            row = self._row(key)
            answer, value = change(None if row is None else base64.b64decode(row.get("value", "")))
            if value is None or self._swap(key, row, value):
                return answer

    # --- the operations -----------------------------------------------------------------------------------------------

    def _request(self, operation: str, *args: Any, seconds: float | None = None) -> Any:
        return getattr(self, f"_{operation}_")(*args, **({} if seconds is None else {"seconds": seconds}))

    def _set_(self, key: str, value: bytes) -> None:
        self._ask("kv/put", self._put(key, value))

    def _get_(self, key: str, seconds: float) -> bytes:
        self._wait_(key, seconds=seconds)
        row = self._row(key)
        if row is None:      # deleted meanwhile
            return self._get_(key, seconds)
        return base64.b64decode(row.get("value", ""))

    def _wait_(self, *keys: str, seconds: float) -> None:
        deadline, pause = time.monotonic() + seconds, 0.002
        left = list(keys)
        while left := [key for key in left if self._row(key) is None]:
            if time.monotonic() >= deadline:
                raise nobody_set(left, seconds, f"etcd at {self.host}:{self.port}")
            time.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 1.5)

    def _check_(self, *keys: str) -> bool:
        return all(self._row(key) is not None for key in keys)

    def _through_table(self, operation: str, key: str, *args: Any) -> Any:
        """An operation as every store does it, on the value that is there."""

        def change(value: bytes | None) -> tuple[Any, bytes | None]:
            table = Table()
            if value is not None:
                table.values[key] = value
            answer = getattr(table, operation)(key, *args)
            after = table.values.get(key)
            return answer, None if after == value else after

        return self._change(key, change)

    def _add_(self, key: str, amount: int) -> Any:
        return self._through_table("add", key, amount)

    def _compare_set_(self, key: str, expected: bytes, desired: bytes) -> Any:
        return self._through_table("compare_set", key, expected, desired)

    def _append_(self, key: str, value: bytes) -> Any:
        return self._through_table("append", key, value)

    def _delete_key_(self, key: str) -> bool:
        return int(self._ask("kv/deleterange", {"key": self._key(key)}).get("deleted", 0)) > 0

    def _list_keys_(self) -> list[bytes]:
        start = self.prefix.encode()
        end = start[:-1] + bytes([start[-1] + 1])
        found = self._ask("kv/range", {"key": _text(start), "range_end": _text(end), "keys_only": True})
        names = [base64.b64decode(row["key"])[len(start):] for row in found.get("kvs", [])]
        return sorted(name for name in names if name != b".lease")

    def _num_keys_(self) -> int:
        return len(self._list_keys_())

    # A queue is a list of texts under its key.

    def _queue_push_(self, key: str, value: bytes) -> None:
        self._change(key, lambda old: (None, json.dumps([*json.loads(old or b"[]"), _text(value)]).encode()))

    def _queue_pop_(self, key: str, seconds: float) -> bytes:
        deadline = time.monotonic() + seconds
        while True:
            row = self._row(key)
            if row is not None:
                first, *rest = json.loads(base64.b64decode(row["value"]))
                if self._swap(key, row, json.dumps(rest).encode() if rest else None):
                    return base64.b64decode(first)
                continue
            if time.monotonic() >= deadline:
                raise QueueEmptyError(f"etcd: the queue {key!r} is empty")
            time.sleep(0.01)

    def _queue_len_(self, key: str) -> int:
        row = self._row(key)
        return 0 if row is None else len(json.loads(base64.b64decode(row["value"])))

    def clone(self) -> EtcdStore:
        """Another handle on the same values."""
        return EtcdStore(self.host, self.port, self.prefix, self._timeout)

    def close(self) -> None:
        """Renew the lease no more: the keys go when nobody does."""
        self._stop.set()
