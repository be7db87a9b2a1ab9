PAGES = {"p1": "Paris is the capital of France.", "p2": "Oslo is in Norway.", "p3": "Rome has seven hills.",
         "p4": "The Seine runs through Paris."}


class Words:
    def _rank(self, query, ids):
        words = set(query.lower().rstrip("?").split())
        return sorted(ids, key=lambda one: -len(words & set(PAGES[one].lower().rstrip(".").split())))

    def search(self, request):
        return [{"id": one, "score": 1 / rank, "text": PAGES[one]} for rank, one in enumerate(reversed(list(PAGES)), 1)]

    def rerank(self, query, hits, top_k):
        by_id = {hit.id: hit for hit in hits}
        return [by_id[one] for one in self._rank(query, list(by_id))][:top_k]
