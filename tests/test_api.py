"""The library: the commands as functions, in scripts, notebooks and tests."""

import asyncio
import inspect
import json
import subprocess
import sys
import threading
import traceback
from pathlib import Path

import pytest

import evalspec
from evalspec.api import public as api
from evalspec.base.errors import EvalspecError, InvalidInput
from evalspec.reports.base import reporter_for

CAPITALS = {"France": "Paris", "Norway": "Oslo", "Peru": "Lima"}


@pytest.fixture
def qa(project):
    """A project without a url, whose dataset asks for three capitals."""
    lines = [{"id": place, "input": f"Capital of {place}?", "expected": city} for place, city in CAPITALS.items()]
    project.dataset("qa", lines, metrics=["string_match"])
    project.evaluation |= {"thresholds": {"string_match": 0.9}, "ciGate": True}
    project.write()
    return project


def answer(question):
    return next(city for place, city in CAPITALS.items() if place in question)


async def answer_later(question):
    await asyncio.sleep(0)
    return {"response": answer(question), "retrieved_context_ids": ("d1",), "retrieved_contexts": ["…"]}


class Answerer:
    def __call__(self, question):
        return answer_later(question)


@pytest.mark.parametrize("agent", [answer, answer_later, Answerer()], ids=["sync", "async", "object"])
def test_a_function_is_evaluated_and_nothing_is_printed(qa, agent):
    steps = []
    run = api.evaluate("agent.yaml", agent=agent, progress=steps.append)
    assert (run.verdict, run.exit_code, run.datasets[0].metrics["string_match"].value) == ("PASS", 0, 1.0)
    assert (steps[-1].asked, steps[-1].scored, steps[-1].total) == (3, 3, 3)
    assert qa.capsys.readouterr() == ("", "")
    stored = json.loads(next((qa.folder / ".evalspec" / "runs").glob("2*/report.json")).read_text())
    assert (stored["runId"], stored["verdict"]) == (run.id, run.verdict)
    named = agent if inspect.isfunction(agent) else type(agent)
    assert run.fingerprint.agent.function == f"{named.__module__}:{named.__qualname__}"


def test_a_broken_limit_is_a_verdict_and_no_exception(qa):
    run = api.evaluate("agent.yaml", agent=lambda question: "Rome")
    assert (run.verdict, run.exit_code) == ("FAIL", 1)
    assert "string_match" in run.reasons[0]


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (7, "is a value of type int; expected text, or a dict"),
        ({"reply": "x"}, "it has no key `response` (keys: reply)"),
        ({}, "response"),
        ({"response": object()}, "is not accepted here"),
        (ValueError("no luck"), "raised ValueError: no luck"),
    ],
)
def test_what_a_function_does_wrong_is_a_failed_reply(qa, returned, said):
    def agent(_question):
        if isinstance(returned, Exception):
            raise returned
        return returned

    run = api.evaluate("agent.yaml", agent=agent)
    assert run.verdict == "INCOMPLETE"
    assert {sample.status for sample in run.datasets[0].samples} == {"failed"}
    assert said in run.datasets[0].samples[0].error


def test_a_function_that_hangs_is_left_after_the_timeout(qa):
    run = api.evaluate("agent.yaml", agent=lambda question: asyncio.sleep(60), timeout=0.05)
    assert "took longer than 0.05 s" in run.datasets[0].samples[0].error


def test_inside_an_event_loop(qa):
    async def notebook():
        return await api.aevaluate("agent.yaml", agent=answer_later), api.evaluate("agent.yaml", agent=answer)

    assert [run.datasets[0].metrics["string_match"].value for run in asyncio.run(notebook())] == [1.0, 1.0]
    assert not any(thread.name == "evalspec" for thread in threading.enumerate())


def test_a_conversation_arrives_as_messages(project):
    said = (("user", "Hi"), ("assistant", "Yes?"), ("user", "?"))
    turns = [{"role": role, "content": content} for role, content in said]
    project.dataset("qa", [{"input": turns, "expected": "3"}], metrics=["string_match"])
    project.write()
    run = api.evaluate("agent.yaml", agent=lambda messages: str(len(messages)) if messages == turns else "no")
    assert run.datasets[0].metrics["string_match"].value == 1.0


