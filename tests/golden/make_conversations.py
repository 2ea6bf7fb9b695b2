#!/usr/bin/env python3
"""Makes what surrounds a model: pictures prepared, chats as text, sampling, conversations from file to answer.

Usage: make_conversations.py [pictures|chat|sampling|conversation_smolvlm|conversation_qwen...] [--against=FOLDER]

`--against`: a folder of public chat templates, with which those of our own are compared.
Not in the package lists: torch, transformers, safetensors, numpy, PIL, openpi_client, lerobot, tokenizers
(besides what make.py needs; Pillow before 13)
"""
import json
import pathlib
import shutil
import sys

import torch
import transformers as hf
from safetensors.torch import save_file

from make import HERE, ids, only_smolvla, sharpen


def make_pictures():
    """What each family's own preprocessing makes of pictures of odd sizes. Pillow before 13: since
    then it shrinks rows or columns first, whichever is cheaper, which moves some values by a level.
    """
    import PIL
    assert int(PIL.__version__.split(".")[0]) < 13, PIL.__version__
    import numpy as np
    import torch.nn.functional as F
    from PIL import Image
    from openpi_client import image_tools
    only_smolvla()
    from lerobot.policies.smolvla.modeling_smolvla import resize_with_pad
    from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
    from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil
    g = torch.Generator().manual_seed(30)
    pictures = []
    for height, width in ((37, 61), (90, 40), (23, 23)):
        coarse = torch.rand(1, 3, 5, 7, generator=g)
        smooth = F.interpolate(coarse, (height, width), mode="bicubic")[0].permute(1, 2, 0)
        grain = 0.15 * torch.randn(height, width, 3, generator=g)
        pictures.append((255 * (smooth + grain).clamp(0, 1)).byte().numpy())
    tensors = {f"picture{i}": torch.from_numpy(p) for i, p in enumerate(pictures)}
    vision = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
              "intermediate_size": 32, "image_size": 28, "patch_size": 7}
    text = {"vocab_size": 8, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
            "num_key_value_heads": 2, "intermediate_size": 32}
    smol = {"model_type": "smolvlm", "text_config": text, "vision_config": vision}
    cases = []

    def case(name, config, processor, make):
        for i, picture in enumerate(pictures):
            made = make(picture)
            made = made if isinstance(made, dict) else {"pixel_values": made}
            tensors[f"{name}.{i}"] = made["pixel_values"].float().contiguous()
            if "image_grid_thw" in made:
                tensors[f"{name}.{i}.grid"] = made["image_grid_thw"]
        cases.append({"name": name, "config": config, "preprocessor": processor})

    def by(processor):
        return lambda p: dict(processor(images=Image.fromarray(p), return_tensors="pt"))

    size = {"height": 28, "width": 28}
    case("siglip", vision | {"model_type": "siglip_vision_model"}, {"size": size},
         by(SiglipImageProcessorPil(size=size)))
    case("bilinear", vision | {"model_type": "siglip_vision_model"},
         {"size": {"height": 50, "width": 31}, "resample": 2, "image_std": [0.2, 0.3, 0.4]},
         by(SiglipImageProcessorPil(size={"height": 50, "width": 31}, resample=2,
                                    image_std=[0.2, 0.3, 0.4])))
    bit = {"size": {"shortest_edge": 33}, "crop_size": size}
    case("dinov2", {"model_type": "dinov2", "hidden_size": 32, "num_hidden_layers": 1,
                    "num_attention_heads": 4, "image_size": 28, "patch_size": 14}, bit,
         by(BitImageProcessorPil(**bit, image_mean=[0.485, 0.456, 0.406],
                                 image_std=[0.229, 0.224, 0.225])))
    qwen = {"model_type": "qwen2_5_vl", "text_config": text,
            "vision_config": {"depth": 1, "hidden_size": 32, "num_heads": 4,
                              "intermediate_size": 32, "out_hidden_size": 32}}
    for name, low, high in (("qwen", 56 * 56, 28 * 28 * 1280), ("qwen_small", 28 * 28, 2400)):
        case(name, qwen, {"min_pixels": low, "max_pixels": high},
             by(Qwen2VLImageProcessorPil(size={"shortest_edge": low, "longest_edge": high})))
    for name, split in (("smolvlm", True), ("smolvlm_whole", False)):
        options = {"size": {"longest_edge": 70}, "max_image_size": {"longest_edge": 28},
                   "do_image_splitting": split}
        case(name, smol, options, by(SmolVLMImageProcessorPil(**options)))
    policy = {"model_type": "pi05", "vision_config": vision}
    case("pi05", policy, {}, lambda p: torch.from_numpy(
        image_tools.resize_with_pad(p, 28, 28).astype(np.float32) / 255 * 2 - 1).permute(2, 0, 1))
    case("smolvla", {"type": "smolvla", "vlm_config": smol}, {}, lambda p: resize_with_pad(
        torch.from_numpy(p).permute(2, 0, 1)[None].float() / 255, 28, 28, pad_value=0) * 2 - 1)
    directory = HERE / "pictures"
    directory.mkdir(exist_ok=True)
    save_file({k: v.contiguous() for k, v in tensors.items()},
              str(directory / "expected.safetensors"))
    (directory / "cases.json").write_text(json.dumps(cases, indent=1) + "\n")
    print("pictures:", len(cases), "cases")


