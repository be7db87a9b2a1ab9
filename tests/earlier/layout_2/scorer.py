def short(sample):
    return 1.0 if len(sample.response) < 40 else 0.0
