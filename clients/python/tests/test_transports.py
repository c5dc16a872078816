"""Calls of `requests`, `httpx` and `httpx2` through their transports, against simulated vendors."""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import tollway
from conftest import COMMAND, ServerOf, Vendor, VendorOf, free_port

CLIENTS = ["requests", "httpx", "httpx2"]


def api(base_url: str, keys: str = 'limits = []\nrate = "auto"') -> str:
    return f'[apis.vendor]\nprofile = "none"\nbase_url = "{base_url}"\n{keys}\n'


def client_of(library: str, limiter: tollway.Limiter, **options: Any) -> Any:
    """A client whose calls to every address wait for their permits."""
    module = pytest.importorskip(library)
    transports = importlib.import_module(f"tollway.{library}")
    if library == "requests":
        session = module.Session()
        session.mount("http://", transports.Adapter("vendor", limiter, **options))
        return session
    return module.Client(transport=transports.Transport("vendor", limiter, **options), timeout=30)


@pytest.mark.parametrize("library", CLIENTS)
def test_a_refused_call_is_sent_again_after_its_wait(serve: ServerOf, vendor_of: VendorOf, library: str) -> None:
    vendor = vendor_of("--limit", "3 / 2 seconds", "--dialect", "http")
    limiter = tollway.Limiter(serve(api(vendor.url, 'limits = ["1000 / second"]\nrate = "off"')).url)
    client = client_of(library, limiter)
    answers = [client.get(f"{vendor.url}/a") for _ in range(8)]
    assert [answer.status_code for answer in answers] == [200] * 8
    counts = vendor.counts()
    # Each refusal holds until the window ends.
    assert counts["accepted"] == 8 and 1 <= counts["refused"] <= 4, counts


@pytest.mark.parametrize("library", CLIENTS)
def test_the_budget_ends_and_the_refusal_is_returned(serve: ServerOf, vendor_of: VendorOf, library: str) -> None:
    vendor = vendor_of("--limit", "1 / day", "--dialect", "openai")
    limiter = tollway.Limiter(serve(api(vendor.url, 'limits = ["1000 / second"]\nrate = "off"')).url)
    client = client_of(library, limiter, budget=tollway.Budget(retries=2, max_time=5))
    assert client.get(f"{vendor.url}/a").status_code == 200
    refused = client.get(f"{vendor.url}/a")
    assert refused.status_code == 429 and "error" in refused.json()
    assert vendor.counts()["refused"] == 1, "the quota of a day is beyond the budget"
    with pytest.raises(tollway.DeniedError):
        client.get(f"{vendor.url}/a")


@pytest.mark.parametrize("library", CLIENTS)
def test_a_call_that_did_not_go_out_gives_its_permit_back(serve: ServerOf, library: str) -> None:
    away = f"http://127.0.0.1:{free_port()}"
    limiter = tollway.Limiter(serve(api(away, 'limits = ["5 / hour"]\nrate = "off"')).url)
    client = client_of(library, limiter)
    for _ in range(3):
        with pytest.raises(Exception, match="(?i)connect|refused"):
            client.get(f"{away}/a")
    assert limiter.limits("vendor")[0].remaining == 5


@pytest.mark.parametrize("library", CLIENTS)
def test_a_stream_comes_piece_by_piece(serve: ServerOf, vendor_of: VendorOf, library: str) -> None:
    vendor = vendor_of("--dialect", "openai")
    limiter = tollway.Limiter(serve(api(vendor.url)).url)
    client = client_of(library, limiter)
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello " * 50}]}
    url = f"{vendor.url}/v1/chat/completions"
    if library == "requests":
        with client.post(url, json=body, stream=True) as answer:
            lines = [line for line in answer.iter_lines() if line]
    else:
        with client.stream("POST", url, json=body) as answer:
            lines = [line.encode() for line in answer.iter_lines() if line]
    assert len(lines) > 2 and lines[-1] == b"data: [DONE]"


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_asyncio_clients_wait_too(serve: ServerOf, vendor_of: VendorOf, library: str) -> None:
    module = pytest.importorskip(library)
    transports = importlib.import_module(f"tollway.{library}")
    vendor = vendor_of("--limit", "5 / 2 seconds")
    server = serve(api(vendor.url, 'limits = ["1000 / second"]\nrate = "off"'))

    async def use() -> list[int]:
        transport = transports.AsyncTransport("vendor", tollway.AsyncLimiter(server.url))
        async with module.AsyncClient(transport=transport, timeout=30) as client:
            answers = await asyncio.gather(*(client.get(f"{vendor.url}/a") for _ in range(12)))
            return [answer.status_code for answer in answers]

    assert asyncio.run(use()) == [200] * 12


