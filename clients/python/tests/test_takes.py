"""Takes, permits and denials against a real server, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest
import tollway
from conftest import ServerOf, free_port

POLICIES = """
[policies.api]
limits = ["3 requests / hour from first call"]
[policies.tokens]
limits = ["1000 tokens / hour"]
[policies.slots]
limits = ["2 concurrent"]
[policies.paced]
limits = ["20 / second paced"]
"""


def left(limiter: tollway.Limiter, policy: str) -> int:
    return limiter.limits(policy)[0].remaining


def test_a_take_is_granted_up_to_the_limit_then_denied(serve: ServerOf) -> None:
    limiter = tollway.Limiter(serve(POLICIES).url)
    for remaining in (2, 1, 0):
        permit = limiter.try_take("api", subject="ann")
        assert permit and not permit.degraded
        assert [limit.remaining for limit in permit.limits] == [remaining]
    denied = limiter.try_take("api", subject="ann")
    assert isinstance(denied, tollway.Denied) and not denied
    assert (denied.policy, denied.limit, denied.degraded) == ("api", "requests_per_hour", False)
    assert 3_500 < denied.retry_after <= 3_600
    assert not limiter.acquire("api", subject="ann", timeout=0.05)
    assert limiter.acquire("api", subject="bob", blocking=False)


def test_a_take_with_an_id_counts_once(serve: ServerOf) -> None:
    limiter = tollway.Limiter(serve(POLICIES).url)
    for _ in range(3):
        assert limiter.try_take("api", id="call-7")
    assert left(limiter, "api") == 2


def test_a_take_waits_for_its_turn(serve: ServerOf) -> None:
    limiter = tollway.Limiter(serve(POLICIES).url)
    began = time.monotonic()
    assert all(limiter.take("paced", timeout=30) for _ in range(5))
    assert time.monotonic() - began >= 0.19, "four gaps of 50 ms"


def test_a_permit_is_settled_to_what_the_call_cost(serve: ServerOf) -> None:
    limiter = tollway.Limiter(serve(POLICIES).url)
    with limiter.take("tokens", cost={"tokens": 400}) as permit:
        assert isinstance(permit.begin(), tollway.Permit)
        assert permit.settle(tokens=100) == "whole"
        assert permit.settle(tokens=1) == "repeated"
    assert left(limiter, "tokens") == 900


def test_an_exception_returns_the_permit_only_if_the_call_did_not_go_out(serve: ServerOf) -> None:
    limiter = tollway.Limiter(serve(POLICIES).url)
    for error, remaining in (
        (ConnectionRefusedError(), 1000),
        (tollway.NotSent(), 1000),
        (TimeoutError(), 900),
        (ValueError(), 800),
    ):
        with pytest.raises(type(error)), limiter.take("tokens", cost={"tokens": 100}):
            raise error
        assert left(limiter, "tokens") == remaining, error


def test_a_slot_is_free_after_the_with(serve: ServerOf) -> None:
    limiter = tollway.Limiter(serve(POLICIES).url)
    with limiter.take("slots"), limiter.take("slots") as permit:
        assert isinstance(permit, tollway.Permit) and permit.renew()
        assert not limiter.try_take("slots")
        with pytest.raises(tollway.DeniedError), limiter.try_take("slots"):
            raise AssertionError("a denial has no block to run")
    assert left(limiter, "slots") == 2


def test_several_policies_are_all_charged_or_none(serve: ServerOf) -> None:
    limiter = tollway.Limiter(serve(POLICIES).url)
    charges = [tollway.Charge("api"), tollway.Charge("tokens", None, {"tokens": 600})]
    assert limiter.take_all(charges, timeout=0)
    assert not limiter.take_all(charges, timeout=0)
    assert (left(limiter, "api"), left(limiter, "tokens")) == (2, 400)


def test_the_decorator_takes_a_permit_before_each_call(serve: ServerOf) -> None:
    limiter = tollway.Limiter(serve(POLICIES).url)

    @limiter.limited("tokens", cost=lambda text: {"tokens": len(text)}, timeout=0)
    def translate(text: str) -> str:
        return text.upper()

    @limiter.limited("tokens", cost=lambda text: {"tokens": len(text)}, timeout=0)
    async def translate_later(text: str) -> str:
        return text.upper()

    assert translate("a" * 300) == "A" * 300
    assert asyncio.run(translate_later("b" * 300)) == "B" * 300
    assert left(limiter, "tokens") == 400
    with pytest.raises(tollway.DeniedError):
        translate("c" * 500)


def test_asyncio_has_the_same_operations(serve: ServerOf) -> None:
    async def use(limiter: tollway.AsyncLimiter) -> None:
        async with await limiter.take("tokens", cost={"tokens": 400}) as permit:
            assert isinstance(permit, tollway.AsyncPermit)
            assert await permit.begin() and await permit.settle(tokens=100) == "whole"
        assert [limit.remaining for limit in await limiter.limits("tokens")] == [900]
        began = time.monotonic()
        assert all(await asyncio.gather(*(limiter.acquire("paced") for _ in range(5))))
        assert time.monotonic() - began >= 0.19
        denied = await limiter.try_take("tokens", cost={"tokens": 901})
        assert not denied
        with pytest.raises(tollway.DeniedError):
            async with denied:
                raise AssertionError("a denial has no block to run")
        await limiter.close()

    asyncio.run(use(tollway.AsyncLimiter(serve(POLICIES).url)))


def test_a_cancelled_take_gives_its_place_back(serve: ServerOf) -> None:
    server = serve('[policies.slow]\nlimits = ["1 / minute paced"]\nmax_wait = "1h"\n')

    async def use(limiter: tollway.AsyncLimiter) -> None:
        assert await limiter.try_take("slow")
        waiting = asyncio.create_task(limiter.take("slow"))
        # A booked place resets a minute after its time, which is as far as the figure goes.
        while server.usage("slow")["reset_ms"] < 60_000:
            await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert server.usage("slow")["reset_ms"] < 60_000

    asyncio.run(use(tollway.AsyncLimiter(server.url)))


def test_threads_share_a_limiter(serve: ServerOf) -> None:
    limiter = tollway.Limiter(serve('[policies.p]\nlimits = ["100 / hour"]').url)
    granted: list[bool] = []

    def work() -> None:
        granted.extend(limiter.acquire("p", blocking=False) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(granted), sum(granted)) == (160, 100)


def test_a_unix_socket_and_a_token(serve: ServerOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECISIONS", "a-token-of-the-test")
    config = POLICIES + '[server.tokens]\ndecisions = "env:DECISIONS"\n'
    server = serve(config, listen=f"unix:{tmp_path}/s.sock")
    assert tollway.Limiter(server.url, token="a-token-of-the-test").try_take("api")
    with pytest.raises(tollway.ServerProblem) as problem:
        tollway.Limiter(server.url).try_take("api")
    assert problem.value.status == 401


def test_the_next_server_is_asked_if_one_does_not_answer(serve: ServerOf) -> None:
    limiter = tollway.Limiter([f"http://127.0.0.1:{free_port()}", serve(POLICIES).url])
    permit = limiter.try_take("api")
    assert permit and not permit.degraded


def test_mistakes_say_what_to_do(serve: ServerOf) -> None:
    limiter = tollway.Limiter(serve(POLICIES).url)
    with pytest.raises(tollway.ServerProblem, match="404"):
        limiter.try_take("no-such-policy")
    with pytest.raises(tollway.ServerProblem, match="422"):
        limiter.try_take("tokens", cost={"tokens": 1_001})
    for url in ("127.0.0.1:8080", "ftp://host", "http://host/path", "unix:"):
        with pytest.raises(ValueError):
            tollway.Limiter(url)