def trained_tokenizer(special):
    """A byte-level BPE with the given special tokens at the vocabulary's end."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        ["What is on the table? A red cup and a green plate.", "user assistant system Assistant:"],
        trainers.BpeTrainer(vocab_size=300, show_progress=False,
                            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_special_tokens(special)
    return hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def conversation(name, model, tokenizer, template, processor, config, text):
    """A chat with a picture, from the file to the answer, by the family's own processor."""
    from PIL import Image
    import torch.nn.functional as F
    g = torch.Generator().manual_seed(31)
    smooth = F.interpolate(torch.rand(1, 3, 4, 5, generator=g), (44, 70), mode="bicubic")
    picture = (255 * smooth[0].permute(1, 2, 0).clamp(0, 1)).byte().numpy()
    inputs = processor(text=text, images=[Image.fromarray(picture)], return_tensors="pt")
    with torch.no_grad():
        made = model.generate(**inputs, max_new_tokens=12, do_sample=False, eos_token_id=None)
        gaps = model(**inputs).logits[0, -1].topk(2).values
    assert gaps[0] - gaps[1] > 1e-3
    answer = made[0, inputs["input_ids"].shape[1]:]
    directory = HERE / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    model.save_pretrained(directory)
    for extra in directory.glob("generation_config.json"):
        extra.unlink()
    tokenizer.save_pretrained(directory)
    for extra in ("special_tokens_map.json", "chat_template.jinja", "added_tokens.json"):
        (directory / extra).unlink(missing_ok=True)
    with open(directory / "tokenizer.json", "a") as stored:
        stored.write("\n")
    (directory / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": template}, indent=1) + "\n")
    (directory / "preprocessor_config.json").write_text(json.dumps(config, indent=1) + "\n")
    Image.fromarray(picture).save(directory / "picture.png")
    (directory / "expected.json").write_text(json.dumps({
        "prompt_ids": inputs["input_ids"][0].tolist(), "answer_ids": answer.tolist(),
        "answer": tokenizer.decode(answer, skip_special_tokens=True)}) + "\n")
    print(f"{name}: {inputs['input_ids'].shape[1]} tokens in, {answer.tolist()}")


def make_conversation_smolvlm():
    from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil
    rows = [f"<row_{r}_col_{c}>" for r in range(1, 4) for c in range(1, 4)]
    tokenizer = trained_tokenizer(["<|im_start|>", "<end_of_utterance>", "<fake_token_around_image>",
                                   "<image>", "<global-img>", *rows])
    tokenizer.pad_token = tokenizer.eos_token = "<end_of_utterance>"
    image = tokenizer.convert_tokens_to_ids("<image>")
    config = hf.SmolVLMConfig(
        vision_config=dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                           intermediate_size=56, image_size=28, patch_size=7,
                           layer_norm_eps=1e-6, hidden_act="gelu_pytorch_tanh"),
        text_config=dict(model_type="llama", hidden_size=64, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, intermediate_size=96,
                         vocab_size=len(tokenizer), rms_norm_eps=1e-5, pad_token_id=0),
        image_token_id=image, scale_factor=2, pad_token_id=0, tie_word_embeddings=False)
    model = sharpen(hf.SmolVLMForConditionalGeneration(config), 32)
    options = {"size": {"longest_edge": 56}, "max_image_size": {"longest_edge": 28}}
    images = SmolVLMImageProcessorPil(**options, return_row_col_info=True)
    template = ("<|im_start|>{% for message in messages %}{{ message.role | capitalize }}: "
                "{{ message.content }}<end_of_utterance>\n{% endfor %}Assistant:")
    # What SmolVLMProcessor makes of "<image>"; the class itself wants a video processor's library.
    def processor(text, images_=None, images=None, return_tensors=None, by=images):
        made = dict(by(images=images, return_tensors="pt"))
        row_count, column_count = made.pop("rows")[0][0], made.pop("cols")[0][0]
        from transformers.models.smolvlm.processing_smolvlm import get_image_prompt_string
        string = get_image_prompt_string(row_count, column_count, 4, "<fake_token_around_image>",
                                         "<image>", "<global-img>")
        return made | dict(tokenizer(text.replace("<image>", string), return_tensors="pt",
                                     add_special_tokens=False))
    conversation("conversation_smolvlm", model, tokenizer, template, processor, options,
         "<|im_start|>User:<image>What is on the table?<end_of_utterance>\nAssistant:")


