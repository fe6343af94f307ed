"""Scale on paper: how long a training step takes on a cluster that is not there, from constants that were measured.

    python -m rushlight.distributed.simulator --layers 96 --width 12288 --heads 96 --ranks 1024 --batch 1536

`simulate` forecasts one layout, `plan` tries all, `page` shows the timeline, `measure` takes this machine's constants.
"""

from .engine import Forecast as Forecast, Span as Span, simulate as simulate
from .layout import Layout as Layout
from .machines import CLUSTERS as CLUSTERS, Chip as Chip, Cluster as Cluster, Level as Level, Link as Link
from .page import page as page, trace as trace
from .plan import plan as plan
from .work import Block as Block, Model as Model, of_module as of_module, transformer as transformer
