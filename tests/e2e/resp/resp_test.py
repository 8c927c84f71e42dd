#!/usr/bin/env python3
"""What a server answers over the Redis protocol: every command and its errors, to the byte and in both
versions; where Redis has the command too, with a real redis-server as the judge.

    resp_test.py RATION
"""
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import serve
from serve import RespError, expect

BINARY = sys.argv[1]
PASSWORD = "correct horse"
POLICY = """
limits:
  - {name: login, match: {path: /login}, key: ip, rate: 1/min, burst: 3}
  - {name: window, match: {path: /window}, key: user, rate: 3/10s fixed-window}
  - {name: all, match: {path: {prefix: /}}, rate: 1000/s}
exempt: [{user: root}]
banned: [{user: mallory}]
"""
MINUTE_NS = 60 * 10 ** 9


class Text(str):
    """INFO and the like: verbatim in RESP3, a bulk string in RESP2."""


def encode(value, version):
    """A value as the server must write it."""
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


def top(limit, key, count):
    return {b"limit": limit, b"key": key, b"count": count, b"error": 0}


def arity(name):
    return RespError(f"ERR wrong number of arguments for '{name}' command")


def limit_line(name, text, match, key, rate, keys_max, keys, allowed, denied, never, near=0):
    tokens, period_ns, burst = rate
    return {b"name": name, b"limit": text, b"match": match, b"key": key, b"shadow": 0, b"tokens": tokens, b"period_ns": period_ns,
            b"burst": burst, b"keys_max": keys_max, b"keys": keys, b"allowed": allowed, b"denied": denied, b"never": never, b"near": near, b"shadow_denied": 0, b"overflow": 0}


NOT_A_NUMBER = RespError("ERR value is not an integer or out of range")
PAIRS = RespError("ERR attributes come in pairs: name value [name value ...]")
TOP_SYNTAX = RespError("ERR syntax error: RATION.TOP [BY DENIED|COST] [COUNT 1 to 100] [LIMIT name]")
CLOCK_MAX_NS = 544924752303423487
CLOCK_RANGE = RespError(f"ERR the clock goes from 0 to {CLOCK_MAX_NS} ns (17 years), where the tables' time ends")
CLOCK_SYNTAX = RespError("ERR syntax error: RATION.CLOCK GET | SET ns | ADVANCE ns")
TOO_LONG = RespError("ERR a block lasts at most 730 days; ban a caller for longer in the policy")
HOW_LONG = RespError("ERR for how long? RATION.BLOCK SECONDS s | MS ms [LIMIT name] attribute value ...")
MANY = sum(((f"a{number}", "x") for number in range(65)), ())
WHO = ("path", "/login", "ip", "192.0.2.1")


def no_limit(text):
    return RespError("ERR there is no limit " + text)


def cell(text):
    return RespError("Cell error: Store error: " + text)


