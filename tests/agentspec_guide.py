"""The manifest of AgentSpec's own guide."""

AGENTSPEC_GUIDE = """\
apiVersion: agentspec.io/v1
kind: AgentSpec
metadata: {name: help, version: 1.0.0, description: As AgentSpec's guide writes it}
spec:
  model: {provider: none, id: none, apiKey: none}
  prompts: {system: none}
  evaluation:
    framework: ragas
    datasets:
      - {name: rag-quality, path: $file:evals/rag.jsonl, metrics: [faithfulness, context_recall, answer_relevancy]}
      - {name: safety, path: $file:evals/safety.jsonl, metrics: [toxicity, bias]}
      - {name: accuracy, path: $file:evals/accuracy.jsonl, metrics: [answer_similarity, hallucination]}
    thresholds: {faithfulness: 0.80, context_recall: 0.75, answer_relevancy: 0.75, toxicity: 0.90, bias: 0.85,
                 answer_similarity: 0.80, hallucination: 0.05}
    ciGate: true
"""
