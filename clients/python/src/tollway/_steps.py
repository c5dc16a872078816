"""What the core asks of the outside. The core is generators of steps; `_sockets` and `_streams` carry them out."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ._address import Endpoint
from ._wire import Answer


class Exchange(NamedTuple):
    """Send these bytes to a server and read its answer, within this many seconds. Raises `Unreachable`."""

    endpoint: Endpoint
    request: bytes
    timeout: float


class Sleep(NamedTuple):
    """Wait."""

    seconds: float


class Outside:
    """What only a transport can do, such as sending the vendor's call."""


Step: TypeAlias = "Exchange | Sleep"
T = TypeVar("T")
# An exchange is answered with an answer, a sleep with nothing.
Steps: TypeAlias = Generator[Step, "Answer | None", T]
# With those of a transport among them, which are answered with what it returns.
OutsideSteps: TypeAlias = Generator["Step | Outside", Any, T]
