#!/usr/bin/env python3
"""
Runs a page of the documentation from top to bottom, as a reader would who copies each block.

    run_page.py PREFIX PAGE             PREFIX: where ration is installed (bin, lib, include)
    run_page.py --control PREFIX        planted mistakes in a page are found, and a correct page passes
    run_page.py --list PREFIX PAGE      prints the blocks of the page and what each is for

A page gets an empty folder and network, process and mount namespaces of its own, so that it may use the default ports
and everything it started ends with it. What the info string of a fenced block says:

    LANGUAGE file=NAME    written to NAME
    console               lines that begin with "$ " are commands for one bash shell; the lines below a command are
                          what it prints. A line "..." stands for any lines, "..." within a line for any text. A
                          command continues after a backslash, or in lines that begin with "> ". The output of a
                          command that ends with " &" is awaited.
    yaml policy           a complete policy: ration policy check accepts it
    sh                    for production hosts, not run here: bash -n accepts it
    text                  not run
    needs=PROGRAM,...     any block: skipped where a program is not installed

A line <!-- run: COMMAND --> is run without being shown to readers, for what they did in another way (make run).
"""
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ATTEMPTS_MAX = 3  # pages show times; on a busy machine a second may pass between two commands
COMMAND_SECONDS_MAX = 120
AWAIT_SECONDS_MAX = 30
INSIDE = "RATION_PAGE_NAMESPACE"
WHEN_READY = "... listening on resp ...\n...\n"


class Mistake(Exception):
    """What is wrong with a page, with its line."""


class Block:
    def __init__(self, line, info, text):
        words = info.split()
        self.line, self.text = line, text
        self.language = words[0] if words else ""
        self.options = dict(word.partition("=")[::2] for word in words[1:])

    def missing_programs(self):
        return [p for p in self.options.get("needs", "").split(",") if p and shutil.which(p) is None]


class Command:
    def __init__(self, line, text, expected=()):
        self.line, self.text, self.expected = line, text, list(expected)

    def is_background(self):
        return self.text.rstrip().endswith(" &")


def read_blocks(text):
    block, fence, was_blank = None, None, True
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r"^ {0,3}(`{3,}|~{3,})(.*)$", line)
        if fence is None and mark:
            fence, block = mark[1], Block(number, mark[2].strip(), "")
        elif fence is not None and mark and mark[1].startswith(fence) and not mark[2].strip():
            yield block
            fence = None
        elif fence is not None:
            block.text += line + "\n"
        elif re.fullmatch(r"<!-- run: .* -->", line):
            command = line[len("<!-- run: ") : -len(" -->")]
            yield Block(number, "console", f"$ {command}\n...\n{WHEN_READY if command.endswith(' &') else ''}")
        elif re.match(r"^ {4,}\S", line) and not re.match(r"^ +([-*+|]|\d+\.)", line) and was_blank:
            raise Mistake(f"{number}: an indented block: use a fenced one")
        was_blank = not line.strip()
    if fence is not None:
        raise Mistake(f"{block.line}: the block has no end")


def read_commands(block):
    commands, continues = [], False
    for offset, line in enumerate(block.text.splitlines()):
        number = block.line + 1 + offset
        if continues:
            commands[-1].text += "\n" + line
        elif line.startswith("$ "):
            commands.append(Command(number, line[2:]))
        elif not commands:
            raise Mistake(f"{number}: a console block begins with a command: $ ...")
        elif line.startswith("> ") or line == ">":
            commands[-1].text += "\n" + line[2:]
            continue
        else:
            commands[-1].expected.append(line.rstrip())
            continue
        continues = line.endswith("\\")
    for command in commands:
        while command.expected and not command.expected[-1]:
            command.expected.pop()
    return commands


def pattern_of(expected):
    """A regular expression for the expected lines."""
    pattern = ""
    for line in expected:
        if line.strip() == "...":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += r"[^\n]*?".join(re.escape(part) for part in line.split("...")) + r"[ \t]*\n"
    return pattern


