"""What a limiter asks its server, and what follows from the answers. No I/O: every operation is a generator of steps."""

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
from ._outcome import Charge, Cost, Denied, Grant, Observed
from ._steps import Exchange, Sleep, Steps
from ._wire import Answer

logger = logging.getLogger("tollway")

# How long no server is asked after none answered: a refused connection costs nothing, a timeout costs all of it.
PAUSE_AFTER_REFUSED = 0.1
PAUSE_AFTER_TIMEOUT = 1.0
# A denied take that may still wait asks again by then: a slot may be free, a rate may have risen, a server may be back.
ASK_AGAIN_MAX = 0.25
# A place is booked at most this far ahead under a rate, and where it is not known that there is none.
BOOKED_AHEAD_MAX = 1.0
# Of which it is known that their limits do not move. Of more, places are booked a second ahead.
POLICIES_MAX = 10_000
# `Observed.wait` of a refusal of which the server has not said more.
UNKNOWN_WAIT = 1.0
# A debt is booked ahead where nothing is left now.
DEBT_WAIT_MS = 60_000
# What `/v1/observe` takes.
OBSERVED_BODY_CHARACTERS = 4_096
OBSERVED_HEADERS_MAX = 100
# The longest text of an error that is no problem of ours.
DETAIL_MAX = 200


