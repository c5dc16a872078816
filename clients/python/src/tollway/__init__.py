"""Keeps programs inside rate limits, over processes and machines: permits of `tollway serve`.

>>> import tollway
>>> limiter = tollway.Limiter("http://127.0.0.1:8080")
>>> with limiter.take("gemini", cost={"tokens": 3750}, timeout=30) as permit:  # doctest: +SKIP
...     answer = call_the_vendor()
...     permit.settle(tokens=answer.tokens)
"""

from ._aio import AsyncLimiter, AsyncPermit
from ._enqueue import Enqueued, enqueue
from ._errors import DeniedError, NotSent, ServerProblem, TollwayError, Unreachable
from ._handler import Dead, Done, Handler, Job, Output, RateLimited, Retry, handler
from ._limiter import Limiter, Permit
from ._outcome import Charge, Denied, Limit, Observed

__all__ = [
    "AsyncLimiter",
    "AsyncPermit",
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
