"""What a run was made of, so that it can be compared, resumed and doubted: goes to run.json."""

import hashlib
import platform
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from evalspec import __version__
from evalspec.judge.parameters import compute_effective_parameters
from evalspec.plan.build import Plan

_ENGINES = ("ragas", "wordllama", "sacrebleu", "rapidfuzz")


def compute_fingerprint(plan: Plan, started: datetime) -> dict[str, Any]:
    """Manifest, datasets, selection, agent, judge and versions; JSON-ready, references resolved but to be redacted."""
    options = plan.options
    return {
        "startedAt": started.isoformat(timespec="seconds"),
        "manifest": {"path": str(plan.loaded.path), "sha256": _sha256(plan.loaded.path.read_bytes())},
        "agent": {"name": plan.loaded.manifest.metadata.name, "url": plan.target.url if plan.target else None},
        "responses": str(options.responses) if options.responses else None,
        "datasets": [
            {
                "name": dataset.name,
                "file": dataset.file,
                "sha256": dataset.sha256,
                "available": dataset.available,
                "selected": len(dataset.samples),
                "selectionSha256": _sha256(
                    "\n".join(sample.id for sample in dataset.samples).encode("utf-8", "replace")
                ),
                "metrics": [metric.name for metric in dataset.metrics],
            }
            for dataset in plan.datasets
        ],
        "selection": {
            "sampleSize": options.sample_size,
            "seed": options.seed,
            "tags": list(options.tags),
            "excludeTags": list(options.exclude_tags),
        },
        "judge": _judge(plan),
        "embeddings": plan.loaded.manifest.spec.evaluation.embeddings.model_dump(
            by_alias=True, include={"provider", "model", "base_url"}
        ),
        "versions": {"evalspec": __version__, "python": platform.python_version(), **_engines()},
    }


def _judge(plan: Plan) -> dict[str, Any] | None:
    if plan.judge is None:
        return None
    return {"model": plan.judge.model, "baseUrl": plan.judge.base_url, **compute_effective_parameters(plan.judge)}


def _engines() -> dict[str, str]:
    found = {}
    for package in _ENGINES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
