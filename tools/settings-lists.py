#!/usr/bin/env python3
"""The lists of settings in the manual, the documentation and the completions, and the table of the access that
routes and commands need, from the server's own tables.

    tools/settings-lists.py RATION [--write]

Compares what stands between the lines "settings begin" and "settings end" of each file with what
`RATION serve --print-settings` says, and what stands between "access begin" and "access end" with `RATION serve --access`.
With --write it is written there. Without, ends with 1 if a file is not up to date.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def read_settings(ration):
    lines = subprocess.run([ration, "serve", "--print-settings"], check=True, capture_output=True, text=True).stdout
    for line in lines.rstrip("\n").split("\n"):
        yield dict(zip(("name", "metavariable", "default", "words", "help", "group", "range"), line.split("\t")))


def is_path(setting):
    return setting["metavariable"] == "FILE"


def man(settings):
    for setting in settings:
        name = setting["name"]
        argument = f" Ar {setting['metavariable']}" if setting["metavariable"] else ""
        yield f".It Fl -{name}{argument}"
        yield setting["help"][0].upper() + setting["help"][1:] + "."
        if setting["words"]:
            yield f"One of: {', '.join(setting['words'].split())}."
        if setting["default"]:
            yield f"Default: {setting['default']}."


def markdown(settings):
    """One table for each group."""
    group = None
    for setting in settings:
        if setting["group"] != group:
            if group:
                yield ""
            group = setting["group"]
            yield f"**{group}**"
            yield ""
            yield "| setting | value | default | meaning |"
            yield "|---|---|---|---|"
        value = setting["words"].replace(" ", ", ") or setting["metavariable"] or "true, false"
        if setting["range"]:
            value = f"{value}: {setting['range']}"
        default = setting["default"] or ("false" if not setting["metavariable"] else "-")
        yield f"| `{setting['name']}` | {value} | {default} | {setting['help']} |"


def bash(settings):
    settings = list(settings)
    yield "_ration_serve_options='" + " ".join("--" + s["name"] for s in settings) + "'"
    yield "_ration_serve_flags='" + " ".join("--" + s["name"] for s in settings if not s["metavariable"]) + "'"
    yield "_ration_serve_files='" + " ".join("--" + s["name"] for s in settings if is_path(s)) + "'"
    yield "_ration_serve_words() {"
    yield '    case "$1" in'
    for setting in settings:
        if setting["words"]:
            yield f"    --{setting['name']}) echo '{setting['words']}' ;;"
    yield "    esac"
    yield "}"


def quoted(text):
    return text.replace("'", "'\\''")


def zsh(settings):
    yield "_ration_serve_options=("
    for setting in settings:
        text = re.sub(r"([\[\]:])", r"\\\1", setting["help"])
        if not setting["metavariable"]:
            value = ""
        elif setting["words"]:
            value = f":{setting['metavariable'].lower()}:({setting['words']})"
        else:
            value = f":{setting['metavariable'].lower()}:" + ("_files" if is_path(setting) else "")
        star = "*" if setting["help"].endswith("a list") else ""
        yield f"    '{star}--{setting['name']}[{quoted(text)}]{value}'"
    yield ")"


def fish(settings):
    for setting in settings:
        value = ""
        if setting["words"]:
            value = f" -x -a '{setting['words']}'"
        elif is_path(setting):
            value = " -r -F"
        elif setting["metavariable"]:
            value = " -x"
        yield (f"complete -c ration -n '__fish_seen_subcommand_from serve' -l {setting['name']}{value}"
               f" -d '{quoted(setting['help'])}'")


def access(ration):
    """One line for each level, with its routes and commands."""
    lines = subprocess.run([ration, "serve", "--access"], check=True, capture_output=True, text=True).stdout
    rows = [line.split("\t") for line in lines.splitlines()]
    yield "| access | HTTP | Redis protocol |"
    yield "|---|---|---|"
    for level in ("open", "check", "admin"):
        routes = [f"`{name}`" for protocol, name, needed in rows if (protocol, needed) == ("http", level)]
        commands = [f"`{name.upper()}`" for protocol, name, needed in rows if (protocol, needed) == ("resp", level)]
        yield f"| {level} | {', '.join(routes)} | {', '.join(commands)} |"


FILES = {
    "man/ration-serve.1": man,
    "docs/reference/settings.md": markdown,
    "completions/ration.bash": bash,
    "completions/_ration": zsh,
    "completions/ration.fish": fish,
}


def replace(text, mark, lines):
    begin = re.search(rf"^.*{mark} begin.*\n", text, re.M)
    end = re.search(rf"^.*{mark} end.*\n", text, re.M)
    return text[: begin.end()] + "".join(line + "\n" for line in lines) + text[end.start():]


def main():
    settings = list(read_settings(sys.argv[1]))
    is_stale = False
    lists = [(name, "settings", write(settings)) for name, write in FILES.items()]
    for name, mark, lines in [*lists, ("docs/reference/settings.md", "access", access(sys.argv[1]))]:
        path = ROOT / name
        text = path.read_text()
        wanted = replace(text, mark, lines)
        if text == wanted:
            continue
        if "--write" in sys.argv[2:]:
            path.write_text(wanted)
        else:
            print(f"{name} does not list the {mark} as it is; run tools/settings-lists.py {sys.argv[1]} --write")
            is_stale = True
    return 1 if is_stale or not settings else 0


sys.exit(main())
