"""Which namespaces a worker serves: those whose stores are there. The others are served as soon as they are back."""

import time
from collections.abc import Collection, Mapping
from logging import WARNING

from sqlalchemy import Engine

from evalspec.base.errors import InvalidInput, StoreError
from evalspec.service.database import DatabaseDown
from evalspec.service.logs import log_event
from evalspec.service.settings import Project
from evalspec.service.stores import check_store

_AGAIN_SECONDS = 5.0


class ServedNamespaces:
    """The namespaces of a worker. Some may have to wait for their folders. `again`: seconds between looks."""

    def __init__(self, engine: Engine, projects: Mapping[str, Project], again: float = _AGAIN_SECONDS) -> None:
        self._engine = engine
        self._waiting = dict(projects)
        self._served: list[str] = []
        self._reported: dict[str, str] = {}
        self._again = again
        self._next_look = 0.0

    def refresh(self) -> Collection[str]:
        """Return the namespaces to serve now. Each new reason why one is not served is logged once.

        Raises:
            InvalidInput: None is served, and a folder is not the store of its namespace.
            DatabaseDown: The database does not answer.
        """
        if self._waiting and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + self._again
            faults = [self._look(project) for project in list(self._waiting.values())]
            wrong = [fault for fault in faults if isinstance(fault, InvalidInput)]
            if wrong and not self._served:
                raise wrong[0]
        return self._served

    def _look(self, project: Project) -> InvalidInput | StoreError | None:
        """Serve a namespace, or return why it cannot be served."""
        try:
            check_store(self._engine, project)
        except DatabaseDown:
            raise
        except (InvalidInput, StoreError) as error:
            self._report(project.namespace, error)
            return error
        del self._waiting[project.namespace]
        self._served.append(project.namespace)
        if project.namespace in self._reported:
            log_event("a namespace is served again", namespace=project.namespace)
        return None

    def _report(self, namespace: str, error: InvalidInput | StoreError) -> None:
        if self._reported.get(namespace) != str(error):
            self._reported[namespace] = str(error)
            log_event("a namespace is not served", level=WARNING, namespace=namespace, error=str(error))
