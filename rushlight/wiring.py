"""Who provides what lower layers need from upper ones: registration downwards, in one table.

Enters: nothing. Leaves: `late`'s table of roles, filled. A lower layer asks for a role with `late.provided`, and the
file that plays it is imported then. Nothing is imported here, so that start-up pays for a few strings only.
"""

from __future__ import annotations

from .base import late

late.provide({
    # role: `file:name`
    "own library": "cxx.runtime:open_own",                           # ops.load_library
    "layers in C++": "cxx_layers.text",                              # what C++ programs are compiled against
    "load": "serialization:load",                                    # storages that PyTorch pickled by themselves
    "save": "serialization:save",                                    # lazy.save
    "as_nested_tensor": "nested:as_nested_tensor",                   # pickled nested tensors
    "Parameter": "nn.parameter:Parameter",                           # pickled parameters
    "is_compiling": "compiler:is_compiling",                         # what libraries ask of _utils
    "quantized call": "definitions.quantized:call",                  # ops with quantized tensors
    "quantized out": "definitions.quantized:call_out",               # and such that write into quantized tensors
    "quantized ops": "quantized.namespace:open_namespace",           # ops.quantized and its like
    "qconfig mappings": "ao.quantization.qconfig_mapping",           # qconfigs as dictionaries, by an older name
    "packed classes": "quantized.packed:classes",                    # torch.classes
    "higher-order ops": "_higher_order_ops.core:REGISTRY",           # ops.higher_order
    "autocast region": "amp.autocast_mode:autocast",                 # ops.higher_order.wrap_with_autocast
    "load_library": "library.binaries:load_library",                 # ops.load_library, classes.load_library
    "from_file": "torch_names.rare:from_file",                       # extensions that read files
    "functional form": "library.functional_forms:call",              # users' ops that write, in functional graphs
    "script text": "script.text.graph_writer",                       # graphs of scripts, printed
    "script function": "jit._script:ScriptFunction",                 # functions made of graphs
    "jit core": "jit._core_names",                                   # torch._C's passes over scripted modules
    "script core": "script.core_names",                              # torch._C's graphs, types and passes
    "script classes": "script.user_classes:type_of_class",           # classes that annotations of scripts name
    "known script class": "script.user_classes:known_type",          # instances given to running scripts
    "script value": "jit._classes:script_value",                     # what jit.script makes of instances, lists, dicts
    "tracing state": "script.trace.state:current",                   # torch._C._get_tracing_state
    "CompilationUnit": "jit._classes:CompilationUnit",               # jit's names
    "freeze": "jit._freeze:freeze",                                  # names of jit that need the compiler
    "optimize_for_inference": "jit._freeze:optimize_for_inference",
    "run_frozen_optimizations": "jit._freeze:run_frozen_optimizations",
    "RecursiveScriptClass": "jit._classes:RecursiveScriptClass",
    "script face": "jit._classes:face",                              # objects of scripts without a Python class
    "script modules": "jit._recursive",                              # what jit.script makes of modules
    "script save": "jit:save",                                       # archives of what was scripted
    "is tracing": "jit._trace:is_tracing",
    "script module": "jit._recursive:face_of",                       # self of Python methods of scripted modules
    "draw": "fx.passes.drawing:draw",                                # utils.draw
    "graph page": "fx.passes.drawing:graph_page",                    # what a notebook shows of a GraphModule
    "compile calls": "compiler.driver:compile_calls",                # Module.compile
    "compile_callable": "compiler.driver:compile_callable",          # pickled compiled functions
    "onnx backend": "onnx.compiled",                                 # the backend "onnxrt"
    "xla backend": "xla.backend",                                    # the backend "openxla"
    "device program": "planners.factors.lapack_device:DeviceProgram",              # LAPACK's calls on another device
    "cuda": "cuda",                                                  # what Triton's kernels would run on
    "cuda graphs": "cuda.graphs",                                    # compiled graphs that are replayed
    "_BatchNorm": "nn.modules.batchnorm:_BatchNorm",                 # func.replace_all_batch_norm_modules_
    "module hooks": "nn.modules.module",                             # utils.module_tracker
    "BackwardHook": "nn.modules.backward_hooks:BackwardHook",        # PyTorch has it in utils.hooks
    # the table of devices asks when "cuda" is first named
    "cuda device": "devices.cuda:find",
    "lazy device": "lazy.device:find",
    "xla device": "xla.unit:find",
    "source of a kernel": "codegen.stored.cache:source_of_handle",
    "why no cuda": "devices.cuda:reason",
    "accelerator": "accelerator",                                    # DataLoader pins memory for it
    "worker loop": "utils.data._utils.loop",                         # PyTorch has it in utils.data._utils.worker
    "DistributedDataParallel": "distributed.data_parallel:DistributedDataParallel",     # nn.parallel has its name
    "synced_batch_norm": "distributed.batch_norm:synced_batch_norm",     # SyncBatchNorm in training
    "DistributedDataParallel types": "distributed.data_parallel:_MixedPrecision",
    "aten graphs": "export.aten_graphs:as_aten",                     # make_fx, and compilers given to AOTAutograd
    "aten view": "aten_view.calls:call",                             # what programs' modes and subclasses see
    "aten call": "aten_view.calls:exact",
    "private call": "aten_view.private_use.kernels:run",                 # ops on PyTorch's device of others
    "below autograd": "aten_view.private_use.entry:below_autograd",
    "PackedSequence": "nn.utils.rnn:PackedSequence",                 # which gets methods of devices of others
    "renamed activities": "profiler.activities:rename_private",      # devices of others, as profilers show them
    "private method": "aten_view.private_use.forms:call",
    "private out": "aten_view.private_use.kernels:run_out",
    "export": "export:export",                                       # pipelines are cut from traced models
    "compiled packages": "export.pt2_archive._package",              # _inductor.aoti_compile_and_package
    "torch served": "compat:install",                                 # workers on Ray that import torch
    # modules that are observed and converted within the call that makes them
    "quantization.prepare": "ao.quantization.quantize:prepare",
    "quantization.prepare_qat": "ao.quantization.quantize:prepare_qat",
    "quantization.convert": "ao.quantization.quantize:convert",
    "logs": "_logging._internal",                                    # texts of the compile stack, where asked for
    "dynamo settings": "dynamo.settings",                            # where debug folders are
    "FakeTensor": "fake:FakeTensor",                                 # tensors without memory, for utils.viz._cycles
    "c10d ops": "distributed._c10d_ops:OPS",                         # ops.c10d
    "distributed": "distributed",                                    # samplers and loaders of several processes
    # nodes of the graph as PyTorch has them
    "dress": "aten.graph.nodes:dress",
    "shows_own": "aten.graph.nodes:shows_own",
    "saved_attribute": "aten.graph.saved:saved_attribute",
    "autograd.profiler": "autograd.profiler",                        # autograd has what is of the profiler in it
    "autograd.profiler_util": "autograd.profiler_util",
    "profiler core": "profiler.core_view",                           # torch._C._profiler, torch._C._autograd
    # what a profiler calls the program's calls
    "call_name": "profiler.names:call_name",
    "call_inputs": "profiler.names:call_inputs",
    "frame_paths": "profiler.stacks:frame_paths",
    "kernel_name": "profiler.names:kernel_name",
    # PyTorch has it in autograd.graph
    "allow_mutation_on_saved_tensors": "dispatch.saved_mutation:allow_mutation_on_saved_tensors",
})
