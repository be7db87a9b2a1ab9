"""People of the pages: when they logged in, and their roles.

A role limits the sessions and tokens that a person was granted, from the next request on.
"""

from collections.abc import Collection, Mapping

from msgspec import Struct
from sqlalchemy import Connection, Engine, delete, func, select, update

from evalspec.base.errors import InvalidInput, Problem
from evalspec.service.database import read_clock, reading, wait_in_line, writing
from evalspec.service.tables import PEOPLE, ROLES
from evalspec.service.tokens import EVERYWHERE, ProjectRole, fold_user

_LOCK = 0x65766C74
"""Key of PostgreSQL's advisory lock, under which one transaction changes people while others wait."""
_IS_ADMIN = (ROLES.c.namespace == EVERYWHERE) & (ROLES.c.role == ProjectRole.ADMIN)


class Member(Struct, frozen=True):
    """A person. Times are seconds since 1970, of logins; None: never. `roles`: by namespace; `*`: in every one."""

    user: str
    first_seen: float | None
    last_seen: float | None
    disabled_at: float | None
    roles: Mapping[str, ProjectRole]


def list_people(engine: Engine) -> list[Member]:
    """Return all people by name."""
    roles: dict[str, dict[str, ProjectRole]] = {}
    with reading(engine) as connection:
        for user, namespace, role in connection.execute(select(ROLES)):
            roles.setdefault(user, {})[namespace] = ProjectRole(role)
        rows = connection.execute(select(PEOPLE).order_by(PEOPLE.c.user))
        return [Member(**row._asdict(), roles=roles.get(row.user, {})) for row in rows]


def list_reviewers(engine: Engine, namespace: str) -> list[str]:
    """Return who may label and review in a namespace by their role, and is not disabled, by name."""
    return [
        one.user
        for one in list_people(engine)
        if one.disabled_at is None
        and {one.roles.get(namespace), one.roles.get(EVERYWHERE)} - {None, ProjectRole.VIEWER}
    ]


def welcome(
    engine: Engine, user: str, roles: Mapping[str, ProjectRole] | None = None, default: ProjectRole | None = None
) -> bool:
    """Record a login, unless the person is disabled. Return whether they are not.

    `roles`: replace the person's. `default`: the role everywhere, if these are none or it is new.
    """
    user = fold_user(user)
    with writing(engine) as connection:
        wait_in_line(connection, _LOCK)
        is_new = _add_person(connection, user)
        now = read_clock(connection)
        seen = update(PEOPLE).where(PEOPLE.c.user == user, PEOPLE.c.disabled_at.is_(None))
        first = func.coalesce(PEOPLE.c.first_seen, now)
        if not connection.execute(seen.values(first_seen=first, last_seen=now)).rowcount:
            return False
        if default is not None and (is_new if roles is None else not roles):
            roles = {EVERYWHERE: default}
        if roles is not None:
            _set_roles(connection, user, roles)
    return True


def set_role(engine: Engine, user: str, namespace: str, role: ProjectRole | None) -> None:
    """Give a person a role in a namespace instead of the present one. `namespace` `*`: in every one. None: no role.

    Raises:
        InvalidInput: Nobody would be admin of every namespace any more.
    """
    user = fold_user(user)
    with writing(engine) as connection:
        had = _count_admins(connection)
        _add_person(connection, user)
        here = delete(ROLES).where(ROLES.c.user == user, ROLES.c.namespace == namespace)
        connection.execute(here)
        if role is not None:
            connection.execute(ROLES.insert().values(user=user, namespace=namespace, role=role))
        _keep_an_admin(connection, had)


def set_disabled(engine: Engine, user: str, *, is_disabled: bool) -> None:
    """Disable a person, whose sessions and tokens are invalid from then on, or enable them again.

    Raises:
        InvalidInput: Nobody would be admin of every namespace any more, or there is no such person.
    """
    with writing(engine) as connection:
        had = _count_admins(connection)
        moment = read_clock(connection) if is_disabled else None
        changed = update(PEOPLE).where(PEOPLE.c.user == fold_user(user)).values(disabled_at=moment)
        if not connection.execute(changed).rowcount:
            raise InvalidInput(f"nobody is named '{user}'", "the list of people has every name")
        _keep_an_admin(connection, had)


def _add_person(connection: Connection, user: str) -> bool:
    """Add a person. Return whether they were unknown."""
    if connection.execute(select(PEOPLE.c.user).where(PEOPLE.c.user == user)).first() is not None:
        return False
    connection.execute(PEOPLE.insert().values(user=user))
    return True


def _set_roles(connection: Connection, user: str, roles: Mapping[str, ProjectRole]) -> None:
    connection.execute(delete(ROLES).where(ROLES.c.user == user))
    for namespace, role in roles.items():
        connection.execute(ROLES.insert().values(user=user, namespace=namespace, role=role))


def _count_admins(connection: Connection) -> int:
    """Return how many people are admins of every namespace, in a line with others who change people."""
    wait_in_line(connection, _LOCK)
    enabled = select(PEOPLE.c.user).where(PEOPLE.c.disabled_at.is_(None))
    admins = select(ROLES.c.user).where(_IS_ADMIN, ROLES.c.user.in_(enabled))
    return len(connection.execute(admins).all())


def _keep_an_admin(connection: Connection, had: int) -> None:
    if had and not _count_admins(connection):
        raise InvalidInput("this is the last admin of every project", "give somebody else this role first")


def parse_grants(given: Collection[str], namespaces: Collection[str]) -> tuple[tuple[str, str, str], ...]:
    """Return what values of a claim grant. `given`: `VALUE=ROLE` or `VALUE=NS:ROLE` each.

    Raises:
        InvalidInput: An entry cannot be read, or names an unknown role or namespace.
    """
    grants, problems = [], []
    for entry in given:
        value, _, granted = entry.rpartition("=")
        namespace, colon, role = granted.rpartition(":")
        if not value or role not in list(ProjectRole) or (colon and namespace not in namespaces):
            fix = f"write VALUE=ROLE or VALUE=NAMESPACE:ROLE, with {', '.join(ProjectRole)}"
            problems.append(Problem(f"'{entry}' grants no role", fix, field="--oidc-role"))
        grants.append((value, namespace if colon else EVERYWHERE, role))
    if problems:
        raise InvalidInput(problems)
    return tuple(grants)