def test_errors_are_exceptions_without_secrets(qa, monkeypatch):
    monkeypatch.setenv("TOKEN", "hush-hush-hush")
    qa.api = {"url": "$env:TOKEN"}
    qa.write()
    with pytest.raises(InvalidInput) as caught:
        api.evaluate("agent.yaml")
    assert "hush" not in str(caught.value) and "[redacted:env:TOKEN]" in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__suppress_context__
    with pytest.raises(EvalspecError, match="no dataset is named 'rag'"):
        api.evaluate("agent.yaml", agent=answer, datasets=["rag"])
    with pytest.raises(InvalidInput, match=r"judge\.temperature"):
        api.evaluate("agent.yaml", agent=answer, judge={"temperature": 9})
    with pytest.raises(TypeError):
        api.evaluate("agent.yaml", agent=answer, sample_sizes=3)  # type: ignore[call-arg]


def test_a_run_is_loaded_scored_again_and_compared(qa):
    before = api.evaluate("agent.yaml", agent=answer)
    after = api.evaluate("agent.yaml", agent=lambda question: "Rome")
    assert api.load_run("latest") == api.load_run(after.id) == after
    again = api.rescore(before.id, "agent.yaml")
    assert again.fingerprint.rescored_from == before.id
    assert again.datasets[0].metrics["string_match"].value == 1.0
    for pair in ((before, after), (before.id, after.id)):
        (candidate,) = api.compare(*pair).candidates
        change = next(one for one in candidate.changes if one.metric == "string_match")
        assert change.delta == -1.0
    with pytest.raises(InvalidInput):
        api.load_run("nobody")


def test_validate_and_plan_ask_nobody(qa):
    found = api.validate("agent.yaml", agent=answer)
    assert (found.is_valid, found.samples) == (True, {"qa": 3})
    (qa.folder / "qa.jsonl").write_text('{"input": 7}\n')
    assert next(problem.line for problem in api.validate("agent.yaml").problems) == 1
    with pytest.raises(InvalidInput):
        api.plan("agent.yaml")


def test_score_is_that_of_the_command(project):
    (project.folder / "qrels.txt").write_text("q1 0 a 1\nq1 0 b 0\nq2 0 c 2\n")
    (project.folder / "run.txt").write_text("q1 Q0 b 1 2 t\nq1 Q0 a 2 1 t\nq2 Q0 c 1 1 t\n")
    run = api.score("qrels.txt", "run.txt", metrics=["nDCG"], cutoffs=[1, 10])
    told = project("score", "qrels.txt", "run.txt", "-m", "nDCG", "--k", "1,10", "--json").document
    assert {name: found.value for name, found in run.datasets[0].metrics.items()} == {
        name: found["value"] for name, found in told["datasets"][0]["metrics"].items()
    }
    with pytest.raises(InvalidInput, match="unknown metric"):
        api.score("qrels.txt", "run.txt", metrics=["nGDC"])


def test_convert(qa):
    with pytest.raises(InvalidInput, match="triples cannot hold"):
        api.convert("qa.jsonl", "out.yaml", to="triples")
    (qa.folder / "qa.jsonl").write_text('{"id": "s", "input": "?", "expected": "!", "relevant": {"d": 2}}\n')
    done = api.convert("qa.jsonl", "out", to="trec", lossy=True)
    assert (done.source_format, done.target_format, done.samples, bool(done.losses)) == ("jsonl", "trec", 1, True)
    with pytest.raises(InvalidInput, match="already exists"):
        api.convert("qa.jsonl", "out", to="trec", lossy=True)


