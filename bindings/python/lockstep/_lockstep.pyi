"""
Native part of lockstep; import lockstep instead.
"""

from __future__ import annotations
import collections.abc
import lockstep.types
import typing

__all__: list[str] = [
    "Communicator",
    "Conditions",
    "Coordinator",
    "Handle",
    "Result",
    "SketchHash",
    "SparseAverage",
    "SparseBlock",
    "SparseEncoder",
    "SparseLayout",
    "Swarm",
    "TileDct",
    "Waker",
    "Work",
    "addresses_of",
    "begin_exit",
    "bytes_of",
    "collect",
    "constants",
    "cosines",
    "describe",
    "difference",
    "direction",
    "end_lines",
    "fetch_lines",
    "hold",
    "in_python",
    "is_exiting",
    "mix",
    "nesterov_step",
    "peer_id_text",
    "philox",
    "set_no_wait",
    "sgd_step",
    "status_string",
    "until_over",
    "version",
    "wait_any",
]

class Result:
    """
    How a call ended. What does not apply to a call is 0 or empty.

    Example:
        >>> result = run.all_reduce(gradient, op="avg")
        >>> result.world_size, hex(result.hash), result.retries, result.seconds
    """
    def __getstate__(self) -> tuple: ...
    def __repr__(self) -> str: ...
    def __setstate__(self, arg0: tuple) -> None: ...
    @property
    def algorithm(self) -> str:
        """
        All-reduce, reduce-scatter, all-gather, reduce, broadcast: "ring", "direct" or "grid", equal on
        every peer.
        Other calls: "auto".
        """
    @property
    def attempt(self) -> int:
        """
        The attempt that committed.
        """
    @property
    def blocks(self) -> tuple[int, ...]:
        """
        All-gather, gather, scatter, all-to-all: elements that each rank sent to this peer, in rank order.
        """
    @property
    def bytes_received(self) -> int:
        """
        Bytes of payload received, all attempts.
        """
    @property
    def bytes_sent(self) -> int:
        """
        Bytes of payload sent, all attempts.
        """
    @property
    def chunk(self) -> slice:
        """
        Reduce-scatter: the elements of the flat input that `output` holds, as a slice.
        """
    @property
    def cohort(self) -> int:
        """
        Number of the view whose members the call was made among.
        """
    @property
    def congestion_control(self) -> str:
        """
        Congestion control of TCP where this peer sent arrays while the call ran, as the system reports it.
        "bbr"; "bbr, cubic" if streams differ; empty: it sent none, or not over TCP.
        """
    @property
    def contributors(self) -> tuple[lockstep.types.PeerId, ...]:
        """
        The lockstep.PeerId of each contributor, in rank order; equal on every peer.
        """
    @property
    def count(self) -> int:
        """
        Send and recv: the elements that were transferred.
        """
    @property
    def groups(self) -> int:
        """
        Groups with at least one member, in the same view as `members`.
        """
    @property
    def hash(self) -> int:
        """
        64-bit hash of the result; equal on every peer.
        """
    @property
    def largest_group(self) -> int:
        """
        Members of the group that has the most, in the same view as `members`.
        """
    @property
    def lineage(self) -> int:
        """
        Sync and prefetch: the lineage of the state in memory; equal for states that grew out of one; 0: none yet.
        """
    @property
    def members(self) -> int:
        """
        Members of all groups. Committed calls: in the view in which the attempt began, equal on every contributor;
        other calls: in the newest view, so equal on every member after admit().
        """
    @property
    def newcomers(self) -> tuple[lockstep.types.PeerId, ...]:
        """
        admit() and wait_for_world(): the lockstep.PeerId of each peer that joined during the call.
        """
    @property
    def output(self) -> typing.Any:
        """
        The array that holds the result, cut to what was received. None where a call has no result of its own.
        """
    @output.setter
    def output(self, arg0: typing.Any) -> None: ...
    @property
    def partner(self) -> typing.Any:
        """
        Send: the receiver. Recv: the sender. None for other calls.
        """
    @property
    def rank(self) -> int:
        """
        This peer's place among the contributors.
        """
    @property
    def rates(self) -> tuple[int, ...]:
        """
        All-reduces in which each peer owned a part by what its line carries: bytes a second of each contributor's
        line towards the others, as measured in earlier calls, in rank order; 0: not known. Equal on every peer.
        Empty: all peers owned equal parts.
        """
    @property
    def retries(self) -> int:
        """
        Attempts that were given up because a member was lost or left.
        """
    @property
    def revision(self) -> int:
        """
        Sync and prefetch: the revision of the state in memory.
        """
    @property
    def seconds(self) -> float:
        """
        Seconds from the call to its end, on this peer.
        """
    @property
    def state_difference(self) -> str:
        """
        Which peers' watched states differ and where first (Communicator.watch); empty: none.
        Sync: whose state had strayed and was overwritten, of which revision, and the first array that differed.
        """
    @property
    def state_root(self) -> typing.Any:
        """
        Sync: XXH3-128 of the state; equal for equal states.
        """
    @property
    def state_undefined(self) -> bool:
        """
        Sync: the call failed while the state was being written: the arrays hold no state until a sync succeeds.
        Prefetch: the arrays hold a part of a state.
        """
    @property
    def status(self) -> lockstep.types.Status:
        """
        The lockstep.Status that the call ended with.
        """
    @property
    def streams(self) -> int:
        """
        Number of streams of TCP, to all other peers together, that this peer sent arrays on while the call ran.
        Where a line loses packets, it grows from call to call until more streams carry no more bytes.
        """
    @property
    def tag(self) -> int:
        """
        The call's name.
        """
    @property
    def use(self) -> int:
        """
        Which call with this tag in this cohort it was, from 0.
        """
    @property
    def view(self) -> int:
        """
        Number of the newest view when the call ended.
        """
    @property
    def weight(self) -> float:
        """
        Sum of all weights of a committed weighted average.
        """
    @property
    def world_size(self) -> int:
        """
        Contributors of a committed call; else the members of this peer's group now.
        """

