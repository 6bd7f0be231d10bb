"""Models for make_graphs.py, as those of graph_cases.py: images that are resized, cropped, and
moved in training by factors that leave nothing to chance."""
from graph_cases import draw

CASES = {}


def images(name, layers, *shape, keras2=True, low=-1.0, high=1.0, **more):
    """Layers between two convolutions, so that their input has a gradient."""
    def build(keras, is_keras2, rng):
        if is_keras2 and not keras2:
            return None
        L = keras.layers
        x = (low + (high - low) * (draw(rng, 3, *shape) + 1) / 2).astype("float32")
        model = keras.Sequential([L.Input(shape, name="in"), L.Conv2D(2, 1, name="first")]
                                 + layers(L) + [L.Flatten(), L.Dense(2, name="last")], name="m")
        return {"model": model, "x": x, "y": draw(rng, 3, 2), "loss": "mse", "scale": 0.25,
                **more}
    CASES[name] = build


images("resizing", lambda L: [L.Resizing(5, 9), L.Resizing(7, 3), L.Resizing(7, 3)], 8, 5, 2)
images("resizing_nearest", lambda L: [L.Resizing(5, 9, interpolation="nearest"),
    L.Resizing(11, 2, interpolation="nearest")], 7, 5, 2)
images("resizing_much", lambda L: [L.Resizing(13, 17), L.Resizing(2, 3), L.Resizing(1, 1),
    L.Resizing(4, 2)], 3, 2, 1)
images("resizing_cropped", lambda L: [L.Resizing(4, 8, crop_to_aspect_ratio=True),
    L.Resizing(6, 5, crop_to_aspect_ratio=True, interpolation="nearest")], 9, 7, 2)
images("resizing_padded", lambda L: [L.Resizing(4, 9, pad_to_aspect_ratio=True, fill_value=0.5),
    L.Resizing(11, 6, pad_to_aspect_ratio=True), L.Resizing(7, 5, pad_to_aspect_ratio=True,
    interpolation="nearest", fill_value=-1.0)], 9, 7, 2, keras2=False)
images("resizing_channels_first", lambda L: [L.Permute((3, 1, 2)), L.Resizing(
    5, 2, data_format="channels_first"), L.CenterCrop(3, 4, data_format="channels_first")], 4, 5,
    2, keras2=False)
images("center_crop", lambda L: [L.CenterCrop(6, 5), L.CenterCrop(3, 5), L.CenterCrop(5, 4),
    L.CenterCrop(2, 8)], 9, 8, 2)
images("rotation", lambda L: [L.RandomRotation((0.1, 0.1)), L.RandomRotation(
    (-0.3, -0.3), fill_mode="wrap"), L.RandomRotation((0.07, 0.07), fill_mode="nearest"),
    L.RandomRotation((0.6, 0.6), fill_mode="constant", fill_value=0.5)], 6, 7, 2)
images("rotation_nearest", lambda L: [L.RandomRotation((0.21, 0.21), interpolation="nearest"),
    L.RandomRotation((0.13, 0.13), interpolation="nearest", fill_mode="wrap")], 7, 5, 2)
images("translation", lambda L: [L.RandomTranslation((0.3, 0.3), (-0.4, -0.4)),
    L.RandomTranslation((-0.9, -0.9), (0.8, 0.8), fill_mode="wrap"), L.RandomTranslation(
    (0.15, 0.15), (0.1, 0.1), fill_mode="nearest"), L.RandomTranslation((-0.2, -0.2), (0.0, 0.0),
    fill_mode="constant", fill_value=-0.75), L.RandomTranslation((0.5, 0.5), (0.25, 0.25),
    interpolation="nearest", fill_mode="constant")], 6, 8, 2)
images("translation_far", lambda L: [L.RandomTranslation((1.0, 1.0), (-1.0, -1.0)),
    L.RandomTranslation((-1.0, -1.0), (0.7, 0.7), fill_mode="reflect")], 3, 4, 2)