class Shell:
    """One bash for all commands of a page."""

    def __init__(self, folder):
        self.folder = folder
        self.count = 0
        with open(self.path(".curlrc"), "w", encoding="utf-8") as file:
            file.write("no-progress-meter\n")  # which curl shows only where its output is no terminal
        environment = dict(os.environ, LC_ALL="C.UTF-8", TERM="dumb", HOME=folder, CURL_HOME=self.path(""))
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], cwd=folder, env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)

    def path(self, name):
        return f"{self.folder}/.page/{name}"

    def send(self, command):
        """Starts the command; returns where its output goes and the file that appears when it has ended."""
        self.count += 1
        script, output, status = (self.path(f"{self.count}.{what}") for what in ("sh", "out", "status"))
        with open(script, "w", encoding="utf-8") as file:
            file.write(command + "\n")
        self.process.stdin.write(f"eval \"$(cat {script})\" </dev/null >{output} 2>&1\necho $? >{status}.new; "
                                 f"mv {status}.new {status}\n")
        self.process.stdin.flush()
        return output, status

    def run(self, command):
        """Returns the output of a command."""
        output, status = self.send(command.text)
        end = time.monotonic() + COMMAND_SECONDS_MAX
        while not os.path.exists(status):
            if self.process.poll() is not None:
                raise Mistake(f"{command.line}: the shell ended")
            if time.monotonic() > end:
                raise Mistake(f"{command.line}: no end after {COMMAND_SECONDS_MAX} s: {command.text}")
            time.sleep(0.002)
        return read_output(output)

    def start(self, command, pattern):
        """Starts a background command and waits for its output; returns the output."""
        output, status = self.send(command.text)
        end = time.monotonic() + AWAIT_SECONDS_MAX
        while True:
            text = read_output(output) if os.path.exists(output) else ""
            if os.path.exists(status) and re.match(pattern, text) or time.monotonic() > end:
                return text
            time.sleep(0.005)


def read_output(path):
    text = open(path, encoding="utf-8", errors="backslashreplace").read().replace("\r", "")
    # What bash says of a job that was killed.
    text = re.sub(r"^bash: line \d+: +\d+ (Terminated|Killed)\b.*\n", "", text, flags=re.M)
    text = text.rstrip("\n")  # redis-cli prints an empty line after an error
    return text + "\n" if text else ""


def check_command(shell, command):
    pattern = pattern_of(command.expected)
    if command.is_background():
        text = shell.start(command, pattern)
        matches = re.match(pattern, text)
    else:
        text = shell.run(command)
        matches = re.fullmatch(pattern, text)
    if not matches:
        raise Mistake(f"{command.line}: $ {command.text}\n--- the page says\n" + "\n".join(command.expected) +
                      f"\n--- it prints\n{text}---")


def run_block(shell, block, folder):
    missing = block.missing_programs()
    if missing:
        print(f"{block.line}: skipped: {', '.join(missing)} is not installed")
        return
    if "file" in block.options:
        path = os.path.join(folder, block.options["file"])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(block.text)
    elif block.language == "console":
        for command in read_commands(block):
            check_command(shell, command)
    elif block.language == "yaml" and "policy" in block.options:
        with open(f"{folder}/.page/policy.yaml", "w", encoding="utf-8") as file:
            file.write(block.text)
        checked = subprocess.run(["ration", "policy", "check", f"{folder}/.page/policy.yaml"], capture_output=True,
                                 text=True, check=False)
        if checked.returncode != 0:
            raise Mistake(f"{block.line}: not a correct policy:\n{checked.stdout}{checked.stderr}")
    elif block.language == "sh":
        checked = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
        if checked.returncode != 0:
            raise Mistake(f"{block.line}: {checked.stderr}")
    elif block.language != "text":
        raise Mistake(f"{block.line}: '{block.language}' says neither what to do with the block nor that it is text")


