"""`torch.distributed.nn.api.remote_module`: a module on another worker, called as if it were here."""

from __future__ import annotations

from typing import Any, NoReturn

from ....futures import Future
from ....nn import Module
from ... import rpc
from ...rpc import messages

__all__ = ["RemoteModule"]


def _made(module_cls: type, args: tuple, kwargs: dict, device: str) -> Module:
    module = module_cls(*args, **kwargs)
    if not isinstance(module, Module):
        raise ValueError(f"RemoteModule: {module_cls.__name__}(*args, **kwargs) must give a Module, got "
                         f"{type(module).__name__}")
    return module.to(device)


def _parameters(module: Any, recurse: bool) -> list[Any]:
    return [rpc.RRef(parameter) for parameter in module.local_value().parameters(recurse)]


def _forward(module: Any, device: str, args: tuple, kwargs: dict) -> Any:
    return module.local_value()(*args, **kwargs)


def _train(module: Any, mode: bool) -> None:
    module.local_value().train(mode)


def _place(remote_device: Any) -> tuple[str, str]:
    """("worker1", "cpu") of "worker1/cpu", "worker1" or "rank:1/cpu"."""
    text = str(remote_device)
    worker, slash, device = text.partition("/")
    if text.startswith("rank:"):
        number = worker.removeprefix("rank:")
        if not number.isdigit():
            raise ValueError(f"RemoteModule: expected 'rank:N/device', got {text!r}")
        worker = rpc.api.State.agent.info(int(number)).name
    if not worker or (slash and not device):
        raise ValueError(f"RemoteModule: expected 'worker/device', got {text!r}")
    return worker, device or "cpu"


class RemoteModule(Module):
    """`module_cls(*args, **kwargs)` made on a worker ("worker1/cpu"). `forward` calls it there and waits,
    `forward_async` gives a future; `remote_parameters` are references to its parameters."""

    def __init__(
        self, remote_device: Any, module_cls: type[Module], args: tuple | None = None, kwargs: dict | None = None,
        _module_interface_cls: Any = None,
    ) -> None:
        super().__init__()
        if _module_interface_cls is not None:
            raise NotImplementedError("RemoteModule: _module_interface_cls is for TorchScript, which is not supported")
        self.on, self.device = _place(remote_device)
        if self.device != "cpu":
            raise NotImplementedError(f"RemoteModule: calls carry tensors of the CPU only, got {remote_device!r}")
        self.module_rref = rpc.remote(self.on, _made, (module_cls, tuple(args or ()), dict(kwargs or {}), self.device))

    @staticmethod
    def init_from_module_rref(remote_device: Any, module_rref: Any, _module_interface_cls: Any = None) -> RemoteModule:
        """One for a module that is there already."""
        result = RemoteModule.__new__(RemoteModule)
        Module.__init__(result)
        result.on, result.device = _place(remote_device)
        result.module_rref = module_rref
        return result

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module where it is, and wait."""
        return rpc.rpc_sync(self.on, _forward, (self.module_rref, self.device, args, kwargs))

    def forward_async(self, *args: Any, **kwargs: Any) -> Future:
        """Call the module where it is: a future of the result."""
        return rpc.rpc_async(self.on, _forward, (self.module_rref, self.device, args, kwargs))

    def remote_parameters(self, recurse: bool = True) -> list[Any]:
        """References to the parameters, as a `DistributedOptimizer` takes them."""
        return rpc.rpc_sync(self.on, _parameters, (self.module_rref, recurse))

    def get_module_rref(self) -> Any:
        """The reference to the module."""
        return self.module_rref

    def train(self, mode: bool = True) -> RemoteModule:
        """Set the module's mode where it is."""
        rpc.rpc_sync(self.on, _train, (self.module_rref, mode))
        return self

    def eval(self) -> RemoteModule:
        """As `train(False)`."""
        return self.train(False)

    def __reduce__(self) -> NoReturn:      # type: ignore[override]
        raise RuntimeError("a RemoteModule can be pickled as a part of a call to another worker only")


def _refuse(name: str) -> Any:
    def refuse(self: RemoteModule, *args: Any, **kwargs: Any) -> NoReturn:
        raise ValueError(f"Method ``{name}`` not supported for RemoteModule: what it would return is on another worker")

    refuse.__name__ = name
    return refuse


for _name in (
    "register_buffer", "register_parameter", "add_module", "apply", "cuda", "xpu", "cpu", "type", "float", "double",
    "half", "bfloat16", "to", "register_full_backward_hook", "register_backward_hook", "register_forward_pre_hook",
    "register_forward_hook", "state_dict", "load_state_dict", "parameters", "named_parameters", "buffers",
    "named_buffers", "children", "named_children", "modules", "named_modules", "requires_grad_", "zero_grad",
    "share_memory",
):
    setattr(RemoteModule, _name, _refuse(_name))


def _rebuilt(on: str, device: str, module_rref: Any) -> RemoteModule:
    return RemoteModule.init_from_module_rref(f"{on}/{device}", module_rref)


messages.register_reducer(RemoteModule, lambda module: (_rebuilt, (module.on, module.device, module.module_rref)))
