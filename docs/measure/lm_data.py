# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""The text and the model of language_model.py: the sources of Python's standard library and a byte-level GPT."""

import stdlib_text
import torch
from torch import nn
from torch.nn import functional


def read_text(context: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the bytes of all training files, and the bytes of all validation files."""
    training, validation = (torch.frombuffer(bytearray(part), dtype=torch.uint8).long()
                            for part in stdlib_text.read_bytes(context))
    return training, validation


def cut(text: torch.Tensor, starts: torch.Tensor, context: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the inputs (`context` bytes from each start on) and the targets (the bytes one position later)."""
    windows = text[starts[:, None] + torch.arange(context + 1)]
    return windows[:, :-1], windows[:, 1:]


class Block(nn.Module):
    def __init__(self, width: int, heads: int, layers: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        for layer in (self.qkv, self.proj, self.up, self.down):
            nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
            nn.init.zeros_(layer.bias)
        for layer in (self.proj, self.down):  # keeps the scale of the residual stream, as in GPT-2
            layer.weight.data *= (2 * layers)**-0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """A GPT on bytes with learned positions, pre-norm blocks and an untied head."""

    def __init__(self, layers: int, width: int, heads: int, context: int):
        super().__init__()
        self.bytes = nn.Embedding(256, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*[Block(width, heads, layers) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 256, bias=False)
        for embedding in (self.bytes, self.positions):
            nn.init.normal_(embedding.weight, std=0.1)
        nn.init.normal_(self.head.weight, std=0.5 * width**-0.5)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.blocks(self.bytes(inputs) + self.positions.weight)))

    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self(inputs).flatten(0, 1), targets.flatten())

    def split(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        """Returns the matrices of the transformer blocks, and all other parameters."""
        matrices = [p for p in self.blocks.parameters() if p.ndim == 2]
        chosen = {id(p) for p in matrices}
        return matrices, [p for p in self.parameters() if id(p) not in chosen]
