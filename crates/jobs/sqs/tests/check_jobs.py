"""Checks what a pipeline left behind: stage a, each of whose jobs hands two on to stage b. Shares no code with the pipeline.

    check_jobs.py FOLDER --limit CALLS --window MICROSECONDS [--finished]

It compares three records of the same events, made by different programs. All times are microseconds of one clock.

jobs.db, jobs.json  the jobs and completions, in the pipeline's SQLite file or exported from Postgres
vendor.log          a line for each call that arrived at the vendor: time, stage, key, worker, and when it was sent, if it says that
audit.log           a line for each answer that a caller of the engine got: time, process, what, stage, key, claim number
kills.log           the processes that were killed, if any

Prints everything that is wrong and exits with 1, or prints figures.
"""
import argparse
import collections
import json
import pathlib
import shutil
import sqlite3
import tempfile

# As the tables document it.
DONE = 5
OUTPUTS = 2
# How many lines of one kind are printed.
LINES_MAX = 5

Job = collections.namedtuple("Job", "id stage key state claims data")
Told = collections.namedtuple("Told", "at process what stage key number")


def read_jobs(folder):
    """The jobs, and the completions: job id, claim number, number of outputs."""
    exported = folder / "jobs.json"
    if exported.exists():
        rows = json.loads(exported.read_text())
        return [Job(*row) for row in rows["jobs"]], [tuple(row) for row in rows["completions"]]
    # A copy: the process may have been killed before it wrote its log back, and the file stays as it is.
    with tempfile.TemporaryDirectory() as copy:
        for file in folder.glob("jobs.db*"):
            shutil.copy(file, copy)
        connection = sqlite3.connect(pathlib.Path(copy) / "jobs.db")
        jobs = connection.execute(
            "SELECT jobs.id, stages.name, key, state, claim_number, data.data FROM jobs"
            " JOIN stages ON stages.id = jobs.stage LEFT JOIN data ON data.job = jobs.id"
        ).fetchall()
        completions = connection.execute("SELECT job, claim_number, outputs FROM completions").fetchall()
        connection.close()
    return [Job(*row) for row in jobs], completions


def read_lines(file):
    return [line.split(" ") for line in file.read_text().splitlines()] if file.exists() else []


