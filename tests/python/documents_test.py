"""The Python in README and in the pages of docs/.

Every snippet is parsed, and each name and argument of the package that it uses is looked up in the
package's sources, which takes no library. Those of README and docs/start.md run as well, where
their libraries are: what they write is trained.
"""

import ast
import glob
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGE = os.path.join(ROOT, "python")
PROGRAMS = os.environ.get("PARACORD_PROGRAMS", "")
os.environ.setdefault("KERAS_BACKEND", "jax")


def has(*names):
    # A folder of this tree is no package of that name.
    specs = [importlib.util.find_spec(name) for name in names]
    return all(spec is not None and spec.origin is not None for spec in specs)


CAN_TRAIN = has("numpy") and bool(PROGRAMS)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def python_of(page):
    """The Python of a page: its blocks, and what its shell commands give to python3."""
    text = read(page)
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    return blocks + [given for _, given in re.findall(r"^python3 - <<'(\w+)'\n(.*?)^\1$", text,
                                                      re.M | re.S)]


class Package:
    """What the sources of a Python package define, by dotted names."""

    def __init__(self, folder):
        self.folder = folder
        self.modules = {}

    def definition(self, name):
        """The function or class of a dotted name, or the tree of a module; None: there is none."""
        tree = self.module(name)
        if tree is not None:
            return tree
        parent, _, last = name.rpartition(".")
        tree = self.module(parent) if parent else None
        if tree is None:
            return None
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == last and \
                    node in tree.body:
                return node
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    if (alias.asname or alias.name) == last:
                        return self.definition(f"{node.module}.{alias.name}")
        return None

    def module(self, name):
        if name not in self.modules:
            path = os.path.join(self.folder, *name.split("."))
            path = os.path.join(path, "__init__.py") if os.path.isdir(path) else path + ".py"
            self.modules[name] = None
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    self.modules[name] = ast.parse(file.read())
        return self.modules[name]


