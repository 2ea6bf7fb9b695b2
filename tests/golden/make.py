#!/usr/bin/env python3
"""Makes the golden checkpoints: tiny models of each family, run by Hugging Face `transformers`.

Usage: make.py [FAMILY...]
Not in the package lists: torch, transformers, safetensors, timm, lerobot, diffusers (the tests need none)

Each FAMILY folder beside this script gets config.json and model.safetensors as `save_pretrained`
writes them, inputs.safetensors and expected.safetensors in the names of docs/MODELS.md. The weights
are sharp: norms and biases away from one and zero, embeddings so small that eps shows, products so
large that the kind of GELU shows. README.md lists class, version and seed.
"""
import json
import pathlib
import shutil
import sys

import torch
import transformers as hf
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
torch.set_num_threads(1)


def sharpen(model, seed, embedding=0.02):
    generator = torch.Generator().manual_seed(seed)
    done = set()
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            if p.data_ptr() in done:
                continue
            done.add(p.data_ptr())
            noise = torch.randn(p.shape, generator=generator)
            if "embed_tokens" in name or "lm_head" in name or "position_embed" in name:
                p.copy_(embedding * noise)
            elif "patch_embed" in name:
                p.copy_(embedding * noise / (1 if p.dim() == 1 else p[0].numel() ** 0.5))
            elif "lambda" in name or name.endswith("gamma"):
                p.copy_(0.5 + 0.3 * noise)
            elif p.dim() == 1 or "token" in name.split(".")[-1]:
                one = 1.0 if "norm" in name and name.endswith("weight") and \
                    "Gemma" not in type(model).__name__ and "language_model" not in name else 0.0
                if "norm" in name and name.endswith("weight") and "language_model" in name and \
                        "PaliGemma" not in type(model).__name__:
                    one = 1.0
                if "ln_q" in name and name.endswith("weight"):
                    one = 1.0
                p.copy_(one + 0.3 * noise)
            else:
                fan = p[0].numel()
                p.copy_(noise * (1.4 / fan ** 0.5))
    return model.float().eval()


def save(family, model, inputs, expected, about):
    directory = HERE / family
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    model.save_pretrained(directory)
    for extra in directory.glob("generation_config.json"):
        extra.unlink()
    clean = lambda d: {k: v.detach().contiguous().clone() for k, v in d.items()}
    save_file(clean(inputs), str(directory / "inputs.safetensors"))
    save_file(clean(expected), str(directory / "expected.safetensors"))
    size = sum(f.stat().st_size for f in directory.iterdir())
    print(f"{family}: {type(model).__name__}, {size >> 10} KiB, {about}")
    assert size < 3 << 20, size


def ids(seed, shape, vocabulary, lowest=3):
    return torch.randint(lowest, vocabulary, shape, generator=torch.Generator().manual_seed(seed))


def language(model, lengths, decode, seed, vocabulary, lowest=3):
    """Prefill of mixed lengths, then decode steps; each sequence alone, as the reference."""
    longest = max(lengths)
    tokens = ids(seed, (len(lengths), longest), vocabulary, lowest)
    more = ids(seed + 1, (len(lengths), decode), vocabulary, lowest)
    mask = torch.tensor([[1] * n + [0] * (longest - n) for n in lengths])
    tokens = tokens * mask
    width = model.config.get_text_config().hidden_size
    layers = model.config.get_text_config().num_hidden_layers
    logits = torch.zeros(len(lengths), longest, model.config.get_text_config().vocab_size)
    last = torch.zeros(len(lengths), longest, width)
    hidden = [torch.zeros(len(lengths), longest, width) for _ in range(layers)]
    steps = torch.zeros(len(lengths), decode, logits.shape[-1])
    with torch.no_grad():
        for row, n in enumerate(lengths):
            out = model(input_ids=tokens[row:row + 1, :n], use_cache=True,
                        output_hidden_states=True)
            logits[row, :n] = out.logits[0]
            last[row, :n] = out.hidden_states[-1][0]
            for i in range(layers):
                hidden[i][row, :n] = out.hidden_states[i][0]
            cache = out.past_key_values
            for i in range(decode):
                out = model(input_ids=more[row:row + 1, i:i + 1], past_key_values=cache,
                            use_cache=True)
                steps[row, i] = out.logits[0, -1]
                cache = out.past_key_values
    expected = {"logits": logits, "last_hidden_state": last, "decode_logits": steps}
    for i in range(layers):
        expected[f"hidden_states.{i}"] = hidden[i]
    return {"input_ids": tokens, "attention_mask": mask, "decode_ids": more}, expected


