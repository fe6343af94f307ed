"""Exercises of the chapter on data: readers, folds, workers, submissions."""

from types import ModuleType
from typing import Any

import rushlight as torch

from ..exercise import Exercise, chapter


def stream(answer: ModuleType, count: Any, workers: Any) -> Any:
    """What each worker of a data set gives, as its loader would ask it."""
    return [list(answer.shard(range(count), workers, number)) for number in range(workers)]


CHAPTER = chapter(
    "data_and_competition",
    "Data, and a competition",
    "数据与竞赛",
    Exercise(
        title="Numbers out of a CSV",
        title_zh="从 CSV 读数",
        text="""Given the text of a CSV file whose first line names the columns, and the name of the target column,
        return (x, y): a float tensor (rows, other columns, in their order) and a float tensor (rows). An empty field
        is a missing number and becomes 0. Blank lines are skipped; no field is quoted.""",
        solution='''
        import rushlight as torch


        def read(text, target):
            """The features and the targets of a table."""
            lines = [line.split(",") for line in text.splitlines() if line.strip()]
            at = lines[0].index(target)
            rows = [[float(field) if field.strip() else 0.0 for field in line] for line in lines[1:]]
            x = [row[:at] + row[at + 1 :] for row in rows]
            return torch.tensor(x), torch.tensor([row[at] for row in rows])
        ''',
        hint="Find the number of the target column in the first line; a row without it is `row[:at] + row[at + 1:]`.",
        cases=lambda: [
            ("a,y\n1,2\n", "y"),
            ("y,a\n1,2\n", "y"),
            ("a,y,b\n1,2,3\n\n4,,6\n", "y"),
            ("a,b,c\n1.5,,-2\n , 7,8\n", "b"),
        ],
    ),
    Exercise(
        title="Folds",
        title_zh="交叉验证的折",
        text="""Split the row numbers 0 … count-1 into `folds` runs of neighbours whose sizes differ by at most one,
        larger ones first. Return a list of (training rows, validation rows), one per fold.""",
        solution='''
        def split(count, folds):
            """(training, validation) row numbers of every fold."""
            pairs = []
            start = 0
            for fold in range(folds):
                end = start + count // folds + (fold < count % folds)
                valid = list(range(start, end))
                pairs.append(([row for row in range(count) if row not in valid], valid))
                start = end
            return pairs
        ''',
        hint="`count % folds` folds get one row more than `count // folds`.",
        cases=lambda: [(2, 2), (3, 2), (4, 1), (5, 3), (7, 3), (2, 3)],
    ),
    Exercise(
        title="Which worker reads what",
        title_zh="每个工作进程读什么",
        text="""An iterable data set in several loader workers must not give everything in each of them. Write
        `shard(items, workers, number)`, which yields the items of worker `number`: every `workers`-th item, beginning
        with the one of its own number.""",
        solution='''
        def shard(items, workers, number):
            """The items that worker `number` of `workers` gives."""
            for position, item in enumerate(items):
                if position % workers == number:
                    yield item
        ''',
        hint="The remainder of an item's position tells whose it is.",
        cases=lambda: [(0, 1), (3, 1), (4, 2), (7, 3), (2, 4)],
        probe=stream,
        asks="the items of each worker, of {0} items and {1} workers",
    ),
    Exercise(
        title="Pad a batch",
        title_zh="补齐一批",
        text="""Write a `collate_fn` for a list of one-dimensional int tensors of different lengths: return (batch,
        lengths), the batch of shape (number, longest) filled with -1 behind the end of each, the lengths an int
        tensor. Order is kept; there is at least one tensor.""",
        solution='''
        import rushlight as torch


        def collate(samples):
            """A padded batch and the lengths of its rows."""
            lengths = torch.tensor([len(sample) for sample in samples])
            batch = torch.full((len(samples), max(len(sample) for sample in samples)), -1)
            for row, sample in zip(batch, samples):
                row[: len(sample)] = sample
            return batch, lengths
        ''',
        hint="`torch.full` makes the padding; a row of the batch is a view that can be written into.",
        cases=lambda: [
            ([torch.tensor(row, dtype=torch.int64) for row in rows],)
            for rows in ([[5]], [[1, 2], [3]], [[], [7, 8, 9]], [[4, 4], [], [6]])
        ],
    ),
    Exercise(
        title="Who waits for whom",
        title_zh="谁在等谁",
        text="""Loading a batch takes `load` ms in one worker; a step of the model takes `step` ms. With w workers a
        batch is ready every load / w ms. Return the smallest number of workers, 0 to `most`, with which the model
        never waits, or `most` where none suffices. 0 workers means that loading happens between the steps: then it
        waits unless load is 0. All are whole numbers.""",
        solution='''
        def workers(load, step, most):
            """The smallest number of workers with which loading is no bottleneck."""
            if load == 0:
                return 0
            for count in range(1, most):
                if load <= step * count:
                    return count
            return most
        ''',
        hint="With w workers loading keeps up when load <= w * step.",
        cases=lambda: [
            (0, 5, 4),
            (5, 5, 4),
            (6, 5, 4),
            (10, 5, 4),
            (11, 5, 4),
            (100, 5, 4),
            (3, 9, 0),
            (1, 0, 3),
            (15, 5, 4),
            (1, 9, 2),
        ],
    ),
)
