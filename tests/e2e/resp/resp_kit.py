"""Helpers of the tests of the Redis protocol: replies as the server must encode them, and common errors."""
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import serve
from serve import RespError

BINARY = sys.argv[1]
POLICY = """
limits:
  - {name: login, match: {path: /login}, key: ip, rate: 1/min, burst: 3}
  - {name: window, match: {path: /window}, key: user, rate: 3/10s fixed_window}
  - {name: all, match: {path: {prefix: /}}, rate: 1000/s}
exempt: [{user: root}]
banned: [{user: mallory}]
"""
MINUTE_NS = 60 * 10 ** 9
NOT_A_NUMBER = RespError("ERR value is not an integer or out of range")
PAIRS = RespError("ERR attributes come in pairs: name value [name value ...]")
MANY = sum(((f"a{number}", "x") for number in range(65)), ())


class Text(str):
    """INFO and the like: verbatim in RESP3, a bulk string in RESP2."""


def encode(value, version):
    """A value as the server must encode it."""
    if isinstance(value, RespError):
        return b"-%s\r\n" % value.text.encode()
    if isinstance(value, Text):
        text = value.encode()
        return b"=%d\r\ntxt:%s\r\n" % (len(text) + 4, text) if version == 3 else encode(text, version)
    if isinstance(value, str):
        return b"+%s\r\n" % value.encode()
    if isinstance(value, bytes):
        return b"$%d\r\n%s\r\n" % (len(value), value)
    if isinstance(value, int):
        return b":%d\r\n" % value
    if value is None:
        return b"_\r\n" if version == 3 else b"$-1\r\n"
    if isinstance(value, list):
        return b"*%d\r\n" % len(value) + b"".join(encode(item, version) for item in value)
    flat = b"".join(encode(item, version) for pair in value.items() for item in pair)
    return (b"%%%d\r\n" % len(value) if version == 3 else b"*%d\r\n" % (2 * len(value))) + flat


def decision(verdict, limit, burst, remaining, retry, reset, delay=0, banned=0):
    return {b"verdict": verdict.encode(), b"limit": limit and limit.encode(), b"burst": burst, b"remaining": remaining,
            b"retry_after_ns": retry, b"reset_after_ns": reset, b"delay_ns": delay,
            b"banned": banned, b"degraded": 0}


def arity(name):
    return RespError(f"ERR wrong number of arguments for '{name}' command")


def no_limit(text):
    return RespError("ERR there is no limit " + text)


def cell(text):
    return RespError("Cell error: Store error: " + text)

def say(port, sent):
    """Sends the bytes, stops sending, and returns all replies."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        return serve.read_to_end(connection)
