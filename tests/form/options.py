#!/usr/bin/env python3
"""
The manual, the reference page and the completions have the options of --help: the same names, with a value or without
one, and the same default.

    options.py RATION SOURCE             checks the files of the source folder against the program
    options.py --control RATION SOURCE   plants one mistake after the other; each must be reported

pages.sh asks the completion of bash itself.
"""
import pathlib
import re
import subprocess
import sys

COMMANDS = ("serve", "check", "bench")
FILES = ("man/ration-serve.1", "man/ration-check.1", "man/ration-bench.1", "man/ration.1", "completions/_ration",
         "completions/ration.fish", "docs/reference/command-line.md")


def options_of_help(text):
    """Each option with whether it takes a value, and its default, which ends its description in brackets."""
    options = {}
    for match in re.finditer(r"^  (--.*(?:\n {10,}.*)*)", text, re.M):
        words, description = re.match(r"(\S+(?:,? \S+)*)(?:  +|\n +)([\s\S]*)", match[1]).groups()
        description = re.sub(r"\s+", " ", description)
        description = re.sub(r" one of: .*", "", description)  # follows the default
        default = re.search(r" \[([^][]+)\]$", description)
        for name in re.findall(r"--([a-z-]+)", words):
            options[name] = (" " in words.replace(", ", ","), default[1] if default else "")
    return options


def options_of_man(text):
    options = {}
    for item in re.split(r"^\.It ", text.split("\n.Sh EXIT STATUS")[0], flags=re.M)[1:]:
        line, _, description = item.partition("\n")
        name = re.match(r"Fl -([a-z-]+)( Ar)?", line)
        if name:
            description = re.sub(r"\s+", " ", re.sub(r"^\.Fl -(.*?)( \.)?$", r"--\1\2", description, flags=re.M))
            default = re.search(r"Default: (.*?) ?\.(?: |$)(?!\S*\d)", description)
            options[name[1]] = (bool(name[2]), default[1] if default else "")
    return options


def options_of_zsh(text, command):
    table = re.search(rf"^_ration_{command}_options=\(\n(.*?)^\)", text, re.M | re.S)
    rows = table[1] if table else ""
    line = re.search(rf"^{command}\) _arguments \$_ration_{command}_options (.*) ;;$", text, re.M)
    if not line:
        return {}
    words = re.findall(r"^ +'\*?--([a-z-]+)\[(?:[^]\\]|\\.)*\](:?)", rows, re.M)
    words += re.findall(r"'--([a-z-]+)\[[^]]*\](:?)", line[1])
    return {name: bool(value) for name, value in words}


def options_of_fish(text, command):
    rows = re.findall(rf"^complete -c ration -n '__fish_seen_subcommand_from {command}' -l ([a-z-]+)(.*) -d ", text, re.M)
    return {name: value.startswith((" -x", " -r")) for name, value in rows}


def options_of_page(text, command):
    """The rows of the section's tables."""
    section = re.search(rf"^## ration {command}\n(.*?)(?=^## |\Z)", text, re.M | re.S)[1]
    cells = re.findall(r"^\| (`--[^|]*) \|", section, re.M)
    return {name: bool(value) for cell in cells for name, value in re.findall(r"`--([a-z-]+)( [^`]+)?`", cell)}


def compare(where, wanted, found):
    for name in sorted(wanted.keys() | found.keys()):
        if name not in found:
            yield f"{where} lacks --{name}"
        elif name not in wanted:
            yield f"{where} has --{name}, which --help does not"
        elif wanted[name] != found[name]:
            yield f"{where}: --{name} is {found[name]} instead of {wanted[name]}"