def make_conversation_qwen():
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
    tokenizer = trained_tokenizer(["<|im_start|>", "<|im_end|>", "<|vision_start|>",
                                   "<|vision_end|>", "<|image_pad|>", "<|video_pad|>",
                                   "<|endoftext|>"])
    token = tokenizer.convert_tokens_to_ids
    config = hf.Qwen2_5_VLConfig(
        vision_config=dict(depth=2, hidden_size=32, num_heads=2, intermediate_size=48,
                           out_hidden_size=64, patch_size=7, spatial_merge_size=2, window_size=28,
                           fullatt_block_indexes=[1]),
        text_config=dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, intermediate_size=96, vocab_size=len(tokenizer),
                         rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                                          "mrope_section": [2, 3, 3]}),
        image_token_id=token("<|image_pad|>"), video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"))
    model = sharpen(hf.Qwen2_5_VLForConditionalGeneration(config), 33)
    options = {"min_pixels": 14 * 14, "max_pixels": 2000, "patch_size": 7}
    images = Qwen2VLImageProcessorPil(
        size={"shortest_edge": 14 * 14, "longest_edge": 2000}, patch_size=7)

    def processor(text, images=None, return_tensors=None, by=images):
        made = dict(by(images=images, return_tensors="pt"))
        count = int(made["image_grid_thw"].prod()) // 4
        tokens = tokenizer(text.replace("<|image_pad|>", "<|image_pad|>" * count),
                           return_tensors="pt", add_special_tokens=False)
        made["mm_token_type_ids"] = (tokens["input_ids"] == token("<|image_pad|>")).long()
        return made | dict(tokens)
    conversation("conversation_qwen", model, tokenizer, CHATS["qwen2"], processor, options,
         "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
         "<|vision_start|><|image_pad|><|vision_end|>What is on the table?<|im_end|>\n"
         "<|im_start|>assistant\n")


# Templates of our own with the marks and the output of the public ones.
CHATML = ("{% for m in messages %}{% if loop.first and m.role != 'system' %}<|im_start|>system\nSYSTEM"
          "<|im_end|>\n{% endif %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
          "{{ '<|im_start|>assistant\\n' }}")