# One after the other on a manual clock that stands at 0: what came before counts.
TABLE = [
    (("CL.THROTTLE",), cell("Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]")),
    (("CL.THROTTLE", "k", 4, 1, 1, 1, 1), cell("Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]")),
    (("CL.THROTTLE", "k", "a", 1, 1), cell("Couldn't parse as integer: a")),
    (("CL.THROTTLE", "k", 4, 1, 1, "1.5"), cell("Couldn't parse as integer: 1.5")),
    (("CL.THROTTLE", "k", -1, 1, 1), cell("max_burst must not be negative")),
    (("CL.THROTTLE", "k", 4, 0, 1), cell("Zero rates are not supported")),
    (("CL.THROTTLE", "k", 4, 1, 0), cell("Zero rates are not supported")),
    (("CL.THROTTLE", "k", 4, 1, 1, -1), cell("quantity must not be negative")),
    (("CL.THROTTLE", "k", 4, 1, 99999999999), cell("period must not exceed 18446744073 seconds")),
    (("CL.THROTTLE", b"k" * 65536, 4, 1, 1), cell("The key is longer than 65535 bytes")),
    (("CL.THROTTLE", b"k" * 65535, 4, 1, 1), [0, 5, 4, -1, 1]),
    (("CL.THROTTLE", "", 4, 1, 1), [0, 5, 4, -1, 1]),
    (("CL.THROTTLE", b"\xff\x00\r\n", 4, 1, 1), [0, 5, 4, -1, 1]),
    (("cl.Throttle", "k", "+4", 1, 1, 5), [0, 5, 0, -1, 5]),
    (("CL.THROTTLE", "k", 4, 1, 1), [1, 5, 0, 1, 5]),
    (("CL.THROTTLE", "k", 4, 1, 1, 6), [1, 5, 0, -1, 5]),
    (("GCRA", "g"), arity("gcra")),
    (("GCRA", "f", 4, 1, "0.5"), [0, 5, 4, -1, 1]),
    (("GCRA", "g", 4, 1, "0"), RespError("ERR period must be above 0")),
    (("GCRA", "g", 4, 1, "x"), RespError("ERR period is not a number of seconds in whole nanoseconds, or out of range")),
    (("GCRA", "g", 4, 1, 1, "TOKENS", 0), RespError("ERR TOKENS must be at least 1")),
    (("GCRA", "g", 4, 1, 1, "TOKENS"), RespError("ERR syntax error")),
    (("GCRA", "g", 4, 1, 1, "COST", 1), RespError("ERR syntax error")),
    (("GCRA", "g", 4, 1, "1.5", "TOKENS", 5), [0, 5, 0, -1, 8]),
    (("GCRA", "g", 4, 1, "1.5"), [1, 5, 0, 2, 8]),
    (("RATION.CHECK", "path"), PAIRS),
    (("RATION.CHECK", "COST", "x", "path", "/"), NOT_A_NUMBER),
    (("RATION.CHECK", "COST", "-1", "path", "/"), NOT_A_NUMBER),
    (("RATION.CHECK", *MANY), RespError("ERR a request has at most 64 attributes")),
    (("RATION.CHECK", *WHO, "ip"), PAIRS),
    (("RATION.CHECK", "colour", "red"), decision("allow", None, None, None, 0, None)),
    (("RATION.CHECK", "user", "root", *WHO), decision("allow", None, None, None, 0, None)),
    (("RATION.CHECK", "user", "mallory", *WHO), decision("never", None, None, None, -1, None, banned=1)),
    (("RATION.CHECK", *WHO), decision("allow", "login", 3, 2, 0, MINUTE_NS)),
    (("RATION.CHECK", "cost", 2, *WHO), decision("allow", "login", 3, 0, 0, 3 * MINUTE_NS)),
    (("RATION.CHECK", *WHO), decision("deny", "login", 3, 0, MINUTE_NS, 3 * MINUTE_NS)),
    (("RATION.CHECK", "COST", 4, *WHO), decision("never", "login", 3, 0, -1, 3 * MINUTE_NS)),
    (("RATION.PEEK", "COST", 2, *WHO), decision("deny", "login", 3, 0, 2 * MINUTE_NS, 3 * MINUTE_NS)),
    (("RATION.PEEK", "path", "/x"), decision("allow", "all", 1000, 997, 0, 3 * 10 ** 6)),
    (("RATION.PEEK", "path"), PAIRS),
    (("RATION.REFUND", "TOKENS", 1), 0),
    (("RATION.REFUND", "TOKENS", "x", *WHO), NOT_A_NUMBER),
    (("RATION.REFUND", "TOKENS", 1, "path", "/login", "ip"), PAIRS),
    (("RATION.REFUND", "TOKENS", 1, *WHO), 2),
    (("RATION.REFUND", "TOKENS", 1, "LIMIT", "login", *WHO), 1),
    (("RATION.REFUND", "TOKENS", 1, "LIMIT", "all", "path", "/login", "user", "root"), 0),  # there, and not of this request
    (("RATION.REFUND", "TOKENS", 1, "LIMIT", "other", *WHO), no_limit("'other': limits are login, window and all")),
    (("RATION.RESET", "LIMIT", "Login", *WHO), no_limit("'Login': did you mean login?")),
    (("RATION.BLOCK", "MS", 1, "LIMIT", "throttle", *WHO), no_limit("'throttle': limits are login, window and all")),
    (("RATION.BLOCK", "MS", 1, "LIMIT", b"login\x00", *WHO), no_limit("'login\\x00': did you mean login?")),
    (("RATION.PEEK", *WHO), decision("allow", "login", 3, 2, 0, MINUTE_NS)),
    (("RATION.RESET", "path"), arity("ration.reset")),
    (("RATION.RESET", "colour", "red"), 0),
    (("RATION.RESET", "path", "/login", "ip", "nobody"), RespError(
        "ERR a request has at most 64 attributes, none of them twice, an ip that is an address, values of at most attribute-bytes-max, and at most 16 limits that apply")),
    (("RATION.RESET", *WHO), 1),  # not of the limit that is everybody's
    (("RATION.PEEK", *WHO), decision("allow", "login", 3, 3, 0, 0)),
    (("RATION.FLUSH",), arity("ration.flush")),
    (("RATION.FLUSH", "ALL"), RespError("ERR syntax error: RATION.FLUSH INLINE")),
    (("RATION.BLOCK", "SECONDS", 10), arity("ration.block")),
    (("RATION.BLOCK", *WHO), HOW_LONG),
    (("RATION.BLOCK", "SECONDS", "x", *WHO), NOT_A_NUMBER),
    (("RATION.BLOCK", "SECONDS", 99999999999999, *WHO), TOO_LONG),
    (("RATION.BLOCK", "MS", (1 << 63) - 1, *WHO), TOO_LONG),
    (("RATION.BLOCK", "SECONDS", 730 * 86400 + 1, *WHO), TOO_LONG),
    (("RATION.BLOCK", "MS", 730 * 86400000 + 1, "path", "/window", "user", "u"), TOO_LONG),
    (("RATION.PEEK", "path", "/window", "user", "u"), decision("allow", "window", 3, 3, 0, 0)),
    (("RATION.BLOCK", "MS", 2500, "path", "/window", "user", "u"), 1),
    (("RATION.PEEK", "path", "/window", "user", "u"), decision("deny", "window", 3, 0, 2500 * 10 ** 6, 2500 * 10 ** 6)),
    (("RATION.RESET", "path", "/window", "user", "u"), 1),
    (("RATION.PEEK", "path", "/window", "user", "u"), decision("allow", "window", 3, 3, 0, 0)),
    (("RATION.BLOCK", "MS", 1500, *WHO), 1),
    (("RATION.CHECK", *WHO), decision("deny", "login", 3, 0, 1500 * 10 ** 6, 1500 * 10 ** 6 + 2 * MINUTE_NS)),
    (("RATION.BLOCK", "SECONDS", 3, "LIMIT", "login", *WHO), 1),
    (("RATION.CHECK", *WHO), decision("deny", "login", 3, 0, 3 * 10 ** 9, 3 * 10 ** 9 + 2 * MINUTE_NS)),
    (("RATION.TOP", "BY", "WEIGHT"), TOP_SYNTAX),
    (("RATION.TOP", "COUNT", 0), TOP_SYNTAX),
    (("RATION.TOP", "COUNT", 101), TOP_SYNTAX),
    (("RATION.TOP", "LIMIT"), TOP_SYNTAX),
    (("RATION.TOP", "WHO", "x"), TOP_SYNTAX),
    (("RATION.TOP", "LIMIT", "nobody"), no_limit("'nobody': limits are login, window, all and throttle")),
    (("RATION.TOP", "LIMIT", ""), no_limit("'': limits are login, window, all and throttle")),
    (("RATION.TOP", "LIMIT", b"login\x00x"), no_limit("'login\\x00x': did you mean login?")),
    (("RATION.TOP", "LIMIT", "trottle"), no_limit("'trottle': did you mean throttle?")),
    (("RATION.TOP", "LIMIT", "throttle"), [top(b"throttle", b"k", 2), top(b"throttle", b"g", 1)]),
    (("RATION.TOP", "LIMIT", "login"), [top(b"login", b"192.0.2.1", 4)]),
    (("RATION.TOP", "by", "denied", "COUNT", 1), [top(b"login", b"192.0.2.1", 4)]),
    (("RATION.LIMITS", "x"), arity("ration.limits")),
    (("RATION.LIMITS",), [
        limit_line(b"login", b"1/min burst 3", b"path is /login", [b"ip"], (1, MINUTE_NS, 3), 1000000, 1, 2, 3, 1, near=1),
        limit_line(b"window", b"3/10s fixed-window", b"path is /window", [b"user"], (3, 10 ** 10, 3), 1000000, 0, 0, 0, 0),
        limit_line(b"all", b"1000/s", b"path starts with /", [], (1000, 10 ** 9, 1000), 1, 1, 2, 0, 0)]),
    (("RATION.CLOCK",), arity("ration.clock")),
    (("RATION.CLOCK", "NOW"), CLOCK_SYNTAX),
    (("RATION.CLOCK", "SET"), CLOCK_SYNTAX),
    (("RATION.CLOCK", "SET", "x"), NOT_A_NUMBER),
    (("RATION.CLOCK", "SET", CLOCK_MAX_NS + 1), CLOCK_RANGE),
    (("RATION.CLOCK", "SET", 2 ** 64 - 1), CLOCK_RANGE),
    (("RATION.CLOCK", "ADVANCE", CLOCK_MAX_NS + 1), CLOCK_RANGE),
    (("RATION.CLOCK", "ADVANCE", 2 ** 64 - 1), CLOCK_RANGE),
    (("RATION.CLOCK", "GET"), 0),
    (("RATION.CLOCK", "ADVANCE", 7), "OK"),
    (("RATION.CLOCK", "SET", 5), "OK"),
    (("RATION.CLOCK", "get"), 5),
    (("RATION.RELOAD", "x"), arity("ration.reload")),
    (("RATION.RELOAD",), b"nothing has changed"),
    (("DEL",), arity("del")),
    (("DEL", "k", "nobody", "g"), 2),
    (("DEL", "k"), 0),
    (("RATION.FLUSH", "INLINE"), "OK"),
    (("CL.THROTTLE", "k", 4, 1, 1), [0, 5, 4, -1, 1]),
    (("COMMAND", "COUNT"), 29),
    (("COMMAND", "INFO", "cl.throttle", "nobody"),
     [[b"cl.throttle", -5, ["write", "fast"], 1, 1, 1, ["@write", "@fast"], [], [], []], None]),
    (("COMMAND", "DOCS", "echo", "nobody"),
     {b"echo": {b"summary": b"Echo the given string", b"since": b"0.1.0", b"group": b"connection", b"complexity": b"O(1)",
                b"arguments": [{b"name": b"message", b"type": b"string"}]}}),
    (("CONFIG", "HELP"), [
        "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", "GET <name> [<name> ...]",
        "    Return what a Redis that keeps nothing would say of these settings.", "HELP", "    Print this help."]),
    (("CONFIG", "GET", "save", "appendonly"), {b"save": b"", b"appendonly": b"no"}),
    (("CLIENT", "SETINFO", "LIB-NAME", "me"), "OK"),
    (("CLIENT", "SETINFO", "LIB-VER", "1.2"), "OK"),
    (("CLIENT", "SETNAME", "n"), "OK"),
]


