"""The gold sets of a project, and who the caller is in a set."""

from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

from evalspec.base.errors import InvalidInput
from evalspec.curation.gold.gold_set import GoldSet, TripleEntry, list_sets, read_config, read_entry, read_set
from evalspec.curation.gold.layout import SET_FILE
from evalspec.curation.gold.protocol import assign
from evalspec.curation.gold.retraction import UNDO_TIME
from evalspec.curation.gold.reviewers import list_assigned, list_reviewable
from evalspec.curation.gold.schema import SetFile
from evalspec.curation.gold.viewer import Viewer, find_viewer
from evalspec.service.access import Access
from evalspec.service.people import list_reviewers
from evalspec.service.problems import ApiProblem, conflict, not_found
from evalspec.service.settings import Project


def list_project_sets(project: Project) -> list[Path]:
    """Return the folders of a project's gold sets. Links that leave the project are left out."""
    found = list_sets(project.folder)
    return [root for root in found if (root / SET_FILE).resolve().is_relative_to(project.folder)]


def find_project_set(project: Project, name: str) -> Path:
    """Return the folder of a gold set by the name of the folder.

    Raises:
        ApiProblem: 404: There is none. 409: Two sets have this name.
    """
    found = [root for root in list_project_sets(project) if root.name == name]
    if not found:
        raise not_found(f"there is no gold set '{name[:100]}'", "GET /v1/gold lists all sets")
    if len(found) > 1:
        raise conflict(f"two gold sets are named '{name}'; rename the folder of one of them")
    return found[0]


def find_project_triple(root: Path, id: str) -> TripleEntry:
    """Return a triple of a set. Ids are never joined with paths before they are known to be one.

    Raises:
        ApiProblem: 404: There is none.
    """
    if id not in read_set(root).entries:
        raise not_found(f"there is no triple '{id[:100]}' in gold set {root.name}")
    return read_entry(root, id)


def find_caller_person(config: SetFile, user: str) -> str | None:
    """Return the person of a set with this name or email. None: the user is not one of the people."""
    if user in config.people:
        return user
    emails = {details.email.casefold(): name for name, details in config.people.items() if details.email}
    return emails.get(user.casefold())


def list_set_reviewers(access: Access, config: SetFile) -> list[str]:
    """Return the people of a set who may review in the namespace by their role."""
    found = (find_caller_person(config, user) for user in list_reviewers(access.engine, access.namespace))
    return sorted({person for person in found if person is not None})


def assign_reviews(access: Access, root: Path, to: str, ids: Sequence[str], count: int = 0) -> list[TripleEntry]:
    """Ask a person of a set to review triples, and return them. `count`: in place of ids, so many that need it most.

    Nobody is kept from reviewing them too.

    Raises:
        ApiProblem: 403: The caller is not one of the people of the set. 409: They can take a review of a triple back.
        InvalidInput: The person may not review here, or not one of the triples, or none is left.
    """
    by, found = require_caller_person(access, root), read_set(root)
    able = set(list_set_reviewers(access, found.config))
    if to not in able:
        fix = f"choose one of the people in {SET_FILE} with the role reviewer, editor or admin; /people gives roles"
        raise InvalidInput(f"{to} may not review here", fix)
    free = [entry for entry in list_reviewable(found, to) if to not in list_assigned(entry)]
    chosen = ids or [entry.id for entry in sorted(free, key=lambda entry: len(list_assigned(entry) & able))[:count]]
    if not chosen:
        raise InvalidInput(f"no triple waits for a review by {to}", "choose somebody else")
    entries, viewer = [find_project_triple(root, id) for id in dict.fromkeys(chosen)], find_caller_viewer(found, access)
    for entry in entries:
        require_no_withheld(entry, viewer)
    return assign(root, [entry.id for entry in entries], to, by)


def find_caller_viewer(found: GoldSet, access: Access) -> Viewer:
    """Return what the caller may see of a set."""
    return find_viewer(found, find_caller_person(found.config, access.caller.user))


def require_no_withheld(entry: TripleEntry, viewer: Viewer) -> None:
    """Refuse decisions about a triple that would show what others said while the caller can take a review back.

    Raises:
        ApiProblem: 409: The caller can take their review of the triple back.
    """
    if entry.id in viewer.withheld:
        minutes = UNDO_TIME.seconds // 60
        raise conflict(f"you can still take your review of '{entry.id}' back; try again {minutes} minutes after it")


def require_reviewed(entry: TripleEntry, viewer: Viewer) -> None:
    """Refuse a revision by somebody whose review is wanted, because its outcome would show what others said.

    Raises:
        ApiProblem: 409: The caller has not reviewed the triple, or can take the review back.
    """
    require_no_withheld(entry, viewer)
    if viewer.is_blind(entry):
        raise conflict(f"review '{entry.id}' first; who flags it can revise it")


def require_caller_person(access: Access, root: Path) -> str:
    """Return which person of a set the caller is.

    Raises:
        ApiProblem: 403: The user of the token is not one of the people of the set.
    """
    person = find_caller_person(read_config(root), access.caller.user)
    if person is None:
        detail = f"{access.caller.user} is not one of the people in {root.name}/{SET_FILE}; add the name or email there"
        raise ApiProblem(HTTPStatus.FORBIDDEN, detail)
    return person
