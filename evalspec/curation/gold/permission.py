"""Whether a customer permits the use of a triple today. An expired grant counts as revoked, without any command."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path

from evalspec.base.errors import Problem
from evalspec.curation.gold.files import read_records, show
from evalspec.curation.gold.layout import GRANTS
from evalspec.curation.gold.schema import Grant, TripleMetadata, TripleSource


def find_today() -> date:
    """Return the current date in UTC."""
    return datetime.now(UTC).date()


def grant_path(root: Path, customer: str) -> Path:
    """Return the path of a customer's grant: the existing file, or the one to write."""
    path = root / GRANTS / f"{customer}.yaml"
    other = path.with_suffix(".yml")
    return other if other.exists() and not path.exists() else path


def read_grants(root: Path, problems: list[Problem]) -> dict[str, Grant]:
    """Return the grants of a set by customer. Unreadable ones are missing, and a problem.

    Two files of one customer are a problem too; a revoked one counts.
    """
    found: dict[str, Grant] = {}
    for path, grant in read_records(Grant, root / GRANTS, problems):
        if path.stem in found:
            message = f"{path.stem} has two grants, in {path.stem}.yaml and in {path.name}"
            problems.append(Problem(message, "merge them into one file", show(path)))
        if path.stem not in found or grant.revoked_at is not None:
            found[path.stem] = grant
    return found


def explain_no_permission(metadata: TripleMetadata, grants: Mapping[str, Grant], today: date) -> str | None:
    """Return why a triple may not be used on a day, None if it may."""
    customer = metadata.customer
    if customer is None:
        nameless = "a customer's question must name its customer in metadata.customer"
        return nameless if metadata.source is TripleSource.CUSTOMER else None
    grant = grants.get(customer)
    if grant is None:
        return f"{customer} has not granted permission"
    if grant.revoked_at is not None:
        return f"{customer} revoked the permission on {grant.revoked_at[:10]}"
    if not grant.is_active(today):
        return f"the permission of {customer} expired on {(grant.expires or '')[:10]}"
    if grant.scope != "all" and metadata.domain not in grant.scope:
        domain = f"not the domain '{metadata.domain}'" if metadata.domain else "and the triple names no domain"
        return f"the permission of {customer} covers {', '.join(grant.scope)}, {domain}"
    return None
