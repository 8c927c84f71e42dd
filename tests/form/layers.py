#!/usr/bin/env python3
"""
Who may include what, tried and read.

A wrong include of a private header does not compile: with the include paths that the build gives a module, a header of
each other module is found if and only if the module USES it. Every pair is tried, with a header that exists.

Public headers and those of other projects are on everybody's path, so these includes are read from the text:

- A public header belongs to the module that implements it (OWNERS). A module includes those of itself and of the modules
  that it USES, directly or through others. This holds between public headers, too. The command line and the tools are
  customers and include any.
- Headers of libraries have one or two places (LIBRARIES). Headers of the system that a module must not need are in
  WITHOUT. Any other header is unknown, and refused until it is listed.
- The command line includes private headers of the server and of the load generator only.

    layers.py CC MODULES SOURCE_FOLDER              MODULES: a line per module, "name|path|used modules|include folders"
    layers.py --control CC MODULES SOURCE_FOLDER    planted violations, one of each kind, are found
"""
import os
import re
import subprocess
import sys
import tempfile

# The module that implements each public header.
OWNERS = {
    "status": "base",
    "export": "base",
    "clock": "base",
    "decision": "base",
    "limit": "core",
    "retry": "core",
    "stats": "stats",
    "bucket": "bucket",
    "limiter": "limiter",
    "dump": "limiter",
    "stack": "limiter",
    "policy": "policy",
    "redis": "redis",
    "engine": "engine",
    "version": "api",
    "ration": "api",
}

# What a module uses of the library by public headers alone, as any customer could. Modules that USE it may do the same.
CUSTOMERS = {
    "codec_json": {"limiter", "policy", "stats"},  # answers of a limiter, of a policy; numbers of /stats
    "codec_http": {"core", "limiter", "policy"},  # requests that name limits, carry costs and attributes
    "codec_resp": {"core", "limiter"},  # CL.THROTTLE carries a limit, and is answered by a limiter
    "server_ops": {"bucket", "engine", "api"},  # owns the engine; a bucket bounds the lines of the log
}

# (who includes, what): includes upwards that are right.
EXCEPTIONS = {
    ("base", "limit"): "base/time.h: struct ration_time is public as a part of a limit, and base has its arithmetic",
    ("policy", "limiter"): "struct ration_key and the overflow rule, which a policy names: types, no function",
    ("limiter", "bucket"): "limiter.h: enum ration_change, which buckets and limiters have in common",
}

# Headers of libraries, and the files or folders that may include them.
LIBRARIES = {
    r"hiredis/": ("redis/", "server/ops/redis_loop.c", "cli/cmd_check.c"),
    r"uv\.h": ("server/net/loop_parts.h", "server/ops/redis_loop.c"),
    r"yaml\.h": ("policy/document.c",),
    r"jansson\.h": ("codec/http/check_json.c", "load/report_json.c"),
    r"http_parser\.h": ("codec/http/http_head.c", "load/"),
    r"xxhash\.h": ("base/hash.c",),
    r"pthread\.h": ("base/", "limiter/", "redis/", "engine/", "server/net/", "server/ops/", "load/"),
    r"sanitizer/": ("base/",),
}

# Headers of the system, and of the compiler.
SYSTEM = (
    r"(assert|ctype|dirent|endian|errno|fcntl|features|getopt|inttypes|limits|math|netdb|poll|sched|signal|stdalign|stdarg|"
    r"stdbool|stddef|stdint|stdio|stdlib|string|strings|time|unistd|cpuid|immintrin|arm_neon)\.h|(sys|linux|netinet|arpa)/\w+\.h"
)

# What a folder must not need.
SOCKETS = r"(sys/(socket|un|epoll|eventfd|ioctl)|netdb|arpa/inet|netinet/\w+|poll|linux/sockios)\.h"
TIME = r"(time|sys/time|sched|signal)\.h"
WITHOUT = {
    "core/": rf"{SOCKETS}|{TIME}|(stdlib|unistd|fcntl|dirent|stdatomic|sys/\w+|linux/\w+|errno)\.h",
    "bucket/": rf"{SOCKETS}|{TIME}|(stdlib|stdio|unistd|fcntl)\.h",
    "stats/": SOCKETS,
    "table/": r"(sys/socket|netdb|arpa/inet|netinet/\w+)\.h",
    "limiter/": SOCKETS,
    "store/": SOCKETS,
    "policy/": SOCKETS,
    "engine/": SOCKETS,
    "codec/": rf"{SOCKETS}|{TIME}|(unistd|fcntl|sys/\w+)\.h",
}

