#!/usr/bin/env python3
"""
tools/bench/history.py, with a made-up history in a folder of its own: what is added to the file, and what is drawn.

    bench_history.py SOURCE_FOLDER             checks the program
    bench_history.py --control SOURCE_FOLDER   plants one bug after the other in a copy; each must be reported
"""
import json
import os
import re
import subprocess
import sys
import tempfile

SLOW = {"name": "take", "value": 30.0, "unit": "ns", "against": "bare swap", "ratio": 1.5, "target": 1.8, "ok": True}
FAST = {"name": "take", "value": 24.0, "unit": "ns", "against": "bare swap", "ratio": 1.2, "target": 1.8, "ok": True}
ALONE = {"name": "deny", "value": 7.0, "unit": "ns", "against": None, "ratio": None, "target": None, "ok": None}

HERE = {"cpu": "Abacus 9000", "cores": 2, "kernel": "6.1"}
THERE = {"cpu": "Slide rule", "cores": 64, "kernel": "6.1"}


def entry(day, commit, rows, machine=HERE):
    return {"date": f"2020-01-{day:02}T00:00:00Z", "commit": commit, "machine": machine, "load": 0.1, "rows": rows}


def write_lines(path, entries):
    with open(path, "w") as file:
        file.writelines(json.dumps(one) + "\n" for one in entries)


def check(program):
    """Yields what is wrong with the program."""
    folder = tempfile.TemporaryDirectory()
    history = f"{folder.name}/history.jsonl"

    def run(*arguments):
        done = subprocess.run([sys.executable, "-B", program, *arguments, "--history", history],
                              capture_output=True, text=True, timeout=20)
        return done.returncode, done.stdout + done.stderr

    def drawn(entries, *arguments):
        write_lines(history, entries)
        return run("trend", *arguments)[1]

    # What is drawn.
    text = drawn([entry(2, "bbb", [FAST, ALONE]), entry(1, "aaa", [SLOW, ALONE])]) # the later one is first
    if not re.search(r"^take +1.50 x +1.20 x +-20.0 %  █▁  of bare swap$", text, re.M):
        yield f"a row that fell from 1.5 to 1.2: {text}"
    if not re.search(r"^deny +7.0 ns +7.0 ns +\+0.0 %  (.)\1$", text, re.M):
        yield f"a row that stayed is drawn as one that changed: {text}"
    if "2 entries: 2020-01-01 aaa to 2020-01-02 bbb" not in text:
        yield f"the commits are not named: {text}"
    text = drawn([entry(1, "aaa", [SLOW]), entry(2, "bbb", [FAST])], "--times")
    if not re.search(r"^take +30.0 ns +24.0 ns +-20.0 %  █▁$", text, re.M):
        yield f"--times: {text}"
    text = drawn([entry(1, "aaa", [dict(ALONE, value=100)]), entry(2, "bbb", [dict(ALONE, value=101)])])
    if "▁" in text or "█" in text:
        yield f"1 % is drawn as high as 100 %: {text}"
    text = drawn([entry(1, "aaa", [SLOW]), entry(2, "bbb", [ALONE]), entry(3, "ccc", [FAST])])
    if not re.search(r"1.50 x +1.20 x +-20.0 %  █·▁", text):
        yield f"a run without the row: {text}"
    text = drawn([entry(1, "aaa", [SLOW, ALONE]), entry(2, "bbb", [ALONE])])
    if "not in the last entry: take" not in text:
        yield f"a row that is no longer measured: {text}"
    text = drawn([entry(day, f"c{day}", [SLOW]) for day in range(1, 8)], "--last", "3")
    if "3 entries: 2020-01-05 c5 to 2020-01-07 c7 (4 older ones are left out: --last)" not in text:
        yield f"--last: {text}"

    # A reader that stops, such as head, is no error.
    write_lines(history, [entry(1, "aaa", [SLOW])])
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-B", program, "trend", "--history", history], stdout=writer,
                          stderr=subprocess.PIPE, text=True, timeout=20)
    os.close(writer)
    if done.returncode != 0 or done.stderr:
        yield f"a closed pipe: {done.returncode}, {done.stderr}"

    # What can be misread.
    text = drawn([entry(1, "aaa", [SLOW])])
    if "There is no trend before the second" not in text or "%" in text:
        yield f"a single entry has a trend: {text}"
    text = drawn([entry(1, "aaa", [SLOW]), entry(2, "bbb", [FAST], THERE)])
    if text.count("1 entry:") != 2 or "%" in text or "Abacus 9000, 2 cores" not in text or "Slide rule" not in text:
        yield f"two machines were compared: {text}"
    text = drawn([dict(entry(1, "aaa", [SLOW]), load=9.5), entry(2, "bbb", [FAST])])
    if "1 of them measured while other work kept all cores busy" not in text:
        yield f"nothing is said of a busy machine: {text}"
    text = drawn([entry(1, "aaa", [SLOW, ALONE])], "DEN")
    if "\ndeny" not in text or "\ntake" in text:
        yield f"the filter: {text}"
    if run("trend", "nonsuch")[0] == 0:
        yield "a filter that matches nothing succeeds"
    with open(history, "a") as file:
        file.write('{"date": "2020"}\n')
    status, text = run("trend")
    if status == 0 or "history.jsonl:2: not an entry" not in text:
        yield f"a broken line: {text}"
    os.remove(history)
    if run("trend")[0] == 0:
        yield "no history at all is taken for one"

    # What is added.
    def git(*arguments):
        names = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", "-C", folder.name, *names, *arguments], check=True, capture_output=True)

    def last():
        with open(history) as file:
            return json.loads(file.readlines()[-1])

    bench = f"{folder.name}/bench.json"
    write_lines(bench, [[SLOW, ALONE]])
    write_lines(history, [])
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--no-verify", "-m", "first")
    for expected in (1, 2):
        status, text = run("append", bench)
        with open(history) as file:
            if status != 0 or len(file.readlines()) != expected:
                yield f"append {expected}: {text}"
                return
        if not re.fullmatch("[0-9a-f]{7,}", last()["commit"]): # a history that has grown is no change of the source
            yield f"append {expected}: commit {last()['commit']}"
    if [(row["name"], row["value"], row["ratio"]) for row in last()["rows"]] != [("take", 30.0, 1.5), ("deny", 7.0, None)]:
        yield f"the rows: {last()['rows']}"
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", last()["date"]):
        yield f"the date: {last()['date']}"
    if not last()["machine"]["cpu"] or last()["machine"]["cores"] < 1 or not last()["machine"]["kernel"]:
        yield f"the machine: {last()['machine']}"
    write_lines(bench, [[FAST]])
    run("append", bench)
    if not last()["commit"].endswith("-dirty"):
        yield f"a changed file: commit {last()['commit']}"
    if run("trend")[0] != 0:
        yield "what was added cannot be drawn"
    for what, rows in (("no row", []), ("no list", {}), ("a row without a value", [{"name": "take"}])):
        write_lines(bench, [rows])
        if run("append", bench)[0] == 0:
            yield f"{what} was added"


