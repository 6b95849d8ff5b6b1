from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from graphlatent.data.readers.npz import read_npz
from graphlatent.errors import InputError


def parts(prefix, matrix):
    csr = sp.csr_matrix(matrix)
    return {
        f"{prefix}_data": csr.data,
        f"{prefix}_indices": csr.indices,
        f"{prefix}_indptr": csr.indptr,
        f"{prefix}_shape": csr.shape,
    }


ADJACENCY = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_counts_stay_counts_and_sparse_stays_sparse(tmp_path):
    features = np.zeros((3, 10))
    features[0, 3], features[2, 9] = 4, 1
    path = save(
        tmp_path / "g.npz",
        **parts("adj", ADJACENCY),
        **parts("attr", features),
        labels=np.array([2, 0, 1]),
    )
    raw = read_npz(path)
    assert raw.edge_index.tolist() == [[0, 1], [1, 2]]
    assert raw.edge_weight is None
    assert sp.issparse(raw.x)
    assert np.array_equal(raw.x.toarray(), features)
    assert raw.y.tolist() == [2, 0, 1]
    assert (raw.num_nodes, raw.name) == (3, "g.npz")
    binary = read_npz(path, binarize=True)
    assert np.array_equal(binary.x.toarray(), features > 0)


@pytest.mark.parametrize("filled", [0.25, 0.5])
def test_dense_features_become_dense(tmp_path, filled):
    features = np.zeros((3, 4))
    features[:, : int(4 * filled)] = 2
    raw = read_npz(save(tmp_path / "g.npz", **parts("adj", ADJACENCY), **parts("attr", features)))
    assert sp.issparse(raw.x) == (filled == 0.25)
    assert raw.y is None


def test_attr_matrix_weights_and_no_features(tmp_path):
    raw = read_npz(
        save(tmp_path / "a.npz", **parts("adj", 2 * ADJACENCY), attr_matrix=np.full((3, 2), 3.0)),
        binarize=True,
    )
    assert raw.x.tolist() == [[1, 1]] * 3
    assert raw.edge_weight.tolist() == [2, 2]
    assert read_npz(save(tmp_path / "b.npz", **parts("adj", ADJACENCY))).x is None


def test_no_edges_and_stored_zeros(tmp_path):
    raw = read_npz(save(tmp_path / "a.npz", **parts("adj", np.zeros((2, 2)))))
    assert raw.edge_index.shape == (2, 0)
    stored_zero = {**parts("adj", ADJACENCY), "adj_data": np.array([0.0, 1.0])}
    assert read_npz(save(tmp_path / "b.npz", **stored_zero)).edge_index.tolist() == [[1], [2]]


def test_files_of_another_kind(tmp_path):
    good = parts("adj", ADJACENCY)
    with pytest.raises(InputError, match=r"There is no file .*none.npz"):
        read_npz(tmp_path / "none.npz")
    with pytest.raises(
        InputError, match=r"is no gnn-benchmark .npz file: it needs adj_data, .* It holds x, y"
    ):
        read_npz(save(tmp_path / "other.npz", x=np.ones(2), y=np.ones(2)))
    with pytest.raises(
        InputError,
        match="attr_indices, attr_indptr, attr_shape is missing beside the other parts of 'attr'",
    ):
        read_npz(save(tmp_path / "part.npz", **good, attr_data=np.ones(2)))
    with pytest.raises(InputError, match=r"the adjacency must be square. Got shape \(3, 2\)"):
        read_npz(save(tmp_path / "wide.npz", **parts("adj", ADJACENCY[:, :2])))


@pytest.mark.parametrize(
    "changes",
    [
        {"adj_indices": np.array([1, 99])},
        {"attr_indices": np.array([0, 1, 99])},  # SciPy itself would write outside its memory
        {"adj_indptr": np.array([0, 1])},
        {"adj_shape": np.array([3])},
        {"adj_data": np.array([{}, {}], dtype=object)},
    ],
)
def test_damaged_contents(tmp_path, changes):
    arrays = {**parts("adj", ADJACENCY), **parts("attr", np.eye(3, 9)), **changes}
    with pytest.raises(
        InputError, match=r"g.npz cannot be read as a gnn-benchmark .npz file. The reader says: "
    ):
        read_npz(save(tmp_path / "g.npz", **arrays))


@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.9])
def test_truncated_files(tmp_path, keep):
    path = save(tmp_path / "g.npz", **parts("adj", ADJACENCY))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(keep * len(whole)) if keep < 1 else keep])
    with pytest.raises(InputError, match=r"g.npz cannot be read as a gnn-benchmark .npz file"):
        read_npz(path)


def test_not_npz_at_all(tmp_path):
    (tmp_path / "g.npz").write_text("hello")
    with pytest.raises(InputError, match="cannot be read as a gnn-benchmark"):
        read_npz(tmp_path / "g.npz")
    np.save(tmp_path / "h.npy", np.ones(3))
    (tmp_path / "h.npy").rename(tmp_path / "h.npz")
    with pytest.raises(InputError, match="cannot be read as a gnn-benchmark"):
        read_npz(tmp_path / "h.npz")
