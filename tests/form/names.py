#!/usr/bin/env python3
"""
Names that a newcomer can follow: a function says where it lives, and a file name says which file.

    names.py prefixes NM SOURCE_FOLDER OBJECT...     functions and variables begin with ration_<module>_, unless static in a .c
    names.py files SOURCE_FOLDER                     no two files of the tree have the same name
    names.py unused NM SOURCE_FOLDER OBJECT...       no function of the product is called by tests only, or could be static
    names.py statics SOURCE_FOLDER                   the name of a static function says what it does to what
    names.py --control CHECK ARGUMENT...             the check finds each of the cases that are planted

The module of a function is its folder, its file, or the header that declares it; of a name in several words the first
ones are enough (limit_text.c may define ration_limit_parse()).

A function is used if it can be reached from main(), from what a public header offers, or from an initialiser at file
level. Which function refers to which is read from the text, so functions that only call each other are found, and so
are inline functions of headers. An identifier refers to a static function of its own file before any other. The load
generator (tools/bench/load) is part of the product.

A function that only its own file uses is static, unless a test calls it too.

A static function has no prefix, so its name has at least two words: a reader who meets send() or release() in a file
cannot see what is sent or released, nor whether it is the system's function of that name. There are no exceptions yet.
"""
import collections
import functools
import os
import re
import subprocess
import sys

PRODUCT = ("src", "include", "tools/bench/load")

# These stand in for a file of the same name, which their folder hides.
STAND_INS = {"tests/support/yielding/base/atomic16.h"}


def beginnings(name):
    words = name.split("_")
    return {"_".join(words[: i + 1]) for i in range(len(words))}


def files(folder, tops, extensions=(".c", ".h")):
    """The paths of files, below folder."""
    for top in tops:
        for place, _, names in sorted(os.walk(f"{folder}/{top}")):
            yield from (os.path.relpath(f"{place}/{name}", folder) for name in sorted(names) if name.endswith(extensions))


# Objects


def source_of(path, folder):
    """
    The path of an object's source below folder: src/NAME.dir/file.c.o was made from src/file.c or from file.c, or from a
    file that the build has written beside.
    """
    build, place, source = re.search(r"^(.*?(\w*))/CMakeFiles/\w+\.dir/(.*)\.o$", path).groups()
    written = os.path.relpath(f"{build}/{source}", folder)
    found = [name for name in map(os.path.normpath, (source, f"{place}/{source}", written)) if os.path.exists(f"{folder}/{name}")]
    if not found:
        sys.exit(f"{path}: where is its source?")
    return found[0]


@functools.cache
def symbols(nm, path, *options):
    lines = subprocess.run([nm, *options, path], check=True, capture_output=True, text=True).stdout.splitlines()
    return [line.split() for line in lines]


def defined(nm, folder, objects, planted=None):
    """(symbol, source) of all that objects define for others: weak functions and common variables, too."""
    found = [(source_of(path, folder), symbols(nm, path, "-g", "--defined-only")) for path in objects]
    if isinstance(planted, tuple):
        found.append((planted[0], [planted[1].split()]))
    for source, lines in found:
        if source.endswith(".c"):  # not a file that the build puts into an object
            yield from ((name, source) for _, kind, name in lines if kind.isalpha() and name != "main")


# Text


@functools.cache
def code(path):
    """A file's text without comments, strings and characters; the lines stay."""
    text = open(path).read().replace("\\\n", " ")
    literals = r"""/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+'"""
    return re.sub(literals, lambda found: "\n" * found[0].count("\n") or " ", text, flags=re.S)


def drop_calls(text, name):
    """The text without name(...), where name is a regular expression; parentheses may be nested."""
    while found := re.search(rf"\b(?:{name})\s*\(", text):
        end, depth = found.end(), 1
        while depth > 0 and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        text = text[: found.start()] + " " + text[end:]
    return text


KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "typeof", "void", "int", "bool", "char", "static_assert"}


