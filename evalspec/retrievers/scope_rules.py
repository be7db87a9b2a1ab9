"""Which scope prefixes may be deleted: one that is too short deletes what is nobody's test data."""

import re

OWN_BEGINNING = "eval:"
_DELIMITERS = ":/"
_ODD = re.compile(r"[%*?\s\x00-\x1f\x7f]")


def find_scope_problem(prefix: str, *, allow_custom: bool = False) -> tuple[str, str] | None:
    """Why a prefix may not be deleted and what to write instead, or None. `allow_custom`: also one outside of `eval:`.

    A prefix ends in a delimiter, or else `eval:faq` would delete `eval:faq-2:` too. Some stores match prefixes by
    patterns, so one that holds a wildcard could match what it does not say.
    """
    shown = f"the scope prefix '{prefix}'"
    odd = _ODD.search(prefix)
    if odd:
        return f"{shown} holds {odd[0]!r}, which a store may take for a pattern", "use letters, digits, -, _, . and :"
    if not prefix.strip(_DELIMITERS):
        return f"{shown} names nothing, so it could delete everything", "write one like eval:my-dataset:"
    if not prefix.startswith(OWN_BEGINNING) and not allow_custom:
        fix = "begin it so, or pass --allow-custom-prefix if everything below it may be deleted"
        return f"{shown} does not begin with {OWN_BEGINNING}", fix
    if not prefix.removeprefix(OWN_BEGINNING).strip(_DELIMITERS):
        return f"{shown} is that of every evaluation", "name your own below it, as in eval:my-dataset:"
    if not prefix.endswith(tuple(_DELIMITERS)):
        return f"{shown} does not end in : or /, so it covers every prefix that begins like it", f"write {prefix}:"
    return None


def is_own(prefix: str) -> bool:
    """Whether a prefix is one of evalspec's own, so that nobody has to confirm that it may be deleted."""
    return prefix.startswith(OWN_BEGINNING)
