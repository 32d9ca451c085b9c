"""The pure parts of the benchmark of training strategies. `python3 -m unittest` runs it; ctest does."""

import contextlib
import io
import unittest

import train_bench
from train_bench import Row

ROW = Row("DiLoCo", 100 << 20, [0.1, 0.2, 0.1], [0.15, 0.2, 0.1], [0.2], [0.3], 200 << 20)


class TrainBench(unittest.TestCase):
    def test_ratios_are_those_of_single_turns(self) -> None:
        self.assertAlmostEqual(ROW.ratio.median, 1)
        self.assertAlmostEqual(ROW.ratio.most, 1.5)
        self.assertAlmostEqual(ROW.work.median, 1.5)

    def test_the_bound_of_memory_is_copies_and_what_is_in_flight(self) -> None:
        self.assertEqual(ROW.bound, 264 << 20)

    def test_the_report_has_a_line_for_each_strategy(self) -> None:
        head, _, line = train_bench.report([ROW]).splitlines()
        self.assertIn("outer step", head)
        self.assertIn("DiLoCo", line)
        self.assertIn("1.00 (1.00 to 1.50)", line)
        self.assertIn("200 MiB | 264 MiB", line)

    def test_tensors_have_unlike_sizes_that_add_up(self) -> None:
        sizes = train_bench.sizes_of(25_000_000, 48)
        self.assertEqual((len(sizes), sum(sizes)), (48, 25_000_000))
        self.assertGreater(len(set(sizes)), 3)
        self.assertEqual(sum(train_bench.sizes_of(7, 3)), 7)

    def test_numbers_are_words(self) -> None:
        self.assertEqual([train_bench.number_of(word) for word in ("25M", "300k", "7")], [25_000_000, 300_000, 7])

    def test_unknown_strategies_are_refused_before_a_process_starts(self) -> None:
        self.assertEqual(train_bench.options_of(["--strategies", "DeMo,DiLoCo"]).strategies, ["DeMo", "DiLoCo"])
        with contextlib.redirect_stderr(io.StringIO()) as told, self.assertRaises(SystemExit):
            train_bench.options_of(["--strategies", "DeMo,Dolico"])
        self.assertIn("Dolico", told.getvalue())


if __name__ == "__main__":
    unittest.main()
