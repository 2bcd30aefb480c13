"""What a command leaves on a terminal of so many columns: `screen.py 80 fedhalt replay runs`.

With $UNTIL, a regular expression, what it shows once it has written that; it is interrupted then.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios

LINES = 50


def main(width: int, line: list[str]) -> None:
    """Runs it on a pseudo-terminal and prints its lines as they stand in the end, after the command itself."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, width, 0, 0))
    here = {**os.environ, "TERM": "xterm-256color", "NO_COLOR": "1"}
    here.pop("COLUMNS", None)
    program = [sys.executable, "-c", "from fedhalt.cli import main; main()", *line[1:]]
    process = subprocess.Popen(program, stdin=slave, stdout=slave, stderr=slave, env=here)
    os.close(slave)
    shown = _read(master, process, os.environ.get("UNTIL", "").encode())
    print(f"$ {' '.join(line)}")
    print("\n".join(_screen(shown)))


def _read(master: int, process: "subprocess.Popen[bytes]", until: bytes) -> str:
    """All that it writes, or what it has written once it has written `until`."""
    content = b""
    while True:
        if until and re.search(until, content):
            process.send_signal(signal.SIGINT)
            break
        if select.select([master], [], [], 0.2)[0]:
            try:
                more = os.read(master, 65536)
            except OSError:  # nobody writes there any more
                break
            content += more
            if not more:
                break
    os.close(master)
    process.wait()
    return content.decode(errors="replace")


def _screen(text: str) -> list[str]:
    """The lines after all that was drawn over; enough of a terminal for what rich writes."""
    lines, row = [""], 0
    for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", text):
        code = re.fullmatch(r"\x1b\[([0-9;?]*)([A-Za-z])", part)
        if code and code[2] == "A":
            row = max(0, row - int(code[1] or 1))
        elif code and code[2] == "K":
            lines[row] = ""
        elif part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif not code and part != "\r":
            lines[row] += part
    return [line.rstrip() for line in "\n".join(lines).rstrip().split("\n")]


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
