"""Passes a request of an ASGI server on to a `munia serve` of this machine, and its answer back, byte
for byte and as it comes: status, headers, body, events of a stream. Knows nothing of their meaning.

A connection for each request: on this machine that costs less than the care for kept ones, and one that
closes is how the service learns that a client has left.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

import h11

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

_READ_BYTES = 65536
# Of one connection only (RFC 9110, 7.6.1), and `expect`, which the ASGI server has answered.
_OF_THE_CONNECTION = {
    b"connection",
    b"expect",
    b"keep-alive",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
}
# Ray Serve puts them into each answer; the request's id it has given to munia as well.
_OF_RAY = (b"date", b"x-request-id")


async def forward(host: str, port: int, scope: Message, receive: Receive, send: Send) -> None:
    """Answers one HTTP request by the service at host:port.

    A service that cannot be reached, or ends before it answers, is a 503 in the service's own form. When
    it ends within an answer ConnectionError is raised, so that the client sees the answer break off.
    """
    try:
        reader, writer = await asyncio.open_connection(host, port)
    except OSError:
        return await _unavailable(send)
    upload: asyncio.Task[None] | None = None
    try:
        connection = h11.Connection(h11.CLIENT)
        try:
            start = connection.send(_request(scope))
        except h11.LocalProtocolError as error:
            return await _answer(send, 400, f"the request cannot be passed on: {error}", "bad_http")
        writer.write(start)
        upload = asyncio.create_task(_upload(connection, writer, receive))
        if not await _download(connection, reader, send):
            await _unavailable(send)
    finally:
        if upload is not None:
            upload.cancel()
        writer.close()


def _request(scope: Message) -> h11.Request:
    target: bytes = scope.get("raw_path") or scope["path"].encode()
    prefix = scope.get("root_path", "").encode()
    if prefix and target.startswith(prefix):
        target = target[len(prefix) :] or b"/"
    if scope.get("query_string"):
        target += b"?" + scope["query_string"]
    headers = _passed(scope["headers"])
    names = {name for name, _ in headers}
    if b"content-length" not in names and b"transfer-encoding" in {n for n, _ in scope["headers"]}:
        headers.append((b"transfer-encoding", b"chunked"))
    headers.append((b"connection", b"close"))
    return h11.Request(method=scope["method"].encode(), target=target, headers=headers)


def _passed(headers: Headers) -> Headers:
    return [(name, value) for name, value in headers if name.lower() not in _OF_THE_CONNECTION]


async def _upload(
    connection: h11.Connection, writer: asyncio.StreamWriter, receive: Receive
) -> None:
    """The body, and then the client's leaving, which closes the connection."""
    try:
        while (message := await receive())["type"] == "http.request":
            if message.get("body"):
                writer.write(connection.send(h11.Data(data=message["body"])))
            if not message.get("more_body", False):
                writer.write(connection.send(h11.EndOfMessage()))
            await writer.drain()
    except (ConnectionError, h11.LocalProtocolError):
        return  # it has answered before the end of the body
    writer.close()


async def _download(
    connection: h11.Connection, reader: asyncio.StreamReader, send: Send
) -> bool:
    """False: nothing came. What came together is sent together: each message is a trip through Ray."""
    begun = False
    body = b""
    while True:
        try:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                if body:
                    await send({"type": "http.response.body", "body": body, "more_body": True})
                    body = b""
                connection.receive_data(await reader.read(_READ_BYTES))
                continue
        except (ConnectionError, h11.RemoteProtocolError):
            if not begun:
                return False
            raise ConnectionError("munia serve ended within an answer") from None
        if isinstance(event, h11.Response):
            headers = [one for one in _passed(list(event.headers)) if one[0] not in _OF_RAY]
            begun = True
            await send(
                {"type": "http.response.start", "status": event.status_code, "headers": headers}
            )
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            await send({"type": "http.response.body", "body": body, "more_body": False})
            return True
        elif not isinstance(event, h11.InformationalResponse):
            return False


async def status_of(host: str, port: int, path: str) -> int:
    """The status of the answer to a GET; 503 where nothing answers. Waits as long as that takes."""
    status = 0

    async def nothing() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def note(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)

    headers = [(b"host", b"localhost")]
    scope = {"method": "GET", "path": path, "headers": headers}
    await forward(host, port, scope, nothing, note)
    return status


async def _unavailable(send: Send) -> None:
    await _answer(
        send, 503, "the service behind this replica has ended; send the request again", "unavailable"
    )


async def _answer(send: Send, status: int, message: str, code: str) -> None:
    """An error in the form of `munia serve`."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    error = {"message": message, "type": kind, "param": None, "code": code}
    body = json.dumps({"error": error}, ensure_ascii=False, separators=(",", ":")).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if status == 503:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
