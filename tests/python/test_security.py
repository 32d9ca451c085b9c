"""Run tokens: who is admitted, what a stranger is told, and that no text shows a secret."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lockstep
import numpy as np
import pytest
from lockstep._program import program
from support import IN_TIME, Peers, says, until

SOON = 3.0  # seconds; the time-out of a connect() that must fail


@pytest.fixture
def secured() -> Iterator[lockstep.Coordinator]:
    """A coordinator that other machines could reach, too."""
    with lockstep.Coordinator(":0", advertise="127.0.0.1") as running:
        yield running


def shows(text: str, token: str) -> bool:
    """Whether a text has a part of a token that says something of its secret."""
    return any(token[at : at + 16] in text for at in range(5, len(token) - 16))


def token_command(*arguments: object) -> str:
    """What `lockstep token` prints."""
    command = [program(), "token", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=IN_TIME).stdout.strip()


def connect(coordinator: str, **options: Any) -> lockstep.Communicator:
    return lockstep.connect(coordinator, listen_host="127.0.0.1", timeout=IN_TIME, **options)


def sum_of_ranks(run: lockstep.Communicator, number: int) -> float:
    array = np.full(1000, number, np.float32)
    run.all_reduce(array)
    return float(array[-1])


def test_peers_with_the_token_reduce(secured: lockstep.Coordinator) -> None:
    assert secured.token.startswith("lks1_")
    assert Peers(secured)(3, sum_of_ranks) == [3, 3, 3]


@pytest.mark.parametrize("form", ["token", "file", "env"])
def test_every_form_names_the_coordinator(
    form: str, secured: lockstep.Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "run.token"
    file.write_text(secured.token + "\n")
    file.chmod(0o600)
    monkeypatch.setenv("LOCKSTEP_COORDINATOR", f"file:{file}")
    names = {"token": secured.token, "file": f"file:{file}", "env": "env:LOCKSTEP_COORDINATOR"}
    with connect(names[form]) as run:
        assert sum_of_ranks(run, 7) == 7


def test_a_coordinator_on_loopback_needs_no_token(coordinator: lockstep.Coordinator) -> None:
    assert coordinator.token == coordinator.address


def test_a_peer_without_a_token_is_told_what_to_do(secured: lockstep.Coordinator) -> None:
    with pytest.raises(lockstep.Refused) as caught:
        lockstep.connect(secured.address, timeout=SOON)
    says(caught.value, [secured.address, "TLS", "run token"])


def test_a_mistyped_token_is_refused_at_once_and_not_repeated(secured: lockstep.Coordinator) -> None:
    token = secured.token
    other = "b" if token[30] == "a" else "a"
    for wrong in (token[:30] + other + token[31:], token[:-3], token + "a", token[:60] + "\n" + token[60:], "lks1_"):
        with pytest.raises(lockstep.InvalidArgument) as caught:
            lockstep.connect(wrong)
        assert "token" in str(caught.value)
        assert not shows(str(caught.value), token)


def test_a_token_in_a_wrong_place_is_not_repeated(secured: lockstep.Coordinator) -> None:
    token = secured.token
    for wrong in (token, [token, "and more"], token[:60] + "\n" + token[60:], token.upper(), token + "\0"):
        with pytest.raises((TypeError, lockstep.InvalidArgument)) as caught:
            connect(token, minimum_world=wrong)
        says(caught.value, ["minimum_world is", "1_..."])
        assert not shows(str(caught.value).lower(), token)
    with pytest.raises(TypeError, match="and more"):  # the text around it stays
        connect(token, minimum_world=[token, "and more"])


def test_forms_that_name_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCKSTEP_COORDINATOR", raising=False)
    for name, part in (("env:LOCKSTEP_COORDINATOR", "LOCKSTEP_COORDINATOR"), (f"file:{tmp_path}/no", "no")):
        for wait in (True, False):
            with pytest.raises(lockstep.InvalidArgument, match=part):
                lockstep.connect(name, wait=wait)


def test_a_file_with_a_token_is_for_its_owner_only(secured: lockstep.Coordinator, tmp_path: Path) -> None:
    file = tmp_path / "run.token"
    file.write_text(secured.token + "\n")
    file.chmod(0o640)
    with pytest.raises(lockstep.InvalidArgument, match=f"chmod 600 {file}"):
        lockstep.connect(f"file:{file}", wait=False)


def test_the_token_of_another_coordinator_is_not_used(secured: lockstep.Coordinator, tmp_path: Path) -> None:
    """Another key at the address of the token: an error of the configuration, or somebody in between."""
    file = tmp_path / "other.tokens"
    with lockstep.Coordinator("127.0.0.1:0", token_file=file):
        pass
    token = token_command("new", "--tokens", file, "--address", secured.address)
    with pytest.raises(lockstep.Refused) as caught:  # at once
        lockstep.connect(token)
    says(caught.value, [secured.address, "another key than the run token names"])
    assert not shows(str(caught.value), token)


def test_no_text_shows_a_token(secured: lockstep.Coordinator, caplog: pytest.LogCaptureFixture) -> None:
    token = secured.token
    with caplog.at_level(logging.DEBUG, "lockstep"):
        with connect(token) as run:
            sum_of_ranks(run, 1)
            texts = [repr(secured), str(secured), repr(run)]
        with pytest.raises(lockstep.Refused) as refused:
            lockstep.connect(secured.address, timeout=SOON)
        until(lambda: "connects without a run token" in caplog.text)
        secured.stop()
        with pytest.raises(lockstep.Unreachable) as unreachable:
            lockstep.connect(token, timeout=0.1)
        until(lambda: "Trying again" in caplog.text)
    texts += [str(refused.value), str(unreachable.value), caplog.text]
    assert [text for text in texts if shows(text, token)] == []
    assert shows(f"peers connect with {token}\n", token)


def test_a_token_file_outlives_its_coordinator(tmp_path: Path) -> None:
    file = tmp_path / "run.tokens"
    with lockstep.Coordinator(":0", advertise="127.0.0.1", token_file=file) as first:
        token, port = first.token, first.address.rpartition(":")[2]
        with connect(token) as run:
            assert sum_of_ranks(run, 1) == 1
    assert file.stat().st_mode & 0o777 == 0o600
    with lockstep.Coordinator(f":{port}", advertise="127.0.0.1", token_file=file) as second:
        assert second.token == token
        with connect(token) as run:
            assert sum_of_ranks(run, 2) == 2


def test_a_token_file_secures_a_coordinator_on_loopback(tmp_path: Path) -> None:
    with lockstep.Coordinator("127.0.0.1:0", token_file=tmp_path / "run.tokens") as coordinator:
        assert coordinator.token.startswith("lks1_")
        with pytest.raises(lockstep.Refused):
            lockstep.connect(coordinator.address, timeout=SOON)


def test_an_observer_may_ask_but_not_join(tmp_path: Path) -> None:
    file, watch = tmp_path / "run.tokens", tmp_path / "watch.token"
    with lockstep.Coordinator("127.0.0.1:0", token_file=file) as coordinator:
        watch.write_text(token_command("new", "--tokens", file, "--role", "observer", "--name", "dashboard"))
        watch.chmod(0o600)
        texts: list[str] = []

        def is_known() -> bool:
            with pytest.raises(lockstep.Refused) as caught:
                lockstep.connect(f"file:{watch}", timeout=SOON)
            texts.append(str(caught.value))
            return "dashboard" in texts[-1]

        until(is_known)  # the coordinator reads its file again three times a second
        says(texts[-1], [coordinator.address, "observers"])
        done = subprocess.run(
            [program(), "status", f"file:{watch}"], capture_output=True, text=True, check=True, timeout=IN_TIME
        )
        assert not any(shows(text, watch.read_text()) for text in [done.stdout, done.stderr, *texts])


def test_a_revoked_token_ends_its_peers(tmp_path: Path) -> None:
    file = tmp_path / "run.tokens"
    with lockstep.Coordinator("127.0.0.1:0", token_file=file) as coordinator:
        with connect(coordinator.token) as run:
            token_command("revoke", "--tokens", file, "first")
            with pytest.raises((lockstep.Evicted, lockstep.NotConnected)) as caught:
                until(lambda: run.barrier(timeout=IN_TIME) is None)
        says(caught.value, ["token", "(first)", "revoked"])
        with pytest.raises(lockstep.Refused, match="revoked"):
            lockstep.connect(coordinator.token, timeout=SOON)


NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj")


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, capture_output=True, check=True, timeout=IN_TIME)


def certificates(folder: Path, authority: str, name: str) -> lockstep.Certificates:
    """A certificate for 127.0.0.1, as an administrator makes it; the authority is made if it is new."""
    if not (folder / f"{authority}.pem").exists():
        openssl(folder, "req", "-x509", *NEW_KEY, "/CN=us", "-keyout", f"{authority}.key", "-out", f"{authority}.pem")
    openssl(
        folder,
        "req",
        *NEW_KEY,
        f"/CN={name}",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-keyout",
        f"{name}.key",
        "-out",
        f"{name}.csr",
    )
    sign = ["x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key"]
    openssl(folder, *sign, "-CAcreateserial", "-copy_extensions", "copy", "-out", f"{name}.pem")
    return lockstep.Certificates(folder / f"{name}.pem", folder / f"{name}.key", folder / f"{authority}.pem")


def test_certificates_of_one_authority_admit(tmp_path: Path) -> None:
    ours = certificates(tmp_path, "ours", "coordinator")
    with lockstep.Coordinator("127.0.0.1:0", certificates=ours) as coordinator:
        assert coordinator.token == coordinator.address  # there is no token
        member = certificates(tmp_path, "ours", "member")
        with connect(coordinator.address, certificates=member) as run:
            assert run.world_size == 1
            theirs = certificates(tmp_path, "theirs", "stranger")
            with pytest.raises(lockstep.Refused, match="certificate of the other side is refused"):
                lockstep.connect(coordinator.address, certificates=theirs, timeout=SOON)
            with pytest.raises(lockstep.Refused, match="speaks TLS only"):
                lockstep.connect(coordinator.address, timeout=SOON)


def test_certificates_must_be_files_that_can_be_used(tmp_path: Path) -> None:
    wrong = lockstep.Certificates(tmp_path / "none.pem", tmp_path / "none.key", tmp_path / "none.pem")
    with pytest.raises(lockstep.InvalidArgument, match=r"none\.pem"):
        lockstep.connect("127.0.0.1:1", certificates=wrong, timeout=SOON)
    with pytest.raises(TypeError, match=r"allowed: a lockstep\.Certificates"):
        lockstep.connect("127.0.0.1:1", certificates="none.pem", timeout=SOON)  # type: ignore[arg-type]
    with pytest.raises(lockstep.InvalidArgument, match="use one of them"):
        lockstep.connect("127.0.0.1:1", certificates=wrong, insecure=True, timeout=SOON)


def test_insecure_excludes_tokens(tmp_path: Path) -> None:
    for options in ({"token_file": tmp_path / "run.tokens"}, {"advertise": "127.0.0.1"}):
        with pytest.raises(lockstep.InvalidArgument, match="insecure"):
            lockstep.Coordinator(":0", insecure=True, **options)
    assert list(tmp_path.iterdir()) == []


def test_an_insecure_coordinator_takes_plain_peers() -> None:
    with lockstep.Coordinator(":0", insecure=True) as coordinator:
        assert coordinator.token == coordinator.address
        with connect(coordinator.address, insecure=True) as run:
            assert sum_of_ranks(run, 5) == 5


@pytest.mark.parametrize("wrap", [str.encode, lambda t: [t], lambda t: t + chr(0), lambda t: t + chr(0xDC80)])
def test_no_error_shows_a_token(wrap: Any) -> None:
    token = "lks1_" + "a2345672" * 20
    with pytest.raises((TypeError, lockstep.Error)) as info:
        lockstep.connect(wrap(token), timeout=1)
    assert "lks1_..." in str(info.value)
    assert token[10:20] not in str(info.value)
