#!/usr/bin/env python3
"""Asks SmolLM2-135M-Instruct ten questions: `sluice model ask` must answer as transformers does, greedily, and so must
`sluice chat` when they are the ten turns of one conversation.

Usage: ask_smollm2.py SLUICE FILE.gguf FOLDER       FILE.gguf: what tools/fetch_model prints

transformers dequantises the file to f32. In FOLDER it leaves the same as a checkpoint directory (config.json,
model.safetensors, tokenizer.json), which is asked too.
Not in the package lists: safetensors, torch, transformers (and gguf and accelerate)
"""
import json
import pathlib
import subprocess
import sys

import torch
import transformers as hf
from safetensors.torch import save_file

PROMPTS = [
    "What is the capital of France?", "Name three primary colors.", "Write one sentence about the sea.",
    "How many days are in a week?", "What is 2 + 3?", "Translate 'good morning' into Spanish.",
    "Who wrote Romeo and Juliet?", "Explain gravity to a child.", "List two fruits.", "What do bees make?",
]
TOKENS = 40


def reference(path, folder):
    file = {"gguf_file": path.name}
    tokenizer = hf.AutoTokenizer.from_pretrained(path.parent, **file)
    model = hf.AutoModelForCausalLM.from_pretrained(path.parent, dtype=torch.float32, **file).eval()
    pathlib.Path(folder).mkdir(exist_ok=True)
    config = {k: v for k, v in model.config.to_dict().items() if k != "quantization_config"}
    (pathlib.Path(folder) / "config.json").write_text(json.dumps(config))
    save_file({k: v.contiguous() for k, v in model.state_dict().items() if k != "lm_head.weight"},
              f"{folder}/model.safetensors")
    tokenizer.save_pretrained(folder)

    def answer(turns):
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        ids = tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids
        with torch.no_grad():
            out = model.generate(ids, do_sample=False, max_new_tokens=TOKENS, eos_token_id=tokenizer.eos_token_id,
                                 pad_token_id=0, attention_mask=torch.ones_like(ids))
        return tokenizer.decode(out[0, ids.shape[1]:], skip_special_tokens=True)

    turns, replies = [], []
    for prompt in PROMPTS:
        turns.append({"role": "user", "content": prompt})
        replies.append(answer(turns))
        turns.append({"role": "assistant", "content": replies[-1]})
    return [answer([{"role": "user", "content": prompt}]) for prompt in PROMPTS], replies


def main():
    sluice, path, folder = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), sys.argv[3]
    wrong = 0
    answers, replies = reference(path, folder)
    for prompt, want in zip(PROMPTS, answers):
        for model in (str(path), folder):
            done = subprocess.run([sluice, "model", "ask", model, prompt, "--tokens", str(TOKENS)],
                                  capture_output=True, text=True)
            same = done.returncode == 0 and done.stdout.rstrip("\n") == want.rstrip("\n")
            wrong += not same
            print("same " if same else "OTHER", pathlib.Path(model).name[:12], repr(want if same else done.stdout), flush=True)
            if not same:
                print("  want", repr(want), done.stderr[-200:])
    for model in (str(path), folder):
        done = subprocess.run([sluice, "chat", model, "--max-tokens", str(TOKENS)], input="\n".join(PROMPTS) + "\n",
                              capture_output=True, text=True)
        same = done.returncode == 0 and done.stdout.strip() == "\n".join(replies).strip()
        wrong += 0 if same else len(PROMPTS)
        print("same " if same else "OTHER", pathlib.Path(model).name[:12], "ten turns", repr(done.stdout[-200:]), flush=True)
        if not same:
            print("  want", repr("\n".join(replies)), done.stderr[-200:])
    print(f"{4 * len(PROMPTS) - wrong} of {4 * len(PROMPTS)} answers are the same")
    sys.exit(wrong != 0)


main()
