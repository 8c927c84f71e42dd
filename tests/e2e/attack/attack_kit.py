"""Helpers of the attacks: measurements of the server's process, many sockets, and waiting by polling.

Every wait has a timeout, and no test sleeps to let time pass: wait_until() polls a condition, and the tests set short
timeouts in the server where one has to expire.
"""
import http.client
import os
import re
import resource
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import serve

BINARY = os.path.abspath(sys.argv[1])
WAIT_SECONDS = 20
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
MIB = 1 << 20

with open(BINARY, "rb") as file:
    _bytes = file.read()
IS_ASAN = b"__asan_init" in _bytes
IS_TSAN = b"__tsan_init" in _bytes
IS_SANITIZED = IS_ASAN or IS_TSAN
del _bytes

# Sanitizers hold freed memory and shadow memory: with them the tests check only the order of magnitude.
MEMORY_FACTOR = 8 if IS_SANITIZED else 1


def server(policy=None, options=(), **more):
    """A server whose sanitizer, if it has one, soon returns freed memory."""
    environment = {"ASAN_OPTIONS": "quarantine_size_mb=1:" + os.environ.get("ASAN_OPTIONS", "")}
    return serve.Server(BINARY, policy, options, environment=environment, **more)


def raise_files(count):
    """Raises this process's limit of open files to count if possible; returns how many sockets may be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(count, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], count)


def memory_bytes(of):
    with open(f"/proc/{of.process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * PAGE_BYTES


def cpu_seconds(of):
    with open(f"/proc/{of.process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def file_count(of):
    return len(os.listdir(f"/proc/{of.process.pid}/fd"))


def metrics(of, headers=None):
    """All samples of /metrics, by name and labels as they are written."""
    for turn in range(5):
        try:
            status, _, body = of.http("GET", "/metrics", headers=headers)
            break
        except (ConnectionError, http.client.HTTPException):
            if turn == 4:
                raise  # otherwise this machine was slower than a timeout of the test
    serve.expect(status, 200, "/metrics")
    return {name: float(value) for name, value in
            re.findall(r"^([a-z_]+(?:\{[^\n]*\})?) (\S+)$", body.decode("ascii"), re.M)}


def ended(of, reason):
    return metrics(of)['ration_connections_closed_total{reason="%s"}' % reason]


def wait_until(holds, what, seconds=WAIT_SECONDS):
    """Polls until holds() is true, and returns its value."""
    deadline = time.monotonic() + seconds
    while True:
        value = holds()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds} s not yet: {what}")
        time.sleep(0.005)


def connect(port, receive_bytes=None, source=None):
    connection = socket.socket()
    connection.settimeout(WAIT_SECONDS)
    if receive_bytes is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    if source is not None:
        connection.bind((source, 0))
    connection.connect(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def reset(connection):
    """Closes with RST instead of FIN."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def close_all(connections):
    for connection in connections:
        connection.close()


def send_some(connection, data):
    """Sends without blocking; returns how many bytes the kernel accepted, 0 if the peer has closed."""
    connection.setblocking(False)
    try:
        return connection.send(data)
    except (BlockingIOError, ConnectionError):
        return 0


def http_answers(data):
    """[(status, headers, body)] of complete responses to requests other than HEAD. A strict parser of its own; raises if
    a response is incomplete."""
    answers = []
    while data:
        head, end, rest = data.partition(b"\r\n\r\n")
        if not end:
            raise AssertionError(f"half a head: {data[:200]!r}")
        lines = head.split(b"\r\n")
        first = re.fullmatch(rb"HTTP/1\.[01] (\d{3}) [ -~]+", lines[0])
        if not first:
            raise AssertionError(f"no status line: {lines[0][:200]!r}")
        headers = {}
        for line in lines[1:]:
            field = re.fullmatch(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+): ([\t -~\x80-\xff]*)", line)
            if not field:
                raise AssertionError(f"no header: {line[:200]!r}")
            headers[field[1].lower().decode()] = field[2].decode("latin-1")
        status = int(first[1])
        size = 0 if status == 100 else int(headers["content-length"])
        if len(rest) < size:
            raise AssertionError(f"half a body: {len(rest)} of {size} bytes")
        answers.append((status, headers, rest[:size]))
        data = rest[size:]
    return answers


def ask_http(port, sent, is_ended=False):
    """The responses to raw bytes, until the server closes the connection."""
    with connect(port) as connection:
        connection.sendall(sent)
        if is_ended:
            connection.shutdown(socket.SHUT_WR)
        return http_answers(serve.read_to_end(connection))


def latency_p99(port, count, request=b"PING\r\n", answer_size=7):
    """The 99th percentile of the response time in seconds, one request at a time."""
    times = []
    with connect(port) as connection:
        for _ in range(count):
            began = time.perf_counter()
            connection.sendall(request)
            left = answer_size
            while left > 0:
                part = connection.recv(left)
                if not part:
                    raise AssertionError("the fast client was closed")
                left -= len(part)
            times.append(time.perf_counter() - began)
    times.sort()
    return times[len(times) * 99 // 100]