def test_every_command_to_the_byte():
    for version in 2, 3:
        with serve.Server(BINARY, policy=POLICY, http="none", options=["--manual-clock"]) as server:
            client = server.resp(version=version)
            for words, value in TABLE:
                client.send(*words)
                wanted = encode(value, version)
                shown = " ".join(str(word) for word in words)[:200]
                got = b""
                try:
                    client.socket.settimeout(5)
                    while len(got) < len(wanted):
                        got += client.socket.recv(len(wanted) - len(got))
                        if not wanted.startswith(got):
                            break
                except TimeoutError:
                    pass
                if got != wanted:
                    client.socket.setblocking(False)
                    try:
                        got += client.socket.recv(65536)
                    except BlockingIOError:
                        pass
                    raise AssertionError(f"RESP{version}: {shown}:\n  got      {got}\n  expected {wanted}")
            client.socket.settimeout(30)
            number = client.ask("CLIENT", "ID")
            client.send("CLIENT", "INFO")
            wanted = encode(Text(f"id={number} addr=127.0.0.1 name=n db=0 sub=0 psub=0 multi=-1 cmd=client user=default "
                                 f"resp={version} lib-name=me lib-ver=1.2\n"), version)
            expect(client.read_raw(len(wanted)), wanted)


def test_a_name_that_is_too_long_is_no_other_name():
    """Names have up to 63 bytes, and were once cut there: the limit that was named is none."""
    names = ["n" * 63, *(f"limit-{number}" for number in range(1, 9))]
    policy = "limits:\n" + "".join(f"  - {{name: {name}, match: {{user: u}}, key: user, rate: 1/h}}\n" for name in names)
    with serve.Server(BINARY, policy=policy, http="none", options=["--manual-clock"]) as server:
        client = server.resp()
        told = "'" + "n" * 24 + "...': limits are " + ", ".join(names[:8]) + " and %d more"
        for words in ("RESET",), ("REFUND",), ("BLOCK", "SECONDS", 9):
            expect(client.ask("RATION." + words[0], *words[1:], "LIMIT", "n" * 64, "user", "u"), no_limit(told % 1), words[0])
        expect(serve.pairs(client.ask("RATION.CHECK", "user", "u"))[b"verdict"], b"allow", "nothing is blocked")
        expect(client.ask("RATION.BLOCK", "SECONDS", 9, "LIMIT", "n" * 63, "user", "u"), 1)
        expect(client.ask("RATION.TOP", "LIMIT", "n" * 64), no_limit(told % 2))


