"""The bot of somebody who has never heard of evalspec."""

PAGES = {
    "trial": "The free trial lasts 14 days.",
    "refund": "We refund an annual plan within 30 days.",
    "upload": "Files may have up to 2 GB.",
    "data": "Your data is stored in Dublin.",
    "workspace": "Up to 25 people can share a workspace.",
}


def answer(question):
    return next((page for word, page in PAGES.items() if word in question.lower()), "I do not know.")
