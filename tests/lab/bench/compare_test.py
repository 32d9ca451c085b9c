"""The pure parts of the comparison, and what it says of bad input. `python3 -m unittest` runs it; ctest does."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

from compare import __main__ as program
from compare import options, plot, summary, table, words
from compare.comparison import FEW_CALLS, MANY_CALLS, Comparison
from compare.contenders import Lockstep, Measured, Work, Yardstick
from compare.process import Failed, run
from compare.settings import Setting, setting_of
from compare.summary import Case, CpuSample, Sample, Spread

CASE = Case("system", 4, 1 << 20)
NAMES = {"lockstep": "Lockstep", "open-mpi": "Open MPI", "gloo": "Gloo", "ring": "ring, the limit"}


def samples(contender: str, milliseconds: list[float], algorithm: str = "", case: Case = CASE) -> list[Sample]:
    return [Sample(case, contender, algorithm, n, ms * 1e-3, 0) for n, ms in enumerate(milliseconds)]


class Words(unittest.TestCase):
    def test_sizes_are_read_and_written(self) -> None:
        for text, size in {"4": 4, "64K": 65536, "64kib": 65536, "1M": 1 << 20, "4G": 4 << 30}.items():
            self.assertEqual(words.size_of(text), size)
        self.assertEqual([words.size_words(size) for size in (4, 65536, 1 << 20, 1 << 30)], ["4 B", "64 KiB", "1 MiB", "1 GiB"])
        self.assertEqual(words.size_words(1536), "1536 B")

    def test_what_is_no_size_is_refused(self) -> None:
        for text in ("", "K", "-4", "1.5M", "5", "0", "8G", "4T", "٤"):
            with self.subTest(text), self.assertRaisesRegex(ValueError, "size"):
                words.size_of(text)

    def test_numbers_have_three_digits(self) -> None:
        written = [words.three_digits(number) for number in (0.01234, 0.1234, 1.234, 9.96, 12.34, 99.7, 1234.0)]
        self.assertEqual(written, ["0.0123", "0.123", "1.23", "10.0", "12.3", "100", "1234"])


class Summary(unittest.TestCase):
    def test_a_spread_is_median_least_and_most(self) -> None:
        self.assertEqual(Spread.of([3.0, 1.0, 2.0]), Spread(2.0, 1.0, 3.0))
        self.assertEqual(Spread.of([4.0, 1.0, 2.0, 3.0]).median, 2.5)

    def test_bus_bandwidth_is_that_of_nccl_tests(self) -> None:
        self.assertAlmostEqual(summary.bus_bandwidth(4, 1 << 30, 1.0), (1 << 30) * 1.5e-9)

    def test_the_best_algorithm_is_that_with_the_least_median(self) -> None:
        its = samples("gloo", [1, 9, 9], "sometimes quick") + samples("gloo", [4, 4, 4], "steady")
        self.assertEqual(summary.best_timing(its).algorithm, "steady")

    def test_ratios_are_of_medians_and_spread_over_rounds(self) -> None:
        its = samples("lockstep", [2, 2, 4]) + samples("open-mpi", [4, 6, 4]) + samples("gloo", [9, 9, 9])
        row = summary.row_of(CASE, [*its, *samples("ring", [1, 1, 1])])
        self.assertEqual(row.better, "open-mpi")
        self.assertEqual(row.to_better, Spread(2.0, 1.0, 3.0))
        self.assertEqual(row.to_limit, Spread(0.5, 0.25, 0.5))

    def test_without_others_there_are_no_ratios(self) -> None:
        row = summary.row_of(CASE, samples("lockstep", [2]))
        self.assertEqual((row.better, row.to_better, row.to_limit), (None, None, None))
        self.assertIsNone(summary.row_of(CASE, samples("ring", [2])).to_limit)

    def test_a_round_that_one_side_missed_is_in_no_pair(self) -> None:
        its = [*samples("lockstep", [2, 2]), *samples("gloo", [4])]
        self.assertEqual(summary.row_of(CASE, its).to_better, Spread(2.0, 2.0, 2.0))

    def test_there_is_a_row_per_case_in_the_order_of_measuring(self) -> None:
        other = Case("reno", 2, 4096)
        rows = summary.rows_of(samples("gloo", [1], case=other) + samples("gloo", [1]) + samples("ring", [1], case=other))
        self.assertEqual([row.case for row in rows], [other, CASE])
        self.assertEqual(set(rows[0].timings), {"gloo", "ring"})


class Tables(unittest.TestCase):
    def test_columns_are_as_wide_as_their_widest_cell(self) -> None:
        self.assertEqual(table.table(["a", "long"], [["1234", "5"]]), "| a    | long |\n|------|------|\n| 1234 | 5    |")

    def test_a_row_says_times_bandwidth_and_ratios(self) -> None:
        row = summary.row_of(CASE, samples("lockstep", [2, 3]) + samples("gloo", [5, 5], "bcube"))
        cells = [cell.strip() for cell in table.times_table([row], NAMES).splitlines()[2].strip("|").split("|")]
        wanted = ["4", "1 MiB", "2.50 ms (2.00 to 3.00)", "", "5.00 ms (5.00 to 5.00), bcube", "", "0.629"]
        self.assertEqual(cells, [*wanted, "2.00 (1.67 to 2.50) Gloo", ""])

    def test_short_times_are_in_microseconds(self) -> None:
        self.assertEqual(table.time_words(Spread(0.00025, 0.0002, 0.0003)), "250 us (200 to 300)")

    def test_cpu_time_has_a_line_per_case(self) -> None:
        cpu = summary.cpu_of([CpuSample(CASE, "gloo", n, seconds) for n, seconds in enumerate((1.0, 3.0, 2.0))])
        self.assertIn("| 2.00 (1.00 to 3.00) |", table.cpu_table(cpu, NAMES))


class Plot(unittest.TestCase):
    def test_steps_are_round_and_reach_the_top(self) -> None:
        for most, step in {0.9: 0.2, 1.0: 0.2, 2.4: 0.5, 7.0: 2.0, 40.0: 10.0, 0.011: 0.005}.items():
            self.assertAlmostEqual(plot.nice_step(most), step)

    def test_it_has_a_panel_per_case_and_a_curve_per_contender(self) -> None:
        cases = [Case(setting, peers, size) for setting in ("system", "reno") for peers in (2, 4) for size in (4096, 1 << 20)]
        its = [one for case in cases for key in ("lockstep", "ring") for one in samples(key, [1, 2], case=case)]
        text = plot.picture(summary.rows_of(its), NAMES, {"system": "the system's", "reno": "reno"}, "<here> & now")
        root = ElementTree.fromstring(text)
        self.assertEqual(len(root.findall(".//{*}polyline")), 8)
        self.assertIn("<here> & now", [element.text for element in root.iter()])

    def test_more_bandwidth_is_higher_up(self) -> None:
        row = summary.row_of(CASE, samples("lockstep", [1]) + samples("ring", [2]))
        spreads = plot.bandwidths(row)
        self.assertGreater(spreads["lockstep"].median, spreads["ring"].median)
        self.assertLessEqual(spreads["ring"].least, spreads["ring"].most)


class Contenders(unittest.TestCase):
    def test_lockstep_is_asked_for_one_size_out_of_place(self) -> None:
        command = " ".join(Lockstep(Path("l")).command(Work(4, 4096, calls=3)))
        self.assertEqual(command, "l bench -p 4 -b 4096 -e 4096 --only out -j -n 3")

    def test_what_lockstep_prints_is_read(self) -> None:
        rows = {"rows": [{"out_of_place": {"time_us": 250.0, "errors": 1}}]}
        self.assertEqual(Lockstep(Path("l")).read(json.dumps(rows)), [Measured("", 0.00025, 1)])
        for bad in ("", "{}", '{"rows": [{"out_of_place": null}]}'):
            with self.subTest(bad), self.assertRaises(Failed):
                Lockstep(Path("l")).read(bad)

    def test_a_yardstick_is_started_by_itself_or_by_another(self) -> None:
        work = Work(2, 64, algorithm="ring")
        self.assertEqual(Yardstick("k", "n", Path("p")).command(work), ["p", "-n", "2", "64", "--algorithm", "ring"])
        self.assertEqual(Yardstick("k", "n", Path("p"), ("mpirun",)).command(Work(2, 64)), ["mpirun", "-n", "2", "p", "64"])

    def test_what_a_yardstick_prints_is_read(self) -> None:
        yardstick = Yardstick("k", "n", Path("p"))
        self.assertEqual(yardstick.read("64 1.5 0.1 0 ring\n64 2 0.1 0 \n"), [Measured("ring", 1.5e-6, 0), Measured("", 2e-6, 0)])
        for bad in ("64", "64 a b c", "error: no"):
            with self.subTest(bad), self.assertRaises(Failed):
                yardstick.read(bad)


class Settings(unittest.TestCase):
    def test_the_system_is_left_as_it_is(self) -> None:
        self.assertEqual(setting_of("system").command(["a", "b"]), ["a", "b"])

    def test_a_congestion_control_is_of_a_namespace_for_the_program(self) -> None:
        command = setting_of("reno").command(["a", "b"])
        self.assertEqual((command[0], command[-3:]), ("unshare", ["reno", "a", "b"]))


class Processes(unittest.TestCase):
    def test_the_last_line_of_a_failure_is_told(self) -> None:
        with self.assertRaisesRegex(Failed, "ended with 3: because"):
            run([sys.executable, "-c", "import sys; print('well\\nbecause\\n---', file=sys.stderr); sys.exit(3)"], {}, 60)

    def test_a_missing_program_is_told(self) -> None:
        with self.assertRaisesRegex(Failed, "cannot run /no/such: No such file"):
            run(["/no/such"], {}, 60)

    def test_what_does_not_end_is_killed(self) -> None:
        with self.assertRaisesRegex(Failed, "was not done after 0 s"):
            run([sys.executable, "-c", "import signal; signal.pause()"], {}, 0)


class Printing:
    """A contender that all-reduces nothing, and prints `output`."""

    variables: dict[str, str] = {}

    def __init__(self, key: str, output: str) -> None:
        self.key = self.name = key
        self._output = output
        self.asked: list[Work] = []

    def command(self, work: Work) -> list[str]:
        self.asked.append(work)
        return [sys.executable, "-c", f"print({self._output!r}, end='')"]

    def read(self, output: str) -> list[Measured]:
        return Yardstick(self.key, self.name, Path(self.key)).read(output)

    def missing(self) -> str | None:
        return None


class Turns(unittest.TestCase):
    def compare(self, *contenders: Printing, rounds: int = 2, cpu_size: int = 0) -> Comparison:
        comparison = Comparison(contenders, [Setting("here", "here")], rounds)
        with contextlib.redirect_stderr(io.StringIO()):
            comparison.run([2], [4096], cpu_size)
        return comparison

    def test_all_are_measured_in_every_round_and_another_begins(self) -> None:
        results = self.compare(Printing("a", "4096 1 1 0"), Printing("b", "4096 2 1 0")).results
        self.assertEqual([(s.round, s.contender) for s in results.samples], [(0, "a"), (0, "b"), (1, "b"), (1, "a")])
        self.assertEqual(results.failures, [])

    def test_wrong_elements_and_silence_are_failures_and_not_asked_again(self) -> None:
        results = self.compare(Printing("liar", "4096 1 1 7"), Printing("mute", "")).results
        self.assertEqual(
            [failure.split(", ")[-1] for failure in results.failures], ["liar: 7 ELEMENTS ARE WRONG", "mute: printed no result"]
        )

    def test_cpu_time_is_that_of_the_calls_that_one_run_has_more_by_the_best_algorithm(self) -> None:
        contender = Printing("a", "4096 2 1 0 slow\n4096 1 1 0 quick\n")
        results = self.compare(contender, rounds=1, cpu_size=4096).results
        few, many = (Work(2, 4096, calls, "quick") for calls in (FEW_CALLS, MANY_CALLS))
        self.assertEqual(contender.asked, [Work(2, 4096), few, many])
        self.assertEqual([(s.case.size, s.contender) for s in results.cpu], [(4096, "a")])

    def test_cpu_time_is_told_of_a_size_that_is_timed(self) -> None:
        self.assertEqual(self.compare(Printing("a", "4096 1 1 0"), cpu_size=64).results.cpu, [])

    def test_what_wants_more_memory_than_there_is_is_left_out(self) -> None:
        comparison = Comparison([Printing("a", "")], [Setting("here", "here")], 1)
        comparison.run([64], [1 << 50], 0)
        self.assertRegex(comparison.results.left_out[0], "here, 64 peers, .* GiB of memory")


class BadInput(unittest.TestCase):
    def complaint(self, *arguments: str) -> str:
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as end:
            options.parse(arguments)
        self.assertEqual(end.exception.code, 2)
        return said.getvalue()

    def test_it_is_named(self) -> None:
        for arguments, complaint in {
            ("--peers", "2,1"): "'1' is no number from 2 to 64",
            ("--sizes", "64K,x"): "'x' is no size",
            ("--rounds", "0"): "'0' is no number from 1 to 1000",
            ("--against", "nccl"): "'nccl' is none of open-mpi, gloo, ring",
            ("--settings", "magic"): "congestion control 'magic'",
            ("--cpu-size", "7"): "'7' is no size",
            ("--faster",): "unrecognized arguments: --faster",
        }.items():
            with self.subTest(arguments):
                self.assertIn(complaint, self.complaint(*arguments))

    def test_a_list_has_each_word_once(self) -> None:
        self.assertEqual(options.parse(["--peers", "4,2,4"]).peers, [4, 2])

    def test_without_programs_nothing_is_compared(self) -> None:
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as empty, contextlib.redirect_stdout(said):
            self.assertEqual(program.main(["--build", empty, "--out", empty]), 2)
        self.assertIn("Lockstep: not compared:", said.getvalue())


if __name__ == "__main__":
    unittest.main()
