"""Tokens of the API: created by `evalspec token`, stored as SHA-256, expiring and revocable.

A token is `evs_<id>_<secret>`. The secret has 256 random bits, so that a plain hash protects it.
"""

import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from hmac import compare_digest
from unicodedata import normalize

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection, Engine, Row, delete, or_, select, update

from evalspec.service.database import DAY_SECONDS, read_clock, reading, writing
from evalspec.service.tables import PEOPLE, ROLES, TOKENS

TOKEN = "token"  # noqa: S105 - the kind of a row
SESSION = "session"
LOGIN = "login"
PREFIX = "evs"

_SECRET_BYTES = 32
_ID = re.compile(r"[0-9a-f]+")
_TOKEN = re.compile(rf"{PREFIX}_([0-9a-f]+)_([\w-]+)", re.ASCII)


class Scope(StrEnum):
    """What a token permits. `admin` permits everything; `run` and `review` include `read`."""

    READ = "read"
    PUSH = "push"
    RUN = "run"
    REVIEW = "review"
    ADMIN = "admin"


_INCLUDED = {
    Scope.READ: {Scope.READ},
    Scope.PUSH: {Scope.PUSH},
    Scope.RUN: {Scope.READ, Scope.RUN},
    Scope.REVIEW: {Scope.READ, Scope.REVIEW},
    Scope.ADMIN: set(Scope),
}


EVERYWHERE = "*"
"""The namespace of roles that people have in every one."""


class ProjectRole(StrEnum):
    """What a person may do in a namespace, from least to most."""

    VIEWER = "viewer"
    REVIEWER = "reviewer"
    EDITOR = "editor"
    ADMIN = "admin"


SCOPES = {
    ProjectRole.VIEWER: (Scope.READ,),
    ProjectRole.REVIEWER: (Scope.REVIEW,),
    ProjectRole.EDITOR: (Scope.REVIEW, Scope.RUN, Scope.PUSH),
    ProjectRole.ADMIN: (Scope.ADMIN,),
}
"""The scopes of each role."""


def fold_user(name: str) -> str:
    """Return a user as roles and disabled people are stored: letters as one character, addresses in lower case."""
    return normalize("NFC", name.strip().lower() if "@" in name else name.strip())


def _include(scopes: Collection[Scope]) -> frozenset[Scope]:
    return frozenset().union(*(_INCLUDED[own] for own in scopes))


class Caller(Struct, frozen=True):
    """Who sends a request. `namespaces`: None for all. `expires_at`: seconds since 1970.

    `granted_by`: the person whose roles limit the token. `grants`: further scopes in single namespaces.
    """

    token_id: str
    kind: str
    user: str
    scopes: frozenset[Scope]
    namespaces: frozenset[str] | None
    created_at: float
    expires_at: float
    granted_by: str | None = None
    grants: Mapping[str, frozenset[Scope]] = {}

    def may(self, scope: Scope) -> bool:
        """Return whether a scope of the token includes this one."""
        return any(scope in _INCLUDED[own] for own in self.scopes)

    def reaches(self, namespace: str) -> bool:
        """Return whether the token is valid for a namespace."""
        return self.namespaces is None or namespace in self.namespaces

    def within(self, namespace: str) -> "Caller":
        """Return the caller with their scopes in a namespace."""
        if namespace not in self.grants:
            return self
        more = self.grants[namespace]
        return replace(self, scopes=self.scopes | more, namespaces=frozenset({namespace}), grants={})


def create_token(
    engine: Engine,
    user: str,
    scopes: Collection[Scope],
    namespaces: Collection[str] | None,
    seconds: float,
    kind: str = TOKEN,
    granted_by: str | None = None,
) -> str:
    """Store a new token and return it. It cannot be shown again. `granted_by`: whose roles limit it."""
    id, secret = secrets.token_hex(6), secrets.token_urlsafe(_SECRET_BYTES)
    with writing(engine) as connection:
        now = read_clock(connection)
        values = {
            "id": id,
            "hash": _hash(secret),
            "kind": kind,
            "user": fold_user(user),
            "scopes": sorted(scopes),
            "namespaces": None if namespaces is None else sorted(namespaces),
            "created_at": now,
            "expires_at": now + seconds,
            "granted_by": granted_by,
        }
        connection.execute(TOKENS.insert().values(values))
    return f"{PREFIX}_{id}_{secret}"


