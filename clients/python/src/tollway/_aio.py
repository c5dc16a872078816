"""The limiter and its permits, for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar

from ._core import Core
from ._limited import CostOf, SubjectOf, limited
from ._limiter import Limiter
from ._outcome import Charge, Cost, Denied, Grant, Limit, Observed, without_own_slot
from ._sent import was_sent
from ._streams import Streams

F = TypeVar("F", bound=Callable[..., Any])


class AsyncPermit:
    """A granted take: `Permit` with `await`."""

    __slots__ = ("_grant", "_limiter")

    def __init__(self, limiter: AsyncLimiter, grant: Grant) -> None:
        self._limiter = limiter
        self._grant = grant

    def __bool__(self) -> Literal[True]:
        return True

    @property
    def degraded(self) -> bool:
        """Whether it was granted without the server, or by a server without its store."""
        return self._grant.degraded

    @property
    def limits(self) -> list[Limit]:
        """Every limit after the take; empty if it is not known."""
        return [Limit.of(limit) for limit in self._grant.answer.get("limits", ())]

    @property
    def text(self) -> str:
        """The signed permit; empty if it was granted without the server."""
        return self._grant.permit

    async def begin(self) -> AsyncPermit | Denied:
        """Right before the call goes out, if that is later than the take."""
        limiter = self._limiter
        return await limiter._streams.run(limiter._core.begin(self._grant)) or self

    async def settle(self, cost: Cost | None = None, /, **amounts: int) -> str:
        """What the call cost in fact."""
        limiter = self._limiter
        return await limiter._streams.run(limiter._core.settle(self._grant, {**(cost or {}), **amounts}))

    async def give_back(self) -> str:
        """The call was not made."""
        limiter = self._limiter
        return await limiter._streams.run(limiter._core.give_back(self._grant))

    async def done(self) -> None:
        """The call is over: its slots are free."""
        limiter = self._limiter
        await limiter._streams.run(limiter._core.done(self._grant))

    async def renew(self) -> bool:
        """The call goes on: keep its slots."""
        limiter = self._limiter
        return await limiter._streams.run(limiter._core.renew(self._grant))

    async def observe(self, status: int | None, headers: Mapping[str, str] | None = None, body: str = "") -> Observed:
        """How the vendor answered; without a status: it did not."""
        limiter = self._limiter
        return await limiter._streams.run(limiter._core.observe(self._grant, status, headers or {}, body))

    async def __aenter__(self) -> AsyncPermit:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._grant.ended:
            return
        if error is not None and not was_sent(error):
            await self.give_back()
        elif self._grant.has_slots:
            await self.done()

    def __repr__(self) -> str:
        policies = ", ".join(charge.policy for charge in self._grant.charges)
        return f"<AsyncPermit of {policies}{', degraded' if self.degraded else ''}>"


class AsyncLimiter:
    """`Limiter` with `await`: `async with await limiter.take("gemini") as permit: ...`"""

    _core: Core
    timeout: float

    def __init__(
        self,
        url: str | Sequence[str] | None = None,
        *,
        token: str | None = None,
        timeout: float | None = None,
        server_timeout: float | None = None,
    ) -> None:
        given = {"timeout": timeout, "server_timeout": server_timeout}
        options = {name: value for name, value in given.items() if value is not None}
        self._blocking = Limiter(url, token=token, **options)
        self._core, self.timeout = self._blocking._core, self._blocking.timeout
        self._streams = Streams()

    @classmethod
    def _of(cls, blocking: Limiter) -> AsyncLimiter:
        """The twin of a limiter for threads."""
        limiter = cls.__new__(cls)
        limiter._blocking = blocking
        limiter._core, limiter.timeout = blocking._core, blocking.timeout
        limiter._streams = Streams()
        return limiter

    async def take(
        self,
        policy: str,
        *,
        subject: str | None = None,
        cost: Cost | None = None,
        timeout: float | None = None,
        id: str | None = None,
    ) -> AsyncPermit | Denied:
        """Waits for a permit, at most `timeout` seconds. A take that is cancelled while it waits gives its place back."""
        return await self.take_all([Charge(policy, subject, cost)], timeout=timeout, id=id)

    async def try_take(
        self, policy: str, *, subject: str | None = None, cost: Cost | None = None, id: str | None = None
    ) -> AsyncPermit | Denied:
        """A permit now, or a denial."""
        return await self.take(policy, subject=subject, cost=cost, timeout=0, id=id)

    async def take_all(
        self, charges: Sequence[Charge], *, timeout: float | None = None, id: str | None = None
    ) -> AsyncPermit | Denied:
        """One permit under several policies or subjects: all are charged, or none."""
        timeout = self.timeout if timeout is None else timeout
        taken = await self._streams.run(self._core.take(tuple(charges), timeout, id))
        return taken if isinstance(taken, Denied) else AsyncPermit(self, taken)

    async def acquire(
        self,
        policy: str,
        *,
        subject: str | None = None,
        cost: Cost | None = None,
        blocking: bool = True,
        timeout: float | None = None,
    ) -> bool:
        """Whether there was a permit within the timeout."""
        return bool(await self.take(policy, subject=subject, cost=cost, timeout=timeout if blocking else 0))

    async def limits(self, policy: str, *, subject: str | None = None) -> list[Limit]:
        """What is left of each limit. Takes nothing."""
        taken = await self.try_take(policy, subject=subject, cost={"requests": 0})
        if not isinstance(taken, AsyncPermit) or not taken._grant.has_slots:
            return taken.limits
        await taken.give_back()
        return without_own_slot(taken.limits)

    def limited(
        self,
        policy: str,
        *,
        subject: SubjectOf = None,
        cost: CostOf = None,
        timeout: float | None = None,
    ) -> Callable[[F], F]:
        """A decorator, for functions with `async` and without."""
        return limited(self, policy, subject, cost, timeout)

    def asynchronous(self) -> AsyncLimiter:
        """Itself."""
        return self

    def blocking(self) -> Limiter:
        """The same limiter for threads."""
        return self._blocking

    async def close(self) -> None:
        """Tells the server what was spent without it, and closes the connections of this event loop."""
        await self._streams.run(self._core.servers.tell_at_end())
        await self._streams.close()
