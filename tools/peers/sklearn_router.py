#!/usr/bin/env python3
"""scikit-learn's LogisticRegression on the vectors and folds of `surety train-router`, beside its predictions.

Usage: sklearn_router.py FOLDER [--tolerance 1e-6] [--json]

FOLDER is what `surety train-router --dump-vectors FOLDER` wrote. Each fold is fitted with the C that train-router chose
for it (the same objective: lbfgs, L2, biases free) and predicted; prints the accuracy of both, the share of rows on
which they agree, and seconds. Needs numpy and scikit-learn: python3 -m venv V; V/bin/pip install scikit-learn.
"""

import argparse
import csv
import json
import os
import time

import numpy
import sklearn
from sklearn.linear_model import LogisticRegression


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder")
    parser.add_argument("--tolerance", type=float, default=1e-6)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    vectors = numpy.load(os.path.join(args.folder, "vectors.npy"))
    with open(os.path.join(args.folder, "rows.csv"), encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    labels = numpy.array([int(row["label"]) for row in rows])
    folds = numpy.array([int(row["fold"]) for row in rows])
    ours = numpy.array([int(row["predicted"]) for row in rows])
    assert len(vectors) == len(rows)
    theirs = numpy.full(len(rows), -1)
    chosen, start = [], time.perf_counter()
    for fold in sorted(set(folds)):
        held_out = folds == fold
        chosen.append(float(next(row["c"] for row in rows if int(row["fold"]) == fold)))
        model = LogisticRegression(C=chosen[-1], tol=args.tolerance, max_iter=10000)
        model.fit(vectors[~held_out], labels[~held_out])
        theirs[held_out] = model.predict(vectors[held_out])
    seconds = time.perf_counter() - start
    result = {"sklearn": sklearn.__version__, "rows": len(rows), "c_by_fold": chosen,
              "accuracy": float((ours == labels).mean()), "sklearn_accuracy": float((theirs == labels).mean()),
              "agreement": float((ours == theirs).mean()), "sklearn_seconds": round(seconds, 1)}
    if args.json:
        print(json.dumps(result, indent=2))
    else:
        for key, value in result.items():
            print(f"{key}: {value}")


if __name__ == "__main__":
    main()
