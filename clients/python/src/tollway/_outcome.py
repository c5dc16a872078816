"""What a take ends with: a grant or a denial."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Literal, NamedTuple, NoReturn

from ._errors import DeniedError

# The actual and the planned amounts of a call, by unit.
Cost = Mapping[str, int]


class Charge(NamedTuple):
    """What a take asks of one policy for one subject."""

    policy: str
    subject: str | None = None
    cost: Cost | None = None

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"policy": self.policy}
        if self.subject is not None:
            body["subject"] = self.subject
        if self.cost:
            body["cost"] = dict(self.cost)
        return body

    def amounts(self) -> dict[str, int]:
        """A call is one request, unless its cost says otherwise."""
        return {"requests": 1, **(self.cost or {})}


class Limit(NamedTuple):
    """One limit after a decision."""

    name: str
    unit: str
    amount: int
    remaining: int
    # Seconds.
    reset_after: float
    # Of a take under several policies.
    policy: str | None

    @classmethod
    def of(cls, limit: Mapping[str, Any]) -> Limit:
        return cls(
            limit["name"],
            limit["unit"],
            limit["amount"],
            limit["remaining"],
            limit["reset_ms"] / 1000,
            limit.get("policy"),
        )


def without_own_slot(limits: list[Limit]) -> list[Limit]:
    """What was left before a take of nothing, which has a slot all the same."""
    return [limit._replace(remaining=limit.remaining + 1) if limit.unit == "slots" else limit for limit in limits]


class Observed(NamedTuple):
    """What the server made of a vendor's answer."""

    refused: bool
    # `rate`, `concurrency`, `daily_quota`, `overload`, `no_access` or `lock`.
    kind: str | None
    # After a refusal: seconds until the call may be sent again, with a new permit.
    wait: float
    # Whether the same call may be accepted later.
    retry: bool


class Grant:
    """A granted take, for the core. Permits are its shape for programs."""

    __slots__ = ("answer", "charges", "degraded", "delay", "ended", "permit")

    def __init__(self, charges: tuple[Charge, ...], answer: Mapping[str, Any]) -> None:
        self.charges = charges
        self.answer = answer
        self.permit: str = answer.get("permit", "")
        self.delay: float = answer.get("delay_ms", 0) / 1000
        self.degraded: bool = answer.get("degraded", False)
        # Settled, returned or done.
        self.ended = False

    @property
    def is_alone(self) -> bool:
        """Whether this process granted it, without the server."""
        return not self.permit

    @property
    def has_slots(self) -> bool:
        return any(limit["unit"] == "slots" for limit in self.answer.get("limits", ()))


class Denied:
    """No permit. It is falsy: `if permit := limiter.take(...)`. In a `with` it raises `DeniedError`."""

    __slots__ = ("_answer",)

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self._answer = answer

    def __bool__(self) -> Literal[False]:
        return False

    @property
    def retry_after(self) -> float:
        """When to retry, in seconds."""
        return float(self._answer.get("retry_after_ms", 0)) / 1000

    @property
    def policy(self) -> str | None:
        """The policy that denied it."""
        return self._answer.get("policy")

    @property
    def limit(self) -> str | None:
        """The limit that denied it for the longest time."""
        return self._answer.get("limit")

    @property
    def degraded(self) -> bool:
        """Whether it was denied without the server, or by a server without its store."""
        return bool(self._answer.get("degraded", False))

    @property
    def limits(self) -> list[Limit]:
        return [Limit.of(limit) for limit in self._answer.get("limits", ())]

    def __repr__(self) -> str:
        return f"Denied(policy={self.policy!r}, limit={self.limit!r}, retry_after={self.retry_after})"

    def __str__(self) -> str:
        limit = f" by {self.limit}" if self.limit else ""
        without = ", without the server" if self.degraded else ""
        return f"{self.policy or 'the take'} is denied{limit}; retry in {self.retry_after:.3g} s{without}"

    def __enter__(self) -> NoReturn:
        raise DeniedError(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def __aenter__(self) -> NoReturn:
        raise DeniedError(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
