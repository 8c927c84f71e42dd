"""A `ration serve` under test: starts it, sends requests, stops it, and checks how it exited.

    with serve.Server(binary, policy="limits: ...", options=["--manual-clock"]) as server:
        client = server.resp()
        client.ask("PING")                               # "PONG"
        status, headers, body = server.http("GET", "/healthz")

A server listens on free ports of 127.0.0.1, has a folder of its own and is killed with the test. At the end of the
block it gets SIGTERM: it must exit with status 0, and no sanitizer may have reported anything.

RESP replies are Python values: bytes for strings, int, None, list, dict, bool, float; simple strings are str, and
errors are RespError objects, returned and not raised.

A test program ends with serve.run(): it runs every function whose name begins with test_, and reports each failure
without hiding later ones.
"""
import ctypes
import glob
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

START_SECONDS = 30  # sanitizers on a busy machine are slow; otherwise no wait takes that long
STOP_SECONDS = 30
ANSWER_SECONDS = 30
HOSTS = ("a", "h", "x")  # the Host of requests that tests write by hand

# Lines that sanitizers write when they find an error.
SANITIZER = re.compile(r"ERROR: \w*Sanitizer|WARNING: ThreadSanitizer|runtime error:|SUMMARY: \w*Sanitizer")


LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def die_with_parent():
    """Runs in the child: if the test is killed, for example by ctest after a timeout, the server is killed, too.
    (The parent is the thread that starts the server, so start servers in the main thread.)"""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def freeze(process):
    """Sends SIGSTOP, and returns when every thread has stopped: threads may run for a while after the call."""
    process.send_signal(signal.SIGSTOP)
    while True:
        states = []
        for path in glob.glob(f"/proc/{process.pid}/task/*/stat"):
            with open(path, encoding="utf-8", errors="replace") as file:
                states.append(file.read().rpartition(")")[2].split()[0])
        if all(state in "TtZX" for state in states):
            return


class Server:
    """policy is the text of the policy file; options are those of the command line. http and resp are addresses to
    listen on, by default a free port of 127.0.0.1; "none" for none."""

    def __init__(self, binary, policy=None, options=(), http="127.0.0.1:0", resp="127.0.0.1:0",
                 environment=None, is_checked=True):
        self.binary = binary = os.path.abspath(binary)
        self.is_checked = is_checked
        self.folder = tempfile.mkdtemp(prefix="ration-e2e-")
        self.policy_path = os.path.join(self.folder, "policy.yaml")
        self.command = [binary, "serve", "--http", http, "--resp", resp, *options]
        for name in HOSTS:
            self.command += ["--allowed-hosts", name]
        if policy is not None:
            self.write_policy(policy)
            self.command += ["--policy", self.policy_path]
        self.expected = {"http": http != "none", "resp": resp != "none"}
        self.environment = dict(os.environ, **(environment or {}))
        self.lines = []
        self.process = None
        self.http_port = self.resp_port = None
        self.clients = []
        try:
            self.start()
        except BaseException:
            self.kill()
            raise

    def write_policy(self, text):
        """Replaces the policy file atomically: a reader sees the old text or the new one."""
        with open(self.policy_path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.policy_path + ".new", 0o600)  # it may contain secrets
        os.rename(self.policy_path + ".new", self.policy_path)

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        cwd=self.folder, env=self.environment,
                                        preexec_fn=die_with_parent)
        self.condition = threading.Condition()
        self.lines, self.is_over = [], False
        self.reader = threading.Thread(target=self.read_lines, daemon=True)
        self.reader.start()
        for protocol, is_wanted in self.expected.items():
            if is_wanted:
                address = self.wait_line(rf"listening on {protocol} (\S+)").group(1).rstrip('"')
                port = address.rpartition(":")[2]
                setattr(self, f"{protocol}_address", address)
                setattr(self, f"{protocol}_port", int(port) if port.isdigit() else None)

    def read_lines(self):
        for line in self.process.stdout:
            with self.condition:
                self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))
                self.condition.notify_all()
        with self.condition:
            self.is_over = True
            self.condition.notify_all()

    def wait_line(self, pattern, seconds=START_SECONDS, first=0):
        """Waits for a line that matches pattern, from line number `first` on; returns the match."""
        deadline = time.monotonic() + seconds
        with self.condition:
            while True:
                for line in self.lines[first:]:
                    found = re.search(pattern, line)
                    if found:
                        return found
                left = deadline - time.monotonic()
                if left <= 0 or self.is_over:
                    raise AssertionError(f"no line like {pattern!r} from {' '.join(self.command)}:\n"
                                         + self.output())
                self.condition.wait(left)

    def output(self):
        return "\n".join(self.lines)

    def resp(self, **options):
        """A new connection to the RESP port; closed with the server."""
        client = Resp(self.resp_port, **options)
        self.clients.append(client)
        return client

    def http_connection(self, host="127.0.0.1", source=""):
        connection = http.client.HTTPConnection(host, self.http_port, timeout=ANSWER_SECONDS,
                                                source_address=(source, 0))
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.clients.append(connection)
        return connection

    def http(self, method, path, body=None, headers=None, connection=None):
        """(status, headers, body): a JSON response body is parsed. A request body that is neither bytes nor text is sent as
        JSON."""
        own = connection or self.http_connection()
        headers = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        own.request(method, path, body, headers)
        answer = own.getresponse()
        content = answer.read()
        if connection is None:
            own.close()
        if content and "json" in (answer.getheader("Content-Type") or ""):
            content = json.loads(content)
        return answer.status, answer.headers, content

    def raw(self, port, sent, is_ended=False):
        """Sends the bytes and returns the reply until the server closes; is_ended: stops sending after them."""
        with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS) as connection:
            connection.sendall(sent)
            if is_ended:
                connection.shutdown(socket.SHUT_WR)
            return read_to_end(connection)

    def stop(self, signal_number=signal.SIGTERM):
        """Stops the server and returns its exit status; its output is in output()."""
        for client in self.clients:
            client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal_number)
        try:
            status = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server did not exit within {STOP_SECONDS} s:\n" + self.output())
        self.reader.join()
        self.process.stdout.close()
        return status

    def check_end(self):
        """Stops the server, and raises unless it exited with status 0 and no sanitizer reported anything."""
        status = self.stop()
        if SANITIZER.search(self.output()):
            raise AssertionError("a sanitizer complains:\n" + self.output())
        if status != 0:
            raise AssertionError(f"it ended with status {status}:\n" + self.output())

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        try:
            if self.is_checked:
                self.check_end()
            else:
                self.stop()
        except AssertionError as error:
            if kind is None:
                raise
            print(error, file=sys.stderr)  # the first error is raised, and this may be its cause
        finally:
            self.kill()


