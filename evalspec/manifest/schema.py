"""The part of an AgentSpec v1 manifest that evalspec reads.

Unknown keys are errors in `spec.evaluation` and `spec.api`, except AgentSpec's own and those that start with `x-`.
Elsewhere they are ignored, because other tools use the manifest too. References ($env:…, $secret:…) are plain text
here; references.py resolves them when a run needs them.

Defaults that are models use `model_construct`, because validating one at import would build its validator.
"""

from typing import Any, Literal

from pydantic import Field, StrictStr, field_validator

from evalspec.manifest.agent_schema import Api
from evalspec.manifest.dataset_schema import DatasetConfig
from evalspec.manifest.fields import Extensible, Lenient, Name
from evalspec.manifest.gate_schema import CiGate
from evalspec.manifest.judge_schema import EmbeddingsConfig, JudgeConfig
from evalspec.manifest.metric_schema import WithThresholds
from evalspec.manifest.retriever_variants import RetrieverVariants


class EvaluationConfig(WithThresholds, Extensible):
    """`spec.evaluation`: datasets, metrics, thresholds, and the judge."""

    framework: StrictStr = "ragas"
    judge: JudgeConfig | None = None
    embeddings: EmbeddingsConfig = EmbeddingsConfig.model_construct()
    retrievers: dict[Name, RetrieverVariants] = Field(
        default_factory=dict,
        description="Retrievers under test, by name. A list as the value of an option is a grid.",
    )
    datasets: list[DatasetConfig] = Field(
        default_factory=list, min_length=1, description="Required to evaluate; a manifest without datasets is valid."
    )
    ci_gate: CiGate = CiGate.model_construct(enabled=False)

    @field_validator("datasets")
    @classmethod
    def _names_differ(cls, datasets: list[DatasetConfig]) -> list[DatasetConfig]:
        names = [dataset.name for dataset in datasets]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"dataset names must be unique; duplicated: {', '.join(twice)}")
        return datasets


class Metadata(Lenient):
    """The agent's name, version and description."""

    name: Name
    version: StrictStr | None = None
    description: StrictStr | None = None


class Spec(Lenient):
    """`spec`. evalspec reads `api` and `evaluation` only."""

    api: Api = Api.model_construct()
    evaluation: EvaluationConfig


class Manifest(Lenient):
    """An agent.yaml file."""

    api_version: Literal["agentspec.io/v1"]
    kind: Literal["AgentSpec"]
    metadata: Metadata
    spec: Spec


def manifest_json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a manifest for editors, including the short forms that validation expands."""
    from evalspec.manifest.retriever_schema import retriever_json_schema

    schema = Manifest.model_json_schema(by_alias=True)
    definitions = schema["$defs"]
    _also(definitions, "MetricEntry", {"type": "string", "minLength": 1})
    _also(definitions, "Limit", {"type": "number"})
    _also(definitions, "CiGate", {"type": "boolean"})
    definitions["Limit"]["anyOf"][1]["properties"].pop("bound")
    retrievers = retriever_json_schema("#/$defs/{model}")
    definitions |= retrievers.pop("$defs")
    definitions["EvaluationConfig"]["properties"]["retrievers"]["additionalProperties"] = retrievers
    for model in ("EvaluationConfig", "DatasetConfig"):
        thresholds = definitions[model]["properties"]["thresholds"]
        limits = thresholds["additionalProperties"]
        thresholds["additionalProperties"] = {"anyOf": [limits["items"], limits]}
    return schema


def _also(definitions: dict[str, Any], name: str, short_form: dict[str, Any]) -> None:
    definitions[name] = {"anyOf": [short_form, definitions[name]]}
