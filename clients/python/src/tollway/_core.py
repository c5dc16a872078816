"""What a limiter asks its server, and what follows from the answers. No I/O: every operation is a generator of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

from ._outcome import Charge, Cost, Denied, Grant, Observed
from ._servers import PAUSE_AFTER_REFUSED, Servers, decoded, encoded, problem_of
from ._steps import Sleep, Steps
from ._wire import Answer

# A denied take that may still wait asks again by then: a slot may be free, a rate may have risen, a server may be back.
ASK_AGAIN_MAX = 0.25
# A place is booked at most this far ahead under a rate, and where it is not known that there is none.
BOOKED_AHEAD_MAX = 1.0
# Of which it is known that their limits do not move. Of more, places are booked a second ahead.
POLICIES_MAX = 10_000
# `Observed.wait` of a refusal of which the server has not said more.
UNKNOWN_WAIT = 1.0
# What `/v1/observe` takes.
OBSERVED_BODY_CHARACTERS = 4_096
OBSERVED_HEADERS_MAX = 100


class Core:
    """A limiter without I/O."""

    def __init__(self, urls: Sequence[str], token: str | None, server_timeout: float) -> None:
        self.servers = Servers(urls, token, server_timeout)
        self.alone = self.servers.alone
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
            answer = yield from self.servers.ask("/v1/take", body)
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
        said = decoded(answer)
        if "granted" not in said:
            if answer.status == 429:
                # Too many takes in flight, or too many ids.
                return Denied({"policy": charges[0].policy, "retry_after_ms": (answer.retry_after or 1) * 1000})
            raise problem_of(answer, said)
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
            answer = yield from self.servers.ask("/v1/begin", {"permit": grant.permit})
            if answer is None:
                # It was granted; nothing more is known.
                grant.degraded = True
                return None
            said = decoded(answer)
            if answer.status == 429:
                return Denied(said)
            if answer.status != 200:
                raise problem_of(answer, said)
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
        answer = yield from self.servers.ask("/v1/renew", {"permit": grant.permit})
        if answer is None:
            return False
        said = decoded(answer)
        if answer.status != 200:
            raise problem_of(answer, said)
        return bool(said["renewed"])

    def _correct(self, grant: Grant, path: str, fields: Mapping[str, Any]) -> Steps[str]:
        """A correction that no server takes now is sent later."""
        body = {"permit": grant.permit, **fields}
        answer = yield from self.servers.ask(path, body)
        if answer is None:
            self.alone.send_later(path, encoded(body))
            return "later"
        said = decoded(answer)
        if answer.status != 200:
            raise problem_of(answer, said)
        return str(said.get("settled", "whole"))

    def observe(self, grant: Grant, status: int | None, headers: Mapping[str, str], body: str) -> Steps[Observed]:
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
        answer = yield from self.servers.ask("/v1/observe", report)
        if answer is None:
            self.alone.send_later("/v1/observe", encoded(report))
            if refused:
                self.alone.forget(grant.charges)
            return unknown
        # 409: it was reported before, as when the first answer was lost. 422: the policy is of no api.
        if answer.status in (409, 422):
            return unknown
        said = decoded(answer)
        if answer.status != 200:
            raise problem_of(answer, said)
        return Observed(said["refused"], said.get("kind"), said.get("wait_ms", 0) / 1000, said["retry"])
