"""What happens to a torch program when a process dies: the table in docs/torch.md, row by row; and the examples."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path

import lockstep
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch_processes import IN_TIME, TorchProcess, ranks  # noqa: E402

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "torch_losses.py"
PROGRAMS = Path(__file__).parent / "torch_programs.py"
DOCUMENT = ROOT / "docs" / "torch.md"
EXAMPLES = ROOT / "bindings" / "examples" / "python"

needs_sources = pytest.mark.skipif(not DOCUMENT.exists(), reason="the sources are not here: an installed package")


def rows_of(mode: str, size: int, method: str, survivors: list[int]) -> set[str]:
    """The rows that each survivor has found to be true."""
    with ranks(PROGRAM, [[mode, rank, size, method] for rank in range(size)]) as processes:
        codes = [processes[rank].end() for rank in survivors]
        outputs = [processes[rank].output() for rank in survivors]
    assert codes == [0] * len(survivors), outputs
    found = [set(re.findall(rf"^row (.*) {mode}$", output, re.MULTILINE)) for output in outputs]
    assert all(one == found[0] for one in found), outputs
    return found[0]


@needs_sources
def test_the_table_of_losses_is_true(tmp_path: Path, coordinator: lockstep.Coordinator) -> None:
    text = DOCUMENT.read_text().split("## When a process dies")[1].split("\n## ")[0]
    table = set(re.findall(r"^\| ([a-z].*?) \|", text, re.MULTILINE)) - {"what"}
    common = rows_of("coordinator", 3, f"lockstep://{coordinator.address}", [1])
    for mode in ("strict", "elastic"):
        assert rows_of(mode, 4, f"file://{tmp_path}/{mode}", [1, 2]) | common == table


def hashes_of(processes: list[TorchProcess]) -> dict[int, set[str]]:
    hashes: dict[int, set[str]] = {}
    for process in processes:
        for step, hashed in re.findall(r"step (\d+): \d \w+, hash ([0-9a-f]{16})", process.output()):
            hashes.setdefault(int(step), set()).add(hashed)
    return hashes


@needs_sources
def test_ddp_goes_on_without_a_dead_process(coordinator: lockstep.Coordinator) -> None:
    processes = []
    try:
        for rank in range(3):
            variables = {"RANK": str(rank), "WORLD_SIZE": "3"}
            method = f"lockstep://{coordinator.address}"
            arguments = ("--init-method", method, "--steps", 1_000_000)
            processes.append(TorchProcess(EXAMPLES / "ddp.py", *arguments, variables=variables))
        for process in processes:
            process.wait_for("step 5: 3 ranks, ")  # the first passes of DDP have broadcasts from rank 0
        at = processes[0].kill()
        for process in processes[1:]:
            process.wait_for(": 2 ranks, ", at)
    finally:
        for process in processes:
            process.close()
    assert all(len(equal) == 1 for equal in hashes_of(processes).values())


def test_ddp_with_buffers_survives_every_loss(coordinator: lockstep.Coordinator) -> None:
    """A rank dies while the others broadcast buffers; one dies at any moment; then the root of the broadcasts does."""
    method = f"lockstep://{coordinator.address}"
    processes = []
    try:
        for rank in range(4):
            variables = {"RANK": str(rank), "WORLD_SIZE": "4"}
            processes.append(TorchProcess(PROGRAMS, "buffers", rank, 4, method, variables=variables))
        root, survivor, other, _ = processes
        for process in (root, survivor, other):
            process.wait_for("step 6: 3 ranks, ")
        at = other.kill()
        for process in (root, survivor):
            process.wait_for(": 2 ranks, ", at)
        assert "failed" not in root.output() + survivor.output() + other.output()
        at = root.kill()
        survivor.wait_for(": 1 ranks, ", at)
        assert all("rank 0, the root" in line for _, line in survivor.lines if "failed" in line)
    finally:
        for process in processes:
            process.close()
    hashes = hashes_of(processes)
    assert len(hashes) > 6
    assert all(len(equal) == 1 for equal in hashes.values())


def children_of(process: TorchProcess) -> list[int]:
    """The processes that a process has started and that are alive."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            state, parent, *_ = stat.read_text().rpartition(")")[2].split()
            if int(parent) == process.process.pid and state != "Z":
                found.append(int(stat.parent.name))
    return sorted(found)


@pytest.mark.slow
@needs_sources
def test_a_replica_under_torchrun_ends_as_a_whole(tmp_path: Path, coordinator: lockstep.Coordinator) -> None:
    """One torchrun for each replica, without restarts. The other replica goes on; here it has no torchrun."""
    import torch.distributed.run

    example = (coordinator.address, "--replicas", 2, "--steps", 1_000_000)
    options = ("--standalone", "--nproc-per-node", 2, "--max-restarts", 0)
    launcher = TorchProcess(torch.distributed.run.__file__, *options, EXAMPLES / "fsdp_replicas.py", *example)
    others = []
    try:
        for rank in range(2):
            arguments = (*example, "--init-method", f"file://{tmp_path}/store")
            variables = {"RANK": str(rank), "WORLD_SIZE": "2"}
            others.append(TorchProcess(EXAMPLES / "fsdp_replicas.py", *arguments, variables=variables))
        for one in (launcher, *others):
            one.wait_for(": 2 replicas, ")
        at = time.monotonic()
        os.kill(children_of(launcher)[0], signal.SIGKILL)
        for one in others:
            one.wait_for(": 1 replicas, ", at)
        assert launcher.end() == 1
        assert children_of(launcher) == []
    finally:
        for worker in children_of(launcher):
            os.kill(worker, signal.SIGKILL)
        launcher.process.join(IN_TIME)
        for one in (launcher, *others):
            one.close()
    hashes = hashes_of([launcher, *others])
    assert all(len(equal) <= 2 for equal in hashes.values()), hashes  # one for each shard
