"""One call of a vendor through a transport: take, send, observe; again while the vendor refuses, within the budget.

Transports bring two things: how the call is sent, and what its answer says. What an answer means, the server says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, NamedTuple, Union

from ._core import Core
from ._errors import DeniedError
from ._outcome import Charge, Cost, Denied, Grant
from ._sent import was_sent
from ._steps import Outside, OutsideSteps, Sleep


class Send(Outside):
    """Send the call once. Answered with the response; raises what the transport raises."""


class ReadRefusal(Outside):
    """Read the body of a response that may be a refusal. Answered with its text."""

    def __init__(self, response: Any) -> None:
        self.response = response


class Discard(Outside):
    """Close a response: the call is sent again."""

    def __init__(self, response: Any) -> None:
        self.response = response


CostOfCall = Union[Cost, Callable[[Any], Cost], None]
# Attempts after the first, and seconds of all of them together: as an api of the server's config has them.
RETRIES_DEFAULT = 5
# The longest refusal that is read.
REFUSAL_BYTES_MAX = 64 * 1024
MAX_TIME_DEFAULT = 600.0


class Budget(NamedTuple):
    """How often and how long a call is tried."""

    retries: int = RETRIES_DEFAULT
    max_time: float = MAX_TIME_DEFAULT


class Seen(NamedTuple):
    """What a transport says of a response."""

    status: int
    headers: Mapping[str, str]


def call(core: Core, charge: Charge, budget: Budget, repeatable: bool, see: Callable[[Any], Seen]) -> OutsideSteps[Any]:
    """The response of the last attempt. Raises `DeniedError` if there is no permit in time."""
    deadline = monotonic() + budget.max_time
    attempt = 0
    while True:
        taken = yield from core.take((charge,), max(0.0, deadline - monotonic()), None)
        if isinstance(taken, Denied):
            raise DeniedError(taken)
        response = yield from _send(core, taken)
        seen = see(response)
        body = (yield ReadRefusal(response)) if _may_refuse(seen) else ""
        observed = yield from core.observe(taken, seen.status, seen.headers, body)
        if taken.has_slots and not observed.refused:
            yield from core.done(taken)
        attempt += 1
        may_repeat = repeatable and attempt <= budget.retries
        if not (observed.retry and may_repeat and monotonic() + observed.wait < deadline):
            return response
        yield Discard(response)
        yield Sleep(observed.wait)


def _may_refuse(seen: Seen) -> bool:
    """Whether its body is read. Refusals are short; a long body stays a stream."""
    length = seen.headers.get("content-length", "")
    return seen.status >= 400 and not (length.isdigit() and int(length) > REFUSAL_BYTES_MAX)


def _send(core: Core, grant: Grant) -> OutsideSteps[Any]:
    try:
        return (yield Send())
    except GeneratorExit:
        raise
    except BaseException as error:
        if was_sent(error):
            yield from core.observe(grant, None, {}, "")
            if grant.has_slots:
                yield from core.done(grant)
        else:
            yield from core.give_back(grant)
        raise


def charge_of(policy: str, subject: str | None, cost: CostOfCall, request: Any) -> Charge:
    return Charge(policy, subject, cost(request) if callable(cost) else cost)
