"""The protocol: who may do what to a triple, and what its state is then."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.base.errors import InvalidInput
from evalspec.curation.gold.files import render_yaml, to_plain, write_record
from evalspec.curation.gold.gold_set import open_set, read_entry
from evalspec.curation.gold.linting import lint
from evalspec.curation.gold.protocol import add_triple, assign, resolve, retire, review, revise_triple
from evalspec.curation.gold.reviewers import describe_missing, list_reviewable
from evalspec.curation.gold.schema import DisputeOutcome, Event, Flag, Kind
from evalspec.curation.gold.states import compute_review_status
from gold_sets import PEOPLE, accept, make_set, make_triple

HASH = "0" * 32
CONFIRM, FLAG = (Kind.CONFIRM, None), (Kind.FLAG, Flag.OVERSTATED)
UPHELD, DROPPED, SPLIT = (
    (Kind.RESOLVE, outcome) for outcome in (DisputeOutcome.UPHELD, DisputeOutcome.DROPPED, DisputeOutcome.SPLIT)
)
RULED, RULED_OUT = (Kind.ADJUDICATE, DisputeOutcome.UPHELD), (Kind.ADJUDICATE, DisputeOutcome.DROPPED)


def event(by, kind, verdict=None, revision=1, content_hash=HASH):
    more: dict[str, Any] = {"to": "ben"} if kind is Kind.ASSIGN else {}
    more |= {"settles": {"ben": [Flag.OVERSTATED]}} if verdict is DisputeOutcome.UPHELD else {}
    return Event(
        kind=kind, revision=revision, content_hash=content_hash, by=by, at="2026-01-01", verdict=verdict, **more
    )


@pytest.mark.parametrize(
    ("said", "state", "resolution"),
    [
        ([], "pending", None),
        ([("ben", CONFIRM)], "pending", None),
        ([("ben", CONFIRM), ("cleo", CONFIRM)], "accepted", "consensus"),
        ([("ben", FLAG)], "disputed", None),
        ([("ben", FLAG), ("cleo", CONFIRM)], "disputed", None),
        ([("ben", FLAG), ("cleo", FLAG)], "dropped", "two flags"),
        ([("ben", CONFIRM), ("cleo", CONFIRM), ("dan", FLAG)], "disputed", None),
        ([("ben", FLAG), ("cleo", CONFIRM), ("ada", UPHELD)], "disputed", None),
        ([("ben", FLAG), ("cleo", CONFIRM), ("ben", UPHELD)], "disputed", None),
        ([("ben", FLAG), ("cleo", CONFIRM), ("ada", UPHELD), ("ben", UPHELD)], "accepted", "upheld"),
        ([("ben", FLAG), ("ada", UPHELD), ("ben", UPHELD)], "pending", None),
        ([("ben", FLAG), ("ada", DROPPED)], "dropped", "dropped"),
        ([("ben", FLAG), ("ben", SPLIT)], "dropped", "split"),
        ([("ben", FLAG), ("cleo", CONFIRM), ("dan", RULED)], "accepted", "adjudicated"),
        ([("ben", FLAG), ("cleo", CONFIRM), ("dan", RULED_OUT)], "dropped", "adjudicated"),
        ([("ben", FLAG), ("cleo", FLAG), ("dan", RULED)], "disputed", None),
        ([("ben", CONFIRM), ("ben", FLAG)], "disputed", None),
        ([("ben", CONFIRM), ("cleo", CONFIRM), ("dan", (Kind.STALE, None))], "stale", None),
        ([("ben", CONFIRM), ("cleo", CONFIRM), ("ada", (Kind.RETIRE, None))], "retired", "retired"),
        ([("ben", CONFIRM), ("cleo", CONFIRM), ("ada", (Kind.REVOKE, None))], "revoked", "revoked"),
        # What breaks a rule does not count.
        ([("ada", CONFIRM), ("cleo", CONFIRM)], "pending", None),
        ([("eve", CONFIRM), ("cleo", CONFIRM)], "pending", None),
        ([("ben", FLAG), ("cleo", CONFIRM), ("cleo", UPHELD)], "disputed", None),
        ([("ben", FLAG), ("cleo", CONFIRM), ("ada", RULED)], "disputed", None),
        ([("ben", CONFIRM), ("cleo", CONFIRM), ("dan", RULED_OUT)], "accepted", "consensus"),
    ],
)
def test_what_people_say_decides_the_state(said, state, resolution):
    events = [event("ada", Kind.ADD), *(event(by, *what) for by, what in said)]
    for order in (events, events[::-1]):
        review_status = compute_review_status(order, HASH, PEOPLE)
        assert (review_status.state, review_status.resolution) == (state, resolution)


def test_a_merge_of_equal_edits_has_two_writers_who_cannot_review_it():
    written = [event("ada", Kind.ADD), event("ben", Kind.REVISE, revision=2), event("cleo", Kind.REVISE, revision=2)]
    confirmed = [event(who, Kind.CONFIRM, revision=2) for who in ("ben", "cleo")]
    review_status = compute_review_status([*written, *confirmed], HASH, PEOPLE)
    assert (review_status.state, len(review_status.faults)) == ("pending", 2)


KINDS = [CONFIRM, FLAG, UPHELD, DROPPED, RULED, RULED_OUT, (Kind.STALE, None), (Kind.ASSIGN, None)]
EVENTS = st.builds(
    lambda by, what, revision, content: event(by, what[0], what[1], revision, content * 32),
    st.sampled_from([*PEOPLE, "eve"]),
    st.sampled_from(KINDS),
    st.integers(1, 3),
    st.sampled_from("0001"),
)
WRITTEN = [event("ada", Kind.ADD), event("ben", Kind.REVISE, revision=2)]


@given(st.lists(EVENTS, max_size=8), st.sampled_from([WRITTEN[:1], WRITTEN, []]), st.randoms())
def test_the_order_of_events_does_not_matter(events, written, random):
    one = [*written, *events]
    other = random.sample(one, len(one))
    first, second = (compute_review_status(order, HASH, PEOPLE) for order in (one, other))
    assert (first.state, first.resolution, first.revision) == (second.state, second.resolution, second.revision)
    assert {id(fault.event) for fault in first.faults} == {id(fault.event) for fault in second.faults}


@given(st.lists(EVENTS, max_size=8))
def test_nothing_is_accepted_without_two_people_besides_the_author(events):
    review_status = compute_review_status([WRITTEN[0], *events], HASH, PEOPLE)
    if review_status.state == "accepted":
        agreeing = {one.by for one in events if one.revision == 1 and one.content_hash == HASH} & set(PEOPLE)
        assert len(agreeing - {"ada"}) > 1


@pytest.fixture
def root(tmp_path):
    return make_set(tmp_path / "gold" / "help")


def test_a_triple_from_its_author_to_the_set(root):
    added = add_triple(root, "refund", make_triple(), "ada")
    assert (added.state, added.review_status.revision, added.triple.metadata.added_by) == ("pending", 1, "ada")
    assert review(root, "refund", "ben").state == "pending"
    accepted = review(root, "refund", "cleo")
    assert (accepted.state, accepted.review_status.resolution) == ("accepted", "consensus")
    assert accepted.review_status.reviewed_by == ["ben", "cleo"]
    assert [entry.id for entry in open_set(root).list_accepted()] == ["refund"]


def test_a_dispute_ends_in_a_new_revision_whose_reviews_start_again(root):
    add_triple(root, "refund", make_triple(answer="14 days, also for gift cards"), "ada")
    review(root, "refund", "cleo")
    review(root, "refund", "ben", Flag.OVERSTATED, category="compound", note="The block is silent on gift cards.")
    revised = revise_triple(root, "refund", make_triple(), "ada", note="Shortened.")
    assert (revised.state, revised.review_status.revision, revised.review_status.reviewed_by) == ("pending", 2, [])
    assert [one.event.kind for one in revised.events] == ["add", "confirm", "flag", "resolve", "revise"]
    review(root, "refund", "ben")
    assert review(root, "refund", "cleo").state == "accepted"


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (lambda root: review(root, "done", "dan"), "cannot confirm a triple that is accepted"),
        (lambda root: review(root, "new", "ada"), "nobody reviews their own triple"),
        (lambda root: review(root, "new", "ben"), "ben has reviewed revision 1 already (confirm)"),
        (lambda root: review(root, "new", "eve"), "'eve' is not one of the people in set.yaml"),
        (lambda root: review(root, "gone", "ben"), "cannot confirm a triple that is retired"),
        (
            lambda root: resolve(root, "new", "ada", "upheld"),
            "cannot resolve a triple that is pending",
        ),
        (lambda root: resolve(root, "flagged", "dan", "upheld"), "a third person adjudicates only after two reviews"),
        (lambda root: resolve(root, "flagged", "dan", "split"), "a third person upholds or drops"),
        (lambda root: retire(root, "gone", "ada"), "cannot retire a triple that is retired"),
        (
            lambda root: revise_triple(root, "gone", make_triple("New?"), "ada"),
            "cannot revise a triple that is retired",
        ),
        (lambda root: revise_triple(root, "done", make_triple(), "ada"), "so there is nothing to review"),
        (lambda root: add_triple(root, "DONE", make_triple(), "ada"), "the id 'done' is taken"),
        (lambda root: add_triple(root, "../x", make_triple(), "ada"), "cannot be a file name"),
        (lambda root: assign(root, ["new", "done"], "ben", "ada"), "new: ben has reviewed it"),
        (lambda root: review(root, "nwe", "ben"), "there is no triple 'nwe'. did you mean 'new'?"),
    ],
)
def test_what_the_protocol_forbids_is_refused_and_changes_nothing(root, act, reason):
    accept(root, "done")
    add_triple(root, "new", make_triple("Who?"), "ada")
    review(root, "new", "ben")
    add_triple(root, "flagged", make_triple("Where?"), "ada")
    review(root, "flagged", "ben", "wrong_block")
    accept(root, "gone", make_triple("When?"))
    retire(root, "gone", "ada")
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(InvalidInput) as refused:
        act(root)
    assert reason in str(refused.value)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_next_offers_what_was_assigned_then_what_is_nearly_done(root):
    for name in ("a", "b", "c", "own"):
        add_triple(root, name, make_triple(f"{name}?"), "ben" if name == "own" else "ada")
    review(root, "b", "cleo")
    assign(root, ["c"], "ben", "ada")
    assert [entry.id for entry in list_reviewable(open_set(root), "ben")] == ["c", "b", "a"]


def test_what_a_model_wrote_is_for_stress_tests_until_people_confirm_it(root):
    add_triple(root, "made", make_triple(source="synthetic", generated_by="gpt-4o"), "ada")
    assert read_entry(root, "made").is_stress
    review(root, "made", "ben")
    assert review(root, "made", "cleo").is_stress is False
    add_triple(root, "gone", make_triple("Gone?", source="synthetic", generated_by="gpt-4o"), "ada")
    assert retire(root, "gone", "ada").is_stress is False


def test_who_wrote_an_earlier_text_cannot_confirm_what_is_left_of_it(root):
    add_triple(root, "refund", make_triple(), "ada")
    revise_triple(root, "refund", make_triple("How long do refunds take?"), "ben")
    revise_triple(root, "refund", make_triple("How long do refunds take, in days?"), "ada")
    with pytest.raises(InvalidInput, match="nobody reviews their own triple"):
        review(root, "refund", "ben")
    review(root, "refund", "cleo")
    assert review(root, "refund", "dan").state == "accepted"


def test_a_revision_that_nobody_could_review_is_left_to_somebody_who_wrote_the_triple(tmp_path):
    root = make_set(tmp_path / "help", people=("ada", "ben", "cleo"))
    add_triple(root, "refund", make_triple(), "ada")
    review(root, "refund", "ben", Flag.OVERSTATED)
    with pytest.raises(InvalidInput) as refused:
        revise_triple(root, "refund", make_triple(answer="30 days"), "ben")
    assert "only cleo could review a revision by ben, and 2 people have to" in str(refused.value)
    assert "let ada make it, or add a person to set.yaml" in str(refused.value)
    assert read_entry(root, "refund").state == "disputed"
    revise_triple(root, "refund", make_triple(answer="30 days"), "ada")
    review(root, "refund", "ben")
    assert review(root, "refund", "cleo").state == "accepted"


def test_what_is_pending_for_ever_says_so(tmp_path):
    root = make_set(tmp_path / "help", people=("ada", "ben"))
    entry = add_triple(root, "refund", make_triple(), "ada")
    said = "2 more confirmations, but only ben can give one: add people to set.yaml"
    assert describe_missing(entry).startswith(said)
    assert [said in str(warning.message) for warning in lint(root).warnings] == [True]


def test_an_adjudication_settles_the_flags_it_knew(root):
    add_triple(root, "refund", make_triple(), "ada")
    review(root, "refund", "ben", Flag.OVERSTATED)
    review(root, "refund", "cleo")
    decided = resolve(root, "refund", "dan", "upheld", note="The block says so.")
    assert decided.review_status.resolution == "adjudicated"
    assert decided.review_status.current.events[-1].settles == {"ben": ["overstated"]}
    other = event("ben", Kind.FLAG, Flag.WRONG_BLOCK, content_hash=decided.content_hash)  # on another branch
    both = compute_review_status([*(one.event for one in decided.events), other], decided.content_hash, PEOPLE)
    assert both.state == "disputed"
    events = [one.event for one in decided.events]
    later = event("eve", *FLAG, content_hash=decided.content_hash)
    review_status = compute_review_status([*events, later], decided.content_hash, [*PEOPLE, "eve"])
    assert (review_status.state, review_status.current.open_flags) == ("disputed", {"eve"})


def test_a_third_person_learns_nothing_about_reviews_before_theirs(root):
    add_triple(root, "new", make_triple(), "ada")
    add_triple(root, "flagged", make_triple("Where?"), "ada")
    review(root, "flagged", "ben", "wrong_block")
    reasons = set()
    for name in ("new", "flagged"):
        with pytest.raises(InvalidInput) as refused:
            resolve(root, name, "dan", "upheld")
        reasons.add(str(refused.value).replace(name, "ID"))
    assert len(reasons) == 1


def test_a_triple_in_a_file_with_others_is_revised_in_its_place(root):
    add_triple(root, "b", make_triple("B?"), "ada")
    (root / "triples" / "b.yaml").unlink()
    shared = root / "triples" / "shared.yaml"
    both = [{"id": name, **to_plain(make_triple(f"{name}?", added_by="ada"))} for name in ("a", "b")]
    shared.write_text(render_yaml(both))
    assert revise_triple(root, "b", make_triple("Which b?"), "ada").triple.question == "Which b?"
    assert [path.name for path in (root / "triples").iterdir()] == ["shared.yaml"]
    assert {entry.id: entry.triple.question for entry in open_set(root).entries.values()} == {
        "a": "a?",
        "b": "Which b?",
    }


def test_of_two_edits_at_once_none_is_lost(root):
    def outcome(act):
        try:
            return act()
        except InvalidInput as error:
            return str(error)

    with ThreadPoolExecutor() as pool:
        added = [pool.submit(outcome, partial(add_triple, root, "new", make_triple(f"{who}?"), who)) for who in PEOPLE]
        said = [one.result() for one in added]
    assert sum("is taken" in one for one in said if isinstance(one, str)) == len(PEOPLE) - 1
    read = read_entry(root, "new")
    assert len(read.events) == 1
    revise_triple(root, "new", make_triple("First?"), "ada", replaces=read.content_hash)
    with pytest.raises(InvalidInput, match="somebody has revised the triple meanwhile"):
        revise_triple(root, "new", make_triple("Second?"), "ben", replaces=read.content_hash)


def test_lint_names_both_writers_of_merged_edits(root):
    first = add_triple(root, "refund", make_triple(), "ada")
    before = first.path.read_bytes()
    revise_triple(root, "refund", make_triple("How long?"), "ada")
    kept = first.path.read_bytes()
    own = {path: path.read_bytes() for path in (root / "events" / "refund").glob("2-*")}
    for path in own:
        path.unlink()
    first.path.write_bytes(before)
    revise_triple(root, "refund", make_triple("How soon?"), "ben")
    for path, data in own.items():
        path.write_bytes(data)
    first.path.write_bytes(kept)  # as a merge that keeps the side of ada
    checked = lint(root)
    said = [warning.message for warning in checked.warnings if "wrote revision" in warning.message]
    assert (checked.problems, said) == ([], ["ada and ben both wrote revision 2; the file has what ada wrote"])
    assert review(root, "refund", "ben").review_status.reviewed_by == ["ben"]
    first.path.write_bytes(kept.replace(b"How long?", b"How long or soon?"))
    assert ["the content is neither's" in problem.message for problem in lint(root).problems] == [True]


def test_an_edit_by_hand_settles_no_dispute_and_revives_nothing(root):
    add_triple(root, "refund", make_triple(), "ada")
    review(root, "refund", "ben", Flag.OVERSTATED)
    edited = make_triple("Really?", added_by="ada")
    write_record(root / "triples" / "refund.yaml", edited)
    with pytest.raises(InvalidInput, match="only the author and the flagger settle a dispute"):
        revise_triple(root, "refund", edited, "cleo")
    assert [one.event.kind for one in revise_triple(root, "refund", edited, "ada").events][-2:] == ["resolve", "revise"]
    retire(root, "refund", "ada")
    again = make_triple("Once more?", added_by="ada")
    write_record(root / "triples" / "refund.yaml", again)
    with pytest.raises(InvalidInput, match="cannot revise a triple that is retired"):
        revise_triple(root, "refund", again, "ada")


def test_what_one_branch_ended_is_not_revived_by_a_revision_on_another():
    written = [event("ada", Kind.ADD), event("ada", Kind.REVISE, revision=2)]
    confirmed = [event(who, Kind.CONFIRM, revision=2) for who in ("ben", "cleo")]
    for ended, state in (((Kind.RETIRE, None), "retired"), (DROPPED, "dropped")):
        before = [event("ben", *FLAG), event("ada", *ended)]
        assert compute_review_status([*written, *confirmed, *before], HASH, PEOPLE).state == state
    stranger = [event("ben", *FLAG), event("dan", *DROPPED)]
    assert compute_review_status([*written, *confirmed, *stranger], HASH, PEOPLE).state == "accepted"


def test_the_author_is_who_added_the_content_whatever_the_clocks_say():
    added = [event("ben", Kind.ADD, content_hash="1" * 32), event("ada", Kind.ADD)]
    for order in (added, added[::-1]):
        assert compute_review_status(order, HASH, PEOPLE).author == "ada"


def test_a_dispute_names_who_upheld_the_triple(root):
    add_triple(root, "refund", make_triple(), "ada")
    review(root, "refund", "ben", Flag.OVERSTATED)
    assert describe_missing(read_entry(root, "refund")) == "to be settled by ada and ben"
    resolve(root, "refund", "ada", "upheld")
    assert describe_missing(read_entry(root, "refund")) == "to be settled by ada and ben; ada upheld it"


def test_who_adjudicated_does_not_take_it_back_by_a_review(root):
    add_triple(root, "refund", make_triple(), "ada")
    review(root, "refund", "ben", Flag.OVERSTATED)
    review(root, "refund", "cleo")
    resolve(root, "refund", "dan", "upheld", note="The block says so.")
    with pytest.raises(InvalidInput, match="dan adjudicated revision 1"):
        review(root, "refund", "dan", Flag.WRONG_BLOCK)
    assert (read_entry(root, "refund").state, lint(root).problems) == ("accepted", [])


def test_a_flag_takes_back_the_same_persons_confirmation(root):
    add_triple(root, "refund", make_triple(), "ada")
    review(root, "refund", "ben")
    assert review(root, "refund", "ben", Flag.OVERSTATED).state == "disputed"
    with pytest.raises(InvalidInput, match=r"ben has reviewed revision 1 already \(flag\)"):
        review(root, "refund", "ben")
