"""Where a server listens: `http://HOST:PORT`, `https://HOST:PORT` or `unix:/PATH`."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from ._wire import RequestHeads


class Address(NamedTuple):
    """The address of one server."""

    # Empty for a unix socket.
    host: str
    port: int
    # The path of a unix socket.
    path: str
    tls: bool
    url: str

    @classmethod
    def parse(cls, url: str) -> Address:
        if url.startswith("unix:"):
            path = url[len("unix:") :].removeprefix("//")
            if not path:
                raise ValueError(f"{url!r} names no socket; write unix:/run/tollway.sock")
            return cls("", 0, path, False, url)
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no address of a server; write http://127.0.0.1:8080")
        if parts.path not in ("", "/") or parts.query or parts.username:
            raise ValueError(f"{url!r} has more than a host and a port")
        tls = parts.scheme == "https"
        return cls(parts.hostname, parts.port or (443 if tls else 80), "", tls, url)

    @property
    def host_field(self) -> str:
        """The `Host` of requests."""
        if self.path:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Endpoint:
    """A server, and how requests to it begin."""

    __slots__ = ("address", "heads")

    def __init__(self, url: str, token: str | None) -> None:
        self.address = Address.parse(url)
        self.heads = RequestHeads(self.address.host_field, token)
