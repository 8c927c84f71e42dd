#!/usr/bin/env python3
"""Commands and requests that Redis has, too: the replies must equal those of a real redis-server byte for byte. Also what
a client that has not authenticated may send.

    resp_redis_test.py RATION
"""
import random
import shutil
import socket
import subprocess
import tempfile

from resp_kit import BINARY, POLICY, arity, say
import serve
from serve import RespError, expect

PASSWORD = "correct horse"

# Commands, or raw bytes. No reply contains a version, a connection's number or the time.
SHARED = [
    ("PING",), ("ping", "x"), ("PING", "x", "y"), ("ECHO", "x"), ("ECHO",), ("echo", b"\x00\r\n"),
    ("SELECT", 0), ("SELECT", 1), ("SELECT", 15), ("SELECT", 16), ("SELECT", -1), ("SELECT", "x"), ("SELECT",),
    ("AUTH", "x"), ("AUTH", "default", "x"), ("AUTH", "other", "x"), ("AUTH", "a", "b", "c"), ("AUTH",),
    ("CLIENT",), ("CLIENT", "GETNAME"), ("CLIENT", "SETNAME", "a b"), ("CLIENT", "SETNAME", "a"), ("CLIENT", "GETNAME"),
    ("CLIENT", "SETNAME", ""), ("CLIENT", "GETNAME"), ("CLIENT", "GETNAME", "x"), ("CLIENT", "nonsense"),
    ("CLIENT", "NO-EVICT", "ON"), ("CLIENT", "REPLY", "ON"), ("CLIENT", "REPLY", "x"), ("CLIENT", "REPLY"),
    ("CONFIG", "GET", "save"), ("CONFIG", "GET", "nonsense"), ("CONFIG", "GET"), ("CONFIG",), ("CONFIG", "nonsense"),
    ("CLIENT", "HELP", "x"), ("CONFIG", "HELP", "x"), ("COMMAND", "HELP", "x"),
    ("COMMAND", "nonsense"), ("COMMAND", "INFO", "nonsense"), ("COMMAND", "DOCS", "nonsense"), ("COMMAND", "COUNT", "x"),
    ("HELLO", "x"), ("HELLO", 4), ("HELLO", 1), ("HELLO", 3, "nonsense"), ("HELLO", 3, "AUTH", "x"), ("HELLO", 3, "SETNAME"),
    ("HELLO", 3, "SETNAME", "a b"), ("HELLO", 3, "AUTH", "other", "x"),
    ("TIME", "x"), ("DBSIZE", "x"), ("DEL",), ("DEL", "nobody"), ("QUITE",), ("nonsense",), ("nonsense", "a", b"b\r\nc", "d"),
    ("n" * 200, "a" * 200), ("nonsense", "a" * 100, "b" * 100, "c"), ("",), (b"\xff",),
    ("RESET", "x"), ("RESET",), ("PING",),
    # CLIENT REPLY: the later replies show which replies were suppressed.
    ("CLIENT", "REPLY", "SKIP"), ("ECHO", "skipped"), ("ECHO", "1"),
    ("CLIENT", "REPLY", "SKIP"), ("CLIENT", "REPLY", "SKIP"), ("ECHO", "skipped too"), ("ECHO", "2"),
    ("CLIENT", "REPLY", "SKIP"), ("CLIENT", "REPLY", "ON"), ("ECHO", "3"),
    ("CLIENT", "REPLY", "OFF"), ("ECHO", "off"), ("nonsense",), ("CLIENT", "REPLY", "SKIP"), ("ECHO", "off"), ("ECHO", "still off"),
    ("CLIENT", "REPLY", "ON"), ("ECHO", "4"), ("CLIENT", "REPLY", "OFF"), ("RESET",), ("ECHO", "5"),
    ("CLIENT", "REPLY", "SKIP"), ("CLIENT", "REPLY", "OFF"), ("ECHO", "off"), ("CLIENT", "REPLY", "ON"), ("ECHO", "6"),
    # Requests that are queued.
    ("EXEC",), ("DISCARD",), ("MULTI",), ("PING",), ("ECHO", "x"), ("SELECT", "99"), ("EXEC",), ("EXEC",), ("MULTI",), ("EXEC",),
    ("MULTI",), ("MULTI",), ("PING",), ("EXEC",), ("MULTI",), ("PING",), ("DISCARD",), ("EXEC",), ("MULTI", "x"),
    ("MULTI",), ("PING",), ("nonsense", "a"), ("PING",), ("EXEC",), ("MULTI",), ("ECHO",), ("EXEC",),
    ("MULTI",), ("PING",), ("RESET",), ("EXEC",), ("MULTI",), ("CLIENT", "GETNAME"), ("RESET",),
    # CLIENT REPLY in EXEC: SKIP applies to the request after EXEC, and RESET has no reply in its place.
    *(request for mode in ("SKIP", "OFF", "ON") for request in (
        ("MULTI",), ("ECHO", "a"), ("CLIENT", "REPLY", mode), ("ECHO", "b"), ("ECHO", "c"), ("EXEC",), ("ECHO", "d"), ("ECHO", "e"),
        ("CLIENT", "REPLY", "ON"))),
    ("CLIENT", "REPLY", "SKIP"), ("RESET",), ("ECHO", "f"), ("ECHO", "g"),
    # Commands that are refused when they are queued, also EXEC itself.
    ("EXEC", "x"), *(request for wrong in (
        ("CLIENT", "FOO"), ("CLIENT", "SETNAME"), ("CLIENT",), ("CLIENT", "HELP", "x"), ("CLIENT", "GETNAME", "x"),
        ("CLIENT", "REPLY"), ("CONFIG", "FOO"), ("CONFIG", "GET"), ("COMMAND", "FOO"), ("COMMAND", "COUNT", "x"),
        ("SELECT",), ("DISCARD", "x"), ("MULTI", "x"), ("RESET", "x"), ("TIME", "x"), ("AUTH",), ("HELLO", "9"),
        ("EXEC", "x"), ("MULTI",), ("PING", "a", "b"))
        for request in (("MULTI",), ("PING",), wrong, ("PING",), ("EXEC",), ("RESET",))),
]

