"""A scripted model that plays users: it stands in for a real one, so that the example needs no key.

It answers as a chat completion. The prompt ends with what the user knows and what was said, as JSON.
"""

import json
import re


def play(request):
    """Return the completion for a prompt: the next message of the user, or that the user is done."""
    prompt = request["messages"][-1]["content"]
    known = json.loads(prompt[prompt.index("{") :])
    message = choose_message(known["facts"], [one["assistant"] for one in known["said"] if "assistant" in one])
    answer = {"message": message or "", "is_done": message is None}
    return {
        "choices": [{"message": {"content": json.dumps(answer)}}],
        "usage": {"prompt_tokens": 90, "completion_tokens": 9},
    }


def choose_message(facts, heard):
    """Return a fact that answers the agent's question; None once there is nothing to answer."""
    if not heard:
        return "I need a flight."
    topics = {"where": r"\bto [A-Z]", "how many": r"\bseats?\b"}
    wanted = next((pattern for word, pattern in topics.items() if word in heard[-1].lower()), None)
    return next((fact for fact in facts if wanted and re.search(wanted, fact)), None)
