"""What all displays share: on a terminal one view that is drawn again and again, elsewhere a line per event."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Generic, Self, TypeVar

from rich.console import Console, OverflowMethod
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from ...errors import require_one_of

Row = TypeVar("Row")


class Display:
    """Shows work that goes on; `live` is the view that is redrawn, None where the console is no terminal.

    A display is called with what is new; what it is called with is up to the work.
    """

    opening: ClassVar[str] = ""
    """What the view says before anything is known."""
    frames_per_second: ClassVar[float] = 4

    def __init__(self, console: Console) -> None:
        self.console = console
        self.live = self._make_live() if redraws(console) else None

    def __enter__(self) -> Self:
        if self.live:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self.live.stop()

    def say(self, line: str) -> None:
        """One line that stays, not broken at the edge of the terminal."""
        self.console.print(line, markup=False, soft_wrap=True)

    def rows_that_fit(self, others: int) -> int:
        """Rows of a table that a terminal has room for beside so many other lines; a log has room for all."""
        return max(4, self.console.size.height - others) if self.live else 10**9

    def _make_live(self) -> Live:
        return Live(Text(self.opening), console=self.console, refresh_per_second=self.frames_per_second, transient=True)


def make_console(width: int = 160, stderr: bool = False) -> Console:
    """A console for people; where it is no terminal its lines are $COLUMNS or `width` wide."""
    stream = sys.stderr if stderr else sys.stdout
    own = stream.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    return Console(stderr=stderr, highlight=False, width=None if own else width)


def redraws(console: Console) -> bool:
    """Whether a view can be drawn again in place: on a terminal that knows how, and not in a log of CI."""
    return console.is_terminal and not console.is_dumb_terminal and not os.environ.get("CI")


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column of a table: its title, its cell of a row, and how it is set."""

    title: str
    cell: Callable[[Row], str]
    words: bool = False
    """Whether it holds words, which stand on the left and may be broken between them; numbers never are."""


def choose(columns: Mapping[str, Column[Row]], asked: Sequence[str], usual: Sequence[str], wide: bool) -> list[str]:
    """The names of the columns that are shown: those asked for, or all, or the usual ones."""
    for name in asked:
        require_one_of("--columns", name, columns)
    return list(asked) or (list(columns) if wide else list(usual))


def columns_table(rows: Iterable[Row], columns: Sequence[Column[Row]]) -> Table:
    """A table without lines; where the terminal is too narrow, the first column is shortened."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        if column.words and index:
            made.add_column(column.title, justify="left", overflow="fold", min_width=min(12, len(column.title)))
        else:
            made.add_column(
                column.title, justify="left" if column.words else "right", overflow="ellipsis", no_wrap=True
            )
    for row in rows:
        made.add_row(*(Text(column.cell(row)) for column in columns))
    return made


def print_table(made: Table, console: Console, wide: bool) -> None:
    """A table; a wide one with lines as long as they are, for `less -S` or a file."""
    if wide:
        console = Console(file=console.file, highlight=False, width=10**4, color_system=None)
        made.expand = False
    elif Measurement.get(console, console.options.update(max_width=10**4), made).maximum > console.width:
        made.padding = (0, 1, 0, 0)  # a narrow gap reads better than broken words
    console.print(made, markup=False, soft_wrap=wide)


def make_table(
    titles: Iterable[str], left: Container[str], words: OverflowMethod = "fold", numbers: OverflowMethod = "fold"
) -> Table:
    """A table without lines; columns in `left` hold words, the others numbers; both say what becomes of long cells."""
    made = Table(box=None, pad_edge=False, header_style="bold", caption_justify="left")
    for title in titles:
        if title in left:
            made.add_column(title, justify="left", overflow=words)
        else:
            made.add_column(title, justify="right", overflow=numbers)
    return made