def declared_function(declaration):
    """(name, whether it is static) of a declaration or the beginning of a definition, or None."""
    declaration = drop_calls(declaration, r"__attribute__|_Alignas|alignas|[A-Z][A-Z0-9_]*")
    found = re.search(r"\b(\w+)\s*\(", declaration)
    before = declaration[: found.start()] if found else ""
    if not found or "=" in before or not before.strip() or found[1] in KEYWORDS or before.split()[0] == "typedef":
        return None
    return found[1], "static" in before.split()


Function = collections.namedtuple("Function", "path name is_static declaration body")


@functools.cache
def parse(path, text):
    """The functions that a text defines, its macros {name: body}, and all that is left: what stands at file level."""
    functions, macros, level = [], collections.defaultdict(str), []
    declaration, body, unread = [], None, []
    for line in text.split("\n"):
        if body is not None:
            if line.startswith("}"):
                found = declared_function(" ".join(declaration))
                if found is None:
                    unread.append(" ".join(declaration))
                else:
                    functions.append(Function(path, *found, " ".join(declaration), "\n".join(body)))
                declaration, body = [], None
            elif macro := re.match(r"\s*#\s*define\s+(\w+)(.*)", line):
                macros[macro[1]] += macro[2] + "\n"
            else:
                body.append(line)
            continue
        short = re.match(r"([^\s#=][^=]*\))\s*\{(.*)\}\s*$", line)
        if line.startswith("{"):
            body = []
        elif short and declared_function(short[1]):
            functions.append(Function(path, *declared_function(short[1]), short[1], short[2]))
        elif macro := re.match(r"\s*#\s*define\s+(\w+)(.*)", line):
            macros[macro[1]] += macro[2] + "\n"
        elif not line.strip() or line.startswith("#") or line.rstrip().endswith(";") or line.startswith("}"):
            level += declaration + ([] if line.startswith("#") else [line])
            declaration = []
        else:
            declaration.append(line)
    return functions, dict(macros), "\n".join(level + declaration), unread


def texts_of(folder, tops, planted=None):
    """{path: code}, with planted code at the end of its files."""
    texts = {path: code(f"{folder}/{path}") for path in files(folder, tops)}
    for path, text in (planted or {}).items():
        texts[path] = texts.get(path, "") + "\n" + text
    return texts


def identifiers(text):
    """What the text refers to: not members, and not tags of types."""
    return set(re.findall(r"(?<![\w.])(?<!->)[A-Za-z_]\w*", re.sub(r"\b(struct|enum|union)\s+\w+", " ", text)))


def referred_at_file_level(text):
    """What initialisers and the like refer to: not what is only declared."""
    return identifiers("\n".join(part for part in re.split(r"[;{}]", text) if declared_function(part) is None))


def headers(folder):
    found = collections.defaultdict(set)
    for path in files(folder, ("src", "include")):
        if path.endswith(".h"):
            for identifier in set(re.findall(r"\bration_\w+", open(f"{folder}/{path}").read())):
                found[identifier].add((os.path.dirname(path), os.path.basename(path)[:-2]))
    return found


def inline_functions(folder, planted):
    """The functions that headers define, with their paths. Those of public headers have the prefix of what they act on."""
    for path, text in texts_of(folder, ("src", "tools/bench/load"), planted).items():
        if path.endswith(".h"):
            for function in parse(path, text)[0]:
                yield function.name, path


def check_prefixes(nm, folder, *objects, planted=None):
    declared = headers(folder)
    planted_texts = planted if isinstance(planted, dict) else None
    bad = []
    for name, source in [*defined(nm, folder, objects, planted), *inline_functions(folder, planted_texts)]:
        if source.startswith("tools/bench/load/"):
            if not name.startswith("load_"):
                bad.append(f"{source}: {name} does not begin with its module: load_")
            continue
        parts = source.split("/")[1:]
        modules = set(parts[:-1]) | beginnings(parts[-1][:-2])
        for place, header in declared[name]:
            if place == "include/ration" or place == os.path.dirname(source):
                modules |= beginnings(header)
        if not any(name == f"ration_{module}" or name.startswith(f"ration_{module}_") for module in modules):
            bad.append(f"{source}: {name} does not begin with its module: ration_{parts[0]}_ or ration_{parts[-1][:-2]}_")
    return bad


