"""Record the permission of a customer, and check it before text of the customer enters the set."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path

from evalspec.base.errors import InvalidInput, Problem
from evalspec.curation.gold.files import show, to_plain, write_record
from evalspec.curation.gold.gold_set import read_config
from evalspec.curation.gold.identity import require_person
from evalspec.curation.gold.locking import hold
from evalspec.curation.gold.permission import explain_no_permission, find_today, grant_path, read_grants
from evalspec.curation.gold.redaction import find_terms, redact_text, redact_triple, refuse_unusable
from evalspec.curation.gold.schema import GoldTriple, Grant
from evalspec.curation.gold.values import require_name
from evalspec.inputs.datasets.located import make_record

_EVERYTHING = "all"
_NEVER = "never"


def grant(
    root: Path,
    customer: str,
    by: str,
    *,
    evidence: str,
    granted_by: str | None = None,
    domains: Sequence[str] = (),
    expires: str | None = None,
    terms: Sequence[str] = (),
    renew: bool = False,
    today: date | None = None,
) -> Grant:
    """Record that a customer permits the use of its questions, and return the grant.

    Args:
        root: Folder of the set.
        customer: Name of the customer, as in `metadata.customer`.
        by: The acting person.
        evidence: Where the permission is documented.
        granted_by: Who granted it; by default the acting person.
        domains: The domains that it covers; all by default.
        expires: The last day on which it counts, as 2027-06-30; "never" by default.
        terms: Names and products to redact in text of the customer.
        renew: Replace an existing grant. Its terms are kept, and its domains and last day unless others are given.
        today: By default the current date in UTC.

    Raises:
        InvalidInput: A value is invalid, there is a grant already, or the last day of a renewed grant has passed.
    """
    day = today or find_today()
    require_person(read_config(root), by)
    refuse_unusable(terms)
    require_name(customer, "--customer")
    with hold(root):
        path, before = grant_path(root, customer), _read(root).get(customer)
        if before is not None and not renew:
            fix = "pass --renew to replace it; its terms, domains and last day are kept unless you give others"
            raise InvalidInput(Problem("there is a grant already", fix, show(path)))
        scope = list(domains) or ([] if before is None or before.scope == _EVERYTHING else before.scope)
        known = [] if before is None else before.terms
        last = _choose_last_day(expires, before, day)
        values = {
            "granted_by": granted_by or by,
            "at": day.isoformat(),
            "evidence": evidence,
            "scope": _EVERYTHING if _EVERYTHING in scope or not scope else scope,
            "terms": list(dict.fromkeys([*known, *terms])),
        } | ({} if last is None else {"expires": last})
        made = make_record(Grant, values, lambda why, fix: Problem(why, fix or "see: evalspec gold grant --help"))
        write_record(path, to_plain(made))
        return made


def admit(root: Path, triple: GoldTriple, name: str) -> GoldTriple:
    """Return a triple as it may enter the set: with the terms of its customer's grant redacted.

    Raises:
        InvalidInput: The customer does not permit its use today, or a term is where it cannot be redacted.
    """
    grants = _read(root)
    cause = explain_no_permission(triple.metadata, grants, find_today())
    customer = triple.metadata.customer
    if cause is not None:
        fix = f"record the permission: evalspec gold grant --customer {customer} --evidence …"
        raise InvalidInput(Problem(cause, fix if customer else "add --meta customer=NAME", field="metadata.customer"))
    if customer is None:
        return triple
    terms = grants[customer].terms
    if find_terms(name, terms):
        message = "a term of the grant is in the id, which stays when the customer revokes the permission"
        raise InvalidInput(Problem(message, "choose another id", field="id"))
    return redact_triple(triple, terms)


def redact_note(root: Path, note: str | None) -> str | None:
    """Return a person's note with the terms of all grants redacted, whatever it is about."""
    if note is None:
        return None
    return redact_text(note, [term for grant in _read(root).values() for term in grant.terms])


def _read(root: Path) -> dict[str, Grant]:
    problems: list[Problem] = []
    found = read_grants(root, problems)
    if problems:
        raise InvalidInput(problems)
    return found


def _choose_last_day(expires: str | None, before: Grant | None, today: date) -> str | None:
    """Return the last day of a grant: the given one, or that of the grant before. None: it does not expire."""
    known = before.expires if before else None
    given = expires or (known or _NEVER)[: len("2027-06-30")]
    if given == _NEVER:
        return None
    try:
        last = date.fromisoformat(given)
    except ValueError as error:
        fix = f"write it as 2027-06-30, or {_NEVER}"
        raise InvalidInput(Problem(f"'{given}' is not a day", fix, field="--expires")) from error
    if last < today:
        fix = f"give a later one: --expires DATE, or --expires {_NEVER}"
        raise InvalidInput(Problem(f"the last day, {last}, has passed", fix, field="--expires"))
    return last.isoformat()