def test_a_run_shows_itself_in_a_notebook(qa):
    run = api.evaluate("agent.yaml", agent=lambda question: "<script>")
    page = run._repr_html_()
    assert "<b>FAIL</b>" in page and "string_match" in page and "<script>" not in page
    polars = pytest.importorskip("polars")
    frame = run.to_frame("polars")
    assert isinstance(frame, polars.DataFrame)
    assert frame["string_match"].to_list() == [0.0, 0.0, 0.0]


def test_a_reply_is_checked_in_any_test():
    limits = {"string_match": 1, "Recall@2": 0.5}
    reply = {"response": "It is Paris.", "retrieved_context_ids": ["d2", "d1"]}
    scores = evalspec.check(reply, input="Capital of France?", expected="Paris", relevant=["d1"], metrics=limits)
    assert {metric: score.value for metric, score in scores.items() if metric in limits} == {
        "string_match": 1.0,
        "Recall@2": 1.0,
    }
    with pytest.raises(evalspec.CheckFailed) as caught:
        evalspec.check("It is Rome.\x1b[2J", input="Capital of France?", expected="Paris", metrics={"string_match": 1})
    lines = str(caught.value).splitlines()
    assert lines[:3] == [
        "string_match is 0, expected at least 1",
        "question: Capital of France?",
        "expected: Paris",
    ]
    assert lines[3].startswith("got:      It is Rome.") and "\x1b" not in str(caught.value)
    assert caught.value.scores["string_match"].value == 0.0


@pytest.mark.parametrize("agent", [answer, answer_later], ids=["sync", "async"])
def test_an_agent_is_asked_and_checked_also_in_async_tests(agent):
    async def test():
        asked = {"input": "Capital of Peru?", "expected": "Lima", "agent": agent, "metrics": {"string_match": 1}}
        return await evalspec.acheck(**asked), evalspec.check(**asked)

    assert all(scores["string_match"].value == 1.0 for scores in asyncio.run(test()))
    with pytest.raises(evalspec.CheckFailed, match="StopIteration"):
        evalspec.check(input="Capital of Mars?", agent=agent, metrics={"string_match": 1}, expected="x")


def test_what_cannot_be_checked():
    with pytest.raises(InvalidInput, match="either `response` or `agent`"):
        evalspec.check(input="?", metrics={"string_match": 1})
    with pytest.raises(InvalidInput, match="strin_match"):
        evalspec.check("a", input="?", metrics={"strin_match": 1})
    with pytest.raises(InvalidInput, match="relevant"):
        evalspec.check("a", input="?", metrics={"Recall@1": 1})


def test_every_public_name_is_there_and_nothing_heavy_is_imported_for_them():
    assert all(getattr(evalspec, name) is not None for name in evalspec.__all__)
    program = "import evalspec, sys; dir(evalspec); print({'msgspec', 'pydantic', 'httpx', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
    with pytest.raises(AttributeError, match="no attribute 'evaluat'"):
        evalspec.evaluat  # noqa: B018


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"agent": "my_agent"}, "agent: str is not callable. pass a function"),
        ({"sample_size": "5"}, "sample_size: Input should be a valid integer"),
        ({"sample_size": 0}, "sample_size: Input should be greater than or equal to 1"),
        ({"timeout": -1}, "timeout: Input should be greater than 0"),
        ({"mode": "rerank"}, "mode: Input should be"),
    ],
)
def test_a_wrong_argument_is_one_line(qa, options, said):
    with pytest.raises(InvalidInput) as caught:
        api.evaluate("agent.yaml", **{"agent": str, **options})
    (problem,) = caught.value.problems
    assert said in problem.render()


