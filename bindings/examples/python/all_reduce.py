"""Peers that add up arrays, a hundred times. Start some, start more, kill any of them: the others continue.

lockstep coordinator --listen 127.0.0.1:4000 &
python all_reduce.py 127.0.0.1:4000 2 & python all_reduce.py 127.0.0.1:4000 2

Between machines: `lockstep coordinator` prints a run token; `python all_reduce.py lks1_... 2` on each.
"""

import sys

import lockstep
import numpy as np

coordinator, founders, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 100
with lockstep.connect(coordinator, founders=founders) as run:  # leaves the run at the end, also after an exception
    for _step in range(steps):
        gradient = np.ones(1 << 18, np.float32)  # a training step would be here
        result = run.all_reduce(gradient)  # in place; continues among the survivors when a peer is lost
        print(
            f"view {result.view}: {result.world_size} peers, sum {gradient[0]:g}, hash {result.hash:016x}", flush=True
        )
        run.admit()  # newcomers join here
