"""Top-level names of systems that are not built yet: they can be imported and annotated with, and refuse when used.

Enters: a name. Leaves: a stand-in (`absent`) that says which system it belongs to. Exceptions are real, since programs catch them.
"""

from __future__ import annotations

from .absent import absent_names

SCRIPT = (
    "AVG SUM AggregationType AliasDb AnyType Argument ArgumentSpec AwaitType BenchmarkConfig BenchmarkExecutionStats Block BoolType BufferDict CallStack "
    "Capsule ClassType Code CompilationUnit CompleteArgumentSpec ComplexType ConcreteModuleType ConcreteModuleTypeBuilder DeepCopyMemoTable "
    "DeserializationStorageContext DeviceObjType DictType EnumType ErrorReport ExecutionPlan FloatType FunctionSchema FutureType Gradient Graph "
    "GraphExecutorState IODescriptor InferredType IntType InterfaceType ListType LiteScriptModule LockingLogger LoggerBase ModuleDict Node NoneType "
    "NoopLogger NumberType OperatorInfo OptionalType ParameterDict PyObjectType RRefType ScriptClass ScriptClassFunction ScriptDict ScriptDictIterator "
    "ScriptDictKeyIterator ScriptList ScriptListIterator ScriptMethod ScriptModuleSerializer ScriptObject ScriptObjectProperty "
    "SerializationStorageContext StaticModule StreamObjType StringType SymBoolType SymIntType TensorType TracingState TupleType Type UnionType Use Value "
    "cpp import_ir_module import_ir_module_from_buffer merge_type_from_type_comment parse_ir parse_schema parse_type_comment unify_type_list"
)
QUANTIZED = (
    "QInt32Storage QInt8Storage QUInt2x4Storage QUInt4x2Storage QUInt8Storage choose_qparams_optimized empty_quantized fbgemm_linear_fp16_weight "
    "fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight "
    "fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix fused_moving_avg_obs_fake_quant int_repr q_per_channel_axis q_per_channel_scales "
    "q_per_channel_zero_points q_scale q_zero_point quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic quantized_batch_norm "
    "quantized_gru quantized_gru_cell quantized_lstm quantized_lstm_cell quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d "
    "quantized_rnn_relu_cell quantized_rnn_tanh_cell"
)
CUDNN = (
    "batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_stats "
    "cudnn_affine_grid_generator cudnn_batch_norm cudnn_convolution cudnn_convolution_add_relu cudnn_convolution_relu cudnn_convolution_transpose "
    "cudnn_grid_sampler miopen_batch_norm miopen_convolution miopen_convolution_add_relu miopen_convolution_relu miopen_convolution_transpose "
    "miopen_ctc_loss miopen_depthwise_convolution miopen_rnn native_norm"
)
ONEDNN = "mkldnn_adaptive_avg_pool2d mkldnn_convolution mkldnn_linear_backward_weights mkldnn_max_pool2d mkldnn_max_pool3d mkldnn_rnn_layer"
GUARDS = "ExcludeDispatchKeyGuard"

globals().update(absent_names("torch", "TorchScript's own form of programs is not written yet", SCRIPT))
globals().update(absent_names("torch", "quantized tensors are not written yet", QUANTIZED))
globals().update(absent_names("torch", "it runs on devices of which there is none here", CUDNN))
globals().update(absent_names("torch", "tensors in oneDNN's own layout do not exist here; the op of the plain name does the same", ONEDNN))
globals().update(absent_names("torch", "dispatch keys cannot be excluded by hand here", GUARDS))


class FatalError(RuntimeError):
    """What an extension raises when it cannot go on."""


class JITException(RuntimeError):
    """What a compiled TorchScript program raises."""


NAMES = (*SCRIPT.split(), *QUANTIZED.split(), *CUDNN.split(), *ONEDNN.split(), *GUARDS.split(), "FatalError", "JITException")
