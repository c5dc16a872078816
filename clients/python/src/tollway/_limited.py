"""The decorator of limited functions, `async` ones too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast

from ._outcome import Cost

if TYPE_CHECKING:
    from ._aio import AsyncLimiter
    from ._limiter import Limiter

F = TypeVar("F", bound=Callable[..., Any])
CostOf = Union[Cost, Callable[..., Cost], None]
SubjectOf = Union[str, Callable[..., str], None]


def limited(
    limiter: Limiter | AsyncLimiter,
    policy: str,
    subject: SubjectOf,
    cost: CostOf,
    timeout: float | None,
) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        def taken_of(args: Any, kwargs: Any) -> dict[str, Any]:
            return {
                "subject": subject(*args, **kwargs) if callable(subject) else subject,
                "cost": cost(*args, **kwargs) if callable(cost) else cost,
                "timeout": timeout,
            }

        import inspect

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def waits(*args: Any, **kwargs: Any) -> Any:
                async with await limiter.asynchronous().take(policy, **taken_of(args, kwargs)):
                    return await function(*args, **kwargs)

            return cast(F, waits)

        @functools.wraps(function)
        def blocks(*args: Any, **kwargs: Any) -> Any:
            with limiter.blocking().take(policy, **taken_of(args, kwargs)):
                return function(*args, **kwargs)

        return cast(F, blocks)

    return decorate
