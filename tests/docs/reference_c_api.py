#!/usr/bin/env python3
"""
The reference of the C API is complete, and no document names a function that does not exist.

    reference_c_api.py SOURCE_FOLDER             checks the tree
    reference_c_api.py --control SOURCE_FOLDER   finds planted omissions in a copy of it

Every function of include/ration/*.h has exactly one row of a table in docs/reference/c-api*.md, and every field of
its options structs is named there. Every ration_*() in README.md and docs/**/*.md is a function of these headers.
"""
import glob
import os
import re
import shutil
import sys
import tempfile

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
EXPORTED = re.compile(r"\bRATION_API\b[^;{}()]*?\b(ration_[a-z0-9_]+)\s*\(")
INLINE = re.compile(r"\bstatic inline\b[^;{}()]*?\b(ration_[a-z0-9_]+)\s*\(")
OPTIONS = re.compile(r"struct (ration_[a-z_]*options|ration_rule|ration_redis) \{(.*?)\n\};", re.S)
FIELD = re.compile(r"\b([a-z][a-z0-9_]*);")
FENCED = re.compile(r"^```.*?^```$", re.S | re.M)
SPAN = re.compile(r"`([^`\n]+)`")
ROW = re.compile(r"^\| `(ration_[a-z0-9_]+)\(\)` \|", re.M)
CALL = re.compile(r"(?<![A-Za-z0-9_])(ration_[a-z0-9_]+)\(")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def check(folder):
    """The mistakes, each as one line."""
    functions, fields, rows, mistakes = {}, {}, {}, []
    for path in sorted(glob.glob(f"{folder}/include/ration/*.h")):
        code = COMMENT.sub("", read(path))
        name = f"include/ration/{os.path.basename(path)}"
        functions.update((match[1], name) for pattern in (EXPORTED, INLINE) for match in pattern.finditer(code))
        for options in OPTIONS.finditer(code):
            fields.update((field, options[1]) for field in FIELD.findall(options[2]) if field != "unused")
    if len(functions) < 100 or len(fields) < 20:
        return [f"only {len(functions)} functions and {len(fields)} options found in {folder}/include/ration"]

    reference = ""
    for path in sorted(glob.glob(f"{folder}/docs/reference/c-api*.md")):
        text = read(path)
        reference += text
        for match in ROW.finditer(text):
            rows.setdefault(match[1], []).append(f"{os.path.relpath(path, folder)}:{line_of(text, match.start())}")
    for function, header in functions.items():
        if function not in rows:
            mistakes.append(f"{header}: {function}() has no row in docs/reference/c-api*.md")
        elif len(rows[function]) > 1:
            mistakes.append(f"{function}() has several rows: {', '.join(rows[function])}")
    named = set(re.findall(r"\w+", " ".join(SPAN.findall(FENCED.sub("", reference)))))
    for field, struct in fields.items():
        if field not in named:
            mistakes.append(f"struct {struct}: {field} is not named in docs/reference/c-api*.md")

    for path in [f"{folder}/README.md"] + sorted(glob.glob(f"{folder}/docs/**/*.md", recursive=True)):
        text = read(path)
        for match in CALL.finditer(text):
            if match[1] not in functions:
                place = f"{os.path.relpath(path, folder)}:{line_of(text, match.start())}"
                mistakes.append(f"{place}: there is no public function {match[1]}()")
    return mistakes


def plant(folder, path, old, new):
    text = read(f"{folder}/{path}")
    assert old in text, f"{path} has no {old!r}: change the control"
    with open(f"{folder}/{path}", "w", encoding="utf-8") as file:
        file.write(text.replace(old, new))


PLANTED = [
    # (path, old text, new text, the mistake to find)
    ("docs/reference/c-api.md", "| `ration_bucket_take()` |", "| a take |", "ration_bucket_take() has no row"),
    ("docs/reference/c-api.md", "| `ration_bucket_peek()` |", "| `ration_bucket_take()` |", "ration_bucket_take() has several"),
    ("docs/reference/c-api-limiter.md", "`has_inline_limits`", "`inline`", "has_inline_limits is not named"),
    ("docs/reference/clocks.md", "# Clocks", "# Clocks\n\n`ration_clock_sundial()`", "no public function ration_clock_sundial()"),
    ("README.md", "# ", "# ration_gate_check() ", "no public function ration_gate_check()"),
    ("include/ration/clock.h", "RATION_C_END", "RATION_API int\nration_clock_added(void);\nRATION_C_END", "ration_clock_added() has no row"),
    ("include/ration/stats.h", "RATION_C_END", "static inline int ration_stats_added(int x)\n{ return x; }\nRATION_C_END", "ration_stats_added() has no row"),
]


def control(folder):
    missed = []
    for path, old, new, mistake in PLANTED:
        with tempfile.TemporaryDirectory() as copy:
            shutil.copytree(f"{folder}/docs", f"{copy}/docs")
            shutil.copytree(f"{folder}/include", f"{copy}/include")
            shutil.copy(f"{folder}/README.md", copy)
            plant(copy, path, old, new)
            if not any(mistake in found for found in check(copy)):
                missed.append(f"planted in {path} and not found: {mistake}")
    return missed


def main():
    is_control = sys.argv[1] == "--control"
    mistakes = control(sys.argv[2]) if is_control else check(sys.argv[1])
    print("\n".join(mistakes) or ("every planted mistake is found" if is_control else "complete"))
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
