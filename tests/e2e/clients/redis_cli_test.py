#!/usr/bin/env python3
"""redis-cli and redis-benchmark, unmodified: redis-cell's published vectors, both versions of the protocol, JSON, an
interactive terminal, passwords, databases, pipes.

    redis_cli_test.py RATION THROTTLE.ROWS
"""
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import serve

BINARY, ROWS = sys.argv[1:3]
POLICY = """
limits:
  - {name: login, match: {path: /login}, key: ip, rate: 1/min, burst: 3}
"""
PASSWORD = "correct horse"
REPLY_SECONDS = 30


def cli(server, *words, sent=None, is_error=False):
    """The output of redis-cli. It must print no error; with is_error returns output and errors."""
    done = subprocess.run(["redis-cli", "-p", str(server.resp_port), *map(str, words)], input=sent,
                          capture_output=True, text=True, timeout=REPLY_SECONDS, check=False)
    if is_error:
        return done.stdout, done.stderr
    serve.expect((done.stderr, done.returncode), ("", 0), " ".join(map(str, words)))
    return done.stdout


def lines(*values):
    return "".join(f"{value}\n" for value in values)


def read_throttle_rows():
    """(arguments of a key, [(ms, quantity, [five numbers])]) for each key of the file."""
    keys = []
    with open(ROWS, encoding="utf-8") as file:
        for line in file:
            words = line.partition("#")[0].split()
            if words[:1] == ["key"]:
                keys.append((words[1:], []))
            elif words:
                keys[-1][1].append((int(words[0]), words[1], words[2:]))
    assert len(keys) >= 4 and sum(len(rows) for _, rows in keys) >= 30, "too few rows"
    return keys


def test_R9_vectors_of_redis_cell():
    """All rows in one redis-cli, which reads the commands from its input."""
    commands, wanted = [], []
    for number, (arguments, rows) in enumerate(read_throttle_rows()):
        for ms, quantity, answer in rows:
            commands.append(f"RATION.CLOCK SET {ms * 10 ** 6}")
            wanted.append("OK")
            commands.append(f"CL.THROTTLE k{number} {' '.join(arguments)} {quantity}")
            wanted += answer
    with serve.Server(BINARY, http="none", options=["--manual-clock"]) as server:
        serve.expect(cli(server, sent=lines(*commands)).split("\n"), wanted + [""])
    with serve.Server(BINARY, http="none", options=["--manual-clock"]) as server:
        serve.expect(cli(server, "-3", sent=lines(*commands)).split("\n"), wanted + [""], "RESP3")


def test_R9_vectors_of_gcra():
    """GCRA, the command that Redis 8.8 had and removed: decisions and replies as of CL.THROTTLE, with fractional periods."""
    with serve.Server(BINARY, http="none", options=["--manual-clock"]) as server:
        for options in [], ["-3"]:
            key = "g" + "".join(options)
            cli(server, "RATION.CLOCK", "SET", 0)
            ask = lambda *words: cli(server, *options, "GCRA", key, 4, 3, "0.5", *words)
            serve.expect(ask(), lines(0, 5, 4, -1, 1))
            serve.expect(ask("TOKENS", 9), lines(1, 5, 4, -1, 1))
            serve.expect(ask("TOKENS", 4), lines(0, 5, 0, -1, 1))
            serve.expect(ask("TOKENS", 1), lines(1, 5, 0, 1, 1))
            cli(server, "RATION.CLOCK", "SET", 166666666)
            serve.expect(ask(), lines(1, 5, 0, 1, 1))
            cli(server, "RATION.CLOCK", "SET", 166666667)
            serve.expect(ask(), lines(0, 5, 0, -1, 1))
        serve.expect(cli(server, "--json", "GCRA", "g", 4, 3, "0.5", "TOKENS", 1), "[1,5,0,1,1]\n")
        for number, (arguments, rows) in enumerate(read_throttle_rows()):
            for ms, quantity, answer in rows:
                if quantity == "0":
                    continue  # GCRA takes at least 1
                cli_clock = f"RATION.CLOCK SET {ms * 10 ** 6}\nGCRA v{number} {' '.join(arguments)} TOKENS {quantity}\n"
                serve.expect(cli(server, sent=cli_clock).split("\n")[1:-1], answer, f"GCRA {arguments} at {ms} ms")


