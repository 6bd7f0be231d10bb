"""tests/plugins/check where wheels are missing: no plug-in is run."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import tempfile
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HAS_NUMPY = importlib.util.find_spec("numpy") is not None


def load_check():
    path = os.path.join(ROOT, "tests", "plugins", "check")
    loader = importlib.machinery.SourceFileLoader("plugins_check", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    with mock.patch.object(sys, "dont_write_bytecode", True):
        loader.exec_module(module)
    return module


@unittest.skipUnless(HAS_NUMPY, "no NumPy")
class MissingWheels(unittest.TestCase):
    def run_check(self, *flags):
        """Runs it where no wheel is and none can be fetched; returns its code and what it says."""
        check = load_check()
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(said), \
                mock.patch.object(check.wheels, "CACHE", folder), \
                mock.patch.object(check.wheels.subprocess, "run") as fetch, \
                mock.patch.object(sys, "argv", ["check", *flags]), \
                mock.patch.dict(os.environ, {"PARACORD_PJRT_WHEELS": ""}):
            code = check.main()
        self.assertEqual(fetch.call_count, len(check.wheels.PLUGINS) if flags else 0)
        return code, said.getvalue()

    def test_are_skipped(self):
        code, said = self.run_check()
        self.assertEqual(code, 0)
        self.assertIn("PJRT 0.81 skipped: ", said)
        self.assertIn("nothing was run: none of the plug-ins is here", said)

    def test_are_a_failure_if_they_were_to_be_fetched(self):
        code, said = self.run_check("--download")
        self.assertEqual(code, 1)
        self.assertIn("PJRT 0.81 BAD: ", said)
        self.assertIn("--download did not bring it", said)


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=1)
    skipped = len(program.result.skipped)
    if skipped and program.result.wasSuccessful():
        print(f"skipped: {skipped} tests, for want of NumPy")
    sys.exit(not program.result.wasSuccessful())
