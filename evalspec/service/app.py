"""The application: routes, guards and errors put together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from sqlalchemy import Engine

from evalspec import __version__
from evalspec.service import datasets_api, evaluation_comparison_api, evaluations_api, jobs_api, runs_api
from evalspec.service.access import Service
from evalspec.service.problems import install_problems
from evalspec.service.settings import ServiceSettings

_SUMMARY = "Evaluations of RAG agents and retrievers, over the runs of a project."

ROUTERS = (
    jobs_api.ROUTER,
    runs_api.ROUTER,
    datasets_api.ROUTER,
    evaluation_comparison_api.ROUTER,
    evaluations_api.ROUTER,
)
"""The routers, in the order in which their routes are tried."""


def create_app(settings: ServiceSettings, engine: Engine) -> FastAPI:
    """Return the application. `engine`: its migrated database, which is closed with the application."""

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
        openapi_url="/v1/openapi.json",
        strict_content_type=False,  # bodies are JSON, whatever their Content-Type
    )
    app.state.service = Service(settings, engine)
    install_problems(app)
    for router in ROUTERS:
        app.include_router(router)
    return app
