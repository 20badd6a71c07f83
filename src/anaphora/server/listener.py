"""The socket to listen on, taken before the model is loaded: a port in use is told at once."""

import socket

from anaphora.errors import ConfigError


def bind(host: str, port: int) -> socket.socket:
    """A bound socket that does not listen yet: until the server is ready, clients are refused, not kept waiting.

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
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted connections inherit it
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another with --port or --host"
        ) from None
    return listener


def url_of(listener: socket.socket) -> str:
    """Where clients on this machine reach it."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