CHATS = {
    "qwen2_5": CHATML.replace("SYSTEM", "You are Qwen, created by Alibaba Cloud. "
                                        "You are a helpful assistant."),
    "qwen2": CHATML.replace("SYSTEM", "You are a helpful assistant."),
    "chatml": "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + "
              "'<|im_end|>\\n' }}{% endfor %}{{ '<|im_start|>assistant\\n' }}",
    "llama3": "<|begin_of_text|>{% for m in messages %}<|start_header_id|>{{ m.role }}"
              "<|end_header_id|>\n\n{{ m.content | trim }}<|eot_id|>{% endfor %}"
              "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}",
    "llama3_1": "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge "
                "Date: December 2023\nToday Date: 26 Jul 2024\n\n{% if messages[0].role == 'system' "
                "%}{{ messages[0].content | trim }}{% set messages = messages[1:] %}{% endif %}"
                "<|eot_id|>{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>"
                "\n\n{{ m.content | trim }}<|eot_id|>{% endfor %}"
                "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}",
    "gemma": "<bos>{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
             "{% for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}"
             "\n{{ m.content | trim }}<end_of_turn>\n{% endfor %}"
             "{{ '<start_of_turn>model\\n' }}",
}
# The public templates whose output must be the same: file names of a folder given by --against.
PUBLIC = {"qwen2_5": "Qwen-Qwen2.5-7B-Instruct.jinja", "gemma": "google-gemma-2-2b-it.jinja",
          "llama3_1": "meta-llama-Llama-3.1-8B-Instruct.jinja"}


def make_chat(against=None):
    """Chats rendered by jinja as transformers sets it up."""
    from transformers.utils.chat_template_utils import render_jinja_template
    chats = [[("user", " What is on the table?\n")],
             [("system", "Be brief. "), ("user", "Hi"), ("assistant", "Hello "), ("user", "Wer?")]]
    cases = []
    for name, template in CHATS.items():
        for chat in chats:
            messages = [{"role": role, "content": text} for role, text in chat]

            def render(text):
                try:
                    return render_jinja_template([messages], chat_template=text,
                                                 add_generation_prompt=True, bos_token={
                                                     "gemma": "<bos>", "llama3_1": "<|begin_of_text|>"
                                                 }.get(name, ""), date_string="26 Jul 2024")[0][0]
                except Exception:  # the template's own refusal
                    return None
            rendered = render(template)
            if against and name in PUBLIC:
                public = render((pathlib.Path(against) / PUBLIC[name]).read_text())
                assert rendered == public, (name, rendered, public)
                print(f"chat: {name} as {PUBLIC[name]}")
            cases.append({"name": name, "template": template, "messages": messages,
                          "rendered": rendered})
    (HERE / "chat").mkdir(exist_ok=True)
    (HERE / "chat" / "cases.json").write_text(json.dumps(cases, indent=1) + "\n")
    print("chat:", len(cases), "cases")


def make_sampling():
    """What is drawn from, by transformers' own processors and warpers, in their order."""
    from transformers import generation as g
    logits = torch.randn(6, 50, generator=torch.Generator().manual_seed(24)) * 3
    history = ids(25, (6, 12), 50, 0)
    cases = []
    for row, options in enumerate([
            dict(temperature=0.7), dict(temperature=1.3, top_k=7), dict(temperature=1.0, top_p=0.8),
            dict(temperature=0.9, min_p=0.1), dict(temperature=1.0, repetition_penalty=1.8),
            dict(temperature=1.1, top_k=20, top_p=0.9, min_p=0.02, repetition_penalty=1.2)]):
        scores = logits[row:row + 1]
        past = history[row:row + 1]
        if "repetition_penalty" in options:
            scores = g.RepetitionPenaltyLogitsProcessor(options["repetition_penalty"])(past, scores)
        scores = g.TemperatureLogitsWarper(options["temperature"])(past, scores)
        if "top_k" in options:
            scores = g.TopKLogitsWarper(options["top_k"])(past, scores)
        if "top_p" in options:
            scores = g.TopPLogitsWarper(options["top_p"])(past, scores)
        if "min_p" in options:
            scores = g.MinPLogitsWarper(options["min_p"])(past, scores)
        cases.append({"options": options, "logits": logits[row].tolist(),
                      "history": history[row].tolist(),
                      "probabilities": scores.softmax(-1)[0].tolist()})
    (HERE / "sampling").mkdir(exist_ok=True)
    (HERE / "sampling" / "cases.json").write_text(json.dumps(cases) + "\n")
    print("sampling:", len(cases), "cases")


if __name__ == "__main__":
    print(f"transformers {hf.__version__}, torch {torch.__version__}")
    makers = {k[5:]: v for k, v in list(globals().items()) if k.startswith("make_")}
    against = [a.split("=", 1)[1] for a in sys.argv if a.startswith("--against=")]
    for name in [a for a in sys.argv[1:] if not a.startswith("--")] or makers:
        makers[name](*(against if name == "chat" else ()))
