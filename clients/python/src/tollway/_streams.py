"""Carries steps out on asyncio. Each event loop has connections of its own."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

from ._address import Address
from ._errors import Unreachable
from ._sockets import IDLE_SECONDS_MAX, IDLE_SOCKETS_MAX, RECEIVED_AT_ONCE, Lost
from ._steps import Exchange, OutsideSteps, Sleep, T
from ._wire import Answer, AnswerReader, BadAnswer


class _Connection:
    __slots__ = ("reader", "used_at", "writer")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.used_at = 0.0

    @classmethod
    async def open(cls, address: Address, timeout: float) -> _Connection:
        if address.path:
            opening = asyncio.open_unix_connection(address.path)
        else:
            tls = ssl.create_default_context() if address.tls else None
            opening = asyncio.open_connection(address.host, address.port, ssl=tls)
        try:
            return cls(*await asyncio.wait_for(opening, timeout))
        except (asyncio.TimeoutError, TimeoutError) as error:
            raise Unreachable(f"{address.url}: no connection within {timeout} s") from error
        except OSError as error:
            raise Unreachable(f"{address.url}: {error}", refused=True) from error

    async def exchange(self, address: Address, request: bytes, timeout: float) -> Answer:
        reader = AnswerReader()
        try:
            return await asyncio.wait_for(self._exchange(reader, request), timeout)
        except (asyncio.TimeoutError, TimeoutError) as error:
            raise Unreachable(f"{address.url}: no answer within {timeout} s") from error
        except OSError as error:
            raise Lost(f"{address.url}: {error}", unanswered=not reader.has_begun) from error
        except BadAnswer as error:
            raise Unreachable(f"{address.url}: {error}") from error

    async def _exchange(self, reader: AnswerReader, request: bytes) -> Answer:
        self.writer.write(request)
        await self.writer.drain()
        while True:
            data = await self.reader.read(RECEIVED_AT_ONCE)
            if not data:
                raise ConnectionResetError("the server closed the connection")
            answer = reader.feed(data)
            if answer is not None:
                return answer


class Streams:
    """The kept connections of one limiter."""

    def __init__(self) -> None:
        self._kept: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[tuple[int, Address], list[_Connection]]
        ] = weakref.WeakKeyDictionary()

    async def run(self, steps: OutsideSteps[T], outside: Callable[[Any], Awaitable[Any]] | None = None) -> T:
        """Carries all steps out; `outside` does what is not the server's."""
        try:
            step = next(steps)
            while True:
                try:
                    answer: Any = None
                    if isinstance(step, Exchange):
                        answer = await self.exchange(step)
                    elif isinstance(step, Sleep):
                        await asyncio.sleep(step.seconds)
                    elif outside is not None:
                        answer = await outside(step)
                except BaseException as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            value: T = end.value
            return value

    async def exchange(self, step: Exchange) -> Answer:
        address = step.endpoint.address
        of_loop = self._kept.setdefault(asyncio.get_running_loop(), {})
        kept = of_loop.setdefault((os.getpid(), address), [])
        oldest = time.monotonic() - IDLE_SECONDS_MAX
        while True:
            is_kept = bool(kept)
            connection = kept.pop() if is_kept else await _Connection.open(address, step.timeout)
            if is_kept and (connection.used_at < oldest or connection.reader.at_eof()):
                connection.writer.close()
                continue
            try:
                answer = await connection.exchange(address, step.request, step.timeout)
            except BaseException as error:
                connection.writer.close()
                if is_kept and isinstance(error, Lost) and error.unanswered:
                    continue
                raise
            if answer.closes or len(kept) >= IDLE_SOCKETS_MAX:
                connection.writer.close()
            else:
                connection.used_at = time.monotonic()
                kept.append(connection)
            return answer

    async def close(self) -> None:
        """Closes the connections of this event loop."""
        for kept in self._kept.pop(asyncio.get_running_loop(), {}).values():
            for connection in kept:
                connection.writer.close()
