"""Labels by HTTP: the labeller is the user of the token, and nobody sees others' labels before their own."""

import pytest
import yaml

import evalspec
from evalspec import labels
from evalspec.api.erasure import erase
from evalspec.curation.labels.cases import LabelledRun
from evalspec.curation.labels.drawing import LabelDesign
from evalspec.curation.labels.drawn_session import DrawnSession
from evalspec.curation.labels.files import LabelFiles
from evalspec.curation.labels.judged_run import CaseFilter
from evalspec.curation.labels.measuring import compute_label_stats
from evalspec.inputs.datasets.selection import parse_selection
from evalspec.runs.store.run_store import RunStore
from evalspec.service.indexed_run import IndexedRun
from evalspec.service.sample_index import write_sample_index
from evalspec.service.tokens import Scope, create_token
from servers.scripted_judge import ScriptedJudge

ADA, BEN = "ada@example.com", "ben@example.com"


@pytest.fixture
def run(add_run):
    return add_run().id


@pytest.fixture
def ask(client, engine, run):
    """A function that sends requests about the labels of the run as somebody with a scope."""

    def send(user, method, path="", scope=Scope.REVIEW, **more):
        token = create_token(engine, user, [scope], ["shop"], 60)
        headers = {"Authorization": f"Bearer {token}"}
        return client.request(method, f"/v1/runs/{run}/labels{path}", headers=headers, **more)

    return send


def say(ask, user, sample, verdict, status=201, **more):
    answer = ask(user, "POST", json={"sample": sample, "verdict": verdict, **more})
    assert answer.status_code == status, answer.text
    return answer.json()


def listed(ask, user, **query):
    found = ask(user, "GET", params=query).json()
    return [(one["sample"], one["metric"], one["verdict"], one["labeller"]) for one in found["labels"]], found["hidden"]


def test_people_label_blindly_and_see_others_labels_on_what_they_have_labelled(ask, run, projects):
    made = say(ask, ADA, "s0", "good", note="Right.")
    assert (made["labeller"], made["run"], made["isInformed"], made["note"]) == (ADA, run, False, "Right.")
    say(ask, ADA, "s1", "agree", metric="exact_match")
    assert listed(ask, BEN) == ([], 2)
    say(ask, BEN, "s0", "bad")
    assert listed(ask, BEN) == ([("s0", None, "good", ADA), ("s0", None, "bad", BEN)], 1)
    assert say(ask, BEN, "s0", "good")["isInformed"] is True
    assert listed(ask, BEN, labeller=BEN, history=True) == ([("s0", None, "bad", BEN), ("s0", None, "good", BEN)], 1)
    stored = labels.list_labels(run, store=projects["shop"] / ".evalspec")
    assert [(one.sample, one.labeller) for one in stored] == [("s0", ADA), ("s1", ADA), ("s0", BEN)]
    stats = ask(BEN, "GET", "/stats", Scope.READ).json()
    assert (stats["labellers"], stats["replies"][0]["good"]["value"]) == ({ADA: 1, BEN: 1}, 1.0)
    assert stats["replies"][0]["agreement"][0]["value"] == 0.0, "the blind labels differ"
    assert ask(BEN, "DELETE", params={"sample": "s0"}).status_code == 204
    assert listed(ask, BEN) == ([], 2)


