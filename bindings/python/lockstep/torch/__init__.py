"""Lockstep as a backend of torch.distributed.

    import lockstep.torch  # torch 2.14 and later find the backend without this import
    torch.distributed.init_process_group("lockstep")

Coordinator: `init_method="lockstep://TOKEN"` names a running one (`lockstep coordinator`) by its run token;
"lockstep://host:port", "lockstep://file:PATH" and "lockstep://env:NAME" name one as lockstep.connect() does. Every
other init method of torch works, too: then the environment variable LOCKSTEP_COORDINATOR names the coordinator, in
one of these forms without lockstep://, and without the variable rank 0 runs one. Sub-groups have coordinators of
their own, each in the process of the group's first rank.

When a process dies (docs/torch.md has the whole table):

========= ============================== =================================== ====================================
mode      the collective in flight       the next collectives                the group
========= ============================== =================================== ====================================
strict    raises CollectiveError on all  raise CollectiveError, until every  keeps its size; `shrink(group)` goes on
          survivors; `error.lost` has    survivor has called `shrink(group)` without the lost ranks
          the ranks that are gone
elastic   all-reduce, barrier and        all-reduce, barrier and broadcast   shrinks by itself: rank and size change;
          broadcast (if its root lives)  work; the others do, too, once one  `group.result` has the contributors
          end among the survivors; the   of them has ended
          others raise CollectiveError
========= ============================== =================================== ====================================

A group with enable_reconfigure changes its members by torch's reconfigure; `reconfigurable()` is one for torchft's
Manager. `Replica` joins replicas of several processes each, with FSDP2 inside.

Training strategies over any run, without a process group (docs/strategies.md): `DataParallel`, `LocalSGD`, `FedAvg`,
`DiLoCo`, `DESLOC`, `StreamingDiLoCo`, `SparseLoCo`, `DeMo`, `SketchedSGD`, `JustOneByte` and `DPLoRA`, with the outer
optimizers `SGD` and `Nesterov`; `RunSampler` gives each sample to one peer. They are those of `lockstep.train`.

No process is ever killed. A tensor that is reduced in place holds its input after an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import train
from .._renamed import renamed
from ..train import *  # noqa: F403  # a program needs one import
from ._failure_policy import CollectiveError
from ._membership import ReconfigureOptions
from ._process_group import GroupOptions, ProcessGroup, monitored_barrier, reconfigurable, shrink
from ._register import register
from ._replica import Replica

__all__ = [
    "CollectiveError",
    "GroupOptions",
    "ProcessGroup",
    "ReconfigureOptions",
    "Replica",
    "monitored_barrier",
    "reconfigurable",
    "register",
    "shrink",
]
__all__ += train.__all__


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return renamed(__name__, name, {"Options": "GroupOptions"})


register()
