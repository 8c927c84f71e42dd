#!/usr/bin/env python3
"""
The history of benchmark results, and how each row changes over it.

    tools/bench/history.py append BENCH.json [--history FILE]     adds one entry; make bench does it
    tools/bench/history.py trend [TEXT] [--times] [--last N]      draws the rows; make bench-trend does it

The history is a file of JSON lines, one entry per run: when, which commit, which machine, and the rows of
build/bench.json. Entries are only compared with others of the same processor and number of cores. A row with a
reference is drawn as its ratio to it, because both were measured in the same moments; --times draws its time.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import time

HISTORY = "tools/bench/history.jsonl"
BARS = "▁▂▃▄▅▆▇█"
ABSENT = "·"
# A row that varies by less than this share of its median is drawn flatter than the full height of a line.
FULL_HEIGHT_MIN = 0.20
LAST_DEFAULT = 30


def fail(text):
    sys.exit(f"history.py: {text}")


# Entries -------------------------------------------------------------------------------------


def cpu_name():
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return f"unknown {os.uname().machine} processor"


def commit_name(folder, history):
    """The short hash of the commit, with -dirty if a tracked file differs; the history itself does not count."""

    if shutil.which("git") is None:
        return "unknown"

    def git(*arguments):
        return subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True)

    head = git("rev-parse", "--short", "HEAD")
    if head.returncode != 0:
        return "unknown"
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/", f":(exclude){history}")
    return head.stdout.strip() + ("-dirty" if changed.stdout.strip() or changed.returncode != 0 else "")


def read_rows(path):
    try:
        with open(path) as file:
            rows = json.load(file)
    except (OSError, ValueError) as error:
        fail(f"{path}: {error}")
    if not isinstance(rows, list) or not rows:
        fail(f"{path}: holds no row; nothing was added to the history")
    kept = []
    for row in rows:
        try:
            kept.append({field: row[field] for field in ("name", "value", "unit", "against", "ratio")})
        except (KeyError, TypeError):
            fail(f"{path}: a row needs name, value, unit, against and ratio, but this one is {row}")
    return kept


def append(bench_path, history):
    root = os.path.dirname(os.path.abspath(bench_path))
    entry = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit_name(root, os.path.abspath(history)),
        "machine": {"cpu": cpu_name(), "cores": len(os.sched_getaffinity(0)), "kernel": os.uname().release},
        "load": round(os.getloadavg()[0], 1),
        "rows": read_rows(bench_path),
    }
    with open(history, "a") as file:
        file.write(json.dumps(entry, separators=(",", ":"), ensure_ascii=False) + "\n")
    print(f"{len(entry['rows'])} rows of {entry['commit']} added to {history}; make bench-trend draws them")


def read_history(path):
    entries = []
    try:
        with open(path) as file:
            lines = file.readlines()
    except FileNotFoundError:
        fail(f"{path} does not exist yet; make bench adds the first entry")
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            entry["machine"] = {field: entry["machine"][field] for field in ("cpu", "cores", "kernel")}
            entry["by_key"] = {(row["name"], row["unit"], row["against"]): row for row in entry["rows"]}
            entry["date"], entry["commit"]
        except (ValueError, KeyError, TypeError) as error:
            fail(f"{path}:{number}: not an entry of the history: {error!r}")
        entries.append(entry)
    if not entries:
        fail(f"{path} is empty; make bench adds an entry")
    return sorted(entries, key=lambda entry: entry["date"])


# Drawing -------------------------------------------------------------------------------------


def sparkline(values):
    """One bar per value; None is a dot. Higher is more: more time, or a higher ratio."""
    known = [value for value in values if value is not None]
    low, high = min(known), max(known)
    missing = FULL_HEIGHT_MIN * abs(sorted(known)[len(known) // 2]) - (high - low)
    if missing > 0:
        low -= missing / 2
        high += missing / 2
    step = (high - low) / len(BARS) or 1
    return "".join(
        ABSENT if value is None else BARS[min(int((value - low) / step), len(BARS) - 1)] for value in values
    )


def shown(value, unit):
    if unit == "x":
        return f"{value:.2f} x"
    return f"{value:.1f} {unit}" if value < 1000 else f"{value:.0f} {unit}"


def draw_row(key, entries, times):
    """The line of a row, or None if only times were asked for and it has none."""
    name, unit, against = key
    by_ratio = not times and entries[-1]["by_key"][key]["ratio"] is not None
    rows = [entry["by_key"].get(key) for entry in entries]
    values = [row and row["ratio" if by_ratio else "value"] for row in rows]
    known = [value for value in values if value is not None]
    unit = "x" if by_ratio else unit
    first, last = known[0], known[-1]
    if len(known) == 1:
        change = "-"
    elif first == 0:
        change = "from 0"
    else:
        change = f"{(last - first) / first * 100:+.1f} %"
    line = f"{name:<38} {shown(first, unit):>12} {shown(last, unit):>12} {change:>9}"
    if len(entries) > 1:
        line += f"  {sparkline(values)}"
    return line + (f"  of {against}" if by_ratio else "")


def draw_machine(entries, text, times, last):
    """Prints what one machine measured. Returns how many rows that were."""
    keys = [key for key in entries[-1]["by_key"] if text.lower() in key[0].lower()]
    if not keys:
        return 0
    machine = entries[0]["machine"]
    left_out = max(0, len(entries) - last)
    entries = entries[left_out:]
    kernels = list(dict.fromkeys(entry["machine"]["kernel"] for entry in entries))
    print(f"{machine['cpu']}, {machine['cores']} cores, kernel {', '.join(kernels)}")
    if len(entries) == 1:
        print(f"1 entry: {entries[0]['date'][:10]} {entries[0]['commit']}. There is no trend before the second.")
    else:
        begin, end = entries[0], entries[-1]
        print(
            f"{len(entries)} entries: {begin['date'][:10]} {begin['commit']} to {end['date'][:10]} {end['commit']}"
            + (f" ({left_out} older ones are left out: --last)" if left_out else "")
        )
    busy = sum(entry.get("load", 0) > entry["machine"]["cores"] for entry in entries)
    if busy:
        print(f"{busy} of them measured while other work kept all cores busy: differences may be noise.")
    print(f"\n{'row':<38} {'first':>12} {'last':>12} {'change':>9}")
    for key in keys:
        print(draw_row(key, entries, times))
    gone = {key[0] for entry in entries for key in entry["by_key"] if text.lower() in key[0].lower()}
    gone -= {key[0] for key in entries[-1]["by_key"]}
    if gone:
        print(f"not in the last entry: {', '.join(sorted(gone))}")
    print()
    return len(keys)


def trend(history, text, times, last):
    machines = {}
    for entry in read_history(history):
        machines.setdefault((entry["machine"]["cpu"], entry["machine"]["cores"]), []).append(entry)
    count = sum(draw_machine(entries, text, times, last) for entries in machines.values())
    if count == 0:
        fail(f"no row of the last entries contains '{text}'")


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def main():
    parser = argparse.ArgumentParser(description="The history of benchmark results.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("append", help="add the rows of a run as one entry")
    command.add_argument("bench", metavar="BENCH.json")
    command.add_argument("--history", default=HISTORY, metavar="FILE")
    command = commands.add_parser("trend", help="draw how each row has changed")
    command.add_argument("text", nargs="?", default="", help="only rows whose name contains it")
    command.add_argument("--times", action="store_true", help="times, also where there is a ratio")
    command.add_argument("--last", type=positive, default=LAST_DEFAULT, metavar="N", help="only the last N entries")
    command.add_argument("--history", default=HISTORY, metavar="FILE")
    options = parser.parse_args()
    try:
        if options.command == "append":
            append(options.bench, options.history)
        else:
            trend(options.history, options.text, options.times, options.last)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, needs no more; nothing is left to be flushed at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


main()
