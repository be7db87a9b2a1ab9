"""Retrieval and an answer as a LangChain runnable. It returns `answer` and `context`, which evalspec reads."""

import handbook
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import SimpleChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore


class HashedWords(Embeddings):
    def embed_documents(self, texts):
        return [handbook.embed(text) for text in texts]

    def embed_query(self, text):
        return handbook.embed(text)


class QuotingModel(SimpleChatModel):
    """Stands in for a chat model: quotes the context of the prompt."""

    @property
    def _llm_type(self):
        return "quoting"

    def _call(self, messages, stop=None, run_manager=None, **kwargs):
        context, _, question = messages[-1].content.rpartition("\n\n")
        return handbook.quote(question, context.split("\n"))


store = InMemoryVectorStore(HashedWords())
store.add_documents([Document(page_content=one["text"], id=one["id"]) for one in handbook.DOCUMENTS])
retriever = store.as_retriever(search_kwargs={"k": 2})

prompt = ChatPromptTemplate.from_template("{passages}\n\n{input}")
answer = (
    RunnablePassthrough.assign(passages=lambda asked: "\n".join(one.page_content for one in asked["context"]))
    | prompt
    | QuotingModel()
    | StrOutputParser()
)
chain = RunnablePassthrough.assign(context=lambda asked: retriever.invoke(asked["input"])).assign(answer=answer)
