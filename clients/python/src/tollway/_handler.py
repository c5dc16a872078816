"""Turns a function into the handler of a pipeline's stage: jobs come as lines of standard input, answers go out as lines."""

from __future__ import annotations

import functools
import json
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, TextIO, Union, cast

from ._errors import TollwayError

# A line is at most 1 MiB. What a job hands on beyond half of it goes out in parts.
PART_BYTES_MAX = 512 * 1024
# Of an error: one line, the same for the same fault; and more for a reader.
ERROR_CHARACTERS_MAX = 500
DETAIL_CHARACTERS_MAX = 8_000


class Retry(TollwayError):
    """The job failed: another try, after that many seconds."""

    def __init__(self, error: str = "the handler failed", *, after: float | None = None) -> None:
        super().__init__(error)
        self.after = after


class RateLimited(TollwayError):
    """The vendor refused the call for its rate: its policy is held in every process, and no try is used."""

    def __init__(self, error: str = "the vendor refused the call", *, after: float | None = None) -> None:
        super().__init__(error)
        self.after = after


class Dead(TollwayError):
    """The job can never be done: a dead letter at once."""


class Job:
    """A job of the pipeline."""

    __slots__ = ("_begin", "_fields")

    def __init__(self, fields: Mapping[str, Any], begin: Callable[[], None]) -> None:
        self._fields = fields
        self._begin = begin

    @property
    def id(self) -> int:
        return cast(int, self._fields["id"])

    @property
    def key(self) -> str:
        return cast(str, self._fields.get("key", ""))

    @property
    def stage(self) -> str:
        return cast(str, self._fields.get("stage", ""))

    @property
    def attempt(self) -> int:
        """The number of this try, from 1."""
        return cast(int, self._fields.get("try", 1))

    @property
    def deadline(self) -> float:
        """Until when it must be done, in seconds since 1970."""
        return float(self._fields.get("deadline", 0))

    @property
    def group(self) -> str | None:
        return cast("str | None", self._fields.get("group"))

    @property
    def data(self) -> Any:
        """What was enqueued or handed on."""
        return self._fields["data"]

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    def begin(self) -> None:
        """With `begin = true` in the config: waits until the call may go out."""
        self._begin()


class Output:
    """A job that is handed on: to the next stage, unless it names another one."""

    __slots__ = ("fields",)

    def __init__(
        self,
        data: Any,
        *,
        stage: str | None = None,
        group: str | None = None,
        join: str | None = None,
        cost: Mapping[str, Mapping[str, int]] | None = None,
    ) -> None:
        named = {"stage": stage, "group": group, "join": join, "cost": cost}
        self.fields = {"data": data, **{name: value for name, value in named.items() if value is not None}}


class Done:
    """What a handler returns if it has more to say than its outputs."""

    __slots__ = ("cost", "outputs", "result")

    def __init__(
        self, outputs: Iterable[Any] = (), *, result: Any = None, cost: Mapping[str, int] | None = None
    ) -> None:
        self.outputs = outputs
        self.result = result
        self.cost = cost


# A dictionary is one output. A list, or what a generator yields, is several. None is none.
Returned = Union[None, Mapping[str, Any], Output, Iterable[Any], Done]
Function = Callable[[Job], Returned]


class Handler:
    """A function that handles jobs. It can still be called; `run()` serves the pipeline until its input ends."""

    def __init__(self, function: Function) -> None:
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, job: Job) -> Returned:
        return self._function(job)

    def run(self, input: BinaryIO | None = None, output: TextIO | None = None) -> None:
        """Handles jobs, each in a thread of its own: as many at a time as the stage has `slots`."""
        lines = _Lines(output or sys.stdout)
        if output is None:
            # What the function prints would break the protocol; on standard error it is kept as evidence.
            sys.stdout = sys.stderr
        going: dict[int, queue.SimpleQueue[None]] = {}
        workers: list[threading.Thread] = []
        for line in input or sys.stdin.buffer:
            said = json.loads(line)
            if "go" in said:
                if said["go"] in going:
                    going[said["go"]].put(None)
                continue
            going[said["job"]["id"]] = queue.SimpleQueue()
            worker = threading.Thread(target=self._handle, args=(said["job"], lines, going), daemon=True)
            worker.start()
            workers = [known for known in workers if known.is_alive()] + [worker]
        for worker in workers:
            worker.join()

    def _handle(self, fields: Mapping[str, Any], lines: _Lines, going: dict[int, queue.SimpleQueue[None]]) -> None:
        id = fields["id"]

        def begin() -> None:
            lines.say({"begin": id})
            going[id].get()

        try:
            for answer in _answers(id, self._function(Job(fields, begin))):
                lines.say(answer)
        except Dead as dead:
            lines.say({"dead": id, "error": _line(dead)})
        except Retry as retry:
            lines.say(_with_pause({"retry": id, "error": _line(retry)}, retry.after))
        except RateLimited as refused:
            lines.say(_with_pause({"rate_limited": id, "error": _line(refused)}, refused.after))
        except Exception as error:
            detail = traceback.format_exc()[-DETAIL_CHARACTERS_MAX:]
            lines.say({"retry": id, "error": f"{type(error).__name__}: {_line(error)}", "detail": detail})
        finally:
            del going[id]


def handler(function: Function) -> Handler:
    """Makes a pipeline's handler of a function: `@tollway.handler`, and `NAME.run()` at the end of the file."""
    return Handler(function)


class _Lines:
    """Answers, one line each, of several threads."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._lock = threading.Lock()

    def say(self, answer: Mapping[str, Any]) -> None:
        line = json.dumps(answer) + "\n"
        with self._lock:
            self._output.write(line)
            self._output.flush()


def _answers(id: int, returned: Returned) -> Iterator[dict[str, Any]]:
    """Parts, if there are many outputs, and the answer."""
    done = returned if isinstance(returned, Done) else Done(_outputs(returned))
    part: list[dict[str, Any]] = []
    size = 0
    for output in done.outputs:
        fields = output.fields if isinstance(output, Output) else {"data": output}
        length = len(json.dumps(fields))
        if part and size + length > PART_BYTES_MAX:
            yield {"part": id, "outputs": part}
            part, size = [], 0
        part.append(fields)
        size += length
    answer: dict[str, Any] = {"done": id}
    if part:
        answer["outputs"] = part
    if done.result is not None:
        answer["result"] = done.result
    if done.cost is not None:
        answer["cost"] = dict(done.cost)
    yield answer


def _outputs(returned: Any) -> Iterable[Any]:
    if returned is None:
        return ()
    if isinstance(returned, (Mapping, Output, str, bytes, int, float)):
        return (returned,)
    return cast(Iterable[Any], returned)


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text[:ERROR_CHARACTERS_MAX] or type(error).__name__


def _with_pause(answer: dict[str, Any], after: float | None) -> dict[str, Any]:
    return answer if after is None else {**answer, "after": after}
