"""The application: routes, guards and errors put together."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi import APIRouter, FastAPI
from sqlalchemy import Engine
from starlette.concurrency import run_in_threadpool
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from evalspec import __version__
from evalspec.base.errors import StoreError
from evalspec.service import (
    assignments_api,
    baselines_api,
    compare_api,
    datasets_api,
    evaluation_comparison_api,
    evaluations_api,
    gold_api,
    jobs_api,
    labels_api,
    operations_api,
    pushes_api,
    reports_api,
    runs_api,
    samples_api,
    sessions,
)
from evalspec.service.access import Service, build_service
from evalspec.service.alerts import keep_alerting
from evalspec.service.guard import Guard
from evalspec.service.observing import Metrics, Observer
from evalspec.service.openapi import document_app
from evalspec.service.pages import (
    assets,
    compare_pages,
    datasets_pages,
    gold_pages,
    labelling_pages,
    labels_pages,
    project_pages,
    review_pages,
    runs_pages,
    samples_pages,
    upload_pages,
)
from evalspec.service.pages.browser_problems import BrowserProblems
from evalspec.service.pages.visits import NamespaceNeeded, redirect_to_namespace
from evalspec.service.problem_answers import install_problems
from evalspec.service.settings import ServiceSettings

_SUMMARY = "Evaluations of RAG agents and retrievers, over the runs of a project."

_INDEX_SECONDS = 10.0
"""How long a server that stops waits for the index of one namespace, and for an alert that is being sent."""

ROUTERS = (
    jobs_api.ROUTER,
    runs_api.ROUTER,
    samples_api.ROUTER,
    labels_api.ROUTER,
    labels_api.FILES,
    assignments_api.ROUTER,
    assignments_api.GOLD,
    reports_api.ROUTER,
    pushes_api.JSON_ROUTER,
    pushes_api.ROUTER,
    pushes_api.FILES,
    baselines_api.ROUTER,
    compare_api.ROUTER,
    runs_api.TRENDS,
    gold_api.ROUTER,
    datasets_api.ROUTER,
    evaluation_comparison_api.ROUTER,
    evaluations_api.ROUTER,
    evaluations_api.TASKS,
    operations_api.ERASURE,
    operations_api.ROUTER,
    sessions.ROUTER,
    assets.ROUTER,
    runs_pages.ROUTER,
    samples_pages.ROUTER,
    labelling_pages.ROUTER,
    labels_pages.ROUTER,
    compare_pages.ROUTER,
    gold_pages.ROUTER,
    review_pages.ROUTER,
    datasets_pages.ROUTER,
    upload_pages.ROUTER,
    project_pages.ROUTER,
)
"""The routers, in the order in which their routes are tried."""

_ALL = APIRouter()
"""Every route. FastAPI reads the signatures behind them once, and not once for each application."""
for _router in ROUTERS:
    _ALL.include_router(_router)


def create_app(settings: ServiceSettings, engine: Engine) -> FastAPI:
    """Return the application. `engine`: its migrated database, which is closed with the application."""
    service = build_service(settings, engine)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        indexing = threading.Thread(target=_refresh, args=(service,), name="index", daemon=True)
        indexing.start()
        stop = threading.Event()
        alerting = [
            threading.Thread(target=keep_alerting, args=(engine, settings, service.runs[name], name, stop), daemon=True)
            for name in settings.alerts
        ]
        for thread in alerting:
            thread.start()
        yield
        service.stopping.set()
        stop.set()
        for thread in (indexing, *alerting):
            await run_in_threadpool(thread.join, _INDEX_SECONDS)  # it has a connection
        engine.dispose()

    app = FastAPI(
        title="evalspec",
        version=__version__,
        summary=_SUMMARY,
        lifespan=lifespan,
        redoc_url=None,
        docs_url=None,
        openapi_url=None,  # operations_api has it, for callers with a token
        routes=_ALL.routes,
    )
    app.state.service = service
    app.state.metrics = Metrics(engine)
    install_problems(app)
    app.add_exception_handler(NamespaceNeeded, redirect_to_namespace)
    document_app(app)
    app.add_middleware(Guard, settings=settings, stopping=service.stopping)
    app.add_middleware(Observer, engine=engine, metrics=app.state.metrics)
    app.add_middleware(BrowserProblems)
    if settings.proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=list(settings.proxies))
    return app


def _refresh(service: Service) -> None:
    """Index the runs before the first request lists them."""
    for index in service.runs.values():
        if service.stopping.is_set():
            return
        with suppress(StoreError):  # the request reports it
            index.refresh()
