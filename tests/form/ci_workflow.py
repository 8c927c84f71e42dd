#!/usr/bin/env python3
"""
.github/workflows/ci.yml runs what everybody runs: it is valid YAML, each preset, make target and script that it names
exists, and it leaves out no preset of tools/test.sh. Its token may only read, each job has a timeout and a container
of Debian 12, and actions are named by commit.

    ci_workflow.py SOURCE_FOLDER             checks the file
    ci_workflow.py --control SOURCE_FOLDER   plants mistakes in its text, one after the other; each must be reported
"""
import json
import os
import re
import sys

import yaml

WORKFLOW = ".github/workflows/ci.yml"
BOOTSTRAP = "apt-get update && apt-get install -y --no-install-recommends make git ca-certificates"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def presets_of_cmake(folder):
    """The compiler of each preset that can be configured, built and tested."""
    presets = json.loads(read(f"{folder}/CMakePresets.json"))
    configure = {preset["name"]: preset for preset in presets["configurePresets"]}

    def compiler(preset):
        return preset.get("cacheVariables", {}).get("CMAKE_C_COMPILER") or compiler(configure[preset["inherits"]])

    return {name: compiler(preset) for name, preset in configure.items()
            if all(name in [other["name"] for other in presets[kind]] for kind in ("buildPresets", "testPresets"))}


def check_run(folder, command, targets):
    """What is wrong with one step's command, in which {} stands for a preset."""
    words = command.split()
    if command == BOOTSTRAP:
        return
    if words[0] == "make" and len(words) == 2:
        if words[1] not in targets:
            yield f"the Makefile has no target {words[1]}"
    elif words == ["tools/test.sh", "${{", "matrix.preset", "}}"]:
        if not os.access(f"{folder}/tools/test.sh", os.X_OK):
            yield "tools/test.sh cannot be run"
    else:
        yield f"'{command}' is neither a make target nor tools/test.sh with a preset"


def check(folder, text):
    try:
        workflow = yaml.safe_load(text)
    except yaml.YAMLError as error:
        yield f"not valid YAML: {error}"
        return
    known = presets_of_cmake(folder)
    targets = set(re.findall(r"[a-z-]+", re.search(r"\.PHONY:((?:.*\\\n)*.*)", read(f"{folder}/Makefile"))[1]))
    default = re.search(r"presets=\(([a-z -]+)\)", read(f"{folder}/tools/test.sh"))[1].split()
    if workflow.get("permissions") != {"contents": "read"}:
        yield "the token may do more than read the sources"
    named = []
    for name, job in workflow["jobs"].items():
        if "permissions" in job:
            yield f"job {name} has permissions of its own"
        if not 1 <= job.get("timeout-minutes", 0) <= 60:
            yield f"job {name} has no timeout of at most 60 minutes"
        if job.get("container", {}).get("image") != "debian:12":
            yield f"job {name} does not run in debian:12, whose package names tools/install-packages.sh has"
        matrix = job.get("strategy", {}).get("matrix", {}).get("include", [])
        named += [entry["preset"] for entry in matrix]
        for entry in matrix:
            if entry["preset"] not in known:
                yield f"CMakePresets.json has no preset {entry['preset']} for configuring, building and testing"
            elif entry["compiler"] != known[entry["preset"]]:
                yield f"preset {entry['preset']} has the compiler {known[entry['preset']]}, not {entry['compiler']}"
        if not any("run" in step and step["run"] != BOOTSTRAP for step in job["steps"]):
            yield f"job {name} runs nothing"
        for step in job["steps"]:
            if "uses" in step and not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"]):
                yield f"{step['uses']} is not named by its commit"
            if "run" in step:
                yield from check_run(folder, step["run"], targets)
    for preset in default:
        if preset not in named:
            yield f"preset {preset} of tools/test.sh is in no job"


MISTAKES = [
    ("preset: asan", "preset: assan"),
    ("          - {preset: tsan, compiler: gcc}\n", ""),
    ("{preset: dev, compiler: clang}", "{preset: dev, compiler: gcc}"),
    ("make check", "make chekc"),
    ("make tidy", "ctest --preset dev"),
    ("contents: read", "contents: write"),
    ("    timeout-minutes: 20\n", ""),
    ("image: debian:12", "image: debian:13"),
    ("checkout@11bd71901bbe5b1630ceea73d27597364c9af683", "checkout@v4"),
    ("jobs:\n", "jobs:\n\t"),
    ("      - run: make prove\n", ""),
]


def control(folder, text):
    missed = [old for old, new in MISTAKES if old not in text or not any(check(folder, text.replace(old, new, 1)))]
    for old in missed:
        print(f"a mistake was not reported in: {old.strip()}")
    print(f"{len(MISTAKES)} planted mistakes, {len(MISTAKES) - len(missed)} reported")
    return 1 if missed else 0


def main():
    folder = sys.argv[-1]
    text = read(f"{folder}/{WORKFLOW}")
    if sys.argv[1] == "--control":
        return control(folder, text)
    wrong = list(check(folder, text))
    print("\n".join(wrong) or "the workflow is what it should be")
    return 1 if wrong else 0


sys.exit(main())