def test_one_shot_in_each_version():
    with serve.Server(BINARY, http="none", policy=POLICY, options=["--manual-clock"]) as server:
        serve.expect(cli(server, "PING"), "PONG\n")
        serve.expect(cli(server, "ping", "a b"), "a b\n")
        serve.expect(cli(server, "CL.THROTTLE", "k", 15, 30, 60), lines(0, 16, 15, -1, 2))
        serve.expect(cli(server, "-3", "cl.throttle", "k", 15, 30, 60), lines(0, 16, 14, -1, 4))
        serve.expect(cli(server, "--json", "CL.THROTTLE", "k", 15, 30, 60), "[0,16,13,-1,6]\n")
        check = ("RATION.CHECK", "path", "/login", "ip", "192.0.2.1")
        serve.expect(cli(server, *check),
                     lines("verdict", "allow", "limit", "login", "burst", 3, "remaining", 2, "retry_after_ns", 0,
                           "reset_after_ns", 60 * 10 ** 9, "delay_ns", 0, "banned", 0, "degraded", 0))
        serve.expect(cli(server, "-3", *check),
                     lines("verdict allow", "limit login", "burst 3", "remaining 1", "retry_after_ns 0",
                           f"reset_after_ns {120 * 10 ** 9}", "delay_ns 0", "banned 0", "degraded 0"))
        serve.expect(json.loads(cli(server, "--json", *check)),
                     {"verdict": "allow", "limit": "login", "burst": 3, "remaining": 0, "retry_after_ns": 0,
                      "reset_after_ns": 180 * 10 ** 9, "delay_ns": 0, "banned": 0, "degraded": 0})
        serve.expect(json.loads(cli(server, "--json", *check))["verdict"], "deny")
        serve.expect(json.loads(cli(server, "--json", "RATION.TOP")),
                     [{"limit": "login", "key": "192.0.2.1", "count": 1, "error": 0}])
        serve.expect(cli(server, "-r", 3, "CL.THROTTLE", "r", 0, 1, 60), lines(0, 1, 0, -1, 60, *(1, 1, 0, 60, 60) * 2))
        serve.expect(cli(server, "nonsense", "a"),
                     "ERR unknown command 'nonsense', with args beginning with: 'a' \n\n")
        serve.expect(cli(server, "-e", "ECHO", is_error=True)[1],
                     "ERR wrong number of arguments for 'echo' command\n")


def test_databases_and_names():
    with serve.Server(BINARY, http="none") as server:
        serve.expect(cli(server, "-n", 0, "PING"), "PONG\n")
        # There is one database: a client that selects another must not share its buckets without noticing.
        for number in 1, 15, 16:
            out, reported = cli(server, "-n", number, "PING", is_error=True)
            serve.expect((out, reported), ("PONG\n", f"SELECT {number} failed: ERR DB index is out of range\n"))
        serve.expect(cli(server, "CONFIG", "GET", "databases"), "databases\n1\n")


def test_stat():
    """redis-cli --stat reads its numbers from INFO, and prints garbage if one is missing."""
    with serve.Server(BINARY, http="none") as server:
        client = server.resp()
        client.pipeline([("CL.THROTTLE", f"k{number}", 4, 1, 3600) for number in range(30)])
        with subprocess.Popen(["redis-cli", "-p", str(server.resp_port), "--stat", "-i", "0.01"],
                              stdout=subprocess.PIPE, text=True) as stat:
            try:
                rows = [stat.stdout.readline().split() for _ in range(5)]
            finally:
                stat.kill()
        serve.expect(rows[1], ["keys", "mem", "clients", "blocked", "requests", "connections"])
        for row in rows[2:]:
            keys, memory, clients, blocked, requests, _, connections = row
            serve.expect((keys, memory[-1:], clients, blocked, connections), ("30", "M", "2", "0", "2"), row)
            assert float(memory[:-1]) > 1 and int(requests) >= 30, row


