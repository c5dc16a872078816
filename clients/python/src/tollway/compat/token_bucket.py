"""One limit for each API: `acquire_token(api_type)` says whether a call may go out, `wait_for_token(api_type)` waits.

`api_type` is the subject under the policy `$TOLLWAY_POLICY`, by default `adobe`, of the server at `$TOLLWAY_URL`. The limit is
the server's: `max_per_minute` is compared with it, and a difference is logged once.
"""

from __future__ import annotations

import logging

from .._errors import DeniedError
from .._outcome import Denied
from ._default import limiter, policy

logger = logging.getLogger(__name__)
__all__ = ["acquire_token", "wait_for_token"]
_MAX_PER_MINUTE_DEFAULT = 200
_compared = False


def acquire_token(api_type: str, max_per_minute: int = _MAX_PER_MINUTE_DEFAULT) -> bool:
    """Whether there was a token."""
    taken = limiter().try_take(policy(), subject=api_type)
    amounts = [limit.amount for limit in taken.limits if limit.unit == "requests"]
    if amounts and max_per_minute not in amounts:
        _compare(max_per_minute, amounts)
    return bool(taken)


def wait_for_token(api_type: str, max_per_minute: int = _MAX_PER_MINUTE_DEFAULT) -> None:
    """Waits for its turn. Raises `DeniedError` after 600 s."""
    if not acquire_token(api_type, max_per_minute):
        taken = limiter().take(policy(), subject=api_type)
        if isinstance(taken, Denied):
            raise DeniedError(taken)


def _compare(max_per_minute: int, amounts: list[int]) -> None:
    global _compared
    if not _compared:
        _compared = True
        logger.warning(
            "max_per_minute is %d here, and the policy %r has %s: the policy counts",
            max_per_minute,
            policy(),
            ", ".join(map(str, amounts)),
        )
