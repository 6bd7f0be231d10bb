"""The same perceptron as a PyTorch model."""
import paracord
import torch

model = torch.nn.Sequential(
    torch.nn.Flatten(), torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))


@paracord.torch.program(
    model, outputs=[paracord.Output((10,))], dtypes={"targets": {"": "int64"}})
def loss(model, images, labels):
    return torch.nn.functional.cross_entropy(model(images), labels)


paracord.serve(loss)
