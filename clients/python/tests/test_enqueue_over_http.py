"""`tollway.enqueue` against a real `tollway pipeline run`: `POST /v1/pipelines/NAME/jobs`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tollway
from conftest import COMMAND, LONG, free_port

CONFIG = """
[policies.adobe]
limits = ["1000 requests / minute"]
[server.tokens]
read = "env:READ_TOKEN"
write = "env:WRITE_TOKEN"
[pipelines.pdf]
engine = "sqlite:pdf.db"
[[pipelines.pdf.stages]]
name = "autotag"
take = { adobe = { requests = 1 } }
handler = { command = ["PYTHON", "handler.py"] }
"""
HANDLER = """
import tollway

@tollway.handler
def handler(job):
    return tollway.Done(result=job.data)

handler.run()
"""
WRITE, READ = "a-token-that-may-write", "a-token-that-may-read"


def test_jobs_reach_a_running_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WRITE_TOKEN", WRITE)
    monkeypatch.setenv("READ_TOKEN", READ)
    admin = f"127.0.0.1:{free_port()}"
    (tmp_path / "tollway.toml").write_text(CONFIG.replace("PYTHON", sys.executable))
    (tmp_path / "handler.py").write_text(HANDLER)
    log = (tmp_path / "log").open("wb")
    running = subprocess.Popen([COMMAND, "pipeline", "run", "--stay", "--metrics", admin], cwd=tmp_path, stdout=log, stderr=log)
    url = f"http://{admin}"
    try:
        jobs = [{"key": f"page-{page}", "page": page, "text": "x" * 1000} for page in range(3_000)]
        deadline = time.monotonic() + LONG
        while True:
            try:
                counted = tollway.enqueue(jobs, "pdf", url=url, token=WRITE)
                break
            except tollway.Unreachable:
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()
                time.sleep(0.1)
        assert counted == tollway.Enqueued(3_000, 0, 0, 0, ())
        assert tollway.enqueue(jobs[:10], "pdf", url=url, token=WRITE).known == 10
        for pipeline, token, status in (("pdf", READ, 403), ("pdf", None, 401), ("none", WRITE, 404)):
            with pytest.raises(tollway.ServerProblem) as problem:
                tollway.enqueue(jobs[:1], pipeline, url=url, token=token)
            assert problem.value.status == status
        done = subprocess.run(
            [COMMAND, "pipeline", "status", "--json"], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert json.loads(done.stdout)
    finally:
        running.terminate()
        running.wait(LONG)
