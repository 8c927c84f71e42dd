#!/usr/bin/env python3
"""Text from a server or a file reaches the terminal without control bytes, and cannot add lines of its own.

    hostile_text_test.py RATION

A terminal acts on control bytes: an untrusted server, or a policy from elsewhere, could change its title, erase what
was printed, or type. The test runs every command that prints text from outside with such text.
"""
import os
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import serve

BINARY = os.path.abspath(sys.argv[1])
SECONDS = 30

# ESC ] 0 ; title BEL, a CSI of 8 bits, the same in UTF-8, DEL, a carriage return.
HOSTILE = b"a\x1b]0;title\x07b\x9b31mc\xc2\x9b31md\x7fe\rf"


class Liar:
    """A server that sends the same bytes in reply to every command."""

    def __init__(self, answer):
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            try:
                while received := connection.recv(65536):
                    for _ in range(received.count(b"*")):
                        connection.sendall(self.answer)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.listener.close()


def run(*words, lines=None):
    """The output of a command on both streams. It must be harmless, and have the given number of lines."""
    done = subprocess.run([BINARY, *words], capture_output=True, timeout=SECONDS, check=False,
                          stdin=subprocess.DEVNULL)
    printed = done.stdout + done.stderr
    text = printed.decode("utf-8")  # raises if the output is not UTF-8
    wrong = [char for char in text if char != "\n" and (ord(char) < 0x20 or 0x7f <= ord(char) < 0xa0)]
    serve.expect(wrong, [], f"{' '.join(map(str, words))}: {printed!r}")
    if lines is not None:
        serve.expect(len(text.splitlines()), lines, repr(text))
    return text


def bulk(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def test_check_prints_no_control_bytes():
    forged = HOSTILE + b"\nallowed: forged has 9 left"
    with tempfile.NamedTemporaryFile("w") as secret:
        secret.write("secret\n")
        secret.flush()
        for answer, more, shown in (
                (b"-ERR " + HOSTILE + b"\r\n", (), "the server cannot decide: ERR a\\x1B]0;title\\x07b\\x9B31mc\\xC2\\x9B31md\\x7Fe"),
                (b"-WRONGPASS " + HOSTILE + b"\r\n", ("--check-secret-file", secret.name), "WRONGPASS a\\x1B"),
                (bulk(b"verdict", b"deny", b"limit", forged, b"retry_after_ns", b"x"), (), "denied by a\\x1B"),
                (bulk(b"verdict", b"allow", b"limit", forged), (), "allowed"),
                (bulk(b"verdict", forged, b"limit", b"x\0y"), (), "denied by x\\x00y"),
                (b"+" + HOSTILE + b"\r\n", (), "not a reply to RATION.CHECK"),
                (b"\x1b[31m\r\n", (), "")):
            with Liar(answer) as liar:
                text = run("check", "--connect", f"127.0.0.1:{liar.port}", *more, "user=u", lines=1)
                assert shown in text, (shown, text)


def test_letters_of_other_scripts_are_shown():
    with Liar(bulk(b"verdict", b"deny", b"limit", "größe-日本-🦀".encode(), b"retry_after_ns", b"1")) as liar:
        assert "denied by größe-日本-🦀" in run("check", "--connect", f"127.0.0.1:{liar.port}", "user=u", lines=1)


def test_bench_prints_no_control_bytes():
    for answer in (b"-ERR " + HOSTILE + b"\r\n", b"\x1b[31m\r\n", b"!%d\r\n%s\r\n" % (len(HOSTILE), HOSTILE)):
        with Liar(answer) as liar:
            run("bench", "--connect", f"127.0.0.1:{liar.port}", "--connections", "1", "--requests", "3", "--warmup", "0")
    with Liar(b"-ERR " + HOSTILE + b"\r\n") as liar, tempfile.NamedTemporaryFile("w") as script:
        script.write("return 1")
        script.flush()
        text = run("bench", "--connect", f"127.0.0.1:{liar.port}", "--script", script.name, "--requests", "3", "--evalsha", lines=1)
        assert "SCRIPT LOAD: ERR a\\x1B" in text, text


# YAML's escapes make any character of plain text.
POLICIES = (
    'limits: [{name: a, match: {path: "/\\e]0;t\\a\\x9b31m\\x7f\\r"}, key: ip, rate: 1/s}]\n',
    'limits: [{name: a, match: {path: {prefix: "/\\e[2J\\n"}, "\\e[1m": "\\e"}, key: ["header.\\e"], rate: 1/s, cost: "\\e"}]\n',
    'limits: [{name: "\\e[31m", rate: 1/s}]\n',
    'limits: [{name: a, rate: "1/\\e[31m"}]\n',
    'limits: [{name: a, rate: 1/s, "\\e[31m": 1}]\n',
    '"\\e[31m": 1\n',
    'limits: [{name: a, rate: 1/s}]\nserver: {"\\e[31m": 1, threads: "\\e", check_secret_file: "/\\e"}\n',
    "limits: [\x1b",
    "limits: [{name: a, rate: 1/s, name: *\x1b}]",
)


def test_policies_print_no_control_bytes():
    with tempfile.TemporaryDirectory() as folder:
        for policy in POLICIES:
            path = os.path.join(folder, "policy.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(policy)
            run("policy", "check", path)
            run("policy", "explain", path, "path=/", "\x1b[31m=\x1b[31m", "ip=192.0.2.1", "header.\x1b=\x9b", "a\x1b")
            run("policy", "explain", path, "path=/", "\x1b[31m=\x1b[31m", "ip=192.0.2.1", "header.\x1b=\x9b")
            run("policy", "explain", path, "path=/\x1b]0;t\x07\x9b31m\x7f\r", "ip=192.0.2.1", "cost=\x1b")


serve.run()
