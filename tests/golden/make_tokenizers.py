#!/usr/bin/env python3
"""Trains small tokenizers in the style of each family and writes what they make of tricky texts.

Usage: make_tokenizers.py
Not in the package lists: tokenizers, sentencepiece (the tests need none)
"""
import json
import pathlib

import sentencepiece
import tokenizers
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors, trainers)

HERE = pathlib.Path(__file__).resolve().parent / "tokenizers"
CORPUS = (pathlib.Path(__file__).resolve().parents[2] / "README.md").read_text() + """
The robot's gripper isn't open; we'll move it 12.5 cm to the left, then it'll say "done".
L'été, les garçons mangèrent des crêpes à 3,50 €. Straße, Größe, Übermut. Привет, мир!
你好，世界。今天天气很好。 日本語のテキスト 한국어 텍스트 🙂🚀 نص عربي
def f(x):\n    return x ** 2  # comment\n\n\n
""" * 3

TEXTS = [
    "", " ", "  ", "a", "Hello world", " hello  world ", "The robot's gripper isn't open.",
    "WE'LL SEE, it'll be 12345.678", "tabs\tand\nnew lines\n\n\n  end", "naïve café déjà vu",
    "nai\u0308ve cafe\u0301", "你好，世界。", "日本語 テキスト 한국어", "🙂🚀 emoji 👩‍👩‍👧", "نص عربي 123",
    "Привет, мир!", "x=1;y=2;z=x**y", "def f(x):\n    return x", "https://a.b/c?d=e&f=%20",
    "<s> inside", "<|im_start|>user\nhi<|im_end|>\n", "a<|im_end|>b", "<bos>x</s>", "½ ⅓ ² ３４",
    "\u00a0nbsp\u3000wide", "ends with space ", "     five", "don't DON'T Don't", "▁under▁score",
    "zero\u0000byte", "a\u200bb", "100000 1 22 333", "MixedCASE words ΑΒΓ αβγ", "\r\n windows \r\n",
]


def cases(tokenizer):
    made = []
    for text in TEXTS:
        plain = tokenizer.encode(text, add_special_tokens=False)
        tokenizer.encode_special_tokens = True
        quoted = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = False
        made.append({"text": text, "ids": plain.ids,
                     "with_special": tokenizer.encode(text, add_special_tokens=True).ids,
                     **({"quoted": quoted} if quoted != plain.ids else {}),
                     "decoded": tokenizer.decode(plain.ids, skip_special_tokens=True),
                     "decoded_all": tokenizer.decode(plain.ids, skip_special_tokens=False)})
    # Any ids must decode, also in an order that no text gives.
    size = tokenizer.get_vocab_size()
    for seed in range(8):
        ids = [(seed * 7919 + i * 104729) % size for i in range(17)]
        made.append({"text": None, "ids": ids,
                     "decoded": tokenizer.decode(ids, skip_special_tokens=True),
                     "decoded_all": tokenizer.decode(ids, skip_special_tokens=False)})
    return made


def save(name, tokenizer):
    (HERE / name).mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(HERE / name / "tokenizer.json"), pretty=False)
    text = json.dumps(cases(tokenizer), ensure_ascii=True, indent=0)
    (HERE / name / "cases.json").write_text(text + "\n")
    path = HERE / name / "tokenizer.json"
    path.write_text(path.read_text() + "\n")
    print(name, tokenizer.get_vocab_size(), path.stat().st_size)


def train(tokenizer, **more):
    tokenizer.train_from_iterator([CORPUS], trainers.BpeTrainer(vocab_size=600, show_progress=False,
                                                               **more))


def special(content, **more):
    return AddedToken(content, normalized=False, special=True, **more)


QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")


def byte_level(name, pattern, limit, ignore_merges=False, normalizer=None):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    train(t, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    t.add_special_tokens([special("<|im_start|>"), special("<|im_end|>"),
                          special("<|begin_of_text|>")])
    t.add_tokens([AddedToken("<tool>", normalized=True, special=False, lstrip=True),
                  AddedToken("gripper", normalized=False, special=False, single_word=True)])
    if ignore_merges:
        bos = t.token_to_id("<|begin_of_text|>")
        t.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single="<|begin_of_text|> $A",
                                          special_tokens=[("<|begin_of_text|>", bos)])])
    else:
        t.post_processor = processors.ByteLevel(trim_offsets=False)
    save(name, t)


def llama2():
    t = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                   decoders.Fuse(), decoders.Strip(content=" ", left=1)])
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    train(t, special_tokens=[special(x) for x in tokens[:3]] + tokens[3:], limit_alphabet=90)
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    whole = json.loads(t.to_str())
    whole["added_tokens"] = whole["added_tokens"][:3]
    save("llama2", Tokenizer.from_str(json.dumps(whole)))


def gemma():
    t = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    t.normalizer = normalizers.Replace(" ", "▁")
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                   decoders.Fuse()])
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>"] + [f"<0x{i:02X}>" for i in range(256)]
    train(t, special_tokens=[special(x) for x in tokens[:4]] + tokens[4:], limit_alphabet=90)
    t.post_processor = processors.TemplateProcessing(single="<bos> $A",
                                                     special_tokens=[("<bos>", 2)])
    whole = json.loads(t.to_str())
    whole["added_tokens"] = whole["added_tokens"][:4]
    save("gemma", Tokenizer.from_str(json.dumps(whole)))


def smollm():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    t.decoder = decoders.ByteLevel()
    train(t, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
          special_tokens=[special("<|endoftext|>"), special("<|im_start|>"), special("<|im_end|>")])
    t.post_processor = processors.ByteLevel(trim_offsets=True)
    save("smollm", t)


def metaspace():
    t = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    t.decoder = decoders.Metaspace(prepend_scheme="first")
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    train(t, special_tokens=[special(x) for x in tokens[:3]] + tokens[3:], limit_alphabet=90)
    whole = json.loads(t.to_str())
    whole["added_tokens"] = whole["added_tokens"][:3]
    save("metaspace", Tokenizer.from_str(json.dumps(whole)))


def pieces():
    directory = HERE / "sentencepiece"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "corpus.txt").write_text(CORPUS)
    sentencepiece.SentencePieceTrainer.train(
        input=str(directory / "corpus.txt"), model_prefix=str(directory / "tokenizer"),
        model_type="bpe", vocab_size=600, byte_fallback=True, character_coverage=0.99,
        hard_vocab_limit=False, num_threads=1)
    (directory / "corpus.txt").unlink()
    (directory / "tokenizer.vocab").unlink()
    p = sentencepiece.SentencePieceProcessor(model_file=str(directory / "tokenizer.model"))
    made = [{"text": t, "ids": p.encode(t), "with_special": [p.bos_id()] + p.encode(t),
             "decoded": p.decode(p.encode(t))} for t in TEXTS]
    (directory / "cases.json").write_text(json.dumps(made, ensure_ascii=True, indent=0) + "\n")


if __name__ == "__main__":
    print("tokenizers", tokenizers.__version__, "sentencepiece", sentencepiece.__version__)
    byte_level("qwen2", QWEN, 600, normalizer=normalizers.NFC())
    byte_level("llama3", LLAMA3, 600, ignore_merges=True)
    llama2()
    gemma()
    smollm()
    metaspace()
    pieces()
