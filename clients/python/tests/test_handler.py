"""`@tollway.handler` as the command of a real pipeline, and its lines."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tollway
from conftest import COMMAND, LONG

AUTOTAG = """
import tollway

@tollway.handler
def autotag(job):
    print("what a handler prints is no answer")
    if job.data["page"] == 3 and job.attempt == 1:
        raise ValueError("a first try")
    if job.data["page"] == 5:
        raise tollway.Dead("page 5 is no PDF")
    return {**job.data, "tagged": True}

autotag.run()
"""
EXTRACT = """
import tollway

@tollway.handler
def extract(job):
    job.begin()
    return tollway.Done(result=job.data)

extract.run()
"""
CONFIG = """
[policies.adobe]
limits = ["1000 requests / minute"]
[pipelines.pdf]
engine = "sqlite:pdf.db"
[[pipelines.pdf.stages]]
name = "autotag"
take = { adobe = { requests = 1 } }
handler = { command = ["PYTHON", "autotag.py"], slots = 4 }
backoff = "50ms"
concurrency = 4
[[pipelines.pdf.stages]]
name = "extract"
take = { adobe = { requests = 1 } }
handler = { command = ["PYTHON", "extract.py"], begin = true }
concurrency = 2
"""


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *arguments], cwd=folder, capture_output=True, text=True, timeout=2 * LONG, check=False
    )


def test_handlers_of_a_pipeline(tmp_path: Path) -> None:
    (tmp_path / "tollway.toml").write_text(CONFIG.replace("PYTHON", sys.executable))
    (tmp_path / "autotag.py").write_text(AUTOTAG)
    (tmp_path / "extract.py").write_text(EXTRACT)
    jobs = "".join(json.dumps({"key": f"page-{page}", "page": page}) + "\n" for page in range(8))
    (tmp_path / "jobs.jsonl").write_text(jobs)
    assert command(tmp_path, "pipeline", "enqueue", "jobs.jsonl").returncode == 0
    ran = command(tmp_path, "pipeline", "run")
    assert ran.returncode == 65, ran
    results = command(tmp_path, "pipeline", "results", "--stage", "extract")
    pages = sorted(line["result"]["page"] for line in map(json.loads, results.stdout.splitlines()))
    assert pages == [0, 1, 2, 3, 4, 6, 7], results
    dead = command(tmp_path, "pipeline", "dead", "list")
    assert "page 5 is no PDF" in dead.stdout, dead


def answers_of(function: Any, **fields: Any) -> list[dict[str, Any]]:
    job = {"id": 7, "key": "k", "stage": "s", "try": 1, "deadline": 1.5, "data": {"page": 1}, **fields}
    output = io.StringIO()
    tollway.handler(function).run(io.BytesIO(json.dumps({"job": job}).encode() + b"\n"), output)
    return [json.loads(line) for line in output.getvalue().splitlines()]


def test_what_a_function_returns_is_an_answer() -> None:
    assert answers_of(lambda job: None) == [{"done": 7}]
    assert answers_of(lambda job: job.data) == [{"done": 7, "outputs": [{"data": {"page": 1}}]}]
    assert answers_of(lambda job: [1, 2]) == [{"done": 7, "outputs": [{"data": 1}, {"data": 2}]}]
    output = tollway.Output(1, stage="last", join="all")
    done = tollway.Done([output], result="r", cost={"tokens": 5})
    assert answers_of(lambda job: done) == [
        {"done": 7, "outputs": [{"data": 1, "stage": "last", "join": "all"}], "result": "r", "cost": {"tokens": 5}}
    ]


def test_what_a_function_raises_is_an_answer() -> None:
    def raising(error: Exception) -> Any:
        def function(job: tollway.Job) -> None:
            raise error

        return function

    assert answers_of(raising(tollway.Retry("busy", after=3))) == [{"retry": 7, "error": "busy", "after": 3}]
    assert answers_of(raising(tollway.RateLimited("429"))) == [{"rate_limited": 7, "error": "429"}]
    assert answers_of(raising(tollway.Dead("no PDF"))) == [{"dead": 7, "error": "no PDF"}]
    (answer,) = answers_of(raising(KeyError("x")))
    assert answer["retry"] == 7 and answer["error"] == "KeyError: 'x'" and "Traceback" in answer["detail"]


def test_many_outputs_come_in_parts() -> None:
    def chunks(job: tollway.Job) -> Iterator[dict[str, Any]]:
        for number in range(30):
            yield {"number": number, "text": "x" * 100_000}

    *parts, last = answers_of(chunks)
    assert len(parts) >= 5 and all(part["part"] == 7 for part in parts)
    assert all(len(json.dumps(part)) < 1024 * 1024 for part in [*parts, last])
    numbers = [output["data"]["number"] for answer in [*parts, last] for output in answer["outputs"]]
    assert numbers == list(range(30)) and last["done"] == 7


def test_a_handler_is_still_a_function() -> None:
    @tollway.handler
    def autotag(job: tollway.Job) -> None:
        """Tags a PDF."""

    assert (autotag.__name__, autotag.__doc__) == ("autotag", "Tags a PDF.")  # type: ignore[attr-defined]
