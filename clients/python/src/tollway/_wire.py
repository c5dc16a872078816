"""HTTP/1.1 without I/O: requests become bytes, bytes become answers."""

from __future__ import annotations

from typing import NamedTuple

from ._errors import TollwayError

# The server's longest head is below this.
HEAD_BYTES_MAX = 16 * 1024
# A hundred decisions of sixteen limits each are below this.
BODY_BYTES_MAX = 4 * 1024 * 1024


class BadAnswer(TollwayError):
    """What came is not HTTP, or too long."""


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes
    # Whether the server closes the connection after it.
    closes: bool
    # `Retry-After` in seconds.
    retry_after: float | None


class AnswerReader:
    """Reads one answer, piece by piece."""

    __slots__ = ("_bytes", "_closes", "_head_end", "_length", "_retry_after", "_status")

    def __init__(self) -> None:
        self._bytes = b""
        self._head_end = -1

    @property
    def has_begun(self) -> bool:
        return bool(self._bytes)

    def feed(self, data: bytes) -> Answer | None:
        """The answer, once it is whole."""
        self._bytes = self._bytes + data if self._bytes else data
        if self._head_end < 0 and not self._read_head():
            return None
        if self._length is None:
            return self._chunked()
        end = self._head_end + self._length
        if len(self._bytes) < end:
            return None
        # What is beyond the answer belongs to no request: the connection cannot be used again.
        closes = self._closes or len(self._bytes) > end
        return Answer(self._status, self._bytes[self._head_end : end], closes, self._retry_after)

    def _read_head(self) -> bool:
        end = self._bytes.find(b"\r\n\r\n")
        if end < 0 or end > HEAD_BYTES_MAX:
            if len(self._bytes) > HEAD_BYTES_MAX:
                raise BadAnswer("the head of an answer is too long")
            return False
        head = self._bytes[:end].lower()
        if not head.startswith(b"http/1.") or not head[9:12].isdigit():
            raise BadAnswer("the answer is not HTTP/1")
        self._status = int(head[9:12])
        self._closes = head.startswith(b"http/1.0") or b"\r\nconnection: close" in head
        # Only a denial is asked when to retry.
        self._retry_after = None if self._status == 200 else _seconds(_field(head, b"retry-after"))
        length = _field(head, b"content-length")
        if b"\r\ntransfer-encoding:" in head:
            if length is not None or _field(head, b"transfer-encoding") != b"chunked":
                raise BadAnswer("the length of an answer is told in two ways, or in one that is not known")
            self._length: int | None = None
        elif length is not None and length.isdigit() and int(length) <= BODY_BYTES_MAX:
            self._length = int(length)
        elif length is None and self._status in (204, 304):
            self._length = 0
        else:
            raise BadAnswer("the length of an answer is missing, or above 4 MiB")
        self._head_end = end + 4
        return True

    def _chunked(self) -> Answer | None:
        """Proxies may answer so. Trailers are not expected, and end the connection."""
        place, body = self._head_end, b""
        while True:
            line_end = self._bytes.find(b"\r\n", place)
            if line_end < 0:
                if len(self._bytes) - place > HEAD_BYTES_MAX:
                    raise BadAnswer("the length of a chunk is too long")
                return None
            try:
                size = int(self._bytes[place:line_end].split(b";")[0], 16)
            except ValueError:
                raise BadAnswer("the length of a chunk is no number") from None
            if size < 0 or len(body) + size > BODY_BYTES_MAX:
                raise BadAnswer("an answer is above 4 MiB")
            if len(self._bytes) < line_end + 2 + size + 2:
                return None
            if size == 0:
                ends = self._bytes[line_end:] == b"\r\n\r\n"
                return Answer(self._status, body, self._closes or not ends, self._retry_after)
            body += self._bytes[line_end + 2 : line_end + 2 + size]
            place = line_end + 2 + size + 2


def _field(head: bytes, name: bytes) -> bytes | None:
    """The value of a field of a head in small letters."""
    begin = head.find(b"\r\n" + name + b":")
    if begin < 0:
        return None
    begin += len(name) + 3
    end = head.find(b"\r\n", begin)
    return head[begin : end if end >= 0 else len(head)].strip()


def _seconds(value: bytes | None) -> float | None:
    return float(value) if value is not None and value.isdigit() else None


class RequestHeads:
    """The bytes of a request before its body, for one server."""

    __slots__ = ("_heads", "_host", "_token")

    def __init__(self, host: str, token: str | None) -> None:
        for text in (host, token or ""):
            if any(character in text for character in "\r\n\0"):
                raise ValueError("a line end in the address or the token")
        self._host = host
        self._token = token
        # One entry for each route.
        self._heads: dict[tuple[str, str], bytes] = {}

    def request(self, method: str, path: str, body: bytes) -> bytes:
        """A whole request."""
        head = self._heads.get((method, path))
        if head is None:
            head = self.head(method, path, "application/json")
            self._heads[method, path] = head
        return b"%b%d\r\n\r\n%b" % (head, len(body), body)

    def head(self, method: str, path: str, content_type: str) -> bytes:
        """Up to the length of the body."""
        lines = [f"{method} {path} HTTP/1.1", f"host: {self._host}", f"content-type: {content_type}"]
        if self._token is not None:
            lines.append(f"authorization: Bearer {self._token}")
        return ("\r\n".join(lines) + "\r\ncontent-length: ").encode("latin-1")
