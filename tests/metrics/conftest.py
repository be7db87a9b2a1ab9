"""What the tests of metrics share: a metric's scorer, found and built the way a plan does it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from evalspec.manifest.metric_spec import parse_metric_spec
from evalspec.manifest.schema import MetricEntry
from evalspec.metrics.base import METRICS, BuildContext, Scorer


@pytest.fixture
def build_scorer() -> Callable[[str], Scorer]:
    def build(name: str) -> Scorer:
        spec = parse_metric_spec(name)
        context = BuildContext(MetricEntry(name=name), spec.cutoff, Path(), services=None)
        return METRICS.find(spec.base).build(context)

    return build
