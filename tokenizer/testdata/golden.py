"""Writes golden.json and sentencepiece.json with the answers of the real libraries.

python3 golden.py                 with tokenizers and sentencepiece installed
python3 golden.py DIR...          instead writes cases.json into each folder with a tokenizer.json or tokenizer.model
"""

import base64
import io
import json
import os
import random
import sys
import unicodedata

import sentencepiece
import tokenizers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import chats

HERE = os.path.dirname(os.path.abspath(__file__))
DEMO = os.path.join(HERE, "..", "..", "demo")
TEXT = open(os.path.join(DEMO, "calibration.txt"), encoding="utf-8").read()[:60000]

TEXTS = [
    "", " ", "  ", "\n", "\t \n ", "Hello world", " Hello  world ", "   three", "it's WE'LL they'd I'M 'Ve 's",
    "a\u017fs '\u017f x'\u017fy", "x=1234567, y=89;\n\n\tz = 0.5\r\n  end", "price: $12.50!!! (50%)…", "naïve café e\u0301\u0301 Å",
    "ﬁ ½ ② Ⅷ ㎏ ｆｕｌｌ", "İstanbul ΣΑΣ ẞ", "日本語のテキスト、漢字カナ。", "한국어 조합형 \u1112\u1161\u11ab", "🦙🚀 👩‍👩‍👧 🇩🇪",
    "\u200b\u200d\ufeff\u00a0\u3000x", "हिन्दी ไทย العربية עברית", "camelCase HTTPServer XMLHttpRequest'S McDONALD", "a_b-c.d/e\\f//\n/g",
    "  leading\n\n\n  and trailing   \n", "▁▁mark ▁x", "<s>hi</s> <unk>", "[X] [X]  [X][Y]a[Y] b[Z]c  [Z] zéze\u0301", "the\u0903 \u2160 Ⓐ ² ‿ _",
    "And it came to pass that the captain, in 1850, said: \"No.\"", "\x00\x1f\x7f\x85", "ǅ ǆ ʰ ª",
    ".abc (def) +ghi #1a 12345a６７", "\r\n\r\n \r x\n", "0 00 000 0000 00000",
]


def fuzz(seed, count):
    """Strings of random characters, most of them from where tokenizers are delicate."""
    rng = random.Random(seed)
    pools = ["abcdefghijklmnop ", "   \t\n\r\u00a0\u2003", "0123456789٣४²", "'sStTdDmMlLrReEvV\u017f", ".,!?-_/\\()<>$+=^`|~#@&%*\"'", "äöüéñçßŒ",
             "漢字かなカナ一丁", "абвГДЕ", "e\u0301a\u0308\u0323\u200d\u0903", "🦙🚀👩\u200d👧🏽", "<s></s>[X]▁"]
    words = TEXT[:3000].split(" ")
    out = []
    for _ in range(count):
        s = ""
        for _ in range(rng.randint(1, 12)):
            kind = rng.random()
            if kind < 0.3:
                s += rng.choice(words) + rng.choice(["", " "])
            elif kind < 0.95:
                s += "".join(rng.choice(rng.choice(pools)) for _ in range(rng.randint(1, 4)))
            else:
                s += chr(rng.choice([rng.randint(1, 0xD7FF), rng.randint(0xE000, 0xFFFF), rng.randint(0x10000, 0x1F000)]))
        # Versions of Unicode differ in what they assign.
        out.append("".join(c for c in s if unicodedata.category(c) != "Cn"))
    return out


# Components, one at a time.

ISOLATED = {"behavior": "Isolated", "invert": False}
SPARK = {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": r"\p{N}{1,3}"}, **ISOLATED},
    {"type": "Split", "pattern": {"Regex": "[一-龥぀-ゟ゠-ヿ]+"}, **ISOLATED},
    {"type": "Split", "pattern": {"Regex": r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
                                  r"""| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"""}, **ISOLATED},
    {"type": "Digits", "individual_digits": True},
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CL100K = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + TAIL
QWEN2 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + TAIL
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + CONTRACTION + "?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + CONTRACTION + "?"
         r"|\p{N}{1,3}" + TAIL.replace(r"[\r\n]*", r"[\r\n/]*", 1))

