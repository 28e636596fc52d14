"""The proxies of a run: forwarding, holding back, truncating and closing."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.chaos.chaos_cluster import CLIENTS
from tests.chaos.proxy_process import ProxyProcess
from tests.interop.cluster.links import _inode_of, _listed_inode_of

NODE = 1
WAIT_S = 60.0
HELD_S = 0.3  # bytes that have not arrived by then are held back


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of an echo server."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def give_back(connection: socket.socket) -> None:
            with connection, contextlib.suppress(ConnectionError):
                while data := connection.recv(1000):
                    connection.sendall(data)

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=give_back, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def links() -> Iterator[ProxyProcess]:
    with ProxyProcess() as made:
        yield made


def connect(links: ProxyProcess, port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", links.listen(NODE, port, source=CLIENTS)))
    made.settimeout(WAIT_S)
    return made


def test_bytes_over_a_cut_link_arrive_after_it_heals(links: ProxyProcess, echo: int) -> None:
    with connect(links, echo) as client:
        client.sendall(b"one")
        assert client.recv(10) == b"one"
        links.cut([NODE], [CLIENTS])
        client.sendall(b"two")
        client.settimeout(HELD_S)
        with pytest.raises(TimeoutError):
            client.recv(10)
        client.settimeout(WAIT_S)
        links.heal()
        assert client.recv(10) == b"two"


def test_a_torn_connection_forwards_at_most_a_part(links: ProxyProcess, echo: int) -> None:
    with connect(links, echo) as client:
        client.sendall(b"one")
        assert client.recv(10) == b"one"
        links.tear([CLIENTS], [NODE])
        client.sendall(b"0123456789")
        assert len(_all_of(client)) <= 5


def test_a_reset_closes_connections_and_allows_new_ones(links: ProxyProcess, echo: int) -> None:
    with connect(links, echo) as client:
        client.sendall(b"one")
        assert client.recv(10) == b"one"
        links.reset([CLIENTS], [NODE])
        assert _all_of(client) == b""
    links.slow([CLIENTS], [NODE], 0.05)
    with connect(links, echo) as again:
        again.sendall(b"late")
        assert again.recv(10) == b"late"


def test_a_node_is_recognized_by_its_process(links: ProxyProcess, echo: int) -> None:
    other = 2
    links.know(other, os.getpid())
    with socket.create_connection(("127.0.0.1", links.listen(NODE, echo))) as client:
        client.settimeout(WAIT_S)
        client.sendall(b"one")
        assert client.recv(10) == b"one"
        links.reset([other], [NODE])
        assert _all_of(client) == b""


@pytest.mark.parametrize("find", [_inode_of, _listed_inode_of])
def test_the_other_end_of_a_connection_is_found(find: Callable[[int, int], str | None]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            inode = find(client.getsockname()[1], port)
            assert os.readlink(f"/proc/self/fd/{client.fileno()}") == f"socket:[{inode}]"
        assert find(port, port) is None, "nobody is connected to itself"


def _all_of(client: socket.socket) -> bytes:
    found = b""
    try:
        while data := client.recv(100):
            found += data
    except ConnectionError:
        return found
    return found
