"""Training strategies over any run of peers (docs/strategies.md).

    from lockstep.train import DiLoCo

A strategy keeps the loop of a program, and decides what peers exchange, and how often: `DataParallel`, `LocalSGD`,
`FedAvg`, `DiLoCo`, `DESLOC`, `StreamingDiLoCo`, `SparseLoCo`, `DeMo`, `SketchedSGD`, `JustOneByte` and `DPLoRA`, with
the outer optimizers `SGD` and `Nesterov`. `LocalTraining` is for a strategy of your own: derive from `Averaging` or
`Gathering`. `RunSampler` gives each sample to one peer. A strategy takes a communicator
of lockstep.connect(), or a lockstep.torch.Replica, or None to train alone; it uses no process group of torch.

lockstep.torch has the same names.
"""

from __future__ import annotations

from .data_parallel import DataParallel
from .demo import DeMo
from .desloc import DESLOC
from .desync import Desync
from .diloco import DiLoCo
from .dp_lora import DPLoRA
from .exchange import Averaging, Contribution, Exchange, Gathering, Round
from .fragments import by_block, by_bytes
from .local_sgd import FedAvg, LocalSGD
from .local_training import LocalTraining
from .one_byte import JustOneByte
from .outer import SGD, Nesterov, OuterOptimizer
from .sampler import RunSampler
from .sketched import SketchedSGD
from .sparse_loco import SparseLoCo
from .step_info import StepInfo
from .strategy import Strategy
from .streaming import StreamingDiLoCo
from .wire import Wire

__all__ = [
    "DESLOC",
    "SGD",
    "Averaging",
    "Contribution",
    "DPLoRA",
    "DataParallel",
    "DeMo",
    "Desync",
    "DiLoCo",
    "Exchange",
    "FedAvg",
    "Gathering",
    "JustOneByte",
    "LocalSGD",
    "LocalTraining",
    "Nesterov",
    "OuterOptimizer",
    "Round",
    "RunSampler",
    "SketchedSGD",
    "SparseLoCo",
    "StepInfo",
    "Strategy",
    "StreamingDiLoCo",
    "Wire",
    "by_block",
    "by_bytes",
]
