"""`python -m engines run|compare|models`."""

import os
import sys


def start() -> int:
    try:
        from .cli import main

        return main()
    except KeyboardInterrupt:
        clear = "\r\x1b[K" if sys.stderr.isatty() else ""
        print(f"{clear}Interrupted.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    code = start()
    if code == 130:  # whoever pressed Ctrl-C must not wait for the threads of a download
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
