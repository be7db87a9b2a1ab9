"""The part of an AgentSpec v1 manifest that evalspec reads. Everything else in the file is accepted and left alone.

Inside `spec.evaluation` and `spec.api.chatEndpoint` unknown keys are errors; around them they are not, because a
manifest also serves other tools. Values that may be references ($env:…, $secret:…) stay text here; they are resolved
when a run needs them (references.py).
"""

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictStr, field_validator, model_validator
from pydantic.alias_generators import to_camel

from evalspec.manifest.fields import (
    Confidence,
    Count,
    Drop,
    Lenient,
    Mode,
    ModuleObject,
    Name,
    Number,
    Positive,
    Seconds,
    Share,
    Strict,
)
from evalspec.manifest.retriever_schema import RetrieverVariants, retriever_json_schema

DEFAULT_JUDGE_MODEL = "gpt-4o-mini"
DEFAULT_JUDGE_URL = "https://api.openai.com/v1"


class ResponseMapping(Strict):
    """JSONPath queries (RFC 9535) that find the parts of the agent's reply."""

    answer: Name
    contexts: Name | None = None
    context_ids: Name | None = None
    tool_calls: Name | None = None
    usage: Name | None = None
    finish_reason: Name | None = None


class ChatEndpoint(Strict):
    """How a sample becomes a request and the reply an answer."""

    path: StrictStr = "/v1/chat"
    protocol: Literal["openai-compatible", "custom"] | None = None
    model: Name | None = Field(None, description="The model named in an openai-compatible request.")
    headers: dict[str, StrictStr] = Field(default_factory=dict)
    request: Any = Field(
        None, description="JSON template of a custom request; {{input}} and {{messages}} are replaced."
    )
    response: ResponseMapping | None = None
    streaming: StrictBool | None = Field(None, description="Ask an openai-compatible agent for a streamed reply.")
    timeout_seconds: Seconds = 30.0
    max_retries: Count = 2
    session_mode: Literal["stateful", "stateless"] | None = Field(None, description="AgentSpec's; not used.")
    thread_id_header: StrictStr | None = Field(None, description="AgentSpec's; not used.")

    @model_validator(mode="after")
    def _custom_needs_its_templates(self) -> "ChatEndpoint":
        if self.protocol == "custom" and (self.request is None or self.response is None):
            raise ValueError("protocol custom needs both a request template and a response mapping")
        if self.request is not None and self.protocol != "custom":
            raise ValueError("a request template is used by protocol custom only; set protocol: custom")
        return self


class Api(Lenient):
    """Where the agent is and how it is started."""

    url: StrictStr | None = None
    command: list[StrictStr] | None = Field(None, min_length=1)
    reuse: Literal["auto", True, False] = Field(
        "auto", description="Ask what already answers at the url instead of starting `command`; auto: not in CI."
    )
    ready_path: StrictStr | None = None
    ready_timeout_seconds: Seconds = 60.0
    chat_endpoint: ChatEndpoint = ChatEndpoint()


class JudgeConfig(Strict):
    """An OpenAI-compatible chat endpoint that grades."""

    model: Name = DEFAULT_JUDGE_MODEL
    base_url: Name = DEFAULT_JUDGE_URL
    api_key: StrictStr | None = None
    temperature: Annotated[float, Field(strict=True, ge=0, le=2)] = 0.0
    max_tokens: Positive = 4096
    timeout_seconds: Seconds = 60.0
    max_retries: Count = 2
    concurrency: Positive = 8


class EmbeddingsConfig(Strict):
    """What turns texts into vectors: the built-in static model, or an OpenAI-compatible endpoint."""

    provider: Literal["local", "openai-compatible"] = "local"
    model: Name | None = None
    base_url: Name = DEFAULT_JUDGE_URL
    api_key: StrictStr | None = None
    timeout_seconds: Seconds = 60.0
    max_retries: Count = 2

    @model_validator(mode="after")
    def _endpoint_needs_a_model(self) -> "EmbeddingsConfig":
        if self.provider == "openai-compatible" and self.model is None:
            raise ValueError("provider openai-compatible needs a model")
        return self


