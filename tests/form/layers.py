#!/usr/bin/env python3
"""
A wrong include does not compile: with the include paths that the build gives a module, a header of each other module is
found if and only if the module USES it. Every pair is tried, with a header that exists.

    layers.py CC MODULES SOURCE_FOLDER              MODULES: a line per module, "name|path|used modules|include folders"
    layers.py --control CC MODULES SOURCE_FOLDER    an include path too many, one too few and a relative include are found
"""
import os
import re
import subprocess
import sys
import tempfile


def read_modules(path):
    modules = {}
    for line in open(path):
        name, place, uses, folders = line.rstrip("\n").split("|")
        modules[name] = {"path": place, "uses": set(uses.split(";")) - {""}, "folders": folders.split(";")}
    return modules


def header_of(name, module):
    """A header by which the module is looked for, as it is included."""
    for folder in module["folders"]:
        place = f"{folder}/{module['path']}"
        if folder.endswith(f"/layers/{name}") and os.path.isdir(place):
            headers = sorted(entry for entry in os.listdir(place) if entry.endswith(".h"))
            return f"{module['path']}/{headers[0]}" if headers else None
    sys.exit(f"{name}: its own headers are not on its include path")


def visible(cc, module, headers):
    """Those of the headers that a file of the module can include."""
    text = "".join(f'#if __has_include("{header}")\nseen {name}\n#endif\n' for name, header in headers.items())
    flags = [f"-I{folder}" for folder in module["folders"]]
    result = subprocess.run([cc, "-E", "-P", "-x", "c", *flags, "-"], input=text, capture_output=True, text=True, check=True)
    return set(re.findall(r"seen (\w+)", result.stdout))


def check_pairs(cc, modules):
    headers = {name: header_of(name, module) for name, module in modules.items()}
    headers = {name: header for name, header in headers.items() if header is not None}
    wrong = []
    for name, module in modules.items():
        seen = visible(cc, module, headers)
        for other in headers:
            may = other == name or other in module["uses"]
            if may != (other in seen):
                wrong.append(f"{name} {'should' if may else 'must not'} see {headers[other]}")
    return wrong


def check_text(folder):
    """Nobody steps around the paths, and the command line sees public headers of the library only."""
    wrong = []
    for place, _, names in os.walk(folder):
        for name in names:
            if not name.endswith((".c", ".h")):
                continue
            text = open(f"{place}/{name}").read()
            if re.search(r'#include "\.\./', text):
                wrong.append(f"{place}/{name} includes by a relative path")
            if place.endswith("/cli") and re.search(r'#include "(base|core|bucket|table|limiter|policy|engine|api)/', text):
                wrong.append(f"{place}/{name} includes a private header of the library")
    return wrong


def control(cc, modules, folder):
    first, last = list(modules)[0], list(modules)[-1]
    too_many = {name: dict(module) for name, module in modules.items()}
    too_many[first]["folders"] = modules[first]["folders"] + modules[last]["folders"]
    too_few = {name: dict(module) for name, module in modules.items()}
    too_few[last]["uses"] = modules[last]["uses"] | {next(n for n in modules if n != last and n not in modules[last]["uses"])}
    with tempfile.TemporaryDirectory() as planted:
        open(f"{planted}/a.c", "w").write('#include "../base/time.h"\n')
        found = [check_pairs(cc, too_many), check_pairs(cc, too_few), check_text(planted)]
    for wrong, what in zip(found, ("an include path too many", "one too few", "a relative include")):
        if not wrong:
            sys.exit(f"{what} was not found")


def main(arguments):
    is_control = arguments[0] == "--control"
    cc, list_path, folder = arguments[1:] if is_control else arguments
    modules = read_modules(list_path)
    if is_control:
        return control(cc, modules, folder)
    wrong = check_pairs(cc, modules) + check_text(folder)
    print("\n".join(wrong) or f"{len(modules)} modules, {len(modules) * (len(modules) - 1)} pairs")
    return 1 if wrong else 0


sys.exit(main(sys.argv[1:]))
