"""What this process may take while no server answers.

Each answer of the server says how much: its own share without its store, divided by its clients. It is counted down here; then
takes are denied. What was spent is sent when the server is back.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Mapping
from time import monotonic
from typing import Any, NamedTuple

from ._outcome import Charge

# Accounts of which a share is known, and of which something is owed. Of more, the oldest are forgotten.
ACCOUNTS_MAX = 10_000
# Corrections that wait for the server. Of more, the oldest are dropped: their units stay spent.
UNSENT_MAX = 1_024

Account = tuple[str, "str | None"]


class _Share(NamedTuple):
    # By unit.
    amount: dict[str, int]
    # By this process's clock.
    until: float


class Alone:
    """The shares of this process, and what it owes the server."""

    def __init__(self) -> None:
        self.forget_all()

    def forget_all(self) -> None:
        """Also after a fork: the parent spends its share and pays its debts, and may hold the lock for ever."""
        self._lock = threading.Lock()
        self._shares: OrderedDict[Account, _Share] = OrderedDict()
        self._owed: dict[Account, dict[str, int]] = {}
        self._unsent: deque[tuple[str, bytes]] = deque(maxlen=UNSENT_MAX)
        # Until then no server is asked.
        self.paused_until = 0.0
        self.is_away = False
        # Held by the one who tells the server what was spent; the others are not answered by it meanwhile.
        self.telling = threading.Lock()

    def learn(self, charge: Charge, alone: Mapping[str, Any] | None) -> None:
        """Keeps what the server's newest answer says. An answer that says nothing ends what an earlier one said."""
        account = (charge.policy, charge.subject)
        if alone is None:
            self._shares.pop(account, None)
            return
        share = _Share(alone["amount"], monotonic() + alone["until_ms"] / 1000)
        if account not in self._shares and len(self._shares) >= ACCOUNTS_MAX:
            with self._lock:
                self._shares.popitem(last=False)
        self._shares[account] = share

    def spend(self, charges: tuple[Charge, ...]) -> bool:
        """Takes the charges of the shares: all or none."""
        with self._lock:
            now = monotonic()
            shares = [self._shares.get((charge.policy, charge.subject)) for charge in charges]
            for charge, share in zip(charges, shares):
                if share is None or share.until <= now or not _fits(charge, share):
                    return False
            for charge, share in zip(charges, shares):
                assert share is not None
                self._move(charge, share.amount, 1)
            return True

    def settle(self, charge: Charge, cost: Mapping[str, int]) -> None:
        """Corrects what was spent to what the call cost; units that are not named stay."""
        with self._lock:
            owed = self._owed.setdefault((charge.policy, charge.subject), {})
            for unit, amount in cost.items():
                owed[unit] = max(0, owed.get(unit, 0) + amount - charge.amounts().get(unit, 0))

    def give_back(self, charges: tuple[Charge, ...]) -> None:
        """The call was not made."""
        with self._lock:
            for charge in charges:
                share = self._shares.get((charge.policy, charge.subject))
                self._move(charge, share.amount if share else {}, -1)

    def forget(self, charges: tuple[Charge, ...]) -> None:
        """The vendor has refused a call: nothing more without the server."""
        for charge in charges:
            self._shares.pop((charge.policy, charge.subject), None)

    def _move(self, charge: Charge, share: dict[str, int], sign: int) -> None:
        owed = self._owed.setdefault((charge.policy, charge.subject), {})
        for unit, amount in charge.amounts().items():
            owed[unit] = max(0, owed.get(unit, 0) + sign * amount)
            if unit in share:
                share[unit] -= sign * amount

    def send_later(self, path: str, body: bytes) -> None:
        """Keeps a correction that no server took."""
        self._unsent.append((path, body))

    @property
    def owes(self) -> bool:
        return bool(self._owed or self._unsent)

    def next_debt(self) -> tuple[Account, dict[str, int]] | None:
        """What one account owes, in the units that its policy may limit."""
        with self._lock:
            for account, owed in self._owed.items():
                return account, dict(owed)
            return None

    def told(self, account: Account, amounts: Mapping[str, int]) -> None:
        """The server knows of this much; what was spent meanwhile stays."""
        with self._lock:
            owed = self._owed.get(account, {})
            left = {unit: amount - amounts.get(unit, 0) for unit, amount in owed.items()}
            if any(amount > 0 for amount in left.values()):
                self._owed[account] = left
            else:
                self._owed.pop(account, None)

    def next_unsent(self) -> tuple[str, bytes] | None:
        return self._unsent[0] if self._unsent else None

    def sent(self) -> None:
        if self._unsent:
            self._unsent.popleft()


def _fits(charge: Charge, share: _Share) -> bool:
    amounts = charge.amounts()
    return all(amounts.get(unit, 0) <= left for unit, left in share.amount.items())
