"""Clients for APIs whose limits are found by calling: `make_client_for("notion")`.

The rate is found by the server, for all processes together. The five numbers of an `ApiRateConfig` belong into its config;
`python -m tollway.compat.api_ratelimiter MODULE` prints the sections for the `API_RATE_CONFIGS` of a module.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from .._errors import DeniedError
from .._limiter import Limiter, Permit
from .._outcome import Denied, Limit, Observed
from ._default import limiter as default_limiter

if TYPE_CHECKING:
    import requests

logger = logging.getLogger(__name__)
__all__ = ["API_RATE_CONFIGS", "ApiRateConfig", "DynamicAPIClient", "DynamicRateLimiter", "make_client_for"]
# Calls of one thread whose answer was not told. Of more, the oldest count as successes.
UNTOLD_MAX = 64


@dataclass(frozen=True)
class ApiRateConfig:
    """What is known of an API."""

    name: str
    base_url: str

    initial_rate: float
    min_rate: float
    max_rate: float
    increase_step: float
    decrease_factor: float

    documented_limit_desc: Optional[str] = None

    def toml(self) -> str:
        """The section of the server's config."""
        rate = (
            f"initial = {self.initial_rate}, min = {self.min_rate}, max = {self.max_rate}, "
            f"increase_step = {self.increase_step}, decrease_factor = {self.decrease_factor}"
        )
        lines = [
            f"[apis.{self.name}]",
            f"base_url = {json.dumps(self.base_url)}",
            "limits = []",
            f"rate = {{ {rate} }}",
        ]
        if self.documented_limit_desc:
            lines.append(f"documented = {json.dumps(self.documented_limit_desc, ensure_ascii=False)}")
        return "\n".join(lines) + "\n"


# Add your own.
API_RATE_CONFIGS: dict[str, ApiRateConfig] = {
    "notion": ApiRateConfig(
        name="notion",
        base_url="https://api.notion.com/v1",
        initial_rate=2.0,
        min_rate=0.3,
        max_rate=3.5,
        increase_step=0.1,
        decrease_factor=0.5,
        documented_limit_desc="Approx. 3 requests/second per integration on average.",
    ),
}


class DynamicRateLimiter:
    """The limiter of one API. Every process shares its rate and its cooldown."""

    def __init__(self, config: ApiRateConfig, limiter: Limiter | None = None) -> None:
        self.config = config
        self._limiter = limiter or default_limiter()
        self._local = threading.local()
        logger.debug("%s: limits and rate are those of the server", config.name)

    def acquire(self) -> None:
        """Waits for its turn. Raises `DeniedError` after 600 s."""
        taken = self._limiter.take(self.config.name)
        if isinstance(taken, Denied):
            raise DeniedError(taken)
        self._untold().append(taken)

    def on_success(self) -> None:
        """The call that this thread acquired first was not refused."""
        before = self.current_rate if logger.isEnabledFor(logging.DEBUG) else 0.0
        self._tell(200, {})
        if logger.isEnabledFor(logging.DEBUG) and self.current_rate > before:
            logger.debug("%s: rate %.2f -> %.2f", self.config.name, before, self.current_rate)

    def on_429(self, retry_after: float | None = None) -> Observed:
        """It was refused. Every process waits: so long, or as long as the server finds right."""
        before = self.current_rate
        headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
        observed = self._tell(429, headers)
        logger.warning(
            "%s: refused; rate %.2f -> %.2f, cooldown %.1f s",
            self.config.name,
            before,
            self.current_rate,
            observed.wait,
        )
        return observed

    @property
    def current_rate(self) -> float:
        """Requests a second."""
        return self.snapshot()["current_rate"]

    def snapshot(self) -> dict[str, float]:
        """`current_rate`, `tokens`, and `cooldown_until` by the monotonic clock."""
        taken = self._limiter.try_take(self.config.name, cost={"requests": 0})
        found = next((limit for limit in taken.limits if limit.name == "rate"), None)
        limit = found or next(iter(taken.limits), None)
        wait = taken.retry_after if isinstance(taken, Denied) else 0.0
        return {
            "current_rate": _rate(limit),
            "tokens": float(limit.remaining) if limit else 0.0,
            "cooldown_until": time.monotonic() + wait,
        }

    def _tell(self, status: int, headers: dict[str, str]) -> Observed:
        untold = self._untold()
        if not untold:
            # Told twice, or acquired by another thread.
            refused = status == 429
            return Observed(refused, None, 1.0 if refused else 0.0, refused)
        return untold.popleft().observe(status, headers)

    def _untold(self) -> deque[Permit]:
        if not hasattr(self._local, "untold"):
            self._local.untold = deque(maxlen=UNTOLD_MAX)
        untold: deque[Permit] = self._local.untold
        return untold


