"""Many processes within one limit, counted at the vendor: fifty at once, a server that is killed, gunicorn, `fork`.

`$TOLLWAY_WINDOWS` is how many of the vendor's windows are filled: by default 2, in `./test --full` 12.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import tollway
from conftest import LONG, ServerOf, VendorOf, free_port

WINDOWS = int(os.environ.get("TOLLWAY_WINDOWS", "2"))
# 200 a minute, twelve times as fast.
WINDOW = 5
LIMIT = 200
PROCESSES = 50
# Of what the limit allows, the processes get at least this, in percent.
SHARE = 97

CALLER = """
import http.client, json, sys, time
from tollway.compat.rate_limiter import acquire_token
from tollway import DeniedError
vendor, until = sys.argv[1].removeprefix("http://"), float(sys.argv[2])
connection = http.client.HTTPConnection(vendor, timeout=60)
connection.connect()
while True:
    try:
        acquire_token("autotag", timeout=max(0, until - time.time()))
    except DeniedError:
        break
    connection.request("GET", "/autotag")
    connection.getresponse().read()
"""


def next_window(seconds: float, after: float = 0.0) -> float:
    """When the first window begins that is at least so far away."""
    return ((time.time() + after) // seconds + 1) * seconds


def sleep_until(when: float) -> None:
    time.sleep(max(0.0, when - time.time()))


def test_fifty_processes_fill_a_vendors_windows(serve: ServerOf, vendor_of: VendorOf) -> None:
    """A1, A2: no call above 200 in a window, and nearly all of them."""
    vendor = vendor_of("--limit", f"{LIMIT} / {WINDOW} seconds", "--latency", "20ms")
    server = serve(f'[policies.adobe]\nlimits = ["{LIMIT} requests / {WINDOW} seconds"]\nedge = "250ms"\n')
    environment = {**os.environ, "TOLLWAY_URL": server.url}
    # Processes start in the first windows.
    begin = next_window(WINDOW, after=2.5 * WINDOW)
    end = begin + WINDOWS * WINDOW
    arguments = [sys.executable, "-c", CALLER, vendor.url, str(end - 0.2)]
    callers = [subprocess.Popen(arguments, env=environment) for _ in range(PROCESSES)]
    # In the edges nothing is granted, so the counts are those of whole windows.
    sleep_until(begin)
    before = vendor.counts()["accepted"]
    sleep_until(end)
    accepted = vendor.counts()["accepted"] - before
    assert [caller.wait(LONG) for caller in callers] == [0] * PROCESSES
    refused = vendor.counts()["refused"]
    print(f"{accepted} of {WINDOWS * LIMIT} accepted, {refused} refused")
    assert refused == 0
    assert accepted * 100 >= WINDOWS * LIMIT * SHARE, accepted


# A call each 30 ms, while there are permits.
WORKER = """
import http.client, json, sys, time
import tollway
limiter = tollway.Limiter(sys.argv[1], server_timeout=2)
vendor, begin, until = sys.argv[2].removeprefix("http://"), float(sys.argv[3]), float(sys.argv[4])
connection = http.client.HTTPConnection(vendor, timeout=60)
connection.connect()
limiter.limits("vendor")
time.sleep(max(0, begin - time.time()))
said = []
while time.time() < until:
    permit = limiter.take("vendor", timeout=max(0, until - time.time()))
    if permit:
        connection.request("GET", "/")
        answer = connection.getresponse()
        answer.read()
        said.append([time.time(), permit.degraded, answer.status])
    time.sleep(0.03)
