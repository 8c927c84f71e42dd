#!/usr/bin/env python3
"""redis-py (Debian's python3-redis), unmodified; and the commands that other clients send when they connect.

    redis_py_test.py RATION
"""
import os
import sys

import redis

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import serve

BINARY = sys.argv[1]
POLICY = """
limits:
  - {name: login, match: {path: /login}, key: ip, rate: 1/min, burst: 3}
"""
PASSWORD = "correct horse"


def connect(server, **options):
    return redis.Redis(host="127.0.0.1", port=server.resp_port, socket_timeout=30, **options)


def raised(call, kind, text):
    try:
        call()
    except kind as error:
        serve.expect(str(error), text)
        return
    raise AssertionError(f"nothing was raised, where {kind.__name__} was expected: {text}")


def use(server, **options):
    """The usual commands of a program on a connection; each connection has a new key."""
    key = "k-" + "-".join(sorted(options))
    with connect(server, **options) as client:
        text = (lambda value: value) if options.get("decode_responses") else str.encode
        serve.expect(client.ping(), True)
        serve.expect(client.execute_command("CL.THROTTLE", key, 4, 1, 60), [0, 5, 4, -1, 60])
        check = client.execute_command("RATION.CHECK", "path", "/login", "ip", "192.0.2.1")
        serve.expect(dict(zip(check[::2], check[1::2]))[text("limit")], text("login"))
        top = client.execute_command("RATION.TOP", "BY", "COST")
        serve.expect(all(entry[0] == text("limit") for entry in top), True)
        with client.pipeline(transaction=False) as pipeline:
            for _ in range(100):
                pipeline.execute_command("CL.THROTTLE", key, 4, 1, 60)
            pipeline.ping()
            pipeline.echo("x")
            answers = pipeline.execute()
        serve.expect([answer[0] for answer in answers[:100]], [0] * 4 + [1] * 96)
        serve.expect(answers[100:], [True, text("x")])
        raised(lambda: client.execute_command("CL.THROTTLE", key), redis.ResponseError,
               "Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]")
        raised(lambda: client.get("x"), redis.ResponseError,
               "unknown command 'GET', with args beginning with: 'x' ")
        serve.expect(client.delete(key), 1)
        serve.expect(client.execute_command("CL.THROTTLE", key, 4, 1, 60)[:3], [0, 5, 4])
        serve.expect(client.info()["redis_mode"], "standalone")
        serve.expect(client.config_get("save"), {"save": ""})
        assert client.dbsize() >= 1 and client.time()[0] > 0 and client.client_id() > 0
        serve.expect(client.client_getname(), options.get("client_name"))


def test_each_way_to_connect():
    with serve.Server(BINARY, http="none", policy=POLICY, options=["--manual-clock"]) as server:
        use(server)
        use(server, decode_responses=True)
        use(server, client_name="a-name", db=0, decode_responses=True)
    with serve.Server(BINARY, http="none", policy=POLICY, options=["--check-secret", "another", "--admin-secret", PASSWORD, "--manual-clock"]) as server:
        use(server, password=PASSWORD)
        use(server, username="default", password=PASSWORD, client_name="b", decode_responses=True)
        raised(connect(server, password="wrong").ping, redis.ResponseError,
               "WRONGPASS invalid username-password pair or user is disabled.")
        raised(connect(server).ping, redis.AuthenticationError, "Authentication required.")


def test_a_transaction():
    """A pipeline of redis-py is a transaction by default."""
    with serve.Server(BINARY, http="none", options=["--manual-clock"]) as server:
        client = redis.Redis(port=server.resp_port)
        pipeline = client.pipeline()
        for _ in range(3):
            pipeline.execute_command("CL.THROTTLE", "k", 4, 1, 60)
        pipeline.ping()
        serve.expect(pipeline.execute(), [[0, 5, 4, -1, 60], [0, 5, 3, -1, 120], [0, 5, 2, -1, 180], True])
        pipeline.execute_command("CL.THROTTLE", "k", 4, 1, 60)
        pipeline.execute_command("NONSENSE")
        raised(pipeline.execute, redis.ResponseError,
               "Command # 2 (NONSENSE) of pipeline caused error: unknown command 'NONSENSE', with args beginning with: ")
        serve.expect(client.execute_command("CL.THROTTLE", "k", 4, 1, 60, 0), [0, 5, 2, -1, 180], "nothing was taken")


