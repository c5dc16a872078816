"""The workers in Python: AutoTag, Extract and post-processing. src/workers.rs has the same three in Rust.

The pipeline starts this program, writes a job per line and reads an answer per line:

    {"job": {"id": 7, "stage": "autotag", "data": {...}}}     a job; up to `slots` at a time
    {"begin": 7}  ->  {"go": 7}                               just before the call, so that it counts in the right minute
    {"done": 7, "outputs": [{"data": {...}}]}                 or retry, rate_limited, dead

It needs the standard library only; with files in S3 also boto3. Everything that is printed must be an answer, so write
messages to standard error.
"""
import argparse
import json
import os
import pathlib
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request


class Dead(Exception):
    """No other try can help."""


class Folder:
    """Files in a folder. A bucket is a folder in it."""

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()

    def path(self, bucket, key):
        path = (self.root / bucket / key).resolve()
        if not path.is_relative_to(self.root / bucket) or (self.root / bucket).parent != self.root:
            raise Dead(f"{bucket}/{key} leads out of its bucket")
        return path

    def read(self, bucket, key):
        try:
            return self.path(bucket, key).read_bytes()
        except FileNotFoundError:
            raise Dead(f"there is no file {bucket}/{key}") from None

    def write(self, bucket, key, data):
        path = self.path(bucket, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        # A reader sees all of it or the one before.
        with tempfile.NamedTemporaryFile(dir=self.root, delete=False) as file:
            file.write(data)
        os.replace(file.name, path)

    def names(self, bucket, folder):
        return sorted(path.name for path in self.path(bucket, folder).iterdir() if path.is_file())


class Bucket:
    """Files in S3, below a prefix."""

    def __init__(self, url):
        import boto3

        self.bucket, _, prefix = url.removeprefix("s3://").partition("/")
        self.prefix = prefix.strip("/") + "/" if prefix.strip("/") else ""
        self.s3 = boto3.client("s3")

    def key(self, bucket, key):
        if bucket != self.bucket:
            raise Dead(f"the message names bucket {bucket}, and the files are in {self.bucket}")
        return self.prefix + key

    def read(self, bucket, key):
        try:
            return self.s3.get_object(Bucket=bucket, Key=self.key(bucket, key))["Body"].read()
        except self.s3.exceptions.NoSuchKey:
            raise Dead(f"there is no file {bucket}/{key}") from None

    def write(self, bucket, key, data):
        self.s3.put_object(Bucket=bucket, Key=self.key(bucket, key), Body=data)

    def names(self, bucket, folder):
        prefix = self.key(bucket, folder)
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, Delimiter="/")
        return sorted(found["Key"].removeprefix(prefix) for page in pages for found in page.get("Contents", []))


class Adobe:
    """The vendor's API. Nothing here waits or retries for the quota: the pipeline does."""

    def __init__(self, url):
        self.url = url
        self.client_id = os.environ.get("ADOBE_CLIENT_ID", "local")

    def operate(self, operation, result, data, begin):
        asset = self.post("/assets", {"mediaType": "application/pdf"})
        self.send("PUT", asset["uploadUri"], data, "application/pdf")
        begin()
        done = self.post(f"/operation/{operation}", {"assetID": asset["assetID"]})
        return self.send("GET", done[result]["downloadUri"])

    def post(self, path, body):
        return json.loads(self.send("POST", self.url + path, json.dumps(body).encode(), "application/json"))

    def send(self, method, url, data=None, content_type=None):
        request = urllib.request.Request(url, data=data, method=method)
        # A signed address of a file is no place for the key of the account.
        if url.startswith(self.url):
            request.add_header("x-api-key", self.client_id)
        if content_type:
            request.add_header("content-type", content_type)
        with urllib.request.urlopen(request, timeout=300) as response:
            return response.read()


def timestamp():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def keys_of(chunk_key):
    """The folder of a PDF, and the name of its chunk."""
    folder, found, name = chunk_key.rpartition("/chunks/")
    if not found or not name.endswith(".pdf") or "/" in name:
        raise Dead(f"{chunk_key} is not FOLDER/chunks/NAME.pdf")
    return folder, name.removesuffix(".pdf")