# A character map of our own: ligature, fraction, fullwidth letter, a removed character, a pair that becomes one.
RULES = "FB01\t66 69\n00BD\t31 2F 32\nFF46\t66\n200B\t\n65 301\tE9\n1112 1161 11AB\tD55C\nA0\t20\n9\t20\n"


def charsmap():
    path = "/tmp/nibble-rules.tsv"
    open(path, "w").write(RULES)
    return sp_model(model_type="unigram", normalization_rule_tsv=path).normalizer_spec.precompiled_charsmap


def sp_model(**options):
    from sentencepiece import sentencepiece_model_pb2 as pb
    raw = sp_train(**options)
    m = pb.ModelProto()
    m.ParseFromString(raw)
    return m


def sp_train(vocab_size=300, **options):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([l for l in TEXT.split("\n") if l.strip()][:500]), model_writer=out, vocab_size=vocab_size,
        hard_vocab_limit=False, minloglevel=2, num_threads=1, **options)
    return out.getvalue()


def normalizers():
    yield {"type": "NFC"}
    yield {"type": "NFD"}
    yield {"type": "NFKC"}
    yield {"type": "NFKD"}
    yield {"type": "Lowercase"}
    yield {"type": "StripAccents"}
    yield {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]}
    yield {"type": "Sequence", "normalizers": []}
    yield {"type": "Prepend", "prepend": "▁"}
    yield {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    yield {"type": "Replace", "pattern": {"String": "l"}, "content": ""}
    yield {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}
    yield {"type": "Replace", "pattern": {"Regex": r"[^\w\s]|\d$"}, "content": "<>"}
    yield {"type": "Strip", "strip_left": True, "strip_right": True}
    yield {"type": "Strip", "strip_left": False, "strip_right": True}
    yield {"type": "Strip", "strip_left": True, "strip_right": False}
    yield {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap()).decode()}


def pretokenizers():
    for pattern in [{"String": " "}, {"String": "l"}, {"Regex": r"\s+"}, {"Regex": r"l*"}]:
        for behavior in ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]:
            for invert in [False, True]:
                yield {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}
    for regex in [CL100K, QWEN2, O200K, r"\w+|[^\w\s]+", r"^\s|\S$", r"(?i:ßs|ll|THE)", r"\d\D", r"[\w']+(?=\s)|\W+", r"(?<=[a-z])(?=[A-Z])|[]^-]", r"\p{L}++|\s*+x| ?+\p{P}+"]:
        yield {"type": "Split", "pattern": {"Regex": regex}, **ISOLATED}
    for prefix in [False, True]:
        for use in [False, True]:
            yield {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": use}
    for scheme in ["always", "first", "never"]:
        for split in [False, True]:
            yield {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}
    yield {"type": "Digits", "individual_digits": True}
    yield {"type": "Digits", "individual_digits": False}
    yield {"type": "Whitespace"}
    yield {"type": "WhitespaceSplit"}
    yield {"type": "Punctuation", "behavior": "Isolated"}
    yield {"type": "Punctuation", "behavior": "Contiguous"}
    yield {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel", "add_prefix_space": True, "use_regex": True, "trim_offsets": True},
                                                 {"type": "Digits", "individual_digits": True}]}
    yield {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}]}
    yield SPARK


