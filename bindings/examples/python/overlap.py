"""Communication beside computation under asyncio: one call per layer, awaited as they end, without a thread per call.

lockstep coordinator --listen 127.0.0.1:4000 &
python overlap.py 127.0.0.1:4000 2 & python overlap.py 127.0.0.1:4000 2
"""

import asyncio
import sys

import lockstep
import numpy as np

LAYERS = 8


async def step(run: lockstep.Communicator) -> float:
    works = []
    for layer in range(LAYERS):
        gradient = np.full(1 << 16, layer, np.float32)  # the backward pass of this layer would be here
        works.append(run.all_reduce_async(gradient, op="avg", tag=layer))
        await asyncio.sleep(0)
    results = await asyncio.gather(*(until_over(work) for work in works))
    return sum(result.seconds for result in results)


async def until_over(work: lockstep.Work) -> lockstep.Result:
    return await work


def main() -> None:
    coordinator, founders = sys.argv[1], int(sys.argv[2])
    with lockstep.connect(coordinator, founders=founders) as run:
        for number in range(10):
            seconds = asyncio.run(step(run))
            print(f"step {number}: {run.world_size} peers, {LAYERS} calls, {seconds * 1000:.1f} ms in all", flush=True)
            run.admit()


if __name__ == "__main__":
    main()