def read_to_end(connection):
    parts = []
    while True:
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            part = b""
        if not part:
            return b"".join(parts)
        parts.append(part)


class RespError:
    def __init__(self, text):
        self.text = text

    def __eq__(self, other):
        return isinstance(other, RespError) and self.text == other.text

    def __repr__(self):
        return f"RespError({self.text!r})"


class Closed(Exception):
    """The server closed the connection."""


class Resp:
    """A connection that uses RESP2 or RESP3. ask() sends a command and waits for its reply; send() and read() can be
    used independently."""

    def __init__(self, port, version=2, password=None, host="127.0.0.1", source=""):
        self.socket = socket.create_connection((host, port), timeout=ANSWER_SECONDS, source_address=(source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        if password is not None:
            assert self.ask("AUTH", password) == "OK"
        if version != 2:
            assert self.ask("HELLO", version)[b"proto"] == version

    def close(self):
        self.socket.close()

    @staticmethod
    def encode(*words):
        parts = [b"*%d\r\n" % len(words)]
        for word in words:
            word = word if isinstance(word, bytes) else str(word).encode()
            parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
        return b"".join(parts)

    def send(self, *words):
        self.socket.sendall(self.encode(*words))

    def ask(self, *words):
        self.send(*words)
        return self.read()

    def pipeline(self, commands):
        """Sends all commands at once; returns the replies in order."""
        self.socket.sendall(b"".join(self.encode(*command) for command in commands))
        return [self.read() for _ in commands]

    def more(self):
        part = self.socket.recv(65536)
        if not part:
            raise Closed(self.buffer)
        self.buffer += part

    def line(self):
        while b"\r\n" not in self.buffer:
            self.more()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def take(self, size):
        while len(self.buffer) < size:
            self.more()
        taken, self.buffer = self.buffer[:size], self.buffer[size:]
        return taken

    def read(self):
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return RespError(rest.decode("utf-8", "surrogateescape"))
        if kind in b":(":
            return int(rest)
        if kind == b"_" or rest == b"-1":
            return None
        if kind == b"#":
            return rest == b"t"
        if kind == b",":
            return float(rest)
        if kind in b"$=!":
            text = self.take(int(rest) + 2)[:-2]
            return text[4:] if kind == b"=" else text
        if kind in b"*~>":
            return [self.read() for _ in range(int(rest))]
        if kind == b"%":
            return {self.key(self.read()): self.read() for _ in range(int(rest))}
        raise AssertionError(f"no RESP: {line!r}")

    @staticmethod
    def key(value):
        return tuple(value) if isinstance(value, list) else value

    def read_raw(self, size):
        """Reads size bytes without parsing."""
        return self.take(size)

    def is_closed(self):
        """Waits for the end of the connection; True if no data arrived before it."""
        try:
            self.more()
        except (Closed, ConnectionResetError):
            return True
        return False


def pairs(flat):
    """Converts a RESP2 map (a flat list) to a dict."""
    return flat if isinstance(flat, dict) else dict(zip(flat[0::2], flat[1::2]))


def expect(got, wanted, what=""):
    if got != wanted:
        raise AssertionError(f"{what or 'got'}: {got!r}, where {wanted!r} was expected")


def run(names=None):
    """Runs the test_ functions of the main program, all or those named as arguments behind --only."""
    main = sys.modules["__main__"]
    tests = {name: value for name, value in vars(main).items()
             if name.startswith("test_") and callable(value)}
    if "--only" in sys.argv:
        at = sys.argv.index("--only")
        names = sys.argv[at + 1:]
    failed = []
    for name, test in tests.items():
        if names and name not in names:
            continue
        began = time.monotonic()
        try:
            test()
            outcome = "ok"
        except Exception:
            traceback.print_exc()
            failed.append(name)
            outcome = "FAILED"
        print(f"{outcome:6} {time.monotonic() - began:6.2f} s  {name}", flush=True)
    if failed:
        print(f"{len(failed)} of {len(tests)} failed: {' '.join(failed)}")
    sys.exit(bool(failed))
