"""PyTorch's former names of optimizers with `foreach=True`."""

from functools import partialmethod as _partialmethod

from .. import adadelta, adagrad, adam, adamax, adamw, asgd, nadam, radam, rmsprop, rprop, sgd


def partialclass(cls: type, *args: object, **kwargs: object) -> type:
    """`cls` with arguments of its constructor given."""
    return type("NewCls", (cls,), {"__init__": _partialmethod(cls.__init__, *args, **kwargs)})


Adam = partialclass(adam.Adam, foreach=True)
AdamW = partialclass(adamw.AdamW, foreach=True)
NAdam = partialclass(nadam.NAdam, foreach=True)
SGD = partialclass(sgd.SGD, foreach=True)
RAdam = partialclass(radam.RAdam, foreach=True)
RMSprop = partialclass(rmsprop.RMSprop, foreach=True)
Rprop = partialclass(rprop.Rprop, foreach=True)
ASGD = partialclass(asgd.ASGD, foreach=True)
Adamax = partialclass(adamax.Adamax, foreach=True)
Adadelta = partialclass(adadelta.Adadelta, foreach=True)
Adagrad = partialclass(adagrad.Adagrad, foreach=True)
