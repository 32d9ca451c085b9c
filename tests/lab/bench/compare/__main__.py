"""usage: python3 -m compare [options]; see options.py"""

import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import machine, settings
from .comparison import Comparison, Results
from .contenders import Contender, all_contenders
from .options import Options, parse
from .plot import picture
from .process import Failed, run
from .report import report
from .summary import LOCKSTEP, Row, cpu_of, rows_of
from .table import cpu_table, times_table
from .words import duration_words, three_digits

DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130


def say(words: str) -> None:
    print(words, flush=True)


def present(options: Options) -> list[Contender]:
    """Those that are asked for and there; tells of the others."""
    wanted = [LOCKSTEP, *options.against]
    there = []
    for contender in all_contenders(options.build):
        if contender.key not in wanted:
            continue
        why = contender.missing()
        if why is None:
            there.append(contender)
        else:
            say(f"{contender.name}: not compared: {why}")
    return there


def copy_speeds(build: Path) -> dict[str, float]:
    """GB/s of memcpy, in cache and out of it."""
    words = [str(build / "tests/lab/bench/copy_bench"), "--benchmark_format=json"]
    facts = json.loads(run(words, {}, timeout_s=60).output)
    return {one["name"].split("/")[1]: one["bytes_per_second"] * 1e-9 for one in facts["benchmarks"]}


def tell(options: Options, names: Mapping[str, str], rows: Sequence[Row], results: Results) -> None:
    rounds = "one round" if options.rounds == 1 else f"{options.rounds} rounds"
    say(f"All-reduce of f32, sum, out of place; time of the slowest process: median of {rounds} (least to most).")
    for setting in options.settings:
        its = [row for row in rows if row.case.setting == setting.key]
        if its:
            say(f"\n{setting.words[0].upper()}{setting.words[1:]}:\n")
            say(times_table(its, names))
    if results.cpu:
        say("\nCPU seconds per GiB of tensor, all processes together:\n")
        say(cpu_table(cpu_of(results.cpu), names))


def main(words: Sequence[str]) -> int:
    options = parse(words)
    if options.cpus:
        try:
            os.sched_setaffinity(0, options.cpus)
        except OSError as error:
            print(f"--cpus: {error.strerror}: this machine gives {sorted(os.sched_getaffinity(0))}", file=sys.stderr)
            return WRONG_USAGE
    contenders = present(options)
    if not contenders or contenders[0].key != LOCKSTEP:
        return WRONG_USAGE
    working = [setting for setting in options.settings if settings.works(setting)]
    for setting in options.settings:
        if setting not in working:
            say(f"{setting.words}: left out: no network namespaces for this user")
    options = dataclasses.replace(options, settings=working)

    names = {contender.key: contender.name for contender in contenders}
    facts: dict[str, object] = {
        "taken_at": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "machine": machine.description(),
        "rounds": options.rounds,
        "settings": {setting.key: setting.words for setting in working},
    }
    watch = machine.Watch.start()
    comparison = Comparison(contenders, working, options.rounds)
    results = comparison.results
    comparison.run(options.peers, options.sizes, options.cpu_size)
    others, seconds = watch.cores_of_others(), watch.seconds()
    copies = {} if results.interrupted else copy_speeds(options.build)
    facts |= {"memcpy_gb_per_s": copies, "seconds": seconds, "cores_of_others": others}

    rows = rows_of(results.samples)
    tell(options, names, rows, results)
    if copies:
        say(f"\nmemcpy: {three_digits(copies['in_cache'])} GB/s in cache, {three_digits(copies['out_of_cache'])} GB/s out of it.")
    where = f"{machine.cpu_model()}, {len(os.sched_getaffinity(0))} CPUs; other work took {others:.1f} of them"
    say(f"{where}; {duration_words(seconds)}.")

    options.out.mkdir(parents=True, exist_ok=True)
    data, plot = options.out / "compare.json", options.out / "compare.svg"
    data.write_text(json.dumps(report(facts, rows, results), indent=1) + "\n")
    plot.write_text(picture(rows, names, {s.key: s.words for s in working}, f"{facts['taken_at']}; {where}"))
    say(f"everything: {data}; picture: {plot}")
    for note in results.left_out:
        say(f"left out: {note}")
    for failure in results.failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    if results.interrupted:
        return INTERRUPTED
    return FAILED if results.failures else DONE


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends early, with what there is, as Ctrl-C does
    try:
        sys.exit(main(sys.argv[1:]))
    except Failed as error:
        print(f"./run bench: {error}", file=sys.stderr)
        sys.exit(FAILED)
