"""The state of inner optimizers: none, partly none, or made before the first step; each of torch's optimizers."""

from __future__ import annotations

import threading
from typing import Any

import lockstep
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from lockstep.torch import DataParallel, DiLoCo, LocalSGD  # noqa: E402
from lockstep.train.optimizer_state import state_of  # noqa: E402

STEPS = 3


class Net(torch.nn.Module):
    """Has a frozen parameter, one that gets no gradient, and one that gets its first gradient in the last step."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.used = torch.nn.Linear(4, 3)
        self.frozen = torch.nn.Linear(3, 3)
        self.frozen.requires_grad_(False)
        self.late = torch.nn.Linear(3, 2)
        self.unused = torch.nn.Linear(2, 2)
        self.steps = 0

    def forward(self, x: Any) -> Any:
        y = self.frozen(self.used(x))
        self.steps += 1
        return self.late(y) if self.steps >= STEPS else y


SGD_OF_TWO_KINDS = "SGD, momentum in one group"
MAKERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD, momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
    SGD_OF_TWO_KINDS: lambda p: torch.optim.SGD(
        [{"params": list(p)[:2], "momentum": 0.9}, {"params": list(p)[2:]}], lr=0.1
    ),
    **{
        name: lambda p, kind=kind: kind(p, lr=0.1)
        for name in (
            "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "Adafactor"
        )
        if (kind := getattr(torch.optim, name, None)) is not None
    },
}  # fmt: skip


class List(list):  # type: ignore[type-arg]
    """Parameters that an optimizer may walk more than once."""


def inner_of(name: str, net: Any) -> Any:
    return MAKERS[name](List(net.parameters()))


def train(net: Any, inner: Any, after: Any = lambda: None, steps: int = STEPS) -> list[Any]:
    for _ in range(steps):
        net(torch.linspace(-1, 1, 8).view(2, 4)).square().mean().backward()
        inner.step()
        after()
        inner.zero_grad()
    return [parameter.detach().clone() for parameter in net.parameters()]


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_made_before_the_first_step_changes_nothing(name: str) -> None:
    plain, asked = Net(), Net()
    inner = inner_of(name, asked)
    for parameter in asked.parameters():
        parameter.grad = torch.ones_like(parameter) if parameter.requires_grad else None
    names = set(state_of(inner))
    assert all(p.grad is None or (p.grad == 1).all() for p in asked.parameters()), "gradients stay"
    inner.zero_grad()
    after = train(asked, inner)
    for one, other in zip(train(plain, inner_of(name, plain)), after):
        assert torch.equal(one, other)
    assert set(state_of(inner)) == names, "a newcomer has what a member has"
    member = inner_of(name, Net())
    train(plain, member, steps=1)
    assert set(state_of(member)) == names, "the same, if nobody had asked before"


@pytest.mark.parametrize("name", MAKERS)
def test_data_parallel_with_a_newcomer(name: str, coordinator: lockstep.Coordinator) -> None:
    """Two peers, of which one comes after a step: both hold the same bits, and no step is refused."""
    ends: dict[int, list[Any]] = {}
    began = threading.Event()

    def peer(number: int) -> None:
        net = Net()
        inner = inner_of(name, net)
        if number:
            began.wait()
        with (
            lockstep.connect(coordinator.address, timeout=20) as run,
            DataParallel(run, net, inner, check_every=1) as sync,
        ):

            def after() -> None:
                sync.step()
                began.set()
                while not number and sync.inner_step == 1 and run.world_size == 1 and not run.pending:
                    began.wait(0.001)

            train(net, inner, after, STEPS + 1 - sync.inner_step)
        ends[number] = [parameter.detach().clone() for parameter in net.parameters()]

    threads = [threading.Thread(target=peer, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(one, other) for one, other in zip(ends[0], ends[1]))


@pytest.mark.parametrize("strategy", [LocalSGD, DiLoCo])
def test_an_optimizer_that_needs_a_closure(strategy: Any) -> None:
    net = torch.nn.Linear(3, 1)
    inner = torch.optim.LBFGS(net.parameters())
    with pytest.raises(ValueError, match="LBFGS evaluates the loss several times in a step"):
        DataParallel(None, net, inner)
    with pytest.raises(ValueError, match="LBFGS evaluates the loss in its step"):
        state_of(inner)

    def closure() -> Any:
        inner.zero_grad()
        loss = net(torch.ones(3)).square().sum()
        loss.backward()
        return loss

    with strategy(None, net, inner, inner_steps=2) as sync:
        infos = []
        for _ in range(4):
            inner.step(closure)
            infos.append(sync.step())
    assert [info.outer for info in infos] == [False, True, False, True]
