#!/usr/bin/env python3
"""
Names that a newcomer can follow: a function says where it lives, and a file name says which file.

    names.py prefixes NM SOURCE_FOLDER OBJECT...     each function that is not static begins with ration_<module>_
    names.py files SOURCE_FOLDER                     no two source files have the same name
    names.py unused NM SOURCE_FOLDER OBJECT...       no function of the product is called by tests only, or could be static
    names.py statics SOURCE_FOLDER                   the name of a static function says what it does to what
    names.py --control CHECK ARGUMENT...             the check finds a case that is planted

The module of a function is its folder, its file, or the header that declares it; of a name in several words the first
ones are enough (limit_text.c may define ration_limit_parse()).

A function is used if a public header declares it, or another source of the product refers to it. One that only its own
file uses is static, unless a test calls it too.

A static function has no prefix, so its name has at least two words: a reader who meets send() or release() in a file
cannot see what is sent or released, nor whether it is the system's function of that name. There are no exceptions yet.
"""
import collections
import os
import re
import subprocess
import sys


def fail(lines):
    for line in lines:
        print(line)
    return 1 if lines else 0


def beginnings(name):
    words = name.split("_")
    return {"_".join(words[: i + 1]) for i in range(len(words))}


def source_of(path, folder):
    """The source of an object, below the folder of all sources."""
    found = re.search(r"/src/(.*)\.o$", path)
    return found[1] if found and os.path.exists(f"{folder}/src/{found[1]}") else None


def symbols(nm, path, *options):
    lines = subprocess.run([nm, *options, path], check=True, capture_output=True, text=True).stdout.splitlines()
    return [line.split() for line in lines]


def headers(folder):
    found = collections.defaultdict(set)
    for top in ("src", "include"):
        for place, _, names in os.walk(f"{folder}/{top}"):
            for name in names:
                if name.endswith(".h"):
                    text = open(f"{place}/{name}").read()
                    for identifier in set(re.findall(r"\bration_\w+", text)):
                        found[identifier].add((place, name[:-2]))
    return found


def defined(nm, folder, objects):
    for path in objects:
        source = source_of(path, folder)
        if source is not None:
            for words in symbols(nm, path, "-g", "--defined-only"):
                if words[1] in "TDRBV":
                    yield words[2], source


def check_prefixes(nm, folder, *objects, planted=()):
    declared = headers(folder)
    bad = []
    for name, source in [*defined(nm, folder, objects), *planted]:
        parts = source.split("/")
        modules = set(parts[:-1]) | beginnings(parts[-1][:-2])
        for place, header in declared[name]:
            if place == f"{folder}/include/ration" or place == f"{folder}/src/" + "/".join(parts[:-1]):
                modules |= beginnings(header)
        if not any(name == f"ration_{module}" or name.startswith(f"ration_{module}_") for module in modules):
            bad.append(f"src/{source}: {name}() does not begin with its module: ration_{parts[0]}_ or ration_{parts[-1][:-2]}_")
    return fail(bad)


def check_files(folder, planted=()):
    places = collections.defaultdict(list)
    for top in ("src", "include"):
        for place, _, names in os.walk(f"{folder}/{top}"):
            for name in names:
                if name.endswith((".c", ".h")):
                    places[name].append(os.path.relpath(f"{place}/{name}", folder))
    for path in planted:
        places[os.path.basename(path)].append(path)
    return fail([f"{name}: {' and '.join(sorted(paths))}" for name, paths in sorted(places.items()) if len(paths) > 1])


def code(path):
    """A file's text without comments and strings; nothing if there is no such file."""
    text = open(path).read() if os.path.exists(path) else ""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"', " ", text, flags=re.S)


def folder_code(folder):
    return "".join(code(f"{place}/{name}") for place, _, names in os.walk(folder) for name in names if name.endswith((".c", ".h")))


def check_unused(nm, folder, *objects, planted=()):
    public = folder_code(f"{folder}/include/ration")
    tests = folder_code(f"{folder}/tests")
    used = collections.defaultdict(set)
    for path in objects:
        for words in symbols(nm, path, "-u"):
            used[words[-1]].add(source_of(path, folder))
    bad = []
    for name, source in [*defined(nm, folder, objects), *planted]:
        word = re.compile(rf"\b{name}\b")
        if word.search(public) or used[name] - {source}:
            continue
        if len(word.findall(code(f"{folder}/src/{source}"))) < 2:
            bad.append(f"src/{source}: {name}() is called by no part of the product: delete it")
        elif not word.search(tests):
            bad.append(f"src/{source}: {name}() is used in its file only: make it static")
    return fail(bad)


# A definition or declaration at the beginning of a line: static, types and attributes, name(
STATIC = re.compile(r"^static\b(?:__attribute__\s*\(\(.*?\)\)|[\w\s*])*?\b(\w+)\s*\((?!\()", re.M | re.S)


def check_statics(folder, planted=()):
    texts = list(planted)
    for place, _, names in os.walk(f"{folder}/src"):
        texts += [(os.path.relpath(f"{place}/{name}", folder), code(f"{place}/{name}")) for name in names if name.endswith((".c", ".h"))]
    bad = {f"{path}: {name}() has one word: say what it acts on" for path, text in texts for name in STATIC.findall(text) if "_" not in name}
    return fail(sorted(bad))


CHECKS = {"prefixes": check_prefixes, "files": check_files, "unused": check_unused, "statics": check_statics}
PLANTED = {
    "prefixes": [("ration_elsewhere_begin", "base/time.c")],
    "files": ["src/engine/limit.c"],
    "unused": [("ration_base_planted", "base/clock.c")],
    "statics": [
        ("src/redis/planted.c", "static void send(int file);\n"),
        ("src/base/planted.c", "static inline __attribute__((noinline)) struct pair *\nload(int file)\n{\n}\n"),
    ],
}


def main(arguments):
    if arguments[0] != "--control":
        return CHECKS[arguments[0]](*arguments[1:])
    missed = [plant for plant in PLANTED[arguments[1]] if CHECKS[arguments[1]](*arguments[2:], planted=[plant]) == 0]
    for plant in missed:
        print(f"not found: {plant}")
    return 1 if missed else 0


sys.exit(main(sys.argv[1:]))
