#!/usr/bin/env python3
"""The help of every command and subcommand (--help, -h, ration help COMMAND): exits with 0, fits 80 columns, is printed
to the standard output and ends with an example.

    help.py RATION             checks the program
    help.py --control RATION   plants one help text for each rule that breaks it; each must be reported
"""
import re
import subprocess
import sys

WIDTH = 80


def problems(name, status, output, errors):
    """What is wrong with the help of one command."""
    if status != 0:
        yield f"{name} exits with {status} instead of 0"
    if errors:
        yield f"{name} writes to the standard error: {errors.splitlines()[0]}"
    for number, line in enumerate(output.splitlines(), 1):
        if len(line) > WIDTH:
            yield f"{name}, line {number} has {len(line)} columns: {line}"
        if line != line.rstrip():
            yield f"{name}, line {number} ends with a blank"
    if "\nExample: ration " not in output:
        yield f"{name} shows no example"
    if "usage: ration" not in output:
        yield f"{name} has no usage line"


def run(ration, *words):
    done = subprocess.run([ration, *words], capture_output=True, text=True, timeout=20)
    return done.returncode, done.stdout, done.stderr


def check(ration):
    """All problems, and the number of help texts."""
    commands = re.findall(r"^  ([a-z]+) ", run(ration, "--help")[1], re.M)
    calls = [["--help"], ["-h"], ["help"]]
    calls += [words for command in commands for words in ([command, "--help"], [command, "-h"], ["help", command])]
    for command in commands:  # subcommands stand in the usage lines: "ration policy check FILE"
        usage = run(ration, command, "--help")[1].split("\n\n")[0]
        for word in re.findall(rf"ration {command} ([a-z]+)", usage):
            calls += [[command, word, "--help"], ["help", command, word]]
    found = [line for words in calls for line in problems("ration " + " ".join(words), *run(ration, *words))]
    if len(calls) < 25:
        found.append(f"only {len(calls)} help texts were found: {calls}")
    return found, len(calls)


def control():
    good = "usage: ration x\n\nExample: ration x\n"
    assert not list(problems("x", 0, good, "")), "a good help text is reported"
    planted = [(2, good, ""), (0, good, "oops\n"), (0, good + "-" * 81 + "\n", ""), (0, good + "blank \n", ""),
               (0, "usage: ration x\n", ""), (0, "\nExample: ration x\n", "")]
    for case in planted:
        if len(list(problems("x", *case))) != 1:
            print("not reported once:", case)
            return 1
    print(f"{len(planted)} planted help texts were reported")
    return 0


def main():
    if sys.argv[1] == "--control":
        return control()
    found, count = check(sys.argv[1])
    print("\n".join(found) if found else f"{count} help texts fit {WIDTH} columns and show an example")
    return 1 if found else 0


sys.exit(main())
