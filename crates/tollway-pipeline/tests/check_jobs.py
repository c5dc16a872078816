"""Checks a finished pipeline: stage a with some jobs, each of which hands two on to stage b.

    check_jobs.py DATABASE CALLS JOBS EXTRA_MAX

DATABASE is the pipeline's file, CALLS the log of the vendor: a line "STAGE KEY" for each call. It shares no code with the
pipeline. Prints the first thing that is wrong, and exits with 1.
"""
import collections
import json
import sqlite3
import sys

DONE = 5


def check(database, calls, count, extra_max):
    connection = sqlite3.connect(f"file:{database}?mode=ro&immutable=1", uri=True)
    rows = connection.execute(
        "SELECT stages.name, jobs.key, jobs.state, jobs.id, data.data FROM jobs"
        " JOIN stages ON stages.id = jobs.stage LEFT JOIN data ON data.job = jobs.id"
    ).fetchall()
    keys = {stage: sorted(key for of, key, *_ in rows if of == stage) for stage in "ab"}
    first = [f"a-{n:05}" for n in range(count)]
    if keys["a"] != first:
        return f"stage a has {len(keys['a'])} jobs, or others than the {count} that were enqueued"
    if keys["b"] != sorted(f"{key}>a.{n}" for key in first for n in range(2)):
        return f"stage b has {len(keys['b'])} jobs, or others than two for each of stage a"
    for stage, key, state, _, data in rows:
        if state != DONE:
            return f"{stage} {key} is in state {state}"
        if stage == "b" and json.loads(data) != {"of": key[:7], "n": int(key[-1])}:
            return f"{key} was handed on as {data}"
    completed = collections.Counter(job for (job,) in connection.execute("SELECT job FROM completions"))
    if set(completed) != {job for *_, job, _ in rows} or set(completed.values()) != {1}:
        return "not exactly one completion for each job"
    called = collections.Counter(calls)
    never = [f"{stage} {key}" for stage, key, *_ in rows if not called[f"{stage} {key}"]]
    if never:
        return f"{never[0]} is done, but the vendor was never called for it"
    extra = sum(called.values()) - len(rows)
    if extra > extra_max:
        return f"{extra} calls more than completions; at most {extra_max} were in flight at kills"
    print(f"{len(rows)} jobs, {sum(called.values())} calls, {extra} of them again after a kill")
    return None


if __name__ == "__main__":
    with open(sys.argv[2]) as log:
        wrong = check(sys.argv[1], log.read().splitlines(), int(sys.argv[3]), int(sys.argv[4]))
    if wrong:
        print(wrong)
        sys.exit(1)
