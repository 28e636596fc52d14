"""Real peers for tests and benchmarks: Kafka's jars, Java and Go compilers, kcat, and brokers as processes.

Peers are fetched once into `.peers/` and shared by every run: each is built under a temporary name while a
lock is held and then renamed, so a run that breaks off leaves nothing half done. A missing tool skips the
test with its reason on a person's machine and fails it where CI=true, so that CI never passes by skipping.
Every process started here is remembered and killed by its id, at the latest when Python ends.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn, Self

from ottla.cluster.ports import free_ports

KAFKA_VERSION = "4.3.1"
ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".peers"
_POM = Path(__file__).with_name("kafka.pom.xml")
_SHELL_POM = Path(__file__).with_name("kafka-shell.pom.xml")
_QUICK_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
_BROKER_HEAP = ("-Xms256m", "-Xmx768m")
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 120.0
_CI_PATIENCE = 4


class PeerMissing(RuntimeError):
    """A peer is not available on this machine; the message says what to install."""


class BrokerFailed(RuntimeError):
    """A broker process did not start or stop; the message contains the end of its log."""


def peer_missing(reason: str) -> NoReturn:
    """Skip the running test, or fail where skipping would hide a problem (CI, benchmarks)."""
    if os.environ.get("CI") != "true" and "PYTEST_CURRENT_TEST" in os.environ:
        import pytest

        pytest.skip(reason)
    raise PeerMissing(reason)


def _tool(name: str, package: str) -> str:
    path = shutil.which(name)
    if path is None:
        peer_missing(f"{name} is missing: install the package {package}")
    return path


def _build_once(target: Path, build: Callable[[Path], None]) -> Path:
    """`target`, created by `build` in a temporary directory and renamed, by one process at a time."""
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(PEERS / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            return target
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as temporary:
            made = Path(temporary) / "made"
            made.mkdir()
            build(made)
            made.rename(target)
    return target


def _run_checked(
    command: Sequence[str], what: str, *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=env)
    if result.returncode:
        raise PeerMissing(f"{what} failed (exit {result.returncode}):\n{result.stdout}{result.stderr}")


# --- Java ---------------------------------------------------------------------------------------------


def kafka_class_path() -> str:
    """The class path of Kafka's broker, tools and client; fetched by Maven the first time."""
    maven = None if (PEERS / f"kafka-{KAFKA_VERSION}").exists() else _tool("mvn", "maven")
    _tool("java", "openjdk-17-jdk-headless")

    def fetch(directory: Path) -> None:
        assert maven is not None
        _run_checked(
            [maven, "-B", "-q", "-f", str(_POM), "dependency:copy-dependencies"]
            + [f"-DoutputDirectory={directory}", "-DincludeScope=runtime"],
            "fetching Kafka's jars with Maven",
        )

    return str(_build_once(PEERS / f"kafka-{KAFKA_VERSION}", fetch) / "*")


def spark_connector_jars() -> list[str]:
    """Spark's own connector to Kafka with what it needs, as plain jars; fetched by Maven the first time."""
    return _maven_jars("spark-kafka", "Spark's connector to Kafka")


def delta_jars() -> list[str]:
    """Delta Lake for the Spark of these tests, as plain jars; fetched by Maven the first time."""
    return _maven_jars("delta", "Delta Lake")


def _maven_jars(name: str, what: str) -> list[str]:
    pom = Path(__file__).with_name(f"{name}.pom.xml")
    target = PEERS / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    maven = None if target.exists() else _tool("mvn", "maven")

    def fetch(directory: Path) -> None:
        assert maven is not None
        _run_checked(
            [maven, "-B", "-q", "-f", str(pom), "dependency:copy-dependencies"]
            + [f"-DoutputDirectory={directory}", "-DincludeScope=runtime"],
            f"fetching {what} with Maven",
        )

    return sorted(str(jar) for jar in _build_once(target, fetch).glob("*.jar"))


def kafka_shell_class_path() -> str:
    """The additional jars of Kafka's metadata shell; fetched by Maven the first time."""
    target = PEERS / f"kafka-shell-{KAFKA_VERSION}"
    maven = None if target.exists() else _tool("mvn", "maven")

    def fetch(directory: Path) -> None:
        assert maven is not None
        _run_checked(
            [maven, "-B", "-q", "-f", str(_SHELL_POM), "dependency:copy-dependencies"]
            + [f"-DoutputDirectory={directory}", "-DincludeScope=runtime"],
            "fetching Kafka's metadata shell with Maven",
        )

    return str(_build_once(target, fetch) / "*")