def signature(node):
    """How a function or a class is called."""
    kinds = inspect.Parameter
    if isinstance(node, ast.ClassDef):
        made = [each for each in node.body
                if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
        if not made:  # a dataclass
            return inspect.Signature([
                kinds(each.target.id, kinds.POSITIONAL_OR_KEYWORD,
                      default=kinds.empty if each.value is None else each.value)
                for each in node.body if isinstance(each, ast.AnnAssign)])
        of, left_out = made[0].args, 1  # self
    else:
        of, left_out = node.args, 0
    positional = (of.posonlyargs + of.args)[left_out:]
    defaults = [kinds.empty] * (len(positional) - len(of.defaults)) + of.defaults
    found = [kinds(each.arg, kinds.POSITIONAL_OR_KEYWORD, default=default)
             for each, default in zip(positional, defaults)]
    if of.vararg:
        found.append(kinds(of.vararg.arg, kinds.VAR_POSITIONAL))
    found += [kinds(each.arg, kinds.KEYWORD_ONLY, default=default or kinds.empty)
              for each, default in zip(of.kwonlyargs, of.kw_defaults)]
    if of.kwarg:
        found.append(kinds(of.kwarg.arg, kinds.VAR_KEYWORD))
    return inspect.Signature(found)


def wrong_arguments(name, call, node):
    """Yields what is wrong of a call with the function or class that it calls."""
    unpacks = any(isinstance(each, ast.Starred) for each in call.args) or \
        any(each.arg is None for each in call.keywords)
    bind = signature(node).bind_partial if unpacks else signature(node).bind
    try:
        bind(*(each for each in call.args if not isinstance(each, ast.Starred)),
             **{each.arg: each.value for each in call.keywords if each.arg})
    except TypeError as wrong:
        yield f"{name}: {wrong}"


def dotted(node):
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return before and f"{before}.{node.attr}"
    return None


def problems(text, package):
    """What is wrong of a snippet, a line each."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        # A decorator that stands for itself.
        tree = ast.parse(text + "def function():\n    pass\n")
    found = []
    for node in ast.walk(tree):
        name = dotted(node) if isinstance(node, ast.Attribute) else None
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "paracord":
            for alias in node.names:
                if package.definition(f"{node.module}.{alias.name}") is None:
                    found.append(f"{node.module} has no {alias.name}")
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "paracord" and package.module(alias.name) is None:
                    found.append(f"there is no module {alias.name}")
        if name and name.startswith("paracord.") and package.definition(name) is None:
            found.append(f"{name} is not in the package")
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            of = package.definition(name) if name and name.startswith("paracord.") else None
            if isinstance(of, (ast.FunctionDef, ast.ClassDef)):
                found += wrong_arguments(name, node, of)
    return found


class Names(unittest.TestCase):
    def setUp(self):
        self.package = Package(PACKAGE)

    def test_snippets_use_what_the_package_has_as_it_is(self):
        pages = ["README.md", *(os.path.relpath(path, ROOT)
                                for path in glob.glob(os.path.join(ROOT, "docs", "*.md")))]
        calls = []
        for page in sorted(pages):
            for text in python_of(page):
                with self.subTest(page=page, snippet=text):
                    self.assertEqual(problems(text, self.package), [])
                calls += re.findall(r"paracord\.[a-z_.]+(?=\()", text)
        self.assertLessEqual({"paracord.torch.program", "paracord.jax.program", "paracord.serve",
                              "paracord.fit", "paracord.load_into", "paracord.predictor"},
                             set(calls))

    def test_names_and_arguments_that_the_package_lacks_are_found(self):
        for text, wrong in (
                ("paracord.server(loss)", ["paracord.server is not in the package"]),
                ("paracord.tensorflow.program(model)",
                 ["paracord.tensorflow.program is not in the package",
                  "paracord.tensorflow is not in the package"]),
                ("@paracord.torch.program(model, types={})\n",
                 ["paracord.torch.program: got an unexpected keyword argument 'types'"]),
                ("@paracord.torch.program()\ndef loss(): pass",
                 ["paracord.torch.program: missing a required argument: 'model'"]),
                ("paracord.serve(loss, {}, 3)", ["paracord.serve: too many positional arguments"]),
                ("paracord.serve(loss, program=loss)",
                 ["paracord.serve: multiple values for argument 'program'"]),
                ("paracord.Output((10,), kind=3)",
                 ["paracord.Output: got an unexpected keyword argument 'kind'"]),
                ("paracord.Output()", ["paracord.Output: missing a required argument: 'shape'"]),
                ("paracord.Table('a', 'b', room=3)",
                 ["paracord.Table: got an unexpected keyword argument 'room'"]),
                ("from paracord import fit, train", ["paracord has no train"]),
                ("import paracord.tensorflow", ["there is no module paracord.tensorflow"]),
                ("paracord.Table('a', 'b', capacity=3)\nparacord.Output((1,), 'name')\n"
                 "paracord.serve(*every, **one)\nimport paracord.torch", [])):
            with self.subTest(text):
                self.assertEqual(problems(text, self.package), wrong)
        with self.assertRaises(SyntaxError):
            problems("model = = 3", self.package)


@unittest.skipUnless(CAN_TRAIN, "no NumPy, or PARACORD_PROGRAMS names no folder of programs")
class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        # Commands of jobs and pages say python3, which is to be this interpreter.
        os.mkdir(self.path("bin"))
        self.write("bin/python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        os.chmod(self.path("bin/python3"), 0o755)
        self.environment = {
            **os.environ, "PYTHONPATH": PACKAGE, "PYTHONDONTWRITEBYTECODE": "1",
            "PATH": os.pathsep.join((self.path("bin"), PROGRAMS, os.environ["PATH"]))}

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def snippet(self, page, *words):
        """The only one of a page that has these words."""
        text, = [each for each in python_of(page) if all(word in each for word in words)]
        return text

    def run_command(self, *command):
        done = subprocess.run(command, cwd=self.folder, env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def train(self, model, columns, classes, **keys):
        """Trains on examples whose labels follow from their columns, and checks that it learned."""
        import numpy

        random = numpy.random.default_rng(1)
        x = random.normal(size=(1024, columns)).astype("f4")
        labels = x[:, 0] > 0
        if classes > 1:
            labels = (x @ random.normal(size=(columns, classes))).argmax(1)
        numpy.save(self.path("x.npy"), x)
        numpy.save(self.path("labels.npy"), labels.astype("i8"))
        self.write("job.json", json.dumps({
            "model": model, "batch": 32, "epochs": 5,
            "data": {"train": {"format": "npy", "features": "x.npy", "labels": "labels.npy"}},
            "optimizer": {"name": "adam", "learning_rate": 0.003}, **keys}))
        self.run_command("paracord", "train", "job.json", "--ps", "1", "--workers", "1", "--fresh",
                         "--dir", "run")
        with open(self.path("run/summary.json"), encoding="utf-8") as file:
            summary = json.load(file)
        self.assertEqual(summary["status"], "done")
        self.assertEqual(summary["ledger"]["applied_min"], 5 * 32)
        losses = [epoch["train"]["loss"] for epoch in summary["history"]]
        self.assertLess(losses[-1], 0.7 * losses[0])

    def process_model(self):
        """What README says that the model of a job is, of a program."""
        said, = re.findall(r'`"model": (\{"program": "process".*?\})`', read("README.md"))
        return json.loads(said)

    @unittest.skipUnless(has("keras", "jax"), "no Keras on JAX")
    def test_keras_writes_the_model_of_a_job(self):
        for page, words, columns, classes, loss in (
                ("README.md", ("to_json",), 784, 10, "sparse_categorical_crossentropy"),
                ("docs/start.md", ("to_json",), 8, 1, "binary_crossentropy")):
            with self.subTest(page):
                self.run_command("python3", "-c", self.snippet(page, *words))
                self.train("model.json", columns, classes, loss=loss)

    @unittest.skipUnless(has("torch"), "no PyTorch")
    def test_a_program_of_pytorch_trains(self):
        self.write("train.py", self.snippet("README.md", "paracord.torch"))
        self.train(self.process_model(), 784, 10)

    @unittest.skipUnless(has("jax"), "no JAX")
    def test_a_program_of_jax_trains(self):
        self.write("train.py", self.snippet("README.md", "paracord.jax"))
        self.train(self.process_model(), 784, 10)


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=1)
    skipped = len(program.result.skipped)
    if skipped and program.result.wasSuccessful():
        print(f"skipped: {skipped} tests, for want of programs, NumPy, PyTorch, JAX or Keras")
    sys.exit(not program.result.wasSuccessful())
