"""Grants of customers: who may be evaluated, what is redacted, what lint finds."""

import os
import time
import unicodedata
from contextlib import contextmanager
from datetime import date, timedelta
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec import gold
from evalspec.base.errors import InvalidInput
from evalspec.curation.gold import locking, protocol
from evalspec.curation.gold.authoring import revise_edited
from evalspec.curation.gold.files import write_record
from evalspec.curation.gold.locking import hold
from evalspec.curation.gold.protocol import review
from evalspec.curation.gold.redaction import PLACEHOLDER, find_terms, redact_text
from evalspec.curation.gold.schema import TripleMetadata
from evalspec.curation.gold.states import State
from evalspec.inputs.datasets.base import Source
from evalspec.inputs.datasets.load import load_dataset

TODAY = date(2026, 5, 1)


def allow(team, customer="acme", **more):
    return gold.grant(team.root, customer, "ada", evidence="contract 17", **more)


def test_without_a_grant_nothing_enters(team, project):
    with pytest.raises(InvalidInput, match="acme has not granted permission"):
        team.add("a", source="customer", customer="acme")
    with pytest.raises(InvalidInput, match="must name its customer in metadata"):
        team.add("a", source="customer")
    assert team.read().entries == {}
    refused = project("gold", "add", "a", "--question", "Q?", "--block", "b", "--source", "customer", "--as", "ada")
    assert (refused.code, refused.out) == (2, "")
    assert "metadata.customer" in refused.err


@pytest.mark.parametrize(
    ("grant", "cause"),
    [
        ({"expires": "2026-04-30"}, "the permission of acme expired on 2026-04-30"),
        ({"expires": "2026-05-01"}, None),
        ({"domains": ["legal", "tax"]}, "the permission of acme covers legal, tax, not the domain 'billing'"),
        ({"domains": ["billing"]}, None),
    ],
)
def test_the_reader_excludes_what_the_grant_does_not_cover_today(team, grant, cause):
    allow(team)
    team.accept("a", source="customer", customer="acme", domain="billing")
    team.accept("s", source="synthetic", customer="acme", domain="billing")
    team.accept("p", source="public")
    allow(team, **grant, renew=True, today=TODAY - timedelta(days=9))
    entry = team.read(TODAY).entries["a"]
    assert (entry.state, entry.review_status.resolution) == (
        (State.REVOKED, cause) if cause else (State.ACCEPTED, "consensus")
    )
    assert team.read(TODAY).entries["s"].state is entry.state
    assert team.read(TODAY).entries["p"].is_accepted


def test_an_expired_grant_is_named_by_the_reader_and_renewing_brings_the_triples_back(team, project):
    allow(team)
    team.accept("a", source="customer", customer="acme")
    team.accept("p", source="public")
    allow(team, renew=True, expires="2020-02-02", today=date(2020, 1, 1))
    data = load_dataset(Source(team.root, "gold/help"))
    assert [sample.id for sample in data.samples] == ["p"]
    said = "1 triple is revoked (the permission of acme expired on 2020-02-02), so not evaluated: a"
    assert said in [warning.message for warning in data.warnings]
    linted = project("gold", "lint")
    assert linted.code == 0
    assert "the permission of acme expired on 2020-02-02, so 1 triple is not evaluated" in linted.err
    refused = project("gold", "retire", "a", "--as", "ada")
    assert "cannot retire a triple without permission: the permission of acme expired" in refused.err
    allow(team, renew=True, expires="never")
    assert [sample.id for sample in load_dataset(Source(team.root, "gold/help")).samples] == ["a", "p"]


