#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the model folders of tests/hub/folders with transformers and PEFT, and what sft should read from them.

    python3 tests/hub/make_folders.py [FOLDER]

Needs torch, transformers 5 and peft. FOLDER/FAMILY/ is what save_pretrained writes of a tiny model with random weights;
FOLDER/FAMILY/expected/model.safetensors has the same weights as sft names and cuts them, by plain slicing.
"""
import json
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

SIZES = dict(hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=11, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
VISION = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2, image_size=28,
              patch_size=14, num_channels=1)
HEAD_DIM, ROTARY_DIM, EXPERTS = 8, 4, 3


def randomize(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=torch.float32).to(torch.bfloat16))
    return model.to(torch.bfloat16)


def save(folder, model, **more):
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, **more)
    (folder / "generation_config.json").unlink(missing_ok=True)


def save_expected(folder, tensors):
    (folder / "expected").mkdir(exist_ok=True)
    save_file({name: tensor.contiguous().clone() for name, tensor in tensors.items()},
              folder / "expected" / "model.safetensors", metadata={"format": "pt"})


def expect(folder, of_layer, prefix="model.", head="lm_head."):
    """of_layer(name within the layer, tensor) gives the tensors of sft, or None for the same one."""
    expected = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        if not name.startswith((prefix, head)):
            continue
        name = name.replace(prefix, "model.", 1) if name.startswith(prefix) else name.replace(head, "lm_head.", 1)
        if not name.startswith("model.layers."):
            expected[name] = tensor
            continue
        stem, rest = ".".join(name.split(".")[:3]) + ".", ".".join(name.split(".")[3:])
        for key, value in (of_layer(rest, tensor) or {rest: tensor}).items():
            expected[stem + key] = value
    save_expected(folder, expected)


def split_gate_up(rest, tensor):
    if rest != "mlp.gate_up_proj.weight":
        return None
    gate, up = tensor.chunk(2)
    return {"mlp.gate_proj.weight": gate, "mlp.up_proj.weight": up}


def phi_layer(rest, tensor):
    if rest != "self_attn.qkv_proj.weight":
        return split_gate_up(rest, tensor)
    q, k, v = tensor.split([4 * HEAD_DIM, 2 * HEAD_DIM, 2 * HEAD_DIM])
    return {"self_attn.q_proj.weight": q, "self_attn.k_proj.weight": k, "self_attn.v_proj.weight": v}


def half_split(tensor):
    """Rows of q or k whose rotation pairs i with i + ROTARY_DIM / 2, of rows that pair 2 i with 2 i + 1."""
    heads = tensor.unflatten(0, (-1, HEAD_DIM))
    rotated, rest = heads[:, :ROTARY_DIM], heads[:, ROTARY_DIM:]
    return torch.cat([rotated[:, 0::2], rotated[:, 1::2], rest], dim=1).flatten(0, 1)


def glm_layer(rest, tensor):
    if rest.split(".")[1] in ("q_proj", "k_proj"):
        return {rest: half_split(tensor)}
    return split_gate_up(rest, tensor)


def check_rotation():
    """Scores of interleaved rotation are those of half-split rotation of reordered rows."""
    from transformers.models.glm4.modeling_glm4 import apply_rotary_pos_emb as interleaved
    from transformers.models.phi3.modeling_phi3 import apply_rotary_pos_emb as halves
    q, k = torch.randn(2, 1, 1, 5, HEAD_DIM, dtype=torch.float64)
    angles = torch.arange(5.0).unsqueeze(1) * torch.tensor([1.0, 0.1])
    table = torch.cat([angles, angles], dim=-1).unsqueeze(0).double()
    reorder = lambda x: half_split(x[0, 0].T).T[None, None]
    one = interleaved(q, k, table.cos(), table.sin())
    other = halves(reorder(q), reorder(k), table.cos(), table.sin())
    scores = [a @ b.transpose(2, 3) for a, b in (one, other)]
    assert torch.allclose(*scores, rtol=1e-13, atol=1e-13), "the rotation is another"


def mixtral_layer(rest, tensor):
    if not rest.startswith("block_sparse_moe."):
        return None
    for stored, name in {"block_sparse_moe": "mlp", "w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}.items():
        rest = rest.replace(stored, name)
    return {rest: tensor}


def minimax_layer(rest, tensor):
    if rest == "block_sparse_moe.e_score_correction_bias":
        return {"mlp.gate.e_score_correction_bias": tensor}
    return mixtral_layer(rest, tensor)


def granite4_layer(rest, tensor):
    if rest == "shared_mlp.input_linear.weight":
        gate, up = tensor.chunk(2)
        return {"mlp.gate_proj.weight": gate, "mlp.up_proj.weight": up}
    return {"mlp.down_proj.weight": tensor} if rest == "shared_mlp.output_linear.weight" else None


def hunyuan_layer(rest, tensor):
    return {rest.replace("query_layernorm", "q_norm").replace("key_layernorm", "k_norm"): tensor}


def oss_layer(rest, tensor):
    if not rest.startswith("mlp.experts."):
        return None
    module, suffix = (rest.removesuffix("_bias"), ".bias") if rest.endswith("_bias") else (rest, ".weight")
    name = module.rpartition(".")[2]
    return {f"mlp.experts.{number}.{name}{suffix}": expert for number, expert in enumerate(tensor)}


def make_mxfp4(folder, source):
    """gpt-oss as it is published: experts in blocks of 4 bits, of random codes."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    tensors, expected = load_file(folder / "model.safetensors"), load_file(folder / "expected" / "model.safetensors")
    for name in [name for name in tensors if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
        experts, inner, outer = tensors.pop(name).shape
        blocks = torch.randint(0, 256, (experts, outer, inner // 32, 16), dtype=torch.uint8)
        scales = torch.randint(120, 130, (experts, outer, inner // 32), dtype=torch.uint8)
        tensors[name + "_blocks"], tensors[name + "_scales"] = blocks, scales
        stem, _, kind = name.rpartition(".")
        for number, expert in enumerate(convert_moe_packed_tensors(blocks, scales)):
            expected[f"{stem}.{number}.{kind}.weight"] = expert
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    save_expected(folder, expected)


def make_glm4_moe(folder):
    """GLM-4.5 with float32 corrections of its routers and a layer behind the last that predicts further tokens."""
    config = transformers.Glm4MoeConfig(head_dim=HEAD_DIM, n_routed_experts=EXPERTS, moe_intermediate_size=6,
                                        num_experts_per_tok=2, attention_bias=True, **SIZES)
    model = randomize(AutoModelForCausalLM.from_config(config))
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            buffer.data = torch.randn(EXPERTS, dtype=torch.float32)  # of which bf16 would round bits off
    save(folder, model)
    expect(folder, lambda rest, tensor: None)
    tensors, further = load_file(folder / "model.safetensors"), f"model.layers.{SIZES['num_hidden_layers']}."
    tensors[further + "eh_proj.weight"] = torch.randn(8, 16).to(torch.bfloat16)
    tensors[further + "mlp.gate.e_score_correction_bias"] = torch.randn(EXPERTS)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def make_adapters(base, folder):
    """PEFT's adapters on Phi's fused modules; then adapters of sft on parts of them, and as PEFT has these."""
    from peft import LoraConfig, PeftModel, get_peft_model
    shutil.rmtree(folder, ignore_errors=True)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    plain = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    # 1. What PEFT trains, and the weights with it
    targets = ["qkv_proj", "gate_up_proj", "o_proj"]
    trained = get_peft_model(model, LoraConfig(r=2, lora_alpha=3, target_modules=targets))
    with torch.no_grad():
        for name, parameter in trained.named_parameters():
            if "lora_" in name:
                parameter.copy_(torch.randn(parameter.shape))
    trained.save_pretrained(folder / "trained")
    merged = trained.merge_and_unload().state_dict()
    save_file({name: tensor.contiguous() for name, tensor in merged.items()}, folder / "merged.safetensors")
    (folder / "trained" / "README.md").unlink(missing_ok=True)

    # 2. Adapters of their own on q_proj, v_proj, gate_proj, up_proj and o_proj
    rank, alpha = 2, 3.0
    rows = {"self_attn.q_proj": 4 * HEAD_DIM, "self_attn.v_proj": 2 * HEAD_DIM, "mlp.gate_proj": 12, "mlp.up_proj": 12,
            "self_attn.o_proj": 4 * HEAD_DIM}
    places = {"self_attn.q_proj": ("self_attn.qkv_proj", 0), "self_attn.v_proj": ("self_attn.qkv_proj", 6 * HEAD_DIM),
              "mlp.gate_proj": ("mlp.gate_up_proj", 0), "mlp.up_proj": ("mlp.gate_up_proj", 12),
              "self_attn.o_proj": ("self_attn.o_proj", 0)}
    own, weights = {}, dict(plain)
    for layer in range(2):
        for module, height in rows.items():
            stem = f"model.layers.{layer}."
            stored, first = places[module]
            key = stem + stored + ".weight"
            a, b = torch.randn(rank, weights[key].shape[1]), torch.randn(height, rank)
            own[f"base_model.model.{stem}{module}.lora_A.weight"] = a
            own[f"base_model.model.{stem}{module}.lora_B.weight"] = b
            weights[key] = weights[key].clone()
            weights[key][first:first + height] += alpha / rank * b @ a
    save_file(own, folder / "own.safetensors")

    # 3. The same function in PEFT
    joined = folder / "joined"
    joined.mkdir()
    tensors = {}
    for layer in range(2):
        stem = f"base_model.model.model.layers.{layer}."
        for stored, parts in {"self_attn.qkv_proj": ["self_attn.q_proj", "self_attn.v_proj"],
                              "mlp.gate_up_proj": ["mlp.gate_proj", "mlp.up_proj"],
                              "self_attn.o_proj": ["self_attn.o_proj"]}.items():
            a = torch.zeros(2 * rank, own[f"{stem}{parts[0]}.lora_A.weight"].shape[1])
            b = torch.zeros(plain[f"model.layers.{layer}.{stored}.weight"].shape[0], a.shape[0])
            for number, part in enumerate(parts):
                first = places[part][1]
                columns = slice(rank * number, rank * (number + 1))
                a[columns] = own[f"{stem}{part}.lora_A.weight"]
                b[first:first + rows[part], columns] = 2 * own[f"{stem}{part}.lora_B.weight"]
            tensors[f"{stem}{stored}.lora_A.weight"], tensors[f"{stem}{stored}.lora_B.weight"] = a, b
    save_file(tensors, joined / "adapter_model.safetensors", metadata={"format": "pt"})
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 2 * rank, "lora_alpha": alpha,
              "rank_pattern": {},
              "alpha_pattern": {},
              "target_modules": ["gate_up_proj", "o_proj", "qkv_proj"]}
    (joined / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
    base_model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    loaded = PeftModel.from_pretrained(base_model, joined).merge_and_unload().state_dict()
    for name, tensor in weights.items():
        assert torch.allclose(loaded[name], tensor, rtol=1e-6, atol=1e-6), name


def make_four_bits(folder, kind, double, dtype, **sizes):
    """What bitsandbytes makes of a model, and the numbers that it takes it for."""
    import bitsandbytes

    model = AutoModelForCausalLM.from_config(transformers.LlamaConfig(**SIZES | sizes))
    save(folder / "plain", randomize(model))
    config = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=kind, bnb_4bit_use_double_quant=double)
    model = AutoModelForCausalLM.from_pretrained(folder / "plain", quantization_config=config, dtype=dtype, device_map="cpu")
    shutil.rmtree(folder)
    save(folder, model)
    expected = {}
    for name, parameter in model.named_parameters():
        state = getattr(parameter, "quant_state", None)
        expected[name] = bitsandbytes.functional.dequantize_4bit(parameter.data, state) if state else parameter.data
    save_expected(folder, expected)


def main():
    torch.manual_seed(20)
    transformers.utils.logging.set_verbosity_error()
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "folders")
    check_rotation()
    t = transformers

    def causal(config):
        return randomize(AutoModelForCausalLM.from_config(config))

    def towers(config):
        return randomize(AutoModelForImageTextToText.from_config(config))

    # More than 256 blocks in a matrix; rows of whole blocks: of others bitsandbytes 0.50 on CPUs makes other numbers.
    sizes = dict(hidden_size=64, intermediate_size=320, num_hidden_layers=1)
    make_four_bits(out / "nf4_nested", "nf4", True, torch.bfloat16, **sizes)
    make_four_bits(out / "fp4", "fp4", False, torch.float32, hidden_size=64, intermediate_size=64, num_hidden_layers=1)
    save(out / "phi3", causal(t.Phi3Config(**SIZES | dict(hidden_size=32))))
    expect(out / "phi3", phi_layer)
    save(out / "glm4", causal(t.Glm4Config(head_dim=HEAD_DIM, attention_bias=True, **SIZES)))
    expect(out / "glm4", glm_layer)
    sizes = SIZES | dict(vocab_size=272)  # of bytes, so that sft can train it
    text = dict(model_type="mistral", head_dim=HEAD_DIM, sliding_window=None, **sizes)
    vision = dict(model_type="pixtral", head_dim=4, **VISION)
    mistral = towers(t.Mistral3Config(text_config=text, vision_config=vision, image_token_index=10,
                                      tie_word_embeddings=False))
    save(out / "mistral3", mistral, max_shard_size="9KB")
    merge = {}
    for file in sorted((out / "mistral3").glob("*.safetensors")):
        merge |= load_file(file)
    save_file(merge, out / "mistral3" / "model.safetensors")
    expect(out / "mistral3", lambda rest, tensor: None, "language_model.model.", "language_model.lm_head.")
    (out / "mistral3" / "model.safetensors").unlink()
    gemma = towers(t.Gemma3Config(text_config=dict(head_dim=HEAD_DIM, **SIZES), vision_config=dict(**VISION),
                                  mm_tokens_per_image=4))
    save(out / "gemma3", gemma)
    expect(out / "gemma3", lambda rest, tensor: None, "language_model.model.", "language_model.lm_head.")
    moe = dict(head_dim=HEAD_DIM, num_experts_per_tok=2, **SIZES)
    save(out / "qwen3_moe", causal(t.Qwen3MoeConfig(num_experts=EXPERTS, moe_intermediate_size=6, **moe)))
    expect(out / "qwen3_moe", lambda rest, tensor: None)
    save(out / "mixtral", causal(t.MixtralConfig(num_local_experts=EXPERTS, **moe)))
    expect(out / "mixtral", mixtral_layer)
    oss = moe | dict(hidden_size=32, intermediate_size=64, num_hidden_layers=1, head_dim=4)
    save(out / "gpt_oss", causal(t.GptOssConfig(num_local_experts=EXPERTS, **oss)))
    expect(out / "gpt_oss", oss_layer)
    make_mxfp4(out / "gpt_oss_mxfp4", out / "gpt_oss")
    make_glm4_moe(out / "glm4_moe")
    make_adapters(out / "phi3", out / "phi3_adapters")

    torch.manual_seed(21)  # those above stay as they are
    minimax = causal(t.MiniMaxM2Config(num_local_experts=EXPERTS, partial_rotary_factor=0.5, **moe))
    for name, buffer in minimax.named_buffers():
        if name.endswith("e_score_correction_bias"):
            buffer.data = torch.randn(EXPERTS, dtype=torch.float32)
    save(out / "minimax_m2", minimax)
    expect(out / "minimax_m2", minimax_layer)
    granite = SIZES | dict(hidden_size=32, num_local_experts=0, shared_intermediate_size=10, mamba_n_heads=4,
                           layer_types=["full_attention"] * 2, position_embedding_type="rope")
    save(out / "granitemoehybrid", causal(t.GraniteMoeHybridConfig(**granite)))
    expect(out / "granitemoehybrid", granite4_layer)
    save(out / "hunyuan_v1_dense", causal(t.HunYuanDenseV1Config(head_dim=HEAD_DIM, **SIZES)))
    expect(out / "hunyuan_v1_dense", hunyuan_layer)


if __name__ == "__main__":
    main()
