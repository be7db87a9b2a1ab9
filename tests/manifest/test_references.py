from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.manifest.references import REDACTED, References, UnresolvedReference

SECRET = "s3cr3t-value"


@pytest.fixture
def references(tmp_path):
    (tmp_path / "note.txt").write_text("from a file\n", encoding="utf-8")
    return References(tmp_path, {"TOKEN": SECRET, "EMPTY": "", "AGENTSPEC_SECRET_API_KEY": "another-secret"})


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("$env:TOKEN", SECRET),
        ("$secret:api-key", "another-secret"),
        ("$file:note.txt", "from a file\n"),
        ("Bearer ${env:TOKEN}", f"Bearer {SECRET}"),
        ("Bearer $env:TOKEN", "Bearer $env:TOKEN"),
        ("costs $5 and ${nothing}", "costs $5 and ${nothing}"),
    ],
)
def test_resolves(references, text, resolved):
    assert references.resolve(text) == resolved


def test_functions(references):
    assert datetime.fromisoformat(references.resolve("$func:now_iso")).tzinfo is not None
    assert references.resolve("$func:now_unix").isdigit()
    assert datetime.fromisoformat(references.resolve("$func:now_date"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("$env:MISSING", "MISSING is not set"),
        ("$env:EMPTY", "EMPTY is empty"),
        ("$env:NOT A NAME", "not a variable name"),
        ("Bearer ${env:MISSING}", "MISSING is not set"),
        ("$secret:none", "secret 'none' is not set"),
        ("$file:../outside", "outside the manifest's folder"),
        ("$file:/etc/passwd", "outside the manifest's folder"),
        ("$file:absent.txt", "cannot be read"),
        ("$func:rm", "unknown function 'rm'"),
    ],
)
def test_refuses(references, text, message):
    with pytest.raises(UnresolvedReference, match=message):
        references.resolve(text)


def test_a_symlink_does_not_lead_out_of_the_folder(references, tmp_path):
    outside = tmp_path.parent / "outside.txt"
    outside.write_text("x", encoding="utf-8")
    (tmp_path / "link").symlink_to(outside)
    with pytest.raises(UnresolvedReference, match="outside"):
        references.resolve("$file:link")


def test_other_secret_backends_are_refused(tmp_path):
    with pytest.raises(UnresolvedReference, match="vault"):
        References(tmp_path, {"AGENTSPEC_SECRET_BACKEND": "vault"}).resolve("$secret:x")


def test_redacts_by_value_everywhere(references):
    references.resolve("$env:TOKEN")
    data = {f"k {SECRET}": [f"a {SECRET} b", {"n": 3, "deep": (SECRET,)}], "clean": None}
    redacted = references.redact_data(data)
    assert SECRET not in str(redacted)
    assert redacted == {f"k {REDACTED}": [f"a {REDACTED} b", {"n": 3, "deep": [REDACTED]}], "clean": None}


def test_a_secret_inside_a_longer_one_does_not_leave_the_rest(tmp_path):
    references = References(tmp_path, {"A": "secret", "B": "secret-and-more"})
    references.resolve("${env:A}${env:B}")
    assert references.redact("secret-and-more secret") == f"{REDACTED} {REDACTED}"


@given(st.text(min_size=4), st.text(), st.text())
def test_no_secret_survives_redaction(tmp_path_factory, secret, before, after):
    references = References(tmp_path_factory.getbasetemp(), {})
    references.remember(secret)
    redacted = references.redact(before + secret + after)
    assert secret not in redacted.replace(REDACTED, "\x00") or secret in REDACTED


@given(st.text().filter(lambda text: "$" not in text))
def test_text_without_references_is_left_alone(tmp_path_factory, text):
    assert References(tmp_path_factory.getbasetemp(), {}).resolve(text) == text
