"""The scenes model in PyTorch: vision encoder, shared backbone, denoiser head, image codec.

Parameter names are the checkpoint's names (see models/scenes/README.md).
Not in the package lists: torch
"""
from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

CONFIG = {
    "model_type": "scenes", "vocab_size": 128, "hidden_size": 256, "num_hidden_layers": 6,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 32, "intermediate_size": 704,
    "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": True, "max_position_embeddings": 512,
    "bos_token_id": 1, "eos_token_id": 2, "user_token_id": 3, "assistant_token_id": 4, "image_token_id": 5,
    "image_end_token_id": 6, "draw_token_id": 7, "unk_token_id": 8, "pad_token_id": 0,
    "vision_config": {"image_size": 64, "patch_size": 8, "hidden_size": 192, "num_hidden_layers": 4,
                      "num_attention_heads": 6, "intermediate_size": 768, "layer_norm_eps": 1e-6, "merge": 2,
                      "merger_size": 512},
    "denoiser": {"tokens": 16, "token_dim": 32, "time_dim": 256, "min_period": 4e-3, "max_period": 4.0,
                 "prediction": "x0", "steps": 16, "guidance": 2.0},
    "codec": {"channels": 8, "latent_size": 8, "patch": 2, "encoder": [], "decoder": []},
}


def _conv(name, cin, cout, stride=1):
    return {"op": "conv", "name": name, "in": cin, "out": cout, "stride": stride}


CONFIG["codec"]["encoder"] = [
    _conv("0", 3, 32, 2), {"op": "silu"}, _conv("1", 32, 64, 2), {"op": "silu"}, _conv("2", 64, 128, 2),
    {"op": "residual", "body": [{"op": "silu"}, _conv("3", 128, 128)]}, {"op": "silu"}, _conv("4", 128, 8)]
CONFIG["codec"]["decoder"] = [
    _conv("0", 8, 128), {"op": "residual", "body": [{"op": "silu"}, _conv("1", 128, 128)]}, {"op": "silu"},
    {"op": "upsample2x"}, _conv("2", 128, 64), {"op": "silu"}, {"op": "upsample2x"}, _conv("3", 64, 32),
    {"op": "silu"}, {"op": "upsample2x"}, _conv("4", 32, 16), {"op": "silu"}, _conv("5", 16, 3)]


def merge2x2(x: torch.Tensor, side: int) -> torch.Tensor:
    """[B, side*side, C] -> [B, (side/2)^2, 4C]; neighbours in the order (0,0) (0,1) (1,0) (1,1)."""
    b, _, c = x.shape
    x = x.view(b, side // 2, 2, side // 2, 2, c).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(b, (side // 2) ** 2, 4 * c)


def unmerge2x2(x: torch.Tensor, side: int) -> torch.Tensor:
    b, _, c4 = x.shape
    x = x.view(b, side // 2, side // 2, 2, 2, c4 // 4).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(b, side * side, c4 // 4)


def attend(q, k, v, mask):
    """Plain attention: its backward is three times faster on a CPU than the fused one's."""
    score = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    if mask is not None:
        score = score.masked_fill(~mask, -1e30 if score.dtype == torch.float32 else -3e38)
    return score.softmax(-1).to(v.dtype) @ v


class VisionLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, self.heads = c["hidden_size"], c["num_attention_heads"]
        self.layer_norm1, self.layer_norm2 = nn.LayerNorm(d, eps=c["layer_norm_eps"]), nn.LayerNorm(d, eps=c["layer_norm_eps"])
        self.self_attn = nn.ModuleDict({k: nn.Linear(d, d) for k in ("q_proj", "k_proj", "v_proj", "out_proj")})
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(d, c["intermediate_size"]), "fc2": nn.Linear(c["intermediate_size"], d)})

    def forward(self, x):
        b, n, d = x.shape
        h, a = self.layer_norm1(x), self.self_attn
        q, k, v = (a[p](h).view(b, n, self.heads, -1).transpose(1, 2) for p in ("q_proj", "k_proj", "v_proj"))
        x = x + a["out_proj"](attend(q, k, v, None).transpose(1, 2).reshape(b, n, d))
        return x + self.mlp["fc2"](F.gelu(self.mlp["fc1"](self.layer_norm2(x)), approximate="tanh"))


