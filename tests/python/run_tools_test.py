"""Tests what tests/run uses to choose tests and to show which failed."""
import pathlib
import sys
import unittest
import xml.etree.ElementTree as tree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import changed_rooms  # noqa: E402
import count_cases  # noqa: E402
import show_failures  # noqa: E402


def process(inside, output):
    case = tree.fromstring(f'<testcase name="store 0" time="2.5">{inside}</testcase>')
    tree.SubElement(case, "system-out").text = output
    return case


def suite(*cases):
    root = tree.Element("testsuite")
    root.extend(cases)
    return root


FAILED = '<failure message=""/>'
CHECK = "a case\n-----\nx_test.cc:7: FAILED:\n  CHECK( a == b )\nwith expansion:\n  1 == 2\n"


class Failures(unittest.TestCase):
    def test_a_failed_check_is_shown_with_its_case_and_the_end(self):
        noise = "".join(f"0.1 s: case {i}\n" for i in range(500))
        lines = show_failures.report(suite(process(FAILED, noise + CHECK + noise)))
        self.assertEqual(lines[0], "-- store 0: failed after 2.5 s")
        self.assertEqual(lines[1], "... 494 lines left out")
        self.assertIn("x_test.cc:7: FAILED:", lines)
        self.assertEqual(lines[-1], "0.1 s: case 499")
        self.assertLess(len(lines), 60)

    def test_what_hangs_shows_its_last_case(self):
        lines = show_failures.report(suite(process(FAILED, "0.1 s: first\n0.2 s: second\n")))
        self.assertEqual(lines[1:], ["0.1 s: first", "0.2 s: second"])

    def test_a_program_that_is_not_there_is_a_failure(self):
        missing = process('<skipped message="Unable to find executable: x"/>', "")
        self.assertEqual(show_failures.report(suite(missing)),
                         ["-- store 0: Unable to find executable: x"])
        self.assertEqual(count_cases.cases_of(missing), (1, 1))

    def test_what_passed_or_was_skipped_is_not_shown(self):
        skipped = process('<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>', "skipped: 3 x")
        self.assertEqual(show_failures.report(suite(process("", CHECK), skipped)), [])

    def test_of_very_many_failures_the_first_and_the_end_are_shown(self):
        lines = show_failures.report(suite(process(FAILED, CHECK * 500 + "the end")))
        self.assertLess(len(lines), 120)
        self.assertEqual(lines[-1], "the end")


class Changes(unittest.TestCase):
    def programs(self, path):
        found = changed_rooms.programs_of(path, changed_rooms.read_rooms())
        return None if found is None else set(found)

    def test_a_room_concerns_what_stands_on_it(self):
        self.assertLessEqual({"net", "server", "worker", "cli", "sim", "grpc", "python"},
                             self.programs("net/stream_link.cc"))
        self.assertEqual(self.programs("cli/predict.cc"), {"cli", "deploy", "python"})
        self.assertEqual(self.programs("CONTRIBUTING.md"), set())

    def test_pages_and_examples_concern_their_commands(self):
        self.assertEqual(self.programs("README.md"), {"python", "documents"})
        self.assertIn("documents", self.programs("examples/recommender/job.json"))

    def test_a_header_of_tests_concerns_who_includes_it(self):
        self.assertLessEqual({"net", "grpc", "cli"}, self.programs("tests/net/echo.h"))
        self.assertEqual(self.programs("tests/e2e/cluster.cc"), {"e2e", "flood"})
        self.assertEqual(self.programs("tests/data/csv_test.cc"), {"data"})
        self.assertIn("cuda_host", self.programs("tests/keras/gradients_test.cc"))

    def test_what_all_tests_share_concerns_all(self):
        for path in ("tests/main.cc", "tests/sanitized.h", "CMakeLists.txt", "proto/x.proto"):
            self.assertIsNone(self.programs(path))


if __name__ == "__main__":
    unittest.main()