print(json.dumps(said))
"""
OUTAGE_PROCESSES = 8
# The server is killed for 10 s in ./test --full.
OUTAGE = 10.0 if WINDOWS >= 10 else 3.0


def test_a_killed_server_is_never_over_and_back(serve: ServerOf, vendor_of: VendorOf) -> None:
    """G7: processes keep to their share alone, say so, and go on with the server when it is back."""
    window, limit = (20, 1200) if OUTAGE > 5 else (12, 700)
    vendor = vendor_of("--limit", f"{limit} / {window} seconds")
    server = serve(
        f'[store]\nurl = "file:state"\n[policies.vendor]\nlimits = ["{limit} requests / {window} seconds"]\n'
        'edge = "250ms"\n'
    )
    begin = next_window(window, after=3)
    end = begin + window
    arguments = [sys.executable, "-c", WORKER, server.url, vendor.url, str(begin), str(end - 0.1)]
    workers = [
        subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(OUTAGE_PROCESSES)
    ]
    sleep_until(begin + 1.5)
    killed = time.time()
    server.kill()
    sleep_until(killed + OUTAGE)
    server.start()
    back = time.time()
    said = [worker.communicate(timeout=LONG) for worker in workers]
    calls = [call for out, _ in said for call in json.loads(out)]
    counts = vendor.counts()
    degraded = [at for at, is_degraded, _ in calls if is_degraded]
    after = [at for at, is_degraded, _ in calls if at > back and not is_degraded]
    print(f"{len(calls)} calls, {len(degraded)} of them degraded, {len(after)} after the outage; {counts}")
    assert counts["refused"] == 0 and {status for _, _, status in calls} == {200}
    assert degraded and min(degraded) > killed, "all shares together: a tenth of what was left"
    assert len(degraded) <= limit // 10
    assert after, "it goes on with the server"
    assert all("keeps to its share alone" in errors for _, errors in said), said
    assert counts["accepted"] * 100 >= limit * SHARE, counts


def test_what_was_spent_alone_is_sent_when_the_server_is_back(serve: ServerOf) -> None:
    server = serve(
        '[store]\nurl = "file:state"\n[policies.p]\nlimits = ["100 requests / hour", "9000 tokens / hour"]\n'
    )
    limiter = tollway.Limiter(server.url)
    assert limiter.try_take("p", cost={"tokens": 100})
    server.kill()
    granted = [limiter.try_take("p", cost={"tokens": 10}) for _ in range(12)]
    permits = [permit for permit in granted if permit]
    assert len(permits) == 9, "a tenth of 99"
    assert all(permit.degraded for permit in granted)
    assert isinstance(permits[0], tollway.Permit) and permits[0].settle(tokens=510) == "whole"
    assert isinstance(permits[1], tollway.Permit) and permits[1].give_back() == "whole"
    server.start()
    deadline = time.monotonic() + LONG
    while limiter.try_take("p", cost={"requests": 0}).degraded:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    left = {limit.unit: limit.remaining for limit in limiter.limits("p")}
    assert left == {"requests": 100 - 1 - 8, "tokens": 9000 - 100 - 8 * 10 - 500}


def test_corrections_that_no_server_took_are_sent_later(serve: ServerOf) -> None:
    server = serve('[store]\nurl = "file:state"\n[policies.p]\nlimits = ["9000 tokens / hour"]\n')
    limiter = tollway.Limiter(server.url)
    permit = limiter.try_take("p", cost={"tokens": 1000})
    assert isinstance(permit, tollway.Permit)
    server.kill()
    assert permit.settle(tokens=400) == "later"
    server.start()
    deadline = time.monotonic() + LONG
    while not (limits := limiter.limits("p")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert limits[0].remaining == 8600


def test_a_child_after_fork_has_connections_of_its_own(serve: ServerOf) -> None:
    """Parent and children use one limiter, whose sockets were open before the fork, at the same time."""
    server = serve('[policies.p]\nlimits = ["1000 requests / hour"]\n')
    limiter = tollway.Limiter(server.url)
    assert limiter.try_take("p", subject="before")
    reader, writer = os.pipe()
    children = []
    for child in range(4):
        pid = os.fork()
        if pid == 0:
            wrong = 1
            try:
                seen = [limiter.try_take("p", subject=f"child-{child}").limits[0].remaining for _ in range(200)]
                os.write(writer, b"y" if seen == list(range(999, 799, -1)) else b"n")
                wrong = 0
            finally:
                os._exit(wrong)
        children.append(pid)
    seen = [limiter.try_take("p", subject="parent").limits[0].remaining for _ in range(200)]
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 4
    assert os.read(reader, 10) == b"yyyy"
    assert seen == list(range(999, 799, -1))
    os.close(reader)
    os.close(writer)


def test_a_child_does_not_spend_its_parents_share(serve: ServerOf) -> None:
    server = serve('[policies.p]\nlimits = ["100 requests / hour"]\n')
    limiter = tollway.Limiter(server.url)
    assert limiter.try_take("p")
    server.kill()
    pid = os.fork()
    if pid == 0:
        os._exit(1 if limiter.try_take("p") else 0)
    assert os.waitpid(pid, 0)[1] == 0
    assert sum(bool(limiter.try_take("p")) for _ in range(20)) == 9


APP = """
import os, threading
import tollway
limiter = tollway.Limiter(os.environ["TOLLWAY_URL"])
# A socket is open before the workers are forked.
limiter.try_take("web", subject="startup")
# asyncio too: its machinery is imported before the fork.
limiter.asynchronous()

def app(environ, start_response):
    taken = limiter.try_take("web", subject="all")
    start_response("200 OK" if taken else "429 Too Many Requests", [("Content-Type", "text/plain")])
    return [f"{os.getpid()} {taken.limits[0].remaining}".encode()]
"""


def test_gunicorn_with_preload_and_four_workers(serve: ServerOf, tmp_path: Path) -> None:
    pytest.importorskip("gunicorn")
    server = serve('[policies.web]\nlimits = ["100 requests / hour"]\n')
    (tmp_path / "app.py").write_text(APP)
    port = free_port()
    arguments = ["-m", "gunicorn", "--preload", "--workers=4", "--threads=4", f"--bind=127.0.0.1:{port}", "app:app"]
    environment = {**os.environ, "TOLLWAY_URL": server.url}
    log = (tmp_path / "gunicorn.log").open("wb")
    running = subprocess.Popen([sys.executable, *arguments], cwd=tmp_path, env=environment, stderr=log, stdout=log)
    try:
        answers: list[tuple[int, str]] = []
        deadline = time.monotonic() + LONG
        while len(answers) < 160:
            assert time.monotonic() < deadline, (tmp_path / "gunicorn.log").read_text()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=LONG) as answer:
                    answers.append((answer.status, answer.read().decode()))
            except urllib.error.HTTPError as refused:
                answers.append((refused.code, refused.read().decode()))
            except OSError:
                time.sleep(0.05)
    finally:
        running.terminate()
        running.wait(LONG)
    granted = [text.split() for status, text in answers if status == 200]
    assert sorted(int(left) for _, left in granted) == list(range(100))
    assert {status for status, _ in answers} == {200, 429}
    assert len({pid for pid, _ in granted}) >= 2


def test_two_servers_on_one_store_count_together_and_one_goes_on(serve: ServerOf, tmp_path: Path) -> None:
    config = f'[store]\nurl = "file:{tmp_path}/state"\n[policies.p]\nlimits = ["4 requests / day"]\n'
    first, second = serve(config), serve(config)
    limiter = tollway.Limiter([first.url, second.url])
    assert all(limiter.try_take("p") for _ in range(3))
    first.kill()
    permit = limiter.try_take("p")
    assert permit and not permit.degraded
    assert not limiter.try_take("p")
