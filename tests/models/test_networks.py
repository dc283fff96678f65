"""LeNet is Caffe's network for digits."""

import torch
from torch import nn
from torch.nn import functional as f

from lightning_fastnet.models.networks import LeNet


def test_lenet_has_caffes_parameters():
    convolutions = (20 * 1 * 25 + 20) + (50 * 20 * 25 + 50)
    linears = (800 * 500 + 500) + (500 * 10 + 10)
    assert sum(parameter.numel() for parameter in LeNet().parameters()) == convolutions + linears == 431_080


def test_lenet_has_caffes_stages():
    shapes = []
    pictures = torch.zeros(3, 1, 28, 28)
    for stage in LeNet(num_classes=7):
        pictures = stage(pictures)
        if not isinstance(stage, nn.ReLU):
            shapes.append(tuple(pictures.shape[1:]))
    assert shapes == [(20, 24, 24), (20, 12, 12), (50, 8, 8), (50, 4, 4), (800,), (500,), (7,)]


def test_lenet_computes_caffes_layers():
    network, pictures = LeNet(), torch.randn(4, 1, 28, 28)
    conv1, bias1, conv2, bias2, hidden, hidden_bias, last, last_bias = network.parameters()
    maps = f.max_pool2d(f.conv2d(pictures, conv1, bias1), 2)
    maps = f.max_pool2d(f.conv2d(maps, conv2, bias2), 2)
    expected = f.linear(f.linear(maps.reshape(4, 800), hidden, hidden_bias).relu(), last, last_bias)
    torch.testing.assert_close(network(pictures), expected)