# The commands that clients send when they connect (one list per write), and replies that would break them.
HANDSHAKES = {
    "redis-py 5 to 7": [[("CLIENT", "SETINFO", "LIB-NAME", "redis-py")], [("CLIENT", "SETINFO", "LIB-VER", "7.0.1")]],
    "redis-py 5 to 7 in RESP3": [[("HELLO", 3)], [("CLIENT", "SETINFO", "LIB-NAME", "redis-py")]],
    "redis-py 8": [[("HELLO", 3)], [("CLIENT", "MAINT_NOTIFICATIONS", "ON", "moving-endpoint-type", "none")],
                   [("CLIENT", "SETNAME", "n")], [("CLIENT", "SETINFO", "LIB-NAME", "redis-py")], [("SELECT", 0)]],
    "go-redis 9": [[("hello", 3)], [("select", 0), ("client", "setname", "n")],
                   [("client", "maint_notifications", "on", "moving-endpoint-type", "none")],
                   [("client", "setinfo", "LIB-NAME", "go-redis(,go1.22)"), ("client", "setinfo", "LIB-VER", "9.16.0")]],
    "node-redis 4 and 5": [[("CLIENT", "SETNAME", "n"), ("SELECT", 0), ("CLIENT", "SETINFO", "LIB-VER", "5.0.0"),
                            ("CLIENT", "SETINFO", "LIB-NAME", "node-redis")]],
    "node-redis 6": [[("HELLO", 3, "SETNAME", "n"), ("SELECT", 0), ("CLIENT", "SETINFO", "LIB-VER", "6.3.1"),
                      ("CLIENT", "SETINFO", "LIB-NAME", "node-redis"), ("CLIENT", "MAINT_NOTIFICATIONS", "ON")]],
    "ioredis 5": [[("SELECT", 0)], [("CLIENT", "SETNAME", "n")], [("CLIENT", "SETINFO", "LIB-NAME", "ioredis")], [("INFO",)]],
    "ioredis 6": [[("HELLO", 3), ("SELECT", 0), ("CLIENT", "SETNAME", "n")], [("INFO",)]],
    "Lettuce 6": [[("HELLO", 3, "SETNAME", "n")], [("CLIENT", "SETINFO", "lib-name", "Lettuce"),
                                                  ("CLIENT", "SETINFO", "lib-ver", "6.4.0.RELEASE/9414229")]],
    "redis-rs": [[("CLIENT", "SETINFO", "LIB-NAME", "redis-rs"), ("CLIENT", "SETINFO", "LIB-VER", "0.25.0")]],
    "redis-cli": [[("INFO", "SERVER")], [("COMMAND", "DOCS")], [("COMMAND",)]],
    "redis-benchmark": [[("CONFIG", "GET", "save"), ("CONFIG", "GET", "appendonly")]],
}


def check_handshake_answer(command, answer, what):
    name = str(command[0]).lower()
    rest = [str(word).lower() for word in command[1:]]
    if rest[:1] == ["maint_notifications"]:  # an error, which clients ignore in their default mode
        serve.expect(answer, serve.RespError(f"ERR unknown subcommand '{command[1]}'. Try CLIENT HELP."), what)
    elif name == "hello":
        serve.expect({key: answer[key] for key in (b"server", b"version", b"proto", b"mode", b"role", b"modules")},
                     {b"server": b"redis", b"version": b"7.2.0", b"proto": 3, b"mode": b"standalone",
                      b"role": b"master", b"modules": []}, what)
        assert answer[b"id"] > 0
    elif name == "info":
        assert b"\r\nredis_mode:standalone\r\n" in answer and b"\r\nloading:0\r\n" in answer, (what, answer)
    elif name == "config":
        serve.expect(answer, [rest[1].encode(), b"" if rest[1] == "save" else b"no"], what)
    elif name == "command":
        assert len(answer) >= 25, what
    else:
        serve.expect(answer, "OK", what)


def with_password(command):
    """The same command of a client with a password, if the command can contain one."""
    if str(command[0]).lower() == "hello":
        return (*command[:2], "AUTH", "default", PASSWORD, *command[2:])
    return command


def test_handshakes():
    with serve.Server(BINARY, http="none") as server, \
            serve.Server(BINARY, http="none", options=["--check-secret", PASSWORD]) as guarded:
        for name, writes in HANDSHAKES.items():
            client = server.resp()
            for commands in writes:
                for command, answer in zip(commands, client.pipeline(commands)):
                    check_handshake_answer(command, answer, f"{name}: {command}")
            serve.expect(client.ask("CL.THROTTLE", name, 0, 1, 60), [0, 1, 0, -1, 60], name)
            client.close()

            client = guarded.resp()
            is_hello = str(writes[0][0][0]).lower() == "hello"
            if not is_hello:
                serve.expect(client.ask("AUTH", PASSWORD), "OK")
            for commands in writes:
                commands = [with_password(command) for command in commands]
                for command, answer in zip(commands, client.pipeline(commands)):
                    check_handshake_answer(command, answer, f"{name}: {command}")
            serve.expect(client.ask("CL.THROTTLE", name, 0, 1, 60), [0, 1, 0, -1, 60], name)
            client.close()


def test_a_client_falls_back_to_resp2_as_it_should():
    """ioredis and Lettuce inspect the text of the error."""
    with serve.Server(BINARY, http="none") as server:
        client = server.resp()
        serve.expect(client.ask("HELLO", 4), serve.RespError("NOPROTO unsupported protocol version"))
        serve.expect(client.ask("HELLO", "x"),
                     serve.RespError("ERR Protocol version is not an integer or out of range"))
        serve.expect(client.ask("CLIENT", "GETNAME"), None)
        serve.expect(len(client.ask("HELLO", 2)), 14, "HELLO 2 is flat")


serve.run()
