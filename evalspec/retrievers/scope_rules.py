"""Which scope prefixes may be deleted: one that is too short deletes what is nobody's test data."""

import re

OWN_BEGINNING = "eval:"
_DELIMITERS = ":/"
_PATTERN = frozenset("%*?[]^\\")
_PRINTED_AS_NOTHING = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that Unicode counts as letters, marks or symbols, and that nobody sees."""

_SEGMENTS = re.compile(f"[{_DELIMITERS}]")
_ALLOWED = "use letters, digits, - and _, with : or / between them"


def check_scope_prefix(prefix: str, *, allow_custom: bool = False) -> tuple[str, str] | None:
    """Why a prefix may not be deleted and what to write instead, or None. `allow_custom`: also one outside of `eval:`.

    A prefix ends in a delimiter, or else `eval:faq` would delete `eval:faq-2:` too. Some stores match prefixes by
    patterns, so one that holds a wildcard could match what it does not say; some as paths, where `..` leads out.
    """
    shown = f"the scope prefix '{''.join(map(_make_visible, prefix))}'"
    for character in prefix:
        if character in _PATTERN:
            return f"{shown} holds '{character}', which a store may take for a pattern", _ALLOWED
        if _is_invisible(character):
            return f"{shown} holds '{_make_visible(character)}', which is hard or impossible to see", _ALLOWED
    dots = [segment for segment in _SEGMENTS.split(prefix) if segment in (".", "..")]
    if dots:
        return f"{shown} has the segment '{dots[0]}', which a store may take for a folder", _ALLOWED
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


def _is_invisible(character: str) -> bool:
    """Blanks too: two prefixes that look the same must be the same."""
    return character.isspace() or not character.isprintable() or bool(_PRINTED_AS_NOTHING.match(character))


def _make_visible(character: str) -> str:
    return f"U+{ord(character):04X}" if _is_invisible(character) and character != " " else character
