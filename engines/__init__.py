"""The speculative-decoding engine. Importing the package alone loads neither torch nor transformers."""

import os

__version__ = "0.1.0"

# Threads that wait for each other at the end of every product spin by default. Where something else wants a core (the
# browser that shows the page, say) the spinner holds the very core that the other thread is waiting for, and a pass
# takes several times as long. Sleeping instead costs a little on an idle machine. Must be set before torch is loaded.
os.environ.setdefault("GOMP_SPINCOUNT", "0")  # GNU OpenMP: Linux
os.environ.setdefault("KMP_BLOCKTIME", "0")  # LLVM's and Intel's: macOS, Windows