def run_page(text):
    """Runs a page inside its namespaces; returns the count of its blocks."""
    folder = tempfile.mkdtemp(prefix="page-")
    os.chmod(folder, 0o755)  # servers that drop their privileges read files there
    os.mkdir(f"{folder}/.page")
    shell = Shell(folder)
    try:
        blocks = list(read_blocks(text))
        for block in blocks:
            run_block(shell, block, folder)
        return len(blocks)
    finally:
        shell.process.kill()
        shell.process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def enter_namespaces(arguments):
    """Runs this program again in namespaces of its own and returns its exit status."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = ["unshare", *user, "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode != 0:
        print("no namespaces here: pages are not run")
        return 77
    inside = f"ip link set lo up && exec {shlex.join([sys.executable, __file__, *arguments])}"
    return subprocess.run([*command, "sh", "-c", inside], env=dict(os.environ, **{INSIDE: "1"}), check=False).returncode


def use_prefix(prefix):
    prefix = os.path.abspath(prefix)
    # What Debian's packages hold comes before other versions of Python and the like.
    os.environ["PATH"] = f"{prefix}/bin:/usr/bin:" + os.environ["PATH"]
    os.environ["LD_LIBRARY_PATH"] = f"{prefix}/lib"
    os.environ["PKG_CONFIG_PATH"] = f"{prefix}/lib/pkgconfig"
    os.environ["CMAKE_PREFIX_PATH"] = prefix


GOOD = """
```yaml file=policy.yaml
limits:
  - {name: all, rate: 5/min}
```
```console
$ ration serve --policy policy.yaml --resp none &
...
... info listening on http 127.0.0.1:8429
$ for i in 1 2 3 4 5 6; do \\
    curl -s -o out -w '%{http_code}\\n' http://127.0.0.1:8429/v1/check; done
200
...
429
$ cat <<END
> two
> END
two
$ kill %1; wait %1
$ curl http://127.0.0.1:8429/
curl: (7) ...
$ echo a 7 b
a ... b
```
```yaml policy
limits:
  - {name: all, rate: 5/min}
```
```c file=x.c needs=a-program-that-nobody-has
```
"""
BAD = [
    ("a wrong output", "```console\n$ echo a\nb\n```\n"),
    ("output that is missing", "```console\n$ echo a\na\nb\n```\n"),
    ("output that is not shown", "```console\n$ echo a; echo b\na\n```\n"),
    ("a server that says something else", "```console\n$ echo down &\nready\n```\n"),
    ("a port in use", "```console\n$ ration serve --http none --resp none &\n... listening\n```\n"),
    ("a wrong policy", "```yaml policy\nlimts: []\n```\n"),
    ("a block that says nothing", "```c\nint x;\n```\n"),
    ("a block without language", "```\nint x;\n```\n"),
    ("an indented block", "text\n\n    $ echo a\n"),
    ("a block without end", "```text\n"),
    ("a wrong script", "```sh\nif\n```\n"),
]


def control():
    global AWAIT_SECONDS_MAX
    missed = []
    try:
        run_page(GOOD)
    except Mistake as mistake:
        missed.append(f"a correct page fails: {mistake}")
    AWAIT_SECONDS_MAX = 1
    for name, text in BAD:
        try:
            run_page(text)
            missed.append(f"not found: {name}")
        except Mistake:
            pass
    print("\n".join(missed))
    return 1 if missed else 0


def run_in_namespaces(arguments):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if arguments[0] == "--control":
        use_prefix(arguments[1])
        return control()
    use_prefix(arguments[0])
    try:
        count = run_page(open(arguments[1], encoding="utf-8").read())
    except Mistake as mistake:
        print(f"{arguments[1]}:{mistake}")
        return 1
    print(f"{arguments[1]}: {count} blocks")
    return 0


def main(arguments):
    if arguments[0] == "--list":
        for block in read_blocks(open(arguments[2], encoding="utf-8").read()):
            print(block.line, block.language, block.options)
        return 0
    if INSIDE in os.environ:
        return run_in_namespaces(arguments)
    attempts_max = 1 if arguments[0] == "--control" else ATTEMPTS_MAX
    for attempt in range(1, attempts_max + 1):
        status = enter_namespaces(arguments)
        if status != 1:
            return status
        print(f"attempt {attempt} of {attempts_max} failed", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
