"""What a handler knows of its model and of the requests it answers.

Enters: the manifest, the folder, the headers of each request of a batch. Leaves: the same to the handler, and its
choice of headers and status to the server. Refuses: nothing; an index beyond the batch raises IndexError.
"""

from __future__ import annotations

import uuid
from typing import Any

from .metrics.store import Metrics


class RequestProcessor:
    """One request of a batch: its headers, and those of its answer."""

    def __init__(self, request_header: dict[str, str] | None = None) -> None:
        self._request_headers = {name.lower(): value for name, value in (request_header or {}).items()}
        self._given = dict(request_header or {})
        self._response_headers: dict[str, str] = {}
        self._status, self._phrase = 200, ""

    def get_request_property(self, key: str) -> str | None:
        return self._request_headers.get(key.lower())

    def get_request_properties(self) -> dict[str, str]:
        return self._given

    def report_status(self, code: int, reason_phrase: str | None = None) -> None:
        self._status, self._phrase = code, reason_phrase or ""

    def get_response_status_code(self) -> int:
        return self._status

    def get_response_status_phrase(self) -> str:
        return self._phrase

    def add_response_property(self, key: str, value: str) -> None:
        self._response_headers[key] = value

    def get_response_headers(self) -> dict[str, str]:
        return self._response_headers

    def get_response_header(self, key: str) -> str | None:
        return self._response_headers.get(key)


class Context:
    """The second argument of every handler."""

    header_key_sequence_id = "ts_request_sequence_id"
    header_key_sequence_start = "ts_request_sequence_start"
    header_key_sequence_end = "ts_request_sequence_end"

    def __init__(self, model_name: str, model_dir: str, manifest: dict[str, Any], batch_size: int, gpu: int | None,
                 mms_version: str, limit_max_image_pixels: bool = True, metrics: Any = None,
                 model_yaml_config: dict[str, Any] | None = None) -> None:
        self.model_name, self.manifest = model_name, manifest
        self.model_yaml_config = model_yaml_config or {}
        self.metrics = Metrics() if metrics is None else metrics
        self._system_properties: dict[str, Any] = {
            "model_dir": model_dir, "gpu_id": gpu, "batch_size": batch_size, "server_name": "Rushlight",
            "server_version": mms_version, "limit_max_image_pixels": limit_max_image_pixels}
        self.cache: dict[Any, Any] = {}      # a handler's own, beyond single requests
        self._send_part: Any = None      # what sends a part of each answer, while requests are answered
        self._begin([])

    def _begin(self, headers: list[dict[str, str]]) -> None:
        """A new batch."""
        self.request_ids = {at: one.get("X-Request-Id", str(uuid.uuid4())) for at, one in enumerate(headers)}
        self._request_processor = [RequestProcessor(one) for one in headers]

    def _chosen(self, at: int) -> tuple[int, dict[str, str]]:
        """Status and headers that the handler chose for an answer."""
        one = self._request_processor[at]
        return one.get_response_status_code(), {str(k): str(v) for k, v in one.get_response_headers().items()}

    @property
    def system_properties(self) -> dict[str, Any]:
        return self._system_properties

    @property
    def request_processor(self) -> list[RequestProcessor]:
        return self._request_processor

    def get_request_id(self, idx: int = 0) -> str | None:
        return self.request_ids.get(idx)

    def get_sequence_id(self, idx: int) -> str:
        """Which sequence a request belongs to; "" for none."""
        return self.get_request_header(idx, self.header_key_sequence_id) or ""

    def get_request_header(self, idx: int, key: str) -> str | None:
        """A header of a request; None without it."""
        return self._request_processor[idx].get_request_property(key)

    def get_all_request_header(self, idx: int) -> dict[str, str]:
        return self._request_processor[idx].get_request_properties()

    def set_response_content_type(self, idx: int, value: str) -> None:
        self.set_response_header(idx, "Content-Type", value)

    def get_response_content_type(self, idx: int) -> str | None:
        return self._request_processor[idx].get_response_header("Content-Type")

    def set_response_header(self, idx: int, key: str, value: str) -> None:
        same = "Content-Type" if key.lower() == "content-type" else key
        self._request_processor[idx].add_response_property(same, value)

    def get_response_headers(self, idx: int) -> dict[str, str]:
        return self._request_processor[idx].get_response_headers()

    def set_response_status(self, code: int = 200, phrase: str = "", idx: int = 0) -> None:
        self._request_processor[idx].report_status(code, phrase)

    def set_all_response_status(self, code: int = 200, phrase: str = "") -> None:
        for one in self._request_processor:
            one.report_status(code, phrase)

    def get_response_status(self, idx: int) -> tuple[int, str]:
        one = self._request_processor[idx]
        return one.get_response_status_code(), one.get_response_status_phrase()
