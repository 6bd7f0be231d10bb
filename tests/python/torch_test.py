"""The Python package's programs of PyTorch."""

import importlib.util
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
HAS_NUMPY = importlib.util.find_spec("numpy") is not None
HAS_TORCH = HAS_NUMPY and importlib.util.find_spec("torch") is not None


@unittest.skipUnless(HAS_TORCH, "no PyTorch")
class TorchProgram(unittest.TestCase):
    def test_gradients_and_statistics(self):
        import numpy
        import paracord
        import torch

        model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))

        @paracord.torch.program(model)
        def loss(model, x, y):
            return ((model(x) - y)**2).mean()

        names = [variable.name for variable in loss.variables]
        self.assertEqual(names, ["0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean",
                                 "1.running_var"])
        self.assertAlmostEqual(loss.variables[4].moving_average, 0.9)
        values = [numpy.full(v.shape, 0.5, numpy.float32) for v in loss.variables]
        gradients = [numpy.zeros(v.shape, numpy.float32) for v in loss.variables]
        loss.attach(values)
        x = numpy.array([[1, 2], [3, 5]], numpy.float32)
        batch = paracord.Batch(2, {"": x}, {"": numpy.zeros((2, 3), numpy.float32)}, {})
        self.assertGreater(loss.gradients(values, batch, gradients, lambda v: None), 0)
        self.assertTrue(numpy.allclose(gradients[4], [3.25] * 3))  # the mean of what it saw
        self.assertTrue((values[4] == 0.5).all())

    def test_parameters_that_share_memory_are_one_or_refused(self):
        import paracord
        import torch

        def made(tie):
            model = torch.nn.Module()
            model.encoder = torch.nn.Linear(4, 4, bias=False)
            model.decoder = torch.nn.Linear(4, 4, bias=False)
            tie(model.encoder, model.decoder)
            program = paracord.torch.program(model)(lambda model, x: x.sum())
            return [variable.name for variable in program.variables]

        def by_parameter(encoder, decoder):
            decoder.weight = encoder.weight

        def by_data(encoder, decoder):
            decoder.weight.data = encoder.weight.data

        def by_view(encoder, decoder):
            decoder.weight = torch.nn.Parameter(encoder.weight.detach()[:2])

        def halves(encoder, decoder):  # of one tensor, apart
            both = torch.randn(2, 4, 4)
            encoder.weight = torch.nn.Parameter(both[0])
            decoder.weight = torch.nn.Parameter(both[1])

        self.assertEqual(made(lambda *_: None), ["encoder.weight", "decoder.weight"])
        self.assertEqual(made(by_parameter), ["encoder.weight"])
        for tie in (by_data, by_view):
            with self.assertRaisesRegex(paracord.ProgramError,
                                        "decoder.weight shares memory with encoder.weight"):
                made(tie)
        with self.assertRaisesRegex(paracord.ProgramError, "say what they start from|initial"):
            made(halves)  # drawn by nobody that is known, but not the same memory

    def test_labels_that_have_to_be_whole_name_dtypes(self):
        import numpy
        import paracord
        import torch

        model = torch.nn.Linear(2, 3)
        program = paracord.torch.program(model)(
            lambda model, x, y: torch.nn.functional.cross_entropy(model(x), y))
        values = [numpy.ones(v.shape, numpy.float32) for v in program.variables]
        program.attach(values)
        batch = paracord.Batch(1, {"": numpy.ones((2, 2), numpy.float32)},
                               {"": numpy.zeros(2, numpy.float32)}, {})
        with self.assertRaisesRegex(paracord.ProgramError, 'dtypes={"targets": {\'\': "int64"}}'):
            program.gradients(values, batch, [None, None], lambda v: None)

    def initial(self, model, **options):
        import paracord

        program = paracord.torch.program(model, **options)(lambda model, x: model(x).sum())
        return {variable.name: variable.initializer for variable in program.variables}

    def test_fans_are_those_of_pytorch(self):
        import torch

        model = torch.nn.Sequential(torch.nn.Linear(6, 2), torch.nn.Conv2d(4, 8, (3, 5)),
                                    torch.nn.ConvTranspose1d(4, 8, 3))
        found = self.initial(model, initial={"0.weight": "he_uniform", "*.weight": {
            "name": "variance_scaling", "scale": 2.0}})
        for at, module in enumerate(model):
            fans = torch.nn.init._calculate_fan_in_and_fan_out(module.weight)
            spec = found[f"{at}.weight"]
            self.assertEqual((spec["fan_in"], spec["fan_out"]), fans)
        self.assertEqual(found["0.weight"], {"name": "he_uniform", "fan_in": 6, "fan_out": 2})
        self.assertEqual(found["1.weight"]["scale"], 2.0)
        self.refuse_initial("initial: 0.bias of shape \\(2,\\) has no inputs", model,
                            initial={"*": "he_uniform"})

    def refuse_initial(self, why, model, **options):
        import paracord

        with self.assertRaisesRegex(paracord.ProgramError, why):
            self.initial(model, **options)

    def test_values_of_modules_are_drawn_if_nobody_has_changed_them(self):
        import torch

        nn = torch.nn
        found = self.initial(nn.ModuleDict({
            "layer": nn.Linear(100, 20), "image": nn.ConvTranspose2d(4, 8, 3, bias=False),
            "word": nn.Embedding(50, 8, padding_idx=0), "one": nn.Linear(4, 1),
            "norm": nn.BatchNorm1d(1), "cell": nn.LSTM(3, 4), "large": nn.Linear(1000, 1000)}))
        self.assertEqual(found["layer.weight"],
                         {"name": "random_uniform", "minval": -0.1, "maxval": 0.1})
        self.assertEqual(found["image.weight"]["maxval"], 1 / (8 * 9)**0.5)
        self.assertEqual(found["word.weight"]["name"], "random_normal")
        self.assertEqual(found["cell.bias_hh_l0"]["maxval"], 0.5)
        # One number that was drawn is no constant.
        self.assertEqual(found["one.bias"],
                         {"name": "random_uniform", "minval": -0.5, "maxval": 0.5})
        self.assertEqual(found["norm.weight"], {"name": "constant", "value": 1.0})

    def test_values_that_somebody_gave_are_kept_or_refused(self):
        import copy
        import torch

        nn = torch.nn

        def with_layer(change):
            layer = nn.Linear(30, 40)
            change(layer)
            return layer

        def freeze(layer):
            layer.weight = nn.Parameter(torch.rand(40, 30), requires_grad=False)

        changes = [lambda m: nn.init.xavier_uniform_(m.weight, gain=0.9), freeze,
                   lambda m: m.weight.data.normal_(0, 0.02), lambda m: m.weight.data.mul_(0.5),
                   lambda m: m.load_state_dict(nn.Linear(30, 40).state_dict())]
        for change in changes:
            self.refuse_initial("what weight of Linear.* is drawn from", with_layer(change))
        self.refuse_initial("what weight of Linear, bias of Linear is drawn from",
                            copy.deepcopy(nn.Linear(30, 40)))

        class Own(nn.Linear):
            def reset_parameters(self):
                nn.init.uniform_(self.weight, -0.01, 0.01)
                nn.init.zeros_(self.bias)

        self.refuse_initial("weight of Own", Own(2, 2))
        if hasattr(nn.utils.parametrizations, "weight_norm"):  # from PyTorch 2.0 on
            normed = nn.utils.parametrizations.weight_norm(nn.Linear(3, 4))
            self.refuse_initial("parametrizations.weight.original0 of Parametrization", normed)
        if hasattr(nn.utils, "weight_norm"):
            self.refuse_initial("what weight_g of Linear, weight_v of Linear",
                                nn.utils.weight_norm(nn.Linear(3, 4)))
        constant = with_layer(lambda m: nn.init.constant_(m.bias, 0.25))
        self.assertEqual(self.initial(constant)["bias"], {"name": "constant", "value": 0.25})
        one = nn.Linear(3, 1)
        nn.init.constant_(one.bias, -2)
        self.assertEqual(self.initial(one)["bias"], {"name": "constant", "value": -2.0})
        own = self.initial(with_layer(freeze), initial={"weight": "initial_weights"})
        self.assertEqual(own["weight"], "initial_weights")

    def batch_norm(self, momentum, forward):
        """A program of a BatchNorm `b` behind a Linear `a`, its values and a batch."""
        import numpy
        import paracord
        import torch

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a = torch.nn.Linear(2, 3)
                self.b = torch.nn.BatchNorm1d(3, momentum=momentum)

        program = paracord.torch.program(Model(), outputs=[paracord.Output((3,))])(
            lambda model, x, y: (forward(model, x)**2).mean())
        random = numpy.random.default_rng(1)
        values = [random.uniform(0.5, 2, v.shape).astype("f4") for v in program.variables]
        program.attach(values)
        batch = paracord.Batch(4, {"": random.uniform(-3, 3, (4, 2)).astype("f4")},
                               {"": numpy.zeros((4, 3), "f4")}, {})
        return program, values, batch

    def statistics_after_a_step(self, momentum, forward):
        """Those of a worker, which has a moving average of what is pushed, and of PyTorch."""
        import copy
        import numpy
        import torch

        program, values, batch = self.batch_norm(momentum, forward)
        other = copy.deepcopy(program.model).train()  # with the same values, in its own memory
        forward(other, torch.from_numpy(batch.inputs[""].copy()))
        gradients = [numpy.full(v.shape, 9, "f4") if v.has_gradient else None
                     for v in program.variables]
        program.gradients(values, batch, gradients, None)
        found = []
        for variable, value, pushed in zip(program.variables, values, gradients):
            if "running" in variable.name:
                f = variable.moving_average
                found.append(pushed if variable.assigned else f * value + (1 - f) * pushed)
        return found, [other.b.running_mean.numpy(), other.b.running_var.numpy()], values[-2:]

    def test_statistics_become_what_pytorch_has_after_any_calls(self):
        import numpy

        def frozen(model, x):
            model.b.eval()
            return model.b(model.a(x))

        def mixed(model, x):
            seen = model.b(model.a(x))
            return seen + frozen(model, x)

        never, once = lambda model, x: model.a(x), lambda model, x: model.b(model.a(x))
        thrice = lambda model, x: model.b(3 * model.b(model.b(model.a(x)) + 1))
        for momentum in (0.1, 0.75, 1):
            for forward, kept in ((never, True), (once, False), (thrice, False), (frozen, True),
                                  (mixed, False)):
                found, expected, before = self.statistics_after_a_step(momentum, forward)
                for each, right, old in zip(found, expected, before):
                    self.assertTrue(numpy.allclose(each, right, rtol=1e-5, atol=1e-6),
                                    (momentum, forward, each, right))
                    self.assertEqual(numpy.allclose(each, old, rtol=1e-5), kept)

    def test_a_frozen_batch_norm_normalises_with_its_statistics(self):
        def frozen(model, x):
            model.b.eval()
            return model.b(model.a(x))

        program, values, batch = self.batch_norm(0.1, frozen)
        loss = program.gradients(values, batch, [None] * len(values), None)
        self.assertAlmostEqual(loss, program.evaluate(values, batch), places=5)

    def test_a_batch_that_fails_leaves_the_statistics_attached(self):
        fails = [True]

        def forward(model, x):
            seen = model.b(model.a(x))
            if fails[0]:
                raise KeyError("age")
            return seen

        program, values, batch = self.batch_norm(0.1, forward)
        with self.assertRaises(KeyError):
            program.gradients(values, batch, [None] * len(values), None)
        fails[0] = False
        before = program.evaluate(values, batch)
        values[-2][...] += 5  # as a worker does for the next batch
        self.assertTrue((program.model.b.running_mean.numpy() == values[-2]).all())
        self.assertNotAlmostEqual(program.evaluate(values, batch), before, places=3)

    def test_a_momentum_of_1_is_assigned(self):
        program, _, _ = self.batch_norm(1, lambda model, x: model.b(model.a(x)))
        self.assertEqual([v.assigned for v in program.variables], [False] * 4 + [True] * 2)

    def test_padding_rows_of_embeddings_are_zeros(self):
        import numpy
        import paracord
        import torch

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.word = torch.nn.Embedding(4, 2, padding_idx=-1)
                self.tied = torch.nn.Embedding(3, 2, padding_idx=1)
                self.head = torch.nn.Linear(2, 3, bias=False)
                self.head.weight = self.tied.weight

            def forward(self, x):
                return self.word(x)

        program = paracord.torch.program(Model(), dtypes={"inputs": {"": "int64"}},
                                         outputs=[paracord.Output((2,))])(
            lambda model, x, y: model(x).sum())
        batch = paracord.Batch(2, {"": numpy.array([1, 3])}, {"": numpy.zeros(2, "f4")}, {})
        values = [numpy.zeros(v.shape, "f4") for v in program.variables]
        gradients = [numpy.full(v.shape, 9, "f4") for v in program.variables]
        program.attach(values)
        for do in (lambda: program.gradients(values, batch, gradients, None),
                   lambda: program.evaluate(values, batch),
                   lambda: program.predict(values, batch)[0].sum()):
            for value in values:
                value[...] = 7  # as a worker does before each request
            self.assertEqual(do(), 14)
            self.assertTrue((values[1] == 7).all())  # PyTorch trains this row by the head
        self.assertEqual(gradients[0].tolist(), [[0, 0], [1, 1], [0, 0], [0, 0]])

    def test_embeddings_that_are_tables(self):
        import numpy
        import paracord
        import torch

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.user = torch.nn.Embedding(10**12, 2, device="meta", sparse=True)
                self.word = torch.nn.EmbeddingBag(1, 2, mode="sum", padding_idx=0)
                self.last = torch.nn.Linear(2, 1)

            def forward(self, user, words):
                return self.last(self.user(user) + self.word(words))

        @paracord.torch.program(Model(), tables={"user": "id", "word.weight": paracord.Table("w")},
                                outputs=[paracord.Output((1,))])
        def loss(model, user, words, y):
            return (model(user, words) - y).sum()

        self.assertEqual([(v.name, tuple(v.shape)) for v in loss.variables[:2]],
                         [("user.weight", (10**12, 2)), ("word.weight", (1, 2))])
        self.assertEqual(loss.variables[0].table.columns, ("id",))
        self.assertEqual(loss.variables[1].table.columns, ("w",))
        self.assertEqual(loss.variables[1].initializer["name"], "random_normal")
        last = numpy.array([[1, 10]], "f4"), numpy.zeros(1, "f4")
        targets = {"": numpy.zeros((2, 1), "f4")}
        for users, words in ((4, 3), (2, 5)):
            values = [numpy.full((users, 2), 2, "f4"), numpy.full((words, 2), 3, "f4"), *last]
            gradients = [numpy.full(v.shape, 9, "f4") for v in values]
            loss.attach(values)
            ids = {"id": numpy.array([1, 1]), "w": numpy.array([[0, 1], [2, 2]])}
            batch = paracord.Batch(2, ids, targets, {})
            # The padding, row 0 of the words, counts for nothing.
            self.assertEqual(loss.gradients(values, batch, gradients, None), 2 * 22 + 33 + 66)
            self.assertEqual(gradients[0].tolist(), [[0, 0], [2, 20]] + [[0, 0]] * (users - 2))
            self.assertEqual(gradients[1].tolist(),
                             [[0, 0], [1, 10], [2, 20]] + [[0, 0]] * (words - 3))
            self.assertEqual(loss.predict(values, batch)[0].tolist(), [[55], [88]])

    def test_embeddings_that_cannot_be_tables(self):
        import paracord
        import torch

        def make(tables, **options):
            model = torch.nn.Sequential(torch.nn.Embedding(3, 2, **options), torch.nn.Linear(2, 1))
            paracord.torch.program(model, tables=tables)(lambda model, x: model(x).sum())

        make({"0": "id"}, padding_idx=0)
        for tables, options, why in (({"user": "id"}, {}, "no Embedding 'user'"),
                                     ({"1": "id"}, {}, "of Linear is no Embedding's"),
                                     ({"0": "id"}, {"max_norm": 1.0}, "max_norm"),
                                     ({"0": "id"}, {"padding_idx": 2}, "padding_idx of a table")):
            with self.assertRaisesRegex(paracord.ProgramError, why):
                make(tables, **options)

    def refuse_tables(self, why, loss, forward=None, tie=False):
        """Computes a batch of two users, of whom one comes twice, as `serve` does at first."""
        import numpy
        import paracord
        import torch
        from paracord._tables import check_batch

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.user = torch.nn.Embedding(50, 3)
                self.last = torch.nn.Linear(3, 50 if tie else 1, bias=False)
                if tie:
                    self.last.weight = self.user.weight

            def forward(self, ids):
                return forward(self, ids) if forward else self.last(self.user(ids))

        def check():
            program = paracord.torch.program(Model(), tables={"user": "id"},
                                             initial={"last.weight": "ones"})(loss)
            random = numpy.random.default_rng(1)
            values = [random.uniform(-1, 1, (3, 3)).astype("f4"),
                      random.uniform(-1, 1, (1, 3)).astype("f4")]
            program.attach(values)
            check_batch(program, values, paracord.Batch(
                3, {"id": numpy.array([1, 2, 1])}, {"": numpy.ones((3, 1), "f4")}, {}))

        if not why:
            return check()
        with self.assertRaisesRegex(paracord.ProgramError, why):
            check()

    def test_tables_are_read_by_rows_alone(self):
        def square(model, ids, y):
            return ((model(ids) - y)**2).mean()

        self.refuse_tables("", square)
        why = r"tables \['user.weight'\] have the rows of a batch"
        self.refuse_tables(why, lambda model, ids, y: square(model, ids, y)
                           + 1e-5 * (model.user.weight**2).sum())
        self.refuse_tables(why, square, lambda model, ids: model.last(model.user(ids))
                           + 1e-3 * ids[:, None])
        self.refuse_tables(why, square, lambda model, ids: model.last(model.user(
            (ids + 1) % model.user.weight.size(0))))
        self.refuse_tables(why, square, lambda model, ids: (
            model.user(ids) @ model.user.weight.T).exp().sum(-1, keepdims=True))
        self.refuse_tables("last.weight of Linear is the table user.weight, too", square, tie=True)

    def test_a_loss_that_no_batch_repeats_cannot_be_compared(self):
        import numpy

        random = numpy.random.default_rng(2)
        self.refuse_tables("", lambda model, ids, y: (model(ids) * random.uniform()).sum())

    def test_says_which_argument_is_wrong(self):
        import numpy
        import paracord
        import torch

        program, error = paracord.torch.program, paracord.ProgramError
        model = torch.nn.Sequential(torch.nn.Linear(2, 1))
        for options, why in (
                ({"initial": {"0.wieght": "zeros"}}, "'0.wieght', which is no variable; did you m"),
                ({"initial": "zeros"}, "initial is 'zeros': give a dict"),
                ({"initial": {"0.*": 3}}, "initial: 0.\\* has the initializer 3"),
                ({"tables": {"user": "id"}}, "there is no Embedding 'user' to be a table; there "),
                ({"assigned": ["u"]}, "there is no buffer 'u' to be assigned; there are")):
            with self.assertRaisesRegex(error, why):
                program(model, **options)(lambda model, x: model(x).mean())
        with self.assertRaisesRegex(error, "is given a function: say @paracord.torch.program"):
            program(lambda model, x: model(x).mean())(None)
        with self.assertRaisesRegex(error, r"parameter weight of shape \(1, 2\) is torch.float64"):
            program(torch.nn.Linear(2, 1).double())(lambda model, x: model(x).mean())
        batch = paracord.Batch(2, {"": numpy.ones((2, 2), "f4")}, {}, {})
        for loss, why in ((lambda m, x: 1.0, "the loss is a float: return the mean over the bat"),
                          (lambda m, x: m(x), r"the loss is of shape \(2, 1\): return the mean"),
                          (lambda m, x: x.sum(), "the loss is without a gradient")):
            made = program(model)(loss)
            values = [numpy.zeros(v.shape, "f4") for v in made.variables]
            made.attach(values)
            with self.assertRaisesRegex(error, why):
                made.gradients(values, batch, values, None)

    def test_assigned_buffers(self):
        import numpy
        import paracord
        import torch

        layer = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(2, 3))
        names = ["parametrizations.weight.0._u", "parametrizations.weight.0._v"]
        initial = {name: "random_normal" for name in [*names, "parametrizations.weight.original"]}

        @paracord.torch.program(layer, initial=initial, assigned=names,
                                dtypes={"targets": {"": "int64"}})
        def loss(model, x, y):
            return torch.nn.functional.cross_entropy(model(x), y)

        assigned = [v for v, variable in enumerate(loss.variables) if variable.assigned]
        self.assertEqual([loss.variables[v].name for v in assigned], names)
        values = [numpy.full(v.shape, 0.5, numpy.float32) for v in loss.variables]
        gradients = [numpy.full(v.shape, 9, numpy.float32) for v in loss.variables]
        loss.attach(values)
        batch = paracord.Batch(2, {"": numpy.ones((2, 2), numpy.float32)},
                               {"": numpy.array([0, 2])}, {})
        loss.gradients(values, batch, gradients, lambda v: None)
        for v in assigned:
            self.assertAlmostEqual(float(numpy.linalg.norm(gradients[v])), 1, places=5)
            self.assertTrue((values[v] == 0.5).all())


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=1)
    skipped = len(program.result.skipped)
    if skipped and program.result.wasSuccessful():
        print(f"skipped: {skipped} tests, for want of PyTorch")
    sys.exit(not program.result.wasSuccessful())
