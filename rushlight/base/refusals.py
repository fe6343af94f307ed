"""The names that exist only to refuse: what PyTorch has and Rushlight has not built, by system,
with the reason each gives.

Enters: nothing; this is the one table. Leaves: stand-ins for the modules that carry such names (`names_of`), the reason
of a name (`reason_of`, which `rushlight check` asks) and all of them (`listed`, from which the documentation is made).
A name leaves the table on the day it works; a test keeps the table and the tree together.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

from .absent import absent


class System(NamedTuple):
    """A part of PyTorch that is missing: why, and which names of which modules belong to it."""

    title: str
    reason: str
    names: dict[str, str]


SYSTEMS = (
    System(
        "TorchScript",
        "TorchScript's own form of programs is not written yet",
        {
            "torch": (
                "AVG AggregationType AliasDb AnyType Argument ArgumentSpec AwaitType BenchmarkConfig "
                "BenchmarkExecutionStats Block BoolType BufferDict CallStack Capsule ClassType Code CompilationUnit "
                "CompleteArgumentSpec ComplexType ConcreteModuleType ConcreteModuleTypeBuilder DeepCopyMemoTable "
                "DeserializationStorageContext DeviceObjType DictType EnumType ErrorReport ExecutionPlan FloatType "
                "FunctionSchema FutureType Gradient Graph GraphExecutorState IODescriptor InferredType IntType "
                "InterfaceType ListType LiteScriptModule LockingLogger LoggerBase ModuleDict Node NoneType NoopLogger "
                "NumberType OperatorInfo OptionalType ParameterDict PyObjectType RRefType SUM ScriptClass "
                "ScriptClassFunction ScriptDict ScriptDictIterator ScriptDictKeyIterator ScriptList "
                "ScriptListIterator ScriptMethod ScriptModuleSerializer ScriptObject ScriptObjectProperty "
                "SerializationStorageContext StaticModule StreamObjType StringType SymBoolType SymIntType TensorType "
                "TracingState TupleType Type UnionType Use Value cpp import_ir_module import_ir_module_from_buffer "
                "merge_type_from_type_comment parse_ir parse_schema parse_type_comment unify_type_list"
            ),
            "torch.jit": "ONNXTracedModule",
        },
    ),
    System(
        "TorchScript",
        "TorchScript's graphs are not written yet",
        {
            "torch._C": (
                "AnyType Argument Block BoolType CompilationUnit DictType FloatType FunctionSchema Graph IntType "
                "ListType NoneType OptionalType ScriptFunction ScriptModule ScriptObject StringType TensorType "
                "TupleType Type Value"
            ),
        },
    ),
    System(
        "TorchScript",
        "TorchScript's compiler is not written yet",
        {
            "torch.jit": "CompilationUnit RecursiveScriptClass ScriptFunction",
        },
    ),
    System(
        "TorchScript",
        "TorchScript files with example inputs are not made here",
        {
            "torch.utils.bundled_inputs": (
                "InflatableArg augment_many_model_functions_with_bundled_inputs augment_model_with_bundled_inputs "
                "bundle_inputs bundle_large_tensor bundle_randn"
            ),
        },
    ),
    System(
        "TorchScript",
        "models for phones are not made from TorchScript here",
        {
            "torch.utils.mobile_optimizer": (
                "LintCode MobileOptimizerType generate_mobile_module_lints optimize_for_mobile"
            ),
        },
    ),
    System(
        "Export",
        "it belongs to PyTorch's older ONNX exporters; use onnx.export",
        {
            "torch.onnx.symbolic_helper": "_get_tensor_sizes _is_none _maybe_get_const _unimplemented quantized_args",
            "torch.onnx": (
                "ExportOptions ExportableModule InputObserver JitScalarType dynamo_export "
                "select_model_mode_for_export symbolic_opset10 symbolic_opset11 symbolic_opset12 symbolic_opset13 "
                "symbolic_opset14 symbolic_opset15 symbolic_opset16 symbolic_opset17 symbolic_opset18 "
                "symbolic_opset19 symbolic_opset20 symbolic_opset7 symbolic_opset8 symbolic_opset9"
            ),
        },
    ),
    System(
        "Several processes",
        "calls between workers are not profiled: profile in each of them",
        {
            "torch.distributed.rpc": "_server_process_global_profile enable_gil_profiling",
        },
    ),
    System(
        "GPUs",
        "it runs on devices of which there is none here",
        {
            "torch": (
                "batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats "
                "batch_norm_gather_stats_with_counts batch_norm_stats cudnn_affine_grid_generator cudnn_batch_norm "
                "cudnn_convolution cudnn_convolution_add_relu cudnn_convolution_relu cudnn_convolution_transpose "
                "cudnn_grid_sampler miopen_batch_norm miopen_convolution miopen_convolution_add_relu "
                "miopen_convolution_relu miopen_convolution_transpose miopen_ctc_loss miopen_depthwise_convolution "
                "miopen_rnn native_norm"
            ),
        },
    ),
    System(
        "GPUs",
        "there is no accelerator to capture work on",
        {
            "torch.accelerator": "Graph",
        },
    ),
    System(
        "GPUs",
        "there is no CUDA device support yet",
        {
            "torch.cuda.sparse": (
                "BFloat16Tensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor "
                "ShortTensor"
            ),
        },
    ),
    System(
        "GPUs",
        "there is no MPS device support",
        {
            "torch.mps": (
                "Event Stream compile_shader current_allocated_memory current_device current_stream device "
                "driver_allocated_memory get_device_capability get_device_name get_device_properties get_rng_state "
                "get_rng_state_all is_current_stream_capturing load_metallib max_memory_allocated mem_get_info "
                "memory_allocated memory_reserved recommended_max_memory reset_peak_memory_stats set_device "
                "set_per_process_memory_fraction set_rng_state set_rng_state_all stream synchronize"
            ),
            "torch.mps.profiler": "metal_capture profile start stop",
        },
    ),
    System(
        "GPUs",
        "there is no MTIA device support",
        {
            "torch.mtia": (
                "DeferredMtiaCallError Event MTIAGraph Stream StreamContext attach_out_of_memory_observer "
                "current_allocated_memory current_device current_stream default_stream device driver_allocated_memory "
                "get_device_capability get_device_name get_device_properties get_rng_state get_rng_state_all graph "
                "graph_pool_handle init initial_seed is_current_stream_capturing max_memory_allocated mem_get_info "
                "memory_allocated memory_reserved memory_stats recommended_max_memory record_memory_history "
                "reset_peak_memory_stats set_device set_rng_state set_rng_state_all set_stream snapshot stream "
                "synchronize"
            ),
        },
    ),
    System(
        "GPUs",
        "semi-structured sparse tensors need a GPU",
        {
            "torch.sparse": (
                "SparseSemiStructuredTensor SparseSemiStructuredTensorCUSPARSELT SparseSemiStructuredTensorCUTLASS"
            ),
        },
    ),
    System(
        "GPUs",
        "there is no XPU device support",
        {
            "torch.xpu": (
                "Event MemPool Stream StreamContext XPUGraph XPUPluggableAllocator can_device_access_peer "
                "change_current_allocator clock_rate current_allocated_memory current_device current_stream device "
                "device_memory_used device_of driver_allocated_memory get_arch_list get_device_capability "
                "get_device_name get_device_properties get_gencode_flags get_per_process_memory_fraction "
                "get_rng_state get_rng_state_all get_stream_from_external graph graph_pool_handle init initial_seed "
                "is_current_stream_capturing is_tf32_supported make_graphed_callables max_memory_allocated "
                "max_memory_reserved mem_get_info memory_allocated memory_reserved memory_snapshot memory_stats "
                "memory_stats_as_nested_dict memory_usage power_draw recommended_max_memory "
                "reset_accumulated_memory_stats reset_peak_memory_stats set_device set_per_process_memory_fraction "
                "set_rng_state set_rng_state_all set_stream stream synchronize temperature use_mem_pool utilization"
            ),
        },
    ),
    System(
        "Quantization",
        "quantized tensors are not written yet",
        {
            "torch": (
                "QInt32Storage QInt8Storage QUInt2x4Storage QUInt4x2Storage QUInt8Storage choose_qparams_optimized "
                "empty_quantized fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation "
                "fbgemm_linear_int8_weight fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight "
                "fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix fused_moving_avg_obs_fake_quant int_repr "
                "q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point "
                "quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic quantized_batch_norm "
                "quantized_gru quantized_gru_cell quantized_lstm quantized_lstm_cell quantized_max_pool1d "
                "quantized_max_pool2d quantized_max_pool3d quantized_rnn_relu_cell quantized_rnn_tanh_cell"
            ),
        },
    ),
    System(
        "Quantization",
        "quantizing models is not written yet",
        {
            "torch.ao.quantization": (
                "FakeQuantize HistogramObserver MinMaxObserver MovingAverageMinMaxObserver ObserverBase QConfig "
                "QConfigMapping QuantWrapper convert default_observer default_per_channel_weight_observer "
                "default_qconfig default_weight_observer fuse_modules fuse_modules_qat get_default_qat_qconfig "
                "get_default_qconfig prepare prepare_qat quantize quantize_dynamic quantize_qat"
            ),
        },
    ),
    System(
        "Quantization",
        "quantized layers are not written yet",
        {
            "torch.nn.quantized": "BatchNorm2d Conv1d Conv2d Conv3d Embedding EmbeddingBag Linear QFunctional ReLU6",
        },
    ),
    System(
        "Profiler",
        "the profiler is not written yet",
        {
            "torch.autograd.profiler": (
                "EnforceUnique EventList FunctionEvent KinetoStepTracker MemRecordsAcc emit_itt emit_nvtx load_nvprof "
                "parse_nvprof_trace profile"
            ),
            "torch.profiler": "ExecutionTraceObserver KinetoStepTracker profile schedule tensorboard_trace_handler",
        },
    ),
    System(
        "Tools",
        "instructions are not counted; measure time with blocked_autorange, or run the program under valgrind yourself",
        {
            "torch.utils.benchmark": "CallgrindStats CopyIfCallgrind FunctionCount FunctionCounts",
        },
    ),
    System(
        "Tools",
        "extensions in C++ need PyTorch's headers and libraries, which are not part of Rushlight. Write the op in"
        " Python: rushlight.library.custom_op.",
        {
            "torch.utils.cpp_extension": "BuildExtension",
        },
    ),
    System(
        "Core",
        "tensors in oneDNN's own layout do not exist here; the op of the plain name does the same",
        {
            "torch": (
                "mkldnn_adaptive_avg_pool2d mkldnn_convolution mkldnn_linear_backward_weights mkldnn_max_pool2d "
                "mkldnn_max_pool3d mkldnn_rnn_layer"
            ),
        },
    ),
    System(
        "Core",
        "dispatch keys cannot be excluded by hand here",
        {
            "torch": "ExcludeDispatchKeyGuard",
        },
    ),
    System(
        "Core",
        "files are read and written by rushlight.serialization",
        {
            "torch._C": "PyTorchFileReader PyTorchFileWriter",
        },
    ),
)

# Functions that stand in files of their own, since each tells its own remedy, and do nothing but refuse.
FUNCTIONS = (
    System("TorchScript", "TorchScript's own form of programs is not written yet", {
        "torch.jit": "export_opnames last_executed_optimized_graph load save",
    }),
    System("Compiler", "programs are not captured or compiled yet", {
        "torch._dynamo": "export override_cudagraphs replay",
        "torch.autograd.graph": "region_activation_memory_budget",
        "torch.compiler": "load_compiled_function",
        "torch": "sym_fresh_size",
    }),
    System("GPUs", "it needs a GPU, and there is no device support yet", {
        "torch.library": "triton_op wrap_triton",
        "torch.sparse": "solve to_sparse_semi_structured",
    }),
    System("Tools", "a part of PyTorch's C++ core that has no counterpart here", {
        "torch.utils.backend_registration": "generate_methods_for_privateuse1_backend rename_privateuse1_backend",
        "torch.utils.cpp_backtrace": "get_cpp_backtrace",
        "torch.fx.graph_module": "reduce_package_graph_module",
        "torch.utils.mkldnn": "to_mkldnn",
    }),
    System("Core", "tensors of this form do not exist here", {
        "torch.Tensor": "index sparse_resize_ to_mkldnn",
    }),
)


@functools.cache
def _reasons(are_functions: bool = False) -> dict[str, dict[str, str]]:
    """Module -> name -> reason."""
    found: dict[str, dict[str, str]] = {}
    for system in FUNCTIONS if are_functions else SYSTEMS:
        for module, names in system.names.items():
            found.setdefault(module, {}).update(dict.fromkeys(names.split(), system.reason))
    return found


@functools.cache
def stand_in(module: str, name: str) -> type:
    """The class that stands for `module.name`, one and the same wherever it is published.
    Refuses names without a row."""
    return absent(module, name, _reasons()[module][name])


def names_of(module: str) -> dict[str, type]:
    """The stand-ins of a module of PyTorch, by name."""
    return {name: stand_in(module, name) for name in _reasons()[module]}


def reason_of(name: str) -> str | None:
    """Why a dotted `torch` name, or the class it is an attribute of, refuses;
    None for names that are not in the table."""
    module, _, last = name.rpartition(".")
    while module:
        for table in (_reasons(), _reasons(are_functions=True)):
            if last in table.get(module, ()):
                return table[module][last]
        module, _, last = module.rpartition(".")
    return None


def listed() -> Iterator[tuple[str, str, str]]:
    """(system, reason, dotted name) of every row, system by system."""
    rows = [(system.title, system.reason, f"{module}.{name}")
            for system in (*SYSTEMS, *FUNCTIONS) for module, names in system.names.items() for name in names.split()]
    titles = [*dict.fromkeys(title for title, _, _ in rows)]
    yield from sorted(rows, key=lambda row: titles.index(row[0]))
