"""A Redis behind a server under test: a real one, and a proxy in front of it that produces failures.

    with redis_kit.Redis() as redis, redis_kit.Proxy(redis) as proxy, \\
            redis_kit.serve_with(BINARY, proxy.url, policy=...) as server:
        proxy.failure = redis_kit.error("LOADING Redis is loading the dataset in memory")

Redis listens on a free port of 127.0.0.1, or of a host of hosts.py, and on a Unix socket in a folder of its own.
"""
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import hosts
import serve

START_SECONDS = 20
DEADLINE_MS = 20                 # the default of --redis-timeout
RECOVERY_SECONDS = 2 + 1 + 1.5   # retry_max, the timeout of a connection, and slack for a busy machine


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Redis:
    """A redis-server without persistence. options are those of its command line. It accepts clients from any address."""

    def __init__(self, *options, host=hosts.HERE):
        self.folder = tempfile.mkdtemp(prefix="ration-redis-")
        self.socket_path = os.path.join(self.folder, "socket")
        self.options = options
        self.host = host
        with host:
            self.port = free_port()
        self.password = options[options.index("--requirepass") + 1] if "--requirepass" in options else None
        self.clients = []
        try:
            self.start()
        except BaseException:
            self.kill()
            raise

    def start(self):
        addresses = sorted({"127.0.0.1", self.host.address})
        with self.host:
            self.process = subprocess.Popen(
                ["redis-server", "--port", str(self.port), "--bind", *addresses, "--protected-mode", "no",
                 "--unixsocket", self.socket_path, "--save", "", "--appendonly", "no", "--dir", self.folder,
                 *self.options],
                stdin=subprocess.DEVNULL, stdout=open(os.path.join(self.folder, "log"), "w", encoding="utf-8"),
                stderr=subprocess.STDOUT, preexec_fn=serve.die_with_parent)
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                if self.client().ask("PING") == "PONG":
                    return
            except (ConnectionError, FileNotFoundError):
                pass
            assert time.monotonic() < deadline and self.process.poll() is None, self.log()
            time.sleep(.01)

    def log(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8") as file:
            return "redis-server did not start:\n" + file.read()

    @property
    def url(self):
        return f"redis://{self.host.address}:{self.port}"

    def client(self):
        with self.host:
            client = serve.Resp(self.port, password=self.password)
        self.clients.append(client)
        return client

    def ask(self, *words):
        client = self.client()
        answer = client.ask(*words)
        self.clients.remove(client)
        client.close()
        return answer

    def calls(self, *names):
        """The number of calls of the named commands since CONFIG RESETSTAT."""
        counts = {}
        for line in self.ask("INFO", "commandstats").decode().split("\r\n"):
            name, _, rest = line.partition(":")
            if name.startswith("cmdstat_"):
                counts[name[len("cmdstat_"):]] = int(rest.split(",")[0].partition("=")[2])
        return sum(counts.get(name, 0) for name in names)

    def kill(self):
        for client in self.clients:
            client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.kill()


# Failures: functions of the real reply to a call of the script and the time of the call. The proxy sends their result.

def error(text):
    return lambda answer, asked_at: b"-%s\r\n" % text.encode()


def garbage(answer, asked_at):
    return b"\x00\xff\x16\x03 no RESP at all\r\n"


def cut(answer, asked_at):
    """Half of the reply, then the connection ends."""
    return Last(answer[:len(answer) // 2])


def silence(answer, asked_at):
    return b""


def delay(seconds):
    def wait(answer, asked_at):
        time.sleep(max(asked_at + seconds - time.monotonic(), 0))
        return answer
    return wait


class Last(bytes):
    """Bytes after which the proxy ends the connection."""


class Proxy:
    """A proxy to a real Redis that parses both directions and can let calls of the script fail.
    script_calls has the arguments of each EVALSHA and EVAL."""

    def __init__(self, redis, failure=None):
        self.redis = redis
        self.failure = failure
        self.greeting_failure = None   # the same for other commands: AUTH, SELECT, SCRIPT LOAD
        self.script_calls = []
        self.is_open = threading.Event()  # while it is not set, the proxy withholds the replies of the script
        self.is_open.set()
        self.sockets = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.is_over = False
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def accept(self):
        while not self.is_over:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sockets.append(connection)
            threading.Thread(target=self.carry, args=(connection,), daemon=True).start()

    def carry(self, connection):
        """Forwards commands until the connection ends."""
        here = Raw(connection)
        try:
            there = Raw(socket.create_connection(("127.0.0.1", self.redis.port)))
            self.sockets.append(there.socket)
            asked = queue.SimpleQueue()
            threading.Thread(target=self.carry_back, args=(connection, there, asked), daemon=True).start()
            while True:
                command = here.read_raw_value()
                words = arguments_of(command)
                is_script = words[0].upper() in (b"EVALSHA", b"EVAL")
                asked.put((is_script, time.monotonic()))
                if is_script:
                    self.script_calls.append(words)
                there.socket.sendall(command)
        except (OSError, serve.Closed):
            pass
        end(connection)

    def carry_back(self, connection, there, asked):
        """Forwards replies."""
        try:
            while True:
                answer = there.read_raw_value()
                is_script, asked_at = asked.get()
                if is_script:
                    self.is_open.wait(serve.ANSWER_SECONDS)
                failure = self.failure if is_script else self.greeting_failure
                if failure is not None:
                    answer = failure(answer, asked_at)
                connection.sendall(answer)
                if isinstance(answer, Last):
                    break
        except (OSError, serve.Closed):
            pass
        end(connection)

    def calls_of(self, user):
        """The number of calls of the script for a key."""
        return sum(any(b"{" + user.encode() + b"}" in word for word in words) for words in self.script_calls)

    def break_all(self):
        for connection in self.sockets:
            end(connection)

    def close(self):
        self.is_over = True
        self.is_open.set()
        end(self.listener)
        self.break_all()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.close()


def end(connection):
    """Also wakes a thread that reads from it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    connection.close()


class Raw(serve.Resp):
    """Reads RESP values as unparsed bytes."""

    def __init__(self, connection):
        self.socket = connection
        self.buffer = b""

    def read_raw_value(self):
        line = self.line()
        raw = line + b"\r\n"
        if line[:1] == b"$" and line != b"$-1":
            raw += self.take(int(line[1:]) + 2)
        elif line[:1] == b"*" and line != b"*-1":
            raw += b"".join(self.read_raw_value() for _ in range(int(line[1:])))
        return raw


def arguments_of(command):
    """The arguments of a complete command."""
    parser = Raw(None)
    parser.buffer = command
    return parser.read()


def serve_with(binary, url, policy=None, options=(), deadline_ms=DEADLINE_MS, **more):
    """A server with this Redis. It begins to connect when it starts: see wait_well()."""
    return serve.Server(binary, policy=policy,
                        options=["--redis", url, "--redis-timeout", f"{deadline_ms}ms", *options], **more)


def connects(server):
    """The number of connections to Redis that the server has opened."""
    for line in server.http("GET", "/metrics")[2].decode().splitlines():
        if line.startswith("ration_redis_connects_total "):
            return float(line.split()[1])
    raise AssertionError("there is no such metric")


def is_degraded(answer):
    return serve.pairs(answer)[b"degraded"] == 1


def wait_well(server, seconds=RECOVERY_SECONDS, connections=1, attributes=("user", "nobody")):
    """Waits until Redis decides again, which must happen in that time, and returns how long it took. Peeks at a key that
    no other client uses; the policy must have a limit for it."""
    began = time.monotonic()
    for _ in range(connections):
        client = server.resp()
        while True:
            answer = client.ask("RATION.PEEK", *attributes)
            if not isinstance(answer, serve.RespError) and not is_degraded(answer):
                break
            if time.monotonic() - began > seconds:
                raise AssertionError(f"Redis is available, and not called after {seconds} s: {answer}\n" + server.output())
            time.sleep(.005)
        client.close()
        server.clients.remove(client)
    return time.monotonic() - began


def wait_called(redis, client):
    """Waits until the server calls Redis; for servers without a policy, whose replies do not show it."""
    deadline = time.monotonic() + RECOVERY_SECONDS
    while redis.calls("evalsha", "eval") == 0:
        client.ask("CL.THROTTLE", "nobody", 1, 1, 1, 0)
        assert time.monotonic() < deadline, "Redis is not called"
