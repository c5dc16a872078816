"""Which server is asked, and what follows if none answers: this process is alone until one is back."""

from __future__ import annotations

import json
import logging
from collections.abc import Generator, Mapping, Sequence
from time import monotonic
from typing import Any
from uuid import uuid4

from ._address import Endpoint
from ._alone import Alone
from ._errors import ServerProblem, Unreachable
from ._outcome import Charge
from ._steps import Exchange, Steps
from ._wire import Answer

logger = logging.getLogger("tollway")

# How long no server is asked after none answered: a refused connection costs nothing, a timeout costs all of it.
PAUSE_AFTER_REFUSED = 0.1
PAUSE_AFTER_TIMEOUT = 1.0
# A debt is booked ahead where nothing is left now.
DEBT_WAIT_MS = 60_000
# The longest text of an error that is no problem of ours.
DETAIL_MAX = 200


class Servers:
    """The servers of a limiter. They share a store, so any of them may be asked."""

    def __init__(self, urls: Sequence[str], token: str | None, server_timeout: float) -> None:
        if not urls:
            raise ValueError("a limiter needs the address of a server")
        self.endpoints = [Endpoint(url, token) for url in urls]
        self.server_timeout = server_timeout
        self.alone = Alone()
        # The last one that answered.
        self._current = 0

    def ask(self, path: str, body: Mapping[str, Any]) -> Steps[Answer | None]:
        """The answer of the first server that answers. `None`: no server does."""
        alone = self.alone
        if alone.is_away or alone.owes:
            if alone.telling.locked() or (alone.is_away and monotonic() < alone.paused_until):
                return None
            if alone.owes and not (yield from self._tell()):
                return None
        return (yield from self._ask_any("POST", path, encoded(body)))

    def _ask_any(self, method: str, path: str, body: bytes) -> Generator[Exchange, Answer | None, Answer | None]:
        count = len(self.endpoints)
        failure: Unreachable | None = None
        for turn in range(count):
            place = (self._current + turn) % count
            endpoint = self.endpoints[place]
            request = endpoint.heads.request(method, path, body)
            try:
                answer = yield Exchange(endpoint, request, self.server_timeout)
                assert answer is not None
                if answer.status in (502, 504) or (answer.status == 503 and not answer.body.startswith(b"{")):
                    raise Unreachable(f"a proxy answers {answer.status} for the server")
            except Unreachable as unreachable:
                failure = unreachable
                continue
            self._current = place
            if self.alone.is_away:
                self._is_back()
            return answer
        self._is_away(failure)
        return None

    def _is_away(self, failure: Unreachable | None) -> None:
        refused = failure is not None and failure.refused
        self.alone.paused_until = monotonic() + (PAUSE_AFTER_REFUSED if refused else PAUSE_AFTER_TIMEOUT)
        if not self.alone.is_away:
            self.alone.is_away = True
            logger.warning("no Tollway server answers (%s); this process keeps to its share alone", failure)

    def _is_back(self) -> None:
        self.alone.is_away = False
        logger.info("a Tollway server answers again")

    def _tell(self) -> Steps[bool]:
        """Sends what was spent without the server, before anything is taken again."""
        alone = self.alone
        telling = alone.telling
        if not telling.acquire(blocking=False):
            return False
        try:
            while (debt := alone.next_debt()) is not None:
                account, amounts = debt
                if not (yield from self._pay(account, amounts)):
                    return False
                alone.told(account, amounts)
            while (unsent := alone.next_unsent()) is not None:
                answer = yield from self._ask_any("POST", *unsent)
                if answer is None:
                    return False
                alone.sent()
            return True
        finally:
            telling.release()

    def _pay(self, account: tuple[str, str | None], amounts: dict[str, int]) -> Steps[bool]:
        """A take of nothing, settled to what was spent: a settle may raise a count above its limit."""
        policy, subject = account
        owed = {unit: amount for unit, amount in amounts.items() if amount > 0}
        nothing = Charge(policy, subject, dict.fromkeys({"requests", *owed}, 0)).body()
        nothing.update(id=uuid4().hex, wait_ms=DEBT_WAIT_MS)
        taken = yield from self._ask_any("POST", "/v1/take", encoded(nothing))
        if taken is None:
            return False
        permit = decoded(taken).get("permit")
        if permit is None or not owed:
            logger.warning("the server takes no account of %s spent without it under %r", owed, policy)
            return True
        settle = encoded({"permit": permit, "cost": owed})
        return (yield from self._ask_any("POST", "/v1/settle", settle)) is not None

    def tell_at_end(self) -> Steps[bool]:
        """Sends what is owed, before the process ends."""
        return (yield from self._tell()) if self.alone.owes else True


_decode = json.JSONDecoder().raw_decode


def encoded(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body).encode()


def decoded(answer: Answer) -> dict[str, Any]:
    try:
        said, _ = _decode(answer.body.decode())
    except ValueError:
        said = None
    if not isinstance(said, dict):
        text = answer.body[:DETAIL_MAX].decode(errors="replace")
        raise ServerProblem(answer.status, "the answer is not of a Tollway server", text)
    return said


def problem_of(answer: Answer, said: Mapping[str, Any]) -> ServerProblem:
    title, detail = str(said.get("title", "an error")), str(said.get("detail", ""))
    return ServerProblem(answer.status, title, detail, str(said.get("type", "")))
