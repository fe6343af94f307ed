"""Which public names PyTorch keeps in another module than the file that defines them here:
the table that `homes` works by.

It stands above everything it names; `rushlight/__init__.py` gives it to `homes`, which stands below.
"""

# `file -> module: names`, both below the package, and `.` for the package itself;
# a row goes on in lines that are indented.
ROWS = """
_C -> storage: UntypedStorage
_C -> .: get_default_dtype get_num_threads is_anomaly_enabled is_grad_enabled is_inference_mode_enabled promote_types
    set_num_threads
script.types -> .: AnyType AwaitType BoolType ComplexType DeviceObjType DictType EnumType FloatType FutureType
    IntType ListType NoneType NumberType OptionalType PyObjectType RRefType StreamObjType StringType SymIntType
    TensorType TupleType Type UnionType
script.classes -> .: ClassType InterfaceType
script.ir -> .: Block Graph Node Use Value
script.schemas -> .: Argument Schema
script.passes.alias_text -> .: AliasDb
script.core_names -> .: InferredType parse_ir parse_schema unify_type_list
jit._script -> jit: ScriptFunction
jit._execution -> jit: strict_fusion
ao.nn.quantized.modules.borders -> ao.nn.quantized.modules: DeQuantize Quantize
compiler.driver -> .: compile
compiler.driver -> _dynamo.eval_frame: OptimizedModule explain optimize optimize_assert
_dynamo.utils -> _dynamo.eval_frame: is_dynamo_supported is_inductor_supported
compiler.registry -> _dynamo.eval_frame: get_default_backend set_default_backend
compiler.registry -> _dynamo.backends.registry: list_backends register_backend
compiler.decorators -> _dynamo.decorators: allow_c_slot allow_in_graph assume_constant_result disable
    disable_nested_graph_breaks disallow_in_graph dont_skip_tracing error_on_graph_break forbid_in_graph
    get_recursion_limit graph_break is_dynamo_disable_recursive mark_dynamic mark_static mark_static_address
    maybe_mark_dynamic nonstrict_trace override_cudagraphs override_optimization_hint patch_dynamo_config replay run
    set_recursion_limit set_stance skip_frame step_unsupported substitute_in_graph
aot.compiled_autograd -> _dynamo.compiled_autograd: _enable _disable
_higher_order_ops.cond -> .: cond
dynamo.errors -> _dynamo.exc: BackendCompilerFailed FailOnRecompileLimitHit InternalTorchDynamoError InvalidBackend
    RecompileError RecompileLimitExceeded ResetRequired RestartAnalysis TensorifyScalarRestartAnalysis
    TorchDynamoException Unsupported UserError
accelerator -> .: get_device_module
accelerator -> accelerator.memory: empty_cache empty_host_cache get_memory_info max_memory_allocated max_memory_reserved
    memory_allocated memory_reserved memory_stats reset_accumulated_memory_stats reset_peak_memory_stats
accelerator -> accelerator.graphs: Graph
base.assertions -> .: _assert _check sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum
autograd.anomaly_mode -> .: is_anomaly_check_nan_enabled
autograd.backward -> autograd: backward grad
dispatch.saved_mutation -> autograd.graph: allow_mutation_on_saved_tensors
autograd.hooks -> utils.hooks: RemovableHandle
autograd.labels -> autograd.profiler: record_function
profiler.event_source -> autograd.profiler_util: EventList
profiler.events -> autograd.profiler_util: EventMetadata FormattedTimesMixin FunctionEvent FunctionEventAvg Interval
    Kernel MemRecordsAcc StringTable
profiler.session -> autograd.profiler: profile
profiler.steps -> autograd.profiler: KinetoStepTracker
profiler.nvprof -> autograd.profiler: EnforceUnique load_nvprof parse_nvprof_trace
profiler.ranges -> autograd.profiler: emit_itt emit_nvtx
profiler.schedules -> profiler.profiler: ProfilerAction schedule
profiler.execution_trace -> profiler.profiler: ExecutionTraceObserver
cuda -> .: OutOfMemoryError AcceleratorError
cuda -> cuda.memory: caching_allocator_disabled caching_allocator_enable change_current_allocator
    get_per_process_memory_fraction host_memory_stats host_memory_stats_as_nested_dict
    reset_accumulated_host_memory_stats reset_peak_host_memory_stats
    caching_allocator_alloc caching_allocator_delete empty_cache get_allocator_backend list_gpu_processes mem_get_info
    memory_allocated memory_cached memory_reserved memory_snapshot memory_stats memory_stats_as_nested_dict
    memory_summary max_memory_allocated max_memory_cached max_memory_reserved reset_accumulated_memory_stats
    reset_max_memory_allocated reset_max_memory_cached reset_peak_memory_stats set_per_process_memory_fraction
    _record_memory_history _snapshot _dump_snapshot _save_segment_usage _save_memory_usage _set_allocator_settings
cuda -> cuda.random: get_rng_state get_rng_state_all initial_seed manual_seed manual_seed_all seed seed_all
    set_rng_state set_rng_state_all
cuda -> cuda.graphs: CUDAGraph graph graph_pool_handle is_current_stream_capturing make_graphed_callables
cuda.queues -> cuda.streams: Event ExternalStream Stream
cuda.pools -> cuda.memory: MemPool use_mem_pool
cuda.allocators -> cuda.memory: CUDAPluggableAllocator
cuda.units -> cuda: CudaError cudaStatus
distributions.transform -> distributions.transforms: ComposeTransform IndependentTransform Transform _InverseTransform
devices.base -> .: default_device set_default_device
dispatch.autocast -> .: autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache
    get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype get_autocast_ipu_dtype get_autocast_xla_dtype
    is_autocast_cache_enabled is_autocast_cpu_enabled is_autocast_enabled is_autocast_ipu_enabled
    is_autocast_xla_enabled set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled
    set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype set_autocast_ipu_dtype set_autocast_ipu_enabled
    set_autocast_xla_dtype set_autocast_xla_enabled
dispatch.autocast -> amp.autocast_mode: is_autocast_available
dispatch.keys -> .: DispatchKey DispatchKeySet
dispatch.table -> library: fallthrough_kernel
library.checks -> library: OpCheckError opcheck
library.custom_ops -> library: CustomOpDef custom_op
library.triton_kernels -> library: triton_op wrap_triton
library.registration -> library: Library define get_kernel impl
library.rules -> library: FakeContext get_ctx impl_abstract register_autocast register_autograd register_fake
    register_kernel register_torch_dispatch register_vmap
library.schemas -> library: infer_schema
dispatch.overrides -> overrides: has_torch_function handle_torch_function wrap_torch_function is_tensor_like
    has_torch_function_unary has_torch_function_variadic BaseTorchFunctionMode _get_current_function_mode
    _get_current_function_mode_stack _is_torch_function_mode_enabled _len_torch_function_stack _push_mode _pop_mode
    _pop_mode_temporarily _get_overloaded_args redispatch_function enable_reentrant_dispatch
dispatch.overridable -> overrides: get_ignored_functions get_default_nowrap_functions get_overridable_functions
    get_testing_overrides resolve_name is_tensor_method_or_property
base.dtype -> .: finfo iinfo
symbols.numbers -> .: SymInt SymFloat SymBool
func.batch_norm -> func: replace_all_batch_norm_modules_
func.rearranging -> func: rearrange
func.derivatives -> func: grad grad_and_value hessian jacfwd jacrev jvp linearize vjp
func.functionalization -> func: functionalize
func.stateless -> func: debug_unwrap functional_call stack_module_state
func.vectorize -> func: vmap
tensors.plain_functions -> .: allclose as_strided_ detach detach_ equal get_device is_complex is_conj is_distributed
    is_floating_point is_inference is_neg is_nonzero is_same_size is_signed is_storage is_tensor numel resize_as_
    set_default_tensor_type typename zero_
tensors.plain_functions -> functional: broadcast_shapes broadcast_tensors
fx.codegen -> fx.graph: CodeGen PythonCode
fx.wrapping -> fx._symbolic_trace: wrap
tensors.interop -> .: as_tensor asarray from_numpy frombuffer tensor
tensors.interop -> utils.dlpack: DLDeviceType from_dlpack
jit._script -> .: ScriptModule
masked.tensor -> masked.maskedtensor.core: MaskedTensor is_masked_tensor
masked.tensor -> masked.maskedtensor.creation: as_masked_tensor masked_tensor
masked.normalize -> masked._ops: log_softmax logaddexp normalize softmax softmin
masked.reduce -> masked._ops: amax amin argmax argmin cumprod cumsum logsumexp mean median norm prod std sum var
multiprocessing.sharing -> multiprocessing.reductions: init_reductions rebuild_storage_empty rebuild_storage_fd
    rebuild_tensor reduce_storage reduce_tensor
nn.factory -> nn: factory_kwargs
nn.linear_cross_entropy_options -> nn.modules.linear_cross_entropy_options: LinearCrossEntropyOptions
nn.packing -> nn.utils.rnn: PackedSequence invert_permutation pack_padded_sequence pack_sequence pad_packed_sequence
    pad_sequence unpack_sequence unpad_sequence
nn.modules.backward_hooks -> utils.hooks: BackwardHook
nn.modules.hooks -> nn.modules.module: register_module_backward_hook register_module_buffer_registration_hook
    register_module_forward_hook register_module_forward_pre_hook register_module_full_backward_hook
    register_module_full_backward_pre_hook register_module_module_registration_hook
    register_module_parameter_registration_hook
nn.modules.multihead -> nn.modules.activation: MultiheadAttention
nn.modules.state -> nn.modules.module: _WrappedHook
base.linalg_error -> _C: LinAlgError
definitions.products.einsum -> functional: einsum
definitions.nested.container -> nested._internal.nested_tensor: NestedTensor
optim._adafactor -> optim: Adafactor
optim._muon -> optim: Muon
optim._stateless -> optim: swap_in_optimizer_params_and_state
optim.lr_scheduler.base -> optim.lr_scheduler: LRScheduler
optim.lr_scheduler.combined -> optim.lr_scheduler: ChainedScheduler ReduceLROnPlateau SequentialLR
optim.lr_scheduler.cycles -> optim.lr_scheduler: CosineAnnealingWarmRestarts CyclicLR OneCycleLR
optim.lr_scheduler.decay -> optim.lr_scheduler: ConstantLR CosineAnnealingLR ExponentialLR LambdaLR LinearLR MultiStepLR
    MultiplicativeLR PolynomialLR StepLR
symbols.env -> fx.experimental.symbolic_shapes: ConstraintViolationError GuardOnDataDependentSymNode
export.module_calls -> export.exported_program: ModuleCallEntry ModuleCallSignature
export.kept_calls -> export.unflatten: InterpreterModule InterpreterModuleDispatcher
onnx.errors -> onnx: OnnxExporterError
onnx.exporting -> onnx: export
onnx.program -> onnx: ONNXProgram
onnx.state -> onnx: is_in_onnx_export
package.reader -> package.package_importer: PackageImporter
package.writer -> package.package_exporter: EmptyMatchError PackageExporter PackagingError PackagingErrorReason
package.structure -> package.file_structure_representation: Directory
package.patterns -> package.glob_group: GlobGroup
package.reader -> package.analyze.is_from_package: is_from_package
package.tracing -> package.analyze.trace_dependencies: trace_dependencies
package.tracing -> package.analyze.find_first_use_of_broken_modules: find_first_use_of_broken_modules
tensors.printing -> _tensor_str: set_printoptions
tensors.storages -> storage: _rebuild_storage _load_from_bytes TypedStorage _rebuild_typed _LegacyStorageMeta
    _dtype_to_storage_type_map _storage_type_to_dtype_map _get_dtype_from_pickle_storage_type _new_dtypes
    _warn_typed_storage_removal
tensors.pickling -> _utils: _rebuild_tensor _rebuild_tensor_v2 _rebuild_tensor_v3 _rebuild_meta_tensor_no_storage
    _rebuild_device_tensor_from_cpu_tensor _rebuild_device_tensor_from_numpy _rebuild_wrapper_subclass _rebuild_qtensor
    _rebuild_sparse_tensor _validate_loaded_sparse_tensors _rebuild_nested_tensor _rebuild_njt _rebuild_parameter
    _rebuild_parameter_with_state _get_obj_state _set_obj_state
tensors.flat_lists -> _utils: _flatten_dense_tensors _unflatten_dense_tensors _take_tensors _reorder_tensors_as
torch_names.questions -> _utils: _element_size is_compiling classproperty _get_available_device_type
    _get_all_device_indices _get_device_index _import_dotted_name
base.promotion -> .: can_cast result_type promote_types
serialization.allowed -> serialization: add_safe_globals clear_safe_globals get_safe_globals safe_globals
serialization.locations -> serialization: StorageType default_restore_location location_tag normalize_storage_type
    register_package storage_to_tensor_type
serialization.options -> serialization: LoadEndianness get_crc32_options get_default_load_endianness
    get_default_mmap_options set_crc32_options set_default_load_endianness set_default_mmap_options skip_data
serialization.stand_ins -> nn.utils.spectral_norm: SpectralNormLoadStateDictPreHook SpectralNormStateDictHook
serialization.read -> serialization: get_unsafe_globals_in_checkpoint load
serialization.write -> serialization: save
base.settings -> .: are_deterministic_algorithms_enabled get_deterministic_debug_mode get_float32_matmul_precision
    get_num_interop_threads is_deterministic_algorithms_warn_only_enabled is_warn_always_enabled
    set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal set_num_interop_threads set_warn_always
    use_deterministic_algorithms
base.shape -> .: layout memory_format
signal.windows -> signal.windows.windows: bartlett blackman cosine exponential gaussian general_cosine general_hamming
    hamming hann kaiser nuttall
torch_names.streams -> .: Event Stream
testing._file_check -> .: FileCheck
utils.benchmark.compare -> utils.benchmark.utils.compare: Colorize Compare
utils.benchmark.fuzzer -> utils.benchmark.utils.fuzzer: FuzzedParameter FuzzedTensor Fuzzer ParameterAlias
utils.benchmark.fuzzer -> utils.benchmark.utils.sparse_fuzzer: FuzzedSparseTensor
utils.benchmark.measurement -> utils.benchmark.utils.common: Measurement TaskSpec ordered_unique select_unit
    set_torch_threads trim_sigfig unit_to_english
utils.benchmark.timing -> utils.benchmark.utils.timer: Language Timer timer
utils.benchmark.cpp_statement -> utils.benchmark.utils.timer: CPPTimer
utils.benchmark.compile_times -> utils.benchmark.utils.compile: bench_all bench_loop benchmark_compile
utils.benchmark.callgrind -> utils.benchmark.utils.valgrind_wrapper.timer_interface: CallgrindStats CopyIfCallgrind
    FunctionCount FunctionCounts
utils.checkpoint_policy -> utils.checkpoint: CheckpointPolicy SelectiveCheckpointContext
    create_selective_checkpoint_contexts
utils.data.datapipes.iter.files -> utils.data.datapipes.iter.filelister: FileListerIterDataPipe
utils.data.datapipes.iter.files -> utils.data.datapipes.iter.fileopener: FileOpenerIterDataPipe
utils.data.datapipes.iter.files -> utils.data.datapipes.iter.streamreader: StreamReaderIterDataPipe
utils.data.datapipes.iter.source -> utils.data.datapipes.iter.utils: IterableWrapperIterDataPipe
utils.data.datapipes.map.steps -> utils.data.datapipes.map.grouping: BatcherMapDataPipe
utils.data.datapipes.map.steps -> utils.data.datapipes.map.combining: ConcaterMapDataPipe ZipperMapDataPipe
utils.data.datapipes.map.steps -> utils.data.datapipes.map.callable: MapperMapDataPipe
utils.data.datapipes.map.steps -> utils.data.datapipes.map.utils: SequenceWrapperMapDataPipe
utils.data.datapipes.map.steps -> utils.data.datapipes.map.combinatorics: ShufflerIterDataPipe
xpu -> xpu.graphs: XPUGraph graph graph_pool_handle is_current_stream_capturing make_graphed_callables
xpu -> xpu.memory: MemPool XPUPluggableAllocator change_current_allocator empty_cache get_per_process_memory_fraction
    max_memory_allocated max_memory_reserved mem_get_info memory_allocated memory_reserved memory_snapshot memory_stats
    memory_stats_as_nested_dict reset_accumulated_memory_stats reset_peak_memory_stats set_per_process_memory_fraction
    use_mem_pool
xpu -> xpu.random: get_rng_state get_rng_state_all initial_seed manual_seed manual_seed_all seed seed_all set_rng_state
    set_rng_state_all
xpu -> xpu.streams: Event Stream
mtia -> mtia.memory: max_memory_allocated memory_allocated memory_stats reset_peak_memory_stats
mtia -> mtia.mtia_graph: MTIAGraph graph graph_pool_handle
mps -> mps.event: Event
torch_names.rare -> .: spmm dsmm saddmm smm hspmm hsmm sspaddmm resize_as_sparse_ from_file batch_norm_update_stats
    cudnn_is_acceptable is_vulkan_available init_num_threads set_anomaly_enabled sym_constrain_range
    sym_constrain_range_for_size sym_fresh_size thread_safe_generator conj_physical_
    ccol_indices_copy col_indices_copy crow_indices_copy indices_copy
    row_indices_copy values_copy
base.quantizers -> .: qscheme
aten.tags -> .: Tag
torch_names.unbuilt -> .: FatalError JITException
numa -> numa.binding: AffinityMode NumaOptions
version -> torch_version: TorchVersion
utils.model_zoo -> hub: load_url
utils.naming -> utils: set_module
utils.swapping -> utils: swap_tensors
utils.tensorboard.images -> utils.tensorboard.summary: draw_boxes
"""
# Parts that PyTorch has nothing like: their definitions are never called by PyTorch's names.
INTERNAL = (
    "definitions",
    "op",
    "planners",
    "rules",
    "aten",
    "loops",
    "codegen",
    "compat",
    "devices",
    "dispatch",
    "_C",
    "base.homes",
    "base.late",
    "base.disk_cache",
    "base.absent",
    "version",
    "torch_names.unbuilt",
    "base.refusals",
)

