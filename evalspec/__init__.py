"""evalspec, pytest for RAG agents: numbers that can be trusted and a CI verdict that cannot lie.

    import evalspec

    run = evalspec.evaluate("agent.yaml", datasets=["rag-quality"], agent=my_agent)
    assert run.verdict == "PASS", run.reasons

Each function does what the command of the same name does. Names are imported on first use.
"""

TYPE_CHECKING = False  # importing typing would take as long as starting Python
if TYPE_CHECKING:
    from typing import Any

    from evalspec.api.checking import CheckFailed, acheck, check
    from evalspec.api.merging import merge
    from evalspec.api.public import (
        aevaluate,
        compare,
        convert,
        evaluate,
        load_run,
        plan,
        rescore,
        score,
        validate,
    )
    from evalspec.api.trace_check import check_traces
    from evalspec.base.errors import (
        AgentDown,
        EvalspecError,
        InvalidInput,
        MetricError,
        Problem,
        StoreError,
        Unmeasurable,
    )
    from evalspec.curation import gold as gold
    from evalspec.curation import labels as labels
    from evalspec.model import Cause, Direction, Exchange, Need, Run, Score
    from evalspec.scoring.metrics.base import METRICS
    from evalspec.scoring.metrics.functions import metric

__version__ = "0.1.0"

__all__ = [
    "METRICS",
    "AgentDown",
    "Cause",
    "CheckFailed",
    "Direction",
    "EvalspecError",
    "Exchange",
    "InvalidInput",
    "MetricError",
    "Need",
    "Problem",
    "Run",
    "Score",
    "StoreError",
    "Unmeasurable",
    "__version__",
    "acheck",
    "aevaluate",
    "check",
    "check_traces",
    "compare",
    "convert",
    "evaluate",
    "load_run",
    "merge",
    "metric",
    "plan",
    "rescore",
    "score",
    "validate",
]
_ELSEWHERE = {
    "METRICS": "evalspec.scoring.metrics.base",
    "merge": "evalspec.api.merging",
    "metric": "evalspec.scoring.metrics.functions",
    **dict.fromkeys(("Cause", "Direction", "Exchange", "Need", "Run", "Score"), "evalspec.model"),
    "check_traces": "evalspec.api.trace_check",
    **dict.fromkeys(("CheckFailed", "acheck", "check"), "evalspec.api.checking"),
}


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    if name in ("gold", "labels"):
        return import_module(f"evalspec.curation.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'evalspec' has no attribute '{name}'")
    place = _ELSEWHERE.get(name, "evalspec.base.errors" if name[0].isupper() else "evalspec.api.public")
    return getattr(import_module(place), name)


def __dir__() -> list[str]:
    return __all__