INLINE = [
    b"PING\r\n", b"PING\n", b"  PING  \r\n", b"\r\nPING\r\n", b"ECHO \"a b\\x41\\n\"\r\n", b"ECHO 'a \\' b'\r\n", b"ECHO \"\"\r\n",
    b"*0\r\nPING\r\n", b"*-1\r\nPING\r\n", b"*1\r\n$4\r\nPING\r\nPING\r\n", b"ECHO a\tb\r\n", b"echo\r\n", b"nonsense a b\r\n",
    b"PING\r\nQUIT\r\nPING\r\n", b"QUIT x\r\nPING\r\n",
    # Errors that close the connection; earlier requests are answered.
    b"PING\r\nECHO \"a\r\n", b"ECHO 'a'b\r\n", b"PING\r\n*x\r\n", b"*1\r\n:1\r\n", b"*1\r\n$x\r\n", b"*1\r\n$-5\r\nPING\r\n",
    b"*1\r\n\r\n", b"*3000000000\r\n", b"*1\r\n$600000000\r\n", b"*2\r\n$4\r\nECHO\r\n+x\r\n", b"*99999999999999999999\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n", b"PING\r\nPOST / HTTP/1.1\r\nHost: x\r\n\r\n", b"host: x\r\n",
    b"PING\r\npost\r\nPING\r\n",
]

STRANGERS = [
    b"PING\r\n", b"ECHO\r\n", b"nonsense\r\n", b"HELLO 3\r\n", b"HELLO\r\n", b"HELLO 3 AUTH default wrong\r\n", b"HELLO 4 AUTH default x\r\n",
    b"AUTH wrong\r\n", b"AUTH default wrong\r\n", b"AUTH other 'correct horse'\r\nPING\r\n", b"AUTH 'correct horse'\r\nPING\r\n",
    b"AUTH default 'correct horse'\r\nRESET\r\nPING\r\n", b"AUTH 'correct horse'\r\nAUTH wrong\r\nPING\r\n", b"QUIT\r\nPING\r\n", b"RESET\r\nPING\r\n",
    b"EXEC\r\n", b"EXEC x\r\n", b"MULTI\r\n",
    b"CLIENT SETNAME x\r\n", b"DEL x\r\n", b"*11\r\n", b"*10\r\n$4\r\nPING\r\n" + b"$1\r\nx\r\n" * 9, b"*1\r\n$16385\r\n",
    b"*2\r\n$4\r\nECHO\r\n$16384\r\n" + b"x" * 16384 + b"\r\n", b"AUTH 'correct horse'\r\n*12\r\n$4\r\nECHO\r\n" + b"$1\r\nx\r\n" * 11,
    b"AUTH 'correct horse'\r\n*2\r\n$4\r\nECHO\r\n$16385\r\n" + b"x" * 16385 + b"\r\n",
]