def test_an_unknown_argument_is_a_type_error_with_the_nearest_name(qa):
    with pytest.raises(TypeError, match="'dataset'; did you mean 'datasets'"):
        api.evaluate("agent.yaml", dataset="qa")  # type: ignore[call-arg]
    assert list(api.validate("agent.yaml", datasets="qa").samples) == ["qa"]
    with pytest.raises(InvalidInput, match="nothing to compare"):
        api.compare("latest")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"metrics": {"strng_match": 1}}, "metrics[0]: unknown metric 'strng_match'"),
        ({"metrics": ["string_match"]}, "metrics: a mapping from metrics to limits is required"),
        ({"metrics": {}}, "metrics: a mapping from metrics to limits is required"),
        ({"response": {"reply": "Paris"}}, "response is a dict that cannot be used: it has no key `response`"),
        ({"agent": str}, "give either `response` or `agent`"),
    ],
)
def test_a_wrong_check_names_its_own_argument(arguments, said):
    with pytest.raises(InvalidInput) as caught:
        evalspec.check(
            **{"response": "Paris", "input": "Capital?", "expected": "Paris", "metrics": {"string_match": 1}}
            | arguments
        )
    assert said in str(caught.value)
    assert "/tmp" not in str(caught.value) and "check.yaml" not in str(caught.value)


def test_a_run_is_shown_in_a_line(qa):
    run = api.evaluate("agent.yaml", agent=lambda question: "Paris")
    assert repr(run) == f"<Run {run.id}: {run.verdict}, qa (3)>"


def read_all(folder):
    """Return the text of all stored files."""
    return "".join(file.read_bytes().decode(errors="replace") for file in folder.rglob("*") if file.is_file())


def test_a_secret_of_the_manifest_is_redacted_also_if_the_run_does_not_need_it(qa, monkeypatch):
    secrets = {"TOKEN": "hush-hush-hush", "AGENTSPEC_SECRET_DB": "quiet-quiet", "KEY": "silence-silence"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    headers = {"Authorization": "Bearer ${env:TOKEN}", "X-Db": "$secret:db", "X-Unset": "$env:UNSET"}
    qa.api = {"url": "http://127.0.0.1:9", "chatEndpoint": {"path": "/", "headers": headers}}
    qa.write()

    def agent(question):
        raise ValueError(" ".join(secrets.values()))

    run = api.evaluate("agent.yaml", agent=agent, judge={"apiKey": "$env:KEY"})
    said = run.datasets[0].samples[0].error
    assert "[redacted:env:TOKEN] [redacted:secret:db] [redacted:env:KEY]" in said
    assert not [value for value in secrets.values() if value in read_all(qa.folder / ".evalspec")]


def test_a_refused_judge_shows_no_key_in_a_traceback(qa):
    judge = dict.fromkeys(("apiKey", "bogus"), "hush")
    with pytest.raises(InvalidInput, match=r"judge\.bogus") as caught:
        api.evaluate("agent.yaml", agent=answer, judge=judge)
    assert "hush" not in "".join(traceback.format_exception(caught.value))


def test_userinfo_of_urls_is_not_stored_and_not_shown(qa, agent):
    qa.evaluation["datasets"][0]["metrics"].append({"name": "tone", "rubric": "Polite?", "labels": {"yes": 1, "no": 0}})
    qa.write()
    url = agent.url.replace("//", "//user:hush-hush@")
    run = api.evaluate("agent.yaml", url=url, judge={"baseUrl": f"{url}/v1", "maxRetries": 0})
    assert run.fingerprint.agent.url.startswith(agent.url)
    assert run.fingerprint.judge.base_url == f"{agent.url}/v1"
    done = qa("evaluate", "agent.yaml", "--url", url, "--no-judge")
    assert "hush" not in done.out + done.err + read_all(qa.folder / ".evalspec")
    assert "hush" not in qa("evaluate", "agent.yaml", "--url", f"{url}:99999").err


@pytest.mark.parametrize("levels", [600, 100_000])
def test_deep_metadata_is_refused_with_its_line(qa, levels):
    deep = b"[" * levels + b"]" * levels
    (qa.folder / "qa.jsonl").write_bytes(b'{"input": "?", "expected": "!", "metadata": {"x": ' + deep + b"}}\n")
    (problem,) = api.validate("agent.yaml").problems
    assert (problem.file, problem.line) == ("qa.jsonl", 1) and "nested too deeply" in problem.message
    for function in (api.evaluate, api.plan):
        with pytest.raises(InvalidInput, match="nested too deeply"):
            function("agent.yaml", url="http://127.0.0.1:9")


@pytest.mark.parametrize("part", ["evidence", "reason"])
@pytest.mark.parametrize("value", ["object()", "{1, 2}", "{'x': float('nan')}", "nest()"])
def test_a_score_that_cannot_be_stored_fails_alone(qa, part, value):
    nest = "def nest():\n    value = []\n    value.append(value)\n    return value\n"
    scorer = f"def score(exchange):\n    return Score.scored(0.5, {part}={value})\n"
    (qa.folder / "own_scorer.py").write_text(f"from evalspec.model import Score\n{nest}{scorer}")
    qa.evaluation["datasets"][0]["metrics"] = ["string_match", {"name": "own", "scorer": "own_scorer:score"}]
    qa.write()
    run = api.evaluate("agent.yaml", agent=answer)
    scores = run.datasets[0].samples[0].scores
    assert scores["string_match"].value == 1.0 and scores["own"].status == "failed"
    assert part in scores["own"].reason


@pytest.mark.parametrize(
    ("function", "arguments", "said"),
    [
        (api.compare, {"alpha": 2}, "alpha: "),
        (api.compare, {"alpha": float("nan")}, "alpha: "),
        (api.compare, {"alpha": 0}, "alpha: "),
        (api.compare, {"resamples": 0}, "resamples: "),
        (api.score, {"cutoffs": [0]}, "cutoffs: "),
        (api.score, {"cutoffs": [-1]}, "cutoffs: "),
        (api.score, {"min_grade": -5}, "min_grade: "),
        (api.score, {"empty_qrels": "zz"}, "empty_qrels: "),
        (api.convert, {"retrieval_gt_1d": "bad", "to": "jsonl"}, "retrieval_gt_1d: "),
        (api.rescore, {"judge_repeat": 0}, "judge_repeat: "),
    ],
)
def test_a_wrong_argument_of_the_others_is_one_line(project, function, arguments, said):
    with pytest.raises(InvalidInput) as caught:
        function("a", "b", **arguments)
    (problem,) = caught.value.problems
    assert problem.render().startswith(said) and "\n" not in problem.render()


def test_a_wrong_manifest_or_judge(qa):
    with pytest.raises(InvalidInput, match="judge: "):
        api.evaluate("agent.yaml", agent=answer, judge="gpt")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="NUL"):
        api.evaluate("a\0b", agent=answer)
    with pytest.raises(TypeError):
        api.evaluate(None, agent=answer)


