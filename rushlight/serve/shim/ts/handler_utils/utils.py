"""Parts of answers, sent while a handler still works.

Enters: a part for each request of the batch. Leaves: messages to the server, which hands them on at once. Refuses:
another number of parts than there are requests, and codes other than 200: an error is raised, not sent.
"""

from __future__ import annotations

from typing import Any


def send_intermediate_predict_response(ret: Any, req_id_map: Any, message: str, code: int, context: Any = None) -> bool:
    """Send a part of every request's answer; what `handle` returns in the end is the last part."""
    if context is None:
        raise ValueError("send_intermediate_predict_response: expected the handler's context, got None")
    if code != 200:
        raise ValueError(f"send_intermediate_predict_response: expected code 200, got {code}. Raise an exception to "
                         "answer with an error.")
    context._send_part(ret)
    return True