class Reference:
    """A redis-server on a free port, without persistence."""

    def __init__(self, *options):
        self.folder = tempfile.mkdtemp(prefix="ration-e2e-redis-")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--databases", "1", "--save", "", "--dir", self.folder, *options],
            stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if "Ready to accept connections" in line:
                return
        raise AssertionError("redis-server did not start")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        shutil.rmtree(self.folder)


def compare(server, reference, requests, version):
    errors = []
    greeting = b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n" if version == 3 else b""
    marker = b"*2\r\n$4\r\nECHO\r\n$9\r\nthe begin\r\n"
    for request in requests:
        raw = request if isinstance(request, bytes) else serve.Resp.encode(*request)
        answers = []
        for port in server.resp_port, reference.port:
            answer = say(port, greeting + (marker if greeting else b"") + raw)
            answers.append(answer.partition(b"the begin\r\n")[2] if greeting else answer)
        if answers[0] != answers[1]:
            errors.append(f"RESP{version} {request if len(request) < 300 else request[:60]!r}:\n"
                          f"  ration {answers[0]!r}\n  redis  {answers[1]!r}")
    if errors:
        raise AssertionError("\n".join(errors))


def test_commands_as_redis_has_them():
    """One by one, each over a connection of its own; then all over one connection, which has a state."""
    with serve.Server(BINARY, http="none") as server, Reference() as reference:
        for version in 2, 3:
            compare(server, reference, SHARED, version)
            compare(server, reference, [b"".join(serve.Resp.encode(*words) for words in SHARED)], version)


def test_replies_are_suppressed_as_redis_does():
    """CLIENT REPLY before, in and after MULTI, in any order. With replies off Redis sends fewer elements than EXEC announces."""
    choice = random.Random(12)
    modes = [("CLIENT", "REPLY", mode) for mode in ("ON", "OFF", "SKIP", "SKIP", "x")]
    others = [("MULTI",), ("MULTI",), ("EXEC",), ("EXEC",), ("DISCARD",), ("RESET",), ("nonsense",), ("ECHO",)]
    with serve.Server(BINARY, http="none") as server, Reference() as reference:
        for version in 2, 3:
            runs = [[choice.choice([choice.choice(modes), choice.choice(others), ("ECHO", number)]) for number in range(choice.randrange(3, 16))]
                    for _ in range(400)]
            compare(server, reference, [b"".join(serve.Resp.encode(*words) for words in run) for run in runs], version)


def test_requests_as_redis_reads_them():
    with serve.Server(BINARY, http="none") as server, Reference() as reference:
        compare(server, reference, INLINE, 2)
        compare(server, reference, INLINE, 3)


def test_unauthenticated_clients_as_redis_has_them():
    with serve.Server(BINARY, http="none", options=["--check-secret", PASSWORD]) as server, \
            Reference("--requirepass", PASSWORD) as reference:
        compare(server, reference, STRANGERS, 2)


def test_unauthenticated_clients_can_call_nothing():
    """Every command except those that authenticate."""
    with serve.Server(BINARY, http="none", policy=POLICY, options=["--check-secret", PASSWORD]) as server:
        client = server.resp(password=PASSWORD)
        commands = client.ask("COMMAND")
        expect(len(commands), 29)
        for command in commands:
            name, words = command[0], abs(command[1])
            if "no_auth" in command[2]:
                assert name in (b"hello", b"auth", b"reset", b"quit"), name
                continue
            for count in range(words, words + 4):
                answer = server.resp().ask(name, *["x"] * (count - 1))
                discarded = "EXECABORT Transaction discarded because of: " if name == b"exec" else ""
                if answer not in (arity(name.decode()), RespError(discarded + arity(name.decode()).text[len("ERR "):])):
                    expect(answer, RespError(discarded + "NOAUTH Authentication required."), name)
        expect(client.ask("DBSIZE"), 0, "a command of an unauthenticated client had an effect")


if __name__ == "__main__":
    serve.run()
