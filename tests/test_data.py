"""Datasets, samplers, collation and the loader, with PyTorch's rules; against it where it is installed."""

from collections import Counter, OrderedDict, namedtuple
from itertools import chain

import numpy as np
import pytest

import tapecast as tc
from tapecast.utils import data
from tapecast.utils.data import DataLoader, TensorDataset, default_collate, default_convert

Point = namedtuple("Point", ["x", "y"])


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="PyTorch is the oracle of this test")


class Squares(data.Dataset):
    def __init__(self, n: int):
        self.n = n

    def __getitem__(self, i):
        if not 0 <= i < self.n:
            raise IndexError(i)
        return i * i

    def __len__(self):
        return self.n


class Stream(data.IterableDataset):
    def __init__(self, n: int):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))


class SizedStream(Stream):
    def __len__(self):
        return self.n


def plain(value):
    """Tensors of either library as (dtype, nested list); containers as they are, with their type's name."""
    if hasattr(value, "detach"):
        return str(value.dtype).rpartition(".")[2], value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, {key: plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value).__name__, [plain(v) for v in value]
    return value


def numbers(loader) -> list:
    return [batch.tolist() for batch in loader]


# ---- datasets -----------------------------------------------------------------------------------------------


def test_tensor_dataset():
    d = TensorDataset(tc.arange(6).reshape(3, 2), tc.tensor([1.0, 2.0, 3.0]))
    x, y = d[1]
    assert len(d) == 3 and x.tolist() == [2, 3] and y.item() == 2
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        TensorDataset(tc.zeros(2), tc.zeros(3))


def test_concat_chain_and_stack():
    d = Squares(3) + Squares(2)
    assert isinstance(d, data.ConcatDataset) and [d[i] for i in range(5)] == [0, 1, 4, 0, 1] and d[-1] == 1
    with pytest.raises(ValueError, match="absolute value of index"):
        d[-6]
    with pytest.raises(IndexError, match="index 5 is out of range for a ConcatDataset of 5 samples"):
        d[5]
    assert list(Stream(2) + Stream(3)) == [0, 1, 0, 1, 2]
    with pytest.raises(AssertionError, match="ConcatDataset does not support IterableDataset"):
        data.ConcatDataset([Stream(1)])
    assert data.StackDataset(Squares(3), Squares(3))[2] == (4, 4)
    assert data.StackDataset(a=Squares(3))[2] == {"a": 4} and len(data.StackDataset(a=Squares(3))) == 3
    with pytest.raises(ValueError, match="Size mismatch"):
        data.StackDataset(Squares(3), Squares(2))


def test_subset_and_unimplemented():
    s = data.Subset(Squares(5), [4, 1])
    assert len(s) == 2 and s[0] == 16 and s.__getitems__([1, 0]) == [1, 16]
    with pytest.raises(NotImplementedError, match="should implement __getitem__"):
        data.Dataset()[0]
    with pytest.raises(NotImplementedError, match="should implement __iter__"):
        iter(data.IterableDataset())


@pytest.mark.parametrize(
    ("lengths", "sizes"), [([3, 7], [3, 7]), ([0.3, 0.3, 0.4], [3, 3, 4]), ([0.5, 0.25, 0.25], [6, 2, 2])]
)
def test_random_split_covers_all_and_follows_the_generator(lengths, sizes):
    def split():
        return data.random_split(Squares(10), lengths, generator=tc.Generator().manual_seed(3))

    parts = split()
    assert [len(part) for part in parts] == sizes
    assert sorted(i for part in parts for i in part.indices) == list(range(10))
    assert [part.indices for part in parts] == [part.indices for part in split()]


def test_random_split_checks_its_lengths():
    with pytest.raises(ValueError, match="Sum of input lengths does not equal"):
        data.random_split(Squares(10), [3, 3])
    with pytest.raises(ValueError, match="Fraction at index 0 is not between 0 and 1"):
        data.random_split(Squares(10), [1.5, -0.5])
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        data.random_split(Squares(1), [0.9, 0.1])


# ---- samplers -----------------------------------------------------------------------------------------------


def test_random_sampler():
    g = tc.Generator().manual_seed(5)
    s = data.RandomSampler(range(10), generator=g)
    first, second = list(s), list(s)
    assert sorted(first) == sorted(second) == list(range(10)) and first != second
    assert list(data.RandomSampler(range(10), generator=tc.Generator().manual_seed(5))) == first
    twice = list(data.RandomSampler(range(4), num_samples=6))
    assert len(twice) == 6 and sorted(twice[:4]) == [0, 1, 2, 3]
    drawn = list(data.RandomSampler(range(3), replacement=True, num_samples=50))
    assert len(drawn) == 50 and set(drawn) == {0, 1, 2}


def test_samplers_follow_the_default_generator():
    def order():
        tc.manual_seed(1)
        return list(data.RandomSampler(range(20))), list(data.SubsetRandomSampler(range(20)))

    assert order() == order()


