"""A LlamaIndex query engine. Its response has the source nodes, which evalspec reads as contexts."""

import handbook
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.prompts import PromptTemplate


class HashedWords(BaseEmbedding):
    def _get_text_embedding(self, text):
        return handbook.embed(text)

    def _get_query_embedding(self, query):
        return handbook.embed(query)

    async def _aget_query_embedding(self, query):
        return handbook.embed(query)


class QuotingModel(CustomLLM):
    """Stands in for a model: quotes the context of the prompt."""

    @property
    def metadata(self):
        return LLMMetadata(model_name="quoting")

    def complete(self, prompt, formatted=False, **kwargs):
        context, _, question = prompt.rpartition("\n---\n")
        return CompletionResponse(text=handbook.quote(question, context.split("\n")))

    def stream_complete(self, prompt, formatted=False, **kwargs):
        whole = ""
        for word in self.complete(prompt).text.split(" "):
            whole += f"{word} "
            yield CompletionResponse(text=whole, delta=f"{word} ")


documents = [Document(text=one["text"], doc_id=one["id"]) for one in handbook.DOCUMENTS]
index = VectorStoreIndex.from_documents(documents, embed_model=HashedWords())
retriever = index.as_retriever(similarity_top_k=2)
template = PromptTemplate("{context_str}\n---\n{query_str}")
engine = index.as_query_engine(llm=QuotingModel(), similarity_top_k=2, text_qa_template=template)
streaming = index.as_query_engine(llm=QuotingModel(), similarity_top_k=2, text_qa_template=template, streaming=True)