def autotag(message, begin):
    folder, name = keys_of(message["chunk_key"])
    autotagged_key = f"{folder}/output_autotag/COMPLIANT_{name}.pdf"
    chunk = FILES.read(message["bucket"], message["chunk_key"])
    FILES.write(message["bucket"], autotagged_key, ADOBE.operate("autotag", "tagged-pdf", chunk, begin))
    handed = {
        "bucket": message["bucket"],
        "chunk_key": message["chunk_key"],
        "autotagged_key": autotagged_key,
        "original_file_key": message["original_file_key"],
        "job_id": message["job_id"],
        "timestamp": timestamp(),
    }
    return [{"data": handed}]


def extract(message, begin):
    folder, name = keys_of(message["chunk_key"])
    tagged = FILES.read(message["bucket"], message["autotagged_key"])
    extracted = ADOBE.operate("extractpdf", "content", tagged, begin)
    FILES.write(message["bucket"], f"{folder}/output_extract/{name}.json", extracted)
    handed = {key: message[key] for key in ("bucket", "original_file_key", "job_id")}
    # The outputs of all chunks of a PDF are one job.
    return [{"data": handed, "join": message["job_id"]}]


def finish(message, begin):
    """Once for each PDF: its table of contents and its images, out of all chunks."""
    bucket, folder = message["bucket"], message["original_file_key"].rpartition("/")[0]
    names = FILES.names(bucket, f"{folder}/chunks/")
    chunks = [name.removesuffix(".pdf") for name in names if name.endswith(".pdf")]
    toc, images = [], []
    for chunk in chunks:
        for element in json.loads(FILES.read(bucket, f"{folder}/output_extract/{chunk}.json"))["elements"]:
            if element["Path"] == "//Document/H1":
                toc.append({"chunk": chunk, "title": element["Text"]})
            elif element["Path"] == "//Document/Figure":
                images.append(element["filePaths"][0])
    result = {"job_id": message["job_id"], "chunks": len(chunks), "toc": toc, "images": images}
    FILES.write(bucket, f"{folder}/result.json", json.dumps(result).encode())
    return []


def refused(job_id, error):
    """The answer for a status that is no success."""
    after = error.headers.get("Retry-After", "")
    after = {"after": int(after)} if after.isdigit() else {}
    text = f"the vendor answered {error.code}"
    if error.code == 429:
        # Uses no try, and holds the policy for every stage and process.
        return {"rate_limited": job_id, "error": text, **after}
    detail = error.read(4096).decode(errors="replace")
    if error.code < 500:
        return {"dead": job_id, "error": text, "detail": detail}
    return {"retry": job_id, "error": text, "detail": detail, **after}


def work(job):
    job_id = job["id"]

    def begin():
        say({"begin": job_id})
        GOES[job_id].wait()

    try:
        answer = {"done": job_id, "outputs": STAGES[job["stage"]](job["data"], begin)}
    except Dead as error:
        answer = {"dead": job_id, "error": str(error)}
    except urllib.error.HTTPError as error:
        answer = refused(job_id, error)
    except KeyError as error:
        answer = {"dead": job_id, "error": f"there is no {error}"}
    except Exception as error:
        answer = {"retry": job_id, "error": type(error).__name__, "detail": str(error)}
    GOES.pop(job_id, None)
    say(answer)


def say(answer):
    with SAYING:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


STAGES = {"autotag": autotag, "extract": extract, "finish": finish}
SAYING = threading.Lock()
GOES = {}

if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--api", default="http://127.0.0.1:8787", help="the address of the vendor")
    arguments.add_argument("--files", required=True, help="a folder, or s3://bucket/prefix")
    arguments = arguments.parse_args()
    FILES = (Bucket if arguments.files.startswith("s3://") else Folder)(arguments.files)
    ADOBE = Adobe(arguments.api)
    for line in sys.stdin:
        message = json.loads(line)
        if "job" in message:
            GOES[message["job"]["id"]] = threading.Event()
            threading.Thread(target=work, args=(message["job"],), daemon=True).start()
        elif "go" in message:
            GOES[message["go"]].set()
