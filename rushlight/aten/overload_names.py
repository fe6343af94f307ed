"""Overloads that PyTorch has of our ops, by name: see tools/list_overloads.py, which writes this file."""

TEXT = """
_adaptive_avg_pool2d:out _adaptive_avg_pool2d_backward:out _adaptive_avg_pool3d:out _adaptive_avg_pool3d_backward:out
_add_relu:Scalar,Scalar_out,Tensor,out _addmm_activation:out _aminmax:dim,dim_out,out _batch_norm_no_update:out
_batch_norm_with_update:out _cdist_forward:out _chunk_cat:out _conj_physical:out _convolution:deprecated,out
_ctc_loss:Tensor,Tensor_out,out _ctc_loss_backward:Tensor,out _dirichlet_grad:out _embedding_bag:out _fft_c2c:out
_fft_c2r:out _fft_r2c:out _flash_attention_forward:quantized _foreach_abs:out _foreach_acos:out
_foreach_add:List,List_out,Scalar,ScalarList,ScalarList_out,Scalar_out,Tensor,Tensor_out
_foreach_add_:List,Scalar,ScalarList,Tensor
_foreach_addcdiv:Scalar,ScalarList,ScalarList_out,Scalar_out,Tensor,Tensor_out
_foreach_addcdiv_:Scalar,ScalarList,Tensor
_foreach_addcmul:Scalar,ScalarList,ScalarList_out,Scalar_out,Tensor,Tensor_out
_foreach_addcmul_:Scalar,ScalarList,Tensor _foreach_asin:out _foreach_atan:out _foreach_ceil:out
_foreach_clamp_max:List,List_out,Scalar,ScalarList,ScalarList_out,Scalar_out _foreach_clamp_max_:List,Scalar,ScalarList
_foreach_clamp_min:List,List_out,Scalar,ScalarList,ScalarList_out,Scalar_out _foreach_clamp_min_:List,Scalar,ScalarList
_foreach_clone:out _foreach_cos:out _foreach_cosh:out
_foreach_div:List,List_out,Scalar,ScalarList,ScalarList_out,Scalar_out,Tensor,Tensor_out
_foreach_div_:List,Scalar,ScalarList,Tensor _foreach_erf:out _foreach_erfc:out _foreach_exp:out _foreach_expm1:out
_foreach_floor:out _foreach_frac:out _foreach_lerp:List,List_out,Scalar,ScalarList,ScalarList_out,Scalar_out
_foreach_lerp_:List,Scalar,ScalarList _foreach_lgamma:out _foreach_log:out _foreach_log10:out _foreach_log1p:out
_foreach_log2:out _foreach_max:out _foreach_maximum:List,List_out,Scalar,ScalarList,ScalarList_out,Scalar_out
_foreach_maximum_:List,Scalar,ScalarList _foreach_minimum:List,List_out,Scalar,ScalarList,ScalarList_out,Scalar_out
_foreach_minimum_:List,Scalar,ScalarList
_foreach_mul:List,List_out,Scalar,ScalarList,ScalarList_out,Scalar_out,Tensor,Tensor_out
_foreach_mul_:List,Scalar,ScalarList,Tensor _foreach_neg:out _foreach_norm:Scalar,Scalar_out
_foreach_pow:List,List_out,Scalar,ScalarAndTensor,ScalarList,ScalarList_out,Scalar_out
_foreach_pow_:List,Scalar,ScalarList _foreach_powsum:Scalar,Scalar_out _foreach_reciprocal:out _foreach_round:out
_foreach_rsqrt:out _foreach_sigmoid:out _foreach_sign:out _foreach_sin:out _foreach_sinh:out _foreach_sqrt:out
_foreach_sub:List,List_out,Scalar,ScalarList,ScalarList_out,Scalar_out _foreach_sub_:List,Scalar,ScalarList
_foreach_tan:out _foreach_tanh:out _foreach_trunc:out _index_put_impl_:hacked_twin _int_mm:out _linalg_det:result
_linalg_eigh:eigenvalues _linalg_slogdet:sign _linalg_solve_ex:result _linalg_svd:U _log_softmax:out
_log_softmax_backward_data:out _logcumsumexp:out _masked_scale:out _native_batch_norm_legit:no_stats,no_stats_out,out
_native_batch_norm_legit_no_training:out _pdist_forward:out _pin_memory:out _sample_dirichlet:out _scaled_mm:out
_scaled_mm_v2:out _softmax:out _softmax_backward_data:out _sparse_addmm:out _sparse_log_softmax:int,out
_sparse_mm:reduce _sparse_softmax:int,out _sparse_sum:dim,dim_dtype,dim_out,dtype _stack:out _standard_gamma:out
_standard_gamma_grad:out _to_copy:out _unique:out _unique2:out _unsafe_index:Tensor,Tensor_hacked_twin
_unsafe_index_put:hacked_twin _unsafe_view:out _upsample_bicubic2d_aa:out,vec _upsample_bilinear2d_aa:out,vec
_upsample_lanczos2d_aa:out,vec _upsample_nearest_exact1d:out,vec _upsample_nearest_exact2d:out,vec
_upsample_nearest_exact3d:out,vec _weight_norm_interface:out abs:out acos:Scalar,complex,float,int,out
acosh:Scalar,complex,float,int,out adaptive_avg_pool1d:out adaptive_avg_pool2d:out adaptive_avg_pool3d:out
adaptive_max_pool2d:out adaptive_max_pool3d:out add:Scalar,Scalar_out,Tensor,complex,complex_float,complex_int,
float,float_complex,float_int,int,int_complex,int_float,out,str,t add_:Scalar,Tensor,t addbmm:out addcdiv:out
addcmul:out addmm:dtype,dtype_out,out addmv:out addr:out affine_grid_generator:out alias_copy:out
all:all_out,bool,dim,dims,dims_out,float,int,out amax:out amin:out aminmax:out angle:Scalar,complex,float,int,out
any:all_out,bool,dim,dims,dims_out,float,int,out,str arange:out,start,start_out,start_step argmax:out argmin:out
argsort:stable,stable_out as_strided_copy:out as_strided_scatter:out asin:Scalar,complex,float,int,out
asinh:Scalar,complex,float,int,out atan:Scalar,complex,float,int,out
atan2:Scalar_Scalar,float,float_int,int,int_float,out atanh:Scalar,complex,float,int,out atleast_1d:Sequence
atleast_2d:Sequence atleast_3d:Sequence avg_pool1d:out avg_pool2d:out avg_pool2d_backward:grad_input avg_pool3d:out
avg_pool3d_backward:grad_input baddbmm:dtype,dtype_out,out bartlett_window:out,periodic,periodic_out
bernoulli:Tensor,Tensor_out,float_out,out,p bernoulli_:Tensor,float binary_cross_entropy:out
binary_cross_entropy_backward:grad_input binary_cross_entropy_with_logits:out bincount:out binomial:out
bitwise_and:Scalar,Scalar_Tensor,Scalar_Tensor_out,Scalar_out,Tensor,Tensor_out bitwise_and_:Scalar,Tensor
bitwise_left_shift:Scalar_Tensor,Scalar_Tensor_out,Tensor,Tensor_Scalar,Tensor_Scalar_out,Tensor_out
bitwise_left_shift_:Tensor,Tensor_Scalar bitwise_not:out
bitwise_or:Scalar,Scalar_Tensor,Scalar_Tensor_out,Scalar_out,Tensor,Tensor_out bitwise_or_:Scalar,Tensor
bitwise_right_shift:Scalar_Tensor,Scalar_Tensor_out,Tensor,Tensor_Scalar,Tensor_Scalar_out,Tensor_out
bitwise_right_shift_:Tensor,Tensor_Scalar
bitwise_xor:Scalar,Scalar_Tensor,Scalar_Tensor_out,Scalar_out,Tensor,Tensor_out bitwise_xor_:Scalar,Tensor
blackman_window:out,periodic,periodic_out block_diag:out bmm:dtype,dtype_out,out
bucketize:Scalar,Scalar_out,Tensor,Tensor_out cat:out cauchy:out ceil:Scalar,float,int,out celu:out chain_matmul:out
channel_shuffle:out cholesky:out cholesky_inverse:out cholesky_solve:out clamp:Tensor,Tensor_out,out clamp_:Tensor
clamp_max:Tensor,Tensor_out,out clamp_max_:Tensor clamp_min:Tensor,Tensor_out,out clamp_min_:Tensor clone:out col2im:out
column_stack:out complex:out conj_physical:out constant_pad_nd:out conv1d:padding conv2d:padding conv3d:padding
conv_tbc:out conv_transpose2d:input conv_transpose3d:input convolution:out convolution_backward:out
copy:Dict_Tensor,Dict_bool,Dict_complex,Dict_float,Dict_int,Dict_str,out,t copy_:Tensor,float,int
copysign:Scalar,Scalar_out,Tensor,float,float_int,int,int_float,out copysign_:Scalar,Tensor
cos:Scalar,complex,float,int,out cosh:Scalar,complex,float,int,out count_nonzero:dim_IntList,dim_IntList_out,out
cross:out ctc_loss:IntList,Tensor cummax:out cummin:out cumprod:out cumsum:out cumulative_trapezoid:dx,x deg2rad:out
detach_copy:out diag:out diag_embed:out diagonal_backward:out diagonal_copy:out diagonal_scatter:out diff:out
digamma:out dist:out div:Scalar,Scalar_mode,Scalar_mode_out,Scalar_out,Tensor,Tensor_mode,complex,float,int,out,out_mode
div_:Scalar,Scalar_mode,Tensor,Tensor_mode dot:out dsplit:array,int dstack:out einsum:sublist elu:out
elu_backward:grad_input embedding:out embedding_bag:padding_idx embedding_dense_backward:out embedding_renorm:out
empty:memory_format,out empty_like:out empty_permuted:out empty_strided:out eq:Scalar,Scalar_out,Tensor,Tensor_list,
Tensor_out,bool,bool_list,complex,complex_float,device,enum,float,float_complex,float_int,float_list,int,
int_float,int_list,str,str_list eq_:Scalar,Tensor erf:Scalar,float,int,out erfc:Scalar,float,int,out erfinv:out
exp:Scalar,complex,float,int,out exp2:out expand_copy:out expm1:Scalar,float,int,out exponential:out eye:m,m_out,out
fill:Scalar,Scalar_out,Tensor,Tensor_out fill_:Scalar,Tensor flatten:using_ints flip:out
float_power:Scalar,Scalar_out,Tensor_Scalar,Tensor_Scalar_out,Tensor_Tensor,Tensor_Tensor_out float_power_:Scalar,Tensor
floor:Scalar,float,int,out floor_divide:Scalar,Scalar_out,out floor_divide_:Scalar,Tensor fmax:out fmin:out
fmod:Scalar,Scalar_out,Tensor,Tensor_out,float,float_int,int,int_float fmod_:Scalar,Tensor frac:out
fractional_max_pool2d:output fractional_max_pool3d:output frexp:Tensor,Tensor_out frobenius_norm:dim,out full:out
full_like:out gather:out gcd:int,out ge:Scalar,Scalar_out,Tensor,Tensor_out,float,float_int,int,int_float,str
ge_:Scalar,Tensor gelu:out gelu_backward:grad_input geometric:out geqrf:a glu:out glu_backward:grad_input
gradient:array,scalararray,scalarint,scalarrayarray,scalarrayint,tensorarray,tensorarrayint grid_sampler_2d:out
grid_sampler_3d:out gru:data,input gt:Scalar,Scalar_out,Tensor,Tensor_out,float,float_int,int,int_float,str
gt_:Scalar,Tensor
hamming_window:out,periodic,periodic_alpha,periodic_alpha_beta,periodic_alpha_beta_out,periodic_alpha_out,periodic_out
hann_window:out,periodic,periodic_out hardshrink:out hardshrink_backward:grad_input hardsigmoid:out
hardsigmoid_backward:grad_input hardswish:out hardswish_backward:out hardtanh:out hardtanh_backward:grad_input
hash_tensor:out heaviside:out histc:out histogram:bin_ct,bin_ct_out,bins_tensor,bins_tensor_out
histogramdd:TensorList_bins,int_bins hsplit:array,int hstack:out huber_loss:out huber_loss_backward:out hypot:out i0:out
igamma:out igammac:out im2col:out
index:Tensor,Tensor_hacked_twin,Tensor_out,list_Tensor,list_bool,list_float,list_int,list_str,str index_add:out
index_copy:out index_fill:int_Scalar,int_Scalar_out,int_Tensor,int_Tensor_out index_fill_:int_Scalar,int_Tensor
index_put:hacked_twin,out index_put_:hacked_twin index_reduce:out index_select:out inner:out inverse:out
isfinite:complex,float
isin:Scalar_Tensor,Scalar_Tensor_out,Tensor_Scalar,Tensor_Scalar_out,Tensor_Tensor,Tensor_Tensor_out
isinf:complex,float,out isnan:complex,float,out isneginf:out isposinf:out
kaiser_window:beta,beta_out,out,periodic,periodic_out kron:out kthvalue:values lcm:out ldexp:Tensor,out
le:Scalar,Scalar_out,Tensor,Tensor_out,float,float_int,int,int_float,str le_:Scalar,Tensor leaky_relu:out
leaky_relu_backward:grad_input lerp:Scalar,Scalar_out,Tensor,Tensor_out lerp_:Scalar,Tensor lgamma:Scalar,float,int,out
lift:out lift_fresh_copy:out linalg_cholesky:out linalg_cholesky_ex:L linalg_cond:out,p_str,p_str_out linalg_cross:out
linalg_det:out linalg_eig:out linalg_eigh:eigvals linalg_eigvals:out linalg_eigvalsh:out linalg_householder_product:out
linalg_inv:out linalg_inv_ex:inverse linalg_ldl_factor:out linalg_ldl_factor_ex:out linalg_ldl_solve:out
linalg_lstsq:out linalg_lu:out linalg_lu_factor:out linalg_lu_factor_ex:out linalg_lu_solve:out linalg_matmul:out
linalg_matrix_exp:out linalg_matrix_norm:out,str_ord,str_ord_out linalg_matrix_power:out
linalg_matrix_rank:atol_rtol_float,atol_rtol_float_out,atol_rtol_tensor,atol_rtol_tensor_out,out,out_tol_tensor,
tol_tensor linalg_multi_dot:out linalg_norm:ord_str,ord_str_out,out
linalg_pinv:atol_rtol_float,atol_rtol_float_out,atol_rtol_tensor,atol_rtol_tensor_out,out,out_rcond_tensor,rcond_tensor
linalg_qr:out linalg_slogdet:out linalg_solve:out linalg_solve_ex:out linalg_solve_triangular:out linalg_svd:U
linalg_svdvals:out linalg_tensorinv:out linalg_tensorsolve:out linalg_vecdot:out linalg_vector_norm:out linear:out
linspace:Scalar_Tensor,Scalar_Tensor_out,Tensor_Scalar,Tensor_Scalar_out,Tensor_Tensor,Tensor_Tensor_out,out log:Scalar,
Scalar_Scalar,complex,complex_complex,complex_float,complex_int,float,float_complex,float_float,float_int,int,
int_complex,int_float,int_int,out log10:Scalar,complex,float,int,out log1p:Scalar,float,int,out log2:out
log_normal:out log_sigmoid:out log_sigmoid_backward:grad_input log_sigmoid_forward:output log_softmax:int,int_out
logaddexp:out logaddexp2:out logcumsumexp:out logical_and:out logical_not:out logical_or:out logical_xor:out logit:out
logspace:Scalar_Tensor,Scalar_Tensor_out,Tensor_Scalar,Tensor_Scalar_out,Tensor_Tensor,Tensor_Tensor_out,out
logsumexp:out lstm:data,input lt:Scalar,Scalar_out,Tensor,Tensor_out,float,float_int,int,int_float,str lt_:Scalar,Tensor
lu_solve:out lu_unpack:out mH:a mT:a masked_fill:Scalar,Scalar_out,Tensor,Tensor_out masked_fill_:Scalar,Tensor
masked_scatter:out masked_select:out matmul:out matrix_H:a matrix_power:out max:dim,dim_max,other,out,unary_out
max_pool2d_with_indices:out max_pool2d_with_indices_backward:grad_input max_pool3d_with_indices:out
max_pool3d_with_indices_backward:grad_input max_unpool2d:out max_unpool3d:out maximum:out mean:dim,dtype_out,out
median:dim,dim_values,out meshgrid:indexing min:dim,dim_min,other,out,unary_out minimum:out mish:out
mm:dtype,dtype_out,out mode:values movedim:int,intlist mse_loss:out mse_loss_backward:grad_input msort:out mul:Scalar,
Scalar_out,Tensor,complex,complex_float,complex_int,float,float_complex,float_int,int,int_complex,int_float,
left_t,out,right_ mul_:Scalar,Tensor,t multi_margin_loss:out multilabel_margin_loss:out multinomial:out mv:out
mvlgamma:out nan_to_num:out nanmean:out nanmedian:dim,dim_values,out nanquantile:out,scalar,scalar_out nansum:out
narrow:Tensor narrow_copy:out native_batch_norm:out native_batch_norm_backward:out native_dropout:out
native_dropout_backward:out native_group_norm:out native_group_norm_backward:out native_layer_norm:out
native_layer_norm_backward:out ne:Scalar,Scalar_out,Tensor,Tensor_list,Tensor_out,bool,bool_list,complex,
complex_float,device,enum,float,float_complex,float_int,float_list,int,int_float,int_list,str,str_list
ne_:Scalar,Tensor neg:Scalar,complex,float,int,out new_empty:out new_empty_strided:out new_full:out new_ones:out
new_zeros:out nextafter:out nll_loss:out nll_loss2d:out nll_loss2d_backward:grad_input nll_loss2d_forward:output
nll_loss_backward:grad_input nll_loss_forward:output nonzero:out nonzero_static:out
norm:Scalar,ScalarOpt_dim,ScalarOpt_dim_dtype,ScalarOpt_dtype,ScalarOpt_dtype_out,Scalar_out,dtype_out,out
normal:Tensor_Tensor,Tensor_Tensor_out,Tensor_float,Tensor_float_out,float_Tensor,float_Tensor_out,float_float,
float_float_out,out nuclear_norm:dim,dim_out,out numpy_T:a ones:out ones_like:out orgqr:out ormqr:out outer:out
permute_copy:out pixel_shuffle:out pixel_unshuffle:out poisson:out polar:Scalar_Scalar,float,float_int,int,int_float,out
polygamma:out pow:Scalar,Scalar_Scalar,Scalar_out,Tensor_Scalar,Tensor_Scalar_out,Tensor_Tensor,Tensor_Tensor_out,
complex,complex_float,float,float_complex,float_int,int,int_float,int_to_int pow_:Scalar,Tensor
prod:dim_int,int_out,out put:out qr:Q quantile:out,scalar,scalar_out rad2deg:out rand:generator,generator_out,out
rand_like:generator,generator_out,out randint:generator,generator_out,low,low_generator,low_generator_out,low_out,out
randint_like:Tensor,Tensor_generator,Tensor_generator_out,Tensor_out,generator,generator_out,low_dtype,
low_dtype_out,low_generator_dtype,low_generator_dtype_out,out randn:generator,generator_out,out
randn_like:generator,generator_out,out random:from,from_out,out,to,to_out random_:from,to
randperm:generator,generator_out,out range:out,out_,step reciprocal:out reflection_pad1d:out
reflection_pad1d_backward:grad_input reflection_pad2d:out reflection_pad2d_backward:grad_input reflection_pad3d:out
reflection_pad3d_backward:grad_input relu:out
remainder:Scalar,Scalar_Tensor,Scalar_Tensor_out,Scalar_out,Tensor,Tensor_out,float,float_int,int,int_float
remainder_:Scalar,Tensor renorm:out repeat:out repeat_interleave:Tensor,Tensor_out,self_Tensor,self_int
replication_pad1d:out replication_pad1d_backward:grad_input replication_pad2d:out replication_pad2d_backward:grad_input
replication_pad3d:out replication_pad3d_backward:grad_input rnn_relu:data,input rnn_tanh:data,input roll:out rot90:out
round:Scalar,decimals,decimals_out,float,int,out round_:decimals rsqrt:out rsub:Scalar,Scalar_out,Tensor,Tensor_out
scalar_tensor:out scatter:reduce,reduce_out,src,src_out,value,value_out,value_reduce,value_reduce_out
scatter_:reduce,src,value,value_reduce scatter_add:out scatter_reduce:two,two_out scatter_reduce_:two
searchsorted:Scalar,Scalar_out,Tensor,Tensor_out segment_reduce:out select:int,t select_backward:out
select_copy:int,int_out select_scatter:out sgn:out sigmoid:out sigmoid_backward:grad_input sign:out signbit:out silu:out
silu_backward:grad_input sin:Scalar,complex,float,int,out sinc:out sinh:Scalar,complex,float,int,out slice:Tensor,str,t
slice_backward:out slice_copy:Tensor,Tensor_out slice_scatter:out slogdet:out smooth_l1_loss:out
smooth_l1_loss_backward:grad_input soft_margin_loss:out soft_margin_loss_backward:grad_input softmax:int,int_out
softplus:out softplus_backward:grad_input softshrink:out softshrink_backward:grad_input
sort:Tensor,any,bool,float,int,stable,str,values,values_stable sparse_bsc_tensor:ccol_row_value,ccol_row_value_size
sparse_bsr_tensor:crow_col_value,crow_col_value_size sparse_compressed_tensor:comp_plain_value,comp_plain_value_size
sparse_coo_tensor:indices,indices_size,size,size_out sparse_csc_tensor:ccol_row_value,ccol_row_value_size
sparse_csr_tensor:crow_col_value,crow_col_value_size sparse_mask:out split:Tensor,sizes,str split_copy:Tensor,Tensor_out
split_with_sizes_copy:out sqrt:Scalar,complex,float,int,out square:out squeeze:dim,dims
squeeze_copy:dim,dim_out,dims,dims_out,out stack:out std:correction,correction_out,dim,out
std_mean:correction,correction_out,dim stft:center sub:Scalar,Scalar_out,Tensor,complex,complex_float,complex_int,
float,float_complex,float_int,int,int_complex,int_float,out sub_:Scalar,Tensor
sum:IntList_out,bool,complex,dim_IntList,float,int,out svd:U sym_size:int sym_stride:int t_copy:out take:out
take_along_dim:out tan:Scalar,complex,float,int,out tanh:Scalar,complex,float,int,out tanh_backward:grad_input
tensor_split:indices,sections,tensor_indices_or_sections tensordot:out threshold:out threshold_backward:grad_input
to:device,dtype,dtype_layout,other,prim_Device,prim_dtype,prim_other to_padded_tensor:out to_sparse:sparse_dim
topk:values trace:out transpose:int transpose_copy:int,int_out trapezoid:dx,x triangular_solve:X tril:out
tril_indices:out triu:out triu_indices:out true_divide:Scalar,Tensor,out true_divide_:Scalar,Tensor trunc:out unbind:int
unbind_copy:int,int_out unflatten:int unfold_backward:out unfold_copy:out uniform:out unique_consecutive:out
unsafe_split:Tensor,Tensor_out unsafe_split_with_sizes:out unsqueeze_copy:out upsample_bicubic2d:out,vec
upsample_bicubic2d_backward:grad_input upsample_bilinear2d:out,vec,vec_out upsample_bilinear2d_backward:grad_input
upsample_linear1d:out,vec upsample_linear1d_backward:grad_input upsample_nearest1d:out,vec
upsample_nearest1d_backward:grad_input upsample_nearest2d:out,vec,vec_out upsample_nearest2d_backward:grad_input
upsample_nearest3d:out,vec upsample_nearest3d_backward:grad_input upsample_trilinear3d:out,vec
upsample_trilinear3d_backward:grad_input var:correction,correction_out,dim,out var_mean:correction,correction_out,dim
vdot:out view:dtype view_as_complex_copy:out view_as_real_copy:out view_copy:dtype,dtype_out,out vsplit:array,int
vstack:out where:Scalar,ScalarOther,ScalarSelf,self,self_out
xlogy:OutScalar_Other,OutScalar_Self,OutTensor,Scalar_Other,Scalar_Self,Tensor xlogy_:Scalar_Other,Tensor zero:out
zeros:out zeros_like:out
"""