class Core:
    """A limiter without I/O."""

    def __init__(self, urls: Sequence[str], token: str | None, server_timeout: float) -> None:
        if not urls:
            raise ValueError("a limiter needs the address of a server")
        self.endpoints = [Endpoint(url, token) for url in urls]
        self.server_timeout = server_timeout
        self.alone = Alone()
        # The last one that answered.
        self._current = 0
        # Policies whose limits do not move.
        self._fixed: set[str] = set()

    def take(self, charges: tuple[Charge, ...], timeout: float, take_id: str | None) -> Steps[Grant | Denied]:
        """Waits for a permit, at most `timeout` seconds."""
        deadline = monotonic() + timeout
        several = len(charges) != 1
        body: dict[str, Any] = {"all": [each.body() for each in charges]} if several else charges[0].body()
        if take_id is not None:
            body["id"] = take_id
        while True:
            left = deadline - monotonic()
            was_fixed = self._is_fixed(charges)
            ahead = left if was_fixed else min(left, BOOKED_AHEAD_MAX)
            body.pop("wait_ms", None)
            if ahead > 0:
                body["wait_ms"] = int(ahead * 1000)
            answer = yield from self.ask("/v1/take", body)
            outcome = self._taken(charges, answer)
            if isinstance(outcome, Grant):
                if outcome.delay > 0:
                    outcome = yield from self._wait_for_place(outcome)
                if isinstance(outcome, Grant):
                    return outcome
            left = deadline - monotonic()
            if left <= 0:
                return outcome
            if self._is_fixed(charges):
                if not was_fixed and left > ahead:
                    # It can be booked further ahead.
                    continue
                if outcome.retry_after > left:
                    return outcome
            yield Sleep(min(max(outcome.retry_after, 0.001), ASK_AGAIN_MAX))

    def _is_fixed(self, charges: tuple[Charge, ...]) -> bool:
        """Whether its limits are known not to move: a rate may rise before a far place comes."""
        fixed = self._fixed
        return charges[0].policy in fixed if len(charges) == 1 else all(each.policy in fixed for each in charges)

    def _learn(self, charges: tuple[Charge, ...], said: Mapping[str, Any]) -> None:
        if len(charges) == 1:
            self.alone.learn(charges[0], said.get("alone"))
        if self._is_fixed(charges) or len(self._fixed) >= POLICIES_MAX:
            return
        limits = said.get("limits")
        if limits and all(limit["name"] != "rate" for limit in limits):
            self._fixed.update(charge.policy for charge in charges)

    def _taken(self, charges: tuple[Charge, ...], answer: Answer | None) -> Grant | Denied:
        if answer is None:
            if self.alone.spend(charges):
                return Grant(charges, {"degraded": True})
            retry = max(self.alone.paused_until - monotonic(), PAUSE_AFTER_REFUSED) * 1000
            return Denied({"policy": charges[0].policy, "retry_after_ms": retry, "degraded": True})
        said = _decoded(answer)
        if "granted" not in said:
            if answer.status == 429:
                # Too many takes in flight, or too many ids.
                return Denied({"policy": charges[0].policy, "retry_after_ms": (answer.retry_after or 1) * 1000})
            raise _problem(answer, said)
        self._learn(charges, said)
        return Grant(charges, said) if said["granted"] else Denied(said)

    def _wait_for_place(self, grant: Grant) -> Steps[Grant | Denied]:
        """Sleeps until the booked time, and asks whether the permit is still good: the machine may have slept longer."""
        try:
            yield Sleep(grant.delay)
        except GeneratorExit:
            raise
        except BaseException:
            # Interrupted or cancelled: others may have the place.
            yield from self.give_back(grant)
            raise
        return (yield from self.begin(grant)) or grant

    def begin(self, grant: Grant) -> Steps[Denied | None]:
        """Right before the call goes out. Takes again if the permit is too old; `None`: go."""
        while not grant.is_alone:
            answer = yield from self.ask("/v1/begin", {"permit": grant.permit})
            if answer is None:
                # It was granted, and nobody can say more.
                grant.degraded = True
                return None
            said = _decoded(answer)
            if answer.status == 429:
                return Denied(said)
            if answer.status != 200:
                raise _problem(answer, said)
            grant.permit = said.get("permit", grant.permit)
            if said["delay_ms"] <= 0:
                return None
            yield Sleep(said["delay_ms"] / 1000)
        return None

    def settle(self, grant: Grant, cost: Cost) -> Steps[str]:
        """The call cost something else."""
        if grant.is_alone:
            self.alone.settle(grant.charges[0], cost)
            return "whole"
        return (yield from self._correct(grant, "/v1/settle", {"cost": dict(cost)}))

    def give_back(self, grant: Grant) -> Steps[str]:
        """The call was not made."""
        grant.ended = True
        if grant.is_alone:
            self.alone.give_back(grant.charges)
            return "whole"
        return (yield from self._correct(grant, "/v1/return", {}))

    def done(self, grant: Grant) -> Steps[None]:
        """The call is over: its slots are free."""
        grant.ended = True
        if not grant.is_alone:
            yield from self._correct(grant, "/v1/done", {})

    def renew(self, grant: Grant) -> Steps[bool]:
        """The call goes on: keep its slots."""
        if grant.is_alone:
            return True
        answer = yield from self.ask("/v1/renew", {"permit": grant.permit})
        if answer is None:
            return False
        said = _decoded(answer)
        if answer.status != 200:
            raise _problem(answer, said)
        return bool(said["renewed"])

    def _correct(self, grant: Grant, path: str, fields: Mapping[str, Any]) -> Steps[str]:
        """A correction that no server takes now is sent later."""
        body = {"permit": grant.permit, **fields}
        answer = yield from self.ask(path, body)
        if answer is None:
            self.alone.send_later(path, _encoded(body))
            return "later"
        said = _decoded(answer)
        if answer.status != 200:
            raise _problem(answer, said)
        return str(said.get("settled", "whole"))

    def observe(
        self, grant: Grant, status: int | None, headers: Mapping[str, str], body: str
    ) -> Steps[Observed]:
        """How the vendor answered. Without a status: it did not."""
        refused = status == 429
        unknown = Observed(refused, None, UNKNOWN_WAIT if refused else 0.0, refused)
        if grant.is_alone:
            if refused:
                self.alone.forget(grant.charges)
            return unknown
        report: dict[str, Any] = {"permit": grant.permit}
        if status is not None:
            report["status"] = status
            report["headers"] = dict(list(headers.items())[:OBSERVED_HEADERS_MAX])
            report["body"] = body[:OBSERVED_BODY_CHARACTERS]
        answer = yield from self.ask("/v1/observe", report)
        if answer is None:
            self.alone.send_later("/v1/observe", _encoded(report))
            if refused:
                self.alone.forget(grant.charges)
            return unknown
        # 409: it was reported before, as when the first answer was lost. 422: the policy is of no api.
        if answer.status in (409, 422):
            return unknown
        said = _decoded(answer)
        if answer.status != 200:
            raise _problem(answer, said)
        return Observed(said["refused"], said.get("kind"), said.get("wait_ms", 0) / 1000, said["retry"])

    def ask(self, path: str, body: Mapping[str, Any]) -> Steps[Answer | None]:
        """The answer of the first server that answers. `None`: no server does."""
        alone = self.alone
        if alone.is_away or alone.owes:
            if alone.telling.locked() or (alone.is_away and monotonic() < alone.paused_until):
                return None
            if alone.owes and not (yield from self._tell()):
                return None
        return (yield from self._ask_any("POST", path, _encoded(body)))

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
        taken = yield from self._ask_any("POST", "/v1/take", _encoded(nothing))
        if taken is None:
            return False
        permit = _decoded(taken).get("permit")
        if permit is None or not owed:
            logger.warning("the server takes no account of %s spent without it under %r", owed, policy)
            return True
        settle = _encoded({"permit": permit, "cost": owed})
        return (yield from self._ask_any("POST", "/v1/settle", settle)) is not None

    def tell_at_end(self) -> Steps[bool]:
        """Sends what is owed, before the process ends."""
        return (yield from self._tell()) if self.alone.owes else True


_decode = json.JSONDecoder().raw_decode


def _encoded(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body).encode()


def _decoded(answer: Answer) -> dict[str, Any]:
    try:
        said, _ = _decode(answer.body.decode())
    except ValueError:
        said = None
    if not isinstance(said, dict):
        text = answer.body[:DETAIL_MAX].decode(errors="replace")
        raise ServerProblem(answer.status, "the answer is not of a Tollway server", text)
    return said


def _problem(answer: Answer, said: Mapping[str, Any]) -> ServerProblem:
    title, detail = str(said.get("title", "an error")), str(said.get("detail", ""))
    return ServerProblem(answer.status, title, detail, str(said.get("type", "")))
