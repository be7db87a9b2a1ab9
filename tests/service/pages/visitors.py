"""People who look at pages without JavaScript, and send their forms."""

import re
from collections.abc import Iterable
from html import unescape
from typing import Any

from sqlalchemy import Engine

from evalspec.service.tokens import Scope, create_token

BROWSER = {"Accept": "text/html"}
MOST_BYTES = 200_000


class Visitor:
    """Somebody with a token. Each page they get has to be small."""

    def __init__(
        self,
        client: Any,
        engine: Engine,
        user: str = "ben",
        scopes: Iterable[Scope] = (Scope.RUN,),
        namespaces: Iterable[str] = ("shop",),
    ) -> None:
        self._client = client
        token = create_token(engine, user, list(scopes), list(namespaces), 3600)
        self._headers = {**BROWSER, "Authorization": f"Bearer {token}"}

    def get(self, path: str, status: int = 200) -> str:
        answered = self._client.get(path, headers=self._headers)
        assert answered.status_code == status, answered.text
        assert len(answered.content) <= MOST_BYTES
        return str(answered.text)

    def post(self, path: str, status: int = 303, files: Any = None, **form: Any) -> str:
        answered = self._client.post(path, headers=self._headers, data=form, files=files, follow_redirects=False)
        assert answered.status_code == status, answered.text
        return str(answered.headers["Location"] if status == 303 else answered.text)


def text_of(page: str) -> str:
    """The text of a page on one line."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())
