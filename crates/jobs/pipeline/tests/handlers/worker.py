"""A handler for tests. Its first argument says how it behaves."""
import json
import os
import socket
import subprocess
import sys
import time


def say(answer):
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def jobs():
    for line in sys.stdin:
        message = json.loads(line)
        if "job" in message:
            yield message["job"]


def done(job):
    say({"done": job["id"], "outputs": [{"data": {"from": job["key"]}}]})


def call(job, sent=""):
    """Calls the vendor, and waits for the end of its response."""
    host, port = os.environ["WORKER_VENDOR"].split(":")
    with socket.create_connection((host, int(port))) as vendor:
        head = f"POST / HTTP/1.1\r\nstage: {job['stage']}\r\nkey: {job['key']}\r\nworker: {os.getpid()}\r\n{sent}\r\n"
        vendor.sendall(head.encode())
        while vendor.recv(4096):
            pass
    outputs = [{"data": {"of": job["key"], "n": n}} for n in range(2)] if job["stage"] == "a" else []
    say({"done": job["id"], "outputs": outputs})


def log(text):
    with open(os.environ["WORKER_LOG"], "a") as file:
        file.write(text + "\n")


behaviour = sys.argv[1]
if behaviour == "good":
    for job in jobs():
        done(job)
elif behaviour == "hang":
    for job in jobs():
        log(str(os.getpid()))
        time.sleep(1000)
elif behaviour == "told":
    # Answers when it is told to, by a file.
    for job in jobs():
        log("called " + job["stage"])
        while not os.path.exists(os.environ["WORKER_LOG"] + ".go"):
            time.sleep(0.01)
        say({"done": job["id"]})
        log("answered " + job["stage"])
elif behaviour in ("one_line", "parts"):
    # 5,000 outputs of 250 bytes. A second job of the same process has none.
    for n, job in enumerate(jobs()):
        outputs = [] if n else [{"data": f"{number:0>248}"} for number in range(5000)]
        if behaviour == "parts":
            for start in range(0, len(outputs), 1000):
                say({"part": job["id"], "outputs": outputs[start:start + 1000]})
            outputs = []
        say({"done": job["id"], "outputs": outputs})
elif behaviour == "too_many":
    for job in jobs():
        say({"done": job["id"], "outputs": [{"data": n} for n in range(10001)]})
elif behaviour == "misspelt":
    for job in jobs():
        say({"done": job["id"], "output": [{"data": 1}]})
elif behaviour == "garbage":
    for job in jobs():
        print("Traceback: hello " + os.environ["CARGO_MANIFEST_DIR"], flush=True)
        time.sleep(1000)
elif behaviour == "unknown":
    for job in jobs():
        say({"done": 999999})
elif behaviour == "long":
    for job in jobs():
        sys.stdout.write("x" * (2 << 20))
        sys.stdout.flush()
elif behaviour == "fork":
    for job in jobs():
        child = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        escaped = subprocess.Popen(
            ["sleep", "1000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        log(f"{child.pid} {escaped.pid}")
        sys.exit(3)
elif behaviour == "exit":
    for job in jobs():
        sys.exit(3)
elif behaviour == "garbage_of_two":
    waiting = []
    for job in jobs():
        waiting.append(job)
        if len(waiting) == 2:
            print("Segmentation fault", flush=True)
elif behaviour == "memory_sometimes":
    for job in jobs():
        data = bytearray(1 << 30) if job["key"].endswith("3") else None
        say({"done": job["id"]})
elif behaviour == "memory":
    for job in jobs():
        data = bytearray(1 << 30)
        done(job)
elif behaviour == "begin":
    for line in sys.stdin:
        message = json.loads(line)
        if "job" in message:
            say({"begin": message["job"]["id"]})
        else:
            say({"done": message["go"], "cost": {"requests": 3}})
elif behaviour == "pair":
    # Answers two jobs together, the second one first: only a process with two slots gets so far.
    waiting = []
    for job in jobs():
        waiting.append(job)
        if len(waiting) == 2:
            for job in reversed(waiting):
                done(job)
            waiting = []
elif behaviour == "env":
    for job in jobs():
        say({"done": job["id"], "result": sorted(os.environ)})
elif behaviour == "secret":
    for job in jobs():
        say({"dead": job["id"], "error": "cannot log in with " + os.environ["CARGO_MANIFEST_DIR"]})
elif behaviour == "tell":
    for job in jobs():
        say({job["data"]: job["id"], "error": "told so"})
elif behaviour in ("call", "fork_and_call"):
    # Each job is one call of the vendor.
    if behaviour == "fork_and_call":
        for new_session in (False, True):
            subprocess.Popen(["sleep", "1000"], start_new_session=new_session)
    for job in jobs():
        call(job)
elif behaviour == "begin_and_call":
    # The same by a handler that begins itself, and says when: a call may take its time to arrive.
    jobs_of = {}
    for line in sys.stdin:
        message = json.loads(line)
        if "job" in message:
            jobs_of[message["job"]["id"]] = message["job"]
            say({"begin": message["job"]["id"]})
        else:
            call(jobs_of.pop(message["go"]), f"sent: {time.time_ns() // 1000}\r\n")
