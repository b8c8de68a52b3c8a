"""`cge serve`: a saved model behind HTTP, with a page to explore it."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from cge.cli.checkout import require_package
from cge.cli.common_options import ModelFolder, ModelJobs, flag_option, int_option, text_option
from cge.cli.model_files import load_path_model
from cge.cli.printing import print_notes
from cge.errors import InputError

_LOCAL = ("127.0.0.1", "localhost", "::1")
_TOKEN = "CGE_TOKEN"  # noqa: S105 - the name of an environment variable


def serve(
    folder: ModelFolder,
    *,
    host: Annotated[str, text_option("ADDRESS", "Address to listen on; 0.0.0.0 is all of them.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 is any that is free.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes; they share the model's memory.")] = 1,
    token_file: Annotated[
        str | None,
        text_option("FILE", f"File with a bearer token that clients must send \\[default: ${_TOKEN}, if it is set]."),
    ] = None,
    read_only: Annotated[bool, flag_option("--read-only", "Refuse /update.")] = False,
    max_body: Annotated[int, int_option("Bytes of a request.", minimum=1)] = 1 << 20,
    max_ids: Annotated[int, int_option("Nodes or edges of a request.", minimum=1)] = 1000,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds of a request.")] = 30.0,
    n_jobs: ModelJobs = None,
) -> None:
    """Serve a saved model over HTTP, with a page to explore it.

    POST a JSON object to /predict, /explain, /similar, /links, /embed or /update; GET /health, /metrics (Prometheus)
    and /openapi.json. Only this machine can connect unless --host says otherwise. Updates change the model in memory,
    not the folder, and need one worker. Needs the packages starlette and uvicorn.

    For example:

      cge serve model
      curl http://localhost:8000/health
      CGE_TOKEN=secret cge serve model --host 0.0.0.0 --workers 4
    """
    for package in ("starlette", "uvicorn"):
        require_package(package, "serve", "serve")
    from cge.serve.app import create_app
    from cge.serve.service import Limits, Service
    from cge.serve.workers import listen, serve_workers
    from cge.serve.workers import serve as run

    token = _token(token_file)
    if workers > 1 and not hasattr(os, "fork"):
        raise InputError("--workers needs a system that can fork processes; leave it out")
    model = load_path_model(folder, n_jobs, "which cannot be served")
    refused = "this server was started with --read-only" if read_only else ""
    if workers > 1:
        refused = refused or "a server with several workers cannot be updated; update the folder and start it again"
    service = Service(model, Limits(max_body, max_ids, timeout), refused)
    service.warm_up()
    local = host in _LOCAL
    app: Any = create_app(service, token, _LOCAL[:2] if local else ("*",))
    try:
        listening = listen(host, port)
    except OSError as error:
        problem = f"{host}:{port} cannot be used ({error.strerror})"
        raise InputError(problem, hint="choose another --host or --port") from None
    if not local and token is None:
        print_notes([f"anyone who can reach {host} may use this server; set a token with --token-file or {_TOKEN}"])
    print(f"http://{host}:{listening.getsockname()[1]} serves {folder}; Ctrl-C ends it", file=sys.stderr, flush=True)
    if workers == 1:
        run(app, listening)
    else:
        serve_workers(app, listening, workers)


def _token(file: str | None) -> str | None:
    """Return the token of a file or of the environment; None where there is none."""
    if file is None:
        return os.environ.get(_TOKEN) or None
    from cge.data.files.file_path import file_path

    try:
        token = file_path(file).read_text().strip()
    except (OSError, ValueError) as error:
        raise InputError(f"--token-file {file} cannot be read ({getattr(error, 'strerror', 'not text')})") from None
    if not token or not token.isascii() or any(char.isspace() for char in token):
        raise InputError(f"--token-file {file} must hold one word of ASCII characters")
    return token
