"""A small GPT on characters."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Module):
    """Causal attention, then a layer of its own for each position."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width, bias=False)
        self.projection = nn.Linear(width, width, bias=False)
        self.before_mixing = nn.LayerNorm(width)
        self.mixing = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, inputs: Tensor) -> Tensor:
        batch, length, width = inputs.shape
        parts = self.attention(self.before_attention(inputs)).split(width, dim=2)
        query, key, value = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        inputs = inputs + self.projection(seen.transpose(1, 2).reshape(batch, length, width))
        return inputs + self.mixing(self.before_mixing(inputs))


class Gpt(nn.Module):
    """Says of every character in a piece of text which one it expects next."""

    def __init__(self, vocabulary: int, length: int, width: int, layers: int, heads: int = 4) -> None:
        super().__init__()
        self.characters = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        for table in (self.characters, self.places):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, text: Tensor) -> Tensor:
        inputs = self.characters(text) + self.places(torch.arange(text.shape[1]))
        return self.head(self.norm(self.blocks(inputs)))