def test_the_transports_of_httpx_and_httpx2_differ_in_a_name() -> None:
    sources = Path(tollway.__file__ or "").parent
    assert (sources / "httpx.py").read_text().replace("httpx", "httpx2") == (sources / "httpx2.py").read_text()


# The vendors of the comparison, as bounded queues of calls with a dialect each.
VENDORS = [("openai", "10 / second bucket"), ("notion", "3 / second bucket"), ("bare", "8 / second bucket")]
SECONDS = float(os.environ.get("TOLLWAY_VENDOR_SECONDS", "10"))


def test_a_python_client_is_refused_as_often_as_the_rust_client(serve: ServerOf, vendor_of: VendorOf) -> None:
    """D1, D2: the client of document 002. The gateway is the Rust client; both call for as long, each its own vendor."""
    pytest.importorskip("requests")
    counted: dict[str, list[tuple[str, dict[str, int]]]] = {"python": [], "rust": []}
    threads = []
    for dialect, limit in VENDORS:
        for who in counted:
            vendor = vendor_of("--limit", limit, "--dialect", dialect, "--seed", "7")
            server = serve(api(vendor.url))
            if who == "python":
                session = client_of("requests", tollway.Limiter(server.url))
                url, get = vendor.url, session.get
            else:
                url, get = gateway_to(server.folder, serve), urllib_get
            counts = counted[who]
            threads.append(threading.Thread(target=calls_of, args=(get, f"{url}/a", vendor, counts, dialect)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = {who: dict(sorted(counts)) for who, counts in counted.items()}
    print(rows)
    refused = {who: sum(row["refused"] for row in counts.values()) for who, counts in rows.items()}
    accepted = {who: sum(row["accepted"] for row in counts.values()) for who, counts in rows.items()}
    # Refusals are few: besides 20 %, one for each vendor.
    assert abs(refused["python"] - refused["rust"]) <= len(VENDORS) + refused["rust"] // 5, rows
    assert accepted["python"] * 10 >= accepted["rust"] * 8, rows


def calls_of(get: Any, url: str, vendor: Vendor, counts: list[tuple[str, dict[str, int]]], dialect: str) -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        try:
            get(url)
        except urllib.error.HTTPError:
            # The gateway says that a call waits too long.
            time.sleep(0.2)
    counts.append((dialect, vendor.counts()))


def urllib_get(url: str) -> None:
    with urllib.request.urlopen(url, timeout=60) as answer:
        answer.read()


def gateway_to(folder: Path, serve: ServerOf) -> str:
    """A gateway with the same config. It ends with the server of the fixture."""
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [COMMAND, "gateway", "--listen", address], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    owner = serve('[policies.unused]\nlimits = ["1 / second"]\n')
    stop = owner.stop

    def stop_both() -> None:
        process.kill()
        process.wait()
        stop()

    owner.stop = stop_both  # type: ignore[method-assign]
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib_get(f"http://{address}/health")
        except urllib.error.HTTPError:
            pass
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
            continue
        return f"http://{address}/vendor"


def test_both_packages_have_the_same_transports() -> None:
    """Two modules, because their types are those of two packages; one is mended with the other."""
    texts = [
        (Path(tollway.__file__).parent / f"{package}.py").read_text().replace(package, "PACKAGE")
        for package in ("httpx", "httpx2")
    ]
    assert texts[0] == texts[1]