class Checker:
    def __init__(self, folder, limit, window):
        self.limit, self.window = limit, window
        rows, self.completions = read_jobs(folder)
        self.rows = rows
        self.jobs = {(job.stage, job.key): job for job in rows}
        # A call that says when it was sent belongs to that window: how long it travels is not up to the pipeline.
        self.calls = [
            (int((*sent, at)[0]), stage, key) for at, stage, key, _, *sent in read_lines(folder / "vendor.log")
        ]
        self.told = [
            Told(int(at), process, what, stage, key, int(number))
            for at, process, what, stage, key, number in read_lines(folder / "audit.log")
        ]
        self.killed = {line[0] for line in read_lines(folder / "kills.log")}
        # The claim that completed each job.
        self.completed_by = {job: number for job, number, _ in self.completions}
        self.wrong = collections.defaultdict(list)

    def of(self, what):
        return [told for told in self.told if told.what == what]

    def complain(self, kind, text):
        self.wrong[kind].append(text)

    def nothing_lost(self):
        for told in self.of("enqueued"):
            if (told.stage, told.key) not in self.jobs:
                self.complain("lost job", f"{told.stage} {told.key} was acknowledged as enqueued, and is not there")

    def all_finished(self):
        for job in self.rows:
            if job.state != DONE:
                self.complain("unfinished job", f"{job.stage} {job.key} is in state {job.state}")

    def completed_once(self):
        if len(self.rows) != len(self.jobs):
            self.complain("second job", "two jobs have one key")
        completions = collections.Counter(job for job, *_ in self.completions)
        for job in self.rows:
            expected = 1 if job.state == DONE else 0
            if completions[job.id] != expected:
                found = f"{job.stage} {job.key} in state {job.state} has {completions[job.id]} completions"
                self.complain("completions", found)

    def one_set_of_outputs(self):
        expected = {}
        for job in self.rows:
            if job.stage == "a" and job.state == DONE:
                expected.update({f"{job.key}>a.{n}": {"of": job.key, "n": n} for n in range(OUTPUTS)})
        found = {job.key: job.data for job in self.rows if job.stage == "b"}
        for key in expected.keys() - found.keys():
            self.complain("lost output", f"b {key} is not there, though its job is done")
        for key in found.keys() - expected.keys():
            self.complain("output too many", f"b {key} is there, and no done job has handed it on")
        for key in found.keys() & expected.keys():
            if json.loads(found[key]) != expected[key]:
                self.complain("wrong output", f"b {key} has the data {found[key]}")

    def acknowledged_is_stored(self):
        """What was acknowledged as done is done, by that claim, once."""
        claimed = collections.defaultdict(list)
        for told in self.of("claimed"):
            claimed[told.stage, told.key].append(told)
        acknowledged = collections.Counter()
        for told in self.of("done"):
            name, job = f"{told.stage} {told.key}", self.jobs.get((told.stage, told.key))
            acknowledged[name] += 1
            newer = [claim for claim in claimed[told.stage, told.key] if claim.number > told.number]
            if any(claim.at < told.at for claim in newer):
                text = f"{name} was finished by claim {told.number}, after claim {newer[0].number} had been given out"
                self.complain("late answer accepted", text)
            elif newer:
                text = f"{name} was acknowledged as done, and then claimed again"
                self.complain("acknowledged before it was stored", text)
            if job is None or job.state != DONE or self.completed_by.get(job.id) != told.number:
                text = f"{name} was acknowledged as done by claim {told.number}, and that is not stored"
                self.complain("acknowledged before it was stored", text)
        for job in self.rows:
            if job.state == DONE and self.completed_by.get(job.id) != job.claims:
                text = f"{job.stage} {job.key} was finished by claim {self.completed_by.get(job.id)} of {job.claims}"
                self.complain("late answer accepted", text)
        for name, count in acknowledged.items():
            if count > 1:
                self.complain("committed twice", f"{name} was acknowledged as done {count} times")

    def calls_are_accounted_for(self):
        """Every call belongs to a claim, and every claim that completed no job has a reason."""
        calls = collections.Counter((stage, key) for _, stage, key in self.calls)
        ends = {(told.stage, told.key, told.number): told.what for told in self.told if told.what not in ("claimed", "enqueued")}
        claims = collections.defaultdict(dict)
        for told in self.of("claimed"):
            if told.number in claims[told.stage, told.key]:
                self.complain("claimed twice", f"{told.stage} {told.key} claim {told.number}")
            claims[told.stage, told.key][told.number] = told.process
        unknown = 0
        for key, job in self.jobs.items():
            name = " ".join(key)
            if job.state == DONE and not calls[key]:
                self.complain("answer without a call", f"{name} is done, and the vendor was never called for it")
            if calls[key] > len(claims[key]):
                self.complain("call without a claim", f"{name} has {calls[key]} calls and {len(claims[key])} claims")
            unknown += job.claims - len(claims[key])
            for number, process in claims[key].items():
                completes = self.completed_by.get(job.id) == number
                if not completes and (*key, number) not in ends and process not in self.killed:
                    self.complain("claim without an end", f"{name} claim {number} of {process}, which was not killed")
        # A process that is killed between the commit of a claim and its answer has made no call for it.
        if unknown and not self.killed:
            self.complain("claim without a caller", f"{unknown} claims were answered to no caller")

    def within_the_limit(self):
        """No window has more calls than the limit, and no job is claimed before there is a token for it."""
        for window, count in sorted(collections.Counter(at // self.window for at, *_ in self.calls).items()):
            if count > self.limit:
                self.complain("above the limit", f"{count} calls in window {window}, which has {self.limit}")
        if not self.told:
            return
        first = min(told.at for told in self.told) // self.window
        for count, told in enumerate(sorted(self.of("claimed")), 1):
            tokens = self.limit * (told.at // self.window - first + 1)
            if count > tokens:
                text = f"{count} jobs were claimed while there had been {tokens} tokens"
                self.complain("claim before token", text)

    def report(self):
        for kind, texts in self.wrong.items():
            for text in texts[:LINES_MAX]:
                print(f"{kind}: {text}")
            if len(texts) > LINES_MAX:
                print(f"{kind}: and {len(texts) - LINES_MAX} more")
        calls, late = len(self.calls), len(self.of("late"))
        done = len(self.completions)
        print(f"{len(self.rows)} jobs, {calls} calls, {calls - done} of them in vain, {late} late answers refused")
        return not self.wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--limit", type=int, required=True)
    parser.add_argument("--window", type=int, required=True)
    parser.add_argument("--finished", action="store_true")
    arguments = parser.parse_args()
    checker = Checker(arguments.folder, arguments.limit, arguments.window)
    checker.nothing_lost()
    if arguments.finished:
        checker.all_finished()
    checker.completed_once()
    checker.one_set_of_outputs()
    checker.acknowledged_is_stored()
    checker.calls_are_accounted_for()
    checker.within_the_limit()
    return 0 if checker.report() else 1


if __name__ == "__main__":
    raise SystemExit(main())
