"""An adapter for `requests`: every call of a session waits for its permit.

>>> session = requests.Session()                                     # doctest: +SKIP
>>> session.mount("https://api.notion.com/", tollway.requests.Adapter("notion"))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from ._limiter import Limiter
from ._vendor_call import Budget, CostOfCall, ReadRefusal, Seen, Send, call, charge_of

__all__ = ["Adapter"]


class Adapter(HTTPAdapter):
    """Takes a permit of the policy before each call, reports the answer, and sends a refused call again.

    `cost` may be a function of the `PreparedRequest`. A body that cannot be sent twice is sent once.
    """

    def __init__(
        self,
        policy: str,
        limiter: Limiter | None = None,
        *,
        subject: str | None = None,
        cost: CostOfCall = None,
        budget: Budget = Budget(),
        **adapter: Any,
    ) -> None:
        super().__init__(**adapter)
        self.policy = policy
        self.limiter = limiter or Limiter()
        self.subject = subject
        self.cost = cost
        self.budget = budget

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        limiter = self.limiter
        charge = charge_of(self.policy, self.subject, self.cost, request)
        repeatable = request.body is None or isinstance(request.body, (bytes, str))
        send = super().send

        def outside(step: Any) -> Any:
            if isinstance(step, Send):
                return send(request, *args, **kwargs)
            if isinstance(step, ReadRefusal):
                return step.response.content.decode("utf-8", "replace")
            return step.response.close()

        steps = call(limiter._core, charge, self.budget, repeatable, _seen)
        response: requests.Response = limiter._sockets.run(steps, outside)
        return response


def _seen(response: requests.Response) -> Seen:
    headers: Mapping[str, str] = response.headers
    return Seen(response.status_code, headers)
