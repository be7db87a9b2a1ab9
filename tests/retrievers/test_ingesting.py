"""Documents in and out of a retriever: what may be deleted, in which order, and what is said when it goes wrong."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.base.errors import InvalidInput, RetrieverError, Unmeasurable
from evalspec.model import Document
from evalspec.model.fingerprints import Cleanup
from evalspec.targets.http.routes import choose_route
from evalspec.targets.retrievers.base import SearchRequest
from evalspec.targets.retrievers.http_target import RemoteRetriever
from evalspec.targets.retrievers.ingest_plan import ask_ingested, check_scope_prefix, list_steps, plan_ingest
from servers.faulty_agent import status
from servers.faulty_retriever import FaultyRetriever, describe_retriever

SCOPE = "eval:faq:"
DOCUMENTS = [Document(f"{SCOPE}{number}", f"text {number}") for number in range(5)]
TLS = choose_route("http://localhost")


@pytest.fixture
def service():
    """A retriever that holds a document of an earlier run and one of somebody else."""
    with FaultyRetriever() as server:
        server.documents = {id: {"id": id, "text": "old"} for id in (f"{SCOPE}old", "docs:theirs")}
        yield server


class Run:
    """One evaluation against a service; what was told and seen stays to be looked at."""

    def __init__(self, service, locks, **plan):
        self.service = service
        self.locks = locks
        self.retriever = RemoteRetriever(describe_retriever(), service.url, TLS)
        options: dict[str, Any] = {"name": "mine", "store": service.url, "queries": 1, "batch_size": 2} | plan
        self.plan = plan_ingest(self.retriever, DOCUMENTS, SCOPE, **options)
        self.told, self.progress, self.seen = [], [], None

    async def ask(self):
        self.seen = sorted(self.service.documents)
        return await self.retriever.search(SearchRequest("text", 3, SCOPE))

    def __call__(self, ask=None, **options):
        async def session():
            try:
                return await ask_ingested(
                    self.plan,
                    self.retriever,
                    ask or self.ask,
                    locks=self.locks,
                    tell=self.told.append,
                    on_progress=lambda done, total: self.progress.append((done, total)),
                    **options,
                )
            finally:
                await self.retriever.aclose()

        return asyncio.run(session())


def left(service):
    return sorted(service.documents)


class TestScopePrefix:
    @pytest.mark.parametrize("prefix", ["eval:faq:", "eval:faq/", "eval:a:b:", "eval:Größe_1.2-x:"])
    def test_evalspecs_own(self, prefix):
        assert check_scope_prefix(prefix) is None

    @pytest.mark.parametrize(
        ("prefix", "says"),
        [
            ("eval:", "covers every evaluation"),
            ("eval::", "covers every evaluation"),
            ("eval:/", "covers every evaluation"),
            ("eval:faq", "does not end in : or /"),
            ("docs:", "does not begin with eval:"),
            ("evals:faq:", "does not begin with eval:"),
            ("Eval:faq:", "does not begin with eval:"),
            (" eval:faq:", "contains ' '"),
            ("eval:faq%:", "contains '%'"),
            ("eval:*:", "contains '*'"),
            ("eval:[a]:", "contains '['"),
            ("eval:^a:", "contains '^'"),
            ("eval:a?:", "contains '?'"),
            ("eval:faq\u200b:", "'eval:faqU+200B:' contains 'U+200B'"),
            ("eval:\u202efaq:", "contains 'U+202E'"),
            ("eval:faq\u00a0:", "contains 'U+00A0'"),
            ("eval:\u3164:", "contains 'U+3164'"),
            ("eval:a\ufe0f:", "contains 'U+FE0F'"),
            ("eval:faq\n:", "contains 'U+000A'"),
            ("eval:../docs:", "has the segment '..'"),
            ("eval:faq/./a/", "has the segment '.'"),
            ("", "it could delete everything"),
            (":", "it could delete everything"),
        ],
    )
    def test_others_are_refused_with_what_to_write(self, prefix, says):
        message, fix = check_scope_prefix(prefix)
        assert says in message
        assert fix

    def test_a_custom_one_where_it_is_allowed(self):
        assert check_scope_prefix("docs:", allow_custom=True) is None
        assert "does not end in" in check_scope_prefix("docs", allow_custom=True)[0]
        assert "covers every evaluation" in check_scope_prefix("eval:", allow_custom=True)[0]
        assert "everything" in check_scope_prefix("//", allow_custom=True)[0]

    @given(st.text(alphabet="eval:/x%* \n", max_size=12), st.booleans())
    def test_what_is_allowed_covers_no_other_evaluation(self, prefix, allow_custom):
        if check_scope_prefix(prefix, allow_custom=allow_custom) is None:
            assert prefix[-1] in ":/"
            assert not "eval:other:".startswith(prefix)
            assert not "docs:theirs".startswith(prefix) or allow_custom


class TestPlan:
    def test_what_would_be_done(self, service, tmp_path):
        plan = Run(service, tmp_path, queries=1200, cleanup=Cleanup.ON_SUCCESS).plan
        assert (len(plan.documents), plan.batches, plan.needs_confirmation) == (5, 3, False)
        assert list_steps(plan) == [
            f"1. delete everything below 'eval:faq:' in mine ({service.url})",
            "2. ingest 5 documents in 3 batches",
            "3. send 1,200 queries",
            "4. delete the documents if the run succeeds",
        ]
        assert service.requests == []

    def test_everything_wrong_is_told_at_once(self):
        bare = RemoteRetriever(describe_retriever(ingest=None), "http://x", TLS)
        with pytest.raises(InvalidInput) as caught:
            plan_ingest(bare, [Document("a"), Document("a")], "eval:", name="mine", store=None, queries=1)
        said = [problem.render() for problem in caught.value.problems]
        assert len(said) == 3
        assert said[0].startswith(
            "the retriever 'mine' does not support ingest, but the dataset has documents. add ingest"
        )
        assert said[1].startswith("documents with duplicate ids: 'a'")
        assert "covers every evaluation" in said[2]

    def test_ids_outside_of_the_scope_where_the_store_knows_nothing_else(self):
        retriever = RemoteRetriever(describe_retriever(), "http://x", TLS)
        foreign = [*DOCUMENTS, *(Document(f"other:{n}") for n in range(5))]
        options: dict[str, Any] = {"name": "mine", "store": None, "queries": 1}
        plan_ingest(retriever, foreign, SCOPE, **options)
        with pytest.raises(InvalidInput, match="'eval:faq:': 'other:0', 'other:1', 'other:2' and 2 more"):
            plan_ingest(retriever, foreign, SCOPE, ids_need_prefix=True, **options)

    def test_nothing_to_ingest_deletes_nothing(self):
        retriever = RemoteRetriever(describe_retriever(), "http://x", TLS)
        with pytest.raises(InvalidInput, match="no documents to ingest"):
            plan_ingest(retriever, [], SCOPE, name="mine", store=None, queries=1)

    def test_a_custom_prefix_has_to_be_confirmed(self):
        retriever = RemoteRetriever(describe_retriever(), "http://x", TLS)
        options: dict[str, Any] = {"name": "mine", "store": None, "queries": 1, "allow_custom_prefix": True}
        assert plan_ingest(retriever, DOCUMENTS, "docs:", **options).needs_confirmation


class TestRun:
    def test_delete_then_batches_then_ask(self, service, tmp_path):
        run = Run(service, tmp_path)
        done = run()
        own = [document.id for document in DOCUMENTS]
        assert run.seen == ["docs:theirs", *own]
        assert run.progress == [(2, 5), (4, 5), (5, 5)]
        assert [len(body["documents"]) for body in service.bodies("ingest")] == [2, 2, 1]
        assert [hit.id for hit in done.result.hits] == own[:3]
        assert (done.unsearchable, done.left_behind, run.told) == ((), None, [])
        assert left(service) == run.seen

    @pytest.mark.parametrize(
        ("cleanup", "success", "deleted"),
        [
            (Cleanup.NONE, True, False),
            (Cleanup.NONE, False, False),
            (Cleanup.ON_SUCCESS, True, True),
            (Cleanup.ON_SUCCESS, False, False),
            (Cleanup.ALWAYS, True, True),
            (Cleanup.ALWAYS, False, True),
        ],
    )
    def test_cleanup_as_told(self, service, tmp_path, cleanup, success, deleted):
        Run(service, tmp_path, cleanup=cleanup)(succeeded=lambda _result: success)
        assert left(service) == (["docs:theirs"] if deleted else ["docs:theirs", *(d.id for d in DOCUMENTS)])

    @pytest.mark.parametrize("error", [ZeroDivisionError("oops"), asyncio.CancelledError(), KeyboardInterrupt()])
    @pytest.mark.parametrize("cleanup", list(Cleanup))
    def test_cleanup_when_asking_fails_or_is_interrupted(self, service, tmp_path, cleanup, error):
        async def ask():
            raise error

        run = Run(service, tmp_path, cleanup=cleanup)
        with pytest.raises(type(error)):
            run(ask)
        always = cleanup is Cleanup.ALWAYS
        assert left(service) == (["docs:theirs"] if always else ["docs:theirs", *(d.id for d in DOCUMENTS)])
        [line] = run.told
        assert ("was deleted" if always else "stay below 'eval:faq:'") in line

    def test_a_delete_that_fails_at_first_stops_before_anything_is_ingested(self, service, tmp_path):
        service.failing_delete = 1
        with pytest.raises(Unmeasurable) as caught:
            Run(service, tmp_path, cleanup=Cleanup.ALWAYS)()
        said = str(caught.value)
        assert "'eval:faq:' of mine was not deleted: delete: " in said
        assert "answered 500 Internal Server Error" in said
        assert "Nothing was ingested or queried" in said
        assert (len(service.requests), left(service)) == (1, ["docs:theirs", f"{SCOPE}old"])

    def test_the_third_delete_is_a_cleanup_that_fails_and_keeps_the_result(self, service, tmp_path):
        service.failing_delete = 3
        Run(service, tmp_path)()
        done = Run(service, tmp_path, cleanup=Cleanup.ON_SUCCESS)()
        assert len(done.result.hits) == 3
        assert done.left_behind.startswith("The cleanup failed: delete: http://")
        assert done.left_behind.endswith("Documents are left below 'eval:faq:'; the next run deletes them")

    @pytest.mark.parametrize(
        ("cleanup", "rest", "says"),
        [
            (Cleanup.NONE, 2, "stay below 'eval:faq:' (cleanup: none); the next run deletes them before it ingests"),
            (Cleanup.ON_SUCCESS, 2, "stay below 'eval:faq:' (cleanup: on-success)"),
            (Cleanup.ALWAYS, 0, "Everything below 'eval:faq:' was deleted (cleanup: always)"),
        ],
    )
    def test_ingest_that_fails_half_way_says_what_is_indexed(self, service, tmp_path, cleanup, rest, says):
        service.script = ["ok", "ok", status(507, body="disk full")]
        run = Run(service, tmp_path, cleanup=cleanup)
        with pytest.raises(Unmeasurable) as caught:
            run()
        said = str(caught.value)
        assert said.startswith("ingest into mine stopped after 2 of 5 documents: ingest: http://")
        assert "the reply says 'disk full'. No query was sent. " in said
        assert says in said
        assert run.seen is None
        assert len(left(service)) == 1 + rest

    def test_a_service_that_dies_during_ingest(self, service, tmp_path):
        service.die_after = 2
        with pytest.raises(Unmeasurable) as caught:
            Run(service, tmp_path, cleanup=Cleanup.ALWAYS)()
        said = str(caught.value)
        assert "stopped after 2 of 5 documents" in said
        assert "The cleanup failed: delete: cannot connect" in said
        assert said.endswith("Documents are left below 'eval:faq:'; the next run deletes them")

    def test_two_runs_on_one_scope(self, service, tmp_path):
        async def ask():
            with pytest.raises(Unmeasurable, match="another run is using 'eval:faq:' of mine"):
                await asyncio.to_thread(Run(service, tmp_path))
            return "asked"

        assert Run(service, tmp_path)(ask).result == "asked"
        assert len(service.bodies("delete")) == 1
        Run(service, tmp_path)()
        assert len(service.bodies("delete")) == 2

    def test_a_lock_that_cannot_be_made(self, service, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(Unmeasurable, match="Nothing was deleted"):
            Run(service, tmp_path / "file")()
        assert service.requests == []

    def test_what_is_missing_is_found_before_anything_is_deleted(self, service, tmp_path, monkeypatch):
        run = Run(service, tmp_path)

        async def prepare(_scope):
            raise RetrieverError("no model")

        monkeypatch.setattr(run.retriever, "prepare", prepare, raising=False)
        with pytest.raises(RetrieverError, match="no model"):
            run()
        assert service.requests == []
