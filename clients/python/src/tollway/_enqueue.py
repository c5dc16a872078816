"""Adds jobs to a pipeline, over HTTP."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from ._address import Endpoint
from ._servers import decoded, problem_of
from ._sockets import Sockets
from ._steps import Exchange

# Of one request.
BATCH_BYTES_MAX = 1024 * 1024
# A batch is on disk before it is answered.
TIMEOUT_DEFAULT = 30.0
CONTENT_TYPE = "application/x-ndjson"


class Enqueued(NamedTuple):
    """What became of the jobs."""

    # Jobs that are new, those whose key is known, and those whose key was dropped or cancelled.
    new: int
    known: int
    cancelled: int
    # Records that are no jobs, and the first reasons.
    bad: int
    errors: tuple[str, ...]


def enqueue(
    jobs: Iterable[Mapping[str, Any]],
    pipeline: str,
    *,
    url: str | None = None,
    token: str | None = None,
    stage: str | None = None,
    key: str | Iterable[str] | None = None,
    again: bool = False,
    timeout: float = TIMEOUT_DEFAULT,
) -> Enqueued:
    """Adds jobs to a pipeline, as `tollway pipeline enqueue FILE.jsonl` does. Jobs are on disk when it returns. A key that is
    there is left alone, so it can be repeated after any failure.

    `url` is the administration listener of `tollway pipeline run` or `tollway serve`, by default `$TOLLWAY_ADMIN_URL`; the
    token, by default `$TOLLWAY_ADMIN_TOKEN`, may write. Jobs are sent in batches of at most 1 MiB.
    """
    url = url or os.environ.get("TOLLWAY_ADMIN_URL", "http://127.0.0.1:9090")
    endpoint = Endpoint(url, token or os.environ.get("TOLLWAY_ADMIN_TOKEN") or None)
    options: list[tuple[str, str]] = []
    if stage is not None:
        options.append(("stage", stage))
    if again:
        options.append(("again", "true"))
    options += [("key", field) for field in ([key] if isinstance(key, str) else key or [])]
    query = f"?{urlencode(options)}" if options else ""
    head = endpoint.heads.head("POST", f"/v1/pipelines/{quote(pipeline, safe='')}/jobs{query}", CONTENT_TYPE)
    sockets = Sockets()
    total = Enqueued(0, 0, 0, 0, ())
    try:
        for batch in _batches(jobs):
            request = b"%b%d\r\n\r\n%b" % (head, len(batch), batch)
            total = _sum(total, _answer(sockets, Exchange(endpoint, request, timeout)))
    finally:
        sockets.close()
    return total


def _answer(sockets: Sockets, step: Exchange) -> Enqueued:
    answer = sockets.exchange(step)
    said = decoded(answer)
    if answer.status != 200:
        raise problem_of(answer, said)
    return Enqueued(said["new"], said["known"], said["cancelled"], said["bad"], tuple(said["errors"]))


def _sum(total: Enqueued, more: Enqueued) -> Enqueued:
    return Enqueued(
        total.new + more.new,
        total.known + more.known,
        total.cancelled + more.cancelled,
        total.bad + more.bad,
        # As many as the first answer with errors shows.
        total.errors or more.errors,
    )


def _batches(jobs: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    lines: list[bytes] = []
    size = 0
    for job in jobs:
        line = json.dumps(job).encode() + b"\n"
        if len(line) > BATCH_BYTES_MAX:
            raise ValueError("a job is above 1 MiB")
        if size + len(line) > BATCH_BYTES_MAX:
            yield b"".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield b"".join(lines)
