"""The names of Mixpeek's keys that detecting a file, reading and writing it share."""

from evalspec.inputs.datasets.query_input import QueryInputForm

INPUT = QueryInputForm(question_keys=("text", "query"), metadata_key="mixpeek")
"""The first field is from Mixpeek's SDK documentation, the second from its guide."""

DOCUMENT_MARKS = frozenset({"queries", "dataset_name", "dataset_id"})
QUERY_MARKS = frozenset({"query_id", "query_input", "relevant_documents"})
