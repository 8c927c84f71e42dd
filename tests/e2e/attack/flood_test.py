#!/usr/bin/env python3
"""A million new keys through the network: no key with tokens in use is forgotten, and memory stays within the amount
logged at the start (R7, R10).

    flood_test.py RATION
"""
import attack_kit as kit
import serve

FRESH = 100000 if kit.IS_SANITIZED else 1000000
KEYS_MAX = 10000
BATCH = 500
BLOCKED = 100
SECOND_NS = 10**9
POLICY = f"limits: [{{name: user, key: user, rate: 1/s, burst: 5, max_keys: {KEYS_MAX}}}]"


def flood(server, request, count):
    """Sends request % number for count numbers, in pipelines; reads and discards the replies."""
    client = server.resp()
    client.socket.sendall(b"CLIENT REPLY OFF\r\n")
    for first in range(0, count, BATCH):
        client.socket.sendall(b"".join(request % number for number in range(first, first + BATCH)))
    client.send("CLIENT", "REPLY", "ON")
    serve.expect(client.read(), "OK")
    client.close()


def check(client, user):
    answer = client.ask("RATION.CHECK", "user", user)
    return serve.pairs(answer)[b"verdict"]


def flood_twice(server, client, request):
    """Floods twice, with time in between so that slots are reused, and waits for a minute: the keys of the flood, and the
    bucket shared by keys without a slot, are then full again. Returns how much memory grew."""
    flood(server, request.replace(b"fresh", b"warm"), 5000)
    before = kit.memory_bytes(server)
    flood(server, request, FRESH // 2)
    client.ask("RATION.CLOCK", "ADVANCE", 10 * SECOND_NS)
    flood(server, request.replace(b"fresh", b"newer"), FRESH // 2)
    grown = kit.memory_bytes(server) - before
    client.ask("RATION.CLOCK", "ADVANCE", 60 * SECOND_NS)
    return grown


def test_a_flood_of_policy_keys():
    with kit.server(POLICY, ["--manual-clock", "--threads", "1", "--top-keys", "100"]) as server:
        client = server.resp()
        client.ask("RATION.CLOCK", "SET", 10**17)
        for number in range(BLOCKED):
            serve.expect(client.ask("RATION.BLOCK", "SECONDS", 3600, "user", f"blocked{number}"), 1)
        grown = flood_twice(server, client, b"RATION.CHECK user fresh%d\r\n")
        for number in range(BLOCKED):
            serve.expect(check(client, f"blocked{number}"), b"deny", f"blocked{number} after the flood")
        serve.expect(check(client, "another"), b"allow", "a key that was not blocked")
        samples = kit.metrics(server)
        stated = samples["ration_tables_max_bytes"]
        assert grown < min(stated, 4 * kit.MIB * kit.MEMORY_FACTOR), f"{grown} bytes more of {stated}"
        overflow = samples['ration_overflow_total{limit="user",rule="shared"}']
        assert overflow > FRESH / 2, f"{overflow} shared a bucket"
        assert samples['ration_table_keys{limit="user"}'] <= 2 * KEYS_MAX


def test_a_flood_of_inline_keys():
    with kit.server(options=["--manual-clock", "--threads", "1", "--inline-keys", str(KEYS_MAX)]) as server:
        client = server.resp()
        client.ask("RATION.CLOCK", "SET", 10**17)
        for number in range(BLOCKED):
            client.pipeline([["CL.THROTTLE", f"blocked{number}", 0, 1, 3600]] * 2)
        grown = flood_twice(server, client, b"CL.THROTTLE fresh%d 0 1 1\r\n")
        for number in range(BLOCKED):
            serve.expect(client.ask("CL.THROTTLE", f"blocked{number}", 0, 1, 3600)[0], 1, number)
        serve.expect(client.ask("CL.THROTTLE", "another", 0, 1, 3600)[0], 0)
        assert grown < 4 * kit.MIB * kit.MEMORY_FACTOR, f"{grown} bytes more"


def test_a_flood_of_blocks_by_an_operator_is_reported():
    """A block that finds no slot is refused with an error, never silently forgotten."""
    policy = "limits: [{name: user, key: user, rate: 1/h, burst: 5, max_keys: 64}]"
    with kit.server(policy, ["--manual-clock"]) as server:
        client = server.resp()
        client.ask("RATION.CLOCK", "SET", 10**17)
        answers = client.pipeline([["RATION.BLOCK", "SECONDS", 3600, "user", f"u{number}"]
                                   for number in range(1000)])
        blocked = [number for number, answer in enumerate(answers) if answer == 1]
        assert 64 <= len(blocked) < 1000, len(blocked)
        for number in blocked:
            serve.expect(check(client, f"u{number}"), b"deny", f"u{number} was blocked")


serve.run()
