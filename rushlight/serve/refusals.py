"""What is said to a client that asks for something that cannot be given, in the words of the protocol it speaks.

Enters: a status, a sentence and, from whoever knows better, the name of the kind of error. Leaves: the JSON that
KServe's, TorchServe's and OpenAI's clients read; which of them, the path tells. Refuses: to say anything about the
inside: errors that are nobody's fault but ours become one sentence without a traceback.
"""

from __future__ import annotations

import json

# TorchServe's names for kinds of errors: its clients look at them.
KINDS = {
    400: "BadRequestException",
    401: "InvalidKeyException",
    403: "InvalidModelVersionException",
    404: "ResourceNotFoundException",
    405: "MethodNotAllowedException",
    408: "RequestTimeoutException",
    409: "ConflictStatusException",
    413: "BadRequestException",
    500: "InternalServerException",
    503: "ServiceUnavailableException",
    507: "OutOfMemoryException",
}
# OpenAI's.
OPENAI_KINDS = {401: "authentication_error", 404: "not_found_error", 500: "server_error", 503: "server_error"}


class Refusal(Exception):
    """An answer that is no result: `status` as in HTTP, a sentence, and TorchServe's name of the kind where it is not
    the usual one. `param` and `code` are for OpenAI's clients."""

    def __init__(self, status: int, message: str, kind: str | None = None, *, param: str | None = None,
                 code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.kind, self.param, self.code = status, message, kind, param, code


class LoadError(Exception):
    """A model that cannot be served, and why, in one line."""


def unknown_model(name: str) -> Refusal:
    return Refusal(404, f"model {name!r} is not served here. GET /v2/repository/index lists those that are.",
                   "ModelNotFoundException", param="model", code="model_not_found")


def unknown_version(name: str, version: str) -> Refusal:
    return Refusal(404, f"model {name!r} has no version {version!r}", "ModelVersionNotFoundException")


def no_worker(name: str) -> Refusal:
    return Refusal(503, f"model {name!r} has no worker that runs. Ask again later, or scale it up.")


def homeless(sequence: str) -> Refusal:
    return Refusal(503, f"the worker that knew the sequence {sequence[:60]!r} is gone. Begin it again.")


def written(refusal: Refusal, path: str) -> bytes:
    """The body of the answer, for whoever asks under this path."""
    if path.startswith("/v1/"):
        kind = refusal.kind or OPENAI_KINDS.get(refusal.status, "invalid_request_error")
        said = {"message": refusal.message, "type": kind, "param": refusal.param, "code": refusal.code}
        return json.dumps({"error": said}).encode()
    if path == "/v2" or path.startswith("/v2/"):
        return json.dumps({"error": refusal.message}).encode()
    kind = refusal.kind or KINDS.get(refusal.status, KINDS[500 if refusal.status >= 500 else 400])
    return json.dumps({"code": refusal.status, "type": kind, "message": refusal.message}).encode()
