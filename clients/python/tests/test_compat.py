"""The documents' own snippets, with one import line changed, against real servers and vendors."""

from __future__ import annotations

import json
import time

import pytest
from conftest import ServerOf, VendorOf, run_python

ADOBE = '[policies.adobe]\nlimits = ["200 requests / minute"]\n'


# Document 000: `from rate_limiter import acquire_token, ...`.
ACQUIRE = """
import logging, sys
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
from tollway.compat.rate_limiter import acquire_token, get_current_usage, get_rpm_limit

def process_chunk(chunk):
    acquire_token("autotag")
    acquire_token("extract")

process_chunk("chunk_001.pdf")
print(get_rpm_limit(), get_current_usage()["request_count"])
"""


def test_acquire_token_logs_what_the_document_says(serve: ServerOf) -> None:
    server = serve(ADOBE)
    ran = run_python(ACQUIRE, TOLLWAY_URL=server.url)
    minute = time.strftime("%Y-%m-%d-%H-%M", time.gmtime())
    first, second, last = ran.stdout.splitlines()
    assert first.startswith("Rate limit token acquired for autotag: 1/200 in minute "), ran
    assert second.startswith("Rate limit token acquired for extract: 2/200 in minute "), ran
    assert first[-len(minute) :][:13] == minute[:13]
    assert last == "200 2"


def test_acquire_token_waits_for_the_next_window(serve: ServerOf) -> None:
    server = serve('[policies.adobe]\nlimits = ["2 requests / 2 seconds"]\n')
    ran = run_python(ACQUIRE + 'process_chunk("chunk_002.pdf")\n' * 2, TOLLWAY_URL=server.url)
    said = ran.stdout.splitlines()
    assert sum(line.startswith("Rate limit token acquired for ") for line in said) == 6, ran
    assert "Rate limit reached (2/min), waiting for next minute window..." in said
    waits = [line.split() for line in said if line.startswith("Waiting ")]
    assert waits and all(
        words[2:] == "seconds for next minute window...".split() and 0 < float(words[1]) <= 2 for words in waits
    )


def test_a_changed_limit_is_in_force_without_a_deployment(serve: ServerOf) -> None:
    server = serve(ADOBE)
    program = """
import time
from tollway.compat.rate_limiter import get_rpm_limit
print(get_rpm_limit())
config = open(CONFIG).read()
open(CONFIG, "w").write(config.replace("200", "250"))
while get_rpm_limit() != 250:
    time.sleep(0.05)
print(get_rpm_limit())
""".replace("CONFIG", repr(str(server.folder / "tollway.toml")))
    assert run_python(program, TOLLWAY_URL=server.url).stdout == "200\n250\n"


# Document 003, option B: its function is imported, `wait_for_token` and the worker are as they stand there.
WORKER = """
import json, sys, time
from tollway.compat.token_bucket import acquire_token

def wait_for_token(api_type: str, max_per_minute: int = 200):
    \"\"\"Block until a token is available.\"\"\"
    while not acquire_token(api_type, max_per_minute):
        time.sleep(1)

def handler(event, context):
    for record in event['Records']:
        message = json.loads(record['body'])
        wait_for_token('autotag', 3)
        print(message['chunk_key'], flush=True)

records = [{'body': json.dumps({'chunk_key': f'chunk_{number:03}.pdf'})} for number in range(4)]
handler({'Records': records}, None)
print(acquire_token('extract', 3))
"""


def test_the_documents_token_bucket_counts_for_each_api(serve: ServerOf) -> None:
    server = serve('[policies.adobe]\nlimits = ["3 requests / 3 seconds"]\n')
    ran = run_python(WORKER, TOLLWAY_URL=server.url)
    assert ran.stdout.split() == [f"chunk_{number:03}.pdf" for number in range(4)] + ["True"], ran


def test_the_packages_wait_for_token_is_the_same(serve: ServerOf) -> None:
    server = serve('[policies.adobe]\nlimits = ["3 requests / 3 seconds"]\n')
    begin = WORKER.index("def wait_for_token")
    end = WORKER.index("def handler")
    program = (WORKER[:begin] + WORKER[end:]).replace("acquire_token\n", "acquire_token, wait_for_token\n", 1)
    ran = run_python(program, TOLLWAY_URL=server.url)
    assert ran.stdout.split()[-1] == "True", ran


# Document 002, sections 3.1, 4 and 6.2.
NOTION = """
import json, sys
from dataclasses import replace
from tollway.compat.api_ratelimiter import API_RATE_CONFIGS, ApiRateConfig, make_client_for

API_RATE_CONFIGS["notion"] = ApiRateConfig(
    name="notion",
    base_url=sys.argv[1],
    initial_rate=2.0,
    min_rate=0.3,
    max_rate=3.5,
    increase_step=0.1,
    decrease_factor=0.5,
    documented_limit_desc="Approx. 3 requests/second per integration on average.",
)
notion = make_client_for("notion", backoff_status_codes=(429, 503))
limiter = notion.limiter  # DynamicAPIClient exposes its limiter
statuses = [notion.get("/users").status_code for _ in range(12)]
snap = limiter.snapshot()
print(json.dumps([statuses, sorted(snap), snap["current_rate"]]))
"""
NOTION_CONFIG = """
[apis.notion]
base_url = "https://api.notion.com/v1"
limits = []
rate = { initial = 2.0, min = 0.3, max = 3.5, increase_step = 0.1, decrease_factor = 0.5 }
"""


def test_the_client_of_the_document_stays_below_a_limit(serve: ServerOf, vendor_of: VendorOf) -> None:
    vendor = vendor_of("--limit", "5 / second bucket", "--dialect", "notion")
    ran = run_python(NOTION, vendor.url, TOLLWAY_URL=serve(NOTION_CONFIG).url)
    assert ran.returncode == 0, ran
    statuses, keys, rate = json.loads(ran.stdout)
    assert (statuses, keys) == ([200] * 12, ["cooldown_until", "current_rate", "tokens"])
    assert 2 <= rate <= 4
    assert vendor.counts()["refused"] == 0


def test_a_vendor_that_always_refuses_ends_in_the_documents_error(serve: ServerOf, vendor_of: VendorOf) -> None:
    pytest.importorskip("requests")
    vendor = vendor_of("--limit", "1 / day", "--dialect", "bare")
    program = NOTION.replace("(429, 503))", "(429, 503), max_retries_on_backoff=1)")
    ran = run_python(program, vendor.url, TOLLWAY_URL=serve(NOTION_CONFIG).url)
    assert "RuntimeError: GET" in ran.stderr and "refused 2 times (last: 429)" in ran.stderr, ran


def test_the_config_of_the_server_is_printed() -> None:
    from tollway.compat.api_ratelimiter import API_RATE_CONFIGS

    notion = API_RATE_CONFIGS["notion"].toml()
    assert notion.startswith(NOTION_CONFIG.lstrip())