def check_files(folder, planted=None):
    places = collections.defaultdict(list)
    tops = ("src", "include", "tools", "examples", "tests")
    for path in [*files(folder, tops, (".c", ".cc", ".h", ".lua", ".py", ".sh")), *([planted] if planted else [])]:
        if path not in STAND_INS and not path.startswith("tests/fuzz/corpus/"):
            places[os.path.basename(path)].append(path)
    return [f"{name}: {' and '.join(sorted(paths))}" for name, paths in sorted(places.items()) if len(paths) > 1]


def find_unreachable(texts):
    """The functions that nothing of the product reaches."""
    nodes = {}  # key: references as (path, identifier)
    functions = []
    global_keys = collections.defaultdict(set)  # name: keys of what every file can mean by it
    roots = []
    for path, text in texts.items():
        is_public = path.startswith("include/")
        defined_here, macros, level, unread = parse(path, text)
        if unread:
            sys.exit(f"{path}: cannot read: {unread}")
        for name, body in macros.items():
            key = (path, "#" + name)
            nodes[key] = {("#" + path, word) for word in identifiers(body)}
            global_keys[name].add(key)
            if is_public:
                roots.append(key)
        for function in defined_here:
            key = (path, function.name)
            functions.append(function)
            nodes.setdefault(key, set()).update((path, word) for word in identifiers(function.body) | identifiers(
                drop_calls(function.declaration, re.escape(function.name))))
            if not function.is_static or path.endswith(".h"):
                global_keys[function.name].add(key)
            if function.name == "main" or is_public or re.search(r"\b(con|de)structor\b", function.declaration):
                roots.append(key)
        roots += [(path, word) for word in referred_at_file_level(level)]
        if is_public:
            roots += [(path, word) for word in re.findall(r"\bRATION_API\b[^;(]*?(\w+)\s*\(", level)]

    # The words of a header's macro may mean static functions of the files that use it.
    statics = collections.defaultdict(set)
    for function in functions:
        statics[function.name].add((function.path, function.name))
    seen, waiting = set(), roots
    while waiting:
        place, word = waiting.pop()
        path = place.lstrip("#")
        own = {(path, word), (path, "#" + word)} & nodes.keys()
        found = own or global_keys[word] or (statics[word] if place != path and path.endswith(".h") else set())
        for key in found - seen:
            seen.add(key)
            waiting.extend(nodes[key])
    return [function for function in functions if (function.path, function.name) not in seen]


def check_unused(nm, folder, *objects, planted=None):
    planted_texts = planted if isinstance(planted, dict) else None
    bad = [
        f"{function.path}: {function.name}(): no part of the product calls it: delete it"
        for function in find_unreachable(texts_of(folder, PRODUCT, planted_texts))
    ]
    public = identifiers("".join(texts_of(folder, ("include",)).values()))
    tests = identifiers("".join(texts_of(folder, ("tests",)).values()))
    used = collections.defaultdict(set)
    for path in objects:
        for words in symbols(nm, path, "-u"):
            used[words[-1]].add(source_of(path, folder))
    for name, source in defined(nm, folder, objects, planted):
        if name not in public | tests and not used[name] - {source}:
            bad.append(f"{source}: {name}() is used in its file only: make it static")
    return sorted(set(bad))


def check_statics(folder, planted=None):
    bad = set()
    for path, text in texts_of(folder, ("src", "include", "tools"), planted).items():
        functions, _, level, unread = parse(path, text)
        bad |= {f"{path}: cannot read: {declaration}" for declaration in unread}
        found = [(function.name, function.is_static) for function in functions]
        found += filter(None, (declared_function(statement) for statement in re.split(r"[;{}]", level)))
        bad |= {f"{path}: {name}() has one word: say what it acts on" for name, is_static in found
                if is_static and "_" not in name.strip("_")}
    return sorted(bad)


CHECKS = {"prefixes": check_prefixes, "files": check_files, "unused": check_unused, "statics": check_statics}