def decoders():
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    replace = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    yield {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    yield {"type": "ByteFallback"}
    yield {"type": "Fuse"}
    yield strip
    yield {"type": "Strip", "content": "l", "start": 1, "stop": 1}
    yield replace
    yield {"type": "Replace", "pattern": {"Regex": "l+"}, "content": "L"}
    for scheme in ["always", "first", "never"]:
        yield {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True}
    yield {"type": "Sequence", "decoders": [replace, {"type": "ByteFallback"}, {"type": "Fuse"}, strip]}
    yield {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}]}
    yield {"type": "Sequence", "decoders": [{"type": "Fuse"}, replace, {"type": "Strip", "content": " ", "start": 2, "stop": 2}]}
    yield {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}]}
    yield {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}]}


TOKENS = [
    ["▁Hello", "▁wor", "ld"], ["▁▁x", "▁", "▁y▁", "▁"], ["a", "<0xE2>", "<0x82>", "<0xAC>", "b"], ["<0xFF>", "<0xE2>", "<0x82>", "c"],
    ["<0xE2>", "<0x82>"], ["<0xF0>", "<0x9F>", "<0xA6>", "<0x99>", "<0x41>", "<0xE4>"], ["ĠHello", "Ġworld", "Ċ"], ["ðŁ", "¦", "Ļ"], ["â", "Ĥ", "x"],
    ["ÿ", "þ", "å", "ħ", "¥"], ["<0xZZ>", "<0x4>", "<0x41>", "Ġ 漢"], ["lll", "ll", "l x l"], ["  a  ", " b ", "  "], ["é", "Ã©", "ĠÃ", "©", "ĠÃ"],
    ["▁ll", "ll▁", "▁"],
]


# Whole tokenizers.

def byte_level(pre, size=400, **model):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    d = json.loads(t.to_str())
    d["pre_tokenizer"] = pre
    d["decoder"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    d["model"].update(model)
    return d


def added(content, id, **flags):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False, **flags}


def crafted(chars, merges, **model):
    vocab = {}
    for c in ["<unk>", "<s>", "</s>"] + list(chars) + ["".join(m) for m in merges]:
        vocab.setdefault(c, len(vocab))
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
            "post_processor": None, "decoder": None,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": merges, **model}}