def problems(helps, files):
    """A sentence for each difference. An option is (takes a value, default), or only the first where no default is."""
    for command in COMMANDS:
        wanted = options_of_help(helps[command])
        if len(wanted) < 8 or sum(bool(default) for _, default in wanted.values()) < 3:
            yield f"ration {command} --help lists too little: {wanted}"
        wanted.setdefault("help", (False, ""))
        yield from compare(f"ration-{command}.1", wanted, options_of_man(files[f"man/ration-{command}.1"]))
        values = {name: has_value for name, (has_value, _) in wanted.items()}
        yield from compare(f"_ration, {command}", values, options_of_zsh(files["completions/_ration"], command))
        yield from compare(f"ration.fish, {command}", values, options_of_fish(files["completions/ration.fish"], command))
        page = options_of_page(files["docs/reference/command-line.md"], command)
        if command == "serve":  # settings.md has the others
            values = {name: False for name in ("print-settings", "access", "help")}
        elif "help" not in page:  # described for all commands together
            values.pop("help")
        yield from compare(f"command-line.md, {command}", values, page)
    flags = re.findall(r"^  -(\w), --(\w+) ", helps[""], re.M)
    synopsis = re.search(r"^\.Fl (.*)$", files["man/ration.1"], re.M)[1]
    wanted = sorted(word for short, long in flags for word in (short, "-" + long))
    if sorted(synopsis.split(" | ")) != wanted:
        yield f"ration.1 has the options {synopsis} instead of {' | '.join(wanted)}"


# file, what is there, what is planted
PLANTS = (
    ("completions/ration.fish", "-l max-wait -x", "-l max-wiat -x"),
    ("completions/ration.fish", "-l max-wait -x", "-l max-wait"),
    ("completions/ration.fish", "-l server-pid -x", "-l server -x"),
    ("completions/ration.fish", "-l access -d", "-l acess -d"),
    ("completions/_ration", "--max-wait[", "--max-wiat["),
    ("completions/_ration", "--pipeline[", "--piepline["),
    ("completions/_ration", "'--quiet[print nothing but errors]'", "'--quiet[print nothing but errors]:what:'"),
    ("completions/_ration", "bench) _arguments", "bensh) _arguments"),
    ("man/ration-check.1", ".It Fl -timeout Ar time", ".It Fl -timeuot Ar time"),
    ("man/ration-check.1", ".It Fl -wait\n", ".It Fl -wait Ar time\n"),
    ("man/ration-check.1", "Default: 5s.", "Default: 4s."),
    ("man/ration-check.1", "Default: 127.0.0.1:6429.", "Default: 127.0.0.1:6379."),
    ("man/ration-check.1", "Default: none.", ""),
    ("man/ration-bench.1", "Default: uniform:1M.", "Default: uniform:2M."),
    ("man/ration-bench.1", "127.0.0.1:8429 (http)", "127.0.0.1:8430 (http)"),
    ("man/ration-bench.1", "Default: 1s; 0 with", "Default: 2s; 0 with"),
    ("man/ration-bench.1", ".It Fl -idle Ar n\n", ".It Fl -idle Ar n\nDefault: 3.\n"),
    ("man/ration-serve.1", ".It Fl -print-settings", ".It Fl -print-setting"),
    ("man/ration.1", "V | -version", "v | -version"),
    ("docs/reference/command-line.md", "| `--max-wait TIME` |", "| `--max-wiat TIME` |"),
    ("docs/reference/command-line.md", "| `--ping`, `--incr` |", "| `--ping` |"),
    ("docs/reference/command-line.md", "| `--access` |", "| `--acess` |"),
)


def control(helps, files):
    missed = [f"nothing was planted, yet: {problem}" for problem in problems(helps, files)]
    for name, before, after in PLANTS:
        if before not in files[name]:
            missed.append(f"cannot plant {after!r}: {name} has no {before!r}")
        elif not list(problems(helps, {**files, name: files[name].replace(before, after)})):
            missed.append(f"not reported: {name} with {after!r}")
    print("\n".join(missed) if missed else f"{len(PLANTS)} planted mistakes were reported")
    return 1 if missed else 0


def main(arguments):
    is_control = arguments[0] == "--control"
    ration, source = arguments[is_control:]
    helps = {command: subprocess.run([ration, *command.split(), "--help"], capture_output=True, text=True, timeout=20,
                                     check=True).stdout for command in ("", *COMMANDS)}
    files = {name: pathlib.Path(source, name).read_text(encoding="utf-8") for name in FILES}
    if is_control:
        return control(helps, files)
    found = list(problems(helps, files))
    print("\n".join(found) if found else f"the options of {len(COMMANDS)} commands are in {len(FILES)} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