def javac_compile(sources: Sequence[Path]) -> Path:
    """Compile Java sources against Kafka's jars; the directory of classes, kept by the sources' content."""
    class_path = kafka_class_path()
    compiler = _tool("javac", "openjdk-17-jdk-headless")
    digest = hashlib.sha256(KAFKA_VERSION.encode())
    for source in sorted(sources):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")

    def build(directory: Path) -> None:
        _run_checked(
            [compiler, "-nowarn", "-proc:none", "-cp", class_path, "-d", str(directory)]
            + [str(source) for source in sources],
            "compiling " + ", ".join(source.name for source in sources),
        )

    return _build_once(PEERS / "classes" / digest.hexdigest()[:20], build)


def java_command(
    main_class: str,
    *arguments: str,
    classes: Path | None = None,
    jvm: Sequence[str] = _QUICK_JVM,
    log_level: str = "warn",
    class_path: Sequence[str] = (),
) -> list[str]:
    """The command line that runs a class of Kafka's, or one of ours from `classes`."""
    places = [*class_path, kafka_class_path()]
    if classes is not None:
        places.insert(0, str(classes))
    logging = [
        f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    ]
    return [
        _tool("java", "openjdk-17-jdk-headless"),
        *jvm,
        *logging,
        "-cp",
        os.pathsep.join(places),
        main_class,
        *arguments,
    ]


def java_run(
    main_class: str,
    *arguments: str,
    classes: Path | None = None,
    input: bytes | None = None,
    check: bool = True,
    timeout_s: float = 120.0,
    jvm: Sequence[str] = _QUICK_JVM,
) -> subprocess.CompletedProcess[bytes]:
    """Run a Java class to its end; with `check` a failure raises with its output."""
    command = java_command(main_class, *arguments, classes=classes, jvm=jvm)
    result = subprocess.run(command, input=input, capture_output=True, timeout=timeout_s, check=False)
    if check and result.returncode:
        output = (result.stdout[-4000:] + result.stderr[-8000:]).decode(errors="replace")
        raise AssertionError(f"{main_class} ended with {result.returncode}:\n{output}")
    return result