class Vision(nn.Module):
    def __init__(self, c, out):
        super().__init__()
        d = c["hidden_size"]
        self.side = c["image_size"] // c["patch_size"]
        self.patch_embedding = nn.Conv2d(3, d, c["patch_size"], c["patch_size"])
        self.position_embedding = nn.Parameter(torch.randn(self.side ** 2, d) * 0.02)
        self.layers = nn.ModuleList(VisionLayer(c) for _ in range(c["num_hidden_layers"]))
        self.post_layernorm = nn.LayerNorm(d, eps=c["layer_norm_eps"])
        self.merger = nn.ModuleDict({"fc1": nn.Linear(4 * d, c["merger_size"]), "fc2": nn.Linear(c["merger_size"], out)})

    def forward(self, pixels):  # [B, 3, 64, 64] in [-1, 1]
        return self.merge(self.tokens(pixels))

    def tokens(self, pixels):
        x = self.patch_embedding(pixels).flatten(2).transpose(1, 2) + self.position_embedding
        for layer in self.layers:
            x = layer(x)
        return self.post_layernorm(x)

    def merge(self, x):
        x = merge2x2(x, self.side)
        return self.merger["fc2"](F.gelu(self.merger["fc1"](x), approximate="tanh"))


class RMSNorm(nn.Module):
    def __init__(self, d, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x):
        f = x.float()
        return f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, self.hd = c["hidden_size"], c["head_dim"]
        self.nq, self.nkv = c["num_attention_heads"], c["num_key_value_heads"]
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(d, c["rms_norm_eps"]), RMSNorm(d, c["rms_norm_eps"])
        self.self_attn = nn.ModuleDict({
            "q_proj": nn.Linear(d, self.nq * self.hd, bias=False), "k_proj": nn.Linear(d, self.nkv * self.hd, bias=False),
            "v_proj": nn.Linear(d, self.nkv * self.hd, bias=False), "o_proj": nn.Linear(self.nq * self.hd, d, bias=False)})
        m = c["intermediate_size"]
        self.mlp = nn.ModuleDict({"gate_proj": nn.Linear(d, m, bias=False), "up_proj": nn.Linear(d, m, bias=False),
                                  "down_proj": nn.Linear(m, d, bias=False)})

    def forward(self, x, cos, sin, mask):
        b, n, _ = x.shape
        h, a = self.input_layernorm(x), self.self_attn
        q = rotate(a["q_proj"](h).view(b, n, self.nq, self.hd).transpose(1, 2), cos, sin)
        k = rotate(a["k_proj"](h).view(b, n, self.nkv, self.hd).transpose(1, 2), cos, sin)
        v = a["v_proj"](h).view(b, n, self.nkv, self.hd).transpose(1, 2)
        k, v = (t.repeat_interleave(self.nq // self.nkv, 1) for t in (k, v))
        if mask is None:
            mask = torch.ones(n, n, dtype=torch.bool).tril()
        y = attend(q, k, v, mask)
        x = x + a["o_proj"](y.transpose(1, 2).reshape(b, n, -1))
        h = self.post_attention_layernorm(x)
        return x + self.mlp["down_proj"](F.silu(self.mlp["gate_proj"](h)) * self.mlp["up_proj"](h))


class Backbone(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["num_hidden_layers"]))
        self.norm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        freq = c["rope_theta"] ** (-torch.arange(0, c["head_dim"], 2).double() / c["head_dim"])
        angle = torch.arange(c["max_position_embeddings"]).double()[:, None] * freq
        angle = torch.cat((angle, angle), -1)
        self.register_buffer("cos", angle.cos().float(), persistent=False)
        self.register_buffer("sin", angle.sin().float(), persistent=False)

    def forward(self, x, positions=None, mask=None, middle=None):
        """x [B, N, D]; positions [N] or [B, N]; mask bool [.., N, N] (None: causal). `middle`: a list that gets
        the rows after half of the layers."""
        if positions is None:
            positions = torch.arange(x.shape[1])
        cos, sin = self.cos[positions], self.sin[positions]
        if cos.dim() == 3:
            cos, sin = cos[:, None], sin[:, None]
        for i, layer in enumerate(self.layers):
            x = layer(x, cos.to(x.dtype), sin.to(x.dtype), mask)
            if middle is not None and i + 1 == len(self.layers) // 2:
                middle.append(x)
        return self.norm(x)


def time_embedding(t: torch.Tensor, c) -> torch.Tensor:
    n = c["time_dim"] // 2
    period = c["min_period"] * (c["max_period"] / c["min_period"]) ** torch.linspace(0, 1, n, dtype=torch.float64)
    angle = 2 * math.pi * t.double()[..., None] / period
    return torch.cat((angle.sin(), angle.cos()), -1).float()


class Denoiser(nn.Module):
    def __init__(self, c, d):
        super().__init__()
        self.c = c
        self.in_proj, self.out_proj = nn.Linear(c["token_dim"], d), nn.Linear(d, c["token_dim"])
        self.position_embedding = nn.Parameter(torch.randn(c["tokens"], d) * 0.02)
        self.time_mlp_in, self.time_mlp_out = nn.Linear(c["time_dim"], d), nn.Linear(d, d)

    def embed(self, x, t):
        """x [..., 16, C], t [...] -> tokens [..., 16, D]."""
        e = self.time_mlp_out(F.silu(self.time_mlp_in(time_embedding(t, self.c))))
        return self.in_proj(x) + self.position_embedding + e[..., None, :]


class Stack(nn.Module):
    """A list of layers given as data: conv, silu, upsample2x, residual."""

    def __init__(self, spec):
        super().__init__()
        self.spec = spec
        for op in self._convs(spec):
            self.add_module(op["name"], nn.Conv2d(op["in"], op["out"], 3, op["stride"], 1))

    def _convs(self, spec):
        for op in spec:
            if op["op"] == "conv":
                yield op
            elif op["op"] == "residual":
                yield from self._convs(op["body"])

    def run(self, x, spec):
        for op in spec:
            if op["op"] == "conv":
                x = getattr(self, op["name"])(x)
            elif op["op"] == "silu":
                x = F.silu(x)
            elif op["op"] == "upsample2x":
                x = F.interpolate(x, scale_factor=2, mode="nearest")
            else:
                x = x + self.run(x, op["body"])
        return x

    def forward(self, x):
        return self.run(x, self.spec)


class Codec(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.encoder, self.decoder, self.c = Stack(c["encoder"]), Stack(c["decoder"]), c
        self.register_buffer("latent_mean", torch.zeros(c["channels"]))
        self.register_buffer("latent_std", torch.ones(c["channels"]))

    def to_tokens(self, z):  # [B, C, 8, 8] -> [B, 16, 4C], normalised
        z = (z - self.latent_mean[:, None, None]) / self.latent_std[:, None, None]
        return merge2x2(z.flatten(2).transpose(1, 2), self.c["latent_size"])

    def from_tokens(self, x):
        s = self.c["latent_size"]
        z = unmerge2x2(x, s).transpose(1, 2).reshape(x.shape[0], -1, s, s)
        return z * self.latent_std[:, None, None] + self.latent_mean[:, None, None]

    def encode(self, pixels):
        return self.to_tokens(self.encoder(pixels))

    def decode(self, tokens):
        return self.decoder(self.from_tokens(tokens))


class Scenes(nn.Module):
    def __init__(self, config=CONFIG):
        super().__init__()
        self.config = config
        self.vision = Vision(config["vision_config"], config["hidden_size"])
        self.model = Backbone(config)
        self.denoiser = Denoiser(config["denoiser"], config["hidden_size"])
        self.codec = Codec(config["codec"])
        for name, p in self.named_parameters():
            if p.dim() == 2 and "codec" not in name and "position" not in name:
                nn.init.normal_(p, std=0.06 if "embed" in name else p.shape[1] ** -0.5 * 0.8)

    def logits(self, hidden):
        return hidden @ self.model.embed_tokens.weight.t()

    @torch.no_grad()
    def draw(self, ids: torch.Tensor, noise: torch.Tensor, steps: int, guidance: float,
             uncond: torch.Tensor | None = None) -> torch.Tensor:
        """ids [N] of one prompt up to <draw>; noise [B, 16, 4C]; Euler from t = 1 to 0."""
        x = noise.clone()
        for i in range(steps):
            t = 1 - i / steps
            v = self.velocity(ids, x, t)
            if guidance != 1.0 and uncond is not None:
                v0 = self.velocity(uncond, x, t)
                v = v0 + guidance * (v - v0)
            x = x - v / steps
        return x

    def velocity(self, ids, x, t):
        b, n, m = x.shape[0], ids.shape[0], x.shape[1]
        prefix = self.model.embed_tokens(ids).expand(b, -1, -1)
        tokens = self.denoiser.embed(x, torch.full((b,), t, dtype=torch.float64))
        mask = torch.ones(n + m, n + m, dtype=torch.bool).tril()
        mask[n:, n:] = True
        hidden = self.model(torch.cat((prefix, tokens), 1), mask=mask)
        x0 = self.denoiser.out_proj(hidden[:, n:])
        return (x - x0) / max(t, 1e-3)
