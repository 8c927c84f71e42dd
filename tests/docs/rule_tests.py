#!/usr/bin/env python3
"""
Every test that the table of docs/ARCHITECTURE.md names exists, and every rule has a row.

    rule_tests.py BUILD_FOLDER SOURCE_FOLDER
    rule_tests.py --control BUILD_FOLDER SOURCE_FOLDER     a test that does not exist and a missing rule are found
"""
import re
import subprocess
import sys


def check(page, names):
    head, _, table = page.partition("## Which test covers which rule")
    bad = [f"docs/ARCHITECTURE.md names the test {name}, which does not exist"
           for name in re.findall(r"`([\w-]+)`", table) if name not in names]
    rules = set(re.findall(r"^\| \*\*(R\d+)\*\*", head, re.M))
    covered = set(re.findall(r"^\| (R\d+)\b", table, re.M))
    bad += [f"docs/ARCHITECTURE.md has no test for {rule}" for rule in sorted(rules - covered)]
    if len(rules) < 13 or len(covered) < 13:
        bad.append("docs/ARCHITECTURE.md: the tables of rules and tests were not found")
    return bad


def main(arguments):
    is_control = arguments[0] == "--control"
    build, folder = arguments[is_control:]
    listing = subprocess.run(["ctest", "--test-dir", build, "-N"], check=True, capture_output=True, text=True).stdout
    names = set(re.findall(r"Test +#\d+: (\S+)", listing))
    page = open(f"{folder}/docs/ARCHITECTURE.md", encoding="utf-8").read()
    if not is_control:
        bad = check(page, names)
        print("\n".join(bad))
        return 1 if bad else 0
    plants = {"a test that does not exist": page + "\n| R2 | `no_such_test` |\n",
              "a rule without a row": re.sub(r"^\| R10 .*\n", "", page, flags=re.M), "no table": "# Nothing\n"}
    missed = [name for name, text in plants.items() if not check(text, names)]
    print("\n".join(f"not found: {name}" for name in missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
