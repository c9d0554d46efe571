#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sft-launch fetches what is not in the hub cache: one command from two names to a trained model. The hub is a folder, and
# huggingface_hub a module that copies from it.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"
# shellcheck source=tests/shell/tiny_hub.sh
source "$frame_folder/tiny_hub.sh"
export SFT_CACHE=$work/cache PYTHONPATH=$work/python
unset HF_HUB_OFFLINE
make_tiny_model
mkdir -p far/model/org/tiny far/dataset/org/pairs python/huggingface_hub
cp tiny/model/* far/model/org/tiny
head -n 20 pairs.jsonl >far/dataset/org/pairs/train.jsonl
tail -n 4 pairs.jsonl >far/dataset/org/pairs/test.jsonl
cat >python/huggingface_hub/__init__.py <<'PY'
import fnmatch, os, shutil
from pathlib import Path

def snapshot_download(name, revision="main", repo_type="model", allow_patterns=None, ignore_patterns=None):
    source = Path(os.environ["FAR"]) / repo_type / name
    if not source.is_dir():
        raise OSError(f"404 Client Error: {name}")
    place = Path(os.environ["HF_HOME"]) / "hub" / f"{repo_type}s--{name.replace('/', '--')}"
    snapshot = place / "snapshots" / "0000"
    snapshot.mkdir(parents=True)
    (place / "refs").mkdir()
    (place / "blobs").mkdir()
    (place / "refs" / revision).write_text("0000")
    for file in source.iterdir():
        if any(fnmatch.fnmatch(file.name, pattern) for pattern in allow_patterns):
            shutil.copy(file, place / "blobs" / str(abs(hash(file.name))))
            (snapshot / file.name).symlink_to(place / "blobs" / str(abs(hash(file.name))))
    return str(snapshot)
PY
export FAR=$work/far
launch=("$sft_launch" sft --max_length 64 --use_cpu --per_device_train_batch_size 1 --max_steps 2 --num_processes 2)
refuses 3 'cannot find the data set org.pairs' "${launch[@]}" --model_name_or_path org/tiny --dataset_name org/pairs --print
check '--print fetches nothing' test ! -e hub/hub
HF_HUB_OFFLINE=1 refuses 3 'cannot find the data set org.pairs' "${launch[@]}" --model_name_or_path org/tiny --dataset_name org/pairs
check 'nor does it offline' test ! -e hub/hub
succeeds 'two names' "${launch[@]}" --model_name_or_path org/tiny --dataset_name org/pairs --output_dir run
check 'are fetched' grep -q 'org/tiny is not here: python3 .*postprocess/fetch.py model org/tiny --revision main' out
check 'become a model' test -s run/model/model.safetensors
check 'that was evaluated on the split test' grep -q '"eval_loss"' run/metrics.jsonl
succeeds 'the same names' "${launch[@]}" --model_name_or_path org/tiny --dataset_name org/pairs --output_dir again
check 'are fetched once' test "$(grep -c 'is not here' out)" -eq 0
prints 3 'fetch.py: error: cannot download org/none' "${launch[@]}" --model_name_or_path org/none --dataset_name org/pairs
refuses 3 'no/such/path' "${launch[@]}" --model_name_or_path no/such/path --dataset_name org/pairs
finish_checks