def make_llama():
    config = hf.LlamaConfig(hidden_size=64, num_hidden_layers=3, num_attention_heads=4,
                            num_key_value_heads=2, intermediate_size=112, vocab_size=128,
                            rms_norm_eps=1e-5, rope_theta=10000.0)
    model = sharpen(hf.LlamaForCausalLM(config), 1)
    save("llama", model, *language(model, [11, 7, 1], 3, 5, 128), "GQA 4/2")


def make_llama3():
    config = hf.LlamaConfig(hidden_size=60, num_hidden_layers=2, num_attention_heads=3,
                            num_key_value_heads=1, head_dim=32, intermediate_size=100,
                            vocab_size=97, rms_norm_eps=1e-6, tie_word_embeddings=True,
                            attention_bias=True, mlp_bias=True, max_position_embeddings=512,
                            rope_parameters={"rope_type": "llama3", "rope_theta": 500000.0,
                                             "factor": 8.0, "low_freq_factor": 1.0,
                                             "high_freq_factor": 4.0,
                                             "original_max_position_embeddings": 64})
    model = sharpen(hf.LlamaForCausalLM(config), 2)
    save("llama3", model, *language(model, [5, 33], 2, 6, 97),
         "llama3 RoPE scaling, biases, tied, odd sizes")


def make_qwen2():
    config = hf.Qwen2Config(hidden_size=64, num_hidden_layers=3, num_attention_heads=4,
                            num_key_value_heads=2, intermediate_size=120, vocab_size=128,
                            rms_norm_eps=1e-6, rope_theta=1000000.0, tie_word_embeddings=True)
    model = sharpen(hf.Qwen2ForCausalLM(config), 3)
    save("qwen2", model, *language(model, [9, 17, 4], 3, 7, 128), "qkv bias, tied")


def make_smollm3():
    config = hf.SmolLM3Config(hidden_size=64, num_hidden_layers=5, num_attention_heads=4,
                              num_key_value_heads=2, intermediate_size=112, vocab_size=128,
                              no_rope_layer_interval=2, pad_token_id=0, bos_token_id=1,
                              eos_token_id=2)
    model = sharpen(hf.SmolLM3ForCausalLM(config), 13)
    save("smollm3", model, *language(model, [13, 6, 2], 3, 8, 128),
         "layers without rotary positions, tied")


def make_gemma():
    config = hf.GemmaConfig(hidden_size=64, num_hidden_layers=4, num_attention_heads=8,
                            num_key_value_heads=1, head_dim=16, intermediate_size=128,
                            vocab_size=128, rms_norm_eps=1e-6)
    model = sharpen(hf.GemmaForCausalLM(config), 4)
    save("gemma", model, *language(model, [8, 13], 3, 8, 128), "1 KV head, 1+w norms")


def siglip_config(**more):
    return dict(dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                     intermediate_size=56, image_size=28, patch_size=14, layer_norm_eps=1e-6,
                     hidden_act="gelu_pytorch_tanh"), **more)


