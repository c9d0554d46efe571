#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails where the parameters and rows of a fixture are not those that make_reference.py would draw now."""
import pathlib
import sys

import h5py
import numpy as np

from models import MODELS, SEEDS, draw_parameters, draw_rows, vocab_size_of


def main():
    folder, others = pathlib.Path(__file__).parent / "fixtures", []
    for family, model in MODELS.items():
        rng = np.random.default_rng(SEEDS[family])
        parameters, rows = draw_parameters(model, rng), draw_rows(rng, vocab_size_of(model))
        with h5py.File(folder / f"{family}.h5") as file:
            held = {}
            file["parameters"].visititems(lambda name, item: held.update({name: item[:]} if hasattr(item, "shape") else {}))
            others += [f"{family}: {name}" for name in parameters.keys() | held.keys()
                       if name not in held or not np.array_equal(held[name], parameters.get(name))]
            others += [f"{family}: {name}" for i, name in enumerate(("tokens", "loss_weight"))
                       if not np.array_equal(file[name][:], np.stack([row[i] for row in rows]))]
    print("\n".join(sorted(others)) or f"{len(MODELS)} fixtures are drawn as they are")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
