"""The pure parts of the benchmark of lockstep.torch. `python3 -m unittest` runs it; ctest does."""

import contextlib
import io
import unittest

import torch_bench
from torch_bench import Row

ROW = Row(
    2,
    4096,
    {
        "c": [20e-6, 20e-6, 40e-6],
        "python": [22e-6, 21e-6, 41e-6],
        "torch": [26e-6, 25e-6, 44e-6],
        "gloo": [260e-6, 250e-6, 440e-6],
    },
)


class TorchBench(unittest.TestCase):
    def test_a_call_takes_as_long_as_on_the_slowest_peer(self) -> None:
        self.assertEqual(torch_bench.seconds_of_turn([[1, 5, 1], [2, 1, 3]]), 3)

    def test_differences_and_ratios_are_those_of_single_turns(self) -> None:
        more, ratio = ROW.more("c"), ROW.ratio("gloo")
        self.assertAlmostEqual(more.median, 5e-6)
        self.assertAlmostEqual(more.least, 4e-6)
        self.assertAlmostEqual(more.most, 6e-6)
        self.assertAlmostEqual(ratio.least, 0.1)
        self.assertAlmostEqual(ratio.most, 0.1)

    def test_everybody_takes_one_turn_and_every_second_order_is_reversed(self) -> None:
        first, second = torch_bench.order_of(0), torch_bench.order_of(1)
        self.assertEqual(sorted(first), sorted(torch_bench.CONTENDERS))
        self.assertEqual(first, second[::-1])

    def test_small_tensors_have_more_calls(self) -> None:
        calls = [torch_bench.calls_of(size) for size in (4096, 1 << 20, 64 << 20, 256 << 20)]
        self.assertEqual(calls, [1000, 256, 4, 3])

    def test_the_report_has_a_line_for_each_row(self) -> None:
        head, _, line = torch_bench.report([ROW]).splitlines()
        self.assertIn("torch - C", head)
        self.assertIn("2     | 4 KiB  | 20.0 us (20.0 to 40.0)", line)
        self.assertIn("+5.0 us (+4.0 to +6.0)", line)
        self.assertIn("0.100 (0.100 to 0.100)", line)

    def test_sizes_are_words(self) -> None:
        options = torch_bench.options_of(["--sizes", "4K,1M", "--peers", "2,3"])
        self.assertEqual((options.sizes, options.peers), ([4096, 1 << 20], [2, 3]))
        with contextlib.redirect_stderr(io.StringIO()) as told, self.assertRaises(SystemExit):
            torch_bench.options_of(["--sizes", "4,boom"])
        self.assertIn("boom", told.getvalue())

    def test_send_needs_pairs(self) -> None:
        self.assertEqual(torch_bench.options_of(["--call", "send", "--peers", "2,4"]).call, "send")
        with contextlib.redirect_stderr(io.StringIO()) as told, self.assertRaises(SystemExit):
            torch_bench.options_of(["--call", "send", "--peers", "2,3"])
        self.assertIn("--peers 2,3: send needs pairs", told.getvalue())


if __name__ == "__main__":
    unittest.main()
