"""Whether a call went out, as far as its exception tells."""

from __future__ import annotations

import socket

from ._errors import NotSent

# Exceptions of libraries that mean: no connection was made. By name, because none of them is imported here.
_NO_CONNECTION = {
    "ConnectError",
    "ConnectTimeout",
    "ClientConnectorError",
    "ConnectTimeoutError",
    "NewConnectionError",
    "NameResolutionError",
    "UnsupportedProtocol",
}
# A chain of causes is short. One that is not ends here.
_CHAIN_MAX = 20


def was_sent(error: BaseException) -> bool:
    """False only where it is certain: a unit that is returned after the vendor has counted it would be spent twice."""
    link: BaseException | None = error
    for _ in range(_CHAIN_MAX):
        if link is None:
            return True
        if isinstance(link, (NotSent, ConnectionRefusedError, socket.gaierror)):
            return False
        if any(kind.__name__ in _NO_CONNECTION for kind in type(link).__mro__):
            return False
        reason = link.args[0] if link.args and isinstance(link.args[0], BaseException) else None
        inner = getattr(reason, "reason", None)
        link = link.__cause__ or (inner if isinstance(inner, BaseException) else None)
    return True
