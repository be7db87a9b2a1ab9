"""The part of an AgentSpec v1 manifest that evalspec reads.

Unknown keys are errors in `spec.evaluation` and `spec.api`, except AgentSpec's own and those that start with `x-`.
Elsewhere they are ignored, because other tools use the manifest too. References ($env:…, $secret:…) are plain text
here; references.py resolves them when a run needs them.

Defaults that are models use `model_construct`, because validating one at import would build its validator.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StrictStr, field_validator

from evalspec.inputs.manifest.agent_schema import Api
from evalspec.inputs.manifest.dataset_schema import DatasetConfig
from evalspec.inputs.manifest.environment_schema import EnvironmentConfig
from evalspec.inputs.manifest.export_schema import ExportConfig
from evalspec.inputs.manifest.fields import (
    Count,
    Extensible,
    Lenient,
    ManifestModel,
    Name,
    RetrieverVariants,
    UntitledKeys,
)
from evalspec.inputs.manifest.gate_schema import CiGate
from evalspec.inputs.manifest.judge_schema import Amount, EmbeddingsConfig, JudgeConfig, LimitsConfig, UserConfig
from evalspec.inputs.manifest.metric_schema import WithThresholds


class RunConfig(ManifestModel):
    """Where attempts are worked on. Nothing here changes a score."""

    on: Annotated[StrictStr, Field(pattern=r"^(here|ray(:(\[[\da-fA-F:]+\]|[^\s:]+):\d{1,5})?)$")] = Field(
        "here",
        description="here: in this process. ray: on a Ray of this machine that ends with the run. ray:HOST:PORT: on a "
        "running Ray.",
    )
    nodes: Count | None = Field(None, description="Processes that ask and score. Default: one for each free processor.")
    cpus: Amount = Field(1, gt=0, description="Processors that Ray reserves for each of them.")
    memory_mb: Count | None = Field(None, description="Memory that Ray reserves for each of them, in MiB.")
    agent: Literal["shared", "per-node"] = Field(
        "shared",
        description="shared: all nodes ask the agent at `url`. per-node: each starts `command` on a free port, which "
        "takes the place of {{port}} in it.",
    )


class EvaluationConfig(WithThresholds, Extensible):
    """What to measure and what to require: datasets, metrics, thresholds, the judge and the gate."""

    framework: StrictStr = Field(
        "ragas",
        description="What computes the judged metrics. Any other value produces a warning, and ragas computes them.",
    )
    judge: JudgeConfig | None = None
    user: UserConfig | None = None
    embeddings: EmbeddingsConfig = EmbeddingsConfig.model_construct()
    limits: LimitsConfig = LimitsConfig.model_construct()
    run: RunConfig = RunConfig.model_construct()
    retrievers: dict[Name, RetrieverVariants] = Field(
        default_factory=dict,
        description="Retrievers under test, by name. A list as the value of an option is a grid.",
    )
    datasets: list[DatasetConfig] = Field(
        default_factory=list, min_length=1, description="Required to evaluate; a manifest without datasets is valid."
    )
    environment: EnvironmentConfig | None = Field(
        None, description="The world that the agent acts on: how to reset it, and how to see what became of it."
    )
    tools: Name | list[Name | dict[StrictStr, Any]] | dict[Name, dict[StrictStr, Any]] | None = Field(
        None,
        description="All tools that the agent has: declarations, `$file:` with a list of them, or a mapping by name. "
        "With `result` or `python`, evalspec answers the calls of a bare model.",
    )
    exports: dict[Name, ExportConfig] = Field(
        default_factory=dict,
        description="Where `--export NAME` sends results, by name of the exporter. Nothing is sent without the option.",
    )
    ci_gate: CiGate = Field(
        CiGate.model_construct(enabled=False),
        description="Whether and how results decide the exit code: true, false, or a mapping with the rules. "
        "Default: false.",
    )

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

    name: Name = Field(description="Name of the agent in reports.", examples=["my-agent"])
    version: StrictStr | None = Field(None, description="Version of the agent, recorded with each run.")
    description: StrictStr | None = Field(None, description="What the agent does; not used.")


class Spec(Lenient):
    """The agent and its evaluation. Keys other than `api`, `evaluation` and `tools` are ignored."""

    api: Api = Api.model_construct()
    evaluation: EvaluationConfig = Field(examples=[{"datasets": [{"name": "core", "path": "evals/core.jsonl"}]}])
    tools: Any = Field(None, description="AgentSpec's tools: only their names and hints are read.")


class Manifest(Lenient):
    """An agent.yaml file."""

    api_version: Literal["agentspec.io/v1"] = Field(description="The version of AgentSpec.")
    kind: Literal["AgentSpec"] = Field(description="The kind of manifest.")
    metadata: Metadata
    spec: Spec


def manifest_json_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a manifest, including the short forms that validation expands.

    `parameters`: the schemas of the parameters of metrics, by name. A metric of the project may have others.
    """
    from evalspec.inputs.manifest.retriever_schema import retriever_json_schema

    schema = Manifest.model_json_schema(by_alias=True, schema_generator=UntitledKeys)
    definitions = schema["$defs"]
    _also(definitions, "MetricEntry", {"type": "string", "minLength": 1})
    definitions["MetricEntry"]["anyOf"][1]["properties"] |= parameters
    definitions["MetricEntry"]["anyOf"][1]["additionalProperties"] = {
        "type": ["string", "number", "boolean", "array", "object"]
    }
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
    whole = definitions[name]
    definitions[name] = {"description": whole.pop("description"), "anyOf": [short_form, whole]}