def test_a_grant_is_replaced_only_on_purpose_and_keeps_its_terms(team, project):
    allow(team, terms=["Acme"], domains=["billing"], expires="2999-01-31")
    again = project("gold", "grant", "--customer", "acme", "--evidence", "mail", "--as", "ben")
    assert again.code == 2
    assert "pass --renew to replace it; its terms, domains and last day are kept" in again.err
    renewed = project(
        "gold",
        "grant",
        "--customer",
        "acme",
        "--evidence",
        "mail",
        "--term",
        "Globex",
        "--renew",
        "--as",
        "ben",
        "--json",
    )
    assert renewed.document["terms"] == ["Acme", "Globex"]
    assert (renewed.document["scope"], renewed.document["grantedBy"]) == (["billing"], "ben")
    assert renewed.document["expires"] == "2999-01-31"
    with pytest.raises(InvalidInput, match="the last day, 2999-01-31, has passed"):
        allow(team, renew=True, today=date(3000, 1, 1))
    assert allow(team, renew=True, expires="never").expires is None
    vague = project("gold", "grant", "--customer", "new", "--evidence", "x", "--expires", "30.6.2027", "--as", "ben")
    assert "'30.6.2027' is not a day. write it as 2027-06-30" in vague.err
    for wrong in (["--expires", "2001-01-01"], ["--expires", "soon"], ["--term", "redacted"], ["--term", "--"]):
        assert project("gold", "grant", "--customer", "new", "--evidence", "x", *wrong, "--as", "ben").code == 2
    assert not (team.root / "permissions" / "new.yaml").exists()


def test_terms_are_redacted_wherever_the_customer_wrote(team, project):
    allow(team, terms=["Acme", "Acme Corp", "Größe AG"])
    given = [
        "--question",
        "How does ACME\n corp bill GRÖSSE\u00a0AG?",
        "--answer",
        "Acme's way",
        "--claim",
        "acme pays",
    ]
    more = ["--meta", "note=for Acme", "--source", "customer", "--meta", "customer=acme", "--block", "b", "--as", "ada"]
    added = project("gold", "add", "q", *given, *more)
    assert added.code == 0, added.err
    assert "redacted 5 terms" in added.err
    triple = team.read().entries["q"].triple
    assert triple.question == f"How does {PLACEHOLDER} bill {PLACEHOLDER}?"
    assert (triple.expected_answer, triple.claims) == (f"{PLACEHOLDER}'s way", [f"{PLACEHOLDER} pays"])
    assert triple.metadata.model_extra == {"note": f"for {PLACEHOLDER}"}
    assert project("gold", "review", "q", "overstated", "--note", "Ask Acme", "--as", "ben").code == 0
    assert team.read().entries["q"].events[-1].event.note == f"Ask {PLACEHOLDER}"
    path = team.root / "triples" / "q.yaml"
    path.write_text(path.read_text().replace("s way", "s Acme Corp way"))
    linted = project("gold", "lint")
    line = next(number for number, one in enumerate(path.read_text().splitlines(), 1) if "Acme" in one)
    assert f"{path}:{line}: expected_answer: term 2 of permissions/acme.yaml is not redacted" in linted.err
    assert "Acme Corp" not in linted.err
    revise_edited(team.root, "q", "ada")
    assert team.read().entries["q"].triple.expected_answer == f"{PLACEHOLDER}'s {PLACEHOLDER} way"
    assert project("gold", "lint").code == 0


@pytest.mark.parametrize("content", [{"expected_block": {"block_id": "Acme-1"}}, {"name": "acme.7"}, {"Acme": "x"}])
def test_terms_that_cannot_be_redacted_are_refused(team, content):
    allow(team, terms=["Acme"])
    with pytest.raises(InvalidInput, match="a term of the grant is"):
        team.add(content.pop("name", "q"), source="customer", customer="acme", **content)
    assert not list((team.root / "triples").iterdir())


