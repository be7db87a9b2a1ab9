"""What the tests of metrics share: a metric's scorer, found and built the way a plan does it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from evalspec.inputs.manifest.metric_spec import parse_metric_spec
from evalspec.model import JudgePrice
from evalspec.scoring.metrics.base import METRICS, BuildContext, Scorer
from servers.scripted_judge import ScriptedJudge

EXAMPLES: dict[type, Any] = {str: "a", list: ["a", "b"], dict: {"type": "object"}}
"""A value for each parameter that has to be given, by type."""


@pytest.fixture(scope="module")
def judge_server() -> Iterator[ScriptedJudge]:
    with ScriptedJudge() as server:
        yield server


@pytest.fixture
def judge(judge_server: ScriptedJudge) -> ScriptedJudge:
    """A scripted judge. The tests of a file share its server, which forgets what earlier tests did."""
    judge_server.mode, judge_server.script, judge_server.embedding_fault, judge_server.delay = "ok", [], None, 0.0
    judge_server.chats.clear()
    judge_server.embeddings.clear()
    judge_server.peak_concurrency = judge_server.gathers = 0
    return judge_server


@pytest.fixture
def build_scorer() -> Callable[[str], Scorer]:
    nobody: Any = None

    def build(name: str) -> Scorer:
        spec = parse_metric_spec(name)
        definition = METRICS.find(spec.base)
        assert definition is not None
        assert definition.build is not None
        required = {one.name: EXAMPLES[one.type] for one in definition.parameters if one.default is UNSET}
        price = JudgePrice(1, 1)
        return definition.build(BuildContext(spec.cutoff, Path(), services=nobody, parameters=required, price=price))

    return build
