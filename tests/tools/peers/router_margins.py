# SPDX-License-Identifier: Apache-2.0
"""How near the routers of a model with experts come to another choice, and what another choice would change.

A token goes through the k experts of the largest logits. Where the k-th and the next one are equal but for rounding, a
mesh whose sums have another order may choose the other expert: then its loss is that of the other choice, as far off as
that is, however exactly it computes. Both losses are worked out here by transformers in float64.
"""
import dataclasses

import h5py
import numpy as np
import torch
import transformers


@dataclasses.dataclass(frozen=True)
class Choice:
    margin: float  # between the logits of the last expert that is chosen and the first that is not
    batch: int  # of documents of one length
    layer: int  # among those with experts
    token: int  # of the batch


def batches_of_step(path, step, num_rows):
    """(tokens, weights) of documents of equal length, each (documents, length), of a step, 0-based."""
    with h5py.File(path) as file:
        rows = range(step * num_rows, (step + 1) * num_rows)
        tokens, weights = file["tokens"][rows[0]:rows[-1] + 1], file["loss_weight"][rows[0]:rows[-1] + 1]
        offsets, lengths = file["document_offsets"][:], file["document_lengths"][:]
    by_length = {}
    for number, row in enumerate(rows):
        begin = 0
        for length in lengths[offsets[row]:offsets[row + 1]]:
            span = slice(begin, begin + length)
            by_length.setdefault(int(length), []).append((tokens[number, span], weights[number, span]))
            begin += length
    return [tuple(np.stack(part) for part in zip(*documents)) for _, documents in sorted(by_length.items())]


def loss_of(folder, batches, other=None):
    """The loss of a step, and every choice of its routers; with `other` that one choice falls on the next expert."""
    network = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager").eval()
    choices, where = [], {}

    def watch(layer, top_k):
        def hook(_, __, output):
            logits, scores, indices = output
            best = torch.topk(logits.double(), top_k + 1, dim=-1)
            margins = (best.values[:, top_k - 1] - best.values[:, top_k]).tolist()
            choices.extend(Choice(margin, where["batch"], layer, token) for token, margin in enumerate(margins))
            if other is None or (other.batch, other.layer) != (where["batch"], layer):
                return None
            taken, instead = best.indices[other.token, top_k - 1], best.indices[other.token, top_k]
            indices = indices.clone()
            indices[other.token][indices[other.token] == taken] = instead
            return logits, scores, indices
        return hook

    routers = [module for name, module in network.named_modules() if name.endswith("mlp.gate")]
    for layer, router in enumerate(routers):
        router.register_forward_hook(watch(layer, network.config.num_experts_per_tok))
    total, weight_sum = 0.0, 0.0
    with torch.no_grad():
        for where["batch"], (tokens, weights) in enumerate(batches):
            ids = torch.from_numpy(tokens).long()
            logits = network(input_ids=ids, use_cache=False).logits.double()
            nll = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(),
                                                    reduction="none")
            weight = torch.from_numpy(weights[:, 1:]).double().flatten()
            total, weight_sum = total + (weight * nll).sum().item(), weight_sum + weight.sum().item()
    return total / weight_sum, choices


def smallest_margin(folders, path, num_rows):
    """Of all choices of all steps: folders[i] has the weights before step i."""
    return min(choice.margin for step, folder in enumerate(folders)
               for choice in loss_of(folder, batches_of_step(path, step, num_rows))[1])


def explain(folder, batches, deviation, most_margin=2e-4):
    """(choice, the loss's relative deviation with it) of the narrow choice whose other expert gives `deviation` best."""
    loss, choices = loss_of(folder, batches)
    narrow = sorted((choice for choice in choices if choice.margin < most_margin), key=lambda choice: choice.margin)
    tried = [(choice, loss_of(folder, batches, choice)[0] / loss - 1) for choice in narrow[:8]]
    return min(tried, key=lambda one: abs(one[1] - deviation), default=None)
