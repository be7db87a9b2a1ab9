"""What the agent of `shop.py` does, whoever writes its spans."""

from typing import Any

QUESTION = "How long can I return order 7?"
ANSWER = "You have 30 days."
DOCUMENTS: list[dict[str, Any]] = [
    {"id": "terms-3", "score": 0.9, "text": "Returns are free within 30 days."},
    {"id": "terms-8", "score": 0.4, "text": "Gifts are not returned."},
]
INSTRUCTIONS = f"Answer from: {DOCUMENTS[0]['text']}"
CALLS: list[dict[str, Any]] = [
    {"name": "find_order", "arguments": {"order": "7", "deep": True}, "result": "sent on Monday"},
    {"name": "find_customer", "arguments": {"order": "7", "deep": False}, "result": "a friend"},
    {"name": "cancel", "arguments": {"order": "7", "deep": True}, "error": "ValueError: order 7 was sent"},
]
TOKENS = {"input_tokens": 20, "output_tokens": 5, "cached": 8}
