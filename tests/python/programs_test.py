"""The commands by which the Python package starts the programs."""

import os
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PYTHON = os.path.join(ROOT, "python")


class Commands(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.makedirs(self.path("site/paracord/_programs/bin"))
        os.makedirs(self.path("bin"))
        os.makedirs(self.path("other"))
        with open(os.path.join(PYTHON, "paracord_programs.py")) as source:
            self.write("site/paracord_programs.py", source.read())
        # As pip writes it; without site-packages there is no NumPy.
        self.write("bin/paracord", f"#!{sys.executable} -S\nimport sys\nsys.path.insert(0, "
                   f"{self.path('site')!r})\nfrom paracord_programs import main\nmain()\n", 0o755)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, text, mode=0o644):
        with open(self.path(name), "w") as file:
            file.write(text)
        os.chmod(self.path(name), mode)

    def program(self, name):
        """A program that prints its arguments."""
        os.symlink("/bin/echo", self.path(name))

    def run_command(self, *path):
        env = {"PATH": os.pathsep.join(map(self.path, path))}
        return subprocess.run([self.path("bin/paracord"), "train", "a b"], env=env,
                              capture_output=True, text=True)

    def test_a_command_is_the_program_of_its_wheel(self):
        self.program("site/paracord/_programs/bin/paracord")
        ran = self.run_command("bin")
        self.assertEqual((ran.returncode, ran.stdout), (0, "train a b\n"), ran.stderr)

    def test_a_command_without_programs_is_that_of_the_path(self):
        # The commands of two environments must not start each other for ever.
        with open(self.path("bin/paracord")) as file:
            self.write("other/paracord", file.read(), stat.S_IRWXU)
        ran = self.run_command("bin", "other")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("paracord: this package was installed without the programs", ran.stderr)
        os.mkdir(self.path("built"))
        self.program("built/paracord")
        ran = self.run_command("bin", "other", "built")
        self.assertEqual((ran.returncode, ran.stdout), (0, "train a b\n"), ran.stderr)


if __name__ == "__main__":
    unittest.main()
