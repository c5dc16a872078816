"""Carries steps out with blocking sockets, which are kept between requests.

Threads take sockets from a list and put them back, so two never share one. A child process begins with none: it would share
its parent's.
"""

from __future__ import annotations

import os
import socket
import time
import weakref
from collections.abc import Callable
from typing import Any

from ._address import Address
from ._errors import Unreachable
from ._steps import Exchange, OutsideSteps, Sleep, T
from ._wire import Answer, AnswerReader, BadAnswer

# The server closes a connection that sends nothing for 75 s. One that is closed before is not lost in the middle of a request.
IDLE_SECONDS_MAX = 50.0
# Of each server. More are open while more threads ask at once.
IDLE_SOCKETS_MAX = 64
RECEIVED_AT_ONCE = 64 * 1024


class Lost(Unreachable):
    """The connection broke. `unanswered`: before a byte of the answer came."""

    def __init__(self, message: str, *, unanswered: bool) -> None:
        super().__init__(message)
        self.unanswered = unanswered


class _Connection:
    __slots__ = ("socket", "timeout", "used_at")

    def __init__(self, address: Address, timeout: float) -> None:
        try:
            self.socket = _connect(address, timeout)
        except OSError as error:
            raise Unreachable(f"{address.url}: {error}", refused=not isinstance(error, TimeoutError)) from error
        self.timeout = timeout
        self.used_at = 0.0

    def _set_timeout(self, timeout: float) -> None:
        """A call of the system, so only for another one."""
        if timeout != self.timeout:
            self.socket.settimeout(timeout)
            self.timeout = timeout

    def exchange(self, address: Address, request: bytes, timeout: float) -> Answer:
        reader = AnswerReader()
        try:
            self._set_timeout(timeout)
            self.socket.sendall(request)
            answer = reader.feed(self.socket.recv(RECEIVED_AT_ONCE) or _ended())
            if answer is None:
                answer = self._rest(reader, time.monotonic() + timeout)
        except TimeoutError as error:
            raise Unreachable(f"{address.url}: no answer within {timeout} s") from error
        except OSError as error:
            raise Lost(f"{address.url}: {error}", unanswered=not reader.has_begun) from error
        except BadAnswer as error:
            raise Unreachable(f"{address.url}: {error}") from error
        return answer

    def _rest(self, reader: AnswerReader, deadline: float) -> Answer:
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._set_timeout(left)
            answer = reader.feed(self.socket.recv(RECEIVED_AT_ONCE) or _ended())
            if answer is not None:
                return answer


def _ended() -> bytes:
    raise ConnectionResetError("the server closed the connection")


def _connect(address: Address, timeout: float) -> socket.socket:
    if address.path:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout)
            connection.connect(address.path)
        except BaseException:
            connection.close()
            raise
        return connection
    connection = socket.create_connection((address.host, address.port), timeout)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address.tls:
            import ssl

            return ssl.create_default_context().wrap_socket(connection, server_hostname=address.host)
    except BaseException:
        connection.close()
        raise
    return connection


class Sockets:
    """The kept sockets of one limiter in one process."""

    def __init__(self) -> None:
        self._kept: dict[Address, list[_Connection]] = {}
        _all.add(self)

    def run(self, steps: OutsideSteps[T], outside: Callable[[Any], Any] | None = None) -> T:
        """Carries all steps out; `outside` does what is not the server's."""
        try:
            step = next(steps)
            while True:
                try:
                    answer: Any = None
                    if isinstance(step, Exchange):
                        answer = self.exchange(step)
                    elif isinstance(step, Sleep):
                        time.sleep(step.seconds)
                    elif outside is not None:
                        answer = outside(step)
                except BaseException as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            value: T = end.value
            return value

    def exchange(self, step: Exchange) -> Answer:
        """Over a kept socket; over a new one if the server has closed the kept one."""
        address = step.endpoint.address
        kept = self._kept.get(address)
        if kept is None:
            kept = self._kept.setdefault(address, [])
        oldest = time.monotonic() - IDLE_SECONDS_MAX
        while True:
            try:
                connection, is_kept = kept.pop(), True
            except IndexError:
                connection, is_kept = _Connection(address, step.timeout), False
            if is_kept and connection.used_at < oldest:
                connection.socket.close()
                continue
            try:
                answer = connection.exchange(address, step.request, step.timeout)
            except BaseException as error:
                connection.socket.close()
                # A take that a dying server has counted may count again: too much is taken then, never too little.
                if is_kept and isinstance(error, Lost) and error.unanswered:
                    continue
                raise
            if answer.closes or len(kept) >= IDLE_SOCKETS_MAX:
                connection.socket.close()
            else:
                connection.used_at = time.monotonic()
                kept.append(connection)
            return answer

    def close(self) -> None:
        """Closes this process's sockets. They are opened again when they are needed."""
        kept, self._kept = self._kept, {}
        for connections in kept.values():
            for connection in connections:
                connection.socket.close()


_all: weakref.WeakSet[Sockets] = weakref.WeakSet()


def _after_fork(*_: Any) -> None:
    # Closing the child's copy does not close the parent's connection. TLS would say goodbye over it, so it is not asked to.
    for sockets in _all:
        for connections in sockets._kept.values():
            for connection in connections:
                os.close(connection.socket.detach())
        sockets._kept = {}


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