def test_a_password():
    with serve.Server(BINARY, http="none", options=["--check-secret", PASSWORD]) as server:
        serve.expect(cli(server, "--no-auth-warning", "-a", PASSWORD, "PING"), "PONG\n")
        serve.expect(cli(server, "--no-auth-warning", "-3", "-a", PASSWORD, "PING"), "PONG\n")
        serve.expect(cli(server, "--no-auth-warning", "--user", "default", "--pass", PASSWORD, "PING"), "PONG\n")
        serve.expect(cli(server, "--no-auth-warning", "-u", f"redis://default:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{server.resp_port}/0",
                         "CL.THROTTLE", "k", 0, 1, 60), lines(0, 1, 0, -1, 60))
        out, reported = cli(server, "--no-auth-warning", "-a", "wrong", "PING", is_error=True)
        serve.expect((out, reported), ("NOAUTH Authentication required.\n\n", "AUTH failed: WRONGPASS invalid "
                                   "username-password pair or user is disabled.\n"))
        serve.expect(cli(server, "PING"), "NOAUTH Authentication required.\n\n")
        serve.expect(cli(server, "--no-auth-warning", "--user", "other", "--pass", PASSWORD, "PING", is_error=True)[0],
                     "NOAUTH Authentication required.\n\n")


def test_a_pipe_of_commands():
    """--pipe sends raw bytes, then an ECHO of its own, and counts the replies."""
    with serve.Server(BINARY, http="none") as server:
        raw = b"".join(serve.Resp.encode("CL.THROTTLE", f"k{number % 7}", 4, 1, 60) for number in range(5000))
        done = subprocess.run(["redis-cli", "-p", str(server.resp_port), "--pipe"], input=raw,
                              capture_output=True, timeout=REPLY_SECONDS, check=True)
        assert b"errors: 0, replies: 5000" in done.stdout, done.stdout
        done = subprocess.run(["redis-cli", "-p", str(server.resp_port), "--pipe"], input=b"PING\r\nNO\r\nPING\r\n",
                              capture_output=True, timeout=REPLY_SECONDS, check=False)
        assert b"errors: 1, replies: 3" in done.stdout, done.stdout


class Terminal:
    """redis-cli on a terminal: with a prompt, hints and completion."""

    def __init__(self, *command):
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.environ.update(TERM="xterm", HOME="/nonexistent")
            os.execvp(command[0], command)
        # Wide enough for all hints; linenoise would query a terminal that has no size.
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 250, 0, 0))
        self.text = ""

    def wait(self, pattern):
        """Reads until the pattern appears, and discards the text up to its end."""
        deadline = time.monotonic() + REPLY_SECONDS
        while not (found := re.search(pattern, self.text, re.DOTALL)):
            ready, _, _ = select.select([self.terminal], [], [], max(deadline - time.monotonic(), 0))
            if not ready:
                raise AssertionError(f"no {pattern!r} on the terminal: {self.text!r}")
            try:
                self.text += os.read(self.terminal, 65536).decode()
            except OSError as error:  # redis-cli has exited
                raise AssertionError(f"no {pattern!r} on the terminal: {self.text!r}") from error
        self.text = self.text[found.end():]
        return found

    def type(self, text):
        os.write(self.terminal, text.encode())

    def command(self, text, pattern):
        """Types a line, and waits for the reply and the prompt: text typed before the prompt is lost."""
        self.type(text + "\r")
        self.wait(pattern)
        self.wait("> ")

    def end(self):
        """The exit status; discards further output."""
        try:
            while os.read(self.terminal, 65536):
                pass
        except OSError:
            pass
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])


def test_a_terminal():
    """redis-cli sends COMMAND DOCS at the start, and aborts if the reply has unexpected types."""
    with serve.Server(BINARY, http="none", policy=POLICY, options=["--manual-clock"]) as server:
        for options in [], ["-3"]:
            terminal = Terminal("redis-cli", *options, "-p", str(server.resp_port))
            terminal.wait(rf"127\.0\.0\.1:{server.resp_port}> ")
            terminal.type("CL.THROTTLE")
            terminal.wait("key max_burst count period")  # the hint from COMMAND DOCS
            terminal.command(f" t{len(options)} 4 1 1",
                             r"1\) \(integer\) 0.*2\) \(integer\) 5.*3\) \(integer\) 4.*5\) \(integer\) 1")
            terminal.command("RATION.CLO\t SET 7", "OK")  # completed
            terminal.command("help ration.check", "Check a request against the policy and charge its limits")
            terminal.command("help @connection", "Authenticate to the server")
            terminal.type("quit\r")
            serve.expect(terminal.end(), 0, "redis-cli's status")


