"""The section of a manifest about the agent's OpenTelemetry traces: where they arrive, and what counts in them."""

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt, model_validator

from evalspec.inputs.manifest.environment_schema import Duration
from evalspec.inputs.manifest.fields import ManifestModel, Name

Port = Annotated[StrictInt, Field(ge=1, le=65535)]


class TracesConfig(ManifestModel):
    """Spans of the agent, from which retrieval, tool calls, tokens and times are read."""

    receive: Literal["auto"] | Port | None = Field(
        None,
        description="Receive spans over OTLP/HTTP. auto: on a free loopback port, which `command` and agents in Python "
        "learn. A port: for an agent that runs already and sends there.",
    )
    file: Name | None = Field(
        None,
        description="In place of `receive`: a file to which an OpenTelemetry collector appends OTLP/JSON.",
    )
    retrieval: Name | None = Field(
        None,
        description="Which retrieval counts if a request has several without a reranker: last, union, or the name of "
        "one. Default: that is an error.",
    )
    baggage: StrictBool = Field(
        True, description="Whether requests carry an opaque id of the attempt as baggage, which agents pass on."
    )
    quiet: Duration = Field(1.0, description="How long nothing must arrive before a trace with its root is complete.")
    grace: Duration = Field(15.0, description="How long after the reply a trace may take at most.")

    @model_validator(mode="after")
    def _one_way(self) -> "TracesConfig":
        if self.receive is not None and self.file is not None:
            raise ValueError("receive and file are two ways for spans to arrive; write one of them")
        return self

    @model_validator(mode="after")
    def _time_to_be_quiet(self) -> "TracesConfig":
        if self.quiet > self.grace:
            raise ValueError("quiet is longer than grace, so no trace would be complete; make it shorter")
        return self