# Packages that `compat` completes when a program imports them under the other name.
NOT_ALIASED = ("optim", "optim.lr_scheduler")

# Modules that moved: pickles made before name them. (What PyTorch has never changes its name.)
# `room before -> room now: modules`, below the package; a module that was called otherwise says `before=now`.
_MOVED = """
. -> torch_names: rare unbuilt core_names home_rows streams
. -> tensors: indexing interop printing functions=plain_functions legacy=legacy_types
. -> base: environment errors show notice tracebacks absent refusals disk_cache late homes core_finder settings shape
    assertions promotion
loops -> base: digest
autograd -> dispatch: mutation=saved_mutation
op -> planners: recurrence
op -> planners.products: blas gemm gemm_complex=complex gemm_half=half gemm_padded=padded gemm_spans=spans
    gemm_tiles=tiles groups
op -> planners.convolutions: convolve convolve_lanes=lanes convolve_pixels=pixels convolve_points=points
    convolve_tiles=tiles convolve_walk=walk convolve_windows=windows
op -> planners.fourier: butterflies fourier=transform fourier_tables=tables real_fourier=real small_transforms=small
op -> planners.order: few_first radix radix_blocks radix_device rank_select ranks true_positions
op -> planners.factors: bidiagonal factor_panels=panels lapack lapack_device panels reflections small_factors=small
    triangles
op -> rules: batch_overloads batched=batch_overloads batching levels out random_level tangent
dispatch -> dispatch.levels: functionalize_level=functionalize grad_level=grad jvp_level=jvp
    random_state_level=random_state vmap_level=vmap
dispatch -> aten: aten_adapters=adapters aten_calls=calls aten_overloads=overloads aten_plain=plain
    namespaces
export -> aten: composed
codegen -> codegen.text: extremes primitives quotients registers squares targets writer
codegen -> codegen.tiles: tile_functions=functions tile_shapes=shapes tile_strips=strips
codegen -> codegen.llvm: cpu gpu_math interchange lower vectorize widths
codegen -> codegen.nvptx: nvptx_columns=columns nvptx_counts=counts nvptx_held=held nvptx_many=many
    nvptx_points=points nvptx_scan=scan nvptx_select=select nvptx_sort=sort nvptx_transpose=transpose
    nvptx_vectors=vectors nvptx_written=written philox philox_walks
codegen -> codegen.stored: artifacts cache stored_graphs=graphs tile_objects
codegen -> codegen.library.products: dot_instructions few_rows grouped_products panels=tiled_products tile_packs
    tile_products tiled_products
codegen -> codegen.library: prefix_sums transpose
codegen -> codegen.library.attention: tile_attention=forward tile_attention_backward=backward
codegen.library -> codegen.library.convolution: channel_lanes convolve depthwise dots finish micro_kernel overlap
    packing pixels points windows winograd winograd_weight
definitions -> definitions.attention: attention_device=device attention_flash=flash attention_heads=heads
definitions -> planners.attention: attention_tiles=tiles
definitions.attention -> planners.attention: tiles
definitions -> definitions.loss: ctc loss_classes=classes loss_enumerated=enumerated loss_linear=linear
    loss_pairs=pairs loss_scale=scale
definitions -> definitions.spectral: fft=transforms fft_rows=rows spectra=short_time windows
definitions -> planners.fourier: fft_direct=direct fft_library=library
definitions.spectral -> planners.fourier: direct library
definitions -> definitions.conv: conv_forms=forms
definitions -> definitions.products: distance einsum grouped matmul matmul_add scaled_mm
definitions -> definitions.norm: batchnorm=channels normalize=rows segment_norm=segments
definitions -> definitions.random: dropout random_state=state sample_gradients sampling
definitions -> definitions.order: distinct histogram ranking scan sorting
definitions -> definitions.create: copy creation=factories grids triangles
definitions -> definitions.sequence: embedding recurrence
definitions -> definitions.shapes: fold getitem pad shuffle sizes
definitions -> definitions.pointwise: gates
definitions -> definitions.reduction: differences statistics
aot -> compiler: backends=driver
dynamo -> dynamo.bytecode: branches emitter instructions resume
dynamo -> dynamo.record: acts breaks counting hidden marks recorder tensor_classes thread_modes tracing
dynamo -> dynamo.values: attributes floats guards iterators lists locks masks operators outside sources
dynamo -> dynamo.frames: control frame
dynamo -> dynamo.rules: arrays checks class_bodies control_flow custom_functions elements function_modes gradients
    layouts library_rules marked natives optimizers regions selects stand_ins subclasses trials
dynamo -> dynamo.machine: effects interpreter rebuild
dynamo -> dynamo.stored: fingerprints stored_frames=frames stored_values=values
"""

