"""ai.onnx.ml: trees, linear models, support vectors, scalers and encoders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .... import _C, ops
from ....tensors.interop import from_numpy, tensor
from ..table import rule

aten = ops.aten
ML = "ai.onnx.ml"
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def transformed(scores: Any, how: str) -> Any:
    """Scores after a transform."""
    if how == "NONE":
        return scores
    if how == "SOFTMAX":
        return aten.softmax(scores, -1)
    if how == "LOGISTIC":
        return aten.sigmoid(scores)
    if how == "SOFTMAX_ZERO":
        is_zero = aten.eq(scores, 0)
        hidden = aten.where(is_zero, aten.full_like(scores, float("-inf")), scores)
        return aten.where(is_zero, aten.zeros_like(scores), aten.softmax(hidden, -1))
    if how == "PROBIT":
        return aten.mul(aten.erfinv(aten.sub(aten.mul(scores, 2), 1)), math.sqrt(2))
    raise ValueError(f"ai.onnx.ml: post_transform {how!r} is not known; there are {', '.join(TRANSFORMS)}")


def _matrix(x: Any) -> Any:
    x = x if x.dtype.is_floating_point else x.to(_C.float32)
    return x if x.ndim == 2 else aten.reshape(x, (1, -1))


# --- trees ------------------------------------------------------------------------------------------------------------


def _compared(mode: int, x: Any, split: Any) -> Any:
    return (aten.le, aten.lt, aten.ge, aten.gt, aten.eq, aten.ne)[mode](x, split)


def descended(x: Any, roots: Any, features: Any, splits: Any, modes: Any, yes: Any, no: Any, missing: Any,
              members: Sequence[Sequence[float]] | None, depth: int) -> Any:
    """The leaf of each tree for each row: leaves are nodes that point to themselves."""
    at = aten.expand(aten.unsqueeze(roots, 0), (x.shape[0], roots.shape[0]))
    used = sorted(set(modes.tolist()))
    for _ in range(depth):
        value, split, mode = aten.gather(x, 1, features[at]), splits[at], modes[at]
        goes = aten.zeros_like(value, dtype=_C.bool)
        for m in used:
            if m < 6:
                goes = aten.where(aten.eq(mode, m), _compared(m, value, split), goes)
            elif m == 6:
                inside = aten.zeros_like(goes)
                for k, own in enumerate(members or ()):
                    found = aten.zeros_like(goes)
                    for v in own:
                        found = aten.logical_or(found, aten.eq(value, v))
                    inside = aten.where(aten.eq(split, k), found, inside)
                goes = aten.where(aten.eq(mode, 6), inside, goes)
        goes = aten.logical_or(goes, aten.logical_and(aten.isnan(value), missing[at]))
        at = aten.where(goes, yes[at], no[at])
    return at


def _depth(yes: Sequence[int], no: Sequence[int], roots: Sequence[int]) -> int:
    """The longest way down. Refuses trees that are none."""
    level, deepest = list(roots), 0
    while True:
        below = {n for k in level for n in (yes[k], no[k]) if n != k}
        if not below:
            return deepest
        deepest += 1
        if deepest > len(yes):
            raise ValueError("TreeEnsemble: nodes lead back to one another, which is no tree")
        level = list(below)


def _aggregated(values: Any, targets: int, how: str, trees: int) -> Any:
    """[rows, trees, targets] with NaN where a leaf says nothing of a target."""
    given = aten.logical_not(aten.isnan(values))
    if how in ("SUM", "AVERAGE"):
        total = aten.sum(aten.where(given, values, aten.zeros_like(values)), [1])
        return aten.div(total, trees) if how == "AVERAGE" else total
    worst = float("inf") if how == "MIN" else float("-inf")
    found = (aten.amin if how == "MIN" else aten.amax)(aten.where(given, values, aten.full_like(values, worst)), [1])
    return aten.where(aten.isinf(found), aten.zeros_like(found), found)


def _forest(x: Any, targets: int, how: str, nodes: dict[str, Any], weights: Sequence[tuple], base: Any) -> Any:
    """Ensembles as versions before 5 write them: nodes by (tree, node), weights of leaves likewise."""
    names = {key: k for k, key in enumerate(zip(nodes["trees"], nodes["ids"], strict=True))}
    count = len(names)
    modes = [MODES.index(m) for m in nodes["modes"]]
    leaf = MODES.index("LEAF")

    def child(k: int, given: Sequence[int]) -> int:
        return k if modes[k] == leaf else names[nodes["trees"][k], given[k]]

    yes, no = [child(k, nodes["yes"]) for k in range(count)], [child(k, nodes["no"]) for k in range(count)]
    below = {n for k in range(count) if modes[k] != leaf for n in (yes[k], no[k])}
    roots = [k for k in range(count) if k not in below]
    table = _leaf_table(count, targets, [(names[t, n], target, w) for t, n, target, w in weights], x)
    missing = nodes["missing"] or [0] * count
    at = descended(x, tensor(roots, dtype=_C.int64), tensor(list(nodes["features"]), dtype=_C.int64),
                   tensor(list(nodes["values"]), dtype=x.dtype), tensor(modes, dtype=_C.int64),
                   tensor(yes, dtype=_C.int64), tensor(no, dtype=_C.int64), tensor(list(missing)).to(_C.bool), None,
                   _depth(yes, no, roots))
    found = _aggregated(table[at], targets, how, len(roots))
    return found if not base else aten.add(found, tensor(list(base), dtype=found.dtype))


def _leaf_table(count: int, targets: int, weights: Sequence[tuple[int, int, float]], x: Any) -> Any:
    import numpy  # noqa: PLC0415

    table = numpy.full((count, targets), numpy.nan, numpy.float64 if x.dtype is _C.float64 else numpy.float32)
    for node, target, weight in weights:
        table[node, target] = weight if numpy.isnan(table[node, target]) else table[node, target] + weight
    return from_numpy(table)


def _numbers(single: Any, whole: Any) -> list[float]:
    return list(single or []) if whole is None else whole.tolist()


@rule("TreeEnsembleRegressor", domain=ML, closed=True)
def tree_ensemble_regressor(x: Any, *, aggregate_function: str = "SUM", base_values: Sequence[float] | None = None,
                            base_values_as_tensor: Any = None, n_targets: int = 1, nodes_falsenodeids: Sequence[int],
                            nodes_featureids: Sequence[int], nodes_hitrates: Any = None,
                            nodes_hitrates_as_tensor: Any = None,
                            nodes_missing_value_tracks_true: Sequence[int] | None = None, nodes_modes: Sequence[str],
                            nodes_nodeids: Sequence[int], nodes_treeids: Sequence[int],
                            nodes_truenodeids: Sequence[int],
                            nodes_values: Sequence[float] | None = None, nodes_values_as_tensor: Any = None,
                            post_transform: str = "NONE", target_ids: Sequence[int], target_nodeids: Sequence[int],
                            target_treeids: Sequence[int], target_weights: Sequence[float] | None = None,
                            target_weights_as_tensor: Any = None) -> Any:
    x = _matrix(x)
    nodes = {"trees": nodes_treeids, "ids": nodes_nodeids, "modes": nodes_modes, "yes": nodes_truenodeids,
             "no": nodes_falsenodeids, "features": nodes_featureids, "missing": nodes_missing_value_tracks_true,
             "values": _numbers(nodes_values, nodes_values_as_tensor)}
    weights = list(zip(target_treeids, target_nodeids, target_ids,
                       _numbers(target_weights, target_weights_as_tensor), strict=True))
    found = _forest(x, n_targets, aggregate_function, nodes, weights, _numbers(base_values, base_values_as_tensor))
    return transformed(found, post_transform)


@rule("TreeEnsembleClassifier", domain=ML, closed=True)
def tree_ensemble_classifier(x: Any, *, base_values: Sequence[float] | None = None, base_values_as_tensor: Any = None,
                             class_ids: Sequence[int], class_nodeids: Sequence[int], class_treeids: Sequence[int],
                             class_weights: Sequence[float] | None = None, class_weights_as_tensor: Any = None,
                             classlabels_int64s: Sequence[int] | None = None,
                             classlabels_strings: Sequence[str] | None = None, nodes_falsenodeids: Sequence[int],
                             nodes_featureids: Sequence[int], nodes_hitrates: Any = None,
                             nodes_hitrates_as_tensor: Any = None,
                             nodes_missing_value_tracks_true: Sequence[int] | None = None, nodes_modes: Sequence[str],
                             nodes_nodeids: Sequence[int], nodes_treeids: Sequence[int],
                             nodes_truenodeids: Sequence[int],
                             nodes_values: Sequence[float] | None = None, nodes_values_as_tensor: Any = None,
                             post_transform: str = "NONE", count: int) -> tuple:
    x = _matrix(x)
    labels = classlabels_strings or classlabels_int64s or []
    nodes = {"trees": nodes_treeids, "ids": nodes_nodeids, "modes": nodes_modes, "yes": nodes_truenodeids,
             "no": nodes_falsenodeids, "features": nodes_featureids, "missing": nodes_missing_value_tracks_true,
             "values": _numbers(nodes_values, nodes_values_as_tensor)}
    weights = list(zip(class_treeids, class_nodeids, class_ids, _numbers(class_weights, class_weights_as_tensor),
                       strict=True))
    only = set(class_ids)
    base = _numbers(base_values, base_values_as_tensor)
    if len(labels) == 2 and len(only) == 1:          # one score says how far it is the second class
        found = _forest(x, 1, "SUM", nodes, [(t, n, 0, w) for t, n, _, w in weights], base)
        return _binary(found, labels, post_transform, all(w[3] >= 0 for w in weights))
    scores = _forest(x, len(labels), "SUM", nodes, weights, base)
    return _labelled(aten.argmax(scores, 1), labels), transformed(scores, post_transform)


def _binary(score: Any, labels: Sequence[Any], how: str, is_share: bool) -> tuple:
    """Two classes of one score: a share (over a half is the second), or a signed distance."""
    if how == "LOGISTIC":
        second = aten.sigmoid(score)
        return _labelled(aten.gt(score, 0).to(_C.int64).reshape(-1), labels), aten.cat([1 - second, second], 1)
    bound = 0.5 if is_share else 0.0
    first = 1 - score if is_share else aten.neg(score)
    found = aten.cat([first, score], 1)
    return _labelled(aten.gt(score, bound).to(_C.int64).reshape(-1), labels), transformed(found, how)


def _labelled(places: Any, labels: Sequence[Any]) -> Any:
    if not labels:
        return places
    if isinstance(labels[0], str):
        import numpy  # noqa: PLC0415

        return numpy.array(list(labels), object)[places.numpy()]
    return tensor(list(labels), dtype=_C.int64)[places]


@rule("TreeEnsemble", domain=ML, since=5, closed=True)
def tree_ensemble(x: Any, *, aggregate_function: int = 1, leaf_targetids: Sequence[int], leaf_weights: Any,
                  membership_values: Any = None, n_targets: int = 1, nodes_falseleafs: Sequence[int],
                  nodes_falsenodeids: Sequence[int], nodes_featureids: Sequence[int], nodes_hitrates: Any = None,
                  nodes_missing_value_tracks_true: Sequence[int] | None = None, nodes_modes: Any, nodes_splits: Any,
                  nodes_trueleafs: Sequence[int], nodes_truenodeids: Sequence[int], post_transform: int = 0,
                  tree_roots: Sequence[int]) -> Any:
    x = _matrix(x)
    inner, leaves = len(nodes_featureids), len(leaf_targetids)
    yes = [n + inner * bool(leaf) for n, leaf in zip(nodes_truenodeids, nodes_trueleafs, strict=True)]
    no = [n + inner * bool(leaf) for n, leaf in zip(nodes_falsenodeids, nodes_falseleafs, strict=True)]
    own = list(range(inner, inner + leaves))
    yes, no = yes + own, no + own
    modes = nodes_modes.to(_C.int64)
    splits, members = nodes_splits.to(x.dtype), None
    if membership_values is not None:
        members = _member_sets(membership_values.tolist())
        which = aten.cumsum(aten.eq(modes, 6).to(_C.int64), 0) - 1
        splits = aten.where(aten.eq(modes, 6), which.to(x.dtype), splits)
    filler = aten.zeros((leaves,), dtype=_C.int64)
    missing = list(nodes_missing_value_tracks_true or [0] * inner) + [0] * leaves
    table = _leaf_table(inner + leaves, n_targets, [(inner + k, t, w) for k, (t, w) in enumerate(
        zip(leaf_targetids, leaf_weights.tolist(), strict=True))], x)
    at = descended(x, tensor(list(tree_roots), dtype=_C.int64),
                   aten.cat([tensor(list(nodes_featureids), dtype=_C.int64), filler]),
                   aten.cat([splits, filler.to(x.dtype)]), aten.cat([modes, filler + MODES.index("LEAF")]),
                   tensor(yes, dtype=_C.int64), tensor(no, dtype=_C.int64), tensor(missing).to(_C.bool), members,
                   _depth(yes, no, tree_roots))
    found = _aggregated(table[at], n_targets, AGGREGATES[aggregate_function], len(tree_roots))
    return transformed(found, TRANSFORMS[post_transform])


def _member_sets(values: Sequence[float]) -> list[list[float]]:
    found: list[list[float]] = [[]]
    for v in values:
        if v != v:
            found.append([])
        else:
            found[-1].append(v)
    return found if found[-1] else found[:-1]


# --- linear models ----------------------------------------------------------------------------------------------------


@rule("LinearRegressor", domain=ML, closed=True)
def linear_regressor(x: Any, *, coefficients: Sequence[float], intercepts: Sequence[float] | None = None,
                     post_transform: str = "NONE", targets: int = 1) -> Any:
    x = _matrix(x)
    weight = tensor(list(coefficients), dtype=x.dtype).reshape(targets, -1)
    bias = tensor(list(intercepts), dtype=x.dtype) if intercepts else None
    return transformed(aten.linear(x, weight, bias), post_transform)


@rule("LinearClassifier", domain=ML, closed=True)
def linear_classifier(x: Any, *, classlabels_ints: Sequence[int] | None = None,
                      classlabels_strings: Sequence[str] | None = None, coefficients: Sequence[float],
                      intercepts: Sequence[float] | None = None, multi_class: int = 0, post_transform: str = "NONE",
                      count: int) -> tuple:
    x = _matrix(x)
    labels = classlabels_strings or classlabels_ints or []
    rows = len(coefficients) // x.shape[1]
    weight = tensor(list(coefficients), dtype=x.dtype).reshape(rows, -1)
    scores = aten.linear(x, weight, tensor(list(intercepts), dtype=x.dtype) if intercepts else None)
    if rows == 1 and len(labels) == 2:
        return _binary(scores, labels, post_transform, False)
    return _labelled(aten.argmax(scores, 1), labels), transformed(scores, post_transform)


def _kernel(x: Any, y: Any, kind: str, params: Sequence[float] | None) -> Any:
    gamma, shift, degree = [*(params or [1.0, 0.0, 3.0]), 0.0, 0.0, 0.0][:3]
    if kind == "RBF":
        square = aten.sum(aten.pow(aten.unsqueeze(x, 1) - aten.unsqueeze(y, 0), 2), [2])
        return aten.exp(aten.mul(square, -gamma))
    product = aten.matmul(x, aten.t(y))
    if kind == "LINEAR":
        return product
    inner = aten.add(aten.mul(product, gamma), shift)
    if kind == "POLY":
        return aten.pow(inner, degree)
    if kind == "SIGMOID":
        return aten.tanh(inner)
    raise ValueError(f"SVM: kernel_type {kind!r} is not known")


@rule("SVMRegressor", domain=ML, closed=True)
def svm_regressor(x: Any, *, coefficients: Sequence[float], kernel_params: Sequence[float] | None = None,
                  kernel_type: str = "LINEAR", n_supports: int = 0, one_class: int = 0, post_transform: str = "NONE",
                  rho: Sequence[float], support_vectors: Sequence[float] | None = None) -> Any:
    x = _matrix(x)
    weights = tensor(list(coefficients), dtype=x.dtype)
    if n_supports:
        vectors = tensor(list(support_vectors or []), dtype=x.dtype).reshape(n_supports, -1)
        found = aten.matmul(_kernel(x, vectors, kernel_type, kernel_params), weights)
    else:
        found = aten.matmul(x, weights)
    found = aten.add(found, rho[0]).reshape(-1, 1)
    if one_class:
        found = aten.where(aten.gt(found, 0), 1.0, -1.0).to(x.dtype)
    return transformed(found, post_transform)


@rule("SVMClassifier", domain=ML, closed=True)
def svm_classifier(x: Any, *, classlabels_ints: Sequence[int] | None = None,
                   classlabels_strings: Sequence[str] | None = None, coefficients: Sequence[float],
                   kernel_params: Sequence[float] | None = None, kernel_type: str = "LINEAR",
                   post_transform: str = "NONE", prob_a: Sequence[float] | None = None,
                   prob_b: Sequence[float] | None = None, rho: Sequence[float],
                   support_vectors: Sequence[float] | None = None, vectors_per_class: Sequence[int] | None = None,
                   count: int) -> tuple:
    x = _matrix(x)
    labels = classlabels_strings or classlabels_ints or []
    weights = tensor(list(coefficients), dtype=x.dtype)
    supports = sum(vectors_per_class or ())
    if not supports:                                 # a plane for each class, at one distance
        scores = aten.add(aten.linear(x, weights.reshape(max(len(labels), 1), -1)), rho[0])
        return _labelled(aten.argmax(scores, 1), labels), transformed(scores, post_transform)
    vectors = tensor(list(support_vectors or []), dtype=x.dtype).reshape(supports, -1)
    near = _kernel(x, vectors, kernel_type, kernel_params)
    margins, votes = _duels(near, weights.reshape(-1, supports), list(vectors_per_class or ()), rho)
    places = _labelled(aten.argmax(votes, 1), labels)
    if prob_a:
        shares = aten.sigmoid(aten.neg(aten.add(aten.mul(margins, tensor(list(prob_a), dtype=x.dtype)),
                                                tensor(list(prob_b or []), dtype=x.dtype))))
        return places, transformed(_coupled(aten.clamp(shares, 1e-7, 1 - 1e-7), votes.shape[1]), post_transform)
    if margins.shape[1] == 1 and post_transform != "PROBIT":
        margins = aten.cat([aten.neg(margins), margins], 1)
    return places, transformed(margins, post_transform)


def _duels(near: Any, weights: Any, sizes: Sequence[int], rho: Sequence[float]) -> tuple[Any, Any]:
    """The margin of each pair of classes, over 0 for the first of them, and how many pairs each class wins."""
    starts = [sum(sizes[:k]) for k in range(len(sizes))]
    margins, votes = [], [aten.zeros((near.shape[0],), dtype=near.dtype) for _ in sizes]
    for first in range(len(sizes)):
        for second in range(first + 1, len(sizes)):
            own = slice(starts[first], starts[first] + sizes[first])
            other = slice(starts[second], starts[second] + sizes[second])
            margin = aten.add(aten.matmul(near[:, own], weights[second - 1, own]) + aten.matmul(
                near[:, other], weights[first, other]), rho[len(margins)])
            wins = aten.gt(margin, 0)
            votes[first] = votes[first] + wins
            votes[second] = votes[second] + aten.logical_not(wins)
            margins.append(margin)
    return aten.stack(margins, 1), aten.stack(votes, 1)


def _coupled(shares: Any, classes: int) -> Any:
    """Probabilities of classes from those of pairs, by minimizing sum (r_ji p_i - r_ij p_j)^2 one class at a time, as
    far as libsvm goes (Wu, Lin, Weng 2004, the second method)."""
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    won = aten.zeros((shares.shape[0], classes, classes), dtype=shares.dtype)
    for k, (i, j) in enumerate(pairs):
        won[:, i, j], won[:, j, i] = shares[:, k], 1 - shares[:, k]
    lost = aten.transpose(won, 1, 2)
    form = aten.add(aten.neg(aten.mul(lost, won)), aten.diag_embed(aten.sum(aten.mul(lost, lost), [2])))
    found = aten.full((shares.shape[0], classes), 1 / classes, dtype=shares.dtype)
    is_done = aten.zeros((shares.shape[0], 1), dtype=_C.bool)
    for _ in range(max(100, classes)):
        slope = aten.reshape(aten.matmul(form, aten.unsqueeze(found, 2)), found.shape)
        height = aten.sum(aten.mul(found, slope), [1], True)
        is_done = aten.logical_or(is_done, aten.lt(aten.amax(aten.abs(slope - height), [1], True), 0.005 / classes))
        if bool(is_done.all()):
            break
        nearer = found
        for k in range(classes):
            own = form[:, k, k].unsqueeze(1)
            step = aten.div(height - slope[:, k : k + 1], own)
            height = aten.div(height + step * (step * own + 2 * slope[:, k : k + 1]), aten.pow(1 + step, 2))
            slope = aten.div(slope + step * form[:, k], 1 + step)
            moved = aten.mul(step, aten.eq(aten.arange(classes), k))
            nearer = aten.div(nearer + moved, 1 + step)
        found = aten.where(is_done, found, nearer)
    return found


# --- scaling and encoding ---------------------------------------------------------------------------------------------


@rule("Scaler", domain=ML, closed=True)
def scaler(x: Any, *, offset: Sequence[float], scale: Sequence[float]) -> Any:
    wide = x if x.dtype.is_floating_point else x.to(_C.float32)
    return ((wide - tensor(list(offset), dtype=wide.dtype)) * tensor(list(scale), dtype=wide.dtype)).to(_C.float32)


@rule("Normalizer", domain=ML, closed=True)
def normalizer(x: Any, *, norm: str = "MAX") -> Any:
    x = x if x.dtype.is_floating_point else x.to(_C.float32)
    if norm == "L2":
        size = aten.sqrt(aten.sum(aten.mul(x, x), [-1], True))
    elif norm == "L1":
        size = aten.sum(aten.abs(x), [-1], True)
    elif norm == "MAX":
        size = aten.amax(aten.abs(x), [-1], True)
    else:
        raise ValueError(f"Normalizer: norm should be 'MAX', 'L1' or 'L2', got {norm!r}")
    return aten.where(aten.eq(size, 0), x, aten.div(x, size)).to(_C.float32)


@rule("Binarizer", domain=ML, closed=True)
def binarizer(x: Any, *, threshold: float = 0.0) -> Any:
    return aten.gt(x, threshold).to(x.dtype)


@rule("Imputer", domain=ML, closed=True)
def imputer(x: Any, *, imputed_value_floats: Sequence[float] | None = None,
            imputed_value_int64s: Sequence[int] | None = None,
            replaced_value_float: float = 0.0, replaced_value_int64: int = 0) -> Any:
    is_float = x.dtype.is_floating_point
    given = tensor(list((imputed_value_floats if is_float else imputed_value_int64s) or [0]), dtype=x.dtype)
    wanted = replaced_value_float if is_float else replaced_value_int64
    return aten.where(aten.isnan(x) if wanted != wanted else aten.eq(x, wanted), given, x)


@rule("ArrayFeatureExtractor", domain=ML, closed=(1,))
def array_feature_extractor(x: Any, places: Any) -> Any:
    flat = aten.reshape(places, (-1,)).to(_C.int64)
    if not isinstance(x, _C.Tensor):                 # words
        found = x[..., flat.numpy()]
        return found.reshape(1, -1) if x.ndim == 1 else found
    found = aten.index_select(x, x.ndim - 1, flat)
    return aten.reshape(found, (1, -1)) if x.ndim == 1 else found


@rule("FeatureVectorizer", domain=ML, closed=True)
def feature_vectorizer(*parts: Any, inputdimensions: Sequence[int] | None = None) -> Any:
    return aten.cat([p.to(_C.float32).reshape(p.shape[0], -1) for p in parts], 1)


@rule("OneHotEncoder", domain=ML, closed=True)
def one_hot_encoder(x: Any, *, cats_int64s: Sequence[int] | None = None, cats_strings: Sequence[str] | None = None,
                    zeros: int = 1) -> Any:
    names = list(cats_strings or cats_int64s or [])
    flat = x.reshape(-1).tolist()
    unknown = [v for v in flat if v not in names]
    if unknown and not zeros:
        raise ValueError(f"OneHotEncoder: {unknown[0]!r} is not among the categories {names}")
    rows = [[1.0 if v == n else 0.0 for n in names] for v in flat]
    return tensor(rows, dtype=_C.float32).reshape(*x.shape, len(names))


def _looked_up(x: Any, table: dict[Any, Any], default: Any) -> Any:
    import numpy  # noqa: PLC0415

    flat = x.reshape(-1).tolist()
    missing = next((v for k, v in table.items() if k != k), None)          # NaN equals nothing, itself included
    found = [missing if v != v and missing is not None else table.get(v, default) for v in flat]
    if isinstance(default, str):
        array = numpy.empty(len(found), object)
        array[:] = found
        return array.reshape(tuple(x.shape))
    return found


@rule("LabelEncoder", domain=ML, closed=True)
def label_encoder(x: Any, *, default_float: float = -0.0, default_int64: int = -1, default_string: str = "_Unused",
                  default_tensor: Any = None, keys_floats: Any = None, keys_int64s: Any = None,
                  keys_strings: Any = None,
                  keys_tensor: Any = None, values_floats: Any = None, values_int64s: Any = None,
                  values_strings: Any = None, values_tensor: Any = None, classes_strings: Any = None) -> Any:
    if classes_strings is not None:                  # version 1: names and their places, either way
        names = list(classes_strings)
        if isinstance(x, _C.Tensor):
            return _looked_up(x, dict(enumerate(names)), default_string)
        found = _looked_up(x, {n: k for k, n in enumerate(names)}, default_int64)
        return tensor(found, dtype=_C.int64).reshape(tuple(x.shape))
    if all(v is None for v in (keys_floats, keys_int64s, keys_strings, keys_tensor)) or all(
            v is None for v in (values_floats, values_int64s, values_strings, values_tensor)):
        raise ValueError("LabelEncoder: expected one of keys_* and one of values_*, got none")
    keys = next(k for k in (keys_floats, keys_int64s, keys_strings, keys_tensor) if k is not None)
    values = next(v for v in (values_floats, values_int64s, values_strings, values_tensor) if v is not None)
    keys, plain = _listed(keys), _listed(values)
    if values_strings is not None or isinstance(plain[0], str):
        default = default_string if default_tensor is None else _listed(default_tensor)[0]
    elif default_tensor is not None:
        default = _listed(default_tensor)[0]
    else:
        default = default_float if isinstance(plain[0], float) else default_int64
    found = _looked_up(x, dict(zip(keys, plain, strict=True)), default)
    if isinstance(default, str):
        return found
    dtype = values_tensor.dtype if values_tensor is not None else _C.float32 if isinstance(default, float) else _C.int64
    return tensor(found, dtype=dtype).reshape(tuple(x.shape))


def _listed(values: Any) -> list[Any]:
    return values.reshape(-1).tolist() if hasattr(values, "reshape") else list(values)


@rule("CategoryMapper", domain=ML, closed=True)
def category_mapper(x: Any, *, cats_int64s: Sequence[int], cats_strings: Sequence[str], default_int64: int = -1,
                    default_string: str = "_Unused") -> Any:
    if isinstance(x, _C.Tensor):
        return _looked_up(x, dict(zip(cats_int64s, cats_strings, strict=True)), default_string)
    found = _looked_up(x, dict(zip(cats_strings, cats_int64s, strict=True)), default_int64)
    return tensor(found, dtype=_C.int64).reshape(tuple(x.shape))


@rule("ZipMap", domain=ML, closed=True)
def zip_map(x: Any, *, classlabels_int64s: Sequence[int] | None = None, classlabels_strings: Sequence[str] | None = None
            ) -> list:
    names = list(classlabels_strings or classlabels_int64s or [])
    return [dict(zip(names, row, strict=True)) for row in x.tolist()]