class Work:
    """
    A call in flight, from a method that ends in _async.

    The call continues when the Work is dropped, and its arrays stay alive until the call is over. Under asyncio,
    `await work` returns the Result.

    Example:
        >>> work = run.all_reduce_async(gradient, op="avg")
        >>> work.done()
        False
        >>> result = work.wait(timeout=30)
    """

    _judge: typing.Any
    _on_end: typing.Any
    def __await__(self) -> collections.abc.Generator[typing.Any, None, Result]: ...
    def abort(self, why: typing.Any = "no reason given") -> None:
        """
        Ends a call that is not over: a collective for every peer, unless it is committed already. Does not wait.

        why: for the error texts of all peers, at most 1024 bytes.
        """
    def done(self) -> bool:
        """
        Whether the call is over, however it ended. Never blocks.
        """
    def result(self, timeout: typing.Any = None) -> Result:
        """
        The same as wait(), as in concurrent.futures.
        """
    def wait(self, timeout: typing.Any = None) -> Result:
        """
        Waits until the call is over and returns its Result.

        timeout: seconds, None for no limit, 0 to look once.
        Raises what the call ended with; WaitTimedOut (a TimeoutError) when the time is up: the call goes on.
        Ctrl-C ends the wait, and the call goes on.
        """
    @property
    def progress(self) -> tuple[int, ...]:
        """
        How far a sync or prefetch is, as (bytes, of): bytes of the bytes that differ are here; (0, 0): not known yet.
        """

class Waker:
    def __init__(self) -> None: ...
    def fileno(self) -> int: ...
    def take(self) -> list[int]: ...
    def watch(self, work: Work, token: typing.SupportsInt | typing.SupportsIndex) -> None: ...

class Coordinator:
    def __init__(self, arg0: dict) -> None: ...
    def address(self) -> str: ...
    def flight_record(self, arg0: typing.Any) -> None: ...
    def stop(self) -> None: ...
    def token(self) -> str: ...

class Handle:
    pass

class Conditions:
    @staticmethod
    def from_scenario(arg0: str, arg1: typing.SupportsInt | typing.SupportsIndex) -> Conditions: ...
    @staticmethod
    def from_text(arg0: str) -> Conditions: ...
    @staticmethod
    def keys() -> dict[str, list[str]]: ...
    def add(self, arg0: dict) -> None: ...
    def faults(self) -> list[str]: ...
    def founders(self) -> int: ...
    def hosts(self) -> int: ...
    def to_text(self) -> str: ...
    def with_faults(self, arg0: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]) -> Conditions: ...