# Modules of PyTorch that are modules of ours, the same object under both names: what a program sets in one is set.
_SAME = """
_dynamo -> dynamo: config=settings
_dynamo -> aot: compiled_autograd
_functorch -> aot: config=settings
"""


def _moved(text: str) -> dict[str, str]:
    """Name before -> name now, both below the package."""
    found = {}
    for row in text.strip().replace("\n    ", " ").split("\n"):
        rooms, _, modules = row.partition(": ")
        before, _, now = rooms.partition(" -> ")
        for module in modules.split():
            old, _, new = module.partition("=")
            found[f"{before}.{old}".removeprefix("..")] = f"{now}.{new or old}"
    return found


FORMER = _moved(_MOVED) | _moved(_SAME)

# Packages that PyTorch moved: the older name is another name of the same modules.
OLDER = {
    "quantization": "ao.quantization",
    "quantization._numeric_suite": "ao.ns._numeric_suite",
    "quantization._numeric_suite_fx": "ao.ns._numeric_suite_fx",
    "nn.quantized": "ao.nn.quantized",
    "nn.quantized._reference": "ao.nn.quantized.reference",
    "nn.qat": "ao.nn.qat",
    "nn.intrinsic": "ao.nn.intrinsic",
    "nn.quantizable": "ao.nn.quantizable",
}
