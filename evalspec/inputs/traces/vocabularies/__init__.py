"""One module per vocabulary of attributes. docs/reference/trace-vocabularies.md has their names, which were read in:

OpenInference: openinference-semantic-conventions 0.1.42, openinference-instrumentation 0.1.72, and spans of
openinference-instrumentation-langchain 0.1.80. Traceloop: opentelemetry-semantic-conventions-ai 0.5.1, and
opentelemetry-instrumentation-langchain 0.62.4 with its spans. OpenTelemetry GenAI: docs/gen-ai/gen-ai-spans.md of
open-telemetry/semantic-conventions-genai, and docs/gen-ai/gen-ai-events.md of open-telemetry/semantic-conventions.
GenAI up to v1.36: the same pages, and uses of gen_ai.user.message and gen_ai.choice in public instrumentations.
Phoenix: arize-phoenix-client 3.5.0. Langfuse: langfuse 5.0.4 and its reference of exports to storage.
"""
