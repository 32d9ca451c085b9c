"""A small GPT learns Python: four peers train alone for 20 steps, then exchange what they have learnt, in 8 bits.

python diloco.py                           # a coordinator and four peers on this machine; kill any of the peers
python diloco.py --join 127.0.0.1:4000     # one more peer, of a run that is there, on any machine
"""

import argparse
import math

import lockstep
import torch
from char_gpt import GPT, examples, show, start
from lockstep.torch import DiLoCo, Nesterov


def train(run: lockstep.Communicator, steps: int) -> lockstep.State:
    model = GPT()
    inner = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.1)
    with DiLoCo(run, model, inner, inner_steps=20, outer=Nesterov(0.7, 0.9), wire="int8") as sync:
        while sync.inner_step < steps:
            inner.param_groups[0]["lr"] = 2e-3 * (0.55 + 0.45 * math.cos(math.pi * sync.inner_step / steps))
            loss = model.loss(examples(run.id, sync.inner_step))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            inner.step()
            inner.zero_grad()
            run.spend(0.2)  # a step's time in the simulator, for test_diloco_churn.py; no effect here
            info = sync.step()
            if info.outer and sync.is_leader:
                show(info, loss.item(), run.world.view)
    return lockstep.State(model.state_dict(), revision=sync.outer_step)


def peer(coordinator: str, founders: int, steps: int) -> None:
    with lockstep.connect(coordinator, founders=founders) as run:
        train(run, steps)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--join", metavar="HOST:PORT", help="coordinator of a run that is there")
    parser.add_argument("--peers", type=int, default=4, help="peers that begin together (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=400, help="inner steps (default: %(default)s)")
    given = parser.parse_args()
    start(peer, given.peers, given.steps, given.join)
