#!/usr/bin/env python3
"""One acquire from Python: this package over HTTP beside four others, and who is exact over processes.

    cargo build --release -p tollway-cli
    python3.13 -m venv /tmp/bench && /tmp/bench/bin/pip install ./clients/python -r bench/python/requirements.txt
    /tmp/bench/bin/python bench/python/measure.py --tollway target/release/tollway

Each row is a process of its own. Times are of one acquire that is granted at once, in microseconds. `over processes`: eight
processes try 50 times each under a limit of 100 an hour, and this many are granted. What waits, settles and learns is of the
packages' documents; a test of each is beyond this page.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PROCESSES = 8
TRIES = 50
LIMIT = 100
MANY = 1_000_000_000
# Acquires before the measured ones.
WARM = 500


def percentiles(times: list[float]) -> dict[str, float]:
    times.sort()
    return {"p50": times[len(times) // 2] * 1e6, "p99": times[len(times) * 99 // 100] * 1e6}


def timed(acquire: Callable[[], object], count: int) -> dict[str, float]:
    times = []
    for _ in range(WARM):
        acquire()
    for _ in range(count):
        begin = time.perf_counter()
        acquire()
        times.append(time.perf_counter() - begin)
    return percentiles(times)


# Each maker gets the limit of an hour and a folder, and returns a function that says whether it was granted.
def tollway_http(limit: int, folder: str) -> Callable[[], bool]:
    import tollway

    limiter = tollway.Limiter(os.environ["TOLLWAY_URL"])
    policy = "many" if limit == MANY else "few"
    return lambda: bool(limiter.try_take(policy))


def pyrate_memory(limit: int, folder: str) -> Callable[[], bool]:
    from pyrate_limiter import Duration, Limiter, Rate

    limiter = Limiter(Rate(limit, Duration.HOUR))
    return lambda: bool(limiter.try_acquire("x", blocking=False))


def pyrate_sqlite(limit: int, folder: str) -> Callable[[], bool]:
    from pyrate_limiter import Duration, Limiter, Rate, SQLiteBucket

    path = os.path.join(folder, "pyrate.sqlite")
    bucket = SQLiteBucket.init_from_file([Rate(limit, Duration.HOUR)], db_path=path, use_file_lock=True)
    limiter = Limiter(bucket)
    # Without a wait it denies while another process has the file.
    return lambda: bool(limiter.try_acquire("x", timeout=0.1))


def limits_memory(limit: int, folder: str) -> Callable[[], bool]:
    from limits import parse
    from limits.storage import MemoryStorage
    from limits.strategies import FixedWindowRateLimiter

    limiter, item = FixedWindowRateLimiter(MemoryStorage()), parse(f"{limit}/hour")
    return lambda: limiter.hit(item, "x")


def token_throttle_memory(limit: int, folder: str) -> Callable[[], bool]:
    from token_throttle import SyncMemoryBackendBuilder

    return token_throttle_of(limit, SyncMemoryBackendBuilder())


def token_throttle_sqlite(limit: int, folder: str) -> Callable[[], bool]:
    from token_throttle import SyncSqliteBackendBuilder

    return token_throttle_of(limit, SyncSqliteBackendBuilder(os.path.join(folder, "tt.sqlite"), key_prefix="b"))


def token_throttle_of(limit: int, backend: object) -> Callable[[], bool]:
    from token_throttle import PerModelConfig, Quota, SyncRateLimiter, UsageQuotas

    quotas = UsageQuotas([Quota(metric="requests", limit=limit, per_seconds=3600)])
    limiter = SyncRateLimiter(PerModelConfig(model_family="x", quotas=quotas), backend=backend)

    def acquire() -> bool:
        try:
            reservation = limiter.acquire_capacity({"requests": 1}, "x", timeout=0.001)
        except TimeoutError:
            return False
        limiter.refund_capacity({"requests": 1}, reservation)
        return True

    return acquire


ROWS = {
    "tollway, over HTTP": (tollway_http, "yes, a place in the queue", "yes", "yes"),
    "pyrate-limiter, memory": (pyrate_memory, "polls", "no", "no"),
    "pyrate-limiter, SQLite and file lock": (pyrate_sqlite, "polls", "no", "no"),
    "limits, memory": (limits_memory, "no", "no", "no"),
    "token-throttle, memory": (token_throttle_memory, "yes", "yes", "no"),
    "token-throttle, SQLite": (token_throttle_sqlite, "polls", "yes", "no"),
}


async def aiolimiter_times(count: int) -> dict[str, float]:
    from aiolimiter import AsyncLimiter

    limiter = AsyncLimiter(MANY, 3600)
    times = []
    for _ in range(WARM + count):
        begin = time.perf_counter()
        await limiter.acquire()
        times.append(time.perf_counter() - begin)
    return percentiles(times[WARM:])


async def tollway_async_times(count: int) -> dict[str, float]:
    import tollway

    limiter = tollway.AsyncLimiter(os.environ["TOLLWAY_URL"])
    times = []
    for _ in range(WARM + count):
        begin = time.perf_counter()
        await limiter.try_take("many")
        times.append(time.perf_counter() - begin)
    return percentiles(times[WARM:])


def aiolimiter_granted() -> int:
    from aiolimiter import AsyncLimiter

    async def tries() -> int:
        limiter, granted = AsyncLimiter(LIMIT, 3600), 0
        for _ in range(TRIES):
            if limiter.has_capacity():
                await limiter.acquire()
                granted += 1
        return granted

    return asyncio.run(tries())


def child(what: str, name: str, folder: str, count: int) -> None:
    """One row, in a process of its own; prints JSON."""
    if name == "aiolimiter":
        said = asyncio.run(aiolimiter_times(count)) if what == "time" else aiolimiter_granted()
    elif name == "tollway, asyncio":
        said = asyncio.run(tollway_async_times(count))
    elif what == "time":
        said = timed(ROWS[name][0](MANY, folder), count)
    else:
        acquire = ROWS[name][0](LIMIT, folder)
        said = sum(acquire() for _ in range(TRIES))
    print(json.dumps(said))


def run(what: str, name: str, folder: str, count: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, __file__, "--child", what, name, folder, "--count", str(count)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def result(process: subprocess.Popen[str]) -> object:
    out, _ = process.communicate()
    if process.returncode != 0:
        sys.exit(f"a row failed: {process.args}")
    return json.loads(out.splitlines()[-1])


def row(name: str, count: int, words: tuple[str, str, str], several: bool = True) -> None:
    waits, settles, learns = words
    with tempfile.TemporaryDirectory() as folder:
        times = result(run("time", name, folder, count))
    granted = "as above"
    # A database of its own: the other one is full.
    with tempfile.TemporaryDirectory() as folder:
        if several:
            sums = [result(process) for process in [run("granted", name, folder, 0) for _ in range(PROCESSES)]]
            granted = f"{sum(sums)} of {LIMIT}"
    print(f"| {name} | {times['p50']:.1f} | {times['p99']:.0f} | {granted} | {waits} | {settles} | {learns} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tollway", default="target/release/tollway", help="the command, optimised")
    parser.add_argument("--count", type=int, default=10_000, help="acquires of each row")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        return child(*arguments.child, arguments.count)
    with tempfile.TemporaryDirectory() as folder:
        config = f'[policies.many]\nlimits = ["{MANY} / hour"]\n[policies.few]\nlimits = ["{LIMIT} / hour"]\n'
        (Path(folder) / "tollway.toml").write_text(config)
        command = str(Path(arguments.tollway).resolve())
        server = subprocess.Popen(
            [command, "serve", "--listen", "127.0.0.1:0"], cwd=folder, stdout=subprocess.PIPE, text=True
        )
        try:
            assert server.stdout is not None
            os.environ["TOLLWAY_URL"] = server.stdout.readline().split()[1]
            print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {arguments.count} acquires a row\n")
            print("| | p50, us | p99, us | over 8 processes | waits | settles | learns |")
            print("|---|---|---|---|---|---|---|")
            for name, (_, *words) in ROWS.items():
                row(name, arguments.count, tuple(words))
                if name.startswith("tollway"):
                    row("tollway, asyncio", arguments.count, tuple(words), several=False)
            row("aiolimiter", arguments.count, ("yes, in order", "no", "no"))
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
