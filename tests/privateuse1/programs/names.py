"""The name: before it is given away, given away, refused a second time; methods made for it; its module."""

import torch
from answers import ask

utils = torch.utils
ask("first name", torch._C._get_privateuse1_backend_name)
ask("a device before", lambda: torch.device("privateuseone:1"))
ask("cuda refused", lambda: utils.rename_privateuse1_backend("cuda"))
ask("cpu refused", lambda: utils.rename_privateuse1_backend("cpu"))
ask("no device yet", lambda: torch.device("foo"))
ask("key by name", lambda: torch._C._dispatch_key_parse("PrivateUse1").name)
ask("key of autograd", lambda: torch._C._dispatch_key_parse("AutogradPrivateUse1").name)
ask("key of autocast", lambda: torch._C._dispatch_key_parse("AutocastPrivateUse1").name)
ask("no such key", lambda: torch._C._dispatch_key_parse("Nobody"))
ask("rename", lambda: utils.rename_privateuse1_backend("foo"))
ask("same name again", lambda: utils.rename_privateuse1_backend("foo"))
ask("another name", lambda: utils.rename_privateuse1_backend("bar"))
ask("cuda again", lambda: utils.rename_privateuse1_backend("cuda"))
ask("the name", torch._C._get_privateuse1_backend_name)
ask("of the module", lambda: utils.backend_registration._privateuse1_backend_name)
ask("device", lambda: [torch.device("foo"), torch.device("foo:2"), torch.device("foo", 1), torch.device("foo:3").index])
ask("its first name", lambda: torch.device("privateuseone"))
ask("device type", lambda: torch._C._autograd.DeviceType.FOO == torch._C._autograd.DeviceType.PrivateUse1)
ask("activity", lambda: torch.profiler.ProfilerActivity.FOO == torch.profiler.ProfilerActivity.PrivateUse1)
ask("device type name", lambda: torch._C._autograd.DeviceType.PrivateUse1.name)
ask("key for device", lambda: torch._C._dispatch_key_for_device("foo"))
ask("no key", lambda: torch._C._dispatch_key_parse("foo"))

# methods
ask("nothing yet", lambda: [hasattr(torch.Tensor, "foo"), hasattr(torch.nn.Module, "foo")])
make = utils.generate_methods_for_privateuse1_backend
ask("modules need tensors", lambda: make(for_tensor=False, for_module=True, for_packed_sequence=False))
ask("sequences need tensors", lambda: make(for_tensor=False, for_module=False, for_packed_sequence=True))
ask("tensors", lambda: make(for_tensor=True, for_module=False, for_packed_sequence=False))
ask("tensors twice", lambda: make(for_tensor=True, for_module=False, for_packed_sequence=False))
ask("the rest", lambda: make(False, True, True, True, [torch.quint8]))
ask("modules twice", lambda: make(False, True, False))
ask("sequences twice", lambda: make(False, False, True))
ask("storages twice", lambda: make(False, False, False, True))
ask("all there", lambda: [hasattr(kind, name) for kind in (
    torch.Tensor, torch.nn.utils.rnn.PackedSequence, torch.UntypedStorage, torch.TypedStorage)
    for name in ("foo", "is_foo")] + [hasattr(torch.nn.Module, "foo")])
x = torch.ones(2)
packed = torch.nn.utils.rnn.pack_sequence([torch.ones(2, 1)])
ask("is_foo", lambda: [x.is_foo, packed.is_foo, x.untyped_storage().is_foo, x.storage().is_foo])
ask("their names", lambda: [torch.Tensor.foo.__name__, torch.Tensor.is_foo.fget.__name__])
ask("elsewhere", lambda: x.foo("cpu"))
ask("unsupported storage", lambda: torch.quantize_per_tensor(x, 1.0, 0, torch.quint8).storage().foo())

# the module


class Module:
    @staticmethod
    def device_count():
        return 3

    @staticmethod
    def current_device():
        return 2


ask("no module", lambda: torch.get_device_module("foo"))
ask("no function", lambda: utils.backend_registration._get_custom_mod_func("device_count"))
ask("register module", lambda: torch._register_device_module("foo", Module))
ask("register again", lambda: torch._register_device_module("foo", Module))
ask("register cuda", lambda: torch._register_device_module("cuda", Module))
ask("register nobody", lambda: torch._register_device_module("nobody", Module))
ask("torch.foo", lambda: [torch.foo is Module, torch.get_device_module("foo") is Module])
ask("by device", lambda: torch.get_device_module(torch.device("foo:1")) is Module)
ask("function", lambda: utils.backend_registration._get_custom_mod_func("device_count")())
ask("function missing", lambda: utils.backend_registration._get_custom_mod_func("nobody"))
ask("function by number", lambda: utils.backend_registration._get_custom_mod_func(3))
ask("unit", lambda: utils.backend_registration._normalization_device("foo"))
ask("unit given", lambda: [utils.backend_registration._normalization_device("foo", d) for d in (1, "foo:1", "foo")])
ask("unit of another", lambda: utils.backend_registration._normalization_device("foo", "cpu"))
ask("autocast without types", lambda: torch.autocast("foo"))
ask("seed is told", lambda: torch.manual_seed(3).initial_seed())
ask("fork without states", lambda: torch.random.fork_rng(device_type="foo").__enter__())
ask("guards are asked", lambda: torch._C._acc.DeviceGuard().type_())
ask("hooks are asked", lambda: torch._C._acc.PrivateUse1Hooks().is_available())
