"""The limiter and the policy of modules whose functions name neither."""

from __future__ import annotations

import os
from functools import lru_cache

from .._limiter import Limiter


@lru_cache(maxsize=1)
def limiter() -> Limiter:
    """At `$TOLLWAY_URL`, else at `http://127.0.0.1:8080`."""
    return Limiter()


def policy() -> str:
    """`$TOLLWAY_POLICY`, else `adobe`."""
    return os.environ.get("TOLLWAY_POLICY", "adobe")