BUGS = [
    ("except BrokenPipeError:", "except KeyError:"),
    ("os.dup2(", "print("),
    ("(last - first) / first", "(last - first) / last"),
    ('sorted(entries, key=lambda entry: entry["date"])', "entries"),
    ("if missing > 0:", "if False:"),
    ('(entry["machine"]["cpu"], entry["machine"]["cores"])', '"all"'),
    ('f":(exclude){history}"', '":/"'),
    ('("-dirty" if', '("" if'),
    ("or not rows:", "and False:"),
    ("text.lower() in key[0].lower()]", "True]"),
    ("left_out = max(0, len(entries) - last)", "left_out = 0"),
    ('open(history, "a")', 'open(history, "w")'),
    ("ABSENT if value is None", "BARS[0] if value is None"),
    ("busy = sum(", "busy = 0 * sum("),
]


def control(source):
    with open(source) as file:
        text = file.read()
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        for old, new in BUGS:
            if text.count(old) != 1:
                missed.append(f"{text.count(old)} places to plant a bug in: {old}")
                continue
            with open(f"{folder}/history.py", "w") as file:
                file.write(text.replace(old, new))
            if not any(check(f"{folder}/history.py")):
                missed.append(f"not reported: {old} -> {new}")
    print("\n".join(missed) or f"{len(BUGS)} planted bugs, all reported")
    return 1 if missed else 0


def main():
    program = os.path.abspath(sys.argv[-1]) + "/tools/bench/history.py"
    if sys.argv[1] == "--control":
        return control(program)
    wrong = list(check(program))
    print("\n".join(wrong) or "the history is kept and drawn as it should be")
    return 1 if wrong else 0


sys.exit(main())
