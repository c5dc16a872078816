"""Errors. A denial is none: it is a falsy result, until a `with` or a decorator needs a permit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._outcome import Denied


class TollwayError(Exception):
    """Every error of this package."""


class Unreachable(TollwayError):
    """No server answered. `refused`: no connection was made, so nothing was sent."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class ServerProblem(TollwayError):
    """The server understood nothing, or knows nothing of what it was asked: `detail` says what to do."""

    def __init__(self, status: int, title: str, detail: str, kind: str = "") -> None:
        super().__init__(f"{status} {title}: {detail}" if detail else f"{status} {title}")
        self.status = status
        self.title = title
        self.detail = detail
        self.kind = kind


class DeniedError(TollwayError):
    """There was no permit within the timeout, where a program cannot go on without one."""

    def __init__(self, denied: Denied) -> None:
        super().__init__(str(denied))
        self.denied = denied

    @property
    def retry_after(self) -> float:
        """When to retry, in seconds."""
        return self.denied.retry_after


class NotSent(TollwayError):
    """Raise this in a `with` block of a permit if the call did not go out: then the permit is given back."""
