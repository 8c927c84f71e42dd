#!/usr/bin/env python3
"""
Runs clang-tidy, as .clang-tidy says, over the sources of the library, the server and tools/bench.

    tools/tidy.py            checks each file that has changed since it was last found clean
    tools/tidy.py --all      checks every file
    tools/tidy.py --control  plants bugs, one per file; each must be reported

The whole takes minutes of CPU time, so what was found clean is remembered in build/tidy: by a hash of the file as the
preprocessor sees it, with all of its headers, and of the settings, the compiler's flags and clang-tidy's version. The
flags are those of the dev preset, which is configured and not built.
"""
import concurrent.futures
import glob
import hashlib
import json
import os
import resource
import shlex
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = f"{ROOT}/build/dev"
CLEAN = f"{ROOT}/build/tidy"
FOLDERS = ("src/", "tools/bench/")
ENTRIES_KEPT_MAX = 2000

# What must be reported, by which check, so that a check that no longer works is noticed.
CONTROLS = {
    "clang-analyzer-core.NullDereference":
        "int f(int *p) { if (p == 0) return *p; return 0; }",
    "clang-analyzer-core.uninitialized.Assign":
        "int f(int c) { int x; if (c) x = 1; int y = x; return y; }",
    "clang-analyzer-unix.Malloc":
        "#include <stdlib.h>\nint f(void) { char *p = malloc(1); if (!p) return 0; free(p); return *p; }",
    "clang-analyzer-valist.Unterminated":
        "#include <stdarg.h>\nvoid f(int n, ...) { va_list a; va_start(a, n); }",
    "bugprone-suspicious-memset-usage":
        "#include <string.h>\nvoid f(int *p) { memset(p, '0', 8); }",
    "bugprone-suspicious-string-compare":
        "#include <string.h>\nint f(const char *a) { if (strcmp(a, \"b\")) return 1; return 0; }",
    "bugprone-infinite-loop":
        "int f(int n) { int i = 0; while (i < n) { } return i; }",
    "misc-redundant-expression":
        "int f(int a) { return a == a; }",
    "cert-msc50-cpp":
        "#include <stdlib.h>\nint f(void) { return rand(); }",
    "readability-misleading-indentation":
        "int f(int a) {\n    if (a)\n        a = 1;\n        a = 2;\n    return a;\n}",
}


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def tidy(path, options=(), flags=()):
    """The status, the report with paths below the root, and what clang-tidy has to say of itself."""
    done = run("clang-tidy", "--quiet", *options, path, *flags)
    return done.returncode, done.stdout.replace(ROOT + "/", ""), done.stderr


def check_controls():
    missed = []
    folder = f"{CLEAN}/control"
    os.makedirs(folder, exist_ok=True)
    for name, source in CONTROLS.items():
        path = f"{folder}/{name}.c"
        with open(path, "w") as file:
            file.write(source + "\n")
        status, output, errors = tidy(path, [f"--config-file={ROOT}/.clang-tidy"], ["--", "-std=gnu11"])
        if status == 0 or f"[{name}" not in output and f",{name}" not in output:
            missed.append(f"not reported as {name}:\n{source}\n{output}{errors}")
    print("\n".join(missed) or f"{len(CONTROLS)} planted bugs, all reported")
    return 1 if missed else 0


def hash_of(entry, settings):
    """What the result depends on. None: the preprocessor failed, so that clang-tidy may say why."""
    command = shlex.split(entry["command"])
    at = command.index("-o")
    del command[at : at + 2]
    command.remove("-c")
    # -dD keeps the definitions of macros, -CC the comments, which may hold a NOLINT
    done = subprocess.run([*command, "-E", "-dD", "-CC"], capture_output=True, cwd=entry["directory"])
    if done.returncode != 0:
        return None
    return hashlib.sha256(settings + "\0".join(command).encode() + done.stdout).hexdigest()


def check_file(entry, settings, check_all):
    """(the path, whether clang-tidy ran, what it reported)"""
    name = os.path.relpath(entry["file"], ROOT)
    key = hash_of(entry, settings)
    mark = key and f"{CLEAN}/{key}"
    if mark and not check_all and os.path.exists(mark):
        os.utime(mark)
        return name, False, ""
    status, output, errors = tidy(entry["file"], ["-p", BUILD])
    if status != 0:
        return name, True, output or errors
    if mark:
        open(mark, "w").close()
    return name, True, ""


def forget_old():
    marks = sorted(os.scandir(CLEAN), key=lambda mark: mark.stat().st_mtime, reverse=True)
    for mark in marks[ENTRIES_KEPT_MAX:]:
        if mark.is_file():
            os.remove(mark)


def check_sources(check_all):
    begun = time.monotonic()
    configured = run("cmake", "--preset", "dev", "--log-level=WARNING")
    if configured.returncode != 0:
        sys.exit(f"tidy: cmake --preset dev failed:\n{configured.stdout}{configured.stderr}")
    with open(f"{BUILD}/compile_commands.json") as file:
        entries = [entry for entry in json.load(file)
                   if entry["file"].endswith(".c") and os.path.relpath(entry["file"], ROOT).startswith(FOLDERS)]
    entries = list({entry["file"]: entry for entry in entries}.values())
    if not entries:
        sys.exit("tidy: no source was found in build/dev/compile_commands.json")
    settings = run("clang-tidy", "--version").stdout.encode()
    for path in [f"{ROOT}/.clang-tidy", *sorted(glob.glob(f"{ROOT}/src/**/.clang-tidy", recursive=True))]:
        with open(path, "rb") as file:
            settings += file.read()
    os.makedirs(CLEAN, exist_ok=True)
    checked = 0
    bad = []
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for name, ran, report in pool.map(lambda entry: check_file(entry, settings, check_all), entries):
            checked += ran
            if report:
                bad.append(name)
                print(report.rstrip(), flush=True)
    forget_old()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{len(entries)} files, {checked} checked, {len(bad)} with findings in {time.monotonic() - begun:.0f} s "
          f"({usage.ru_utime + usage.ru_stime:.0f} s of CPU time)")
    return 1 if bad else 0


def main(arguments):
    if not set(arguments) <= {"--all", "--control"}:
        sys.exit(__doc__)
    if "--control" in arguments:
        return check_controls()
    return check_sources("--all" in arguments)


sys.exit(main(sys.argv[1:]))
