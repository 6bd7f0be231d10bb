"""DLRM (Naumov et al., 2019) in PyTorch: the numbers go through layers of their own to as many
numbers as a word has in the table, and the dot products of all pairs go on to the last layers."""
import paracord
import torch
from torch import nn

NUMBERS, WORDS, COLUMNS = 13, 26, 16


class Dlrm(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(1, COLUMNS)  # it grows: a row for each word that comes
        self.bottom = nn.Sequential(
            nn.Linear(NUMBERS, 64), nn.ReLU(), nn.Linear(64, COLUMNS), nn.ReLU())
        pairs = (WORDS + 1) * WORDS // 2
        self.top = nn.Sequential(
            nn.Linear(COLUMNS + pairs, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(),
            nn.Linear(64, 1))
        self.pairs = torch.tril_indices(WORDS + 1, WORDS + 1, -1)

    def forward(self, numbers, words):
        x = self.bottom(numbers)
        all_of_them = torch.cat([x[:, None], self.word(words)], dim=1)
        dots = torch.bmm(all_of_them, all_of_them.transpose(1, 2))
        dots = dots[:, self.pairs[0], self.pairs[1]]
        return torch.sigmoid(self.top(torch.cat([x, dots], dim=1)))


@paracord.torch.program(
    Dlrm(), tables={"word": "words"}, outputs=[paracord.Output((1,))],
    initial={"word.weight": {"name": "random_uniform", "minval": -0.05, "maxval": 0.05},
             "*.weight": "glorot_uniform", "*.bias": "zeros"})  # as Keras draws them
def loss(model, numbers, words, clicks):
    return nn.functional.binary_cross_entropy(model(numbers, words)[:, 0], clicks)


paracord.serve(loss)
