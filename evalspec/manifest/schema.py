"""The part of an AgentSpec v1 manifest that evalspec reads.

Unknown keys are errors in `spec.evaluation` and `spec.api`, except AgentSpec's own and those that start with `x-`.
Elsewhere they are ignored, because other tools use the manifest too. References ($env:…, $secret:…) are plain text
here; references.py resolves them when a run needs them.

Defaults that are models use `model_construct`, because validating one at import would build its validator.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictStr, field_validator, model_validator
from pydantic.alias_generators import to_camel

from evalspec.manifest.fields import (
    Confidence,
    Count,
    Drops,
    Extensible,
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
from evalspec.manifest.judge_schema import EmbeddingsConfig, JudgeConfig
from evalspec.manifest.retriever_variants import RetrieverVariants

_OWN: Any = Field(None, description="Part of AgentSpec; not used.")


class ResponseMapping(Strict):
    """JSONPath queries (RFC 9535) that select the parts of the agent's reply."""

    answer: Name
    contexts: Name | None = None
    context_ids: Name | None = None
    tool_calls: Name | None = None
    usage: Name | None = None
    finish_reason: Name | None = None
    done: Name | None = Field(
        None, description="What the last event of a stream has. A stream without it is incomplete."
    )
    error: Name | None = Field(
        None, description="An error in place of the answer: any value but null, false, 0 and blank."
    )


class ChatEndpoint(Extensible):
    """How to build a request from a sample, and read the answer from the reply."""

    path: StrictStr = "/v1/chat"
    protocol: Name | None = Field(
        None, description="How requests and replies are written. Default: AgentSpec's message, as `agentspec`."
    )
    model: Name | None = Field(None, description="The model to name in the request.")
    parameters: dict[StrictStr, Any] = Field(
        default_factory=dict,
        description="Further keys of each request. Null leaves out a key that evalspec would send.",
    )
    headers: dict[str, StrictStr] = Field(default_factory=dict)
    request: Any = Field(
        None, description="JSON template of a custom request; {{input}} and {{messages}} are replaced."
    )
    response: ResponseMapping | None = None
    streaming: StrictBool | None = Field(None, description="Request a streamed reply.")
    timeout_seconds: Seconds = 30.0
    max_retries: Count = 2
    session_mode: Literal["stateful", "stateless"] | None = _OWN
    thread_id_header: StrictStr | None = _OWN

    @model_validator(mode="after")
    def _custom_needs_its_templates(self) -> "ChatEndpoint":
        if self.protocol == "custom" and (self.request is None or self.response is None):
            raise ValueError("protocol custom needs both a request template and a response mapping; add both")
        if self.request is not None and self.protocol != "custom":
            raise ValueError("a request template is used by protocol custom only; set protocol: custom")
        if self.parameters and self.protocol in (None, "agentspec", "custom"):
            raise ValueError(
                "parameters are added to the requests of a model's protocol; write protocol: openai-compatible"
            )
        return self


class Api(Extensible):
    """The agent's address, and how to start it."""

    url: StrictStr | None = None
    command: list[StrictStr] | None = Field(None, min_length=1)
    python: ModuleObject | None = Field(
        None,
        description="module:object with the agent, beside the manifest: a function, an object or a class. In place of "
        "url.",
    )
    reuse: Literal["auto", True, False] = Field(
        "auto",
        description="Use an agent that already runs at the url instead of starting `command`; auto: not in CI.",
    )
    ready_path: StrictStr | None = None
    ready_timeout_seconds: Seconds = 60.0
    chat_endpoint: ChatEndpoint = ChatEndpoint.model_construct()
    type: Any = _OWN
    port: Any = _OWN
    path_prefix: Any = _OWN
    auth: Any = _OWN
    rate_limit: Any = _OWN
    streaming: Any = _OWN
    health_endpoint: Any = _OWN
    metrics_endpoint: Any = _OWN
    cors_origins: Any = _OWN
    headers: Any = Field(None, description="Not sent, with a warning: write chatEndpoint.headers.")

    @model_validator(mode="after")
    def _one_agent(self) -> "Api":
        idle = [to_camel(name) for name in _OF_A_SERVICE if name in self.model_fields_set]
        if self.python is not None and idle:
            raise ValueError(f"python and {idle[0]} name two agents; remove one of them")
        return self


_OF_A_SERVICE = ("url", "command", "reuse", "ready_path", "ready_timeout_seconds")
"""Fields of `spec.api` for agents behind HTTP."""