class Swarm:
    def __init__(self, arg0: Conditions) -> None: ...
    def enter(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def exit(self, arg0: typing.SupportsInt | typing.SupportsIndex, arg1: str | None) -> None: ...
    def host_of(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> str: ...
    def killed(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> bool: ...
    def now(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> float: ...
    def open(self, arg0: typing.SupportsInt | typing.SupportsIndex, arg1: dict) -> Handle: ...
    def run(self, arg0: collections.abc.Callable) -> dict: ...
    def spend(
        self, arg0: typing.SupportsInt | typing.SupportsIndex, arg1: typing.SupportsFloat | typing.SupportsIndex
    ) -> bool: ...

class Communicator:
    @typing.overload
    def __init__(self, arg0: Handle) -> None: ...
    @typing.overload
    def __init__(self, arg0: dict) -> None: ...
    def abort_all(self, arg0: typing.Any) -> None: ...
    def admit(self, arg0: typing.Any) -> Result: ...
    def admit_async(self, arg0: typing.Any) -> Work: ...
    def agree_pending(self, arg0: typing.Any, arg1: typing.Any) -> int: ...
    def all_gather(self, arg0: typing.Any, arg1: typing.Any, arg2: tuple) -> Result: ...
    def all_gather_async(self, arg0: typing.Any, arg1: typing.Any, arg2: tuple) -> Work: ...
    def all_reduce(self, arg0: typing.Any, arg1: typing.Any, arg2: typing.Any, arg3: tuple) -> Result: ...
    def all_reduce_async(self, arg0: typing.Any, arg1: typing.Any, arg2: typing.Any, arg3: tuple) -> Work: ...
    def all_to_all(self, arg0: typing.Any, arg1: typing.Any, arg2: list, arg3: tuple) -> Result: ...
    def all_to_all_async(self, arg0: typing.Any, arg1: typing.Any, arg2: list, arg3: tuple) -> Work: ...
    def barrier(self, arg0: tuple) -> Result: ...
    def barrier_async(self, arg0: tuple) -> Work: ...
    def broadcast(self, arg0: typing.Any, arg1: typing.Any, arg2: bool, arg3: tuple) -> Result: ...
    def broadcast_async(self, arg0: typing.Any, arg1: typing.Any, arg2: bool, arg3: tuple) -> Work: ...
    def close(self) -> None: ...
    def connect(self, arg0: typing.Any, arg1: typing.Any) -> None: ...
    def connect_async(self, arg0: typing.Any, arg1: typing.Any) -> Work: ...
    def fetching(self) -> int: ...
    def flight_record(self, arg0: typing.Any) -> None: ...
    def gather(self, arg0: typing.Any, arg1: typing.Any, arg2: typing.Any, arg3: tuple) -> Result: ...
    def gather_async(self, arg0: typing.Any, arg1: typing.Any, arg2: typing.Any, arg3: tuple) -> Work: ...
    def group_sizes(self) -> dict: ...
    def holding(self) -> int: ...
    def id(self) -> typing.Any: ...
    def leave(self, arg0: typing.Any) -> None: ...
    def leave_async(self, arg0: typing.Any) -> Work: ...
    def member_ids(self, arg0: typing.Any) -> list: ...
    def pending(self) -> int: ...
    def prefetch_state(self, arg0: dict, arg1: dict, arg2: typing.Any) -> Result: ...
    def prefetch_state_async(self, arg0: dict, arg1: dict) -> Work: ...
    def publish_state(self, arg0: dict, arg1: dict) -> None: ...
    def publish_state_async(self, arg0: dict, arg1: dict) -> Work: ...
    def recv(self, arg0: typing.Any, arg1: typing.Any, arg2: tuple) -> Result: ...
    def recv_async(self, arg0: typing.Any, arg1: typing.Any, arg2: tuple) -> Work: ...
    def recv_plain(
        self, arg0: typing.Any, arg1: list, arg2: typing.SupportsInt | typing.SupportsIndex, arg3: tuple
    ) -> Work | None: ...
    def reduce(self, arg0: typing.Any, arg1: typing.Any, arg2: typing.Any, arg3: tuple) -> Result: ...
    def reduce_async(self, arg0: typing.Any, arg1: typing.Any, arg2: typing.Any, arg3: tuple) -> Work: ...
    def reduce_scatter(self, arg0: typing.Any, arg1: typing.Any, arg2: tuple) -> Result: ...
    def reduce_scatter_async(self, arg0: typing.Any, arg1: typing.Any, arg2: tuple) -> Work: ...
    def refuse(self, arg0: typing.Any, arg1: typing.Any, arg2: typing.Any) -> None: ...
    def scatter(self, arg0: typing.Any, arg1: typing.Any, arg2: typing.Any, arg3: list, arg4: tuple) -> Result: ...
    def scatter_async(self, arg0: typing.Any, arg1: typing.Any, arg2: typing.Any, arg3: list, arg4: tuple) -> Work: ...
    def send(self, arg0: typing.Any, arg1: typing.Any, arg2: tuple) -> Result: ...
    def send_async(self, arg0: typing.Any, arg1: typing.Any, arg2: tuple) -> Work: ...
    def send_plain(
        self, arg0: typing.Any, arg1: list, arg2: typing.SupportsInt | typing.SupportsIndex, arg3: tuple
    ) -> Work | None: ...
    def stage(self) -> int: ...
    def sync_state(self, arg0: dict, arg1: dict, arg2: typing.Any) -> Result: ...
    def sync_state_async(self, arg0: dict, arg1: dict) -> Work: ...
    def unpublish_state(self, arg0: typing.Any) -> None: ...
    def wait_for_world(self, arg0: typing.Any, arg1: typing.Any) -> Result: ...
    def wait_for_world_async(self, arg0: typing.Any, arg1: typing.Any) -> Work: ...
    def watch_state(self, arg0: typing.Any, arg1: dict) -> None: ...
    def world(self) -> tuple[int, int, int, typing.Any, int, int, int, int, int, int]: ...

class TileDct:
    """
    The DCT-II of tiles of height * width elements, and its inverse.
    """
    def __init__(
        self, height: typing.SupportsInt | typing.SupportsIndex, width: typing.SupportsInt | typing.SupportsIndex
    ) -> None: ...
    def backward(
        self,
        coefficients: typing.Any,
        values: typing.Any,
        grid: tuple[
            typing.SupportsInt | typing.SupportsIndex,
            typing.SupportsInt | typing.SupportsIndex,
            typing.SupportsInt | typing.SupportsIndex,
        ],
    ) -> None:
        """
        The inverse.
        """
    def forward(
        self,
        values: typing.Any,
        coefficients: typing.Any,
        grid: tuple[
            typing.SupportsInt | typing.SupportsIndex,
            typing.SupportsInt | typing.SupportsIndex,
            typing.SupportsInt | typing.SupportsIndex,
        ],
    ) -> None:
        """
        Sets coefficients, tile after tile; grid as in SparseEncoder.add_momentum().
        """

class SparseLayout:
    """
    How tensors are cut into chunks: for each tensor, runs of (chunks, length of a chunk, most kept elements).
    """
    def __init__(
        self,
        tensors: collections.abc.Sequence[
            collections.abc.Sequence[
                tuple[
                    typing.SupportsInt | typing.SupportsIndex,
                    typing.SupportsInt | typing.SupportsIndex,
                    typing.SupportsInt | typing.SupportsIndex,
                ]
            ]
        ],
    ) -> None: ...
    @property
    def most_bytes(self) -> int:
        """
        Size of the largest block.
        """

class SparseEncoder:
    """
    Writes a block of the largest elements, chunk after chunk, in the order of the layout.
    """
    def __init__(self, layout: SparseLayout) -> None: ...
    def add(self, values: typing.Any) -> None:
        """
        The next chunks: whole ones, of one tensor.
        """
    def add_momentum(
        self,
        dct: TileDct,
        grid: tuple[
            typing.SupportsInt | typing.SupportsIndex,
            typing.SupportsInt | typing.SupportsIndex,
            typing.SupportsInt | typing.SupportsIndex,
        ],
        error: typing.Any,
        gradient: typing.Any,
        stride: typing.SupportsInt | typing.SupportsIndex,
        decay: typing.SupportsFloat | typing.SupportsIndex,
        lr: typing.SupportsFloat | typing.SupportsIndex,
    ) -> None:
        """
        The next chunks, of DCT(decay * error + lr * gradient), for tiles.

        grid: how many tiles are below each other and side by side, and the elements from row to row of error.
        gradient: None for zeros. stride: the elements from row to row of gradient. Arrays begin with the first tile.
        """
    def add_progress(
        self, error: typing.Any, theta: typing.Any, now: typing.Any, decay: typing.SupportsFloat | typing.SupportsIndex
    ) -> None:
        """
        The next chunks, of decay * error + (theta - now); now: float32, bfloat16 or float16.
        """
    def write(
        self,
        block: typing.Any,
        weight: typing.SupportsFloat | typing.SupportsIndex | None,
        has_newcomers: bool,
        rate: typing.SupportsFloat | typing.SupportsIndex,
    ) -> None:
        """
        Writes the block into an array of bytes.
        """
    @property
    def size(self) -> int:
        """
        Bytes of the block, after the last chunk.
        """

class SparseBlock:
    """
    A block that was checked.
    """
    @staticmethod
    def decode(layout: SparseLayout, block: typing.Any) -> typing.Any:
        """
        Reads any bytes: a SparseBlock, or what is wrong with them as (kind, at, found, allowed, other, number, second).
        """
    def count(self, tensor: typing.SupportsInt | typing.SupportsIndex) -> int:
        """
        Elements of a tensor in the block.
        """
    def energy(self, tensor: typing.SupportsInt | typing.SupportsIndex) -> float:
        """
        Sum of the squares of a tensor's values.
        """
    def read(self, tensor: typing.SupportsInt | typing.SupportsIndex, places: typing.Any, values: typing.Any) -> None:
        """
        Sets arrays of int64 and float32 to the elements of a tensor.
        """
    @property
    def has_newcomers(self) -> bool: ...
    @property
    def rate(self) -> float: ...
    @property
    def weight(self) -> float | None: ...

class SparseAverage:
    """
    The average of blocks, and steps along it.
    """
    def __init__(self, blocks: collections.abc.Sequence[SparseBlock], counts_absent: bool, clips: bool) -> None: ...
    def average(self, tensor: typing.SupportsInt | typing.SupportsIndex, out: typing.Any) -> None:
        """
        Sets out to the average of a tensor.
        """
    def sign_step(
        self,
        own: SparseBlock | None,
        tensor: typing.SupportsInt | typing.SupportsIndex,
        begin: typing.SupportsInt | typing.SupportsIndex,
        dct: TileDct,
        grid: tuple[
            typing.SupportsInt | typing.SupportsIndex,
            typing.SupportsInt | typing.SupportsIndex,
            typing.SupportsInt | typing.SupportsIndex,
        ],
        error: typing.Any,
        theta: typing.Any,
        gradient: typing.Any,
        stride: typing.SupportsInt | typing.SupportsIndex,
        model: typing.Any,
        decay: typing.SupportsFloat | typing.SupportsIndex,
        lr: typing.SupportsFloat | typing.SupportsIndex,
        remains: typing.SupportsFloat | typing.SupportsIndex,
    ) -> None:
        """
        The step of DeMo, for tiles as in SparseEncoder.add_momentum().

        error = decay * error + lr * gradient - inverse DCT(own);
        theta = remains * theta - lr * sign(inverse DCT(average)); model, unless None, becomes theta.
        begin: the first of the tiles' coefficients, in the tensor.
        """
    def sparse_step(
        self,
        own: SparseBlock | None,
        tensor: typing.SupportsInt | typing.SupportsIndex,
        begin: typing.SupportsInt | typing.SupportsIndex,
        error: typing.Any,
        theta: typing.Any,
        now: typing.Any,
        model: typing.Any,
        decay: typing.SupportsFloat | typing.SupportsIndex,
        lr: typing.SupportsFloat | typing.SupportsIndex,
    ) -> None:
        """
        The step of SparseLoCo, for whole chunks of a tensor from element begin on.

        error = decay * error + (theta - now) - own; theta = theta - lr * average; model, unless None, becomes theta.
        own: a block, or None.
        """
    @property
    def total(self) -> float:
        """
        Sum of the weights.
        """

class SketchHash:
    """
    The hash functions of count sketches, in chunks of 4096 elements.
    """
    def __init__(
        self,
        count: typing.SupportsInt | typing.SupportsIndex,
        each: typing.SupportsInt | typing.SupportsIndex,
        last: typing.SupportsInt | typing.SupportsIndex,
        key: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex],
    ) -> None: ...
    def sketch(
        self,
        turn: typing.SupportsInt | typing.SupportsIndex,
        first: typing.SupportsInt | typing.SupportsIndex,
        values: typing.Any,
        buckets: typing.Any,
    ) -> None:
        """
        Sets the buckets of whole chunks from element first on.
        """
    def unsketch(
        self,
        turn: typing.SupportsInt | typing.SupportsIndex,
        first: typing.SupportsInt | typing.SupportsIndex,
        values: typing.Any,
        buckets: typing.Any,
    ) -> None:
        """
        Sets values to their buckets, with the signs taken back.
        """
    @property
    def buckets(self) -> int:
        """
        Number of all buckets.
        """

def addresses_of(arg0: str) -> str: ...
def begin_exit() -> None: ...
def bytes_of(arg0: typing.Any) -> bytes: ...
def collect() -> None: ...
def constants() -> dict: ...
def cosines(count: typing.SupportsInt | typing.SupportsIndex) -> list[int]:
    """
    The matrix of the DCT-II of count elements, times 2**15, as integers, row by row.
    """

def describe(arg0: typing.Any) -> tuple[int, str]: ...
def difference(into: typing.Any, old: typing.Any, now: typing.Any) -> None:
    """
    into = old - now, as float32, where old is rounded to the type of now first: float32, bfloat16 or float16.
    """

def direction(
    first: typing.SupportsInt | typing.SupportsIndex,
    rest: typing.Annotated[collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], "FixedSize(3)"],
    key: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex],
    slope: typing.SupportsFloat | typing.SupportsIndex,
    values: typing.Any,
) -> None:
    """
    Sets values to slope or -slope, by bits of Philox from bit first on.
    """

def end_lines() -> None: ...
def fetch_lines(seconds: typing.SupportsFloat | typing.SupportsIndex) -> tuple: ...
def hold(model: typing.Any, values: typing.Any) -> None:
    """
    model = values, rounded to the type of the model.
    """

def in_python(arg0: str) -> str: ...
def is_exiting() -> bool: ...
def mix(
    model: typing.Any,
    shared: typing.Any,
    alpha: typing.SupportsFloat | typing.SupportsIndex,
    rest: typing.SupportsFloat | typing.SupportsIndex,
) -> None:
    """
    model = alpha * model + rest * shared, rounded to the type of the model.
    """

def nesterov_step(
    theta: typing.Any,
    momentum: typing.Any,
    gradient: typing.Any,
    lr: typing.SupportsFloat | typing.SupportsIndex,
    mu: typing.SupportsFloat | typing.SupportsIndex,
    model: typing.Any,
) -> None:
    """
    momentum = mu * momentum + gradient; theta = theta - lr * (gradient + mu * momentum); model as in sgd_step().
    """

def peer_id_text(arg0: bytes) -> str: ...
def philox(
    first: typing.SupportsInt | typing.SupportsIndex,
    rest: typing.Annotated[collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], "FixedSize(3)"],
    key: tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex],
    words: typing.Any,
) -> None:
    """
    Sets words to those of the counters (first, *rest), (first + 1, *rest), ...: 4 words for each.
    """

def set_no_wait(arg0: bool) -> bool: ...
def sgd_step(
    theta: typing.Any, gradient: typing.Any, lr: typing.SupportsFloat | typing.SupportsIndex, model: typing.Any
) -> None:
    """
    theta = theta - lr * gradient; then model, unless it is None, becomes theta, in its own type.
    """

def status_string(arg0: typing.SupportsInt | typing.SupportsIndex) -> str: ...
def until_over(work: Work) -> None: ...
def version() -> str: ...
def wait_any(works: list, timeout: typing.Any) -> int: ...
