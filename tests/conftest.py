"""A test run that was started in the background inherits an ignored SIGINT, and so would the programs
that tests interrupt: they get the usual one. And the fixture of most tests of the command line."""

import signal

import pytest

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def munia(tmp_path):
    """The program with a home of its own; not imported above, since it must have been built."""
    from munia_cli import Munia

    return Munia(tmp_path)
