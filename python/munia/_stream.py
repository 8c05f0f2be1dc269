"""A reply while it is made."""

from __future__ import annotations

import asyncio

from munia import _munia
from munia._results import Beam, Generated, Usage


def generated(values: _munia.GeneratedTuple) -> Generated:
    text, ids, finish_reason, prompt, cached, completion, first_token_ms, total_ms, beams = values
    return Generated(
        text,
        ids,
        finish_reason,
        Usage(prompt, cached, completion),
        first_token_ms,
        total_ms,
        [Beam(*beam) for beam in beams],
    )


class Stream:
    """The pieces of a reply as they are made: whole characters, for `for` or `async for`.

    Made by Model.chat and Model.generate with stream=True. The reply is computed whether its pieces
    are read or not. Leaving the `with` block, cancel(), or dropping the stream ends it within one
    token. For one reader at a time. `async for` waits on a file descriptor of the event loop; no
    thread is blocked.
    """

    def __init__(self, core: _munia.Stream) -> None:
        self._core = core

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> str:
        piece = self._core.next(True)
        if piece is None:
            raise StopIteration
        return piece

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> str:
        while (piece := self._core.next(False)) is None:
            if self._core.ended:
                raise StopAsyncIteration
            await self._readable()
        return piece

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        descriptor = self._core.descriptor()
        ready = loop.create_future()

        def wake() -> None:
            if not ready.done():
                ready.set_result(None)

        loop.add_reader(descriptor, wake)
        try:
            await ready
        finally:
            loop.remove_reader(descriptor)

    def cancel(self) -> None:
        """Ends the reply within one token; what was made before can still be read. Any thread, any
        number of times."""
        self._core.cancel()

    @property
    def result(self) -> Generated | None:
        """The whole reply, once the last piece was read; None before, and after cancel()."""
        values = self._core.result
        return None if values is None else generated(values)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cancel()
