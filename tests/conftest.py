"""A test run that was started in the background inherits an ignored SIGINT, and so would the programs
that tests interrupt: they get the usual one."""

import signal

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