def test_a_terminal_that_authenticates():
    with serve.Server(BINARY, http="none", options=["--check-secret", PASSWORD]) as server:
        terminal = Terminal("redis-cli", "-p", str(server.resp_port))
        terminal.wait("> ")
        terminal.command("ping", "NOAUTH Authentication required")
        terminal.command(f"auth '{PASSWORD}'", "OK")
        terminal.command("ping", "PONG")
        terminal.command("reset", "RESET")
        terminal.command("ping", "NOAUTH Authentication required")
        terminal.type("exit\r")
        serve.expect(terminal.end(), 0, "redis-cli's status")


def test_hiredis():
    """ration check uses hiredis."""
    with serve.Server(BINARY, http="none", policy=POLICY, options=["--manual-clock", "--check-secret", PASSWORD]) as server:
        path = os.path.join(server.folder, "password")
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.write(PASSWORD + "\n")

        def check(*words):
            return subprocess.run([BINARY, "check", "--connect", f"127.0.0.1:{server.resp_port}", "--quiet", *words],
                                  capture_output=True, timeout=REPLY_SECONDS, check=False).returncode

        known = ["--check-secret-file", path]
        serve.expect([check(*known, "path=/login", "ip=192.0.2.1") for _ in range(4)], [0, 0, 0, 1], "three pass")
        serve.expect(check(*known, "--cost", "4", "path=/login", "ip=192.0.2.2"), 1)
        serve.expect(check("path=/login", "ip=192.0.2.2"), 2, "without the secret")


def benchmark(server, *words):
    done = subprocess.run(["redis-benchmark", "-p", str(server.resp_port), *map(str, words)],
                          capture_output=True, text=True, timeout=REPLY_SECONDS, check=False)
    serve.expect((done.returncode, done.stderr), (0, ""), " ".join(map(str, words)))
    return done.stdout


def test_redis_benchmark():
    with serve.Server(BINARY, http="none", options=["--threads", "2"]) as server:
        assert "PING_MBULK" in benchmark(server, "-t", "ping", "-n", 5000, "-q")
        assert "PING_MBULK" in benchmark(server, "-t", "ping", "-n", 5000, "-P", 16, "-3", "-q")
        # 20 keys with 5 tokens each: of 2000 replies all others are denials, which are not errors.
        benchmark(server, "-n", 2000, "-c", 10, "-P", 16, "-r", 20, "-q", "CL.THROTTLE", "k__rand_int__", 4, 1, 14400)
        benchmark(server, "-n", 2000, "-c", 10, "-P", 16, "-3", "-r", 20, "-q", "--threads", 2,
                  "CL.THROTTLE", "k__rand_int__", 4, 1, 14400)
        serve.expect(cli(server, "DBSIZE"), "20\n")
        for key in range(20):
            answer = cli(server, "CL.THROTTLE", f"k{key:012}", 4, 1, 14400, 0).split("\n")
            serve.expect(answer[:3], ["0", "5", "0"], f"key {key}")
        # The text output says whether settings could be read; the CSV output does not.
        assert "WARNING" not in benchmark(server, "-t", "ping", "-n", 100), "redis-benchmark warns"


def test_redis_benchmark_with_a_password():
    with serve.Server(BINARY, http="none", options=["--check-secret", PASSWORD]) as server:
        assert "PING_MBULK" in benchmark(server, "-a", PASSWORD, "-t", "ping", "-n", 1000, "-q")
        assert "PING_MBULK" in benchmark(server, "--user", "default", "-a", PASSWORD, "-3", "-t", "ping", "-n", 1000, "-q",
                                         "--dbnum", 0)


serve.run()
