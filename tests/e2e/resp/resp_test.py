#!/usr/bin/env python3
"""The replies of a server over the Redis protocol: every command and its errors, byte for byte, in both versions.

    resp_test.py RATION
"""
import time

from resp_kit import BINARY, MANY, MINUTE_NS, NOT_A_NUMBER, PAIRS, POLICY, Text, arity, cell, decision, encode, no_limit
from resp_redis_test import SHARED
import serve
from serve import RespError, expect


def top(limit, key, count):
    return {b"limit": limit, b"key": key, b"count": count, b"error": 0}


def limit_line(name, text, match, key, rate, keys_max, keys, allowed, denied, never, near_limit=0):
    tokens, period_ns, burst = rate
    return {b"name": name, b"limit": text, b"match": match, b"key": key, b"shadow": 0, b"tokens": tokens, b"period_ns": period_ns,
            b"burst": burst, b"keys_max": keys_max, b"keys": keys, b"allowed": allowed, b"denied": denied, b"never": never, b"near_limit": near_limit, b"shadow_denied": 0, b"overflow": 0}


TOP_SYNTAX = RespError("ERR syntax error: RATION.TOP [BY DENIED|COST] [COUNT 1 to 100] [LIMIT name]")
CLOCK_MAX_NS = 544924752303423487
CLOCK_RANGE = RespError(f"ERR the clock goes from 0 to {CLOCK_MAX_NS} ns (17 years), where the tables' time ends")
CLOCK_SYNTAX = RespError("ERR syntax error: RATION.CLOCK GET | SET ns | ADVANCE ns")
TOO_LONG = RespError("ERR a block lasts at most 730 days; ban a caller for longer in the policy")
HOW_LONG = RespError("ERR the duration is missing: RATION.BLOCK SECONDS s | MS ms [LIMIT name] attribute value ...")
WHO = ("path", "/login", "ip", "192.0.2.1")

# One after the other, with a manual clock that stays at 0: each row depends on the rows before it.
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
    (("RATION.REFUND", "TOKENS", 1, "LIMIT", "all", "path", "/login", "user", "root"), 0),  # the limit exists, and does not apply to this request
    (("RATION.REFUND", "TOKENS", 1, "LIMIT", "other", *WHO), no_limit("'other': limits are login, window and all")),
    (("RATION.RESET", "LIMIT", "Login", *WHO), no_limit("'Login': did you mean login?")),
    (("RATION.BLOCK", "MS", 1, "LIMIT", "inline", *WHO), no_limit("'inline': limits are login, window and all")),
    (("RATION.BLOCK", "MS", 1, "LIMIT", b"login\x00", *WHO), no_limit("'login\\x00': did you mean login?")),
    (("RATION.PEEK", *WHO), decision("allow", "login", 3, 2, 0, MINUTE_NS)),
    (("RATION.RESET", "path"), arity("ration.reset")),
    (("RATION.RESET", "colour", "red"), 0),
    (("RATION.RESET", "path", "/login", "ip", "nobody"), RespError(
        "ERR a request has at most 64 attributes, none of them twice, an ip that is an address, values of at most max-attribute-size, and at most 16 limits that apply")),
    (("RATION.RESET", *WHO), 1),  # not the bucket of the limit without a key
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
    (("RATION.TOP", "LIMIT", "nobody"), no_limit("'nobody': limits are login, window, all and inline")),
    (("RATION.TOP", "LIMIT", ""), no_limit("'': limits are login, window, all and inline")),
    (("RATION.TOP", "LIMIT", b"login\x00x"), no_limit("'login\\x00x': did you mean login?")),
    (("RATION.TOP", "LIMIT", "inlien"), no_limit("'inlien': did you mean inline?")),
    (("RATION.TOP", "LIMIT", "inline"), [top(b"inline", b"k", 2), top(b"inline", b"g", 1)]),
    (("RATION.TOP", "LIMIT", "login"), [top(b"login", b"192.0.2.1", 4)]),
    (("RATION.TOP", "by", "denied", "COUNT", 1), [top(b"login", b"192.0.2.1", 4)]),
    (("RATION.LIMITS", "x"), arity("ration.limits")),
    (("RATION.LIMITS",), [
        limit_line(b"login", b"1/min burst 3", b"path is /login", [b"ip"], (1, MINUTE_NS, 3), 1000000, 1, 2, 3, 1, near_limit=1),
        limit_line(b"window", b"3/10s fixed_window", b"path is /window", [b"user"], (3, 10 ** 10, 3), 1000000, 0, 0, 0, 0),
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
        "    Return these settings as of a Redis without persistence.", "HELP", "    Print this help."]),
    (("CONFIG", "GET", "save", "appendonly"), {b"save": b"", b"appendonly": b"no"}),
    (("CLIENT", "SETINFO", "LIB-NAME", "me"), "OK"),
    (("CLIENT", "SETINFO", "LIB-VER", "1.2"), "OK"),
    (("CLIENT", "SETNAME", "n"), "OK"),
]


def test_every_command_byte_for_byte():
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


def test_a_name_that_is_too_long_matches_no_limit():
    """Names have up to 63 bytes, and longer ones were once truncated: such a name matches no limit."""
    names = ["n" * 63, *(f"limit-{number}" for number in range(1, 9))]
    policy = "limits:\n" + "".join(f"  - {{name: {name}, match: {{user: u}}, key: user, rate: 1/h}}\n" for name in names)
    with serve.Server(BINARY, policy=policy, http="none", options=["--manual-clock"]) as server:
        client = server.resp()
        reported = "'" + "n" * 24 + "...': limits are " + ", ".join(names[:8]) + " and %d more"
        for words in ("RESET",), ("REFUND",), ("BLOCK", "SECONDS", 9):
            expect(client.ask("RATION." + words[0], *words[1:], "LIMIT", "n" * 64, "user", "u"), no_limit(reported % 1), words[0])
        expect(serve.pairs(client.ask("RATION.CHECK", "user", "u"))[b"verdict"], b"allow", "nothing is blocked")
        expect(client.ask("RATION.BLOCK", "SECONDS", 9, "LIMIT", "n" * 63, "user", "u"), 1)
        expect(client.ask("RATION.TOP", "LIMIT", "n" * 64), no_limit(reported % 2))


def test_help_exists_where_errors_mention_it():
    """The HELP that errors recommend lists each subcommand, in the form of Redis."""
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
    """A new command needs rows here, or among those that are compared with Redis."""
    asked = {str(words[0]).lower() for words, _ in TABLE} | {str(words[0]).lower() for words in SHARED if words}
    with serve.Server(BINARY, http="none") as server:
        known = {name.decode() for name in server.resp().ask("COMMAND", "LIST")}
    expect(known - asked - {"info", "time", "dbsize", "quit", "hello", "multi", "exec", "discard"}, set(),
           "commands without a row")


def test_commands_about_the_server():
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
    """Beyond the end a table's time would stop, and no token would be refilled: the server refuses such a time."""
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


def test_a_shadow_is_not_blocked():
    with serve.Server(BINARY, http="none", policy="limits: [{name: quiet, key: ip, rate: 3/10s fixed_window, shadow: true}]\n",
                      options=["--manual-clock"]) as server:
        expect(server.resp().ask("RATION.BLOCK", "SECONDS", 1, "ip", "192.0.2.1"),
               RespError("ERR none of the limits that apply can be blocked: shadow limits deny nobody"))


if __name__ == "__main__":
    serve.run()