def test_impossible_token_counts_are_unknown(qa):
    usage = {"input_tokens": 10**400, "output_tokens": 1}
    run = api.evaluate("agent.yaml", agent=lambda question: {"response": "x", "usage": usage})
    assert "usage" in run.datasets[0].samples[0].error


def test_a_report_whose_agent_is_no_mapping_is_refused(qa):
    api.evaluate("agent.yaml", agent=answer)
    report = json.loads(next(qa.folder.rglob("report.json")).read_text())
    for key in ("agent", "manifest"):
        edited = report | {"fingerprint": report["fingerprint"] | {key: "x"}}
        (qa.folder / "edited.json").write_text(json.dumps(edited))
        with pytest.raises(InvalidInput, match=f"fingerprint.{key}"):
            api.load_run("edited.json")


def test_a_slice_without_metrics_is_shown(project):
    project.samples(3, tags=["easy"])
    project.evaluation["datasets"][0]["slices"] = ["tags"]
    project.write()
    api.evaluate("agent.yaml", agent=lambda question: "Paris")
    file = next(project.folder.rglob("report.json"))
    report = json.loads(file.read_text())
    assert report["datasets"][0]["slices"]
    report["datasets"][0]["slices"][0]["metrics"] = {}
    (project.folder / "edited.json").write_text(json.dumps(report))
    run = api.load_run("edited.json")
    for name in ("report.md", "report.html"):
        assert "easy" in reporter_for(Path(name)).render(run, lambda: iter(()))