def find_caller(engine: Engine, token: str, kind: str = TOKEN) -> Caller | None:
    """Return whose valid token this is. None: unknown, expired or revoked, or of a disabled person."""
    found = _TOKEN.fullmatch(token)
    if found is None:
        return None
    id, secret = found.groups()
    with reading(engine) as connection:
        row = connection.execute(select(TOKENS).where(TOKENS.c.id == id, TOKENS.c.kind == kind)).first()
        if row is None or not compare_digest(row.hash, _hash(secret)):
            return None
        named = {fold_user(one) for one in (row.user, row.granted_by) if one is not None}
        people = select(PEOPLE.c.user).where(PEOPLE.c.user.in_(named))
        is_disabled = connection.execute(people.where(PEOPLE.c.disabled_at.is_not(None))).first() is not None
        if is_disabled or row.revoked_at is not None or row.expires_at <= read_clock(connection):
            return None
        caller = _to_caller(row)
        return caller if row.granted_by is None else _limit(caller, read_roles(connection, row.granted_by))


def read_roles(connection: Connection, user: str) -> dict[str, ProjectRole]:
    """Return the roles of a person by namespace. `*`: in every one."""
    found = connection.execute(select(ROLES.c.namespace, ROLES.c.role).where(ROLES.c.user == user))
    return {namespace: ProjectRole(role) for namespace, role in found}


def _limit(caller: Caller, roles: Mapping[str, ProjectRole]) -> Caller:
    """Return a caller who may do what both their token and the roles permit."""
    own = _include(caller.scopes)
    allowed = {namespace: own & _include(SCOPES[role]) for namespace, role in roles.items()}
    everywhere = allowed.pop(EVERYWHERE, frozenset())
    more = {one: scopes for one, scopes in allowed.items() if caller.reaches(one) and not scopes <= everywhere}
    namespaces = caller.namespaces if everywhere else frozenset(more)
    return replace(caller, scopes=everywhere, namespaces=namespaces, grants=more)


def revoke_token(engine: Engine, id: str) -> bool:
    """Revoke a token by its id. Return whether there is one that was not revoked yet."""
    if not _ID.fullmatch(id):
        return False
    with writing(engine) as connection:
        now = read_clock(connection)
        changed = update(TOKENS).where(TOKENS.c.id == id, TOKENS.c.revoked_at.is_(None)).values(revoked_at=now)
        return connection.execute(changed).rowcount > 0


def list_tokens(
    engine: Engine, kinds: Collection[str] = (TOKEN,)
) -> Sequence[tuple[Caller, float | None, float | None]]:
    """Return all tokens of these kinds with the times of their revocation and of the last login, newest first.

    The login is that of the user, or else of the person who created the token; None: neither has a login.
    """
    found = select(TOKENS).where(TOKENS.c.kind.in_(kinds)).order_by(TOKENS.c.created_at.desc(), TOKENS.c.id)
    with reading(engine) as connection:
        rows = connection.execute(found).all()
        people = connection.execute(select(PEOPLE.c.user, PEOPLE.c.last_seen))
        logins = {person.user: person.last_seen for person in people}
    return [
        (_to_caller(row), row.revoked_at, logins.get(fold_user(row.user)) or logins.get(row.granted_by)) for row in rows
    ]


def purge_tokens(engine: Engine, days: int) -> int:
    """Delete tokens, sessions and login links that have been invalid for so many days. Return their number."""
    with writing(engine) as connection:
        oldest = read_clock(connection) - days * DAY_SECONDS
        is_over = or_(TOKENS.c.expires_at < oldest, TOKENS.c.revoked_at < oldest)
        return connection.execute(delete(TOKENS).where(is_over)).rowcount


def parse_id(token: str) -> str:
    """Return the id in a token. It is public."""
    return token.partition("_")[2].partition("_")[0]


def _to_caller(row: Row) -> Caller:  # type: ignore[type-arg]
    scopes = frozenset(map(Scope, row.scopes))
    namespaces = None if row.namespaces is None else frozenset(row.namespaces)
    return Caller(row.id, row.kind, row.user, scopes, namespaces, row.created_at, row.expires_at, row.granted_by)


def _hash(secret: str) -> str:
    return sha256(secret.encode(errors="surrogatepass")).hexdigest()
