from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.inputs.manifest.references import References, UnresolvedReference

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


def test_every_value_is_hidden_from_then_on_unless_it_is_public(tmp_path):
    references = References(tmp_path, {"TENANT": "billing", "REGION": "north", "AGENTSPEC_SECRET_KEY": "s3cr3t"})
    assert references.resolve("${env:TENANT} ${env:REGION:public} ${secret:key}") == "billing north s3cr3t"
    hidden = "[redacted:env:TENANT] north [redacted:secret:key]"
    assert references.redact("billing north s3cr3t") == hidden
    assert references.resolve("$env:REGION") == "north"
    assert references.redact("north") == "[redacted:env:REGION]", "public in one place is not public everywhere"


def test_a_secret_is_never_public(references):
    with pytest.raises(UnresolvedReference, match="cannot be public"):
        references.resolve("$secret:key:public")


@given(st.text().filter(lambda text: "$" not in text))
def test_text_without_references_is_left_alone(tmp_path_factory, text):
    assert References(tmp_path_factory.getbasetemp(), {}).resolve(text) == text
