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

from . import words

WIDTH = 64
PRECISE = torch.float64  # precise enough for an answer not to depend on what else is in its batch
RELUCTANCE = 3.0  # to end an answer
BRANCH = 0.15  # so that many layers do not drown the tokens
POSITIONS = 1024  # then they begin again


class Span(NamedTuple):
    """The part of a batch that belongs to one sequence."""

    base: int  # where its rows begin in the pool
    done: int  # tokens that are in the pool already
    new: int  # tokens of this batch


class Layer:
    """One decoder layer; `layer_id` is its number in the whole model, as the pool expects it."""

    def __init__(self, layer_id: int) -> None:
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

    def run(self, hidden: Tensor, spans: list[Span]) -> Tensor:
        """`hidden`: PRECISE [tokens of all spans, WIDTH]."""
        hidden = hidden + BRANCH * self._attend(layer_norm(hidden, (WIDTH,)), spans)
        return hidden + BRANCH * gelu(layer_norm(hidden, (WIDTH,)) @ self.up) @ self.down

    def _attend(self, hidden: Tensor, spans: list[Span]) -> Tensor:
        heads, key_dim = self.keys.shape[-2:]
        query = (hidden @ self.to_query).view(-1, heads, key_dim)
        key = (hidden @ self.to_key).view(-1, heads, key_dim)
        value = None if self.shared else (hidden @ self.to_value).view(-1, heads, self.values.shape[-1])
        mixed, at = [], 0
        for base, done, new in spans:
            rows, here = slice(base + done, base + done + new), slice(at, at + new)
            self.keys[rows] = key[here]
            if value is not None:
                self.values[rows] = value[here]
            seen = slice(base, base + done + new)
            keys = self.keys[seen].to(PRECISE)
            values = keys[..., : self.values.shape[-1]] if self.shared else self.values[seen].to(PRECISE)
            mixed.append(_attention(query[here], keys, values))
            at += new
        return torch.cat(mixed).flatten(1) @ self.from_value


class StageModel(nn.Module):
    """The layers of one stage. `layers` holds `start_layer` to `end_layer` (exclusive) alone."""

    def __init__(self, start_layer: int, end_layer: int) -> None:
        super().__init__()
        self.start_layer = start_layer
        self.end_layer = end_layer
        self.layers = [Layer(number) for number in range(start_layer, end_layer)]
        draw = torch.Generator().manual_seed(1)
        self.embedding = torch.randn(words.SIZE, WIDTH, generator=draw, dtype=PRECISE)
        self.position = torch.randn(POSITIONS, WIDTH, generator=draw, dtype=PRECISE)
        self.head = _matrix(draw, WIDTH, words.ANSWERS)

    def bind(self, pool: Any) -> None:
        """Give every layer its buffers."""
        for layer in self.layers:
            layer.bind(pool)

    def forward(self, pp_proxy_tensors: Tensor, spans: list[Span]) -> Tensor:
        """Run the stage's layers on what the stage before sent; the first stage gets token ids.

        Takes int64 [tokens of all spans] or PRECISE [tokens of all spans, WIDTH]; gives the latter.
        """
        hidden = pp_proxy_tensors
        if self.start_layer == 0:
            hidden = self._embed(hidden, spans)
        for layer in self.layers:
            hidden = layer.run(hidden, spans)
        return hidden

    def _embed(self, tokens: Tensor, spans: list[Span]) -> Tensor:
        positions = torch.cat([torch.arange(done, done + new) for _, done, new in spans])
        return self.embedding[tokens] + self.position[positions % POSITIONS]

    def logits(self, hidden: Tensor, spans: list[Span]) -> Tensor:
        """PRECISE [spans, words.ANSWERS] for the token after each span."""
        lasts = torch.tensor([new for *_, new in spans]).cumsum(0) - 1
        logits = layer_norm(hidden[lasts], (WIDTH,)) @ self.head
        logits[:, words.END] -= RELUCTANCE
        return logits


def _matrix(draw: torch.Generator, rows: int, columns: int) -> Tensor:
    return torch.randn(rows, columns, generator=draw, dtype=PRECISE).mul((2.0 / rows) ** 0.5)


def _attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention of the newest tokens over all: [new, heads, dim] x [all, heads, dim]."""
    scores: Tensor = query.transpose(0, 1) @ key.permute(1, 2, 0) / query.shape[-1] ** 0.5
    new, total = scores.shape[1:]
    if new > 1:
        scores += torch.full((new, total), -torch.inf, dtype=PRECISE).triu(1 + total - new)
    return torch.bmm(scores.softmax(-1), value.transpose(0, 1)).transpose(0, 1)
