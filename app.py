"""Starts the web page, and nothing else."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import threading
import webbrowser

# Before gradio is imported: it reports nothing to anybody.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"

from engines.settings import RunSettings  # noqa: E402

PORTS_TO_TRY = 100


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="app.py", description="Opens the speculative decoding playground in a browser."
    )
    # Gradio's own names for them: where the page is hosted (a Space), they say how it can be reached.
    host, port = os.environ.get("GRADIO_SERVER_NAME"), os.environ.get("GRADIO_SERVER_PORT", "")
    parser.add_argument(
        "--host", default=host or "127.0.0.1", help="0.0.0.0 lets other machines in (default: %(default)s)"
    )
    parser.add_argument(
        "--port",
        type=int,
        default=int(port) if port.isdecimal() else 7860,
        help="the next free one is taken if it is busy (default: %(default)s)",
    )
    parser.add_argument(
        "--target",
        default=RunSettings().target,
        help="a name from `python -m engines models`, a hub id, a folder, or a GGUF file (default: %(default)s)",
    )
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    return parser.parse_args(arguments)


def free_port(host: str, first: int) -> int:
    """The first port from `first` on that can be bound. Raises OSError when none of the next hundred can."""
    for port in range(first, min(first + PORTS_TO_TRY, 65536)):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            if os.name != "nt":  # a port in TIME_WAIT is free for a server; on Windows the option means something else
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
        return port
    raise OSError(f"No port from {first} on is free on {host}: name another one with --port.")


def check(host: str, port: int) -> None:
    """Raises ValueError, with a sentence, for an address that no page can have."""
    if not 1 <= port <= 65535:
        raise ValueError(f"--port must lie in 1 to 65535, not {port}.")
    try:
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise ValueError(
            f"--host {host} is no known address: use 127.0.0.1 for this machine alone, 0.0.0.0 to let others in."
        ) from None


def has_desktop() -> bool:
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def main(arguments: list[str] | None = None) -> int:
    args = parse(arguments)
    try:
        check(args.host, args.port)
        port = free_port(args.host, args.port)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    print("Starting the page ...", flush=True)

    from app.page import build_page, launch_options
    from engines.service import Engine

    engine = Engine()
    page = build_page(engine, args.target)
    options = launch_options(engine, args.target)
    page.launch(server_name=args.host, server_port=port, prevent_thread_lock=True, **options)
    shown = "127.0.0.1" if args.host in ("0.0.0.0", "::") else args.host
    address = f"http://{shown}:{port}"
    print(f"The page is at {address}  (Ctrl+C ends it)", flush=True)
    if not args.no_browser and has_desktop():
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    try:
        page.block_thread()
    finally:
        engine.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
