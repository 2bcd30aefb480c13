"""What a person sees of a partition: who holds what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from .display import make_table

if TYPE_CHECKING:
    from ...simulation.spec import RunSpec

EACH_END = 12
"""Of many clients, so many of the largest and of the smallest are shown."""


def show_partition(console: Console, spec: RunSpec, counts: list[list[int]]) -> None:
    """A row per client (the largest and smallest where there are many) with its classes."""
    sizes = [sum(row) for row in counts]
    order = sorted(range(len(counts)), key=lambda client: -sizes[client])
    shortened = len(order) > 2 * EACH_END
    console.print(
        f"{spec.data}: {sum(sizes)} samples, {len(counts)} clients, {spec.skew} c={spec.c:g}, seed {spec.seed}"
    )
    held = [sum(n > 0 for n in row) for row in counts]
    console.print(
        f"samples per client: {min(sizes)} to {max(sizes)}, median {sorted(sizes)[len(sizes) // 2]}; "
        f"classes per client: {min(held)} to {max(held)}; empty clients: {sizes.count(0)}"
    )
    console.print(f"samples by client and class, 0 to {len(counts[0]) - 1}:\n")
    titles = ("client", "samples", *(str(z) for z in range(len(counts[0]))))
    table = make_table(titles, left=(), numbers="ellipsis")
    for position, client in enumerate(order[:EACH_END] + order[-EACH_END:] if shortened else order):
        if position == EACH_END and shortened:
            table.add_row("…")
        table.add_row(str(client), str(sizes[client]), *(str(n or "·") for n in counts[client]))
    console.print(table)
