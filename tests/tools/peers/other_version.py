# SPDX-License-Identifier: Apache-2.0
"""Another version of transformers beside the one that a script runs with: asked for losses, and for what it saves.

Started as a program it answers questions, a JSON object a line, until its input ends.
"""
import json
import pathlib
import subprocess
import sys


class OtherVersion:
    """The process of another interpreter, which has torch, h5py and its own transformers."""

    def __init__(self, python):
        self.process = subprocess.Popen([python, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, cwd=pathlib.Path(__file__).parent)
        self.version = self.ask()["version"]

    def ask(self, **question):
        """Of `folder` and the rows of `shard`: `loss`, and the model in `saved`; `error`, or `unknown` for a family that
        it does not have."""
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.process.args[0]} has ended: see what it prints when it is started by hand")
        return json.loads(answer)


def loss_of(network, shard):
    import h5py
    import torch
    with h5py.File(shard) as file:
        tokens, weights = file["tokens"][:], file["loss_weight"][:]
        lengths, offsets = file["document_lengths"][:], file["document_offsets"][:]
    total, weight_sum = 0.0, 0.0
    for row in range(len(tokens)):
        begin = 0
        for length in lengths[offsets[row]:offsets[row + 1]]:
            document = torch.from_numpy(tokens[row, begin:begin + length]).long()[None]
            weight = torch.from_numpy(weights[row, begin + 1:begin + length]).double()
            if length > 1:
                logits = network(input_ids=document, use_cache=False).logits[0].double()
                nll = torch.nn.functional.cross_entropy(logits[:-1], document[0, 1:], reduction="none")
                total, weight_sum = total + (weight * nll).sum().item(), weight_sum + weight.sum().item()
            begin += length
    return total / weight_sum


def answer_to(question):
    import torch
    import transformers
    if not question:
        return dict(version=transformers.__version__)
    folder = pathlib.Path(question["folder"])
    described = json.loads((folder / "config.json").read_text())
    types = {described["model_type"], described.get("text_config", {}).get("model_type", described["model_type"])}
    if not types <= set(transformers.CONFIG_MAPPING) | {"gemma3_text"}:
        return dict(unknown=True)
    dtype = torch.float32 if "glm4_moe" in types else torch.float64  # which version 4 does not compute in float64
    network, info = getattr(transformers, described["architectures"][0]).from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", output_loading_info=True)
    complaints = {key: list(info[key]) for key in ("missing_keys", "unexpected_keys", "mismatched_keys") if info[key]}
    if complaints:
        return dict(error=f"loads with {complaints}")
    with torch.no_grad():
        loss = loss_of(network.eval(), question["shard"])
    if "saved" in question:
        network.float().save_pretrained(question["saved"])
    return dict(loss=loss)


def main():
    import torch
    import transformers
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for line in sys.stdin:
        try:
            answer = answer_to(json.loads(line))
        except Exception as error:  # which the other process reports
            answer = dict(error=f"{type(error).__name__}: {error}")
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
