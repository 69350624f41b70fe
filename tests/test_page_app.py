"""Starting the page: what it imports, and which port it takes."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def script():
    """app.py, which shares its name with the package app/."""
    spec = importlib.util.spec_from_file_location("app_script", ROOT / "app.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_built_without_torch():
    code = (
        "import sys; sys.argv = ['app.py']\n"
        "from app.page import build_page, launch_options\n"
        "from engines.service import Engine\n"
        "e, t = Engine(), 'smollm2-135m-instruct'; build_page(e, t); launch_options(e, t)\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'torch', 'transformers', 'plotly', 'matplotlib'}))"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert out.stdout.strip().splitlines()[-1] == "[]"


def test_a_busy_port_gives_way_to_the_next_free_one(script):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = script.free_port("127.0.0.1", port)
        assert port < found < port + script.PORTS_TO_TRY
    assert script.free_port("127.0.0.1", port) == port


def test_no_port_at_all_is_said_in_a_sentence(script):
    with pytest.raises(OSError, match="--port"):
        script.free_port("203.0.113.1", 7860)  # an address that no machine has
    assert script.main(["--host", "203.0.113.1", "--no-browser"]) == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--port", "0"], "1 to 65535"),
        (["--port", "-1"], "1 to 65535"),
        (["--port", "70000"], "1 to 65535"),
        (["--host", "no-such-host.invalid"], "--host no-such-host.invalid"),
        (["--host", "a..b"], "--host a..b"),
        (["--host", ""], "--host"),
    ],
)
def test_an_address_that_no_page_can_have_is_one_line(script, arguments, says, capsys):
    assert script.main([*arguments, "--no-browser"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and says in err and err.count("\n") == 1


def test_where_it_is_hosted_the_host_says_how_it_is_reached(script, monkeypatch):
    monkeypatch.setenv("GRADIO_SERVER_NAME", "0.0.0.0")
    monkeypatch.setenv("GRADIO_SERVER_PORT", "7999")
    args = script.parse([])
    assert (args.host, args.port) == ("0.0.0.0", 7999)
    assert script.parse(["--host", "127.0.0.1"]).host == "127.0.0.1"


def test_defaults(script, monkeypatch):
    monkeypatch.delenv("GRADIO_SERVER_NAME", raising=False)
    monkeypatch.delenv("GRADIO_SERVER_PORT", raising=False)
    args = script.parse([])
    assert (args.host, args.port, args.no_browser) == ("127.0.0.1", 7860, False)
    assert script.parse(["--target", "org/name"]).target == "org/name"
