"""Run as a script: `_end_with_parent.py PARENT PROGRAM ARGUMENTS…` becomes PROGRAM, which the kernel
kills as soon as the thread that started it ends (prctl(2), PR_SET_PDEATHSIG). So no end of the parent,
SIGKILL included, leaves it running. Not done between fork and exec of the parent, whose other threads
may hold locks there. Knows nothing of munia.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        sys.exit(f"{command[0]}: prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:  # it ended before the line above
        sys.exit(f"{command[0]}: the process that wanted it has ended")
    try:
        os.execv(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
