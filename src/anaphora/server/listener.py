"""The socket to listen on, taken before the model is loaded: a port in use is told at once."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from anaphora.errors import ConfigError


def bind(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    """A bound socket that does not listen yet: until the server is ready, clients are refused, not kept waiting.

    ``is_shared``: others of this user may bind to the same address in the same way.

    Raises:
        ConfigError: the address does not exist here, or the port is in use or not ours to take.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise ConfigError(f"--host {host} cannot be resolved: {error.strerror}") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted connections inherit it
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise _cannot_listen(host, port, error) from None
    return listener


@contextmanager
def bind_shared(host: str, port: int, count: int) -> Iterator[list[socket.socket]]:
    """``count`` sockets bound to one address, among which the kernel shares new connections out; closed at the end.

    Such sockets would join those of any other server of this user. So that none is joined, the address must be free
    to begin with, and among servers that are still starting the first one has it: that is what the guard is for.

    Raises:
        ConfigError: as :func:`bind`.
    """
    with ExitStack() as stack:
        with bind(host, port) as probe:
            port = probe.getsockname()[1]
        guard = stack.enter_context(socket.socket(socket.AF_UNIX))
        try:
            guard.bind(f"\0anaphora-serve-{port}")  # no file: the name is free again when the process ends
        except OSError as error:
            raise _cannot_listen(host, port, error) from None
        yield [stack.enter_context(bind(host, port, is_shared=True)) for _ in range(count)]


def _cannot_listen(host: str, port: int, error: OSError) -> ConfigError:
    return ConfigError(f"cannot listen on {host}:{port}: {error.strerror}; choose another with --port or --host")


def url_of(listener: socket.socket) -> str:
    """Where clients on this machine reach it."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