# Each case is tried by itself: a symbol of a source as nm prints it, a file name, or text at the end of files.
SEND = "(int file)\n{\n}\n"
PLANTED = {
    "prefixes": [
        ("src/base/wide.c", "00 T ration_elsewhere_begin"),
        ("src/base/wide.c", "00 W ration_elsewhere_begin"),
        ("src/base/wide.c", "04 C ration_elsewhere_count"),
        {"src/base/wide.h": "static inline int planted_sum(void)\n{\n}\n"},
        {"src/base/wide.h": "static inline int ration_elsewhere_sum(void)\n{\n}\n"},
        {"src/base/wide.h": "int ration_elsewhere_sum(void)\n{\n}\n"},
        ("src/cli/main.c", "00 T begin"),
        ("tools/bench/load/batch.c", "00 T begin"),
    ],
    "files": [
        "src/engine/limit.c",
        "tools/bench/peers.h",
        "tests/redis/engine_test.c",
        "tests/load/server.sh",
        "examples/policy.c",
        "tools/bench/take.lua",
        "tests/e2e/http/names.py",
    ],
    "unused": [
        ("src/base/clock.c", "00 T ration_base_planted"),
        {"src/base/clock.c": "int ration_base_planted(void)\n{\n}\n"},
        {"src/base/wide.h": "static inline int ration_wide_planted(void)\n{\n    return 1;\n}\n"},
        {"src/base/clock.c": "int ration_base_planted(int n)\n{\n    return ration_base_planted(n - 1);\n}\n"},
        {"src/base/clock.c": "static int planted_one(int n)\n{\n    return planted_one(n - 1);\n}\n"},
        {"src/base/clock.c": "int ration_base_odd(int n)\n{\n    return ration_base_even(n - 1);\n}\n\n"
                             "int ration_base_even(int n)\n{\n    return ration_base_odd(n - 1);\n}\n"},
        {"src/base/clock.c": "int ration_base_odd(int n)\n{\n    return ration_base_even(n - 1);\n}\n",
         "src/base/wall.c": "int ration_base_even(int n)\n{\n    return ration_base_odd(n - 1);\n}\n",
         "src/base/wall.h": "int ration_base_odd(int n);\nint ration_base_even(int n);\n"},
        {"src/base/wall.h": "#define RATION_PLANTED(n) ration_base_planted(n)\n\nint ration_base_planted(int n);\n",
         "src/base/wall.c": "int ration_base_planted(int n)\n{\n    return n;\n}\n"},
        {"src/base/wall.h": "struct ration_base_planted {\n    int n;\n};\n\nint other(int ration_base_planted);\n",
         "src/base/wall.c": "int ration_base_planted(struct ration_base_planted *n)\n{\n    return n->ration_base_planted;\n}\n"},
        {"src/base/wall.c": "int ration_base_planted(int n)\n{\n    return n;\n}\n",
         "src/base/clock.c": "static int ration_base_planted(int n)\n{\n}\n\nint main(void)\n{\n    ration_base_planted();\n}\n"},
    ],
    "statics": [
        {"src/redis/planted.c": "static void send(int file);\n"},
        {"src/redis/planted.c": "static void send" + SEND},
        {"src/redis/planted.h": "inline static void send" + SEND},
        {"src/redis/planted.c": "static void send(int file) { close(file); }\n"},
        {"src/base/planted.c": "static inline __attribute__((noinline)) struct pair *\nload" + SEND},
        {"src/base/planted.c": "__attribute__((noinline)) static int send" + SEND},
        {"src/base/planted.c": "__attribute__((format(printf, 2, 3))) static int send(int file);\n"},
        {"src/base/planted.c": 'static RATION_TARGET("avx2") int send' + SEND},
        {"src/base/planted.c": 'RATION_TARGET("avx2") static int send' + SEND},
        {"src/base/planted.c": "RATION_WITH_AES static ALWAYS_INLINE int send" + SEND},
        {"tools/bench/planted.c": "static void send" + SEND},
    ],
}


def main(arguments):
    if arguments[0] != "--control":
        bad = CHECKS[arguments[0]](*arguments[1:])
        print("\n".join(bad), end="\n" if bad else "")
        return 1 if bad else 0
    _, check, *rest = arguments
    before = set(CHECKS[check](*rest))
    missed = [plant for plant in PLANTED[check] if not set(CHECKS[check](*rest, planted=plant)) - before]
    for plant in missed:
        print(f"not found: {plant}")
    return 1 if missed else 0


sys.exit(main(sys.argv[1:]))