def test_agreement_shows_no_label_that_the_caller_may_not_see(ask, run):
    say(ask, ADA, "s0", "bad")
    say(ask, ADA, "s1", "disagree", metric="exact_match", value=0)
    hidden = ask(BEN, "GET", "/stats").json()
    assert (hidden["hidden"], hidden["labellers"], hidden["replies"], hidden["metrics"]) == (2, {}, [], [])
    refused = ask(BEN, "GET", "/stats?everything=true")
    assert (refused.status_code, "needs the scope run" in refused.json()["detail"]) == (403, True)
    counted = ask(BEN, "GET", "/stats?everything=true", Scope.RUN).json()
    assert (counted["hidden"], counted["labellers"]) == (0, {ADA: 2})
    say(ask, BEN, "s0", "good")
    shown = ask(BEN, "GET", "/stats").json()
    assert (shown["hidden"], shown["labellers"], shown["metrics"]) == (1, {ADA: 1, BEN: 1}, [])
    ask(BEN, "DELETE", params={"sample": "s0"})
    assert say(ask, BEN, "s0", "bad")["isInformed"] is True, "BEN has seen what ADA says"
    assert ask(BEN, "GET", "/stats").json()["replies"][0]["agreement"][0]["value"] is None


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_pages_have_every_label_once(ask, run, projects):
    for number in range(6):
        labels.label(run, f"s{number}", "good", by=ADA, store=projects["shop"] / ".evalspec")
    seen, cursor = [], None
    while True:
        found = ask(ADA, "GET", params={"limit": 4, **({"cursor": cursor} if cursor else {})}).json()
        seen += [one["sample"] for one in found["labels"]]
        cursor = found["next_cursor"]
        if cursor is None:
            break
    assert seen == [f"s{number}" for number in range(6)]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_refusals(ask, run):
    def post(user=ADA, scope=Scope.REVIEW, **body):
        return ask(user, "POST", scope=scope, json=body)

    cases = [
        (post(sample="s9", verdict="good"), 404, f"run {run} has no sample 's9'"),
        (post(sample="s0", verdict="good", dataset="other"), 404, "has no dataset 'other'"),
        (post(sample="s0", verdict="agree", metric="other"), 404, "has no metric 'other'"),
        (post(sample="s0", verdict="good", attempt=2), 404, "has no attempt 2"),
        (post(sample="s0", verdict="agree"), 422, "a reply cannot be 'agree'"),
        (post(sample="s0", verdict="disagree", metric="exact_match", value=7), 422, "value: 7 is outside 0 to 1"),
        (post(sample="s0", verdict="good", note="\x1b[2J"), 422, "note: has a control character"),
        (post(sample="s0", verdict="good", reply_digest="0"), 409, "the run has another reply by now"),
        (post(sample="s0", verdict="withdrawn"), 422, "verdict"),
        (post(scope=Scope.RUN, sample="s0", verdict="good"), 403, "this needs the scope review"),
        (ask(ADA, "DELETE", params={"sample": "s0"}), 422, "has no label on 's0'"),
        (ask(ADA, "GET", "/export"), 403, "this needs the scope run"),
        (ask(ADA, "POST", "/import", content=b"{"), 422, "labels.jsonl:1"),
        (ask(ADA, "POST", "/import?form=csv", content=b"run\n" * 6000), 422, "more than 5,000 lines"),
    ]
    for answer, status, words in cases:
        assert answer.status_code == status, answer.text
        assert words in answer.json()["detail"], answer.text
    assert listed(ask, ADA) == ([], 0)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_an_export_is_imported_by_its_labeller_or_an_admin(ask, run, projects, form):
    say(ask, ADA, "s0", "disagree", metric="exact_match", value=0.5, note='=1+1 "é"')
    say(ask, BEN, "s0", "good")
    exported = ask("cleo", "GET", f"/export?form={form}", Scope.RUN)
    assert exported.headers["Content-Disposition"] == f'attachment; filename="{run}.labels.{form}"'
    for path in (projects["shop"] / ".evalspec" / "verdicts" / run).iterdir():
        path.unlink()
    refused = ask(BEN, "POST", f"/import?form={form}", content=exported.content)
    assert (refused.status_code, f"'{ADA}' is somebody else" in refused.json()["detail"]) == (422, True)
    assert listed(ask, ADA) == ([], 0)
    done = ask("root", "POST", f"/import?form={form}", Scope.ADMIN, content=exported.content)
    assert done.json() == {"added": 2, "known": 0}
    assert ask("root", "POST", f"/import?form={form}", Scope.ADMIN, content=exported.content).json()["known"] == 2
    assert ask("cleo", "GET", f"/export?form={form}", Scope.RUN).content == exported.content
    other = exported.text.replace(run, "20261121T061500.000Z-00000000")
    refused = ask("root", "POST", f"/import?form={form}", Scope.ADMIN, content=other.encode())
    assert (refused.status_code, "is another run" in refused.json()["detail"]) == (422, True)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_erasure_removes_the_words_of_labels_at_once(client, ask, run, projects):
    say(ask, ADA, "s0", "good", note="Ask Eve Example.")
    say(ask, ADA, "s1", "bad")
    assert "Eve Example" in ask(ADA, "GET").text
    done = client.post("/v1/erasure", json={"texts": ["Eve Example"]})
    assert done.json()["labels"] == {run: 1}
    assert "Eve" not in ask(ADA, "GET").text
    assert "Eve" not in ask("root", "GET", "/export", Scope.ADMIN).text
    assert listed(ask, ADA)[0] == [("s0", None, "good", ADA), ("s1", None, "bad", ADA)]
    erase(projects["shop"], samples=[("qa", "s0")])
    answer = ask(ADA, "POST", json={"sample": "s0", "verdict": "bad"})
    assert (answer.status_code, "was erased" in answer.json()["detail"]) == (404, True)
    assert ask(ADA, "GET", "/stats").json()["labellers"] == {ADA: 2}


FILTERS = [
    CaseFilter(),
    CaseFilter("exact_match"),
    CaseFilter(failed=True),
    CaseFilter("rouge", beyond=True),
    CaseFilter("cites", ("answers",), parse_selection(tags=("refunds",), where=["level=1"])),
    CaseFilter("nDCG@5", (), parse_selection(size=3, seed=7)),
]


