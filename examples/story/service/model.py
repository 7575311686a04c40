"""A small decoder whose layers are spread over the stages, over the real key and value pools.

Every layer has one attention block that reads and writes its stage's real buffers, in the shape that
the model's configuration gives them (576 numbers a token and layer for latent attention), and one
feed-forward block. Weights come from a seed and the layer's global number, so that a layer computes
the same on whichever stage it runs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm

from story import words

WIDTH = 64


class Span(NamedTuple):
    """The part of a batch that belongs to one sequence."""

    base: int  # where its rows begin in the pool
    done: int  # tokens that are in the pool already
    new: int  # tokens of this batch


class Layer(nn.Module):
    """One decoder layer; `layer_id` is its number in the whole model, as the pool expects it."""

    def __init__(self, layer_id: int) -> None:
        super().__init__()
        self.layer_id = layer_id

    def bind(self, pool: Any) -> None:
        """Take the shapes from the pool and make the weights."""
        self.keys: Tensor = pool.get_key_buffer(self.layer_id)
        self.values: Tensor = pool.get_value_buffer(self.layer_id)
        heads, key_dim = self.keys.shape[-2:]
        # Latent attention keeps one row for both; its values are the head of the keys.
        self.shared = self.keys.data_ptr() == self.values.data_ptr()
        value_dim = self.values.shape[-1]
        draw = torch.Generator().manual_seed(1000 + self.layer_id)
        self.to_query = _matrix(draw, WIDTH, heads * key_dim)
        self.to_key = _matrix(draw, WIDTH, heads * key_dim)
        self.to_value = _matrix(draw, WIDTH, heads * value_dim)
        self.from_value = _matrix(draw, heads * value_dim, WIDTH)
        self.up = _matrix(draw, WIDTH, 2 * WIDTH)
        self.down = _matrix(draw, 2 * WIDTH, WIDTH)

    def forward(self, hidden: Tensor, spans: list[Span]) -> Tensor:
        """`hidden`: float32 [tokens of all spans, WIDTH]."""
        hidden = hidden + self._attend(layer_norm(hidden, (WIDTH,)), spans)
        return hidden + gelu(layer_norm(hidden, (WIDTH,)) @ self.up) @ self.down

    def _attend(self, hidden: Tensor, spans: list[Span]) -> Tensor:
        heads, key_dim = self.keys.shape[-2:]
        query = (hidden @ self.to_query).view(-1, heads, key_dim)
        key = (hidden @ self.to_key).view(-1, heads, key_dim)
        value = None if self.shared else (hidden @ self.to_value).view(-1, heads, self.values.shape[-1])
        mixed, at = [], 0
        for base, done, new in spans:
            rows, here = slice(base + done, base + done + new), slice(at, at + new)
            self.keys[rows] = key[here].to(self.keys.dtype)
            if value is not None:
                self.values[rows] = value[here].to(self.values.dtype)
            seen = slice(base, base + done + new)
            mixed.append(_attention(query[here], self.keys[seen].float(), self.values[seen].float(), done))
            at += new
        return torch.cat(mixed).flatten(1) @ self.from_value


class StageModel(nn.Module):
    """The layers of one stage. `layers` holds `start_layer` to `end_layer` (exclusive) alone."""

    def __init__(self, start_layer: int, end_layer: int, layer_count: int) -> None:
        super().__init__()
        self.start_layer = start_layer
        self.end_layer = end_layer
        self.first = start_layer == 0
        self.last = end_layer == layer_count
        self.layers = nn.ModuleList(Layer(number) for number in range(start_layer, end_layer))
        draw = torch.Generator().manual_seed(1)
        self.embedding = _matrix(draw, words.SIZE, WIDTH) * WIDTH**0.5
        self.position = _matrix(draw, 4096, WIDTH)
        self.head = _matrix(draw, WIDTH, words.ANSWERS)

    def bind(self, pool: Any) -> None:
        """Give every layer its buffers."""
        for layer in self.layers:
            layer.bind(pool)  # type: ignore[operator]

    def forward(self, tokens: Tensor, spans: list[Span], pp_proxy_tensors: Tensor | None = None) -> Tensor:
        """Run the stage's layers: on int64 token ids in the first stage, then on what the stage before sent.

        Takes [tokens of all spans] or float32 [tokens of all spans, WIDTH]; gives float32 [..., WIDTH].
        """
        hidden = self._embed(tokens, spans) if pp_proxy_tensors is None else pp_proxy_tensors
        for layer in self.layers:
            hidden = layer(hidden, spans)
        return hidden

    def _embed(self, tokens: Tensor, spans: list[Span]) -> Tensor:
        positions = torch.cat([torch.arange(done, done + new) for _, done, new in spans])
        return self.embedding[tokens] + self.position[positions % len(self.position)]

    def logits(self, hidden: Tensor, spans: list[Span]) -> Tensor:
        """float32 [spans, words.ANSWERS] for the token after each span."""
        lasts = torch.tensor([new for *_, new in spans]).cumsum(0) - 1
        return layer_norm(hidden[lasts], (WIDTH,)) @ self.head


def _matrix(draw: torch.Generator, rows: int, columns: int) -> Tensor:
    return torch.randn(rows, columns, generator=draw) * (2.0 / rows) ** 0.5


def _attention(query: Tensor, key: Tensor, value: Tensor, done: int) -> Tensor:
    """Causal attention of new tokens over all tokens: [new, heads, dim] x [all, heads, dim]."""
    scores = torch.einsum("nhd,ahd->hna", query, key) / query.shape[-1] ** 0.5
    new, total = scores.shape[1:]
    late = torch.arange(total) > done + torch.arange(new)[:, None]
    weights = scores.masked_fill(late, -torch.inf).softmax(-1)
    return torch.einsum("hna,ahd->nhd", weights, value)