def _rate(limit: Limit | None) -> float:
    return float(limit.amount) if limit else 0.0


class DynamicAPIClient:
    """A client over `requests` that waits for its turn and reports every answer."""

    def __init__(
        self,
        config: ApiRateConfig,
        limiter: DynamicRateLimiter | None = None,
        session: requests.Session | None = None,
        backoff_status_codes: Collection[int] = (429,),
        max_retries_on_backoff: int = 5,
    ) -> None:
        if session is None:
            import requests

            session = requests.Session()
        self.config = config
        self.base_url = config.base_url
        self.limiter = limiter or DynamicRateLimiter(config)
        self.session = session
        self.backoff_status_codes = frozenset(backoff_status_codes)
        self.max_retries_on_backoff = max_retries_on_backoff

    def request(self, method: str, path: str, **kwargs: Any) -> requests.Response:
        """The answer. Raises `RuntimeError` if the vendor refuses it again and again."""
        url = f"{self.base_url.rstrip('/')}/{path.lstrip('/')}"
        for _ in range(self.max_retries_on_backoff + 1):
            self.limiter.acquire()
            try:
                response = self.session.request(method, url, **kwargs)
            except BaseException as error:
                self._ended(error)
                raise
            if response.status_code not in self.backoff_status_codes:
                self.limiter.on_success()
                return response
            retry_after = _seconds(response) if response.status_code == 429 else None
            response.close()
            observed = self.limiter.on_429(retry_after)
            time.sleep(observed.wait)
        attempts = self.max_retries_on_backoff + 1
        raise RuntimeError(f"{method} {url} was refused {attempts} times (last: {response.status_code})")

    def _ended(self, error: BaseException) -> None:
        """A call without an answer: its permit goes back if nothing was sent."""
        untold = self.limiter._untold()
        if untold:
            permit = untold.pop()
            permit.__exit__(type(error), error, None)
            if not permit._grant.ended:
                permit.observe(None)

    def get(self, path: str, **kwargs: Any) -> requests.Response:
        return self.request("GET", path, **kwargs)

    def post(self, path: str, **kwargs: Any) -> requests.Response:
        return self.request("POST", path, **kwargs)

    def put(self, path: str, **kwargs: Any) -> requests.Response:
        return self.request("PUT", path, **kwargs)

    def patch(self, path: str, **kwargs: Any) -> requests.Response:
        return self.request("PATCH", path, **kwargs)

    def delete(self, path: str, **kwargs: Any) -> requests.Response:
        return self.request("DELETE", path, **kwargs)


def make_client_for(name: str, **options: Any) -> DynamicAPIClient:
    """The client of an API of `API_RATE_CONFIGS`. Options are those of `DynamicAPIClient`."""
    if name not in API_RATE_CONFIGS:
        raise KeyError(f"{name!r} is not in API_RATE_CONFIGS, which has {', '.join(API_RATE_CONFIGS)}")
    return DynamicAPIClient(API_RATE_CONFIGS[name], **options)


def _seconds(response: requests.Response) -> float | None:
    try:
        return float(response.headers["retry-after"])
    except (KeyError, ValueError):
        return None


def _print_config(module: str) -> None:
    configs: dict[str, ApiRateConfig] = importlib.import_module(module).API_RATE_CONFIGS
    print("\n".join(config.toml() for config in configs.values()), end="")


if __name__ == "__main__":
    _print_config(*sys.argv[1:2] or ["tollway.compat.api_ratelimiter"])
