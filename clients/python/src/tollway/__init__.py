"""Keeps programs inside rate limits, over processes and machines: permits of `tollway serve`.

>>> import tollway
>>> limiter = tollway.Limiter("http://127.0.0.1:8080")
>>> with limiter.take("gemini", cost={"tokens": 3750}, timeout=30) as permit:  # doctest: +SKIP
...     answer = call_the_vendor()
...     permit.settle(tokens=answer.tokens)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._enqueue import Enqueued, enqueue
from ._errors import DeniedError, NotSent, ServerProblem, TollwayError, Unreachable
from ._handler import Dead, Done, Handler, Job, Output, RateLimited, Retry, handler
from ._limiter import Limiter, Permit
from ._outcome import Charge, Denied, Limit, Observed
from ._vendor_call import Budget

if TYPE_CHECKING:
    from ._aio import AsyncLimiter, AsyncPermit

__all__ = [
    "AsyncLimiter",
    "AsyncPermit",
    "Budget",
    "Charge",
    "Dead",
    "Denied",
    "DeniedError",
    "Done",
    "Enqueued",
    "Handler",
    "Job",
    "Limit",
    "Limiter",
    "NotSent",
    "Observed",
    "Output",
    "Permit",
    "RateLimited",
    "Retry",
    "ServerProblem",
    "TollwayError",
    "Unreachable",
    "enqueue",
    "handler",
]


def __getattr__(name: str) -> Any:
    """asyncio takes longer to import than the rest: only where it is used."""
    if name in ("AsyncLimiter", "AsyncPermit"):
        from . import _aio

        return getattr(_aio, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
