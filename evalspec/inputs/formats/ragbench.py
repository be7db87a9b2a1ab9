"""RAGBench: questions with retrieved documents, a generated response, and annotations of its sentences."""

from evalspec.inputs.datasets.record_form import RecordForm, has_columns
from evalspec.inputs.datasets.record_writing import make_format

_MARKS = ("documents_sentences", "all_relevant_sentence_keys", "adherence_score", "generation_model_name")
_FORM = RecordForm(
    columns={
        "id": ("id",),
        "input": ("question",),
        "context": ("documents",),
        "response": ("response",),
    },
    metadata=frozenset(
        {
            *_MARKS,
            "annotating_model_name",
            "dataset_name",
            "response_sentences",
            "sentence_support_information",
            "unsupported_response_sentence_keys",
            "overall_supported_explanation",
            "overall_supported",
            "relevance_explanation",
            "all_utilized_sentence_keys",
            "trulens_groundedness",
            "trulens_context_relevance",
            "ragas_faithfulness",
            "ragas_context_relevance",
            "gpt3_adherence",
            "gpt3_context_relevance",
            "gpt35_utilization",
            "relevance_score",
            "utilization_score",
            "completeness_score",
        }
    ),
)

RAGBENCH = make_format(
    "ragbench",
    "RAGBench: question, documents, response and annotations",
    _FORM,
    has_columns({"question"}, {"documents"}, _MARKS),
)
