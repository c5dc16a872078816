"""One limit for all calls: `acquire_token(api_type)` waits for its turn.

It takes from the policy `$TOLLWAY_POLICY`, by default `adobe`, of the server at `$TOLLWAY_URL`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import TypedDict

from .._errors import DeniedError
from .._outcome import Denied, Limit
from ._default import limiter, policy

logger = logging.getLogger(__name__)
__all__ = ["Usage", "acquire_token", "get_current_usage", "get_rpm_limit"]


class Usage(TypedDict):
    """What is used of the limit in this minute."""

    minute_key: str
    request_count: int
    limit: int
    remaining: int


def acquire_token(api_type: str, *, timeout: float | None = None) -> bool:
    """Takes a token, and waits for it if the limit is reached. Raises `DeniedError` after `timeout`, by default 600 s."""
    taken = limiter().try_take(policy())
    if isinstance(taken, Denied):
        logger.info("Rate limit reached (%s/min), waiting for next minute window...", _amount(taken.limits))
        logger.info("Waiting %.1f seconds for next minute window...", taken.retry_after)
        taken = limiter().take(policy(), timeout=timeout)
        if isinstance(taken, Denied):
            raise DeniedError(taken)
    limit = _of_requests(taken.limits)
    count = limit.amount - limit.remaining if limit else "?"
    logger.info(
        "Rate limit token acquired for %s: %s/%s in minute %s",
        api_type,
        count,
        _amount(taken.limits),
        _minute_key(),
    )
    return True


def get_current_usage() -> Usage:
    """What is used in this minute. Takes nothing."""
    limit = _known_limit()
    return {
        "minute_key": _minute_key(),
        "request_count": limit.amount - limit.remaining,
        "limit": limit.amount,
        "remaining": limit.remaining,
    }


def get_rpm_limit() -> int:
    """The limit, as the server has it now: `tollway limit set` changes it for all processes."""
    return _known_limit().amount


def _known_limit() -> Limit:
    limit = _of_requests(limiter().limits(policy()))
    if limit is None:
        raise LookupError(f"the server does not say what is left of requests under the policy {policy()!r}")
    return limit


def _of_requests(limits: Sequence[Limit]) -> Limit | None:
    return next((limit for limit in limits if limit.unit == "requests"), None)


def _amount(limits: Sequence[Limit]) -> int | str:
    limit = _of_requests(limits)
    return limit.amount if limit else "?"


def _minute_key() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%d-%H-%M")
