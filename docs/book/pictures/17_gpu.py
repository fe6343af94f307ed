"""Pictures of the chapter on GPUs: which lines of memory a warp touches, and who waits for whom."""

from __future__ import annotations

from collections.abc import Callable

from page_pictures import grid, lanes

from rushlight.learn.gpu import Memory, launch

Say = Callable[[str, str], str]


def draw_lines(say: Say) -> str:
    rows, columns, line = 4, 8, 4                      # lines of four elements
    table = Memory("table", range(rows * columns), (rows, columns))
    touched: dict[str, set[int]] = {"row": set(), "column": set()}

    def along(t, out, a):
        out[t.thread.x] = a[0, t.thread.x]

    def down(t, out, a):
        out[t.thread.x] = a[t.thread.x, 6]

    for name, kernel in (("row", along), ("column", down)):
        launch(kernel, (1,), (4,), Memory("out", [0] * 4), table)
        touched[name] = set(table.touched)
    cells = [[say(f"line {(row * columns + column) // line}", f"第 {(row * columns + column) // line} 行")
              for column in range(columns)] for row in range(rows)]
    count = {name: len({place // line for place in places}) for name, places in touched.items()}
    title = say(f"4 threads: along a row they touch {count['row']} line of memory, down a column {count['column']}",
                f"4 个线程：沿着一行读，碰到 {count['row']} 个内存行；沿着一列读，碰到 {count['column']} 个")
    everything = touched["row"] | touched["column"]
    return grid(title, cells, lambda row, column: row * columns + column in everything)


def draw_asynchrony(say: Say) -> str:
    rows = []
    for look in (False, True):
        host = card = 0.0
        calls: list[tuple[float, float, str]] = []
        work: list[tuple[float, float, str]] = []
        for number in range(4):
            calls.append((host, host + 10, f"{number}"))
            host += 10
            start = max(card, host)
            card = start + 30
            work.append((start, card, say(f"kernel {number}", f"内核 {number}")))
            if look:
                host = card
        word = say("with item()", "每次 item()") if look else say("no looking", "不看结果")
        rows += [(f"{word}: {say('host', '主机')}", calls), (f"{word}: {say('card', '显卡')}", work)]
    return lanes(say("Four launches of 10 us, four kernels of 30 us", "四次启动各 10 us，四个内核各 30 us"), rows,
                 say("time →", "时间 →"))