CUSTOMER_FOLDERS = ("cli/", "load/")
CLI_INCLUDES = r"(server|codec|load)/|command\.h$"


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


def usable(modules, name):
    """The modules whose public headers a module includes."""
    found, waiting = set(), [name]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += (modules[module]["uses"] if module in modules else set()) | CUSTOMERS.get(module, set())
    return found


def module_of(modules, path):
    names = [name for name, module in modules.items() if path.startswith(module["path"] + "/")]
    return max(names, key=lambda name: len(modules[name]["path"]), default=None)


def check_public(modules, path, header):
    """A public header included by a module, or by another public header."""
    owner = OWNERS.get(header)
    if owner is None:
        return f"{path} includes ration/{header}.h, which belongs to no module: add it to OWNERS"
    if path == "ration/ration.h" or path.startswith(CUSTOMER_FOLDERS):
        return None
    public = re.fullmatch(r"ration/(\w+)\.h", path)
    module = OWNERS.get(public[1]) if public else module_of(modules, path)
    if module is None:
        return f"{path} belongs to no module"
    if owner in usable(modules, module) or (module, header) in EXCEPTIONS:
        return None
    return f"{path} includes ration/{header}.h of {owner}, which {module} does not use"


def check_other(path, header):
    """A header of a library or of the system."""
    for pattern, places in LIBRARIES.items():
        if re.match(pattern, header):
            return None if path.startswith(places) else f"{path} includes {header}: only {' '.join(places)} may"
    if not re.fullmatch(SYSTEM, header):
        return f"{path} includes {header}, which is unknown: say in LIBRARIES who may"
    for place, pattern in WITHOUT.items():
        if path.startswith(place) and re.fullmatch(pattern, header):
            return f"{path} includes {header}: {place} must not need it"
    return None


def check_text(modules, texts):
    wrong = []
    for path, text in texts:
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        for what in re.findall(r"^[ \t]*#[ \t]*include(?:_next)?[ \t]*(\S+)", text, re.M):
            header = what.strip('"<>')
            first = header.split("/")[0]
            if what == header:
                wrong.append(f"{path} includes {what}: name the header")
            elif ".." in header.split("/") or header.startswith("/"):
                wrong.append(f"{path} includes {header}: by a path of its own")
            elif public := re.fullmatch(r"ration/(\w+)\.h", header):
                wrong.append(check_public(modules, path, public[1]))
            elif any(header.startswith(module["path"] + "/") for module in modules.values()) or what.startswith('"'):
                if path.startswith("ration/"):
                    wrong.append(f"{path} is public and includes {header}")
                if path.startswith("cli/") and not re.match(CLI_INCLUDES, header):
                    wrong.append(f"{path} includes {header}: the command line uses public headers of the library")
            else:
                wrong.append(check_other(path, header))
    return [line for line in wrong if line]


def read_texts(folder):
    """(path as it is included, text) of every source: src, the public headers, the load generator."""
    for top, prefix in ((folder, ""), (f"{folder}/../include", ""), (f"{folder}/../tools/bench/load", "load/")):
        for place, _, names in os.walk(top):
            for name in names:
                if name.endswith((".c", ".h")):
                    yield prefix + os.path.relpath(f"{place}/{name}", top), open(f"{place}/{name}").read()