images("zoom", lambda L: [L.RandomZoom((0.3, 0.3)), L.RandomZoom((-0.4, -0.4), (0.2, 0.2)),
    L.RandomZoom((0.6, 0.6), (0.9, 0.9), fill_mode="wrap"), L.RandomZoom((-0.1, -0.1),
    fill_mode="nearest", interpolation="nearest"), L.RandomZoom((1.0, 1.0), (0.5, 0.5),
    fill_mode="constant", fill_value=0.25)], 6, 7, 2)
images("thin_images", lambda L: [L.RandomTranslation((0.3, 0.3), (0.4, 0.4)), L.RandomZoom(
    (0.5, 0.5), fill_mode="wrap"), L.RandomRotation((0.1, 0.1), fill_mode="nearest")], 1, 4, 2)
images("map_channels_first", lambda L: [L.Permute((3, 1, 2)), L.RandomZoom(
    (0.3, 0.3), data_format="channels_first"), L.RandomRotation(
    (0.1, 0.1), data_format="channels_first"), L.RandomTranslation((0.3, 0.3), (0.2, 0.2),
    data_format="channels_first")], 4, 5, 2, keras2=False)
images("colours", lambda L: [L.RandomBrightness((0.1, 0.1), value_range=(-2, 2)), L.RandomContrast(
    (-0.3, 0.3), value_range=(-1, 1)), L.RandomBrightness((-0.2, -0.2), value_range=(1, -0.75))],
    4, 5, 3, keras2=False)
images("brightness", lambda L: [L.RandomBrightness((0.1, 0.1), value_range=(0, 1)),
    L.RandomBrightness((-0.1, -0.1))], 4, 5, 3, low=0.0)
images("contrast", lambda L: [L.Rescaling(100.0, 20.0), L.RandomContrast((0.0, 0.0)),
    L.Rescaling(0.01)], 4, 5, 3, keras2=False)
images("rescaling_by_channel", lambda L: [L.Rescaling([2.0, -0.5]), L.Rescaling(
    0.75, offset=[0.25, -1.0]), L.Rescaling([[[0.5], [2.0], [1.5]]], [[[1.0]], [[-1.0]]])], 2, 3, 2)
images("crop_of_the_size", lambda L: [L.RandomCrop(5, 8)], 5, 8, 2)


def training_of_calls(keras, keras2, rng):
    """As of other random layers: what a call says counts in Keras 2, the run's mode in Keras 3."""
    L = keras.layers
    a = L.Input((5, 6, 2), name="a")
    h = L.RandomRotation((0.2, 0.2), name="on")(a, training=True)
    h = L.RandomZoom((0.3, 0.3), name="off")(h, training=False)
    out = L.Dense(2, name="out")(L.Flatten(name="flat")(L.RandomBrightness(
        (0.1, 0.1), value_range=(-3, 3), name="free")(h)))
    return {"model": keras.Model(a, out, name="m"), "x": {"a": draw(rng, 3, 5, 6, 2)},
            "y": draw(rng, 3, 2), "loss": "mse", "scale": 0.25}


CASES["training_of_image_calls"] = training_of_calls


def nested(keras, keras2, rng):
    """As tutorials have it: a Sequential of augmentation within a model, after a Rescaling."""
    L = keras.layers
    moved = keras.Sequential([L.Input((6, 6, 3)), L.Rescaling(0.5), L.RandomRotation((0.2, 0.2)),
                              L.RandomZoom((0.1, 0.1))], name="moved")
    a = L.Input((8, 7, 3), name="a")
    h = L.Conv2D(2, 3, activation="relu", name="c")(moved(L.Resizing(6, 6, name="r")(a)))
    out = L.Dense(2, name="out")(L.GlobalAveragePooling2D(name="g")(h))
    return {"model": keras.Model(a, out, name="m"), "x": {"a": draw(rng, 3, 8, 7, 3)},
            "y": draw(rng, 3, 2), "loss": "mse"}


CASES["nested_augmentation"] = nested
