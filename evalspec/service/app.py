"""The application: routes, guards and errors put together."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from sqlalchemy import Engine
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from evalspec import __version__
from evalspec.service import (
    datasets_api,
    erasure_api,
    evaluation_comparison_api,
    evaluations_api,
    jobs_api,
    operations_api,
    runs_api,
    sessions,
)
from evalspec.service.access import Service
from evalspec.service.guard import Guard
from evalspec.service.metrics import Metrics
from evalspec.service.observing import Observer
from evalspec.service.problems import install_problems
from evalspec.service.settings import ServiceSettings

_SUMMARY = "Evaluations of RAG agents and retrievers, over the runs of a project."

ROUTERS = (
    jobs_api.ROUTER,
    runs_api.ROUTER,
    datasets_api.ROUTER,
    evaluation_comparison_api.ROUTER,
    evaluations_api.ROUTER,
    erasure_api.ROUTER,
    operations_api.ROUTER,
    sessions.ROUTER,
)
"""The routers, in the order in which their routes are tried."""


def create_app(settings: ServiceSettings, engine: Engine) -> FastAPI:
    """Return the application. `engine`: its migrated database, which is closed with the application.

    `app.state.stopping` is an event to set when the server stops: it ends streams of events.
    """

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        engine.dispose()

    app = FastAPI(
        title="evalspec",
        version=__version__,
        summary=_SUMMARY,
        lifespan=lifespan,
        redoc_url=None,
        docs_url=None,
        openapi_url=None,  # operations_api has it, for callers with a token
        strict_content_type=False,  # bodies are JSON, whatever their Content-Type
    )
    app.state.service = Service(settings, engine)
    app.state.metrics = Metrics(engine)
    app.state.stopping = asyncio.Event()
    install_problems(app)
    for router in ROUTERS:
        app.include_router(router)
    app.add_middleware(Guard, settings=settings, stopping=app.state.stopping)
    app.add_middleware(Observer, engine=engine, metrics=app.state.metrics)
    if settings.proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=list(settings.proxies))
    return app