def test_lint_finds_terms_in_every_file(team, project):
    allow(team)
    team.accept("a", source="customer", customer="acme", question="Does Initech pay?")
    team.accept("r", source="customer", customer="acme", question="Who is O’Reilly: a friend?")
    allow(team, terms=["Initech", "O'Reilly"], renew=True)
    path = team.root / "triples" / "r.yaml"
    path.write_text(path.read_text().replace("’", "''"))
    team.add("p", source="public")
    (team.root / "blocks").mkdir()
    (team.root / "blocks" / ("0" * 32)).write_text("INITECH’s terms")
    err = project("gold", "lint").err
    assert "triples/a.yaml:1: question: term 1 of permissions/acme.yaml" in err
    assert "triples/r.yaml:1: question: term 2 of permissions/acme.yaml" in err
    assert f"blocks/{'0' * 32}:1: term 1 of" in err
    (team.root / "permissions" / "acme.yaml").unlink()
    assert "acme has not granted permission" in project("gold", "lint").err


def test_lint_finds_terms_in_comments_names_and_every_other_text(team, project):
    allow(team, terms=["Initech"])
    allow(team, "globex", terms=["Globex"])
    team.accept("a", source="customer", customer="acme")
    root = team.root
    left = {
        "triples/a.yaml:1: ": lambda text: f"# for INITECH\n{text}",
        "set.yaml:2: description: ": lambda text: text.replace("\n", '\ndescription: "Initech\\u2019s"\n', 1),
        "permissions/globex.yaml:3: evidence: ": lambda text: text.replace("contract 17", "as Initech"),
    }
    for place, change in left.items():
        path = root / place.split(":")[0]
        path.write_text(change(path.read_text()))
    files = {
        "calibrations/x.yaml": "note: >\n  about\n  Initech\n",
        "exceptions/initech-note.txt": "nothing",
        "exports/x.yaml": "path: ../initech/x\nby: ada # Init\u200bech\n",
        "held-out/x.yaml": "run: [Ini\u00adtech, b]\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    err = project("gold", "lint").err
    lines = [line for line in err.splitlines() if "of permissions/" in line]
    expected = [*left, "calibrations/x.yaml:1: note: ", "exceptions/initech-note.txt: file name: ",
                "exports/x.yaml:1: path: ", "exports/x.yaml:2: ", "held-out/x.yaml:1: run[0]: "]  # fmt: skip
    for place in expected:
        assert f"{root}/{place}term 1 of permissions/acme.yaml is not redacted" in err
    assert len(lines) == len(expected), "the customer's name, its grant and the lists of terms are no leaks"


def test_every_note_is_redacted(team, project):
    allow(team, terms=["Initech"])
    team.add("p", source="public")
    assert project("gold", "review", "p", "overstated", "--note", "Initech asks too", "--as", "ben").code == 0
    noted = project("gold", "calibrate", "ben", "--note", "about Initech", "--as", "ada")
    assert noted.code == 0, noted.err
    assert project("gold", "lint").code == 0
    assert "Initech" not in "".join(path.read_text() for path in (team.root / "calibrations").iterdir())


@pytest.mark.parametrize(
    ("text", "term", "expected"),
    [
        ("Acme", "acme", "#"),
        ("Acmes and Acme2 and xAcme", "acme", "Acmes and Acme2 and xAcme"),
        ("acme_corp, Acme-X", "acme", "#_corp, #-X"),
        ("東京製作所の製品", "東京製作所", "#の製品"),
        ("AcmeのAPI", "Acme", "#のAPI"),
        ("STRASSE 7", "straße 7", "#"),
        (unicodedata.normalize("NFD", "Café Noir"), "café noir", "#"),
        (unicodedata.normalize("NFD", "삼성 전자"), "삼성전자", unicodedata.normalize("NFD", "삼성 전자")),
        (unicodedata.normalize("NFD", "삼성전자"), "삼성전자", "#"),
        ("Ac\u200bme\u00ad Corp", "acme corp", "#"),
        ("Acme\t\n Corp Acme", "Acme Corp", "# Acme"),
        ("ＡＣＭＥ", "acme", "#"),
        ("Ac\ufe0fme\U000e0101 A\u034fcme \u180bAcme Ac\x07me", "acme", "# # \u180b# #"),
        ("Acme\u2800Corp, acme\u3164corp Acme\u115fCorp Acme\uffa0\u1160Corp", "acme corp", "#, # # #"),
        ("Acme-Corp Acme_Corp AcmeCorp acme.corp acme / corp Acme–Corp Acme·Corp", "Acme Corp", " ".join("#" * 7)),
        ("AcmeCorps xAcmeCorp acme, corp", "acme corp", "AcmeCorps xAcmeCorp acme, corp"),
        ("Acme Corp", "acme-corp", "#"),
        ("the\u200bAcme\u200bway and Cafe\u200b\u0301", "acme", "the\u200b#way and Cafe\u200b\u0301"),
        ("Cafe\u200b\u0301", "café", "#"),
        ("O’Reilly Ltd, OʼReilly Ltd and “O'Reilly Ltd”", "O'Reilly Ltd", "#, # and “#”"),
    ],
)
def test_words_of_any_script(text, term, expected):
    assert redact_text(text, [term]) == expected.replace("#", PLACEHOLDER)


WORDS = st.text(st.sampled_from("aAbBßé\u0301 東_-'\n\u00a0\u200bI1\ufe0f\u3164."), max_size=12)


@given(WORDS, st.lists(WORDS.filter(lambda term: any(map(str.isalnum, term))), max_size=4))
def test_redacted_text_has_no_terms_and_nothing_else_changes(text, terms):
    redacted = redact_text(text, terms)
    assert find_terms(redacted, terms) == []
    assert redact_text(redacted, terms) == redacted
    places = find_terms(text, terms)
    kept = "".join(char for at, char in enumerate(text) if not any(one.start <= at < one.end for one in places))
    assert redacted.replace(PLACEHOLDER, "") == kept


@pytest.mark.parametrize("text", ["acme" * 50_000, "acme" + "-" * 200_000, "acme-" * 40_000, "\u200b" * 200_000])
def test_redaction_takes_linear_time(text):
    started = time.process_time()
    redact_text(text, ["Acme Corp", "acme", "acme acme acme"])
    assert time.process_time() - started < 5


def test_a_last_day_that_does_not_exist_is_invalid(team, project):
    allow(team)
    team.accept("a", source="customer", customer="acme")
    path = team.root / "permissions" / "acme.yaml"
    path.write_text(path.read_text() + 'expires: "2999-13-99"\n')
    told = project("gold", "lint")
    assert told.code == 2
    assert "acme.yaml" in told.err
    assert "expires" in told.err


def test_what_was_once_a_customers_stays_so(team):
    gold.grant(team.root, "acme", "ada", evidence="contract 17")
    team.accept("refund", source="customer", customer="acme")
    entry = gold.read_entry(team.root, "refund")
    public = entry.triple.model_copy(update={"metadata": TripleMetadata(source="public", added_by="ada")})
    with pytest.raises(InvalidInput, match="a question of acme, and stays so in every revision"):
        gold.revise_triple(team.root, "refund", public, "ada")
    write_record(entry.path, public)
    assert gold.read_entry(team.root, "refund").customers == {"acme"}
    assert any("the triple was a question of acme" in problem.message for problem in gold.lint(team.root).problems)
    gold.revoke(team.root, "acme", "ada")
    assert gold.read_entry(team.root, "refund").triple is None


def test_a_grant_is_one_file_of_either_suffix(team, project):
    allow(team)
    team.accept("a", source="customer", customer="acme")
    path = team.root / "permissions" / "acme.yaml"
    path = path.rename(path.with_suffix(".yml"))
    with pytest.raises(InvalidInput, match="there is a grant already"):
        allow(team)
    allow(team, renew=True, expires="2020-02-02", today=date(2020, 1, 1))
    assert "permissions/acme.yml: the permission of acme expired" in project("gold", "lint").err
    gold.revoke(team.root, "acme", "ada")
    assert team.read().grants["acme"].revoked_at is not None
    assert [one.name for one in path.parent.iterdir()] == ["acme.yml"]
    path.with_suffix(".yaml").write_text(path.read_text().split("revoked_at")[0])
    assert "acme has two grants, in acme.yaml and in acme.yml. merge them into one file" in project("gold", "lint").err
    with pytest.raises(InvalidInput, match="acme has two grants"):
        allow(team, renew=True)
    assert team.read().grants["acme"].revoked_at is not None


@pytest.mark.parametrize("act", ["add", "revise"])
def test_permission_is_checked_while_the_set_is_locked(team, monkeypatch, act):
    """A revocation that gets the lock first wins."""
    allow(team)
    entry = team.accept("a", source="customer", customer="acme")
    revoking = gold.revoke

    @contextmanager
    def hold_late(root):
        monkeypatch.setattr(protocol, "hold", hold)
        revoking(root, "acme", "ben")
        with hold(root):
            yield

    monkeypatch.setattr(protocol, "hold", hold_late)
    with pytest.raises(InvalidInput, match="acme revoked the permission"):
        if act == "add":
            team.add("b", source="customer", customer="acme")
        else:
            changed = entry.triple.model_copy(update={"question": "Which?"})
            gold.revise_triple(team.root, "a", changed, "ada")
    assert list((team.root / "triples").iterdir()) == []


@pytest.mark.parametrize("act", [gold.revoke, partial(gold.grant, evidence="contract 18", renew=True)])
def test_permissions_change_while_the_set_is_locked(team, monkeypatch, act):
    allow(team)
    monkeypatch.setattr(locking, "_SECONDS", 0.1)
    with hold(team.root), pytest.raises(InvalidInput, match="another command is changing the set"):
        act(team.root, "acme", "ada")
    assert team.read().grants["acme"].revoked_at is None


def test_content_of_a_customer_that_revoked_is_a_problem(team, project):
    allow(team)
    team.accept("a", source="customer", customer="acme", question="What is a zephyr?")
    path = team.root / "permissions" / "acme.yaml"
    path.write_text(f"{path.read_text()}revoked_at: 2026-05-01\n")
    linted = project("gold", "lint")
    assert linted.code == 2
    assert (
        "acme revoked the permission on 2026-05-01, but its text is in a. run again: evalspec gold revoke" in linted.err
    )


@pytest.mark.parametrize("end", ["revoked_at: 2020-02-02", "expires: 2020-02-02"])
def test_a_triple_without_permission_is_shown_without_its_content(team, project, end):
    allow(team)
    team.add("a", source="customer", customer="acme", question="What is a zephyr?")
    review(team.root, "a", "ben", "overstated", note="The zephyr does not.")
    path = team.root / "permissions" / "acme.yaml"
    path.write_text(f"{path.read_text()}{end}\n")
    for command in (["list", "--json"], ["list"], ["log", "a", "--json"], ["log", "a"], ["next", "--json"]):
        shown = project("gold", *command, "--as", "cleo")
        assert (shown.code, "zephyr" in shown.out) == (0, False)
    listed = project("gold", "list", "--json").document["entries"][0]
    assert (listed["id"], listed["state"]) == ("a", "revoked")


@pytest.mark.parametrize("name", ["permissions/acme.yaml", "events/a/x.yaml", "slices/x.yml", "set.yaml"])
def test_pipes_in_a_set_are_refused(team, name):
    """Reading or writing one would wait for another process."""
    team.accept("a")
    path = team.root / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises(InvalidInput, match="not a regular file") as refused:
        raise InvalidInput(gold.lint(team.root).problems)
    assert str(path) in str(refused.value)
    if "slices" not in name and "events" not in name:
        with pytest.raises(InvalidInput, match="not a regular file"):
            allow(team)
