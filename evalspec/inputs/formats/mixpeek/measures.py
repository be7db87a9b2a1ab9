"""Mixpeek's own numbers over a whole dataset."""


def compute_overall(precision_mean: float, recall_mean: float, beta: float) -> float:
    """Return F-beta of the mean precision and the mean recall, as in `overall_metrics` and `metrics_by_k`.

    evalspec's own F1 and F2 are means of each query's value, which differ. Mixpeek's guide to retriever evaluations
    calls F a harmonic mean without saying of what. The F1 and F2 of its example response are those of the means: P 0.90
    and R 0.18 at k = 1 give F1 0.30 and F2 0.21. Returns 0 if both means are 0.
    """
    weight = beta * beta
    total = weight * precision_mean + recall_mean
    return (1 + weight) * precision_mean * recall_mean / total if total else 0.0