# (file, include): each must be found, tried alone.
PLANTED = [
    ("base/a.c", '"../core/state.h"'),
    ("base/a.c", '"base/../core/state.h"'),
    ("base/a.c", "HEADER"),
    # public headers from below, sideways, and of no module
    ("core/a.c", '"ration/engine.h"'),
    ("core/a.c", "<ration/engine.h>"),
    ("core/a.h", '"ration/limiter.h"'),
    ("base/a.c", '"ration/ration.h"'),
    ("base/a.c", '"ration/policy.h"'),
    ("table/a.c", '"ration/limiter.h"'),
    ("stats/a.c", '"ration/limit.h"'),
    ("limiter/snapshot/a.c", '"ration/engine.h"'),
    ("policy/a.c", '"ration/redis.h"'),
    ("redis/a.c", '"ration/policy.h"'),
    ("codec/json/a.c", '"ration/engine.h"'),
    ("codec/resp/a.c", '"ration/engine.h"'),
    ("server/net/a.c", '"ration/limiter.h"'),
    ("ration/limit.h", '"ration/engine.h"'),
    ("ration/limit.h", '"core/state.h"'),
    ("base/a.c", '"ration/planted.h"'),
    # libraries
    ("engine/a.c", "<hiredis/hiredis.h>"),
    ("server/net/a.c", "<hiredis/async.h>"),
    ("server/ops/a.c", "<uv.h>"),
    ("server/http/a.c", "<uv.h>"),
    ("engine/a.c", "<yaml.h>"),
    ("policy/index.h", "<yaml.h>"),
    ("codec/json/a.c", "<jansson.h>"),
    ("server/http/a.c", "<jansson.h>"),
    ("server/http/a.c", "<http_parser.h>"),
    ("limiter/a.c", "<xxhash.h>"),
    ("base/a.c", "<openssl/ssl.h>"),
    # the system
    *((f"{folder}/a.c", "<pthread.h>") for folder in ("core", "stats", "bucket", "table", "store", "policy", "api", "codec/http")),
    *(("core/a.c", f"<{header}.h>") for header in ("time", "stdlib", "unistd", "sys/mman", "stdatomic", "poll")),
    ("bucket/a.c", "<stdlib.h>"),
    *((f"{place}a.c", "<sys/socket.h>") for place in WITHOUT),
    ("codec/http/a.c", "<time.h>"),
]


def control(cc, modules, folder):
    first, last = list(modules)[0], list(modules)[-1]
    too_many = {name: dict(module) for name, module in modules.items()}
    too_many[first]["folders"] = modules[first]["folders"] + modules[last]["folders"]
    too_few = {name: dict(module) for name, module in modules.items()}
    too_few[last]["uses"] = modules[last]["uses"] | {next(n for n in modules if n != last and n not in modules[last]["uses"])}
    missed = [] if check_pairs(cc, too_many) else ["an include path too many"]
    missed += [] if check_pairs(cc, too_few) else ["an include path too few"]
    planted = list(PLANTED)
    for module in modules.values():  # the command line includes nothing of the library's modules
        if not re.match(CLI_INCLUDES, module["path"] + "/"):
            planted += [("cli/a.c", f'"{module["path"]}/a.h"'), ("cli/a.c", f"<{module['path']}/a.h>")]
    for path, header in planted:
        for directive in ("#include ", "#  include "):
            if not check_text(modules, [(path, f"int a;\n{directive}{header}\n")]):
                missed.append(f"{path}: {directive}{header}")
    with tempfile.TemporaryDirectory() as root:  # the folders are read, too
        for place in ("src/core", "include/ration", "tools/bench/load"):
            os.makedirs(f"{root}/{place}")
            open(f"{root}/{place}/limit.h", "w").write("#include <openssl/ssl.h>\n")
        if len(check_text(modules, read_texts(f"{root}/src"))) != 3:
            missed.append("a folder that is not read")
    unused = [pair for pair in EXCEPTIONS if pair[1] not in includes_of(modules, folder, pair[0])]
    missed += [f"nobody needs the exception {pair}" for pair in unused]
    if missed:
        sys.exit("not found:\n" + "\n".join(missed))


def includes_of(modules, folder, module):
    """The public headers that a module and its public headers include."""
    found = set()
    for path, text in read_texts(folder):
        public = re.fullmatch(r"ration/(\w+)\.h", path)
        if (OWNERS.get(public[1]) if public else module_of(modules, path)) == module:
            found.update(re.findall(r'#include ["<]ration/(\w+)\.h', text))
    return found


def main(arguments):
    is_control = arguments[0] == "--control"
    cc, list_path, folder = arguments[1:] if is_control else arguments
    modules = read_modules(list_path)
    if is_control:
        return control(cc, modules, folder)
    wrong = check_pairs(cc, modules) + check_text(modules, read_texts(folder))
    print("\n".join(wrong) or f"{len(modules)} modules, {len(modules) * (len(modules) - 1)} pairs")
    return 1 if wrong else 0


sys.exit(main(sys.argv[1:]))