def kafka_tool(main_class: str, *arguments: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    """Run one of Kafka's tools, e.g. `org.apache.kafka.tools.DumpLogSegments`."""
    return java_run(main_class, *arguments, **options)  # type: ignore[arg-type]


# --- kcat ---------------------------------------------------------------------------------------------


def kcat() -> str:
    """The path of kcat; where CI runs as root on a machine with apt-get it is installed when missing."""
    if shutil.which("kcat") is None and os.environ.get("CI") == "true" and os.geteuid() == 0:
        apt = shutil.which("apt-get")
        if apt is not None:
            _run_checked([apt, "install", "-y", "-qq", "kcat"], "installing kcat")
    return _tool("kcat", "kcat")


# --- Go -----------------------------------------------------------------------------------------------


def go_build(module: Path) -> Path:
    """Build the Go program in `module`, whose go.mod and go.sum pin what it uses; the path of the program."""
    compiler = _go()
    digest = hashlib.sha256()
    sources = sorted(path for path in module.iterdir() if path.suffix in (".go", ".mod", ".sum"))
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    wanted = next(
        line.split()[1] for line in (module / "go.mod").read_text().splitlines() if line[:3] == "go "
    )

    def build(directory: Path) -> None:
        command = [_newer_go(compiler, wanted), "build", "-trimpath", "-o", str(directory / "program"), "."]
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false"}
        _run_checked(command, f"building {module.name} with Go", cwd=module, env=environment)

    return _build_once(PEERS / "go" / digest.hexdigest()[:20], build) / "program"


def _go() -> str:
    return shutil.which("go") or shutil.which("go", path="/usr/local/go/bin") or _tool("go", "golang-go")


def _newer_go(compiler: str, wanted: str) -> str:
    """The compiler, or where it is older than `wanted` one of that version, fetched as a module.

    A system's package may be years behind what a client's module asks for.
    """

    def numbers(version: str) -> list[int]:
        return [int(part) for part in version.removeprefix("go").split(".") if part.isdigit()]

    def asked(*names: str) -> list[str]:
        answer = subprocess.run([compiler, "env", *names], capture_output=True, text=True, check=True)
        return answer.stdout.split()

    version, system, machine = asked("GOVERSION", "GOOS", "GOARCH")
    if numbers(version) >= numbers(wanted):
        return compiler
    toolchain = f"golang.org/toolchain@v0.0.1-go{wanted}.{system}-{machine}"
    with tempfile.TemporaryDirectory() as elsewhere:
        _run_checked([compiler, "mod", "download", toolchain], f"fetching Go {wanted}", cwd=Path(elsewhere))
    directory = Path(asked("GOMODCACHE")[0]) / toolchain
    programs = [directory / "bin" / "go", *directory.glob("pkg/tool/*/*")]
    for program in programs:  # files of a module come without the right to be run
        program.chmod(program.stat().st_mode | 0o111)
    return str(programs[0])


# --- processes ----------------------------------------------------------------------------------------

_started: dict[int, subprocess.Popen[bytes]] = {}


def start_process(command: Sequence[str], **options: object) -> subprocess.Popen[bytes]:
    """Start a process that exits with this one."""
    process: subprocess.Popen[bytes] = subprocess.Popen(command, **options)  # type: ignore[call-overload]
    _started[process.pid] = process
    return process


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Kill a process of ours, if it still runs, and reap it."""
    if process.poll() is None:
        process.kill()
    process.wait()
    _started.pop(process.pid, None)


@atexit.register
def _end_all() -> None:
    for process in list(_started.values()):
        end_process(process)


_taken_ports: set[int] = set()


def free_port() -> int:
    """A port of 127.0.0.1 that no listener uses and that this process has not handed out before."""
    while (port := free_ports(1)[0]) in _taken_ports:
        pass
    _taken_ports.add(port)
    return port


def patience() -> int:
    """The factor for timeouts in CI: a busy machine is not a bug of the product."""
    return _CI_PATIENCE if os.environ.get("CI") == "true" else 1


def wait_until(
    condition: Callable[[], object], timeout_s: float, what: str | Callable[[], str], pause_s: float = 0.02
) -> None:
    """Wait for a condition; past the deadline an AssertionError names what was awaited, and by a function
    what was seen last.
    """
    patience_s = timeout_s * patience()
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            awaited = what if isinstance(what, str) else what()
            raise AssertionError(f"gave up after {patience_s:g} s waiting for {awaited}")
        time.sleep(pause_s)


def answers_metadata(host: str, port: int, timeout_s: float = 2.0) -> bool:
    """Whether a broker answers a Metadata request and lists itself among the live brokers."""
    request = struct.pack(">hhih", 3, 1, 7, 5) + b"probe" + struct.pack(">i", 0)
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            size = struct.unpack(">i", _receive(connection, 4))[0]
            response = _receive(connection, size)
    except OSError:
        return False
    correlation_id, broker_count = struct.unpack_from(">ii", response)
    return bool(correlation_id == 7 and broker_count > 0)


def _receive(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionError("the broker closed the connection")
        data += piece
    return bytes(data)


# --- brokers ------------------------------------------------------------------------------------------

live_brokers: list[BrokerProcess] = []


class BrokerProcess:
    """One combined controller and broker in a process of its own, on 127.0.0.1.

    The same `server.properties` serves every kind of broker, and the data directory outlives the process:
    `stop` (SIGTERM) or `kill` (-9) and then `start` continue on the same data and ports; another kind of
    broker takes the data over when it is given the same `directory` and ports.
    """

    kind = "broker"

    def __init__(
        self,
        directory: Path | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        port: int | None = None,
        controller_port: int | None = None,
        cluster_id: str = "b3R0bGEtcGVlcnMtY2x1cw",
        node_id: int = 1,
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="ottla-peer-") if directory is None else None
        self.directory = Path(self._temporary.name) if self._temporary else Path(directory or ".")
        self.directory.mkdir(parents=True, exist_ok=True)
        self.data = self.directory / "data"
        self.port = port or free_port()
        self.controller_port = controller_port or free_port()
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.extra_properties = dict(properties or {})
        self.log_file = self.directory / f"{self.kind}.log"
        self.process: subprocess.Popen[bytes] | None = None

    # What a kind of broker defines: how it is formatted and how it is started.

    def format_command(self) -> list[str]:
        raise AssertionError("a kind of broker says how it is formatted")

    def start_command(self) -> list[str]:
        raise AssertionError("a kind of broker says how it is started")

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def properties_file(self) -> Path:
        return self.directory / "server.properties"

    @property
    def pid(self) -> int:
        assert self.process is not None, f"the {self.kind} broker is not running"
        return self.process.pid

    def properties(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": str(self.node_id),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller_port}",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self.extra_properties,
        }

    def write_properties(self) -> None:
        lines = [f"{name}={value}\n" for name, value in self.properties().items()]
        self.properties_file.write_text("".join(lines))

    def format(self) -> None:
        """Format the data directory, unless it is formatted already."""
        if (self.data / "meta.properties").exists():
            return
        result = subprocess.run(
            self.format_command(), capture_output=True, text=True, check=False, env=self.environment()
        )
        if result.returncode:
            raise BrokerFailed(f"formatting for {self.kind} failed:\n{result.stdout}{result.stderr}")

    def start(self, *, wait: bool = True) -> Self:
        """Format if needed, start, and wait until Metadata is answered."""
        assert self.process is None, f"the {self.kind} broker runs already"
        self.write_properties()
        self.format()
        with open(self.log_file, "ab") as log:
            self.process = start_process(
                self.start_command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment(),
                cwd=self.directory,
            )
        live_brokers.append(self)
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self) -> None:
        def ready() -> bool:
            assert self.process is not None
            if self.process.poll() is not None:
                raise BrokerFailed(f"{self.kind} ended with {self.process.returncode}:\n{self.log_tail()}")
            return answers_metadata("127.0.0.1", self.port)

        try:
            wait_until(ready, _START_TIMEOUT_S, f"{self.kind} to answer on port {self.port}")
        except AssertionError as error:
            raise BrokerFailed(f"{error}\n{self.log_tail()}") from error

    def stop(self) -> int:
        """SIGTERM, then wait for the exit; return the exit code. A hanging broker is killed and reported."""
        assert self.process is not None, f"the {self.kind} broker is not running"
        process = self.process
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise BrokerFailed(f"{self.kind} did not stop on SIGTERM:\n{self.log_tail()}") from error
        finally:
            self._forget()
        return code

    def kill(self) -> None:
        """kill -9: nothing is flushed."""
        assert self.process is not None, f"the {self.kind} broker is not running"
        self._forget()

    def restart(self, *, clean: bool = True) -> Self:
        if clean:
            self.stop()
        else:
            self.kill()
        return self.start()

    def log_tail(self, lines: int = 60) -> str:
        if not self.log_file.exists():
            return "(no log)"
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])

    def _forget(self) -> None:
        if self.process is not None:
            end_process(self.process)
            self.process = None
        if self in live_brokers:
            live_brokers.remove(self)

    def close(self) -> None:
        self._forget()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Self:
        try:
            return self if self.process is not None else self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # the log goes with the directory, so it is shown while it is there
            code = None if self.process is None else self.process.poll()
            ended = (
                "stopped before" if self.process is None else "running" if code is None else f"ended: {code}"
            )
            print(
                f"--- log of {self.kind} on port {self.port} ({ended})\n{self.log_tail(40)}", file=sys.stderr
            )
        self.close()


class KafkaBroker(BrokerProcess):
    """A real Apache Kafka node. `jvm` overrides the options, which otherwise favour a quick start."""

    kind = "kafka"

    def __init__(
        self,
        directory: Path | None = None,
        *,
        jvm: Sequence[str] = (*_QUICK_JVM, *_BROKER_HEAP),
        log_level: str = "warn",
        properties: Mapping[str, str] | None = None,
        port: int | None = None,
        controller_port: int | None = None,
    ) -> None:
        kafka_class_path()  # skips or fails before anything is made
        super().__init__(directory, properties=properties, port=port, controller_port=controller_port)
        self.jvm = tuple(jvm)
        self.log_level = log_level

    def format_command(self) -> list[str]:
        standalone = [] if "controller.quorum.voters" in self.extra_properties else ["--standalone"]
        arguments = ["format", "-t", self.cluster_id, "-c", str(self.properties_file), *standalone]
        return java_command("kafka.tools.StorageTool", *arguments)

    def start_command(self) -> list[str]:
        return java_command("kafka.Kafka", str(self.properties_file), jvm=self.jvm, log_level=self.log_level)


class OttlaBroker(BrokerProcess):
    """An Ottla node, started by the Kafka-named commands from the same properties."""

    kind = "ottla"

    def format_command(self) -> list[str]:
        standalone = [] if "controller.quorum.voters" in self.extra_properties else ["--standalone"]
        arguments = ["format", "-t", self.cluster_id, "-c", str(self.properties_file), *standalone]
        return [sys.executable, "-m", "ottla.tools.storage", *arguments]

    def start_command(self) -> list[str]:
        return [sys.executable, "-m", "ottla.tools.server_start", str(self.properties_file)]

    def environment(self) -> dict[str, str]:
        environment = dict(os.environ)
        source = str(ROOT / "src")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [source, environment.get("PYTHONPATH")]))
        return environment


BROKER_KINDS: dict[str, type[BrokerProcess]] = {"kafka": KafkaBroker, "ottla": OttlaBroker}


@contextlib.contextmanager
def running(kind: str, directory: Path | None = None, **options: object) -> Iterator[BrokerProcess]:
    """A started broker of this kind, killed at the end in any case."""
    broker = BROKER_KINDS[kind](directory, **options)  # type: ignore[arg-type]
    with broker:
        yield broker