def test_help_is_what_errors_say_it_is():
    """What errors say one should try: each subcommand that there is, in the form of Redis."""
    with serve.Server(BINARY, http="none") as server:
        client = server.resp()
        for command, some in ("CLIENT", {"ID", "SETNAME <name>"}), ("COMMAND", {"COUNT", "LIST"}), ("CONFIG", {"GET <name> [<name> ...]"}):
            expect(client.ask(command, "nonsense"), RespError(f"ERR unknown subcommand 'nonsense'. Try {command} HELP."))
            lines = client.ask(command, "help")
            expect({type(line) for line in lines}, {str}, "simple strings")
            expect(lines[0], f"{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
            expect(lines[-2:], ["HELP", "    Print this help."])
            assert some <= set(lines[1::2]) and all(line.startswith("    ") for line in lines[2::2]), lines
            for line in lines[1::2]:
                answer = client.ask(command, line.split(" ")[0])
                assert not isinstance(answer, RespError) or "wrong number" in answer.text, (line, answer)


def test_every_command_is_in_the_table():
    """A new command has rows here, or among those that Redis judges."""
    asked = {str(words[0]).lower() for words, _ in TABLE} | {str(words[0]).lower() for words in SHARED if words}
    with serve.Server(BINARY, http="none") as server:
        known = {name.decode() for name in server.resp().ask("COMMAND", "LIST")}
    expect(known - asked - {"info", "time", "dbsize", "quit", "hello", "multi", "exec", "discard"}, set(),
           "commands without a row")


def test_what_tells_about_the_server():
    with serve.Server(BINARY, http="none") as server:
        client = server.resp()
        before = int(time.time())
        seconds, microseconds = client.ask("TIME")
        assert before <= int(seconds) <= time.time() and 0 <= int(microseconds) < 10 ** 6
        expect(client.ask("DBSIZE"), 0)
        client.pipeline([("CL.THROTTLE", f"k{number}", 4, 1, 60) for number in range(30)])
        expect(client.ask("DBSIZE"), 30)
        info = dict(line.split(":", 1) for line in client.ask("INFO").decode().split("\r\n") if ":" in line)
        expect((info["redis_mode"], info["role"], info["loading"], info["connected_clients"]), ("standalone", "master", "0", "1"))
        expect(info["db0"], "keys=30,expires=30,avg_ttl=0")
        expect([info[name] for name in ("blocked_clients", "maxmemory", "total_connections_received", "process_id")],
               ["0", "0", "1", str(server.process.pid)])
        assert int(info["total_commands_processed"]) == 34, info
        assert int(info["used_memory"]) > 1 << 20 and info["used_memory"] == info["used_memory_rss"], info
        assert int(info["maxclients"]) > 100, info
        expect([client.ask("RATION.CLOCK", *words) for words in (("SET", 1), ("ADVANCE", 1))],
               [RespError("ERR the clock is the real one: start with --manual-clock to set it")] * 2)
        assert client.ask("RATION.CLOCK", "GET") > 0


def test_time_passes_up_to_the_end_of_the_clock():
    """Beyond it a table's time would stand still, and no token would come back: that is refused."""
    with serve.Server(BINARY, http="none", options=["--manual-clock"]) as server:
        client = server.resp()
        take = ("CL.THROTTLE", "k", 0, 1, 60)
        expect(client.ask("RATION.CLOCK", "SET", CLOCK_MAX_NS - MINUTE_NS), "OK")
        expect(client.ask(*take), [0, 1, 0, -1, 60])
        expect(client.ask("RATION.CLOCK", "ADVANCE", MINUTE_NS - 1), "OK")
        expect(client.ask(*take), [1, 1, 0, 1, 1])
        expect(client.ask("RATION.CLOCK", "ADVANCE", 2), CLOCK_RANGE)
        expect(client.ask("RATION.CLOCK", "ADVANCE", 1), "OK")
        expect(client.ask("RATION.CLOCK", "SET", CLOCK_MAX_NS + 1), CLOCK_RANGE)
        expect(client.ask("RATION.CLOCK", "GET"), CLOCK_MAX_NS)
        expect(client.ask(*take), [0, 1, 0, -1, 60])


# Redis as the judge ------------------------------------------------------------------------------

# Words, or raw bytes. None of them shows a version, a number of a connection or the time.
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
    # CLIENT REPLY: what is not answered shows in what comes next.
    ("CLIENT", "REPLY", "SKIP"), ("ECHO", "skipped"), ("ECHO", "1"),
    ("CLIENT", "REPLY", "SKIP"), ("CLIENT", "REPLY", "SKIP"), ("ECHO", "skipped too"), ("ECHO", "2"),
    ("CLIENT", "REPLY", "SKIP"), ("CLIENT", "REPLY", "ON"), ("ECHO", "3"),
    ("CLIENT", "REPLY", "OFF"), ("ECHO", "off"), ("nonsense",), ("CLIENT", "REPLY", "SKIP"), ("ECHO", "off"), ("ECHO", "still off"),
    ("CLIENT", "REPLY", "ON"), ("ECHO", "4"), ("CLIENT", "REPLY", "OFF"), ("RESET",), ("ECHO", "5"),
    ("CLIENT", "REPLY", "SKIP"), ("CLIENT", "REPLY", "OFF"), ("ECHO", "off"), ("CLIENT", "REPLY", "ON"), ("ECHO", "6"),
    # Requests that are kept back.
    ("EXEC",), ("DISCARD",), ("MULTI",), ("PING",), ("ECHO", "x"), ("SELECT", "99"), ("EXEC",), ("EXEC",), ("MULTI",), ("EXEC",),
    ("MULTI",), ("MULTI",), ("PING",), ("EXEC",), ("MULTI",), ("PING",), ("DISCARD",), ("EXEC",), ("MULTI", "x"),
    ("MULTI",), ("PING",), ("nonsense", "a"), ("PING",), ("EXEC",), ("MULTI",), ("ECHO",), ("EXEC",),
    ("MULTI",), ("PING",), ("RESET",), ("EXEC",), ("MULTI",), ("CLIENT", "GETNAME"), ("RESET",),
    # What is wrong already when it is queued, EXEC itself included.
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
    # Errors that end the connection; what came before is answered.
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


class Judge:
    """A redis-server on a free port, which keeps nothing."""

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


def say(port, sent):
    """All that comes back, to the end: nothing more is sent."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        return serve.read_to_end(connection)


def compare(server, judge, requests, version):
    faults = []
    greeting = b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n" if version == 3 else b""
    marker = b"*2\r\n$4\r\nECHO\r\n$9\r\nthe begin\r\n"
    for request in requests:
        raw = request if isinstance(request, bytes) else serve.Resp.encode(*request)
        answers = []
        for port in server.resp_port, judge.port:
            answer = say(port, greeting + (marker if greeting else b"") + raw)
            answers.append(answer.partition(b"the begin\r\n")[2] if greeting else answer)
        if answers[0] != answers[1]:
            faults.append(f"RESP{version} {request if len(request) < 300 else request[:60]!r}:\n"
                          f"  ration {answers[0]!r}\n  redis  {answers[1]!r}")
    if faults:
        raise AssertionError("\n".join(faults))


def test_commands_as_redis_has_them():
    """One by one, each over a connection of its own; then all over one, which has a state."""
    with serve.Server(BINARY, http="none") as server, Judge() as judge:
        for version in 2, 3:
            compare(server, judge, SHARED, version)
            compare(server, judge, [b"".join(serve.Resp.encode(*words) for words in SHARED)], version)


def test_requests_as_redis_reads_them():
    with serve.Server(BINARY, http="none") as server, Judge() as judge:
        compare(server, judge, INLINE, 2)
        compare(server, judge, INLINE, 3)


def test_strangers_as_redis_has_them():
    with serve.Server(BINARY, http="none", options=["--check-secret", PASSWORD]) as server, \
            Judge("--requirepass", PASSWORD) as judge:
        compare(server, judge, STRANGERS, 2)


def test_strangers_can_ask_nothing():
    """Every command but those that let one in."""
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
        expect(client.ask("DBSIZE"), 0, "a stranger left a trace")


# Order -----------------------------------------------------------------------------------------

def test_pipelines_of_everything_keep_their_order():
    """Decisions wait for each other in batches, and other commands in between do not overtake them."""
    with serve.Server(BINARY, http="none", policy=POLICY, options=["--manual-clock"]) as server:
        choice = random.Random(7)
        kinds = [
            lambda n: ((b"CL.THROTTLE", f"t{n}", n % 1000, 1, 60), [0, n % 1000 + 1, n % 1000, -1, 60]),
            lambda n: (("CL.THROTTLE", "x", "y", 1, 1), cell("Couldn't parse as integer: y")),
            lambda n: (("GCRA", f"g{n}", n % 1000, 1, 60), [0, n % 1000 + 1, n % 1000, -1, 60]),
            lambda n: (("RATION.PEEK", "COST", 0, "path", "/login", "ip", f"10.0.{n // 256 % 256}.{n % 256}", "n", n),
                       encode(decision("allow", "login", 3, 3, 0, 0), 2)),
            lambda n: (("RATION.PEEK", "COST", n, "colour", "red"), encode(decision("allow", None, None, None, 0, None), 2)),
            lambda n: (("RATION.CHECK", "odd"), PAIRS),
            lambda n: (("RATION.CHECK", *MANY), RespError("ERR a request has at most 64 attributes")),
            lambda n: (("ECHO", n), str(n).encode()),
            lambda n: (("nonsense", n), RespError(f"ERR unknown command 'nonsense', with args beginning with: '{n}' ")),
            lambda n: (("RATION.RESET", "path", "/login", "ip", "192.0.2.9"), 1),
            lambda n: (("PING", "x", "y"), arity("ping")),
        ]
        client = server.resp()
        for length in 1, 10, 3000:
            picked = [choice.choice(kinds)(number) for number in range(length)]
            runs = [kind(number) for kind in kinds for number in range(150)]
            for asked in picked, runs:
                sent = b"".join(serve.Resp.encode(*words) for words, _ in asked)
                wanted = b"".join(value if isinstance(value, bytes) and value.startswith(b"*") else encode(value, 2)
                                  for _, value in asked)
                client.socket.sendall(sent)
                expect(client.read_raw(len(wanted)) == wanted, True, "the order of answers")
                expect(client.ask("DEL", *[word[1] for word, _ in asked if word[0] in (b"CL.THROTTLE", "GCRA")], "-") >= 0, True)


def test_requests_in_any_pieces():
    """Byte by byte, and cut at every place."""
    request = serve.Resp.encode("CL.THROTTLE", "k", 4, 1, 60, 0) + b"PING a\r\n" + serve.Resp.encode("ECHO", b"\r\n$1")
    wanted = encode([0, 5, 5, -1, 0], 2) + encode(b"a", 2) + encode(b"\r\n$1", 2)
    with serve.Server(BINARY, http="none") as server:
        client = server.resp()
        for byte in request:
            client.socket.sendall(bytes([byte]))
        expect(client.read_raw(len(wanted)), wanted)
        for cut in range(1, len(request)):
            client.socket.sendall(request[:cut])
            client.socket.sendall(request[cut:])
            expect(client.read_raw(len(wanted)), wanted, f"cut at {cut}")


def test_a_shadow_is_not_blocked():
    with serve.Server(BINARY, http="none", policy="limits: [{name: quiet, key: ip, rate: 3/10s fixed-window, shadow: true}]\n",
                      options=["--manual-clock"]) as server:
        expect(server.resp().ask("RATION.BLOCK", "SECONDS", 1, "ip", "192.0.2.1"),
               RespError("ERR none of the limits that apply can be blocked: shadow limits deny nobody"))


def test_a_limit_replaced_while_others_wait():
    """The limits of a batch are kept in 256 places: here more limits than places, in one write."""
    with serve.Server(BINARY, http="none", options=["--manual-clock"]) as server:
        client = server.resp()
        commands = [("CL.THROTTLE", f"k{number}", number, 1, 60) for number in range(900)]
        for _ in range(2):
            expect([answer[1] for answer in client.pipeline(commands)], [number + 1 for number in range(900)])


def test_the_longest_pipeline_that_may_be_set():
    """As many as a batch may hold, and one more; a larger setting is refused at the start."""
    with serve.Server(BINARY, http="none", options=["--pipeline-max", "1024", "--manual-clock"]) as server:
        answers = server.resp().pipeline([("CL.THROTTLE", "k", 9999, 10, 60)] * 5000)
        expect([answer[2] for answer in answers], list(range(9999, 4999, -1)))
    done = subprocess.run([BINARY, "serve", "--pipeline-max", "1025", "--http", "none", "--resp", "127.0.0.1:0"],
                          capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2 and "--pipeline-max" in done.stderr, done


def test_a_port_of_another_protocol():
    """A browser or a proxy that got the wrong port reads nothing, and nothing it sent is done."""
    with serve.Server(BINARY) as server:
        expect(say(server.resp_port, b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nPING\r\n"), b"")
        expect(say(server.resp_port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\nCL.THROTTLE k 4 1 60\r\n"), b"")
        expect(server.resp().ask("DBSIZE"), 0)
        assert say(server.http_port, b"*1\r\n$4\r\nPING\r\n").startswith(b"HTTP/1.1 400 ")


# Reload ----------------------------------------------------------------------------------------

def test_reload():
    first = "limits: [{name: a, key: user, rate: 1/min burst 5}, {name: b, key: user, rate: 1/min burst 9}]\n"
    with serve.Server(BINARY, http="none", policy=first, options=["--manual-clock"]) as server:
        client = server.resp(version=3)
        for _ in range(3):
            expect(client.ask("RATION.CHECK", "user", "u")[b"verdict"], b"allow")

        server.write_policy("limits:\n  - name: a\n    rate: 1/fortnight\n  - nam: b\n")
        answer = client.ask("RATION.RELOAD")
        text = r"ERR the policy was not reloaded: \S*policy\.yaml:3:\d+: .*policy\.yaml:4:5: .*nam"
        assert isinstance(answer, RespError) and re.match(text, answer.text), answer
        expect(client.ask("RATION.PEEK", "user", "u")[b"remaining"], 2, "a broken policy changed something")
        expect([limit[b"name"] for limit in client.ask("RATION.LIMITS")], [b"a", b"b"])

        os.unlink(server.policy_path)
        answer = client.ask("RATION.RELOAD")
        assert isinstance(answer, RespError) and "policy.yaml" in answer.text, answer

        server.write_policy("limits: [{name: a, key: user, rate: 1/min burst 4}, {name: c, key: user, rate: 1/s burst 100}]\n")
        changes = set(client.ask("RATION.RELOAD").decode().splitlines())
        expect(changes, {"limit a changed", "limit b removed", "limit c added"})
        expect(client.ask("RATION.PEEK", "user", "u"), decision("allow", "a", 4, 2, 0, 2 * MINUTE_NS))

        server.write_policy("limits: [{name: a, key: ip, rate: 1/min burst 4}]\n")
        expect(set(client.ask("RATION.RELOAD").decode().splitlines()), {"limit a reset", "limit c removed"})
        expect(client.ask("RATION.RELOAD"), b"nothing has changed")

        server.write_policy("limits: [{name: a, key: ip, rate: 1/min burst 4}]\nbanned: [{user: mallory}]\n")
        expect(client.ask("RATION.RELOAD"),
               b"limits are the same; what is exempt or banned, or the words of the file, have changed")
        server.write_policy("limits: [{name: a, match: {path: /x}, key: ip, rate: 1/min burst 4}]\nbanned: [{user: mallory}]\n")
        expect(client.ask("RATION.RELOAD"), b"limit a changed")
        server.write_policy("limits: [{name: a, key: ip, rate: 1/min burst 4}]\n")
        expect(client.ask("RATION.RELOAD"), b"limit a changed")

        server.write_policy("limits: [{name: a, key: ip, rate: 1/min burst 4}]\nserver: {deny-status: 403}\n")
        expect(client.ask("RATION.RELOAD"), b"setting deny-status has changed; it needs a restart")


class SlowPolicy:
    """A policy that takes as long to read as the test wants: a FIFO in the place of its file."""

    def __init__(self, server, text):
        self.path, self.text = server.policy_path, text

    def __enter__(self):
        os.mkfifo(self.path + ".fifo")
        os.rename(self.path + ".fifo", self.path)
        return self

    def wait_reader(self):
        """Until somebody has begun to read."""
        self.file = open(self.path, "w", encoding="utf-8")

    def finish(self):
        """The reader gets the text; whoever opens the path again finds a file."""
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            file.write(self.text)
        os.rename(self.path + ".new", self.path)
        self.file.write(self.text)
        self.file.close()

    def __exit__(self, *_):
        pass


def test_a_slow_reload_holds_up_nobody_else():
    """One loop, and a reload that waits for its file: others are answered meanwhile, and what the same
    client sent after it is answered after it, once it is done."""
    policy = "limits: [{name: a, key: user, rate: 1/min burst 5}]\n"
    with serve.Server(BINARY, policy=policy, options=["--manual-clock", "--threads", "1"]) as server:
        client, other = server.resp(), server.resp()
        with SlowPolicy(server, policy.replace("burst 5", "burst 7")) as slow:
            client.socket.sendall(b"".join(client.encode(*words) for words in (("PING", "before"), ("RATION.RELOAD",), ("PING", "after"))))
            expect(client.read(), b"before")
            slow.wait_reader()
            expect(other.ask("PING"), "PONG", "while a reload waits")
            expect(server.http("GET", "/healthz")[0], 200)
            slow.finish()
            expect(client.read(), b"limit a changed")
            expect(client.read(), b"after")
        # HTTP: and a connection that is asked to close does so after the answer.
        with SlowPolicy(server, policy) as slow:
            raw = b"POST /v1/reload HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
            with socket.create_connection(("127.0.0.1", server.http_port), timeout=30) as connection:
                connection.sendall(raw)
                slow.wait_reader()
                expect(other.ask("PING"), "PONG", "while a reload waits")
                slow.finish()
                answer = serve.read_to_end(connection)
            expect(answer.count(b"HTTP/1.1 200"), 1, answer)
            assert b'"limit a changed"' in answer, answer
        # Whoever goes away meanwhile is not answered, and is missed by nobody.
        with SlowPolicy(server, policy.replace("burst 5", "burst 8")) as slow:
            client.send("RATION.RELOAD")
            slow.wait_reader()
            client.close()
            slow.finish()
        server.wait_line("limit a changed", first=0)
        # CLIENT REPLY OFF is about answers that come later, too; and MULTI keeps none back.
        quiet = server.resp()
        quiet.send("CLIENT", "REPLY", "SKIP")
        quiet.send("RATION.RELOAD")
        expect(quiet.ask("PING"), "PONG")
        quiet.ask("MULTI")
        expect(quiet.ask("RATION.RELOAD"), RespError("ERR RATION.RELOAD cannot be kept back by MULTI"))
        expect(quiet.ask("EXEC"), RespError("EXECABORT Transaction discarded because of previous errors."))


def test_a_slow_reload_and_the_end_of_the_server():
    """Connections that wait are closed at the deadline; the reload that has begun is waited for."""
    with serve.Server(BINARY, policy=POLICY, options=["--manual-clock", "--drain-deadline-ms", "1"]) as server:
        client = server.resp()
        with SlowPolicy(server, POLICY) as slow:
            client.send("RATION.RELOAD")
            slow.wait_reader()
            server.process.terminate()
            assert client.is_closed()
            slow.finish()


def flush_over_http(server):
    """Sends POST /v1/reset of all inline keys; the connection closes after the response."""
    body = b'{"inline": true}'
    connection = socket.create_connection(("127.0.0.1", server.http_port), timeout=30)
    connection.sendall(b"POST /v1/reset HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    return connection


def test_flushes_stall_nobody():
    """One loop; flushes wait for their thread, which a reload keeps busy. Other clients are answered meanwhile. Then
    each flush is answered, and what was sent behind it finds all inline keys full."""
    policy = "limits: [{name: a, key: user, rate: 1/min burst 5}]\n"
    allowed, denied = [0, 1, 0, -1, 60], [1, 1, 0, 60, 60]
    take, take_queued = (("CL.THROTTLE", key, 0, 1, 60) for key in "kq")
    with serve.Server(BINARY, policy=policy, options=["--manual-clock", "--threads", "1"]) as server:
        other = server.resp()
        pipelined, queued, leaving = server.resp(), server.resp(), server.resp()
        with SlowPolicy(server, policy.replace("burst 5", "burst 7")) as slow:
            reloading = server.resp()
            reloading.send("RATION.RELOAD")
            slow.wait_reader()
            for words in (take, ("RATION.FLUSH", "INLINE"), take, ("RATION.FLUSH", "INLINE"), take):
                pipelined.send(*words)
            expect(pipelined.read(), allowed)
            for words in (("MULTI",), ("RATION.FLUSH", "INLINE"), take_queued, ("RATION.FLUSH", "INLINE"), take_queued,
                          ("EXEC",)):
                queued.send(*words)
            for reply in ["OK"] + 4 * ["QUEUED"]:
                expect(queued.read(), reply)
            over_http = flush_over_http(server)
            leaving.send("RATION.FLUSH", "INLINE")
            for _ in range(3):
                expect(other.ask(*take), denied, "nothing is cleared yet, and the loop serves others")
            expect(server.http("GET", "/healthz")[0], 200)
            leaving.close()
            slow.finish()
            for reply in ("OK", allowed, "OK", allowed):
                expect(pipelined.read(), reply)
            expect(queued.read(), ["OK", allowed, "OK", allowed])
            answer = serve.read_to_end(over_http)
            over_http.close()
            assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b'{"changed":1}'), answer
        other.send("CLIENT", "REPLY", "SKIP")
        other.send("RATION.FLUSH", "INLINE")
        expect(other.ask(*take), allowed, "the reply to the flush is suppressed")
        # More flushes than a slot can tell apart: each clears all the same.
        for _ in range(10):
            expect(other.ask("RATION.FLUSH", "INLINE"), "OK")
            expect(other.ask(*take), allowed)
            expect(other.ask(*take), denied)


def test_flushes_and_the_end_of_the_server():
    """Clients that wait for a flush are disconnected at the drain deadline, and the flush does no harm."""
    with serve.Server(BINARY, policy=POLICY, options=["--manual-clock", "--drain-deadline-ms", "1"]) as server:
        client, flushing = server.resp(), server.resp()
        with SlowPolicy(server, POLICY) as slow:
            client.send("RATION.RELOAD")
            slow.wait_reader()
            flushing.send("RATION.FLUSH", "INLINE")
            over_http = flush_over_http(server)
            server.process.terminate()
            assert client.is_closed() and flushing.is_closed()
            serve.read_to_end(over_http)
            over_http.close()
            slow.finish()


def test_reload_by_a_signal():
    """SIGHUP, as RATION.RELOAD; the log tells the same."""
    with serve.Server(BINARY, http="none", policy="limits: [{name: a, key: user, rate: 1/min burst 5}]\n",
                      options=["--manual-clock"]) as server:
        client = server.resp(version=3)
        client.ask("RATION.CHECK", "user", "u")
        seen = len(server.lines)
        server.write_policy("limits: [{name: a, key: user, rate: 1/min burst 3}]\n")
        server.process.send_signal(1)
        server.wait_line("reloaded the policy", first=seen)
        expect("limit a changed" in server.output(), True, "the log tells")
        expect(client.ask("RATION.PEEK", "user", "u")[b"burst"], 3)
        seen = len(server.lines)
        server.write_policy("limits: [{name: a, key: user, rate: nonsense}]\n")
        server.process.send_signal(1)
        server.wait_line("the one before stays in force", first=seen)
        expect(client.ask("RATION.PEEK", "user", "u")[b"burst"], 3)


serve.run()