class MetricEntry(Strict):
    """One metric of a dataset: a name, or an object that says more.

    `reference: expected` (context_recall) takes the gold answer instead of the gold passages. `match: substring`
    (string_match) also accepts an expected text inside a longer word. `rubric` with `labels`
    declares a judged metric, `scorer: module:function` a metric of the user's own.
    """

    name: Name
    reference: Literal["expected", "reference_contexts"] | None = None
    match: Literal["word", "substring"] = "word"
    rubric: Name | None = None
    labels: dict[StrictStr, Number] | None = Field(None, min_length=2)
    scorer: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")] | None = None
    direction: Literal["higher", "lower"] | None = None
    range: tuple[Number, Number] | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_kind(self) -> "MetricEntry":
        if self.rubric and self.scorer:
            raise ValueError("a metric has a rubric or a scorer, not both")
        if bool(self.rubric) != bool(self.labels):
            raise ValueError("a rubric needs labels and labels need a rubric, as in labels: {good: 1, bad: 0}")
        if self.range and self.range[0] >= self.range[1]:
            raise ValueError("range must be [lowest, highest]")
        if (self.range or self.direction) and not (self.rubric or self.scorer):
            raise ValueError("direction and range belong to a metric of your own (rubric or scorer)")
        return self


class Limit(Strict):
    """One limit on one metric. `bound` is a bare number: its side follows from the metric's direction."""

    bound: Number | None = None
    min: Number | None = None
    max: Number | None = None
    slice: Name | None = None
    stat: Literal["mean", "median", "min", "max", "p50", "p90", "p95", "p99"] | None = None
    confidence: Confidence | None = Field(
        None, description="Of this limit instead of the gate's; null: the value alone counts."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_number(cls, value: Any) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return {"bound": value}
        if not isinstance(value, dict):
            raise ValueError(f"{value!r} is not a threshold; write a number, {{min: 0.8}} or {{max: 0.1}}")  # noqa: TRY004
        empty = [key for key in ("min", "max", "slice", "stat") if key in value and value[key] is None]
        if empty:
            raise ValueError(f"{' and '.join(empty)} has no value; give one, or remove the key")
        return value

    @model_validator(mode="after")
    def _says_something(self) -> "Limit":
        if self.bound is None and self.min is None and self.max is None:
            raise ValueError("a threshold needs min or max")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("min is above max: nothing can pass")
        return self


class WithThresholds(Strict):
    """Metrics and thresholds, which a dataset and the whole evaluation both may state."""

    metrics: list[MetricEntry] | None = Field(None, min_length=1)
    thresholds: dict[StrictStr, Annotated[list[Limit], Field(min_length=1)]] = Field(default_factory=dict)

    @field_validator("thresholds", mode="before")
    @classmethod
    def _each_a_list(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {metric: given if isinstance(given, list) else [given] for metric, given in value.items()}


class DatasetConfig(WithThresholds):
    """One dataset: its file, its metrics (else the evaluation's), its own thresholds (win over the evaluation's)."""

    name: Name
    path: Name
    format: Name | None = Field(None, description="The file's format; told by its content where not given.")
    corpus: Name | None = Field(None, description="The documents' own file, where the format has one.")
    k: Annotated[list[Positive], Field(min_length=1)] | None = Field(
        None, description="Cut-offs: a retrieval metric named without @k is computed at each of them."
    )
    min_grade: Positive = Field(1, description="The lowest grade that counts as relevant.")
    compat: Name | None = Field(
        None, description="Compute retrieval metrics by that system's formulas instead of trec_eval's."
    )
    retrieval_gt_1d: Literal["and", "or"] | None = Field(
        None,
        alias="retrievalGt1d",
        description="AutoRAG: whether a flat list of ids means all of them, or any.",
    )
    empty_qrels: Literal["notApplicable", "zero"] = Field(
        "notApplicable", description="What a query without relevant documents is to the mean of a retrieval metric."
    )
    slices: list[Name] | None = Field(
        None,
        description="Metadata keys (or `tags`) by whose values results are shown as well; tags and every key with few "
        "values where not given, none for an empty list.",
    )
    retriever: Name | None = Field(
        None, description="Ask this retriever (a name in `retrievers`) instead of the agent; see --retriever."
    )
    mode: Mode | None = Field(None, description="Whether the retriever's hits are reranked by it.")
    top_k: Positive | None = Field(None, description="How many distinct documents the retriever ranks.")
    rerank_top_k: Positive | None = Field(
        None, description="How many documents are reranked; 3 x topK where not given."
    )
    scope_prefix: Name | None = Field(
        None, description="Where the documents are put, searched and deleted, like eval:my-dataset:"
    )
    filters: dict[StrictStr, Any] = Field(
        default_factory=dict, description="What a search is narrowed down by, as the retriever understands it."
    )
    loader: ModuleObject | None = Field(
        None, description="module:function that is given a document's loaderRef and returns its text."
    )
    cluster: Name | None = Field(
        None,
        description="Metadata key of samples that belong together (one document, one conversation): intervals and "
        "tests then count the clusters, not the samples, as independent.",
    )


class CiGate(Strict):
    """When the exit code speaks, and how much must have been measured for it to say PASS."""

    enabled: StrictBool = True
    min_coverage: Share = 1.0
    max_error_rate: Share = 0.0
    max_not_applicable: Share = Field(
        0.1,
        description="Share of a limit's scores that may be not applicable because of the reply or the judge; where it "
        "is above 0, those of one sample always may.",
    )
    min_samples: Positive = 1
    min_pass_rate: Share | None = Field(
        None, description="Share of its attempts in which every single sample must pass (see --repeat)."
    )
    confidence: Confidence | None = Field(
        None, description="Hold the worse end of the interval at this confidence against each limit, not the value."
    )
    baseline: Name | None = Field(None, description="What the run must not fall behind: a promoted name, or a file.")
    max_drop: Drop | Annotated[dict[StrictStr, Drop], Field(min_length=1)] = Field(
        0.0,
        description="By how much a metric may be worse than the baseline: one number for every metric from 0 to 1, or "
        "a number for each metric.",
    )
    regression: Literal["drop", "notWorse"] = Field(
        "drop",
        description="What breaks the comparison with the baseline: a drop beyond maxDrop and noise; or, with notWorse, "
        "everything but a run that excludes a drop of maxDrop.",
    )
    alpha: Confidence | None = Field(
        0.05, description="A drop counts when chance explains it with less than this probability; null: any does."
    )
    new_failures: Count | None = Field(
        None, description="How many samples may fail that passed in the baseline; null: any number."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_bool(cls, value: Any) -> Any:
        return {"enabled": value} if isinstance(value, bool) else value

    @model_validator(mode="after")
    def _drops_are_from_something(self) -> "CiGate":
        named = ("max_drop", "alpha", "new_failures", "regression")
        idle = [to_camel(name) for name in named if name in self.model_fields_set]
        if idle and self.baseline is None:
            raise ValueError(f"{' and '.join(idle)} compare with a baseline; name one, as in baseline: main")
        return self

    @model_validator(mode="after")
    def _not_worse_has_a_margin(self) -> "CiGate":
        if self.regression != "notWorse":
            return self
        drops = self.max_drop.values() if isinstance(self.max_drop, dict) else [self.max_drop]
        if not drops or min(drops) <= 0:
            raise ValueError("regression: notWorse needs a maxDrop above 0 that is to be excluded, as in maxDrop: 0.02")
        if self.alpha is None:
            raise ValueError("regression: notWorse needs alpha; remove alpha: null")
        return self


class EvaluationConfig(WithThresholds):
    """`spec.evaluation`: what is measured, on what, and what is good enough."""

    framework: StrictStr = "ragas"
    judge: JudgeConfig | None = None
    embeddings: EmbeddingsConfig = EmbeddingsConfig()
    retrievers: dict[Name, RetrieverVariants] = Field(
        default_factory=dict, description="Retrievers under test, by name; a list for one of its numbers is a grid."
    )
    datasets: list[DatasetConfig] = Field(min_length=1)
    ci_gate: CiGate = CiGate(enabled=False)

    @field_validator("datasets")
    @classmethod
    def _names_differ(cls, datasets: list[DatasetConfig]) -> list[DatasetConfig]:
        names = [dataset.name for dataset in datasets]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"dataset names must differ; given twice: {', '.join(twice)}")
        return datasets


class Metadata(Lenient):
    """Who the agent is."""

    name: Name
    version: StrictStr | None = None
    description: StrictStr | None = None


class Spec(Lenient):
    """`spec`: evalspec reads `api` and `evaluation`."""

    api: Api = Api()
    evaluation: EvaluationConfig


class Manifest(Lenient):
    """A whole agent.yaml."""

    api_version: Literal["agentspec.io/v1"]
    kind: Literal["AgentSpec"]
    metadata: Metadata
    spec: Spec


def manifest_json_schema() -> dict[str, Any]:
    """JSON Schema of a manifest for editors, with the short forms that validation turns into long ones."""
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
