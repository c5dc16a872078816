"""The bytes of answers: whole, in pieces, in chunks, hostile."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import tollway
from tollway._wire import BODY_BYTES_MAX, HEAD_BYTES_MAX, Answer, AnswerReader, BadAnswer, RequestHeads

PLAIN = b"HTTP/1.1 429 Too Many\r\nContent-Length: 2\r\nRetry-After: 7\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;a=b\r\n}\r\n0\r\n\r\n"
WHOLE = {PLAIN: Answer(429, b"{}", False, 7.0), CHUNKED: Answer(200, b"{}", False, None)}


@pytest.mark.parametrize("data", WHOLE)
def test_answers_are_read_however_they_are_cut(data: bytes) -> None:
    assert AnswerReader().feed(data) == WHOLE[data]
    for cut in range(1, len(data)):
        reader = AnswerReader()
        assert reader.feed(data[:cut]) is None
        assert reader.feed(data[cut:]) == WHOLE[data]
    reader = AnswerReader()
    answers = [reader.feed(data[place : place + 1]) for place in range(len(data))]
    assert answers[-1] == WHOLE[data] and not any(answers[:-1])


def test_a_connection_with_more_than_an_answer_is_not_used_again() -> None:
    for data in (PLAIN + b"HTTP/1.1 200", CHUNKED + b"x", PLAIN.replace(b"429", b"429", 1).replace(b"/1.1", b"/1.0")):
        answer = AnswerReader().feed(data)
        assert answer is not None and answer.closes


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1),
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * HEAD_BYTES_MAX,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFF\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno\r\n",
    ],
)
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    with pytest.raises(BadAnswer):
        AnswerReader().feed(data)


def test_a_token_cannot_add_a_header() -> None:
    for host, token in (("a\r\nb", None), ("a", "b\nc: d")):
        with pytest.raises(ValueError):
            RequestHeads(host, token)


@contextmanager
def answering(*answers: bytes) -> Iterator[str]:
    """A server that sends these bytes to each connection, one answer after each request, and keeps it open."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            kept = []
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                kept.append(connection)
                for answer in answers:
                    connection.recv(65_536)
                    connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def test_a_server_that_does_not_answer_is_left_after_its_timeout() -> None:
    with answering(b"") as url:
        began = time.monotonic()
        denied = tollway.Limiter(url, server_timeout=0.3).try_take("p")
        assert not denied and denied.degraded
        assert time.monotonic() - began < 20


def test_a_server_that_sends_no_end_is_left_after_its_timeout() -> None:
    with answering(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{") as url:
        denied = tollway.Limiter(url, server_timeout=0.3).try_take("p")
        assert not denied and denied.degraded


def test_what_is_no_tollway_server_is_named() -> None:
    with answering(b"HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nnginx") as url:
        with pytest.raises(tollway.ServerProblem, match="not of a Tollway server: nginx"):
            tollway.Limiter(url).try_take("p")


def test_a_proxy_without_its_server_counts_as_away() -> None:
    with answering(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 5\r\n\r\nnginx") as url:
        assert tollway.Limiter(url).try_take("p").degraded
