"""Signatures that PyTorch has of our ops: see tools/list_schemas.py, which writes this file.

Separated by semicolons; what is not written returns one Tensor, and `self` without a type is one.
"""

TEXT = """
_adaptive_avg_pool2d(self, SymInt[2] output_size); _adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self);
_adaptive_avg_pool3d(self, SymInt[3] output_size); _adaptive_avg_pool3d_backward(Tensor grad_output, Tensor self);
_add_relu.Scalar(self, Scalar other, Scalar alpha=1); _add_relu.Tensor(self, Tensor other, *, Scalar alpha=1);
_addmm_activation(self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, bool use_gelu=False);
_aminmax(self) -> (Tensor, Tensor); _aminmax.dim(self, int dim, bool keepdim=False) -> (Tensor, Tensor);
_amp_update_scale_(Tensor(a!) self, Tensor(b!) growth_tracker, Tensor found_inf, float scale_growth_factor, float
scale_backoff_factor, int growth_interval) -> Tensor(a!); _batch_norm_no_update(Tensor input, Tensor? weight, Tensor?
bias, Tensor? running_mean, Tensor? running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor);
_batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) running_var,
float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor); _cast_Byte(self, bool non_blocking=False);
_cast_Char(self, bool non_blocking=False); _cast_Double(self, bool non_blocking=False); _cast_Float(self, bool
non_blocking=False); _cast_Half(self, bool non_blocking=False); _cast_Int(self, bool non_blocking=False);
_cast_Long(self, bool non_blocking=False); _cast_Short(self, bool non_blocking=False); _cdist_forward(Tensor x1, Tensor
x2, float p, int? compute_mode); _chunk_cat(Tensor[] tensors, int dim, int num_chunks); _conj(Tensor(a) self);
_conj_physical(self); _convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding,
SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool
cudnn_enabled, bool allow_tf32); _convolution.deprecated(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride,
SymInt[] padding, SymInt[] dilation, bool transposed, int[] output_padding, SymInt groups, bool benchmark, bool
deterministic, bool cudnn_enabled); _ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[]
target_lengths, int blank=0, bool zero_infinity=False) -> (Tensor, Tensor); _ctc_loss.Tensor(Tensor log_probs, Tensor
targets, Tensor input_lengths, Tensor target_lengths, int blank=0, bool zero_infinity=False) -> (Tensor, Tensor);
_ctc_loss_backward(Tensor grad, Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, Tensor
neg_log_likelihood, Tensor log_alpha, int blank, bool zero_infinity=False); _ctc_loss_backward.Tensor(Tensor grad,
Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, Tensor neg_log_likelihood, Tensor
log_alpha, int blank, bool zero_infinity=False); _dim_arange(Tensor like, int dim); _dirichlet_grad(Tensor x, Tensor
alpha, Tensor total); _efficient_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? bias, Tensor?
cu_seqlens_q, Tensor? cu_seqlens_k, SymInt? max_seqlen_q, SymInt? max_seqlen_k, float dropout_p, int custom_mask_type,
bool compute_log_sumexp=False, *, float? scale=None, Tensor? seqlen_k=None, int? window_size=None) -> (Tensor output,
Tensor logsumexp, Tensor philox_seed, Tensor philox_offset, SymInt max_seqlen_batch_q, SymInt max_seqlen_batch_k);
_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool
sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor,
Tensor, Tensor); _fft_c2c(self, SymInt[] dim, int normalization, bool forward); _fft_c2r(self, int[] dim, int
normalization, SymInt last_dim_size); _fft_r2c(self, int[] dim, int normalization, bool onesided);
_flash_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? cum_seq_q, Tensor? cum_seq_k, SymInt max_q,
SymInt max_k, float dropout_p, bool is_causal, bool return_debug_mask, *, float? scale=None, SymInt?
window_size_left=None, SymInt? window_size_right=None, Tensor? seqused_k=None, Tensor? alibi_slopes=None, Tensor?
block_table=None, int? num_splits=None) -> (Tensor output, Tensor softmax_logsumexp, Tensor rng_state, Tensor unused,
Tensor debug_attn_mask); _flash_attention_forward.quantized(Tensor query, Tensor key, Tensor value, Tensor? cum_seq_q,
Tensor? cum_seq_k, SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, bool return_debug_mask, Tensor?
q_descale, Tensor? k_descale, Tensor? v_descale, *, float? scale=None, SymInt? window_size_left=None, SymInt?
window_size_right=None, Tensor? seqused_k=None, Tensor? alibi_slopes=None) -> (Tensor output, Tensor softmax_logsumexp,
Tensor rng_state, Tensor unused, Tensor debug_attn_mask); _fused_rms_norm(Tensor input, int[] normalized_shape, Tensor?
weight, float? eps) -> (Tensor, Tensor); _grouped_mm(self, Tensor mat2, Tensor? offs=None, Tensor? bias=None,
ScalarType? out_dtype=None); _index_put_impl_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False,
bool unsafe=False) -> Tensor(a!); _int_mm(self, Tensor mat2); _is_all_true(self); _is_any_true(self);
_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots); _linalg_eigh(Tensor A, str UPLO="L", bool
compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors); _linalg_slogdet(Tensor A) -> (Tensor sign, Tensor
logabsdet, Tensor LU, Tensor pivots); _linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False)
-> (Tensor result, Tensor LU, Tensor pivots, Tensor info); _linalg_svd(Tensor A, bool full_matrices=False, bool
compute_uv=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh); _local_scalar_dense(self) -> Scalar;
_log_softmax(self, int dim, bool half_to_float); _log_softmax_backward_data(Tensor grad_output, Tensor output, int dim,
ScalarType input_dtype); _logcumsumexp(self, int dim); _lu_with_info(self, bool pivot=True, bool check_errors=True) ->
(Tensor LU, Tensor pivots, Tensor info); _masked_scale(self, Tensor mask, float scale); _native_batch_norm_legit(Tensor
input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) running_var, bool training, float momentum,
float eps) -> (Tensor, Tensor, Tensor); _native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias,
bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor); _native_batch_norm_legit_functional(Tensor
input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, bool training, float momentum, float eps)
-> (Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out);
_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor
running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor); _neg_view(Tensor(a) self); _pdist_forward(self,
float p=2.); _pin_memory(self, Device? device=None); _prelu_kernel(self, Tensor weight); _prelu_kernel_backward(Tensor
grad_output, Tensor self, Tensor weight) -> (Tensor, Tensor); _safe_softmax(self, int dim, ScalarType? dtype=None);
_sample_dirichlet(self, Generator? generator=None); _scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor
value, Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, Tensor? dropout_mask=None, *, float?
scale=None, bool enable_gqa=False) -> (Tensor, Tensor); _scaled_dot_product_flash_attention_for_cpu(Tensor query,
Tensor key, Tensor value, float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) ->
(Tensor output, Tensor logsumexp); _scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query,
Tensor key, Tensor value, Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None,
float? scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value); _scaled_mm(self, Tensor mat2, Tensor
scale_a, Tensor scale_b, Tensor? bias=None, Tensor? scale_result=None, ScalarType? out_dtype=None, bool
use_fast_accum=False); _scaled_mm_v2(self, Tensor mat2, Tensor[] scale_a, int[] recipe_a, int[] swizzle_a, Tensor[]
scale_b, int[] recipe_b, int[] swizzle_b, Tensor? bias, ScalarType? out_dtype, int[] contraction_dim=[], bool
use_fast_accum=False); _shape_as_tensor(self); _softmax(self, int dim, bool half_to_float);
_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype); _stack(Tensor[] tensors,
int dim=0); _standard_gamma(self, Generator? generator=None); _standard_gamma_grad(self, Tensor output); _to_copy(self,
*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False,
MemoryFormat? memory_format=None); _unique(self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor);
_unique2(self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor);
_unsafe_index.Tensor(self, Tensor?[] indices); _unsafe_index_put(self, Tensor?[] indices, Tensor values, bool
accumulate=False); _unsafe_masked_index(self, Tensor mask, Tensor?[] indices, Scalar fill);
_unsafe_masked_index_put_accumulate(self, Tensor mask, Tensor?[] indices, Tensor values); _unsafe_view(self, SymInt[]
size); _upsample_bicubic2d_aa(self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float?
scales_w=None); _upsample_bicubic2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]?
scale_factors); _upsample_bilinear2d_aa(self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float?
scales_w=None); _upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]?
scale_factors); _upsample_lanczos2d_aa(self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float?
scales_w=None); _upsample_lanczos2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]?
scale_factors); _upsample_nearest_exact1d(self, SymInt[1] output_size, float? scales=None);
_upsample_nearest_exact1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors);
_upsample_nearest_exact2d(self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None);
_upsample_nearest_exact2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors);
_upsample_nearest_exact3d(self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float?
scales_w=None); _upsample_nearest_exact3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors);
_weight_norm(Tensor v, Tensor g, int dim=0); _weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor);
abs(self); abs_(Tensor(a!) self) -> Tensor(a!); absolute(self); absolute_(Tensor(a!) self) -> Tensor(a!); acos(self);
acos_(Tensor(a!) self) -> Tensor(a!); acosh(self); acosh_(Tensor(a!) self) -> Tensor(a!); adaptive_avg_pool1d(self,
int[1] output_size); adaptive_avg_pool2d(self, SymInt[2] output_size); adaptive_avg_pool3d(self, SymInt[3]
output_size); adaptive_max_pool1d(self, int[1] output_size) -> (Tensor, Tensor); adaptive_max_pool2d(self, int[2]
output_size) -> (Tensor, Tensor); adaptive_max_pool3d(self, int[3] output_size) -> (Tensor, Tensor); add.Scalar(self,
Scalar other, Scalar alpha=1); add.Tensor(self, Tensor other, *, Scalar alpha=1); add_.Scalar(Tensor(a!) self, Scalar
other, Scalar alpha=1) -> Tensor(a!); add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!);
addbmm(self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1); addbmm_(Tensor(a!) self, Tensor batch1,
Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor(a!); addcdiv(self, Tensor tensor1, Tensor tensor2, *, Scalar
value=1); addcdiv_(Tensor(a!) self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor(a!); addcmul(self,
Tensor tensor1, Tensor tensor2, *, Scalar value=1); addcmul_(Tensor(a!) self, Tensor tensor1, Tensor tensor2, *, Scalar
value=1) -> Tensor(a!); addmm(self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1); addmm.dtype(self,
Tensor mat1, Tensor mat2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1); addmm_(Tensor(a!) self, Tensor mat1,
Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor(a!); addmv(self, Tensor mat, Tensor vec, *, Scalar beta=1,
Scalar alpha=1); addmv_(Tensor(a!) self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor(a!);
addr(self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1); addr_(Tensor(a!) self, Tensor vec1, Tensor
vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor(a!); adjoint(Tensor(a) self); affine_grid_generator(Tensor theta,
SymInt[] size, bool align_corners); alias(Tensor(a) self); alias_copy(self); all(self); all.dim(self, int dim, bool
keepdim=False); all.dims(self, int[]? dim=None, bool keepdim=False); alpha_dropout(Tensor input, float p, bool train);
alpha_dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!); amax(self, int[1] dim=[], bool keepdim=False);
amin(self, int[1] dim=[], bool keepdim=False); aminmax(self, *, int? dim=None, bool keepdim=False) -> (Tensor min,
Tensor max); angle(self); any(self); any.dim(self, int dim, bool keepdim=False); any.dims(self, int[]? dim=None, bool
keepdim=False); arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool?
pin_memory=None); arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device?
device=None, bool? pin_memory=None); arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType?
dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None); arccos(self); arccos_(Tensor(a!) self) ->
Tensor(a!); arccosh(self); arccosh_(Tensor(a!) self) -> Tensor(a!); arcsin(self); arcsin_(Tensor(a!) self) ->
Tensor(a!); arcsinh(self); arcsinh_(Tensor(a!) self) -> Tensor(a!); arctan(self); arctan2(self, Tensor other);
arctan2_(Tensor(a!) self, Tensor other) -> Tensor(a!); arctan_(Tensor(a!) self) -> Tensor(a!); arctanh(self);
arctanh_(Tensor(a!) self) -> Tensor(a!); argmax(self, int? dim=None, bool keepdim=False); argmin(self, int? dim=None,
bool keepdim=False); argsort(self, int dim=-1, bool descending=False); argsort.stable(self, *, bool stable, int dim=-1,
bool descending=False); argwhere(self); as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt?
storage_offset=None); as_strided_copy(self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None);
as_strided_scatter(self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None); asin(self);
asin_(Tensor(a!) self) -> Tensor(a!); asinh(self); asinh_(Tensor(a!) self) -> Tensor(a!); atan(self); atan2(self,
Tensor other); atan2_(Tensor(a!) self, Tensor other) -> Tensor(a!); atan_(Tensor(a!) self) -> Tensor(a!); atanh(self);
atanh_(Tensor(a!) self) -> Tensor(a!); atleast_1d(self); atleast_1d.Sequence(Tensor[] tensors) -> Tensor[];
atleast_2d(self); atleast_2d.Sequence(Tensor[] tensors) -> Tensor[]; atleast_3d(self); atleast_3d.Sequence(Tensor[]
tensors) -> Tensor[]; avg_pool1d(self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False,
bool count_include_pad=True); avg_pool2d(self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool
ceil_mode=False, bool count_include_pad=True, int? divisor_override=None); avg_pool2d_backward(Tensor grad_output,
Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, bool ceil_mode, bool count_include_pad, int?
divisor_override); avg_pool3d(self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool
count_include_pad=True, int? divisor_override=None); avg_pool3d_backward(Tensor grad_output, Tensor self, int[3]
kernel_size, int[3] stride, int[3] padding, bool ceil_mode, bool count_include_pad, int? divisor_override);
baddbmm(self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1); baddbmm.dtype(self, Tensor batch1,
Tensor batch2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1); baddbmm_(Tensor(a!) self, Tensor batch1, Tensor
batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor(a!); bartlett_window(int window_length, *, ScalarType? dtype=None,
Layout? layout=None, Device? device=None, bool? pin_memory=None); bartlett_window.periodic(int window_length, bool
periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None);
batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float
momentum, float eps, bool cudnn_enabled); bernoulli(self, *, Generator? generator=None); bernoulli.Tensor(self, Tensor
p, *, Generator? generator=None); bernoulli.p(self, float p, *, Generator? generator=None);
bernoulli_.Tensor(Tensor(a!) self, Tensor p, *, Generator? generator=None) -> Tensor(a!); bernoulli_.float(Tensor(a!)
self, float p=0.5, *, Generator? generator=None) -> Tensor(a!); bilinear(Tensor input1, Tensor input2, Tensor weight,
Tensor? bias=None); binary_cross_entropy(self, Tensor target, Tensor? weight=None, int reduction=1);
binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight=None, int reduction=1);
binary_cross_entropy_with_logits(self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=1);
bincount(self, Tensor? weights=None, SymInt minlength=0); binomial(Tensor count, Tensor prob, Generator?
generator=None); bitwise_and.Scalar(self, Scalar other); bitwise_and.Scalar_Tensor(Scalar self, Tensor other);
bitwise_and.Tensor(self, Tensor other); bitwise_and_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!);
bitwise_and_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!); bitwise_left_shift.Scalar_Tensor(Scalar self, Tensor
other); bitwise_left_shift.Tensor(self, Tensor other); bitwise_left_shift.Tensor_Scalar(self, Scalar other);
bitwise_left_shift_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!); bitwise_left_shift_.Tensor_Scalar(Tensor(a!)
self, Scalar other) -> Tensor(a!); bitwise_not(self); bitwise_not_(Tensor(a!) self) -> Tensor(a!);
bitwise_or.Scalar(self, Scalar other); bitwise_or.Scalar_Tensor(Scalar self, Tensor other); bitwise_or.Tensor(self,
Tensor other); bitwise_or_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!); bitwise_or_.Tensor(Tensor(a!) self,
Tensor other) -> Tensor(a!); bitwise_right_shift.Scalar_Tensor(Scalar self, Tensor other);
bitwise_right_shift.Tensor(self, Tensor other); bitwise_right_shift.Tensor_Scalar(self, Scalar other);
bitwise_right_shift_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!); bitwise_right_shift_.Tensor_Scalar(Tensor(a!)
self, Scalar other) -> Tensor(a!); bitwise_xor.Scalar(self, Scalar other); bitwise_xor.Scalar_Tensor(Scalar self,
Tensor other); bitwise_xor.Tensor(self, Tensor other); bitwise_xor_.Scalar(Tensor(a!) self, Scalar other) ->
Tensor(a!); bitwise_xor_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!); blackman_window(int window_length, *,
ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None); blackman_window.periodic(int
window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool?
pin_memory=None); block_diag(Tensor[] tensors); bmm(self, Tensor mat2); bmm.dtype(self, Tensor mat2, ScalarType
out_dtype); broadcast_tensors(Tensor[] tensors) -> Tensor[]; broadcast_to(Tensor(a) self, SymInt[] size);
bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False); bucketize.Tensor(self,
Tensor boundaries, *, bool out_int32=False, bool right=False); cartesian_prod(Tensor[] tensors); cat(Tensor[] tensors,
int dim=0); cauchy(self, float median=0., float sigma=1., *, Generator? generator=None); cauchy_(Tensor(a!) self, float
median=0., float sigma=1., *, Generator? generator=None) -> Tensor(a!); cdist(Tensor x1, Tensor x2, float p=2., int?
compute_mode=None); ceil(self); ceil_(Tensor(a!) self) -> Tensor(a!); celu(self, Scalar alpha=1.); celu_(Tensor(a!)
self, Scalar alpha=1.) -> Tensor(a!); chain_matmul(Tensor[] matrices); chalf(self, *, MemoryFormat?
memory_format=None); channel_shuffle(self, SymInt groups); cholesky(self, bool upper=False); cholesky_inverse(self,
bool upper=False); cholesky_solve(self, Tensor input2, bool upper=False); chunk(Tensor(a -> *) self, int chunks, int
dim=0) -> Tensor(a)[]; clamp(self, Scalar? min=None, Scalar? max=None); clamp.Tensor(self, Tensor? min=None, Tensor?
max=None); clamp_(Tensor(a!) self, Scalar? min=None, Scalar? max=None) -> Tensor(a!); clamp_.Tensor(Tensor(a!) self,
Tensor? min=None, Tensor? max=None) -> Tensor(a!); clamp_max(self, Scalar max); clamp_max.Tensor(self, Tensor max);
clamp_max_(Tensor(a!) self, Scalar max) -> Tensor(a!); clamp_max_.Tensor(Tensor(a!) self, Tensor max) -> Tensor(a!);
clamp_min(self, Scalar min); clamp_min.Tensor(self, Tensor min); clamp_min_(Tensor(a!) self, Scalar min) -> Tensor(a!);
clamp_min_.Tensor(Tensor(a!) self, Tensor min) -> Tensor(a!); clip(self, Scalar? min=None, Scalar? max=None);
clip.Tensor(self, Tensor? min=None, Tensor? max=None); clip_(Tensor(a!) self, Scalar? min=None, Scalar? max=None) ->
Tensor(a!); clip_.Tensor(Tensor(a!) self, Tensor? min=None, Tensor? max=None) -> Tensor(a!); clone(self, *,
MemoryFormat? memory_format=None); coalesce(Tensor(a) self); col2im(self, SymInt[2] output_size, int[2] kernel_size,
int[2] dilation, int[2] padding, int[2] stride); column_stack(Tensor[] tensors); combinations(self, int r=2, bool
with_replacement=False); complex(Tensor real, Tensor imag); concat(Tensor[] tensors, int dim=0); concatenate(Tensor[]
tensors, int dim=0); conj(Tensor(a) self); conj_physical(self); constant_pad_nd(self, SymInt[] pad, Scalar value=0);
contiguous(Tensor(a) self, *, MemoryFormat memory_format=0); conv1d(Tensor input, Tensor weight, Tensor? bias=None,
SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] dilation=[1], SymInt groups=1); conv1d.padding(Tensor input,
Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], str padding="valid", SymInt[1] dilation=[1], SymInt groups=1);
conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2]
dilation=[1, 1], SymInt groups=1); conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1,
1], str padding="valid", SymInt[2] dilation=[1, 1], SymInt groups=1); conv3d(Tensor input, Tensor weight, Tensor?
bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] dilation=[1, 1, 1], SymInt groups=1);
conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], str padding="valid",
SymInt[3] dilation=[1, 1, 1], SymInt groups=1); conv_tbc(self, Tensor weight, Tensor bias, int pad=0);
conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1]
output_padding=[0], SymInt groups=1, SymInt[1] dilation=[1]); conv_transpose2d.input(Tensor input, Tensor weight,
Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1,
SymInt[2] dilation=[1, 1]); conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1,
1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] output_padding=[0, 0, 0], SymInt groups=1, SymInt[3] dilation=[1, 1, 1]);
convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool
transposed, SymInt[] output_padding, SymInt groups); convolution_backward(Tensor grad_output, Tensor input, Tensor
weight, SymInt[]? bias_sizes, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[]
output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor); copy(self, Tensor src, bool
non_blocking=False); copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!); copy_.Tensor(Tensor(a!)
self, Tensor other) -> Tensor(a!); copy_.float(Tensor(a!) self, float other) -> Tensor(a!); copy_.int(Tensor(a!) self,
int other) -> Tensor(a!); copysign.Scalar(self, Scalar other); copysign.Tensor(self, Tensor other);
copysign_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!); copysign_.Tensor(Tensor(a!) self, Tensor other) ->
Tensor(a!); corrcoef(self); cos(self); cos_(Tensor(a!) self) -> Tensor(a!); cosh(self); cosh_(Tensor(a!) self) ->
Tensor(a!); cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1);
cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08); count_nonzero(self, int? dim=None);
count_nonzero.dim_IntList(self, int[] dim); cov(self, *, int correction=1, Tensor? fweights=None, Tensor?
aweights=None); cpu(Tensor(a) self) -> Tensor(b|a); cross(self, Tensor other, int? dim=None); cross_entropy_loss(self,
Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100, float label_smoothing=0.);
ctc_loss.IntList(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, int
reduction=1, bool zero_infinity=False); ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor
target_lengths, int blank=0, int reduction=1, bool zero_infinity=False); cummax(self, int dim) -> (Tensor values,
Tensor indices); cummin(self, int dim) -> (Tensor values, Tensor indices); cumprod(self, int dim, *, ScalarType?
dtype=None); cumprod_(Tensor(a!) self, int dim, *, ScalarType? dtype=None) -> Tensor(a!); cumsum(self, int dim, *,
ScalarType? dtype=None); cumsum_(Tensor(a!) self, int dim, *, ScalarType? dtype=None) -> Tensor(a!);
cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1); cumulative_trapezoid.x(Tensor y, Tensor x, *, int
dim=-1); deg2rad(self); deg2rad_(Tensor(a!) self) -> Tensor(a!); det(self); detach(Tensor(a) self); detach_copy(self);
diag(self, int diagonal=0); diag_embed(self, int offset=0, int dim1=-2, int dim2=-1); diagflat(self, int offset=0);
diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1); diagonal_backward(Tensor grad_output, SymInt[]
input_sizes, int offset, int dim1, int dim2); diagonal_copy(self, int offset=0, int dim1=0, int dim2=1);
diagonal_scatter(self, Tensor src, int offset=0, int dim1=0, int dim2=1); diff(self, int n=1, int dim=-1, Tensor?
prepend=None, Tensor? append=None); digamma(self); digamma_(Tensor(a!) self) -> Tensor(a!); dist(self, Tensor other,
Scalar p=2); div.Scalar(self, Scalar other); div.Scalar_mode(self, Scalar other, *, str? rounding_mode);
div.Tensor(self, Tensor other); div.Tensor_mode(self, Tensor other, *, str? rounding_mode); div_.Scalar(Tensor(a!)
self, Scalar other) -> Tensor(a!); div_.Scalar_mode(Tensor(a!) self, Scalar other, *, str? rounding_mode) ->
Tensor(a!); div_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!); div_.Tensor_mode(Tensor(a!) self, Tensor other,
*, str? rounding_mode) -> Tensor(a!); divide.Scalar(self, Scalar other); divide.Scalar_mode(self, Scalar other, *, str?
rounding_mode); divide.Tensor(self, Tensor other); divide.Tensor_mode(self, Tensor other, *, str? rounding_mode);
divide_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!); divide_.Scalar_mode(Tensor(a!) self, Scalar other, *, str?
rounding_mode) -> Tensor(a!); divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!);
divide_.Tensor_mode(Tensor(a!) self, Tensor other, *, str? rounding_mode) -> Tensor(a!); dot(self, Tensor tensor);
dropout(Tensor input, float p, bool train); dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!);
dsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]; dsplit.int(Tensor(a -> *) self, int sections) ->
Tensor(a)[]; dstack(Tensor[] tensors); einsum(str equation, Tensor[] tensors, *, int[]? path=None);
einsum.sublist(Tensor a, ...); elu(self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1); elu_(Tensor(a!) self,
Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor(a!); elu_backward(Tensor grad_output, Scalar alpha,
Scalar scale, Scalar input_scale, bool is_result, Tensor self_or_result); embedding(Tensor weight, Tensor indices,
SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False); embedding_bag(Tensor weight, Tensor indices,
Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool
include_last_offset=False) -> (Tensor, Tensor, Tensor, Tensor); embedding_bag.padding_idx(Tensor weight, Tensor
indices, Tensor offsets, bool scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, bool
include_last_offset, int? padding_idx) -> (Tensor, Tensor, Tensor, Tensor); embedding_dense_backward(Tensor
grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, bool scale_grad_by_freq); embedding_renorm(self,
Tensor indices, float max_norm, float norm_type); embedding_renorm_(Tensor(a!) self, Tensor indices, float max_norm,
float norm_type) -> Tensor(a!); empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None,
Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None); empty_like(self, *, ScalarType?
dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None);
empty_permuted(SymInt[] size, int[] physical_layout, *, ScalarType? dtype=None, Layout? layout=None, Device?
device=None, bool? pin_memory=None); empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout?
layout=None, Device? device=None, bool? pin_memory=None); eq.Scalar(self, Scalar other); eq.Tensor(self, Tensor other);
eq.Tensor_list(Tensor[] a, Tensor[] b) -> bool; eq_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!);
eq_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!); erf(self); erf_(Tensor(a!) self) -> Tensor(a!); erfc(self);
erfc_(Tensor(a!) self) -> Tensor(a!); erfinv(self); erfinv_(Tensor(a!) self) -> Tensor(a!); exp(self); exp2(self);
exp2_(Tensor(a!) self) -> Tensor(a!); exp_(Tensor(a!) self) -> Tensor(a!); expand(Tensor(a) self, SymInt[] size, *,
bool implicit=False); expand_as(Tensor(a) self, Tensor other); expand_copy(self, SymInt[] size, *, bool
implicit=False); expm1(self); expm1_(Tensor(a!) self) -> Tensor(a!); exponential(self, float lambd=1., *, Generator?
generator=None); exponential_(Tensor(a!) self, float lambd=1., *, Generator? generator=None) -> Tensor(a!); eye(SymInt
n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None); eye.m(SymInt n, SymInt
m, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None);
feature_alpha_dropout(Tensor input, float p, bool train); feature_alpha_dropout_(Tensor(a!) self, float p, bool train)
-> Tensor(a!); feature_dropout(Tensor input, float p, bool train); feature_dropout_(Tensor(a!) self, float p, bool
train) -> Tensor(a!); fft_fft(self, SymInt? n=None, int dim=-1, str? norm=None); fft_fft2(self, SymInt[1]? s=None,
int[1] dim=[-2, -1], str? norm=None); fft_fftfreq(int n, float d=1., *, ScalarType? dtype=None, Layout? layout=None,
Device? device=None, bool? pin_memory=None); fft_fftn(self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None);
fft_fftshift(self, int[1]? dim=None); fft_hfft(self, SymInt? n=None, int dim=-1, str? norm=None); fft_hfft2(self,
SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None); fft_hfftn(self, SymInt[1]? s=None, int[1]? dim=None, str?
norm=None); fft_ifft(self, SymInt? n=None, int dim=-1, str? norm=None); fft_ifft2(self, SymInt[1]? s=None, int[1]
dim=[-2, -1], str? norm=None); fft_ifftn(self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None);
fft_ifftshift(self, int[1]? dim=None); fft_ihfft(self, SymInt? n=None, int dim=-1, str? norm=None); fft_ihfft2(self,
SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None); fft_ihfftn(self, SymInt[1]? s=None, int[1]? dim=None, str?
norm=None); fft_irfft(self, SymInt? n=None, int dim=-1, str? norm=None); fft_irfft2(self, SymInt[1]? s=None, int[1]
dim=[-2, -1], str? norm=None); fft_irfftn(self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None); fft_rfft(self,
SymInt? n=None, int dim=-1, str? norm=None); fft_rfft2(self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None);
fft_rfftfreq(int n, float d=1., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool?
pin_memory=None); fft_rfftn(self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None); fill.Scalar(self, Scalar
value); fill.Tensor(self, Tensor value); fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!);
fill_.Tensor(Tensor(a!) self, Tensor value) -> Tensor(a!); fill_diagonal_(Tensor(a!) self, Scalar fill_value, bool
wrap=False) -> Tensor(a!); fix(self); fix_(Tensor(a!) self) -> Tensor(a!); flatten.using_ints(Tensor(a) self, int
start_dim=0, int end_dim=-1); flip(self, int[] dims); fliplr(self); flipud(self); float_power.Scalar(Scalar self,
Tensor exponent); float_power.Tensor_Scalar(self, Scalar exponent); float_power.Tensor_Tensor(self, Tensor exponent);
float_power_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!); float_power_.Tensor(Tensor(a!) self, Tensor
exponent) -> Tensor(a!); floor(self); floor_(Tensor(a!) self) -> Tensor(a!); floor_divide(self, Tensor other);
floor_divide.Scalar(self, Scalar other); floor_divide_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!);
floor_divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!); fmax(self, Tensor other); fmin(self, Tensor other);
fmod.Scalar(self, Scalar other); fmod.Tensor(self, Tensor other); fmod_.Scalar(Tensor(a!) self, Scalar other) ->
Tensor(a!); fmod_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!); frac(self); frac_(Tensor(a!) self) ->
Tensor(a!); fractional_max_pool2d(self, int[2] kernel_size, int[2] output_size, Tensor random_samples) -> (Tensor,
Tensor); fractional_max_pool3d(self, int[3] kernel_size, int[3] output_size, Tensor random_samples) -> (Tensor,
Tensor); frexp.Tensor(self) -> (Tensor mantissa, Tensor exponent); frobenius_norm.dim(self, int[1] dim, bool
keepdim=False); full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device?
device=None, bool? pin_memory=None); full_like(self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None,
Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None); gather(self, int dim, Tensor index, *,
bool sparse_grad=False); gcd(self, Tensor other); gcd_(Tensor(a!) self, Tensor other) -> Tensor(a!); ge.Scalar(self,
Scalar other); ge.Tensor(self, Tensor other); ge_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!);
ge_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!); gelu(self, *, str approximate="none"); gelu_backward(Tensor
grad_output, Tensor self, *, str approximate="none"); geometric(self, float p, *, Generator? generator=None);
geometric_(Tensor(a!) self, float p, *, Generator? generator=None) -> Tensor(a!); geqrf(self) -> (Tensor a, Tensor
tau); ger(self, Tensor vec2); glu(self, int dim=-1); glu_backward(Tensor grad_output, Tensor self, int dim);
gradient.array(self, *, int[] dim, int edge_order=1) -> Tensor[]; gradient.scalararray(self, *, Scalar spacing, int[]
dim, int edge_order=1) -> Tensor[]; gradient.scalarint(self, *, Scalar? spacing=None, int? dim=None, int edge_order=1)
-> Tensor[]; gradient.scalarrayarray(self, *, Scalar[] spacing, int[] dim, int edge_order=1) -> Tensor[];
gradient.scalarrayint(self, *, Scalar[] spacing, int? dim=None, int edge_order=1) -> Tensor[];
gradient.tensorarray(self, *, Tensor[] spacing, int[] dim, int edge_order=1) -> Tensor[]; gradient.tensorarrayint(self,
*, Tensor[] spacing, int? dim=None, int edge_order=1) -> Tensor[]; greater.Scalar(self, Scalar other);
greater.Tensor(self, Tensor other); greater_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!);
greater_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!); greater_equal.Scalar(self, Scalar other);
greater_equal.Tensor(self, Tensor other); greater_equal_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!);
greater_equal_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!); grid_sampler(Tensor input, Tensor grid, int
interpolation_mode, int padding_mode, bool align_corners); grid_sampler_2d(Tensor input, Tensor grid, int
interpolation_mode, int padding_mode, bool align_corners); grid_sampler_3d(Tensor input, Tensor grid, int
interpolation_mode, int padding_mode, bool align_corners); group_norm(Tensor input, int num_groups, Tensor?
weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enabled=True); gru.data(Tensor data,
Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool
bidirectional) -> (Tensor, Tensor); gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int
num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor); gru_cell(Tensor
input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None); gt.Scalar(self, Scalar other);
gt.Tensor(self, Tensor other); gt_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!); gt_.Tensor(Tensor(a!) self,
Tensor other) -> Tensor(a!); hamming_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device?
device=None, bool? pin_memory=None); hamming_window.periodic(int window_length, bool periodic, *, ScalarType?
dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None); hamming_window.periodic_alpha(int
window_length, bool periodic, float alpha, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool?
pin_memory=None); hamming_window.periodic_alpha_beta(int window_length, bool periodic, float alpha, float beta, *,
ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None); hann_window(int
window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None);
hann_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device?
device=None, bool? pin_memory=None); hardshrink(self, Scalar lambd=0.5); hardshrink_backward(Tensor grad_out, Tensor
self, Scalar lambd); hardsigmoid(self); hardsigmoid_(Tensor(a!) self) -> Tensor(a!); hardsigmoid_backward(Tensor
grad_output, Tensor self); hardswish(self); hardswish_(Tensor(a!) self) -> Tensor(a!); hardswish_backward(Tensor
grad_output, Tensor self); hardtanh(self, Scalar min_val=-1, Scalar max_val=1); hardtanh_(Tensor(a!) self, Scalar
min_val=-1, Scalar max_val=1) -> Tensor(a!); hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar
max_val); hash_tensor(self, int[1] dim=[], *, bool keepdim=False, int mode=0); heaviside(self, Tensor values);
heaviside_(Tensor(a!) self, Tensor values) -> Tensor(a!); hinge_embedding_loss(self, Tensor target, float margin=1.,
int reduction=1); histc(self, int bins=100, Scalar min=0, Scalar max=0); histogram.bin_ct(self, int bins=100, *,
float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges);
histogram.bins_tensor(self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor
bin_edges); histogramdd(self, int[] bins, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor
hist, Tensor[] bin_edges); histogramdd.TensorList_bins(self, Tensor[] bins, float[]? range=None, Tensor? weight=None,
bool density=False) -> (Tensor hist, Tensor[] bin_edges); histogramdd.int_bins(self, int bins, float[]? range=None,
Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges); hsplit.array(Tensor(a -> *) self, int[]
indices) -> Tensor(a)[]; hsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]; hstack(Tensor[] tensors);
huber_loss(self, Tensor target, int reduction=1, float delta=1.); huber_loss_backward(Tensor grad_output, Tensor self,
Tensor target, int reduction, float delta); hypot(self, Tensor other); hypot_(Tensor(a!) self, Tensor other) ->
Tensor(a!); i0(self); i0_(Tensor(a!) self) -> Tensor(a!); igamma(self, Tensor other); igamma_(Tensor(a!) self, Tensor
other) -> Tensor(a!); igammac(self, Tensor other); igammac_(Tensor(a!) self, Tensor other) -> Tensor(a!); im2col(self,
int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride); imag(Tensor(a) self); index.Tensor(self, Tensor?[]
indices); index.list_Tensor(Tensor[] self, Tensor el) -> int; index_add(self, int dim, Tensor index, Tensor source, *,
Scalar alpha=1); index_add_(Tensor(a!) self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor(a!);
index_copy(self, int dim, Tensor index, Tensor source); index_copy_(Tensor(a!) self, int dim, Tensor index, Tensor
source) -> Tensor(a!); index_fill.int_Scalar(self, int dim, Tensor index, Scalar value); index_fill.int_Tensor(self,
int dim, Tensor index, Tensor value); index_fill_.int_Scalar(Tensor(a!) self, int dim, Tensor index, Scalar value) ->
Tensor(a!); index_fill_.int_Tensor(Tensor(a!) self, int dim, Tensor index, Tensor value) -> Tensor(a!); index_put(self,
Tensor?[] indices, Tensor values, bool accumulate=False); index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values,
bool accumulate=False) -> Tensor(a!); index_reduce(self, int dim, Tensor index, Tensor source, str reduce, *, bool
include_self=True); index_reduce_(Tensor(a!) self, int dim, Tensor index, Tensor source, str reduce, *, bool
include_self=True) -> Tensor(a!); index_select(self, int dim, Tensor index); inner(self, Tensor other);
instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool
use_input_stats, float momentum, float eps, bool cudnn_enabled); inverse(self); isclose(self, Tensor other, float
rtol=1.0000000000000001e-05, float atol=1e-08, bool equal_nan=False); isfinite(self); isin.Scalar_Tensor(Scalar
element, Tensor test_elements, *, bool assume_unique=False, bool invert=False); isin.Tensor_Scalar(Tensor elements,
Scalar test_element, *, bool assume_unique=False, bool invert=False); isin.Tensor_Tensor(Tensor elements, Tensor
test_elements, *, bool assume_unique=False, bool invert=False); isinf(self); isnan(self); isneginf(self);
isposinf(self); isreal(self); istft(self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None,
bool center=True, bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False);
kaiser_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool?
pin_memory=None); kaiser_window.beta(int window_length, bool periodic, float beta, *, ScalarType? dtype=None, Layout?
layout=None, Device? device=None, bool? pin_memory=None); kaiser_window.periodic(int window_length, bool periodic, *,
ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None); kl_div(self, Tensor target,
int reduction=1, *, bool log_target=False); kron(self, Tensor other); kthvalue(self, SymInt k, int dim=-1, bool
keepdim=False) -> (Tensor values, Tensor indices); l1_loss(self, Tensor target, int reduction=1); layer_norm(Tensor
input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, bool
cudnn_enable=True); lcm(self, Tensor other); lcm_(Tensor(a!) self, Tensor other) -> Tensor(a!); ldexp.Tensor(self,
Tensor other); ldexp_(Tensor(a!) self, Tensor other) -> Tensor(a!); le.Scalar(self, Scalar other); le.Tensor(self,
Tensor other); le_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!); le_.Tensor(Tensor(a!) self, Tensor other) ->
Tensor(a!); leaky_relu(self, Scalar negative_slope=0.01); leaky_relu_(Tensor(a!) self, Scalar negative_slope=0.01) ->
Tensor(a!); leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result);
lerp.Scalar(self, Tensor end, Scalar weight); lerp.Tensor(self, Tensor end, Tensor weight); lerp_.Scalar(Tensor(a!)
self, Tensor end, Scalar weight) -> Tensor(a!); lerp_.Tensor(Tensor(a!) self, Tensor end, Tensor weight) -> Tensor(a!);
less.Scalar(self, Scalar other); less.Tensor(self, Tensor other); less_.Scalar(Tensor(a!) self, Scalar other) ->
Tensor(a!); less_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!); less_equal.Scalar(self, Scalar other);
less_equal.Tensor(self, Tensor other); less_equal_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!);
less_equal_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!); lgamma(self); lgamma_(Tensor(a!) self) -> Tensor(a!);
lift(self); lift_fresh(Tensor(a) self); lift_fresh_copy(self); linalg_cholesky(self, *, bool upper=False);
linalg_cholesky_ex(self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info); linalg_cond(self,
Scalar? p=None); linalg_cond.p_str(self, str p); linalg_cross(self, Tensor other, *, int dim=-1); linalg_det(Tensor A);
linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1); linalg_eig(self) -> (Tensor eigenvalues,
Tensor eigenvectors); linalg_eigh(self, str UPLO="L") -> (Tensor eigenvalues, Tensor eigenvectors);
linalg_eigvals(self); linalg_eigvalsh(self, str UPLO="L"); linalg_householder_product(Tensor input, Tensor tau);
linalg_inv(Tensor A); linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info);
linalg_ldl_factor(self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots); linalg_ldl_factor_ex(self, *, bool
hermitian=False, bool check_errors=False) -> (Tensor LD, Tensor pivots, Tensor info); linalg_ldl_solve(Tensor LD,
Tensor pivots, Tensor B, *, bool hermitian=False); linalg_lstsq(self, Tensor b, float? rcond=None, *, str? driver=None)
-> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values); linalg_lu(Tensor A, *, bool pivot=True) ->
(Tensor P, Tensor L, Tensor U); linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots);
linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info);
linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False); linalg_matmul(self, Tensor
other); linalg_matrix_exp(self); linalg_matrix_norm(self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *,
ScalarType? dtype=None); linalg_matrix_norm.str_ord(self, str ord="fro", int[] dim=[-2, -1], bool keepdim=False, *,
ScalarType? dtype=None); linalg_matrix_power(self, int n); linalg_matrix_rank(self, float tol, bool hermitian=False);
linalg_matrix_rank.atol_rtol_float(self, *, float? atol=None, float? rtol=None, bool hermitian=False);
linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False);
linalg_matrix_rank.tol_tensor(Tensor input, Tensor tol, bool hermitian=False); linalg_multi_dot(Tensor[] tensors);
linalg_norm(self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None);
linalg_norm.ord_str(self, str ord, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None); linalg_pinv(self,
float rcond, bool hermitian=False); linalg_pinv.atol_rtol_float(self, *, float? atol=None, float? rtol=None, bool
hermitian=False); linalg_pinv.atol_rtol_tensor(self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False);
linalg_pinv.rcond_tensor(self, Tensor rcond, bool hermitian=False); linalg_qr(Tensor A, str mode="reduced") -> (Tensor
Q, Tensor R); linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet); linalg_solve(Tensor A, Tensor B, *, bool
left=True); linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor
info); linalg_solve_triangular(self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False);
linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh);
linalg_svdvals(Tensor A, *, str? driver=None); linalg_tensorinv(self, int ind=2); linalg_tensorsolve(self, Tensor
other, int[]? dims=None); linalg_vander(Tensor x, *, SymInt? N=None); linalg_vecdot(Tensor x, Tensor y, *, int dim=-1);
linalg_vector_norm(self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None); linear(Tensor
input, Tensor weight, Tensor? bias=None); linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None,
Layout? layout=None, Device? device=None, bool? pin_memory=None); linspace.Scalar_Tensor(Scalar start, Tensor end, int
steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None);
linspace.Tensor_Scalar(Tensor start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device?
device=None, bool? pin_memory=None); linspace.Tensor_Tensor(Tensor start, Tensor end, int steps, *, ScalarType?
dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None); log(self); log10(self); log10_(Tensor(a!)
self) -> Tensor(a!); log1p(self); log1p_(Tensor(a!) self) -> Tensor(a!); log2(self); log2_(Tensor(a!) self) ->
Tensor(a!); log_(Tensor(a!) self) -> Tensor(a!); log_normal(self, float mean=1., float std=2., *, Generator?
generator=None); log_normal_(Tensor(a!) self, float mean=1., float std=2., *, Generator? generator=None) -> Tensor(a!);
log_sigmoid(self); log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer); log_sigmoid_forward(self) ->
(Tensor output, Tensor buffer); log_softmax.int(self, int dim, ScalarType? dtype=None); logaddexp(self, Tensor other);
logaddexp2(self, Tensor other); logcumsumexp(self, int dim); logdet(self); logical_and(self, Tensor other);
logical_and_(Tensor(a!) self, Tensor other) -> Tensor(a!); logical_not(self); logical_not_(Tensor(a!) self) ->
Tensor(a!); logical_or(self, Tensor other); logical_or_(Tensor(a!) self, Tensor other) -> Tensor(a!); logical_xor(self,
Tensor other); logical_xor_(Tensor(a!) self, Tensor other) -> Tensor(a!); logit(self, float? eps=None);
logit_(Tensor(a!) self, float? eps=None) -> Tensor(a!); logspace(Scalar start, Scalar end, int steps, float base=10.,
*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None);
logspace.Scalar_Tensor(Scalar start, Tensor end, int steps, float base=10., *, ScalarType? dtype=None, Layout?
layout=None, Device? device=None, bool? pin_memory=None); logspace.Tensor_Scalar(Tensor start, Scalar end, int steps,
float base=10., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None);
logspace.Tensor_Tensor(Tensor start, Tensor end, int steps, float base=10., *, ScalarType? dtype=None, Layout?
layout=None, Device? device=None, bool? pin_memory=None); logsumexp(self, int[1] dim, bool keepdim=False);
lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float
dropout, bool train, bool bidirectional) -> (Tensor, Tensor, Tensor); lstm.input(Tensor input, Tensor[] hx, Tensor[]
params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor,
Tensor, Tensor); lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None)
-> (Tensor, Tensor); lt.Scalar(self, Scalar other); lt.Tensor(self, Tensor other); lt_.Scalar(Tensor(a!) self, Scalar
other) -> Tensor(a!); lt_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!); lu_solve(self, Tensor LU_data, Tensor
LU_pivots); lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P,
Tensor L, Tensor U); mH(Tensor(a) self); mH.a(Tensor(a) self); mT(Tensor(a) self); mT.a(Tensor(a) self);
margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1);
masked_fill.Scalar(self, Tensor mask, Scalar value); masked_fill.Tensor(self, Tensor mask, Tensor value);
masked_fill_.Scalar(Tensor(a!) self, Tensor mask, Scalar value) -> Tensor(a!); masked_fill_.Tensor(Tensor(a!) self,
Tensor mask, Tensor value) -> Tensor(a!); masked_scatter(self, Tensor mask, Tensor source); masked_scatter_(Tensor(a!)
self, Tensor mask, Tensor source) -> Tensor(a!); masked_select(self, Tensor mask); matmul(self, Tensor other);
matrix_H(Tensor(a) self); matrix_H.a(Tensor(a) self); matrix_exp(self); matrix_power(self, int n); max(self);
max.dim(self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices); max.other(self, Tensor other);
max_pool1d(self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False);
max_pool1d_with_indices(self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool
ceil_mode=False) -> (Tensor, Tensor); max_pool2d(self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2]
dilation=1, bool ceil_mode=False); max_pool2d_with_indices(self, int[2] kernel_size, int[2] stride=[], int[2]
padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor); max_pool2d_with_indices_backward(Tensor
grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor
indices); max_pool3d(self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool
ceil_mode=False); max_pool3d_with_indices(self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3]
dilation=1, bool ceil_mode=False) -> (Tensor, Tensor); max_pool3d_with_indices_backward(Tensor grad_output, Tensor
self, int[3] kernel_size, int[3] stride, int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices);
max_unpool2d(self, Tensor indices, SymInt[2] output_size); max_unpool3d(self, Tensor indices, SymInt[3] output_size,
int[3] stride, int[3] padding); maximum(self, Tensor other); mean(self, *, ScalarType? dtype=None); mean.dim(self,
int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None); median(self); median.dim(self, int dim, bool
keepdim=False) -> (Tensor values, Tensor indices); meshgrid(Tensor[] tensors) -> Tensor[]; meshgrid.indexing(Tensor[]
tensors, *, str indexing) -> Tensor[]; min(self); min.dim(self, int dim, bool keepdim=False) -> (Tensor values, Tensor
indices); min.other(self, Tensor other); minimum(self, Tensor other); mish(self); mish_(Tensor(a!) self) -> Tensor(a!);
mish_backward(Tensor grad_output, Tensor self); mm(self, Tensor mat2); mm.dtype(self, Tensor mat2, ScalarType
out_dtype); mode(self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices); moveaxis.int(Tensor(a) self,
int source, int destination); moveaxis.intlist(Tensor(a) self, int[] source, int[] destination); movedim.int(Tensor(a)
self, int source, int destination); movedim.intlist(Tensor(a) self, int[] source, int[] destination); mse_loss(self,
Tensor target, int reduction=1); mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction);
msort(self); mul.Scalar(self, Scalar other); mul.Tensor(self, Tensor other); mul_.Scalar(Tensor(a!) self, Scalar other)
-> Tensor(a!); mul_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!); multi_margin_loss(self, Tensor target, Scalar
p=1, Scalar margin=1, Tensor? weight=None, int reduction=1); multilabel_margin_loss(self, Tensor target, int
reduction=1); multinomial(self, SymInt num_samples, bool replacement=False, *, Generator? generator=None);
multiply.Scalar(self, Scalar other); multiply.Tensor(self, Tensor other); multiply_.Scalar(Tensor(a!) self, Scalar
other) -> Tensor(a!); multiply_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!); mv(self, Tensor vec);
mvlgamma(self, int p); mvlgamma_(Tensor(a!) self, int p) -> Tensor(a!); nan_to_num(self, float? nan=None, float?
posinf=None, float? neginf=None); nan_to_num_(Tensor(a!) self, float? nan=None, float? posinf=None, float? neginf=None)
-> Tensor(a!); nanmean(self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None); nanmedian(self);
nanmedian.dim(self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices); nanquantile(self, Tensor q, int?
dim=None, bool keepdim=False, *, str interpolation="linear"); nanquantile.scalar(self, float q, int? dim=None, bool
keepdim=False, *, str interpolation="linear"); nansum(self, int[1]? dim=None, bool keepdim=False, *, ScalarType?
dtype=None); narrow(Tensor(a) self, int dim, SymInt start, SymInt length); narrow.Tensor(Tensor(a) self, int dim,
Tensor start, SymInt length); narrow_copy(self, int dim, SymInt start, SymInt length); native_batch_norm(Tensor input,
Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps) ->
(Tensor, Tensor, Tensor); native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor?
running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask)
-> (Tensor, Tensor, Tensor); native_channel_shuffle(self, SymInt groups); native_dropout(Tensor input, float p, bool?
train) -> (Tensor, Tensor); native_dropout_backward(Tensor grad_output, Tensor mask, float scale);
native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) ->
(Tensor, Tensor, Tensor); native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor?
weight, SymInt N, SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, Tensor);
native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor,
Tensor); native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd,
Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor); ne.Scalar(self, Scalar other);
ne.Tensor(self, Tensor other); ne.Tensor_list(Tensor[] a, Tensor[] b) -> bool; ne_.Scalar(Tensor(a!) self, Scalar
other) -> Tensor(a!); ne_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!); neg(self); neg_(Tensor(a!) self) ->
Tensor(a!); negative(self); negative_(Tensor(a!) self) -> Tensor(a!); new_empty(self, SymInt[] size, *, ScalarType?
dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None); new_empty_strided(self, SymInt[] size,
SymInt[] stride, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None);
new_full(self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
bool? pin_memory=None); new_ones(self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device?
device=None, bool? pin_memory=None); new_zeros(self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None,
Device? device=None, bool? pin_memory=None); nextafter(self, Tensor other); nextafter_(Tensor(a!) self, Tensor other)
-> Tensor(a!); nll_loss(self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100);
nll_loss2d(self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100);
nll_loss2d_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index,
Tensor total_weight); nll_loss2d_forward(self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) ->
(Tensor output, Tensor total_weight); nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight,
int reduction, SymInt ignore_index, Tensor total_weight); nll_loss_forward(self, Tensor target, Tensor? weight, int
reduction, SymInt ignore_index) -> (Tensor output, Tensor total_weight); nll_loss_nd(self, Tensor target, Tensor?
weight=None, int reduction=1, SymInt ignore_index=-100); nonzero(self); nonzero_static(self, *, SymInt size, int
fill_value=-1); norm.Scalar(self, Scalar p=2); norm.ScalarOpt_dim(self, Scalar? p, int[1] dim, bool keepdim=False);
norm.ScalarOpt_dim_dtype(self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype); norm.ScalarOpt_dtype(self,
Scalar? p, *, ScalarType dtype); norm_except_dim(Tensor v, int pow=2, int dim=0); normal.Tensor_Tensor(Tensor mean,
Tensor std, *, Generator? generator=None); normal.Tensor_float(Tensor mean, float std=1., *, Generator?
generator=None); normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None); normal.float_float(float
mean, float std, SymInt[] size, *, Generator? generator=None, ScalarType? dtype=None, Layout? layout=None, Device?
device=None, bool? pin_memory=None); normal_(Tensor(a!) self, float mean=0., float std=1., *, Generator?
generator=None) -> Tensor(a!); normal_functional(self, float mean=0., float std=1., *, Generator? generator=None);
not_equal.Scalar(self, Scalar other); not_equal.Tensor(self, Tensor other); not_equal_.Scalar(Tensor(a!) self, Scalar
other) -> Tensor(a!); not_equal_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!); nuclear_norm(self, bool
keepdim=False); nuclear_norm.dim(self, int[2] dim, bool keepdim=False); numpy_T(Tensor(a) self); numpy_T.a(Tensor(a)
self); one_hot(self, int num_classes=-1); ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device?
device=None, bool? pin_memory=None); ones_like(self, *, ScalarType? dtype=None, Layout? layout=None, Device?
device=None, bool? pin_memory=None, MemoryFormat? memory_format=None); orgqr(self, Tensor input2); ormqr(self, Tensor
input2, Tensor input3, bool left=True, bool transpose=False); outer(self, Tensor vec2); pad(self, SymInt[] pad, str
mode="constant", float? value=None); pairwise_distance(Tensor x1, Tensor x2, float p=2., float
eps=9.9999999999999995e-07, bool keepdim=False); pdist(self, float p=2.); permute(Tensor(a) self, int[] dims);
permute_copy(self, int[] dims); pinverse(self, float rcond=1.0000000000000001e-15); pixel_shuffle(self, int
upscale_factor); pixel_unshuffle(self, int downscale_factor); poisson(self, Generator? generator=None);
poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction); polar(Tensor abs,
Tensor angle); polygamma(int n, Tensor self); polygamma_(Tensor(a!) self, int n) -> Tensor(a!); positive(Tensor(a)
self); pow.Scalar(Scalar self, Tensor exponent); pow.Tensor_Scalar(self, Scalar exponent); pow.Tensor_Tensor(self,
Tensor exponent); pow_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!); pow_.Tensor(Tensor(a!) self, Tensor
exponent) -> Tensor(a!); prelu(self, Tensor weight); prod(self, *, ScalarType? dtype=None); prod.dim_int(self, int dim,
bool keepdim=False, *, ScalarType? dtype=None); put(self, Tensor index, Tensor source, bool accumulate=False);
put_(Tensor(a!) self, Tensor index, Tensor source, bool accumulate=False) -> Tensor(a!); qr(self, bool some=True) ->
(Tensor Q, Tensor R); quantile(self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation="linear");
quantile.scalar(self, float q, int? dim=None, bool keepdim=False, *, str interpolation="linear"); rad2deg(self);
rad2deg_(Tensor(a!) self) -> Tensor(a!); rand(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device?
device=None, bool? pin_memory=None); rand.generator(SymInt[] size, *, Generator? generator, ScalarType? dtype=None,
Layout? layout=None, Device? device=None, bool? pin_memory=None); rand_like(self, *, ScalarType? dtype=None, Layout?
layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None); rand_like.generator(self,
*, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None,
MemoryFormat? memory_format=None); randint(SymInt high, SymInt[] size, *, ScalarType? dtype=4, Layout? layout=None,
Device? device=None, bool? pin_memory=None); randint.generator(SymInt high, SymInt[] size, *, Generator? generator,
ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None); randint.low(SymInt low, SymInt
high, SymInt[] size, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None);
randint.low_generator(SymInt low, SymInt high, SymInt[] size, *, Generator? generator, ScalarType? dtype=4, Layout?
layout=None, Device? device=None, bool? pin_memory=None); randint_like(self, SymInt high, *, ScalarType? dtype=None,
Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None);
randint_like.Tensor(self, Tensor high, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool?
pin_memory=None, MemoryFormat? memory_format=None); randint_like.Tensor_generator(self, Tensor high, *, Generator?
generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat?
memory_format=None); randint_like.generator(self, SymInt high, *, Generator? generator, ScalarType? dtype=None, Layout?
layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None);
randint_like.low_dtype(self, SymInt low, SymInt high, *, ScalarType? dtype=None, Layout? layout=None, Device?
device=None, bool? pin_memory=None, MemoryFormat? memory_format=None); randint_like.low_generator_dtype(self, SymInt
low, SymInt high, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool?
pin_memory=None, MemoryFormat? memory_format=None); randn(SymInt[] size, *, ScalarType? dtype=None, Layout?
layout=None, Device? device=None, bool? pin_memory=None); randn.generator(SymInt[] size, *, Generator? generator,
ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None); randn_like(self, *,
ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat?
memory_format=None); randn_like.generator(self, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None,
Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None); random(self, *, Generator?
generator=None); random.from(self, int from, int? to, *, Generator? generator=None); random.to(self, int to, *,
Generator? generator=None); random_(Tensor(a!) self, *, Generator? generator=None) -> Tensor(a!);
random_.from(Tensor(a!) self, int from, int? to, *, Generator? generator=None) -> Tensor(a!); random_.to(Tensor(a!)
self, int to, *, Generator? generator=None) -> Tensor(a!); randperm(SymInt n, *, ScalarType? dtype=4, Layout?
layout=None, Device? device=None, bool? pin_memory=None); randperm.generator(SymInt n, *, Generator? generator,
ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None); range(Scalar start, Scalar end,
*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None); range.step(Scalar start,
Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None);
ravel(Tensor(a) self); real(Tensor(a) self); reciprocal(self); reciprocal_(Tensor(a!) self) -> Tensor(a!);
reflection_pad1d(self, SymInt[2] padding); reflection_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2]
padding); reflection_pad2d(self, SymInt[4] padding); reflection_pad2d_backward(Tensor grad_output, Tensor self,
SymInt[4] padding); reflection_pad3d(self, SymInt[6] padding); reflection_pad3d_backward(Tensor grad_output, Tensor
self, SymInt[6] padding); relu(self); relu6(self); relu6_(Tensor(a!) self) -> Tensor(a!); relu_(Tensor(a!) self) ->
Tensor(a!); remainder.Scalar(self, Scalar other); remainder.Scalar_Tensor(Scalar self, Tensor other);
remainder.Tensor(self, Tensor other); remainder_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!);
remainder_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!); renorm(self, Scalar p, int dim, Scalar maxnorm);
renorm_(Tensor(a!) self, Scalar p, int dim, Scalar maxnorm) -> Tensor(a!); repeat(self, SymInt[] repeats);
repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None); repeat_interleave.self_Tensor(self, Tensor
repeats, int? dim=None, *, SymInt? output_size=None); repeat_interleave.self_int(self, SymInt repeats, int? dim=None,
*, SymInt? output_size=None); replication_pad1d(self, SymInt[2] padding); replication_pad1d_backward(Tensor
grad_output, Tensor self, SymInt[2] padding); replication_pad2d(self, SymInt[4] padding);
replication_pad2d_backward(Tensor grad_output, Tensor self, SymInt[4] padding); replication_pad3d(self, SymInt[6]
padding); replication_pad3d_backward(Tensor grad_output, Tensor self, SymInt[6] padding); reshape(Tensor(a) self,
SymInt[] shape); reshape_as(Tensor(a) self, Tensor other); resolve_conj(Tensor(a) self); resolve_neg(Tensor(a) self);
rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None); rnn_relu.data(Tensor data,
Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool
bidirectional) -> (Tensor, Tensor); rnn_relu.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int
num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor); rnn_relu_cell(Tensor
input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None); rnn_tanh.data(Tensor data, Tensor
batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool
bidirectional) -> (Tensor, Tensor); rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int
num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor); rnn_tanh_cell(Tensor
input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None); roll(self, SymInt[1] shifts, int[1]
dims=[]); rot90(self, int k=1, int[] dims=[0, 1]); round(self); round.decimals(self, *, int decimals);
round_(Tensor(a!) self) -> Tensor(a!); round_.decimals(Tensor(a!) self, *, int decimals) -> Tensor(a!);
row_stack(Tensor[] tensors); rrelu(self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False,
Generator? generator=None); rrelu_(Tensor(a!) self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool
training=False, Generator? generator=None) -> Tensor(a!); rsqrt(self); rsqrt_(Tensor(a!) self) -> Tensor(a!);
rsub.Scalar(self, Scalar other, Scalar alpha=1); rsub.Tensor(self, Tensor other, *, Scalar alpha=1);
scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None);
scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool
is_causal=False, *, float? scale=None, bool enable_gqa=False); scatter.reduce(self, int dim, Tensor index, Tensor src,
*, str reduce); scatter.src(self, int dim, Tensor index, Tensor src); scatter.value(self, int dim, Tensor index, Scalar
value); scatter.value_reduce(self, int dim, Tensor index, Scalar value, *, str reduce); scatter_.reduce(Tensor(a!)
self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor(a!); scatter_.src(Tensor(a!) self, int dim, Tensor
index, Tensor src) -> Tensor(a!); scatter_.value(Tensor(a!) self, int dim, Tensor index, Scalar value) -> Tensor(a!);
scatter_.value_reduce(Tensor(a!) self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor(a!);
scatter_add(self, int dim, Tensor index, Tensor src); scatter_add_(Tensor(a!) self, int dim, Tensor index, Tensor src)
-> Tensor(a!); scatter_reduce.two(self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True);
scatter_reduce_.two(Tensor(a!) self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) ->
Tensor(a!); searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str?
side=None, Tensor? sorter=None); searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool
right=False, str? side=None, Tensor? sorter=None); segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None,
Tensor? indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None); select.int(Tensor(a)
self, int dim, SymInt index); select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index);
select_copy.int(self, int dim, SymInt index); select_scatter(self, Tensor src, int dim, SymInt index); selu(self);
selu_(Tensor(a!) self) -> Tensor(a!); sgn(self); sgn_(Tensor(a!) self) -> Tensor(a!); sigmoid(self);
sigmoid_(Tensor(a!) self) -> Tensor(a!); sigmoid_backward(Tensor grad_output, Tensor output); sign(self);
sign_(Tensor(a!) self) -> Tensor(a!); signbit(self); silu(self); silu_(Tensor(a!) self) -> Tensor(a!);
silu_backward(Tensor grad_output, Tensor self); sin(self); sin_(Tensor(a!) self) -> Tensor(a!); sinc(self);
sinc_(Tensor(a!) self) -> Tensor(a!); sinh(self); sinh_(Tensor(a!) self) -> Tensor(a!); slice.Tensor(Tensor(a) self,
int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1); slice_backward(Tensor grad_output, SymInt[]
input_sizes, int dim, SymInt start, SymInt end, SymInt step); slice_copy.Tensor(self, int dim=0, SymInt? start=None,
SymInt? end=None, SymInt step=1); slice_inverse(Tensor(a) self, Tensor src, int dim=0, SymInt? start=None, SymInt?
end=None, SymInt step=1); slice_scatter(self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt
step=1); slogdet(self) -> (Tensor sign, Tensor logabsdet); smooth_l1_loss(self, Tensor target, int reduction=1, float
beta=1.); smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float beta);
soft_margin_loss(self, Tensor target, int reduction=1); soft_margin_loss_backward(Tensor grad_output, Tensor self,
Tensor target, int reduction); softmax.int(self, int dim, ScalarType? dtype=None); softplus(self, Scalar beta=1, Scalar
threshold=20); softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold); softshrink(self,
Scalar lambd=0.5); softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd); sort(self, int dim=-1, bool
descending=False) -> (Tensor values, Tensor indices); sort.Tensor(Tensor[](a!) self, bool reverse=False) -> ();
sort.stable(self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices);
special_airy_ai(Tensor x); special_bessel_j0(self); special_bessel_j1(self); special_bessel_y0(self);
special_bessel_y1(self); special_chebyshev_polynomial_t(Tensor x, Tensor n);
special_chebyshev_polynomial_t.n_scalar(Tensor x, Scalar n); special_chebyshev_polynomial_t.x_scalar(Scalar x, Tensor
n); special_chebyshev_polynomial_u(Tensor x, Tensor n); special_chebyshev_polynomial_u.n_scalar(Tensor x, Scalar n);
special_chebyshev_polynomial_u.x_scalar(Scalar x, Tensor n); special_chebyshev_polynomial_v(Tensor x, Tensor n);
special_chebyshev_polynomial_v.n_scalar(Tensor x, Scalar n); special_chebyshev_polynomial_v.x_scalar(Scalar x, Tensor
n); special_chebyshev_polynomial_w(Tensor x, Tensor n); special_chebyshev_polynomial_w.n_scalar(Tensor x, Scalar n);
special_chebyshev_polynomial_w.x_scalar(Scalar x, Tensor n); special_digamma(self); special_entr(self);
special_erf(self); special_erfc(self); special_erfcx(self); special_erfinv(self); special_exp2(self);
special_expit(self); special_expm1(self); special_gammainc(self, Tensor other); special_gammaincc(self, Tensor other);
special_gammaln(self); special_hermite_polynomial_h(Tensor x, Tensor n); special_hermite_polynomial_h.n_scalar(Tensor
x, Scalar n); special_hermite_polynomial_h.x_scalar(Scalar x, Tensor n); special_hermite_polynomial_he(Tensor x, Tensor
n); special_hermite_polynomial_he.n_scalar(Tensor x, Scalar n); special_hermite_polynomial_he.x_scalar(Scalar x, Tensor
n); special_i0(self); special_i0e(self); special_i1(self); special_i1e(self); special_laguerre_polynomial_l(Tensor x,
Tensor n); special_laguerre_polynomial_l.n_scalar(Tensor x, Scalar n); special_laguerre_polynomial_l.x_scalar(Scalar x,
Tensor n); special_legendre_polynomial_p(Tensor x, Tensor n); special_legendre_polynomial_p.n_scalar(Tensor x, Scalar
n); special_legendre_polynomial_p.x_scalar(Scalar x, Tensor n); special_log1p(self); special_log_ndtr(self);
special_log_softmax(self, int dim, *, ScalarType? dtype=None); special_logit(self, float? eps=None);
special_logsumexp(self, int[1] dim, bool keepdim=False); special_modified_bessel_i0(self);
special_modified_bessel_i1(self); special_modified_bessel_k0(self); special_modified_bessel_k1(self);
special_multigammaln(self, int p); special_ndtr(self); special_ndtri(self); special_polygamma(int n, Tensor self);
special_psi(self); special_round(self, *, int decimals=0); special_scaled_modified_bessel_k0(Tensor x);
special_scaled_modified_bessel_k1(Tensor x); special_shifted_chebyshev_polynomial_t(Tensor x, Tensor n);
special_shifted_chebyshev_polynomial_t.n_scalar(Tensor x, Scalar n);
special_shifted_chebyshev_polynomial_t.x_scalar(Scalar x, Tensor n); special_shifted_chebyshev_polynomial_u(Tensor x,
Tensor n); special_shifted_chebyshev_polynomial_u.n_scalar(Tensor x, Scalar n);
special_shifted_chebyshev_polynomial_u.x_scalar(Scalar x, Tensor n); special_shifted_chebyshev_polynomial_v(Tensor x,
Tensor n); special_shifted_chebyshev_polynomial_v.n_scalar(Tensor x, Scalar n);
special_shifted_chebyshev_polynomial_v.x_scalar(Scalar x, Tensor n); special_shifted_chebyshev_polynomial_w(Tensor x,
Tensor n); special_shifted_chebyshev_polynomial_w.n_scalar(Tensor x, Scalar n);
special_shifted_chebyshev_polynomial_w.x_scalar(Scalar x, Tensor n); special_sinc(self); special_softmax(self, int dim,
ScalarType? dtype=None); special_spherical_bessel_j0(Tensor x); special_xlog1py(self, Tensor other);
special_xlog1py.other_scalar(self, Scalar other); special_xlog1py.self_scalar(Scalar self, Tensor other);
special_xlogy(self, Tensor other); special_xlogy.other_scalar(self, Scalar other); special_xlogy.self_scalar(Scalar
self, Tensor other); special_zeta(self, Tensor other); special_zeta.other_scalar(self, Scalar other);
special_zeta.self_scalar(Scalar self, Tensor other); split(Tensor(a -> *) self, int[] split_sizes, int dim=0) ->
Tensor(a)[]; split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]; split.sizes(Tensor(a -> *)
self, SymInt[] split_size, int dim=0) -> Tensor(a)[]; split_copy.Tensor(self, SymInt split_size, int dim=0) ->
Tensor[]; split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[];
split_with_sizes_copy(self, SymInt[] split_sizes, int dim=0) -> Tensor[]; sqrt(self); sqrt_(Tensor(a!) self) ->
Tensor(a!); square(self); square_(Tensor(a!) self) -> Tensor(a!); squeeze(Tensor(a) self); squeeze.dim(Tensor(a) self,
int dim); squeeze.dims(Tensor(a) self, int[] dim); squeeze_copy(self); squeeze_copy.dim(self, int dim);
squeeze_copy.dims(self, int[] dim); stack(Tensor[] tensors, int dim=0); std(self, bool unbiased=True);
std.correction(self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False); std.dim(self, int[1]? dim, bool
unbiased=True, bool keepdim=False); std_mean(self, bool unbiased=True) -> (Tensor, Tensor); std_mean.correction(self,
int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor); std_mean.dim(self, int[1]? dim,
bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor); stft(self, int n_fft, int? hop_length=None, int?
win_length=None, Tensor? window=None, bool normalized=False, bool? onesided=None, bool? return_complex=None, bool?
align_to_window=None); stft.center(self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None,
bool center=True, str pad_mode="reflect", bool normalized=False, bool? onesided=None, bool? return_complex=None, bool?
align_to_window=None); sub.Scalar(self, Scalar other, Scalar alpha=1); sub.Tensor(self, Tensor other, *, Scalar
alpha=1); sub_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!); sub_.Tensor(Tensor(a!) self, Tensor
other, *, Scalar alpha=1) -> Tensor(a!); subtract.Scalar(self, Scalar other, Scalar alpha=1); subtract.Tensor(self,
Tensor other, *, Scalar alpha=1); subtract_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!);
subtract_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!); sum(self, *, ScalarType? dtype=None);
sum.dim_IntList(self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None); sum_to_size(self, SymInt[] size);
svd(self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V); swapaxes(Tensor(a) self, int axis0,
int axis1); swapdims(Tensor(a) self, int dim0, int dim1); sym_numel(self) -> SymInt; sym_size(self) -> SymInt[];
sym_size.int(self, int dim) -> SymInt; sym_storage_offset(self) -> SymInt; sym_stride(self) -> SymInt[];
sym_stride.int(self, int dim) -> SymInt; t(Tensor(a) self); t_copy(self); take(self, Tensor index);
take_along_dim(self, Tensor indices, int? dim=None); tan(self); tan_(Tensor(a!) self) -> Tensor(a!); tanh(self);
tanh_(Tensor(a!) self) -> Tensor(a!); tanh_backward(Tensor grad_output, Tensor output); tensor_split.indices(Tensor(a
-> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]; tensor_split.sections(Tensor(a -> *) self, SymInt sections,
int dim=0) -> Tensor(a)[]; tensor_split.tensor_indices_or_sections(Tensor(a -> *) self, Tensor
tensor_indices_or_sections, int dim=0) -> Tensor(a)[]; tensordot(self, Tensor other, int[] dims_self, int[]
dims_other); threshold(self, Scalar threshold, Scalar value); threshold_(Tensor(a!) self, Scalar threshold, Scalar
value) -> Tensor(a!); threshold_backward(Tensor grad_output, Tensor self, Scalar threshold); tile(self, SymInt[] dims);
to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat?
memory_format=None); to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat?
memory_format=None); to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device?
device=None, bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None);
to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None);
to.prim_Device(Tensor(a) self, Device? device, int? dtype=None, bool non_blocking=False, bool copy=False) ->
Tensor(b|a); to.prim_dtype(Tensor(a) self, int? dtype=None, bool non_blocking=False, bool copy=False) -> Tensor(b|a);
to.prim_other(Tensor(a) self, bool non_blocking=False, bool copy=False) -> Tensor(b|a); to_dense(self, ScalarType?
dtype=None, *, bool? masked_grad=None); to_padded_tensor(self, float padding, SymInt[]? output_size=None); topk(self,
SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices); trace(self);
transpose.int(Tensor(a) self, int dim0, int dim1); transpose_copy.int(self, int dim0, int dim1); trapezoid.dx(Tensor y,
*, Scalar dx=1, int dim=-1); trapezoid.x(Tensor y, Tensor x, *, int dim=-1); trapz.dx(Tensor y, *, float dx=1., int
dim=-1); trapz.x(Tensor y, Tensor x, *, int dim=-1); triangular_solve(self, Tensor A, bool upper=True, bool
transpose=False, bool unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient); tril(self, SymInt
diagonal=0); tril_(Tensor(a!) self, SymInt diagonal=0) -> Tensor(a!); tril_indices(int row, int col, int offset=0, *,
ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None); triplet_margin_loss(Tensor
anchor, Tensor positive, Tensor negative, float margin=1., float p=2., float eps=9.9999999999999995e-07, bool
swap=False, int reduction=1); triu(self, SymInt diagonal=0); triu_(Tensor(a!) self, SymInt diagonal=0) -> Tensor(a!);
triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool?
pin_memory=None); true_divide.Scalar(self, Scalar other); true_divide.Tensor(self, Tensor other);
true_divide_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!); true_divide_.Tensor(Tensor(a!) self, Tensor other) ->
Tensor(a!); trunc(self); trunc_(Tensor(a!) self) -> Tensor(a!); type_as(self, Tensor other); unbind.int(Tensor(a -> *)
self, int dim=0) -> Tensor(a)[]; unbind_copy.int(self, int dim=0) -> Tensor[]; unflatten.int(Tensor(a) self, int dim,
SymInt[] sizes); unfold(Tensor(a) self, int dimension, int size, int step); unfold_backward(Tensor grad_in, SymInt[]
input_sizes, int dim, int size, int step); unfold_copy(self, int dimension, int size, int step); uniform(self, float
from=0., float to=1., *, Generator? generator=None); uniform_(Tensor(a!) self, float from=0., float to=1., *,
Generator? generator=None) -> Tensor(a!); unique_consecutive(self, bool return_inverse=False, bool return_counts=False,
int? dim=None) -> (Tensor, Tensor, Tensor); unsafe_chunk(self, int chunks, int dim=0) -> Tensor[];
unsafe_split.Tensor(self, SymInt split_size, int dim=0) -> Tensor[]; unsafe_split_with_sizes(self, SymInt[]
split_sizes, int dim=0) -> Tensor[]; unsqueeze(Tensor(a) self, int dim); unsqueeze_copy(self, int dim);
upsample_bicubic2d(self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None);
upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors);
upsample_bicubic2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, bool align_corners, float?
scales_h=None, float? scales_w=None); upsample_bilinear2d(self, SymInt[2] output_size, bool align_corners, float?
scales_h=None, float? scales_w=None); upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners,
float[]? scale_factors); upsample_bilinear2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size,
bool align_corners, float? scales_h=None, float? scales_w=None); upsample_linear1d(self, SymInt[1] output_size, bool
align_corners, float? scales=None); upsample_linear1d.vec(Tensor input, SymInt[]? output_size, bool align_corners,
float[]? scale_factors); upsample_linear1d_backward(Tensor grad_output, SymInt[1] output_size, SymInt[3] input_size,
bool align_corners, float? scales=None); upsample_nearest1d(self, SymInt[1] output_size, float? scales=None);
upsample_nearest1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors); upsample_nearest1d_backward(Tensor
grad_output, SymInt[1] output_size, SymInt[3] input_size, float? scales=None); upsample_nearest2d(self, SymInt[2]
output_size, float? scales_h=None, float? scales_w=None); upsample_nearest2d.vec(Tensor input, SymInt[]? output_size,
float[]? scale_factors); upsample_nearest2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size,
float? scales_h=None, float? scales_w=None); upsample_nearest3d(self, SymInt[3] output_size, float? scales_d=None,
float? scales_h=None, float? scales_w=None); upsample_nearest3d.vec(Tensor input, SymInt[]? output_size, float[]?
scale_factors); upsample_nearest3d_backward(Tensor grad_output, SymInt[3] output_size, SymInt[5] input_size, float?
scales_d=None, float? scales_h=None, float? scales_w=None); upsample_trilinear3d(self, SymInt[3] output_size, bool
align_corners, float? scales_d=None, float? scales_h=None, float? scales_w=None); upsample_trilinear3d.vec(Tensor
input, SymInt[]? output_size, bool align_corners, float[]? scale_factors); upsample_trilinear3d_backward(Tensor
grad_output, SymInt[3] output_size, SymInt[5] input_size, bool align_corners, float? scales_d=None, float?
scales_h=None, float? scales_w=None); vander(Tensor x, int? N=None, bool increasing=False); var(self, bool
unbiased=True); var.correction(self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False); var.dim(self,
int[1]? dim, bool unbiased=True, bool keepdim=False); var_mean(self, bool unbiased=True) -> (Tensor, Tensor);
var_mean.correction(self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor);
var_mean.dim(self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor); vdot(self, Tensor other);
view(Tensor(a) self, SymInt[] size); view.dtype(Tensor(a) self, ScalarType dtype); view_as(Tensor(a) self, Tensor
other); view_as_complex(Tensor(a) self); view_as_complex_copy(self); view_as_real(Tensor(a) self);
view_as_real_copy(self); view_copy(self, SymInt[] size); view_copy.dtype(self, ScalarType dtype); vsplit.array(Tensor(a
-> *) self, int[] indices) -> Tensor(a)[]; vsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[];
vstack(Tensor[] tensors); where(Tensor condition) -> Tensor[]; where.Scalar(Tensor condition, Scalar self, Scalar
other); where.ScalarOther(Tensor condition, Tensor self, Scalar other); where.ScalarSelf(Tensor condition, Scalar self,
Tensor other); where.self(Tensor condition, Tensor self, Tensor other); xlogy.Scalar_Other(self, Scalar other);
xlogy.Scalar_Self(Scalar self, Tensor other); xlogy.Tensor(self, Tensor other); xlogy_.Scalar_Other(Tensor(a!) self,
Scalar other) -> Tensor(a!); xlogy_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!); zero(self); zero_(Tensor(a!)
self) -> Tensor(a!); zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool?
pin_memory=None); zeros_like(self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool?
pin_memory=None, MemoryFormat? memory_format=None)
"""
