"""The type of the retrievers in a manifest. Their models are imported only if the manifest has retrievers."""

from typing import TYPE_CHECKING, Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

if TYPE_CHECKING:
    from evalspec.inputs.manifest.retriever_schema import RetrieverTarget


class RetrieverVariants(dict[str, "RetrieverTarget"]):
    """The variants of a target by their labels. A target without a grid has the label ""."""

    @staticmethod
    def find_target_type() -> Any:
        """Return `RetrieverTarget`, the union of all models of a target."""
        from evalspec.inputs.manifest.retriever_schema import RetrieverTarget

        return RetrieverTarget

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._read, json_schema_input_schema=core_schema.any_schema()
        )

    @classmethod
    def _read(cls, value: Any) -> "RetrieverVariants":
        from evalspec.inputs.manifest.retriever_schema import read_variants

        return cls(read_variants(value))
