"""The layers of a network as graphs of onnxruntime, for `benchmarks.networks`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from alphamf.learnt import network
from alphamf.tools.arrays import Floats

OPSET = 17


class Graph:
    """Nodes one behind the other, and the constants that they read."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Floats] = {}

    def add(self, kind: str, *inputs: str | Floats, **attributes: Any) -> str:
        """Add a node with one output, and return the output's name; arrays become constants."""
        from onnx import helper

        names = []
        for each in inputs:
            name = each if isinstance(each, str) else f"c{len(self.constants)}"
            if not isinstance(each, str):
                self.constants[name] = np.ascontiguousarray(each)
            names.append(name)
        output = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, names, [output], **attributes))
        return output

    def session(self, output: str, **given: Floats) -> Callable[[], Floats]:
        """Return a function that runs the graph for the given inputs, in one thread."""
        import onnxruntime
        from onnx import TensorProto, helper, numpy_helper

        def info(name: str, shape: tuple[int, ...] | None) -> Any:
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

        constants = [numpy_helper.from_array(v, name) for name, v in self.constants.items()]
        inputs = [info(name, value.shape) for name, value in given.items()]
        graph = helper.make_graph(self.nodes, "layers", inputs, [info(output, None)], constants)
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        made = onnxruntime.InferenceSession(
            model.SerializeToString(), options, ["CPUExecutionProvider"]
        )
        return lambda: made.run(None, given)[0]


def read(g: Graph, p: dict[str, Floats], cells: str, bins: int) -> str:
    """Add `layers.read_frames`, for cells of shape (features, frames, bins)."""
    width = len(p["in.bias"])
    weight = p["in.weight"].reshape(bins, -1, width).swapaxes(0, 1)
    flat = g.add("Transpose", cells, perm=[1, 0, 2])
    flat = g.add("Reshape", flat, np.array([0, -1]))
    x = g.add("MatMul", flat, weight.reshape(-1, width))
    return g.add("Add", x, p["in.bias"])


def blocks(g: Graph, p: dict[str, Floats], x: str) -> str:
    """Add `layers.run_blocks`."""
    for each in network.stack(network.sizes_of(network.shapes_of(p))):
        k, apart = each.name, each.distance
        block = {name: p[f"{k}.{name}"] for name in ("scale", "shift", "up", "down", "taps")}
        u = g.add("LayerNormalization", x, block["scale"], block["shift"], epsilon=1e-5)
        u = g.add("Unsqueeze", g.add("Transpose", u, perm=[1, 0]), np.array([0]))
        taps = block["taps"]
        reach = len(taps) // 2 * apart
        u = g.add(
            "Conv", u, taps.T[:, None], group=taps.shape[1], dilations=[apart], pads=[reach, reach]
        )
        u = g.add("Transpose", g.add("Squeeze", u, np.array([0])), perm=[1, 0])
        u = g.add("Add", g.add("MatMul", u, block["up"]), p[f"{k}.up_bias"])
        u = g.add("LeakyRelu", u, alpha=network.SLOPE)
        u = g.add("Add", g.add("MatMul", u, block["down"]), p[f"{k}.down_bias"])
        x = g.add("Add", x, u)
    return x


def maps(g: Graph, p: dict[str, Floats], x: str, bins: int) -> str:
    """Add `layers.feature_maps`, of shape (maps, frames, bins)."""
    count = len(p["map.bias"]) // bins
    weight = p["map.weight"].reshape(-1, bins, count).swapaxes(1, 2)
    bias = p["map.bias"].reshape(bins, count).T.reshape(-1)
    x = g.add("Add", g.add("MatMul", x, weight.reshape(len(weight), -1)), bias)
    return g.add("Transpose", g.add("Reshape", x, np.array([0, count, bins])), perm=[1, 0, 2])


def correlated(g: Graph, p: dict[str, Floats], cells: str, found: str) -> str:
    """Add `layers.correlate_cells`."""

    def correlate(y: str, name: str, apart: tuple[int, int]) -> str:
        kernel = p[f"{name}.weight"].transpose(3, 2, 0, 1)
        pads = [*apart, *apart]
        return g.add("Conv", y, kernel, p[f"{name}.bias"], dilations=list(apart), pads=pads)

    def rectified(y: str) -> str:
        return g.add("LeakyRelu", y, alpha=network.SLOPE)

    y = g.add("Unsqueeze", g.add("Concat", cells, found, axis=0), np.array([0]))
    for each in network.correlations(network.sizes_of(network.shapes_of(p))):
        z = correlate(y, each.name, each.apart)
        z = rectified(z) if each.rectify else z
        y = g.add("Add", y, z) if each.residual else z
    out = g.add("Squeeze", y, np.array([0]))
    added = g.add("Slice", found, np.array([0]), np.array([network.ADDED]), np.array([0]))
    rest = len(p["out.bias"]) - network.ADDED
    return g.add("Add", out, g.add("Pad", added, np.array([0, 0, 0, rest, 0, 0])))


def sessions(
    p: dict[str, Floats], cells: Floats, x: Floats, found: Floats
) -> dict[str, Callable[[], Floats]]:
    """Return functions that run the layers in onnxruntime.

    Parameters
    ----------
    p
        Parameters of the network.
    cells
        Features, shape (features, frames, bins).
    x
        Channels of whole frames, shape (frames, width).
    found
        Feature maps, shape (maps, frames, bins).
    """
    bins = cells.shape[-1]
    graphs = [Graph() for _ in range(5)]
    first, middle, last, small, whole = graphs
    both = maps(whole, p, blocks(whole, p, read(whole, p, "cells", bins)), bins)
    return {
        "first product": first.session(read(first, p, "cells", bins), cells=cells),
        "blocks": middle.session(blocks(middle, p, "x"), x=x),
        "maps": last.session(maps(last, p, "x", bins), x=x),
        "correlations": small.session(
            correlated(small, p, "cells", "found"), cells=cells, found=found
        ),
        "all": whole.session(correlated(whole, p, "cells", both), cells=cells),
    }
