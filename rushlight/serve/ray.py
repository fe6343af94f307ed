"""A program behind Ray Serve (`pip install rushlight[serve] "ray[serve]"`): replicas, routing and scaling are Ray's.

    from ray import serve
    from rushlight.serve import ray as on_ray

    serve.run(on_ray.application("net.pt2", replicas=2, batch_size=8), route_prefix="/")

Enters: a `.pt2` file that every replica can read, and requests in KServe's protocol or calls of a handle. Leaves: their
answers; requests that wait together run together. Refuses: what the server refuses, as JSON with the same status; and
`max_ongoing_requests` below the batch size, with which no batch would ever be full.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .bodies import HEAD_LENGTH, Asked, written
from .inference import Named, asked_for, check_bytes, in_order
from .refusals import Refusal
from .sources import opened


def application(path: str | Path, *, replicas: int = 1, batch_size: int = 8, batch_wait: float = 0.005,
                max_ongoing_requests: int | None = None, threads: int = 0, name: str | None = None,
                **options: Any) -> Any:
    """An application for `serve.run`. `batch_wait` are seconds; `options` are those of Ray's deployments
    (`ray_actor_options`, `autoscaling_config`, ...)."""
    if importlib.util.find_spec("ray") is None:
        raise RuntimeError("serve.ray needs Ray: pip install 'ray[serve]'")
    from ray import serve

    if batch_size < 1 or replicas < 1:
        raise ValueError(f"application: expected replicas and a batch_size from 1, got {replicas} and {batch_size}")
    ongoing = 4 * batch_size if max_ongoing_requests is None else max_ongoing_requests
    if ongoing < batch_size:
        raise ValueError(f"application: expected max_ongoing_requests of at least the batch size, {batch_size}, got "
                         f"{ongoing}: no batch would ever be full")
    if "autoscaling_config" not in options:
        options["num_replicas"] = replicas
    called = name or Path(path).stem
    made = serve.deployment(Replica, name=called, max_ongoing_requests=ongoing, **options)
    return made.bind(str(Path(path).resolve()), called, batch_size, batch_wait, threads)


class Replica:
    """One replica: the program, and what waits for it."""

    def __init__(self, path: str, name: str, batch_size: int, batch_wait: float, threads: int) -> None:
        from ray import serve

        import rushlight

        from .programs import Program

        if threads:
            rushlight.set_num_threads(threads)
        source = opened(Path(path))
        if source.wanted["kind"] != "program":
            source.close()
            raise ValueError(f"serve.ray: expected a .pt2 file, got {Path(path).name}")
        self._name, self._program = name, Program({"fd": source.descriptors[0]})
        source.close()       # the mapping stays
        self._program.warm()
        self.description = self._program.description
        self._batches = serve.batch(self._run, max_batch_size=batch_size, batch_wait_timeout_s=batch_wait)
        self.executions = 0

    async def __call__(self, request: Any) -> Any:
        """KServe's protocol: POST .../infer; anything else describes the model."""
        from starlette.responses import Response

        try:
            if request.method != "POST":
                return Response(json.dumps(self.described()), media_type="application/json")
            asked = Asked(await request.body(), request.headers.get(HEAD_LENGTH))
            asked_for(self.description, list(asked.outputs))
            outputs = {one.name: one for one in await self.infer(asked.inputs)}
            chosen = [outputs[name] for name in asked.outputs or outputs]
            content, headers = written(self._name, "1", asked, chosen)
            return Response(content, headers=headers)
        except Refusal as refused:
            return Response(json.dumps({"error": refused.message}), refused.status, media_type="application/json")

    def described(self) -> dict[str, Any]:
        """What the program takes and gives, and how often it ran."""
        def shown(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
            return [{key: one[key] for key in ("name", "datatype", "shape")} for one in entries]

        return {"name": self._name, "inputs": shown(self.description["inputs"]),
                "outputs": shown(self.description["outputs"]), "executions": self.executions}

    async def infer(self, given: Sequence[Named]) -> list[Named]:
        """The outputs for some inputs, which may run with those of others."""
        ordered = in_order(self.description, [check_bytes(one) for one in given])
        found = await self._batches(ordered)
        if isinstance(found, Refusal):
            raise found
        return found

    async def _run(self, waiting: list[list[Named]]) -> list[Any]:
        """Outputs, or a refusal, for each of those that wait."""
        groups: dict[Any, list[int]] = {}
        for at, one in enumerate(waiting):
            is_free = self.description["batch"] is not None and one[0].shape[0] > 0
            groups.setdefault(tuple(tuple(v.shape[1:]) for v in one) if is_free else at, []).append(at)
        results: list[Any] = [None] * len(waiting)
        for members in groups.values():
            for at, found in zip(members, await asyncio.to_thread(self._together, [waiting[at] for at in members])):
                results[at] = found
        return results

    def _together(self, group: list[list[Named]]) -> list[Any]:
        try:
            return self._rows(group)
        except Refusal as refused:
            if len(group) == 1:
                return [refused]
        return [self._together([one])[0] for one in group]       # the bad one fails alone

    def _rows(self, group: list[list[Named]]) -> list[list[Named]]:
        rows = [one[0].shape[0] if one and one[0].shape else 1 for one in group]
        shapes = [v.shape for v in group[0]] if len(group) == 1 else [[sum(rows), *v.shape[1:]] for v in group[0]]
        data = [memoryview(bytearray(b"".join(v.data for v in column))) for column in zip(*group, strict=True)]
        self.executions += 1
        said, found = self._program.answer({"shapes": shapes}, data)
        names = self.description["outputs"]
        whole = [Named(e["name"], e["datatype"], s, d) for e, s, d in zip(names, said["shapes"], found, strict=True)]
        if len(group) == 1:
            return [whole]
        results, at = [], 0
        for count in rows:
            results.append([one.rows(at, at + count, sum(rows)) for one in whole])
            at += count
        return results
