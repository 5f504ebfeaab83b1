"""Data models: what becomes a vertex and what a net, so that a small cut is little traffic.

model                   of        vertices (weight)           nets (cost 1; tensors: R)
column-net              matrices  rows (nonzeros)             columns
row-net                 matrices  columns (nonzeros)          rows
column-net-self-loops   graphs    vertices (row of A + I)     columns of A + I
stochastic              graphs    vertices (row of A + I)     those of sampled mini-batches
graph                   graphs    vertices (row of A)         edges of A + Aᵀ
bipartite               examples  rows (1)                    columns
fine-grain              tensors   nonzeros (1)                every index of every mode
medium-grain            tensors   groups of nonzeros (size)   every index of every mode
"""

from __future__ import annotations

from .matrix_models import bipartite, column_net, column_net_self_loops, graph, row_net
from .model import DataModel
from .naming import MODELS, NAMES, build, rebuild
from .samplers import Adjacency, Layer, LayerSampler, NeighbourSampler, Sampler, VertexSampler
from .stochastic import nets_needed, stochastic
from .tensor_grains import fine_grain, medium_grain

__all__ = [
    "MODELS",
    "NAMES",
    "Adjacency",
    "DataModel",
    "Layer",
    "LayerSampler",
    "NeighbourSampler",
    "Sampler",
    "VertexSampler",
    "bipartite",
    "build",
    "column_net",
    "column_net_self_loops",
    "fine_grain",
    "graph",
    "medium_grain",
    "nets_needed",
    "rebuild",
    "row_net",
    "stochastic",
]
