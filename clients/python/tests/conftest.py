"""Real servers and vendors for the tests: the built command, on free ports.

`$TOLLWAY` is the command; by default the debug build of this repository.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
COMMAND = os.environ.get("TOLLWAY") or str(
    Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "tollway"
)
# Long enough for anything that should happen at all.
LONG = 60.0


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class Server:
    """`tollway serve` with this config. It keeps its address when it is started again."""

    def __init__(self, folder: Path, config: str, *, listen: str | None = None) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        (folder / "tollway.toml").write_text(config)
        self.listen = listen or f"127.0.0.1:{free_port()}"
        self.admin = f"127.0.0.1:{free_port()}"
        self.url = self.listen if self.listen.startswith("unix:") else f"http://{self.listen}"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        arguments = [COMMAND, "serve", "--listen", self.listen, "--admin", self.admin]
        log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen(arguments, cwd=self.folder, stdout=log, stderr=log)
        deadline = time.monotonic() + LONG
        while time.monotonic() < deadline:
            assert self.process.poll() is None, (self.folder / "log").read_text()
            try:
                urllib.request.urlopen(f"http://{self.admin}/ready", timeout=5).close()
                return
            except OSError:
                time.sleep(0.02)
        raise AssertionError((self.folder / "log").read_text())

    def usage(self, policy: str) -> dict[str, int]:
        """The first limit of a policy, by the administration."""
        url = f"http://{self.admin}/v1/usage?policy={policy}"
        with urllib.request.urlopen(url, timeout=LONG) as answer:
            usage: dict[str, int] = json.load(answer)["limits"][0]
            return usage

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()


class Vendor:
    """`tollway vendor`, which counts for itself."""

    def __init__(self, *options: str) -> None:
        arguments = [COMMAND, "vendor", "--json", *options]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        self.url: str = json.loads(self.process.stdout.readline())["url"]

    def counts(self) -> dict[str, int]:
        with urllib.request.urlopen(f"{self.url}/_vendor/counts", timeout=LONG) as answer:
            counts: dict[str, int] = json.load(answer)
            return counts

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


ServerOf = Callable[..., Server]
VendorOf = Callable[..., Vendor]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[ServerOf]:
    started: list[Server] = []

    def start(config: str, *, listen: str | None = None) -> Server:
        server = Server(tmp_path / f"server-{len(started)}", config, listen=listen)
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def vendor_of() -> Iterator[VendorOf]:
    started: list[Vendor] = []

    def start(*options: str) -> Vendor:
        started.append(Vendor(*options))
        return started[-1]

    yield start
    for vendor in started:
        vendor.stop()


def run_python(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=2 * LONG,
        check=False,
    )
