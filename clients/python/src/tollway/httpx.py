"""Transports for `httpx`: every call of a client waits for its permit. Streams are passed on untouched.

>>> client = httpx.Client(transport=tollway.httpx.Transport("openai"))     # doctest: +SKIP
"""

from __future__ import annotations

from typing import Any

import httpx

from ._aio import AsyncLimiter
from ._limiter import Limiter
from ._vendor_call import Budget, CostOfCall, ReadRefusal, Seen, Send, call, charge_of

__all__ = ["AsyncTransport", "Transport"]


class Transport(httpx.BaseTransport):
    """Takes a permit of the policy before each call, reports the answer, and sends a refused call again.

    `cost` may be a function of the request. A body that cannot be sent twice is sent once. `inner` sends.
    """

    def __init__(
        self,
        policy: str,
        limiter: Limiter | None = None,
        *,
        subject: str | None = None,
        cost: CostOfCall = None,
        budget: Budget = Budget(),
        inner: httpx.BaseTransport | None = None,
    ) -> None:
        self.policy, self.subject, self.cost, self.budget = policy, subject, cost, budget
        self.limiter = limiter or Limiter()
        self.inner = inner or httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        def outside(step: Any) -> Any:
            if isinstance(step, Send):
                return self.inner.handle_request(request)
            if isinstance(step, ReadRefusal):
                return step.response.read().decode("utf-8", "replace")
            return step.response.close()

        charge = charge_of(self.policy, self.subject, self.cost, request)
        steps = call(self.limiter._core, charge, self.budget, _is_repeatable(request), _seen)
        response: httpx.Response = self.limiter._sockets.run(steps, outside)
        return response

    def close(self) -> None:
        self.inner.close()


class AsyncTransport(httpx.AsyncBaseTransport):
    """`Transport` for `httpx.AsyncClient`."""

    def __init__(
        self,
        policy: str,
        limiter: Limiter | AsyncLimiter | None = None,
        *,
        subject: str | None = None,
        cost: CostOfCall = None,
        budget: Budget = Budget(),
        inner: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.policy, self.subject, self.cost, self.budget = policy, subject, cost, budget
        self.limiter = (limiter or Limiter()).asynchronous()
        self.inner = inner or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        async def outside(step: Any) -> Any:
            if isinstance(step, Send):
                return await self.inner.handle_async_request(request)
            if isinstance(step, ReadRefusal):
                return (await step.response.aread()).decode("utf-8", "replace")
            return await step.response.aclose()

        charge = charge_of(self.policy, self.subject, self.cost, request)
        steps = call(self.limiter._core, charge, self.budget, _is_repeatable(request), _seen)
        response: httpx.Response = await self.limiter._streams.run(steps, outside)
        return response

    async def aclose(self) -> None:
        await self.inner.aclose()


def _is_repeatable(request: httpx.Request) -> bool:
    """Whether the body is in memory."""
    return isinstance(request.stream, httpx.ByteStream)


def _seen(response: httpx.Response) -> Seen:
    return Seen(response.status_code, response.headers)