class MetricEntry(Strict):
    """One metric of a dataset: a name, or an object with options.

    `reference: expected` (context_recall) uses the gold answer instead of the gold passages. `match: substring`
    (string_match) also accepts an expected text inside a longer word. `rubric` with `labels` defines a judged metric,
    and `scorer: module:function` a metric in Python.
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
            raise ValueError("a metric has either a rubric or a scorer; remove one of them")
        if bool(self.rubric) != bool(self.labels):
            raise ValueError("rubric and labels need each other; add the missing one, as in labels: {good: 1, bad: 0}")
        if self.range and self.range[0] >= self.range[1]:
            raise ValueError("range must be [lowest, highest]")
        if (self.range or self.direction) and not (self.rubric or self.scorer):
            raise ValueError("direction and range need a rubric or a scorer; add one, or remove them")
        return self


class Limit(Strict):
    """One limit on one metric. `bound` is a bare number: a minimum or maximum, depending on the metric's direction."""

    bound: Number | None = None
    min: Number | None = None
    max: Number | None = None
    slice: Name | None = None
    stat: Literal["mean", "median", "min", "max", "p50", "p90", "p95", "p99"] | None = None
    confidence: Confidence | None = Field(
        None, description="Overrides the gate's confidence for this limit; null: compare the value."
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
            raise ValueError(f"{' and '.join(empty)} has no value; add one, or remove the key")
        return value

    @model_validator(mode="after")
    def _says_something(self) -> "Limit":
        if self.bound is None and self.min is None and self.max is None:
            raise ValueError("a threshold needs min or max; add one")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("min is above max, so nothing can pass; swap or correct them")
        return self


class WithThresholds(Strict):
    """Metrics and thresholds, which both a dataset and the whole evaluation may have."""

    metrics: list[MetricEntry] | None = Field(None, min_length=1)
    thresholds: dict[StrictStr, Annotated[list[Limit], Field(min_length=1)]] = Field(default_factory=dict)

    @field_validator("thresholds", mode="before")
    @classmethod
    def _each_a_list(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {metric: given if isinstance(given, list) else [given] for metric, given in value.items()}


class DatasetConfig(WithThresholds):
    """One dataset. Its metrics replace the evaluation's, and its thresholds take precedence over the evaluation's."""

    name: Name
    path: Name
    format: Name | None = Field(None, description="The file's format. Default: detected from the content.")
    fields: dict[StrictStr, Name] = Field(
        default_factory=dict,
        description="The column of each field, for files of records: a name, a dotted path, or a JSONPath query.",
    )
    corpus: Name | None = Field(None, description="The file of documents, for formats that have one.")
    k: Annotated[list[Positive], Field(min_length=1)] | None = Field(
        None, description="Cut-offs of retrieval metrics that are named without @k."
    )
    min_grade: Positive = Field(1, description="The lowest grade that counts as relevant.")
    compat: Name | None = Field(
        None, description="Compute retrieval metrics with this system's formulas instead of trec_eval's."
    )
    retrieval_gt_1d: Literal["and", "or"] | None = Field(
        None,
        alias="retrievalGt1d",
        description="AutoRAG: whether a flat list of ids means all of them, or any.",
    )
    empty_qrels: Literal["notApplicable", "zero"] = Field(
        "notApplicable", description="How a query without relevant documents counts in the mean of a retrieval metric."
    )
    slices: list[Name] | None = Field(
        None,
        description="Metadata keys (or `tags`) to break results down by. Default: tags and every key with few values. "
        "Empty list: none.",
    )
    retriever: Name | None = Field(
        None, description="Query this retriever (a name in `retrievers`) instead of the agent; see --retriever."
    )
    mode: Mode | None = Field(None, description="Whether the retriever also reranks its hits.")
    top_k: Positive | None = Field(None, description="Number of distinct documents that the retriever returns.")
    rerank_top_k: Positive | None = Field(None, description="Number of documents to rerank. Default: 3 x topK.")
    scope_prefix: Name | None = Field(
        None, description="Prefix of the scope to ingest, search and delete documents in, such as eval:my-dataset:"
    )
    filters: dict[StrictStr, Any] = Field(
        default_factory=dict, description="Filters of every search, in the retriever's own syntax."
    )
    loader: ModuleObject | None = Field(
        None, description="module:function that takes a document's loaderRef and returns its text."
    )
    cluster: Name | None = Field(
        None,
        description="Metadata key that groups samples (one document, one conversation). Intervals and tests then treat "
        "clusters, not samples, as independent.",
    )


class CiGate(Strict):
    """The gate: which results decide the exit code, and how much must be measured for PASS."""

    enabled: StrictBool = True
    min_coverage: Share = 1.0
    max_error_rate: Share = 0.0
    max_not_applicable: Share = Field(
        0.1,
        description="Share of a limit's scores that may be not applicable because of the reply or the judge. If above "
        "0, those of one sample are always accepted.",
    )
    min_samples: Positive = 1
    min_pass_rate: Share | None = Field(
        None, description="Share of attempts in which each sample must pass (see --repeat)."
    )
    confidence: Confidence | None = Field(
        None, description="Compare the worse end of the interval at this confidence with each limit, not the value."
    )
    baseline: Name | None = Field(None, description="The baseline to compare the run with: a promoted name, or a file.")
    max_drop: Drops = Field(
        0.0,
        description="How much worse than the baseline a metric may be: one number for all metrics from 0 to 1, or one "
        "per metric.",
    )
    regression: Literal["drop", "notWorse"] = Field(
        "drop",
        description="What fails the comparison with the baseline. drop: a significant drop of more than maxDrop. "
        "notWorse: any result that does not exclude a drop of maxDrop.",
    )
    alpha: Confidence | None = Field(
        0.05, description="Significance level: a drop counts if its p-value is below this; null: every drop counts."
    )
    new_failures: Count | None = Field(
        None, description="Number of samples that may fail although they passed in the baseline; null: any number."
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
            raise ValueError(f"{' and '.join(idle)} cannot be used without a baseline; add one, as in baseline: main")
        return self

    @model_validator(mode="after")
    def _not_worse_has_a_margin(self) -> "CiGate":
        if self.regression != "notWorse":
            return self
        drops = self.max_drop.values() if isinstance(self.max_drop, dict) else [self.max_drop]
        if not drops or min(drops) <= 0:
            raise ValueError("regression: notWorse needs a maxDrop above 0; add one, as in maxDrop: 0.02")
        if self.alpha is None:
            raise ValueError("regression: notWorse needs alpha; remove alpha: null")
        return self


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


UNUSED_API_KEYS = frozenset(name for name, field in Api.model_fields.items() if field.description == _OWN.description)
"""AgentSpec's own keys of `spec.api`, as names of fields."""


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