LLAMA_DECODER = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                                                  {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
LLAMA_NORMALIZER = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
MERGES = [["▁", "t"], ["h", "e"], ["▁t", "he"], ["l", "l"], ["▁", "▁"], ["a", "b"], ["▁", "w"], ["o", "r"], ["▁w", "or"], ["e", "ll"]]
BYTES = [f"<0x{b:02X}>" for b in range(256)]


def template(*around):
    before, after = around
    piece = lambda t: {"SpecialToken": {"id": t, "type_id": 0}}
    single = [piece(t) for t in before] + [{"Sequence": {"id": "A", "type_id": 0}}] + [piece(t) for t in after]
    return {"type": "TemplateProcessing", "single": single, "pair": single + [{"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {t: {"id": t, "ids": [{"<unk>": 0, "<s>": 1, "</s>": 2}[t]], "tokens": [t]} for t in before + after}}


def whole():
    specials = [added("<unk>", 0, special=True), added("<s>", 1, special=True), added("</s>", 2, special=True)]
    yield "byte level", byte_level({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True})
    d = byte_level(SPARK)
    d["normalizer"] = {"type": "Sequence", "normalizers": []}
    d["post_processor"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    yield "spark2_5", d
    split = lambda r: {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": r}, **ISOLATED},
                                                            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}
    d = byte_level(split(CL100K), ignore_merges=True)
    d["model"]["merges"] = [" ".join(m) for m in d["model"]["merges"][:100]]
    yield "cl100k, merges as strings, ignore_merges", d
    yield "o200k", byte_level(split(O200K))
    d = byte_level(split(QWEN2))
    d["normalizer"] = {"type": "NFC"}
    n = len(d["model"]["vocab"])
    d["added_tokens"] = [added("[X]", n, lstrip=True), added("[Y]", n + 1, rstrip=True, special=True), added("[Z]", n + 2, single_word=True),
                         added("[X][", n + 3), added("zé", n + 4, normalized=True)]
    yield "qwen2 with added tokens", d
    d = crafted("▁▁abcdefghilortw", MERGES, unk_token="<unk>", fuse_unk=True)
    d["added_tokens"], d["normalizer"], d["decoder"], d["post_processor"] = specials, LLAMA_NORMALIZER, LLAMA_DECODER, template(["<s>"], [])
    yield "llama, fused unknowns", d
    d = json.loads(json.dumps(d))
    d["model"]["fuse_unk"] = False
    d["added_tokens"] = [dict(t, normalized=True) for t in specials]
    d["post_processor"] = template(["<s>"], ["</s>", "<s>"])
    yield "llama, single unknowns, normalized added tokens", d
    d = crafted(["▁"] + BYTES + list("abcdefghilortw"), MERGES, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    d["added_tokens"], d["normalizer"], d["decoder"], d["post_processor"] = specials, LLAMA_NORMALIZER, LLAMA_DECODER, template(["<s>"], [])
    yield "llama, byte fallback", d
    d = crafted(["▁"] + BYTES[:200] + list("abcdefghilortw"), MERGES, unk_token="<unk>", byte_fallback=True)
    d["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    d["added_tokens"] = specials
    d["post_processor"] = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1], "trim_offsets": True, "add_prefix_space": False}
    yield "some bytes, metaspace first, roberta", d
    d = crafted("abcdehlortw", [["a", "b"], ["h", "e"], ["l", "l"], ["t", "he"]])
    d["pre_tokenizer"] = {"type": "Whitespace"}
    d["post_processor"] = {"type": "Sequence", "processors": [{"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1]}, template(["<s>"], [])]}
    yield "unknowns dropped, no decoder, bert", d
    chars = "abcdehlortw"
    d = crafted(list(chars) + ["##" + c for c in chars] + [c + "</w>" for c in chars] + ["##" + c + "</w>" for c in chars] + ["the</w>"],
                [], unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>")
    for a, b in [("t", "##h"), ("th", "##e</w>"), ("##l", "##l"), ("##o", "##r")]:
        d["model"]["vocab"].setdefault(a + b[2:], len(d["model"]["vocab"]))
        d["model"]["merges"].append([a, b])
    d["pre_tokenizer"] = {"type": "WhitespaceSplit"}
    yield "prefix and suffix", d
    for name, fallback in [("unigram", False), ("unigram, byte fallback", True)]:
        m = sp_model(model_type="unigram", byte_fallback=fallback, vocab_size=420 if fallback else 200, normalization_rule_name="identity")
        d = crafted([], [])
        d["model"] = {"type": "Unigram", "unk_id": 0, "vocab": [[p.piece, p.score] for p in m.pieces], "byte_fallback": fallback}
        d["added_tokens"] = specials
        d["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": not fallback}
        d["decoder"] = d["pre_tokenizer"] if not fallback else LLAMA_DECODER
        d["post_processor"] = template([], ["</s>"])
        yield name, d


def cases(t, texts):
    out = []
    for s in texts:
        ids = t.encode(s, add_special_tokens=False).ids
        special = t.encode(s, add_special_tokens=True).ids
        c = {"text": s, "ids": ids, "decoded": t.decode(special, skip_special_tokens=False), "plain": t.decode(special, skip_special_tokens=True)}
        if special != ids:
            c["special"] = special
        out.append(c)
    return out


def sp_cases(p, texts):
    return [{"text": s, "ids": (ids := p.encode(s)), "decoded": p.decode(ids)} for s in texts]


def pieces():
    yield "bpe", dict(model_type="bpe", normalization_rule_name="identity")
    yield "bpe, byte fallback, no dummy prefix", dict(model_type="bpe", byte_fallback=True, vocab_size=500, normalization_rule_name="identity",
                                                      add_dummy_prefix=False, remove_extra_whitespaces=False)
    yield "bpe, llama", dict(model_type="bpe", byte_fallback=True, vocab_size=500, normalization_rule_name="identity", remove_extra_whitespaces=False,
                             split_digits=True, user_defined_symbols=["[X]", "ll", "▁▁▁"])
    open("/tmp/nibble-rules.tsv", "w").write(RULES)
    yield "unigram, own character map", dict(model_type="unigram", normalization_rule_tsv="/tmp/nibble-rules.tsv", user_defined_symbols=["[X]", "é"])
    yield "unigram, byte fallback", dict(model_type="unigram", byte_fallback=True, vocab_size=500, normalization_rule_name="identity",
                                         remove_extra_whitespaces=False)


def write(name, value):
    with open(name, "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=True, separators=(",", ":"))
        f.write("\n")


def main():
    texts = TEXTS + fuzz(1, 12)
    stages = {"normalizer": [], "pre_tokenizer": [], "decoder": []}
    empty = crafted("a", [])
    for stage, specs in [("normalizer", normalizers()), ("pre_tokenizer", pretokenizers()), ("decoder", decoders())]:
        for spec in specs:
            c = getattr(Tokenizer.from_str(json.dumps({**empty, stage: spec})), stage)
            f = {"normalizer": lambda s: c.normalize_str(s), "pre_tokenizer": lambda s: [x for x, _ in c.pre_tokenize_str(s)], "decoder": lambda s: c.decode(s)}[stage]
            stages[stage].append({"spec": spec, "out": [f(s) for s in (TOKENS if stage == "decoder" else texts)]})
    golden = {"tokenizers": tokenizers.__version__, "texts": texts, "tokens": TOKENS, **stages, "whole": [
        {"name": name, "tokenizer": d, "cases": cases(Tokenizer.from_str(json.dumps(d)), texts)} for name, d in whole()]}
    write(os.path.join(HERE, "golden.json"), golden)
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    write(os.path.join(HERE, "chats.json"), [{"template": t, "config": tokens, "chats": chats.render(t, tokens)} for t in [chats.CHATML, chats.MACRO, chats.SPARK]])
    out = []
    for name, options in pieces():
        raw = sp_train(**options)
        p = sentencepiece.SentencePieceProcessor(model_proto=raw)
        # Control pieces in the text are ours to recognise, so the texts have none.
        plain = [s for s in texts if "s>" not in s and "<unk>" not in s]
        out.append({"name": name, "model": base64.b64encode(raw).decode(), "cases": sp_cases(p, plain)})
    write(os.path.join(HERE, "sentencepiece.json"), {"sentencepiece": sentencepiece.__version__, "models": out})


def parity(folders):
    texts = TEXTS + fuzz(2, 1000)
    for folder in folders:
        path = os.path.join(folder, "tokenizer.json")
        if os.path.exists(path):
            t = Tokenizer.from_file(path)
            t.no_truncation()
            t.no_padding()
            names = [a.content for a in t.get_added_tokens_decoder().values()][:8]
            rng = random.Random(3)
            mixed = [rng.choice(["", " ", "x"]).join([a, rng.choice(names), b]) for a, b in zip(texts[:200], texts[100:300])] if names else []
            write(os.path.join(folder, "cases.json"), cases(t, texts + mixed))
            config = json.load(open(os.path.join(folder, "tokenizer_config.json"))) if os.path.exists(os.path.join(folder, "tokenizer_config.json")) else {}
            if config.get("chat_template"):
                write(os.path.join(folder, "chats.json"), chats.render(config["chat_template"], {k: v for k, v in config.items() if k.endswith("_token") and isinstance(v, str)}))
        else:
            p = sentencepiece.SentencePieceProcessor(os.path.join(folder, "tokenizer.model"))
            write(os.path.join(folder, "cases.json"), sp_cases(p, [s for s in texts if "s>" not in s and "<unk>" not in s]))


if __name__ == "__main__":
    parity(sys.argv[1:]) if len(sys.argv) > 1 else main()
