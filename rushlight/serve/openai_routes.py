"""Where OpenAI's clients ask: the paths under /v1, which `rushlight.serve.language` answers for its models.

Enters: the models of the server. Leaves: routes. Refuses: nothing; without a language model /v1/models lists none.

What `rushlight.serve.language` offers the server:

- `load(name, folder, options, registry)` gives a model that is not started. `options` has what the command was told
  (`block_size`, `num_blocks`, `max_num_seqs`, `max_model_len`, `workers`; None where nothing was); `registry` is a
  `prometheus_client.CollectorRegistry` to count in.
- A model has `name`, `is_ready`, `async start()` (returns when it answers, LoadError where it cannot), `async stop()`
  (ends its process; may be called at any time, also twice), and `processes()`: the ids of its processes.
- `routes(models)` gives aiohttp routes. `models` is the server's own dict by name, which changes while it runs. A
  handler raises `refusals.Refusal` (status, message, param=, code=) and reads bodies with `http.body`, JSON with
  `http.parsed`; the server's middleware has checked key and size, and writes errors as OpenAI's clients read them.
- `processes.Worker` starts a process under a module's name and speaks `wire` with it: its owner has `worker_ready`,
  `worker_answered`, `worker_failed`, `worker_gone`; `wire.Connection` is the process's end. `Worker` may be used by the
  engine as it is: `await worker.start("rushlight.serve.language.engine_process", {...})`.
"""

from __future__ import annotations

from aiohttp import web

from .http import answered
from .repository import Repository


def routes(repository: Repository) -> list[web.AbstractRouteDef]:
    """Paths under /v1."""
    try:
        from .language import routes as of_language
    except ImportError:
        async def none(request: web.Request) -> web.Response:
            return answered({"object": "list", "data": []})

        return [web.get("/v1/models", none)]
    return list(of_language(repository.language))
