"""One step of the GPT of `examples/gpt.py`: a letter goes in with the keys and values of those before it.

Enters: a trained `GPT`. Leaves: a module whose call costs the same for every letter; whoever calls it hands back the
keys and values that the last call returned. A whole text would be read again for each letter otherwise.
"""

from __future__ import annotations

from gpt import GPT, F, nn, torch


class Step(nn.Module):
    """`letter` (1,), `place` (1,), keys and values (layers, heads, context, width / heads); logits and both again."""

    def __init__(self, model: GPT) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, letter: torch.Tensor, place: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        model, config = self.model, self.model.config
        x = model.letters(letter) + model.places(place)                     # (1, width)
        places = torch.arange(config.context)
        here, seen = (places == place).view(1, -1, 1), (places <= place).view(1, 1, -1)
        all_keys, all_values = [], []
        for block, old_keys, old_values in zip(model.blocks, keys, values):
            q, k, v = block.qkv(block.norm1(x)).view(3, config.heads, 1, -1)
            k, v = torch.where(here, k, old_keys), torch.where(here, v, old_values)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)     # (heads, 1, width / heads)
            x = x + block.out(mixed.reshape(1, -1))
            x = x + block.mlp(block.norm2(x))
            all_keys.append(k)
            all_values.append(v)
        return model.head(model.norm(x))[0], torch.stack(all_keys), torch.stack(all_values)

    def empty(self) -> torch.Tensor:
        """Keys, or values, before the first letter."""
        config = self.model.config
        return torch.zeros(config.layers, config.heads, config.context, config.width // config.heads)
