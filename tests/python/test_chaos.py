"""Chaos for a few seconds; `python tests/python/chaos.py` does it for 1,000 steps."""

from __future__ import annotations

import chaos
import pytest


def test_training_goes_on_while_processes_are_killed_and_join(capfd: pytest.CaptureFixture[str]) -> None:
    assert chaos.main(["--steps", "80", "--every", "0.4", "--most", "4"]) == 0, capfd.readouterr().err
    with capfd.disabled():
        print(f"\n  {capfd.readouterr().out}", end="")


def test_hash_that_differs_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    judge = chaos.Chaos(chaos.arguments().parse_args([]))
    one, other = (chaos.Peer(number, None) for number in range(2))  # type: ignore[arg-type]
    judge.take(one, "step 7 3 00ff 2 0 abcd\n")
    judge.take(other, "step 7 3 00ff 2 0 abcd\n")
    with pytest.raises(AssertionError, match="step 7 of cohort 3: hash 00fe at peer 1, 00ff at another one"):
        judge.take(other, "step 7 3 00fe 2 0 abcd\n")
    with pytest.raises(AssertionError, match="after step 7: state abce at peer 1, abcd at another one"):
        judge.take(other, "step 7 4 00ff 2 0 abce\n")


def test_only_a_killed_peer_may_end_within_a_line() -> None:
    judge = chaos.Chaos(chaos.arguments().parse_args([]))
    peer = chaos.Peer(0, None)  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="peer 0 said 'step 7 3'"):
        judge.take(peer, "step 7 3")
    peer.was_killed = True
    judge.take(peer, "step 7 3")
