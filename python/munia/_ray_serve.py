"""munia.ray for requests: replicas of `munia serve` behind Ray Serve.

A replica is a Ray actor with a `munia serve` of its own on a port of the loopback interface, and passes
requests and answers through unchanged: what a client gets is what `munia serve` says
(docs/decisions/0011-ray-serve.md). A packed file (.munia) is mapped, so that the replicas of a node share
one copy of the weights in memory.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ray import serve
from starlette.responses import Response

from munia._child import HOST, Child
from munia._forward import forward, status_of

Application: TypeAlias = Any  # ray.serve.Application

_OURS = (
    "--model",
    "--task",
    "--threads",
    "--load",
    "--host",
    "--port",
    "--unix",
    "--json",
    "--no-request-log",
    "--queue",
    "--drain-timeout",
)
_DRAIN_SECONDS = 30.0
_HEALTH_SECONDS = 10.0
_MOST_UNHEALTHY = 3


def serve_app(
    model: str | os.PathLike[str],
    *,
    task: str | None = None,
    replicas: int = 1,
    cpus: int = 1,
    flags: Sequence[str] = (),
    program: str | os.PathLike[str] | None = None,
    max_ongoing_requests: int = 32,
    max_queued_requests: int = 64,
    name: str = "munia",
    **options: Any,
) -> Application:
    """An application for ray.serve.run(): `munia serve`, several times.

    model, task: as --model and --task of `munia serve`, on every node. A packed file is mapped, and shared
        by the replicas of a node.
    replicas: how many. cpus: of each; also the threads it computes with.
    flags: more of `munia serve`, such as ("--context", "2048", "--allow-host", "chat.example.org").
    program: munia on every node; None: the variable MUNIA_BIN, else the one on PATH.
    max_ongoing_requests: what one replica is given at a time. max_queued_requests: what then waits in each
        of Ray's proxies; more are answered with status 503 by Ray.
    options: more of Ray's own for a deployment, such as autoscaling_config (then replicas=None).

    A replica lives and dies with its `munia serve`: Ray starts another one where either ended or hangs.
    A request that was being answered then fails, and has to be sent again; nothing is lost by that, since
    equal requests have equal answers.

    Raises ValueError: a flag that is set here, a number out of range.
    """
    for flag in flags:
        if flag.split("=", 1)[0] in _OURS:
            raise ValueError(f"flags holds {flag}, which serve_app sets itself: {', '.join(_OURS)}")
    for what, number in (("cpus", cpus), ("max_ongoing_requests", max_ongoing_requests)):
        if number < 1:
            raise ValueError(f"{what} is {number}; it must be at least 1")
    arguments = ["--model", os.fspath(model), "--threads", str(cpus), "--load", "map"]
    arguments += [] if task is None else ["--task", task]
    settings: dict[str, Any] = {
        "name": name,
        "num_replicas": replicas,
        "max_ongoing_requests": max_ongoing_requests,
        "max_queued_requests": max_queued_requests,
        "health_check_period_s": 2,
        "health_check_timeout_s": _HEALTH_SECONDS,
        "graceful_shutdown_timeout_s": _DRAIN_SECONDS + 10,
        **options,
    }
    settings["ray_actor_options"] = {"num_cpus": cpus, **options.get("ray_actor_options", {})}
    deployment = serve.deployment(_Replica, **settings)
    return deployment.bind(
        None if program is None else os.fspath(program), [*arguments, *flags], max_ongoing_requests
    )


def build_app(arguments: Mapping[str, Any]) -> Application:
    """serve_app() for Ray's configuration files: `import_path: munia.ray:build_app`, with the arguments of
    serve_app() as `args`."""
    return serve_app(**arguments)


def _find_program(program: str | None) -> str:
    wanted = program or os.environ.get("MUNIA_BIN") or "munia"
    found = shutil.which(wanted)
    if found is None:
        raise FileNotFoundError(
            f"{wanted} is no program on this node: install munia there (make install), or name the "
            "program with program= or the variable MUNIA_BIN"
        )
    return os.path.abspath(found)


def _die(reason: str) -> None:
    """Ray and its proxies notice a dead actor at once, but one that answers errors only after some
    health checks."""
    print(f"munia: {reason}", file=sys.stderr, flush=True)
    os._exit(1)


class _Replica:
    """What a replica is; Ray Serve calls all of its methods."""

    def __init__(self, program: str | None, arguments: Sequence[str], parallel: int) -> None:
        command = [_find_program(program), "serve", *arguments, "--host", HOST, "--port", "0"]
        # Ray logs each request, and queues those that are too many.
        command += ["--json", "--no-request-log", "--queue", str(parallel)]
        command += ["--drain-timeout", str(_DRAIN_SECONDS)]
        self._child = Child(command, on_death=_die)
        self._n_unhealthy = 0

    async def __call__(self, request: Any) -> Response:
        return _Forwarded(self._child.port)

    async def check_health(self) -> None:
        """Raises when `munia serve` does not answer. Ends the replica when that happens several times in
        a row: Ray would wait for the requests that hang in it."""
        try:
            status = await asyncio.wait_for(
                status_of(HOST, self._child.port, "/health"), timeout=_HEALTH_SECONDS / 2
            )
            problem = "" if status == 200 else f"with status {status}"
        except asyncio.TimeoutError:
            problem = f"not within {_HEALTH_SECONDS / 2} seconds"
        self._n_unhealthy = self._n_unhealthy + 1 if problem else 0
        if self._n_unhealthy >= _MOST_UNHEALTHY:
            _die(f"munia serve answers its health check {problem}")
        if problem:
            raise RuntimeError(f"munia serve answers its health check {problem}")

    def __del__(self) -> None:
        child: Child | None = getattr(self, "_child", None)
        if child is not None:
            child.stop(_DRAIN_SECONDS)


class _Forwarded(Response):  # type: ignore[misc]
    """An answer that is made elsewhere, whole."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await forward(HOST, self._port, scope, receive, send)
