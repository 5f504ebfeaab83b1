"""The words of the parameters and attributes that all graph networks share."""

from __future__ import annotations

SHARED_PARAMETERS = """\
hidden : int or tuple of int, default=(16,)
    Widths of the hidden layers; (): one layer.
layer : {"gcn", "sage", "gin", "sgc", "appnp", "gat"} or type, default="gcn"
    See `daskpart.models.graph_convolution.layers`. From Python also a class of your own, a subclass
    of its `Layer`; such a model is kept by pickle, not by `save`.
layer_options : dict or None, default=None
    Parameters of the layer: sgc {"hops"}, appnp {"hops", "teleport"}, gin {"epsilon"}, gat
    {"heads", "output_heads", "slope", "attention_dropout"}.
activation : {"relu", "tanh", "logistic", "elu", "identity"}, default="relu"
    Between layers.
dropout : float, default=0.5
    Share of the entries of each layer's input that are put to 0 in training. Where the first
    product is kept, those of the product are.
optimizer : {"adam", "sgd", "momentum", "adagrad"} or Optimizer, default="adam"
    How weights follow from gradients. An Optimizer without weight decay of its own takes that of
    the model.
learning_rate : {"constant", "decay", "bold-driver", "invscaling", "step"}, default="constant"
    "constant": initial_learning_rate. Over epochs, "decay": divided by 1 + 0.1 · epoch; "step":
    halved each 10 epochs; "bold-driver": 5 % up after an epoch whose loss fell, halved after one
    whose loss rose. Over steps, "invscaling": divided by t^power_t, t counting steps, of which
    full batches have one an epoch.
initial_learning_rate : float, default=0.01
    Rate of the first epoch.
power_t : float, default=0.5
    Of "invscaling": 1 is 1/t, 0.5 is 1/√t.
weight_decay : float or tuple of float, default=5e-4
    Share of each matrix of weights (of gat its attention, too) that is added to its gradient; a
    tuple has one number a layer. Biases are left out; torch.optim shrinks them, too.
batch_size : int, float or None, default=None
    None: full batches, exact. Else train on mini-batches of so many vertices, or, below 1, of this
    share of them; a step each, and in an epoch every vertex once.
sampler : {"neighbour", "vertex", "layer"} or sampler, default="neighbour"
    What a mini-batch is, where batch_size is given. "neighbour": labelled vertices, and of each
    layer's vertices at most 10 neighbours; "layer": labelled vertices, and for each layer as many,
    drawn by importance; "vertex": any vertices, and the edges among them. Or a
    `daskpart.data_models.NeighbourSampler`, `LayerSampler` or `VertexSampler`, without seeds; its
    size is `batch_size`.
max_iter : int, default=200
    Epochs.
validation_fraction : float, default=0.0
    Share of the labelled vertices that are held out; or give `validation_mask` to `fit`.
    `partial_fit` learns from all.
patience : int or None, default=None
    Stop after so many epochs in which what `monitor` says became no better; the model then has the
    weights of the best epoch.
monitor : {"loss", "score", "both"}, default="loss"
    What `patience` looks at: the validation loss, as for GCN, the validation score, or both, as for
    GAT: then it counts epochs in which neither was as good as ever before, and the best epoch is
    the last at which neither was worse.
symmetrize : bool, default=False
    Whether an edge counts both ways; where both are there, with the larger weight.
first_product : {"auto", "kept", "each"}, default="auto"
    Whether Â X is made once a fit, so that the first layer sends nothing in an epoch, or in
    each. "auto": kept, unless X is sparse and the product would be much fuller, or mini-batches
    are trained on, or the layer has another first product (gat, appnp).
communication : {"auto", "expand", "broadcast"}, default="auto"
    Which rows travel: those that a rank reads, or all to all ranks (the baseline of CAGNET, the
    same bits). "auto": what should be quicker; the plan's report has both forecasts.
partitioner : str, dict, Partition or int array of shape (n,), default="auto"
    "auto": blocks of vertices, or a cut, by the seconds that it saves over the fit and those of
    cutting, so it depends on the transport and on `max_iter`; the plan says what was weighed.
    "connectivity": hypergraph of columns with self loops, exact in what travels; "stochastic": that
    of sampled mini-batches; "metis" (the graph), "random", "block"; or the arguments of
    `daskpart.partition`; or a `daskpart.Partition` with one part a rank; or the part of each
    vertex. Imbalance 0.01.
n_ranks : int or None, default=None
    None: as many as a given partition has parts, else as the workers have threads, or as this
    process has cores; at most one a vertex.
{words of transport}
dtype : {"float32", "float64"}, default="float32"
    Of features, weights, and what travels.
warm_start : bool, default=False
    Begin at the weights of the last fit.
{words of checkpoints}
random_state : int, RandomState or None, default=0
    Fixes everything: partition, first weights, dropout (by vertex, so for any number of ranks).
{words of verbose}
"""
SHARED_ATTRIBUTES = """\
coefs_ : dict of str to ndarray
state_ : GCNState
history_ : pandas.DataFrame
    One row an epoch: loss, score, validation_loss, validation_score, seconds,
    seconds_computing, seconds_communicating, volume (rows), messages, learning_rate. Loss and
    score are those before the epoch's step, under dropout.
n_iter_ : int
best_iteration_ : int or None
    The epoch whose weights the model has, by `patience`; None without it: the last.
plan_report_ : GCNPlanReport
comm_report_ : CommunicationReport
    What an epoch sent, beside equation 11.
partition_ : Partition
graph_ : scipy CSR array or None
    The adjacency that was trained on; None: no edges.
vertex_names_ : ndarray or None
keeps_product_ : bool
    Whether the product of the features with Â was made once, before the first epoch.
n_features_in_, n_outputs_ : int
"""
