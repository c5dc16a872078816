"""The limiter and its permits, for threads."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ._core import Core
from ._limited import CostOf, SubjectOf, limited
from ._outcome import Charge, Cost, Denied, Grant, Limit, Observed, without_own_slot
from ._sent import was_sent
from ._sockets import Sockets

if TYPE_CHECKING:
    from ._aio import AsyncLimiter

URL_DEFAULT = "http://127.0.0.1:8080"
# How long a take waits if its caller does not say: the longest wait of a policy that does not say.
TIMEOUT_DEFAULT = 600.0
# How long a server has for an answer.
SERVER_TIMEOUT_DEFAULT = 5.0

F = TypeVar("F", bound=Callable[..., Any])


class Permit:
    """A granted take. In a `with`, its slots are freed at the end; what it took stays taken unless it is settled."""

    __slots__ = ("_grant", "_limiter")

    def __init__(self, limiter: Limiter, grant: Grant) -> None:
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

    def begin(self) -> Permit | Denied:
        """Right before the call goes out, if that is later than the take: takes again if the permit is too old."""
        limiter = self._limiter
        return limiter._sockets.run(limiter._core.begin(self._grant)) or self

    def settle(self, cost: Cost | None = None, /, **amounts: int) -> str:
        """What the call cost in fact: `permit.settle(tokens=3120)`. Returns `whole`, `partly`, `repeated`, `dropped` or
        `later`."""
        limiter = self._limiter
        return limiter._sockets.run(limiter._core.settle(self._grant, {**(cost or {}), **amounts}))

    def give_back(self) -> str:
        """The call was not made."""
        limiter = self._limiter
        return limiter._sockets.run(limiter._core.give_back(self._grant))

    def done(self) -> None:
        """The call is over: its slots are free."""
        limiter = self._limiter
        limiter._sockets.run(limiter._core.done(self._grant))

    def renew(self) -> bool:
        """The call goes on: keep its slots. False if they had expired."""
        limiter = self._limiter
        return limiter._sockets.run(limiter._core.renew(self._grant))

    def observe(self, status: int | None, headers: Mapping[str, str] | None = None, body: str = "") -> Observed:
        """How the vendor answered; without a status: it did not. Holds every process after a refusal, and moves a rate."""
        limiter = self._limiter
        return limiter._sockets.run(limiter._core.observe(self._grant, status, headers or {}, body))

    def __enter__(self) -> Permit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._grant.ended:
            return
        if error is not None and not was_sent(error):
            self.give_back()
        elif self._grant.has_slots:
            self.done()

    def __repr__(self) -> str:
        policies = ", ".join(charge.policy for charge in self._grant.charges)
        return f"<Permit of {policies}{', degraded' if self.degraded else ''}>"


class Limiter:
    """Takes permits from `tollway serve`. Safe for threads, after `fork`, and under gunicorn's `--preload`.

    Several addresses are servers on one store: the next one is asked if one does not answer. Without an address it is
    `$TOLLWAY_URL`, else `http://127.0.0.1:8080`; without a token `$TOLLWAY_TOKEN`.
    """

    def __init__(
        self,
        url: str | Sequence[str] | None = None,
        *,
        token: str | None = None,
        timeout: float = TIMEOUT_DEFAULT,
        server_timeout: float = SERVER_TIMEOUT_DEFAULT,
    ) -> None:
        if url is None:
            url = os.environ.get("TOLLWAY_URL", URL_DEFAULT).split(",")
        urls = [url] if isinstance(url, str) else list(url)
        self.timeout = timeout
        self._core = Core(urls, token or os.environ.get("TOLLWAY_TOKEN") or None, server_timeout)
        self._sockets = Sockets()
        self._asynchronous: AsyncLimiter | None = None
        _all.add(self)

    def take(
        self,
        policy: str,
        *,
        subject: str | None = None,
        cost: Cost | None = None,
        timeout: float | None = None,
        id: str | None = None,
    ) -> Permit | Denied:
        """Waits for a permit, at most `timeout` seconds, by default the limiter's 600. A take with an `id` counts once,
        however often it is sent."""
        return self.take_all([Charge(policy, subject, cost)], timeout=timeout, id=id)

    def try_take(
        self, policy: str, *, subject: str | None = None, cost: Cost | None = None, id: str | None = None
    ) -> Permit | Denied:
        """A permit now, or a denial."""
        return self.take(policy, subject=subject, cost=cost, timeout=0, id=id)

    def take_all(
        self, charges: Sequence[Charge], *, timeout: float | None = None, id: str | None = None
    ) -> Permit | Denied:
        """One permit under several policies or subjects: all are charged, or none."""
        timeout = self.timeout if timeout is None else timeout
        taken = self._sockets.run(self._core.take(tuple(charges), timeout, id))
        return taken if isinstance(taken, Denied) else Permit(self, taken)

    def acquire(
        self,
        policy: str,
        *,
        subject: str | None = None,
        cost: Cost | None = None,
        blocking: bool = True,
        timeout: float | None = None,
    ) -> bool:
        """Like `threading.Lock.acquire`, except that it never waits for ever."""
        return bool(self.take(policy, subject=subject, cost=cost, timeout=timeout if blocking else 0))

    def limits(self, policy: str, *, subject: str | None = None) -> list[Limit]:
        """What is left of each limit. Takes nothing."""
        taken = self.try_take(policy, subject=subject, cost={"requests": 0})
        if not isinstance(taken, Permit) or not taken._grant.has_slots:
            return taken.limits
        taken.give_back()
        return without_own_slot(taken.limits)

    def limited(
        self,
        policy: str,
        *,
        subject: SubjectOf = None,
        cost: CostOf = None,
        timeout: float | None = None,
    ) -> Callable[[F], F]:
        """A decorator: each call of the function takes a permit first, or raises `DeniedError`. Also for `async`
        functions. `subject` and `cost` may be functions of the call's arguments."""
        return limited(self, policy, subject, cost, timeout)

    def asynchronous(self) -> AsyncLimiter:
        """The same limiter for asyncio."""
        from ._aio import AsyncLimiter

        if self._asynchronous is None:
            self._asynchronous = AsyncLimiter._of(self)
        return self._asynchronous

    def blocking(self) -> Limiter:
        """Itself."""
        return self

    def close(self) -> None:
        """Tells the server what was spent without it, and closes this process's connections."""
        self._sockets.run(self._core.servers.tell_at_end())
        self._sockets.close()


_all: weakref.WeakSet[Limiter] = weakref.WeakSet()


def _after_fork() -> None:
    for limiter in _all:
        limiter._core.alone.forget_all()


def _at_exit() -> None:
    for limiter in list(_all):
        if limiter._core.alone.owes:
            limiter.close()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