def test_subset_random_sampler():
    s = data.SubsetRandomSampler([5, 7, 9])
    assert sorted(s) == [5, 7, 9] and len(s) == 3


def test_weighted_sampler_draws_by_weight():
    weights = [0.0, 1.0, 3.0]
    g = tc.Generator().manual_seed(0)
    counts = Counter(data.WeightedRandomSampler(weights, 4000, generator=g))
    assert counts[0] == 0 and counts[2] / counts[1] == pytest.approx(3, rel=0.15)
    first = Counter(
        next(iter(data.WeightedRandomSampler(weights, 2, replacement=False, generator=g))) for _ in range(800)
    )
    assert first[0] == 0 and first[2] / first[1] == pytest.approx(3, rel=0.3)
    assert sorted(data.WeightedRandomSampler(weights, 2, replacement=False)) == [1, 2]


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("n", [0, 1, 6, 7])
def test_batch_sampler_equals_the_oracles(torch, n, drop_last):
    ours = data.BatchSampler(data.SequentialSampler(range(n)), 3, drop_last)
    theirs = torch.utils.data.BatchSampler(range(n), 3, drop_last)
    assert list(ours) == list(theirs) and len(ours) == len(theirs)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: data.RandomSampler(range(3), replacement=1), TypeError, "replacement should be a boolean"),
        (lambda: data.RandomSampler([]), ValueError, "num_samples=0"),
        (lambda: data.BatchSampler(range(3), 0, False), ValueError, "batch_size=0"),
        (lambda: data.BatchSampler(range(3), True, False), ValueError, "batch_size=True"),
        (lambda: data.BatchSampler(range(3), 1, 0), ValueError, "drop_last should be a boolean"),
        (lambda: data.WeightedRandomSampler([1.0], 1.5), ValueError, "num_samples=1.5"),
        (lambda: data.WeightedRandomSampler([[1.0]], 1), ValueError, "1d sequence"),
        (lambda: data.WeightedRandomSampler([-1.0], 1), ValueError, "non-negative"),
        (lambda: data.WeightedRandomSampler([1.0, 0.0], 2, False), ValueError, "cannot draw 2 samples"),
    ],
)
def test_wrong_samplers_say_what_is_wrong(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize(("n", "replicas"), [(10, 3), (9, 3), (2, 5), (1, 1)])
def test_distributed_sampler_divides_as_the_oracles_does(torch, n, replicas, drop_last):
    for rank in range(replicas):
        args = (range(n), replicas, rank, False, 0, drop_last)
        ours, theirs = data.DistributedSampler(*args), torch.utils.data.DistributedSampler(*args)
        assert list(ours) == list(theirs) and len(ours) == len(theirs)


def test_distributed_sampler_shuffles_by_seed_and_epoch():
    def parts(epoch, seed=0):
        samplers = [data.DistributedSampler(range(8), 2, rank, seed=seed) for rank in range(2)]
        for sampler in samplers:
            sampler.set_epoch(epoch)
        return [list(sampler) for sampler in samplers]

    assert sorted(chain(*parts(0))) == list(range(8))
    assert parts(0) == parts(0) != parts(1) and parts(0) != parts(0, seed=1)
    with pytest.raises(ValueError, match="Invalid rank 2, rank should be in the interval"):
        data.DistributedSampler(range(8), 2, 2)


# ---- collation ----------------------------------------------------------------------------------------------

SAMPLES = {
    "ints": lambda t: [1, 2],
    "bools": lambda t: [True, False],
    "floats": lambda t: [1.0, 2.5],
    "text": lambda t: ["a", "b"],
    "tensors": lambda t: [t([1.0, 2.0]), t([3.0, 4.0])],
    "arrays": lambda t: [np.zeros((2, 1), np.float32), np.ones((2, 1), np.float32)],
    "scalars": lambda t: [np.float32(1), np.float32(2)],
    "zero-dimensional arrays": lambda t: [np.array(1), np.array(2)],
    "tuples": lambda t: [(1, "a", t([1])), (2, "b", t([2]))],
    "lists": lambda t: [[1, 2.0], [3, 4.0]],
    "named tuples": lambda t: [Point(0, t([1])), Point(1, t([2]))],
    "dicts": lambda t: [{"x": 1, "y": [1.0]}, {"x": 2, "y": [2.0]}],
    "ordered dicts": lambda t: [OrderedDict(b=1, a=2), OrderedDict(b=3, a=4)],
    "ranges": lambda t: [range(2), range(2)],
}


@pytest.mark.parametrize("name", SAMPLES)
def test_collation_equals_the_oracles(torch, name):
    make = SAMPLES[name]
    theirs = torch.utils.data
    assert plain(default_collate(make(tc.tensor))) == plain(theirs.default_collate(make(torch.tensor)))
    assert plain(default_convert(make(tc.tensor))) == plain(theirs.default_convert(make(torch.tensor)))


def test_collation_refuses_what_it_does_not_know():
    with pytest.raises(TypeError, match="must contain tensors, numpy arrays, numbers, dicts or lists; found"):
        default_collate([object()])
    with pytest.raises(TypeError, match="found <U1"):
        default_collate([np.array(["a"])])
    with pytest.raises(RuntimeError, match="of equal size"):
        default_collate([[1], [1, 2]])


# ---- the loader ---------------------------------------------------------------------------------------------


def test_batches_come_in_order():
    loader = DataLoader(Squares(5), batch_size=2)
    assert numbers(loader) == [[0, 1], [4, 9], [16]] and len(loader) == 3
    assert numbers(DataLoader(Squares(5), batch_size=2, drop_last=True)) == [[0, 1], [4, 9]]
    assert numbers(loader) == numbers(loader)


def test_shuffling_covers_all_and_follows_the_generator():
    def epochs():
        loader = DataLoader(Squares(20), 4, shuffle=True, generator=tc.Generator().manual_seed(2))
        return numbers(loader), numbers(loader)

    first, second = epochs()
    assert sorted(chain(*first)) == [i * i for i in range(20)] and first != second
    assert epochs() == (first, second)


@pytest.mark.parametrize("wrap", [lambda d: d, lambda d: data.Subset(d, [3, 1, 0])], ids=["whole", "subset"])
def test_batches_of_tensors_are_what_collation_makes(wrap):
    d = wrap(TensorDataset(tc.arange(8.0).reshape(4, 2), tc.arange(4)))
    fast = list(DataLoader(d, 2))
    slow = list(DataLoader(d, 2, collate_fn=lambda samples: default_collate(samples)))
    assert [plain(batch) for batch in fast] == [plain(batch) for batch in slow]


def test_a_subclass_of_tensor_dataset_keeps_its_samples():
    class Negative(TensorDataset):
        def __getitem__(self, index):
            return tuple(-t for t in super().__getitem__(index))

    (batch,) = DataLoader(Negative(tc.ones(2)), 2)
    assert batch[0].tolist() == [-1, -1]


def test_getitems_fetches_a_batch_at_once():
    class Many(Squares):
        def __getitems__(self, indices):
            return [100 + i for i in indices]

    assert numbers(DataLoader(Many(3), 2)) == [[100, 101], [102]]


def test_samplers_and_batch_samplers():
    assert numbers(DataLoader(Squares(5), 2, sampler=[4, 0, 2])) == [[16, 0], [4]]
    assert numbers(DataLoader(Squares(5), batch_sampler=[[1, 2, 3], [0]])) == [[1, 4, 9], [0]]


def test_without_batches_samples_are_converted():
    assert list(DataLoader(Squares(3), batch_size=None)) == [0, 1, 4]
    (sample,) = DataLoader([np.zeros(2)], batch_size=None)
    assert isinstance(sample, tc.Tensor)
    assert list(DataLoader(Stream(3), batch_size=None, collate_fn=str)) == ["0", "1", "2"]


def test_streams():
    assert numbers(DataLoader(Stream(5), 2)) == [[0, 1], [2, 3], [4]]
    assert numbers(DataLoader(Stream(5), 2, drop_last=True)) == [[0, 1], [2, 3]]
    assert len(DataLoader(SizedStream(5), 2)) == 3
    with pytest.raises(TypeError, match="has no len"):
        len(DataLoader(Stream(5), 2))
    short = SizedStream(2)
    loader = DataLoader(short, batch_size=None)
    assert len(loader) == 2
    short.n = 3
    with pytest.warns(UserWarning, match="was reported to be 2"):
        assert [batch for batch in loader] == [0, 1, 2]  # list() would ask for the length anew


def test_outside_of_workers_there_is_no_worker_info():
    assert data.get_worker_info() is None


ARGUMENTS = {
    "negative workers": dict(num_workers=-1),
    "negative timeout": dict(timeout=-1),
    "prefetch without workers": dict(prefetch_factor=2),
    "persistence without workers": dict(persistent_workers=True),
    "context without workers": dict(multiprocessing_context="fork"),
    "sampler and shuffle": dict(sampler=[0], shuffle=True),
    "batch sampler and size": dict(batch_sampler=[[0]], batch_size=2),
    "batch sampler and shuffle": dict(batch_sampler=[[0]], shuffle=True),
    "batch sampler and drop_last": dict(batch_sampler=[[0]], drop_last=True),
    "no batches and drop_last": dict(batch_size=None, drop_last=True),
    "size zero": dict(batch_size=0),
    "unknown start method": dict(num_workers=1, multiprocessing_context="spoon"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_contradictory_arguments_are_refused_in_the_oracles_words(torch, name):
    def complaint(lib):
        with pytest.raises(ValueError) as error:
            lib.DataLoader([1, 2], **ARGUMENTS[name])
        return " ".join(str(error.value).split())

    ours, theirs = complaint(data), complaint(torch.utils.data)
    assert ours[:40] == theirs[:40]


@pytest.mark.parametrize("option", [{"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}])
def test_streams_take_no_order(option):
    (name,) = option
    with pytest.raises(ValueError, match=f"IterableDataset: expected unspecified {name} option"):
        DataLoader(Stream(3), **option)
