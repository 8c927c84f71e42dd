"""redis-servers on loopback that stop with the test: single nodes, a cluster, and sentinels.

    with Cluster(3) as cluster:
        cluster.url                             # redis+cluster://127.0.0.1:...
        cluster.node_of("alice")                # the Node that has ration:{alice}:...
        cluster.nodes[0].ask("DBSIZE")
"""
import binascii
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import serve

START_SECONDS = 20
BUS = 10000  # the port of the cluster bus is the node's port plus this


def wait_until(is_done, seconds, what):
    deadline = time.monotonic() + seconds
    while not is_done():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.02)


def is_free(port):
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port():
    """A port below the ephemeral range, so that a restarted node can use it again."""
    while True:
        port = random.SystemRandom().randrange(11000, 21000)
        if is_free(port) and is_free(port + BUS):
            return port


class Node:
    """A redis-server. A test that fails prints its log."""

    def __init__(self, options=(), words=()):
        self.port = free_port()
        self.folder = tempfile.mkdtemp(prefix="ration-redis-")
        self.command = ["redis-server", *words, "--port", str(self.port), "--bind", "127.0.0.1",
                        "--dir", self.folder, "--logfile", os.path.join(self.folder, "log"), *options]
        self.process = None
        self.client = None
        self.start()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        preexec_fn=serve.die_with_parent)
        wait_until(self.is_there, START_SECONDS, f"redis-server {self.address}")

    def is_there(self):
        if self.process.poll() is not None:
            raise AssertionError(f"redis-server {self.address} has ended:\n{self.log()}")
        try:
            return self.ask("PING") == "PONG"
        except OSError:
            return False

    def log(self):
        try:
            with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as file:
                return "".join(file.readlines()[-30:])
        except OSError:
            return ""

    def ask(self, *words):
        """The reply to a command; reconnects once if the connection broke."""
        for attempt in range(2):
            try:
                if self.client is None:
                    self.client = serve.Resp(self.port)
                return self.client.ask(*words)
            except (OSError, serve.Closed):
                self.client = None
                if attempt == 1:
                    raise OSError(f"{self.address} does not answer")

    def do(self, *words):
        answer = self.ask(*words)
        if isinstance(answer, serve.RespError):
            raise AssertionError(f"{self.address} {' '.join(map(str, words))}: {answer.text}")
        return answer

    def info(self, section):
        lines = self.do("INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def error_count(self, word):
        """How many errors of this kind the node has sent: MOVED, ASK."""
        reported = self.info("errorstats").get(f"errorstat_{word}", "count=0")
        return int(reported.split("=")[1])

    def kill(self, signal_number=signal.SIGKILL):
        if self.process.poll() is None:
            self.process.send_signal(signal_number)
            self.process.wait()
        if self.client is not None:
            self.client.close()
            self.client = None

    def remove(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def slot_of(key):
    return binascii.crc_hqx(key.encode(), 0) % 16384


class Group:
    """Nodes that are stopped together."""

    def __init__(self):
        self.nodes = []

    def add(self, **options):
        node = Node(**options)
        self.nodes.append(node)
        return node

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        is_failed = kind is not None and getattr(value, "code", 1) != 0
        for node in self.nodes:
            if is_failed:
                print(f"--- {node.address}\n{node.log()}", file=sys.stderr)
            node.remove()


PLAIN = ("--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0")


class Cluster(Group):
    """Masters that redis-cli joins to one cluster. If a node fails, only its own slots become unavailable."""

    OPTIONS = (*PLAIN, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
               "--cluster-require-full-coverage", "no", "--cluster-allow-replica-migration", "no")

    def __init__(self, count):
        super().__init__()
        try:
            for _ in range(count):
                self.add(options=self.OPTIONS)
            subprocess.run(["redis-cli", "--cluster", "create", *(node.address for node in self.nodes),
                            "--cluster-yes"], check=True, stdout=subprocess.DEVNULL, timeout=30)
            self.wait_agreed()
        except BaseException:
            self.__exit__(AssertionError, None, None)
            raise

    def wait_agreed(self):
        """Waits until every node reports the same slots and the state ok."""
        def is_agreed():
            reported = {str(sorted((slots[0], slots[1], slots[2][1]) for slots in node.do("CLUSTER", "SLOTS")))
                    for node in self.nodes}
            return len(reported) == 1 and all(b"cluster_state:ok" in node.do("CLUSTER", "INFO")
                                          for node in self.nodes)
        wait_until(is_agreed, 20, "the cluster agrees")

    @property
    def url(self):
        return "redis+cluster://" + ",".join(node.address for node in self.nodes[:2])

    def add_node(self):
        """Adds a node without slots, and waits until all nodes know it."""
        node = self.add(options=self.OPTIONS)
        node.do("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        ids = [one.do("CLUSTER", "MYID") for one in self.nodes]
        wait_until(lambda: all(b"handshake" not in reported and all(name in reported for name in ids)
                               for reported in (one.do("CLUSTER", "NODES") for one in self.nodes)),
                   20, "all nodes know each other")
        self.wait_agreed()
        return node

    def add_replica(self, master):
        node = self.add_node()
        node.do("CLUSTER", "REPLICATE", master.do("CLUSTER", "MYID"))
        wait_until(lambda: node.info("replication").get("master_link_status") == "up", 20,
                   "the replica is up to date")
        return node

    def node_of(self, key):
        slot = slot_of(key)
        for first, last, master, *_ in self.nodes[0].do("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(node for node in self.nodes if node.port == master[1])
        raise AssertionError(f"no node has slot {slot}")

    def move(self, slot, source, target, pause=0.0):
        """Moves a slot like redis-cli --cluster reshard, with a pause between the steps."""
        target.do("CLUSTER", "SETSLOT", slot, "IMPORTING", source.do("CLUSTER", "MYID"))
        source.do("CLUSTER", "SETSLOT", slot, "MIGRATING", target.do("CLUSTER", "MYID"))
        time.sleep(pause)
        while True:
            keys = source.do("CLUSTER", "GETKEYSINSLOT", slot, 10)
            if not keys:
                break
            source.do("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
            time.sleep(pause)
        for node in (target, source, *self.nodes):
            node.do("CLUSTER", "SETSLOT", slot, "NODE", target.do("CLUSTER", "MYID"))
        time.sleep(pause)


class Sentinels(Group):
    """A master with one replica, and sentinels that watch over them."""

    NAME = "mymaster"

    def __init__(self, count=3):
        super().__init__()
        try:
            self.master = self.add(options=PLAIN)
            self.replica = self.add(options=(*PLAIN, "--replicaof", "127.0.0.1", str(self.master.port)))
            wait_until(lambda: self.replica.info("replication").get("master_link_status") == "up", 20,
                       "the replica is up to date")
            self.sentinels = [self.add_sentinel(count // 2 + 1) for _ in range(count)]
            wait_until(self.is_agreed, 20, "the sentinels know each other")
        except BaseException:
            self.__exit__(AssertionError, None, None)
            raise

    def add_sentinel(self, quorum):
        folder = tempfile.mkdtemp(prefix="ration-sentinel-")
        path = os.path.join(folder, "sentinel.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"sentinel monitor {self.NAME} 127.0.0.1 {self.master.port} {quorum}\n"
                       f"sentinel down-after-milliseconds {self.NAME} 500\n"
                       f"sentinel failover-timeout {self.NAME} 1000\n")
        node = self.add(words=(path, "--sentinel"))
        # otherwise their information about each other and the replicas is some seconds old
        node.do("SENTINEL", "DEBUG", "info-period", 200, "publish-period", 200, "ping-period", 100,
                "slave-reconf-timeout", 1000, "min-link-reconnect-period", 200)
        self.folders = getattr(self, "folders", []) + [folder]
        return node

    def is_agreed(self):
        for sentinel in self.sentinels:
            reported = serve.pairs(sentinel.do("SENTINEL", "MASTER", self.NAME))
            if reported[b"num-other-sentinels"] != b"%d" % (len(self.sentinels) - 1) or \
                    reported[b"num-slaves"] != b"1" or reported[b"flags"] != b"master":
                return False
        return True

    def master_port(self):
        return int(self.sentinels[0].do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.NAME)[1])

    def is_demoted(self, node):
        """Has the sentinels demote the node; retries if they gave up, because they may not trust the replica yet."""
        if node.info("replication")["role"] == "slave":
            return True
        if self.master_port() == node.port:
            self.sentinels[0].ask("SENTINEL", "FAILOVER", self.NAME)
            time.sleep(0.5)
        return False

    @property
    def url(self):
        return "redis+sentinel://" + ",".join(one.address for one in self.sentinels) + "/" + self.NAME

    def __exit__(self, kind, value, trace):
        super().__exit__(kind, value, trace)
        for folder in getattr(self, "folders", []):
            shutil.rmtree(folder, ignore_errors=True)
