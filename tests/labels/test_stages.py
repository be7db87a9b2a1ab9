"""Labels in several sittings: whatever was drawn before, a label of every reply leaves nothing to estimate."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalspec import labels
from evalspec.curation.labels.drawing import LabelDesign, read_replies
from evalspec.curation.labels.drawn_session import DrawnSession
from evalspec.curation.labels.opinions import collect_opinions
from evalspec.model.corrections import DrawKind
from evalspec.runs.store.run_store import RunStore
from evalspec.verdict.correction.people import gather
from labels.conftest import STORE
from labels.stages import Stages

RANDOM, STRATIFIED = DrawKind.RANDOM, DrawKind.STRATIFIED
SITTINGS = st.lists(
    st.one_of(
        st.tuples(st.just("judge"), st.integers(0, 12)),
        st.tuples(st.just("random"), st.integers(1, 15)),
        st.tuples(st.just("stratified"), st.integers(20, 30)),
        st.tuples(st.just("new"), st.integers(1, 15)),
    ),
    max_size=6,
)


@settings(max_examples=40, deadline=None)
@given(SITTINGS, st.integers(0, 99))
def test_labels_of_all_replies_have_the_mean_of_people(sittings, seed):
    made = Stages(40, seed)
    for number, (kind, count) in enumerate([*sittings, ("new", 40)]):
        if kind == "judge":
            made.judge(count)
        else:
            made.sit(RANDOM if kind == "random" else STRATIFIED, count, seed=number, is_new=kind == "new")
    found = made.estimate()
    assert len(made.labels) == 40
    assert found.value == pytest.approx(made.mean, abs=1e-12)
    assert (found.missing, found.ends) == (0, (found.value, found.value))


@pytest.fixture
def many(labelled):
    """Sixty replies, of which the metric passes the first twenty. People differ among the others."""
    labelled.project.evaluation["datasets"] = []
    labelled.project.samples(60, "many", metrics=("string_match",))
    labelled.replies = {f"s{n}": "Paris" if n < 20 else f"Rome {n}" for n in range(60)}
    labelled.run()
    return labelled


def sit(count, by="ada", **design):
    """Label the next replies that are drawn, as people see them, and return how many there were."""
    opened = labels.LabelledRun(RunStore(STORE), "latest")
    session = DrawnSession(opened, by, LabelDesign("string_match", **design))
    for done in range(count):
        if (case := session.open()) is None:
            return done
        session.record(case, "rated", value=says(case.sample))
    return count


def says(id):
    return float(int(id[1:]) < 15 or int(id[1:]) % 2)


def look():
    """What people say about the latest run, and the estimate from it."""
    opened = labels.LabelledRun(RunStore(STORE), "latest")
    (people,) = collect_opinions(opened, opened.files.read_all(), ["string_match"])
    metric = opened.find_metric("many", "string_match")
    return people, gather(read_replies(opened, "many"), metric, people, None).estimate()


def test_a_stratified_draw_that_is_labelled_leaves_nothing_open(many):
    assert sit(99, kind=STRATIFIED, size=40) == 40
    people, found = look()
    assert (len(people.scores), people.unanswered, found.unanswered) == (40, (), 0)


def test_whoever_stops_within_the_strata_leaves_the_rest_open(many):
    sit(32, kind=STRATIFIED, size=40)
    assert 0 < len(look()[0].unanswered) <= 8


def test_new_labels_after_a_random_draw_leave_nothing_open(many):
    sit(20, size=20, seed=3)
    sit(17, kind=STRATIFIED, is_new=True)
    people, found = look()
    assert (len(people.scores), people.unanswered) == (37, ())
    share = {one.id: one.draw.probability for one in people.scores}
    for own in ([id for id in share if int(id[1:]) < 20], [id for id in share if int(id[1:]) >= 20]):
        size = 20 if int(own[0][1:]) < 20 else 40
        assert {share[id] for id in own} == {len(own) / size}, "of equal replies, equal shares were drawn"
    assert found.interval[1] - found.interval[0] < 0.35


def test_a_reply_that_was_skipped_stays_open(many):
    opened = labels.LabelledRun(RunStore(STORE), "latest")
    session = DrawnSession(opened, "ada", LabelDesign("string_match", kind=STRATIFIED, is_new=True))
    skipped = session.open().sample
    session.skip()
    for _ in range(20):
        case = session.open()
        session.record(case, "rated", value=says(case.sample))
    assert look()[0].unanswered == ((skipped, 1),)


def test_a_census_in_sittings_after_a_change_of_the_agent_is_exact(many):
    sit(25, size=25, seed=3)
    many.replies |= {f"s{n}": f"Rome, changed {n}" for n in range(0, 60, 7)}
    many.run()
    widths = []
    while sit(12, kind=STRATIFIED, is_new=True):
        people, found = look()
        widths.append(found.interval[1] - found.interval[0])
        many.rescore()
    people, found = look()
    assert (len(people.scores), people.unanswered, found.missing) == (60, (), 0)
    assert found.value == pytest.approx(sum(map(says, many.replies)) / 60, abs=1e-12)
    assert widths == sorted(widths, reverse=True), "more labels narrow the interval"


def test_the_same_reply_to_another_question_is_another_one(many):
    many.project.evaluation["datasets"] = []
    rows = [{"id": f"s{n}", "input": "Where?" if n < 5 else "?", "expected": "Paris"} for n in range(60)]
    many.project.dataset("many", rows, metrics=["string_match"])
    many.run()
    sit(60, size=60)
    many.project.evaluation["datasets"] = []
    many.project.dataset("many", [{**row, "input": "?"} for row in rows], metrics=["string_match"])
    many.run()
    people, found = look()
    assert (len(people.scores), len(people.unchanged), found.missing) == (55, 55, 5)
