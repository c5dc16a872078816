"""The requests of `tollway.enqueue`: batches, options, token. What a pipeline makes of them is in `test_enqueue_over_http.py`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import tollway


class Received:
    """What a listener was sent. It answers as the contract says."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.status = 200
        received = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                received.requests.append((self.path, dict(self.headers), body))
                bad = body.count(b"bad")
                new = body.count(b"\n") - bad
                errors = ["line 1: bad"] if bad else []
                said = {"stage": "s", "new": new, "known": 1, "cancelled": 0, "bad": bad, "errors": errors}
                if received.status != 200:
                    said = {"type": "urn:x", "title": "no", "status": received.status, "detail": "do this"}
                answer = json.dumps(said).encode()
                self.send_response(received.status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def received() -> Iterator[Received]:
    started = Received()
    yield started
    started.server.shutdown()
    started.server.server_close()


def test_jobs_are_lines_with_the_commands_options(received: Received) -> None:
    jobs: list[dict[str, object]] = [{"page": 1}, {"page": 2, "text": "ä"}]
    counted = tollway.enqueue(
        jobs, "pdf", url=received.url, token="secret-token-of-16", stage="auto tag", key=["page", "text"], again=True
    )
    assert counted == tollway.Enqueued(2, 1, 0, 0, ())
    ((path, headers, body),) = received.requests
    assert path == "/v1/pipelines/pdf/jobs?stage=auto+tag&again=true&key=page&key=text"
    sent = {name.lower(): value for name, value in headers.items()}
    assert (sent["content-type"], sent["authorization"]) == ("application/x-ndjson", "Bearer secret-token-of-16")
    assert [json.loads(line) for line in body.splitlines()] == jobs


def test_many_jobs_are_sent_in_batches(received: Received) -> None:
    jobs = ({"number": number, "text": "x" * 100_000} for number in range(25))
    assert tollway.enqueue(jobs, "pdf", url=received.url).new == 25
    bodies = [body for _, _, body in received.requests]
    assert len(bodies) == 3 and all(len(body) <= 1024 * 1024 for body in bodies)
    assert [json.loads(line)["number"] for body in bodies for line in body.splitlines()] == list(range(25))
    with pytest.raises(ValueError, match="1 MiB"):
        tollway.enqueue([{"text": "x" * 1024 * 1024}], "pdf", url=received.url)
    assert tollway.enqueue([], "pdf", url=received.url) == tollway.Enqueued(0, 0, 0, 0, ())


def test_bad_lines_and_refusals_are_told(received: Received) -> None:
    counted = tollway.enqueue([{"page": "bad"}, {"page": 2}], "pdf", url=received.url)
    assert (counted.new, counted.bad, counted.errors) == (1, 1, ("line 1: bad",))
    received.status = 403
    with pytest.raises(tollway.ServerProblem, match="do this") as problem:
        tollway.enqueue([{"page": 1}], "pdf", url=received.url)
    assert problem.value.status == 403
