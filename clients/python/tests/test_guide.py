"""The programs of docs/guide/python.md and docs/guide/node.md, as they stand there, but for addresses and the length of a minute."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import COMMAND, LONG, ROOT, ServerOf, VendorOf

PAGE = (ROOT / "docs" / "guide" / "python.md").read_text()
NODE = (ROOT / "docs" / "guide" / "node.md").read_text()


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def program(containing: str) -> str:
    (found,) = [block for block in blocks(PAGE, "python") if containing in block]
    return found


def init_vendor(folder: Path) -> str:
    """What `tollway init vendor` writes."""
    ran = subprocess.run([COMMAND, "init", "vendor", "-o", "-"], cwd=folder, capture_output=True, text=True, check=True)
    return ran.stdout


def run(folder: Path, text: str, **addresses: str) -> str:
    for place, address in (("127.0.0.1:8080", addresses["server"]), ("127.0.0.1:9000", addresses.get("vendor", ""))):
        text = text.replace(f"http://{place}", address)
    (folder / "program.py").write_text(text)
    ran = subprocess.run(
        [sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, timeout=2 * LONG, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_fifty_processes_of_the_page(serve: ServerOf, vendor_of: VendorOf, tmp_path: Path) -> None:
    vendor = vendor_of("--limit", "200 / 5 seconds")
    config = init_vendor(tmp_path).replace("200 requests / minute", "200 requests / 5 seconds")
    server = serve(config)
    text = program("multiprocessing")
    assert run(tmp_path, text, server=server.url, vendor=vendor.url) == "250 calls\n"
    counts = vendor.counts()
    assert (counts["accepted"], counts["refused"]) == (250, 0)


def test_programs_of_the_page(serve: ServerOf, tmp_path: Path) -> None:
    server = serve(init_vendor(tmp_path))
    assert run(tmp_path, program("permit.settle"), server=server.url) == "go\n"
    assert "call the vendor <AsyncPermit of vendor>" in run(tmp_path, program("asyncio"), server=server.url)


def test_the_page_finds_a_limit(serve: ServerOf, vendor_of: VendorOf, tmp_path: Path) -> None:
    """D1: a Python program that reports answers finds a limit of 20 a second; one that does not stays at 3."""
    pytest.importorskip("requests")
    vendor = vendor_of("--limit", "20 / second bucket")
    (config,) = [block for block in blocks(PAGE, "toml") if "auto" in block]
    server = serve(config.replace("http://127.0.0.1:9000", vendor.url))
    began = time.monotonic()
    said = run(tmp_path, program("Adapter"), server=server.url, vendor=vendor.url)
    took = time.monotonic() - began
    assert said.split() == [word for page in range(40) for word in (str(page), "200")]
    counts = vendor.counts()
    assert counts["accepted"] == 40 and counts["refused"] <= 8, counts
    assert took < 40 / 3, "faster than the rate of the start"


def test_the_handler_of_the_page(tmp_path: Path) -> None:
    job = {"id": 1, "key": "a", "stage": "autotag", "try": 1, "deadline": 0, "data": {"chunk_key": "a.pdf"}}
    ran = subprocess.run(
        [sys.executable, "-c", program("@tollway.handler")],
        input="".join(
            json.dumps({"job": {**job, "id": n, "data": {"chunk_key": key}}}) + "\n"
            for n, key in ((1, "a.pdf"), (2, "b.txt"))
        ),
        capture_output=True,
        text=True,
        timeout=LONG,
        check=True,
    )
    said = sorted(map(json.loads, ran.stdout.splitlines()), key=str)
    assert {"dead": 2, "error": "not a PDF"} in said
    assert {"done": 1, "outputs": [{"data": {"chunk_key": "a.pdf", "tagged": True}}]} in said


def test_the_handler_of_the_page_on_pipelines() -> None:
    (text,) = blocks((ROOT / "docs" / "guide" / "pipeline.md").read_text(), "python")
    job = {"job": {"id": 1, "key": "a", "stage": "autotag", "try": 1, "deadline": 0, "data": {"page": 1}}}
    ran = subprocess.run(
        [sys.executable, "-c", text],
        input=json.dumps(job) + "\n",
        capture_output=True,
        text=True,
        timeout=LONG,
        check=True,
    )
    assert json.loads(ran.stdout) == {"done": 1, "outputs": [{"data": {"page": 1, "tagged": True}}]}


def test_the_import_lines_of_the_page() -> None:
    lines = [line[1:] for block in blocks(PAGE, "diff") for line in block.splitlines() if line.startswith("+")]
    assert len(lines) == 3
    for line in lines:
        exec(line, {})


def test_the_program_for_node(serve: ServerOf, vendor_of: VendorOf, tmp_path: Path) -> None:
    node = shutil.which("node")
    assert node, "Node 18 or later is needed"
    client, uses = blocks(NODE, "js")
    (expected,) = blocks(NODE, "text")
    vendor = vendor_of("--limit", "20 / second bucket")
    api = f'\n[apis.v]\nprofile = "none"\nbase_url = "{vendor.url}"\nlimits = []\nrate = "auto"\n'
    server = serve(init_vendor(tmp_path) + api)
    finds = f"""
import {{ call }} from "./tollway.mjs";
for (let page = 0; page < 20; page += 1) {{
  const answer = await call("v", () => fetch("{vendor.url}/" + page));
  if (answer.status !== 200) throw new Error(String(answer.status));
}}
"""
    (tmp_path / "tollway.mjs").write_text(client)
    environment = {**os.environ, "TOLLWAY_URL": server.url}
    for name, text, said in (("uses.mjs", uses, expected), ("finds.mjs", finds, "")):
        (tmp_path / name).write_text(text)
        ran = subprocess.run(
            [node, name], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=LONG, check=False
        )
        assert (ran.returncode, ran.stdout) == (0, said), ran
    assert vendor.counts()["accepted"] == 20
