"""The runner of the budgets: what it reads, what it says, what it writes."""

import unittest

import budget

TEXT = """# Words that stay.

[codec]
in = ["a*", "b*"]
instructions = 100.0
why = "first recorded"

[simulator]
instructions = 2000.0
why = "first recorded"
"""


class Budget(unittest.TestCase):
    """Everything but callgrind itself."""

    def test_layers_are_read(self) -> None:
        codec, simulator = budget.read_layers(TEXT)
        self.assertEqual(codec, budget.Layer("codec", 100.0, "first recorded", ["a*", "b*"]))
        self.assertEqual(simulator.counted, [])

    def test_what_is_no_list_of_layers_is_refused(self) -> None:
        for text in ("[codec", "[codec]\nwhy = 'x'", "codec = 3", "[codec]\ninstructions = 'many'\nwhy = ''"):
            with self.subTest(text), self.assertRaises(budget.Failure):
                budget.read_layers(text)

    def test_counts_are_per_unit(self) -> None:
        found = budget.read_count("500 messages\n", "==1== Collected : 61500\n")
        self.assertEqual(found, budget.Count(123.0, 500, "messages"))

    def test_nothing_counted_is_no_success(self) -> None:
        for out, words in (("", "Collected : 5"), ("5 messages\n", ""), ("0 messages\n", "Collected : 5"),
                           ("5 messages\n", "Collected : 0")):
            with self.subTest(out=out, words=words), self.assertRaises(budget.Failure):
                budget.read_count(out, words)

    def test_five_percent_either_way_are_let_pass(self) -> None:
        layer = budget.Layer("codec", 100.0, "")
        for instructions, within in ((100.0, True), (104.9, True), (95.1, True), (105.1, False), (94.9, False)):
            line, good = budget.judge(layer, budget.Count(instructions, 1, "messages"))
            self.assertEqual(good, within, line)
            self.assertIn("per message", line)
        self.assertIn("OVER", budget.judge(layer, budget.Count(200.0, 1, "messages"))[0])

    def test_a_layer_without_a_number_is_over_its_budget(self) -> None:
        self.assertFalse(budget.judge(budget.Layer("new", 0.0, ""), budget.Count(1.0, 1, "x"))[1])

    def test_recording_changes_one_layer_and_its_reason(self) -> None:
        new = budget.record(TEXT, "codec", 123.45, "a field more")
        self.assertEqual(new, TEXT.replace("100.0\nwhy = \"first recorded\"", "123.5\nwhy = \"a field more\"", 1))
        again = budget.record(new, "simulator", 1.0, "x")
        self.assertEqual(budget.read_layers(again)[1].instructions, 1.0)
        with self.assertRaises(budget.Failure):
            budget.record(TEXT, "kodec", 1.0, "x")


if __name__ == "__main__":
    unittest.main()
