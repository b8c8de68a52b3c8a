"""The server as a Starlette application: routes, token, limits, errors as one sentence."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from cge import __version__
from cge.errors import CgeError, UnknownNodeError
from cge.parallel import resolve_jobs
from cge.serve.metrics import Metrics
from cge.serve.openapi import openapi_document
from cge.serve.service import Service

_LOG = logging.getLogger("cge.serve")
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_PAGE = {"/": "explorer.html", "/explorer.js": "explorer.js", "/explorer.css": "explorer.css"}
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}


class _Refused(Exception):  # noqa: N818 - an answer
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Answers:
    """Answers requests: operations run on a few threads, in the order in which they come."""

    def __init__(self, service: Service, token: str | None) -> None:
        self.service, self.metrics = service, Metrics()
        self._token = None if token is None else token.encode()
        self._waiting = 0
        self._threads: ThreadPoolExecutor | None = None  # started in the process that serves, after a fork

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self._threads = ThreadPoolExecutor(max(2, resolve_jobs(None)), "serve")
        yield
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def operation(self, request: Request) -> Response:
        """Answer a POST request of an operation."""
        name, start = request.url.path[1:], time.perf_counter()
        try:
            self._check_token(request)
            content = await self._body(request)
            status, answer = 200, await self._run(name, content)
        except _Refused as refused:
            status, answer = refused.status, {"error": str(refused)}
        except UnknownNodeError as error:
            status, answer = 404, {"error": str(error)}
        except CgeError as error:
            status, answer = 400, {"error": str(error)}
        except ClientDisconnect:
            status, answer = 400, {"error": "the connection was closed"}
        except Exception:
            _LOG.exception("unexpected error in %s", name)
            status, answer = 500, {"error": "unexpected error; the log of the server has the details"}
        self.metrics.add(name, status, time.perf_counter() - start)
        headers = _HEADERS | ({"Retry-After": "1"} if status == 503 else {})
        return JSONResponse(answer, status, headers | ({"WWW-Authenticate": "Bearer"} if status == 401 else {}))

    async def health(self, _: Request) -> Response:
        """Answer whether the server works; without a token."""
        return JSONResponse(self.service.health(), headers=_HEADERS)

    async def counters(self, request: Request) -> Response:
        """Answer with counters for Prometheus."""
        try:
            self._check_token(request)
        except _Refused as refused:
            return JSONResponse({"error": str(refused)}, refused.status, _HEADERS)
        return PlainTextResponse(self.metrics.text(self.service), headers=_HEADERS)

    def _check_token(self, request: Request) -> None:
        header = request.headers.get("authorization", "").encode()
        if self._token is not None and not hmac.compare_digest(header, b"Bearer " + self._token):
            raise _Refused(401, "send the header 'Authorization: Bearer TOKEN' with the token of the server")

    async def _body(self, request: Request) -> Mapping[str, Any]:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise _Refused(415, "send JSON, with the header 'Content-Type: application/json'")
        limit, body = self.service.limits.max_body, b""
        async for part in request.stream():
            body += part
            if len(body) > limit:
                raise _Refused(413, f"the body has more than {limit:,} bytes; send fewer nodes at once")
        try:
            content = json.loads(body, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise _Refused(400, f"the body is not JSON: {str(error)[:200]}") from None
        if not isinstance(content, dict):
            raise _Refused(400, "the body must be a JSON object")
        return content

    async def _run(self, name: str, content: Mapping[str, Any]) -> dict[str, Any]:
        limits = self.service.limits
        if self._waiting >= limits.max_waiting or self._threads is None:
            raise _Refused(503, "too many requests are waiting; try again")
        self._waiting += 1
        try:
            future = asyncio.get_running_loop().run_in_executor(self._threads, self.service.operations[name], content)
            return await asyncio.wait_for(asyncio.shield(future), limits.timeout)
        except TimeoutError:
            raise _Refused(504, f"the request took more than {limits.timeout:g} seconds") from None
        finally:
            self._waiting -= 1


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def create_app(service: Service, token: str | None = None, hosts: tuple[str, ...] = ("localhost", "127.0.0.1")) -> Any:
    """Return the application; `hosts` are the names by which it may be addressed, ("*",) for any."""
    answers, document = _Answers(service, token), openapi_document(__version__, token is not None)
    files = {path: (Path(__file__).parent / name).read_text() for path, name in _PAGE.items()}  # read once, here

    async def schema(_: Request) -> Response:
        return JSONResponse(document, headers=_HEADERS)

    async def no_icon(_: Request) -> Response:
        return Response(status_code=204)

    async def page(request: Request) -> Response:
        path = request.url.path
        return Response(files[path], media_type=_TYPES[Path(_PAGE[path]).suffix], headers=_HEADERS)

    async def unknown(request: Request, _: Exception) -> Response:
        names = ", ".join(f"/{name}" for name in (*service.operations, "health", "metrics", "openapi.json"))
        wrong = (
            "use POST for operations and GET for the others" if request.url.path[1:] in service.operations else names
        )
        return JSONResponse({"error": f"there is no such page; {wrong}"}, 404, _HEADERS)

    routes = [Route(f"/{name}", answers.operation, methods=["POST"]) for name in service.operations]
    routes += [Route("/health", answers.health), Route("/metrics", answers.counters), Route("/openapi.json", schema)]
    routes += [Route("/favicon.ico", no_icon), *(Route(path, page) for path in files)]
    return Starlette(
        routes=routes,
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)],
        exception_handlers={404: unknown, 405: unknown},
        lifespan=answers.lifespan,
    )