def pixels(seed, *shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def make_siglip():
    config = hf.SiglipVisionConfig(**siglip_config(image_size=42), vision_use_head=False)
    model = sharpen(hf.SiglipVisionModel(config), 5)
    inputs = {"pixel_values": pixels(9, 3, 3, 42, 42)}
    with torch.no_grad():
        out = model(**inputs, output_hidden_states=True)
    expected = {"last_hidden_state": out.last_hidden_state}
    for i, h in enumerate(out.hidden_states[:-1]):
        expected[f"hidden_states.{i}"] = h
    save("siglip", model, inputs, expected, "3 images of 42 px, head_dim 8")


def make_dinov2():
    config = hf.Dinov2WithRegistersConfig(
        hidden_size=48, num_hidden_layers=3, num_attention_heads=3, mlp_ratio=3, image_size=42,
        patch_size=14, num_register_tokens=4, hidden_act="gelu", layer_norm_eps=1e-6)
    model = sharpen(hf.Dinov2WithRegistersModel(config), 6)
    inputs = {"pixel_values": pixels(10, 2, 3, 42, 42)}
    with torch.no_grad():
        out = model(**inputs, output_hidden_states=True)
    expected = {"last_hidden_state": out.last_hidden_state}
    for i, h in enumerate(out.hidden_states[:-1]):
        expected[f"hidden_states.{i}"] = h
    save("dinov2", model, inputs, expected, "4 registers, LayerScale, erf GELU")


def make_paligemma():
    config = hf.PaliGemmaConfig(
        vision_config=siglip_config(model_type="siglip_vision_model", projection_dim=64,
                                    vision_use_head=False),
        text_config=dict(model_type="gemma", hidden_size=64, num_hidden_layers=3,
                         num_attention_heads=8, num_key_value_heads=1, head_dim=16,
                         intermediate_size=128, vocab_size=160, num_image_tokens=4,
                         rms_norm_eps=1e-6),
        image_token_index=130, projection_dim=64, hidden_size=64)
    model = sharpen(hf.PaliGemmaForConditionalGeneration(config), 7)
    image = [130] * 4
    prompts = [image + [2, 17, 5, 99, 108], image + [2, 44, 108]]
    longest = max(map(len, prompts))
    tokens = torch.tensor([p + [0] * (longest - len(p)) for p in prompts])
    mask = torch.tensor([[1] * len(p) + [0] * (longest - len(p)) for p in prompts])
    more = ids(11, (2, 3), 128)
    picture = pixels(12, 2, 3, 28, 28)
    logits = torch.zeros(2, longest, 160)
    steps = torch.zeros(2, 3, 160)
    with torch.no_grad():
        features = model.model.get_image_features(picture)
        features = getattr(features, "pooler_output", features)
        for row, p in enumerate(prompts):
            out = model(input_ids=tokens[row:row + 1, :len(p)], pixel_values=picture[row:row + 1],
                        attention_mask=torch.ones(1, len(p), dtype=torch.long), use_cache=True)
            logits[row, :len(p)] = out.logits[0]
            cache = out.past_key_values
            for i in range(3):
                out = model(input_ids=more[row:row + 1, i:i + 1], past_key_values=cache,
                            attention_mask=torch.ones(1, len(p) + i + 1, dtype=torch.long),
                            use_cache=True)
                steps[row, i] = out.logits[0, -1]
                cache = out.past_key_values
    save("paligemma", model,
         {"input_ids": tokens, "attention_mask": mask, "pixel_values": picture,
          "decode_ids": more},
         {"logits": logits, "decode_logits": steps, "image_features": features},
         "SigLIP + Gemma, bidirectional prefix")


def make_qwen2_5_vl():
    config = hf.Qwen2_5_VLConfig(
        text_config=dict(hidden_size=64, num_hidden_layers=3, num_attention_heads=4,
                         num_key_value_heads=2, intermediate_size=120, vocab_size=160,
                         rms_norm_eps=1e-6, max_position_embeddings=512,
                         rope_parameters={"rope_type": "default", "rope_theta": 1000000.0,
                                          "mrope_section": [2, 3, 3]}),
        vision_config=dict(depth=4, hidden_size=32, num_heads=2, intermediate_size=44,
                           out_hidden_size=64, patch_size=14, spatial_merge_size=2,
                           temporal_patch_size=2, window_size=112, fullatt_block_indexes=[1, 3]),
        image_token_id=151, video_token_id=152, vision_start_token_id=149, vision_end_token_id=150)
    model = sharpen(hf.Qwen2_5_VLForConditionalGeneration(config), 8)
    grids = [(1, 8, 12), (1, 16, 8), (1, 10, 6)]
    count = [h * w // 4 for _, h, w in grids]
    picture = pixels(13, sum(t * h * w for t, h, w in grids), 3 * 2 * 14 * 14)
    prompts = [[3, 149] + [151] * count[0] + [150, 9, 149] + [151] * count[1] + [150, 4, 5],
               [7, 8, 149] + [151] * count[2] + [150, 6]]
    longest = max(map(len, prompts))
    tokens = torch.tensor([p + [0] * (longest - len(p)) for p in prompts])
    mask = torch.tensor([[1] * len(p) + [0] * (longest - len(p)) for p in prompts])
    more = ids(14, (2, 3), 140)
    grid = torch.tensor(grids)
    logits = torch.zeros(2, longest, 160)
    steps = torch.zeros(2, 3, 160)
    at = 0
    rows = [(0, 2), (2, 3)]
    with torch.no_grad():
        features = model.model.get_image_features(picture, grid)
        features = torch.cat(list(getattr(features, "pooler_output", features)))
        for row, p in enumerate(prompts):
            first, end = rows[row]
            patches = sum(t * h * w for t, h, w in grids[first:end])
            tokens_row = tokens[row:row + 1, :len(p)]
            types = (tokens_row == 151).int()
            out = model(input_ids=tokens_row, pixel_values=picture[at:at + patches],
                        image_grid_thw=grid[first:end], mm_token_type_ids=types,
                        attention_mask=torch.ones(1, len(p), dtype=torch.long), use_cache=True)
            at += patches
            logits[row, :len(p)] = out.logits[0]
            cache = out.past_key_values
            position = int(model.model.rope_deltas[0, 0]) + len(p)
            for i in range(3):
                out = model(input_ids=more[row:row + 1, i:i + 1], past_key_values=cache,
                            position_ids=torch.full((3, 1, 1), position + i), use_cache=True)
                steps[row, i] = out.logits[0, -1]
                cache = out.past_key_values
    save("qwen2_5_vl", model,
         {"input_ids": tokens, "attention_mask": mask, "pixel_values": picture,
          "image_grid_thw": grid, "decode_ids": more},
         {"logits": logits, "decode_logits": steps, "image_features": features},
         "images 8x12, 16x8, 10x6 patches, M-RoPE, windows")


def make_smolvlm():
    config = hf.SmolVLMConfig(
        vision_config=dict(model_type="smolvlm_vision", hidden_size=32, num_hidden_layers=2,
                           num_attention_heads=4, intermediate_size=56, image_size=56,
                           patch_size=14, layer_norm_eps=1e-6, hidden_act="gelu_pytorch_tanh"),
        text_config=dict(model_type="llama", hidden_size=60, num_hidden_layers=3,
                         num_attention_heads=3, num_key_value_heads=1, head_dim=20,
                         intermediate_size=96, vocab_size=160, rms_norm_eps=1e-5,
                         rope_parameters={"rope_type": "default", "rope_theta": 100000.0}),
        image_token_id=150, scale_factor=2, pad_token_id=0, tie_word_embeddings=False)
    model = sharpen(hf.SmolVLMForConditionalGeneration(config), 9)
    prompts = [[3, 151] + [150] * 4 + [152, 9, 8], [4] + [150] * 8 + [5]]
    images = [1, 2]
    longest = max(map(len, prompts))
    tokens = torch.tensor([p + [0] * (longest - len(p)) for p in prompts])
    mask = torch.tensor([[1] * len(p) + [0] * (longest - len(p)) for p in prompts])
    more = ids(15, (2, 3), 140)
    picture = pixels(16, 3, 3, 56, 56)
    logits = torch.zeros(2, longest, 160)
    steps = torch.zeros(2, 3, 160)
    at = 0
    with torch.no_grad():
        features = model.model.get_image_features(picture[None])
        features = getattr(features, "pooler_output", features)
        features = features if torch.is_tensor(features) else torch.cat(list(features))
        for row, p in enumerate(prompts):
            out = model(input_ids=tokens[row:row + 1, :len(p)],
                        pixel_values=picture[None, at:at + images[row]],
                        attention_mask=torch.ones(1, len(p), dtype=torch.long), use_cache=True)
            at += images[row]
            logits[row, :len(p)] = out.logits[0]
            cache = out.past_key_values
            for i in range(3):
                out = model(input_ids=more[row:row + 1, i:i + 1], past_key_values=cache,
                            use_cache=True)
                steps[row, i] = out.logits[0, -1]
                cache = out.past_key_values
    save("smolvlm", model,
         {"input_ids": tokens, "attention_mask": mask, "pixel_values": picture,
          "decode_ids": more},
         {"logits": logits, "decode_logits": steps, "image_features": features},
         "SigLIP, pixel shuffle 2, connector, Llama")


def make_pi0():
    config = hf.PI0Config(
        vlm_config=dict(
            model_type="paligemma", image_token_index=130, projection_dim=64, hidden_size=64,
            vision_config=siglip_config(model_type="siglip_vision_model", projection_dim=64,
                                        vision_use_head=False),
            text_config=dict(model_type="gemma", hidden_size=64, num_hidden_layers=3,
                             num_attention_heads=8, num_key_value_heads=1, head_dim=16,
                             intermediate_size=128, vocab_size=160, num_image_tokens=4,
                             rms_norm_eps=1e-6)),
        dit_config=dict(model_type="gemma", hidden_size=48, num_hidden_layers=3,
                        num_attention_heads=8, num_key_value_heads=1, head_dim=16,
                        intermediate_size=96, vocab_size=160, rms_norm_eps=1e-6),
        chunk_size=6, max_action_dim=8, max_state_dim=8, num_inference_steps=4)
    model = hf.PI0ForConditionalGeneration(config)
    sharpen(model, 10)
    with torch.no_grad():  # or four steps multiply rounding by a thousand
        model.action_out_proj.weight.mul_(0.2)

    def waves(self, time):
        """As PI0TimestepEmbeddings, in f64, as openpi computes it."""
        place = torch.linspace(0, 1, 24, dtype=torch.float64)
        angle = 2 * torch.pi / (4e-3 * 1000 ** place) * time.double()[:, None]
        return torch.cat([angle.sin(), angle.cos()], dim=1).float()

    type(model.embed_action_time.sinusoid_embeds).forward = waves
    words = [2, 17, 5, 99, 108]
    picture = pixels(17, 1, 3, 3, 28, 28)
    noise = torch.randn(1, 6, 8, generator=torch.Generator().manual_seed(18))
    state = torch.randn(1, 8, generator=torch.Generator().manual_seed(19))
    tokens = torch.tensor([[130] * 8 + words])
    there = torch.tensor([[True, True, False]])
    velocities = []
    hook = model.action_out_proj.register_forward_hook(lambda m, i, o: velocities.append(o.clone()))
    with torch.no_grad():
        actions = model.sample_actions(
            state=state, input_ids=tokens, pixel_values=picture, noise=noise,
            attention_mask=torch.ones_like(tokens), pixel_attention_mask=there)
    hook.remove()
    expected = {"actions": actions}
    for i, v in enumerate(velocities):
        expected[f"velocity{i}"] = v
    inputs = {f"image{i}": picture[:, i] for i in range(3)}
    inputs |= {"image_mask": there[0], "tokens": torch.tensor([words + [0, 0]]),
               "token_mask": torch.tensor([[True] * 5 + [False] * 2]), "noise": noise,
               "state": state}
    save("pi0", model, inputs, expected, "third camera masked, 4 steps")


def make_openvla():
    import timm
    dino = timm.create_model("vit_large_patch14_reg4_dinov2", img_size=28, depth=3, embed_dim=48,
                             num_heads=3, num_classes=0)
    siglip = timm.create_model("vit_so400m_patch14_siglip_224", img_size=28, depth=3, embed_dim=32,
                               num_heads=4, num_classes=0)
    text = hf.LlamaConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                          intermediate_size=112, vocab_size=320, rms_norm_eps=1e-6)

    class Parts(torch.nn.Module):
        """The names and the arithmetic of OpenVLA's checkpoints, over timm and transformers."""

        def __init__(self):
            super().__init__()
            self.vision_backbone = torch.nn.Module()
            self.vision_backbone.featurizer = dino
            self.vision_backbone.fused_featurizer = siglip
            self.projector = torch.nn.Module()
            both = dino.embed_dim + siglip.embed_dim
            self.projector.fc1 = torch.nn.Linear(both, 4 * both)
            self.projector.fc2 = torch.nn.Linear(4 * both, text.hidden_size)
            self.projector.fc3 = torch.nn.Linear(text.hidden_size, text.hidden_size)
            self.language_model = hf.LlamaForCausalLM(text)

        def features(self, six):
            one = lambda m, x: m.get_intermediate_layers(x, n={len(m.blocks) - 2})[0]
            both = torch.cat([one(dino, six[:, :3]), one(siglip, six[:, 3:])], dim=2)
            gelu = torch.nn.functional.gelu
            p = self.projector
            return p.fc3(gelu(p.fc2(gelu(p.fc1(both)))))

    model = sharpen(Parts(), 11)
    with torch.no_grad():
        for tower in (dino, siglip):
            tower.pos_embed.mul_(0.07)
    picture = pixels(20, 2, 6, 28, 28)
    rows = [[1, 9, 44, 7], [1, 12]]
    patches = 4
    longest = max(map(len, rows))
    tokens = torch.tensor([r + [0] * (longest - len(r)) for r in rows])
    mask = torch.tensor([[1] * len(r) + [0] * (longest - len(r)) for r in rows])
    logits = torch.zeros(2, longest + patches, 320)
    greedy = torch.zeros(2, 7, dtype=torch.long)
    with torch.no_grad():
        features = model.features(picture)
        embed = model.language_model.get_input_embeddings()
        for row, r in enumerate(rows):
            words = embed(torch.tensor([r]))
            whole = torch.cat([words[:, :1], features[row:row + 1], words[:, 1:]], dim=1)
            for i in range(7):
                out = model.language_model(inputs_embeds=whole).logits[0]
                if i == 0:
                    logits[row, :len(out)] = out
                top = out[-1].topk(2).values
                assert top[0] - top[1] > 1e-3
                greedy[row, i] = out[-1].argmax()
                whole = torch.cat([whole, embed(greedy[row:row + 1, i:i + 1])], dim=1)
    # Bins as OpenVLA's predict_action takes them, with a vocabulary of 300 real tokens.
    statistics = {"q01": [-1.0, -0.5, 0.0, -2.0, 0.1, 0.2, 0.0],
                  "q99": [1.0, 0.5, 2.0, 2.0, 0.4, 0.9, 1.0], "mask": [True] * 6 + [False]}
    edges = torch.linspace(-1, 1, 256, dtype=torch.float64)
    centres = (edges[:-1] + edges[1:]) / 2
    low, high = (torch.tensor(statistics[k], dtype=torch.float64) for k in ("q01", "q99"))
    normal = centres[(300 - greedy - 1).clamp(0, 254)]
    actions = torch.where(torch.tensor(statistics["mask"]), 0.5 * (normal + 1) * (high - low) + low,
                          normal)
    directory = HERE / "openvla"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    names = {k.replace(".gamma", ".scale_factor"): v.contiguous()
             for k, v in model.state_dict().items()
             if not (text.tie_word_embeddings and k.endswith("lm_head.weight"))}
    save_file(names, str(directory / "model.safetensors"))
    config = {"model_type": "openvla", "text_config": text.to_dict(), "image_sizes": [28, 28],
              "use_fused_vision_backbone": True, "vision_backbone_id": "dinosiglip-vit-so-224px",
              "pad_to_multiple_of": 20, "n_action_bins": 256,
              "dino_config": {"hidden_size": dino.embed_dim, "num_hidden_layers": len(dino.blocks),
                              "num_attention_heads": dino.blocks[0].attn.num_heads, "mlp_ratio": 4},
              "siglip_config": {"hidden_size": siglip.embed_dim,
                                "num_hidden_layers": len(siglip.blocks),
                                "num_attention_heads": siglip.blocks[0].attn.num_heads,
                                "intermediate_size": siglip.blocks[0].mlp.fc1.out_features},
              "norm_stats": {"toy": {"action": statistics}}}
    config["text_config"] = {k: v for k, v in config["text_config"].items() if v is not None}
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file({"input_ids": tokens, "attention_mask": mask, "pixel_values": picture,
               "max_new_tokens": torch.tensor([7])}, str(directory / "inputs.safetensors"))
    save_file({"logits": logits, "greedy_ids": greedy, "image_features": features.reshape(-1, text.hidden_size),
               "actions.toy": actions.float()}, str(directory / "expected.safetensors"))
    print(f"openvla: timm {timm.__version__}")


def only_smolvla():
    """Lets lerobot.policies.smolvla be imported without the other policies."""
    import types
    import lerobot
    for name in ("policies", "policies.smolvla"):
        package = types.ModuleType("lerobot." + name)
        package.__path__ = [str(pathlib.Path(lerobot.__file__).parent / name.replace(".", "/"))]
        sys.modules["lerobot." + name] = package


def make_smolvla():
    """lerobot's own modules, with the configuration given instead of fetched."""
    import types
    only_smolvla()
    import lerobot.policies.smolvla.smolvlm_with_expert as part
    vlm = hf.SmolVLMConfig(
        vision_config=dict(model_type="smolvlm_vision", hidden_size=32, num_hidden_layers=2,
                           num_attention_heads=4, intermediate_size=56, image_size=56,
                           patch_size=14, layer_norm_eps=1e-6, hidden_act="gelu_pytorch_tanh"),
        text_config=dict(model_type="llama", hidden_size=64, num_hidden_layers=6,
                         num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                         intermediate_size=96, vocab_size=160, rms_norm_eps=1e-5),
        image_token_id=150, scale_factor=2, pad_token_id=0, tie_word_embeddings=False)
    tokenizer = types.SimpleNamespace(fake_image_token_id=1, global_image_token_id=2)
    part.AutoConfig = types.SimpleNamespace(from_pretrained=lambda _: vlm)
    part.AutoProcessor = types.SimpleNamespace(
        from_pretrained=lambda _: types.SimpleNamespace(tokenizer=tokenizer))
    part.get_intermediate_size = lambda hidden: 80
    import lerobot.policies.smolvla.modeling_smolvla as smolvla
    config = types.SimpleNamespace(
        vlm_model_name="-", freeze_vision_encoder=True, train_expert_only=True,
        load_vlm_weights=False, attention_mode="cross_attn", num_expert_layers=-1,
        num_vlm_layers=4, self_attn_every_n_layers=2, expert_width_multiplier=0.75, device="cpu",
        max_state_dim=8, max_action_dim=8, add_image_special_tokens=False, prefix_length=-1,
        compile_model=False, rtc_config=None, chunk_size=6, num_steps=4, use_cache=True,
        min_period=4e-3, max_period=4.0, train_state_proj=True)
    model = sharpen(smolvla.VLAFlowMatching(config), 12)
    with torch.no_grad():
        model.action_out_proj.weight.mul_(0.2)
    picture = pixels(21, 1, 2, 3, 56, 56)
    words = [9, 17, 5, 99]
    tokens = torch.tensor([words + [0, 0]])
    mask = torch.tensor([[True] * 4 + [False] * 2])
    noise = torch.randn(1, 6, 8, generator=torch.Generator().manual_seed(22))
    state = torch.randn(1, 8, generator=torch.Generator().manual_seed(23))
    there = torch.tensor([True, False])
    velocities = []
    hook = model.action_out_proj.register_forward_hook(lambda m, i, o: velocities.append(o.clone()))
    with torch.no_grad():
        actions = model.sample_actions([picture[:, 0], picture[:, 1]],
                                       [there[:1], there[1:]], tokens, mask, state, noise=noise)
    hook.remove()
    directory = HERE / "smolvla"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    save_file({"model." + k: v.contiguous().clone() for k, v in model.state_dict().items()},
              str(directory / "model.safetensors"))
    (directory / "config.json").write_text(json.dumps({
        "type": "smolvla", "chunk_size": 6, "max_action_dim": 8, "max_state_dim": 8,
        "num_steps": 4, "num_vlm_layers": 4, "num_expert_layers": -1, "num_cameras": 2,
        "self_attn_every_n_layers": 2, "expert_width_multiplier": 0.75,
        "attention_mode": "cross_attn", "expert_intermediate_size": 80,
        "vlm_config": json.loads(vlm.to_json_string(use_diff=False))}, indent=2) + "\n")
    inputs = {f"image{i}": picture[:, i].contiguous() for i in range(2)}
    save_file(inputs | {"image_mask": there, "tokens": tokens, "token_mask": mask, "noise": noise,
                        "state": state}, str(directory / "inputs.safetensors"))
    save_file({"actions": actions} | {f"velocity{i}": v for i, v in enumerate(velocities)},
              str(directory / "expected.safetensors"))
    import lerobot
    print(f"smolvla: lerobot {lerobot.__version__}")


def make_dit():
    """diffusers' DiT, and its pipeline's loop (DDIM, guided) with its scheduler."""
    import diffusers
    torch.manual_seed(26)
    model = diffusers.DiTTransformer2DModel(
        num_attention_heads=3, attention_head_dim=16, in_channels=4, out_channels=8, num_layers=2,
        sample_size=8, patch_size=2, num_embeds_ada_norm=10, norm_eps=1e-3)
    model = sharpen(model, 26)
    g = torch.Generator().manual_seed(27)
    latents = torch.randn(3, 4, 8, 8, generator=g)
    times = torch.tensor([999, 20, 501])
    classes = torch.tensor([3, 10, 0])
    noise = torch.randn(3, 4, 8, 8, generator=g) * 0.3
    scheduler = diffusers.DDIMScheduler(clip_sample=False)
    scheduler.set_timesteps(4)
    guidance = 1.5
    x = torch.cat([noise, noise])
    both = torch.cat([classes, torch.full((3,), 10)])
    with torch.no_grad():
        sample = model(latents, timestep=times, class_labels=classes).sample
        for t in scheduler.timesteps:
            x = torch.cat([x[:3], x[:3]])
            made = model(x, timestep=t.expand(6), class_labels=both).sample[:, :4]
            classed, plain = made.split(3)
            made = plain + guidance * (classed - plain)
            x = scheduler.step(torch.cat([made, made]), t, x).prev_sample
    save("dit", model,
         {"hidden_states": latents, "timestep": times, "class_labels": classes, "noise": noise,
          "num_inference_steps": torch.tensor([4.0]), "guidance_scale": torch.tensor([guidance])},
         {"sample": sample, "latents": x[:3]}, f"diffusers {diffusers.__version__}")


def make_vae():
    import diffusers
    torch.manual_seed(28)
    model = diffusers.AutoencoderKL(
        down_block_types=["DownEncoderBlock2D"] * 3, up_block_types=["UpDecoderBlock2D"] * 3,
        block_out_channels=[16, 16, 32], layers_per_block=1, norm_num_groups=8, sample_size=32)
    del model.encoder.down_blocks, model.encoder.mid_block, model.encoder.conv_in
    del model.encoder.conv_norm_out, model.encoder.conv_out, model.quant_conv
    model = sharpen(model, 28)
    latents = torch.randn(2, 4, 5, 7, generator=torch.Generator().manual_seed(29))
    with torch.no_grad():
        sample = model.decode(latents).sample
    save("vae", model, {"latents": latents}, {"sample": sample},
         f"diffusers {diffusers.__version__}, without the encoder")


if __name__ == "__main__":
    print(f"transformers {hf.__version__}, torch {torch.__version__}")
    makers = {k[5:]: v for k, v in list(globals().items()) if k.startswith("make_")}
    for name in sys.argv[1:] or makers:
        makers[name]()
