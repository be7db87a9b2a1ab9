"""The section of a manifest about the other systems that get results."""

from pydantic import Field

from evalspec.inputs.manifest.fields import ManifestModel, Name
from evalspec.inputs.manifest.judge_schema import Headers, RequestSeconds
from evalspec.inputs.manifest.yaml_source import Place

EXPORTS_PLACE: Place = ("spec", "evaluation", "exports")


class ExportConfig(ManifestModel):
    """Where one exporter sends the results of a run."""

    url: Name = Field(description="Base URL of the other system, such as `$env:MLFLOW_TRACKING_URI`.")
    headers: Headers = Field(default_factory=dict)
    name: Name | None = Field(
        None,
        description="What the results belong to there: the experiment of MLflow, the service of OpenTelemetry. "
        "Default: the name of the agent.",
    )
    timeout_seconds: RequestSeconds = 60.0