def test_the_index_of_a_large_run_gives_what_the_files_of_a_run_give(tmp_path):
    from service.pages.shops import run_shop, write_shop

    folder = write_shop(tmp_path / "shop")
    store = RunStore(folder / ".evalspec")
    first = run_shop(folder, repeat=2).id
    erase(folder, samples=[("answers", "refunds-8")])
    for sample, metric, verdict in (
        ("refunds-0", None, "bad"),
        ("shipping-1", "rouge", "agree"),
        ("q-1", "RR", "agree"),
    ):
        labels.label(first, sample, verdict, by=ADA, metric=metric, store=store.root)
        labels.label(first, sample, verdict, by=BEN, metric=metric, store=store.root)
    second = run_shop(folder, wrong=5).id
    labels.label(second, "shipping-1", "good", by=ADA, store=store.root)
    for run in (first, second):
        write_sample_index(store.runs / run)
        known, indexed = LabelledRun(store, run), IndexedRun(store.runs / run, LabelFiles(store.root))
        for wanted in FILTERS:
            targets = known.list_targets(wanted)
            assert indexed.list_targets(wanted) == targets
            for target in targets[::5]:
                assert indexed.read_case(target) == known.read_case(target)
        for target in (("answers", "refunds-8", 1, None), ("answers", "billing-7", 1, None), ("answers", "x", 1, None)):
            assert indexed.read_case(target) == known.read_case(target)
        every = known.files.read_all()
        assert compute_label_stats(indexed, every) == compute_label_stats(known, every)
        assert compute_label_stats(indexed, every).labellers


def test_a_score_of_ones_own_by_draw_or_by_the_callers_word(ask, run):
    rated = {"metric": "exact_match", "value": 1}
    drawn = {"random": 1, "seed": 4}
    answers = [ask(ADA, "POST", json={"sample": f"s{n}", "verdict": "rated", **rated, **drawn}) for n in range(6)]
    (made,) = [one.json() for one in answers if one.status_code == 201]
    assert (made["isBlind"], made["draw"]["kind"], made["draw"]["seed"], made["shownValue"]) == (
        True,
        "random",
        4,
        None,
    )
    assert {one.status_code for one in answers} == {201, 422}
    others = [one for one in ("s0", "s1") if one != made["sample"]]
    chosen = say(
        ask, BEN, others[0], "rated", is_blind=True, metric="exact_match", answers=[{"question": "?", "value": 0}]
    )
    assert (chosen["value"], chosen["isBlind"], chosen["draw"]["kind"]) == (0.0, True, "chosen")
    assert "needs a value" in say(ask, BEN, others[0], "disagree", 422, metric="exact_match")["detail"]
    assert "needs a value" in say(ask, BEN, others[0], "rated", 422, metric="exact_match")["detail"]
    assert "not possible" in say(
        ask, BEN, others[0], "rated", 422, metric="exact_match", answers=[{"question": "?", "value": 3}]
    )["detail"]  # fmt: skip


def test_the_calibration_of_a_judge_is_that_of_the_command_line(client, engine, projects):
    folder = projects["shop"]
    rows = [f'{{"id": "s{n}", "input": "Q {n}?", "response": "R {n} [grade: {grade(n)}]"}}\n' for n in range(24)]
    (folder / "judged.jsonl").write_text("".join(rows))
    manifest = yaml.safe_load((folder / "agent.yaml").read_text())
    tone = {"name": "tone", "rubric": "Is it kind?", "labels": {"kind": 1, "rude": 0}}
    with ScriptedJudge() as judge:
        manifest["spec"]["evaluation"] = {
            "judge": {"model": "m", "baseUrl": judge.url, "apiKey": "k"},
            "datasets": [{"name": "talk", "path": "$file:judged.jsonl", "metrics": [tone]}],
            "ciGate": {"enabled": False, "judge": {"controls": False}},
        }
        (folder / "judged.yaml").write_text(yaml.safe_dump(manifest))
        run = evalspec.evaluate(folder / "judged.yaml", responses="same", store=folder / ".evalspec")
    headers = {"Authorization": f"Bearer {create_token(engine, ADA, [Scope.RUN], ['shop'], 60)}"}
    path = f"runs/{run.id}/labels/calibration"
    refused = client.get(f"/v1/{path}", headers=headers)
    assert (refused.status_code, "no blind random labels" in refused.text) == (404, True)
    page = client.get(f"/{path}", headers={**headers, "Accept": "text/html"})
    assert (page.status_code, "no blind random labels" in page.text) == (404, True)
    session = DrawnSession(LabelledRun(RunStore(folder / ".evalspec"), run.id), ADA, LabelDesign("tone", size=24))
    while (case := session.open()) is not None:
        session.record(case, "rated", value=float(int(case.sample[1:]) < 18))
    found = client.get(f"/v1/{path}", headers=headers).json()["metrics"][0]
    assert found["confusion"] == {**found["confusion"], "bothPass": 16, "bothFail": 6, "onlyPeoplePass": 2}
    page = client.get(f"/{path}", headers={**headers, "Accept": "text/html"})
    assert all(word in page.text for word in ("sensitivity", "89 %", "s16", "s17")), page.text
    reader = {"Authorization": f"Bearer {create_token(engine, BEN, [Scope.REVIEW], ['shop'], 60)}"}
    assert client.get(f"/v1/{path}", headers=reader).status_code == 403, "it would end blind labelling"


def grade(n):
    return "kind" if n < 16 else "rude"
