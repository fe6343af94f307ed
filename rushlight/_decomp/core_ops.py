"""Which ops decompositions end at: those PyTorch calls core, and those that have kernels of their own there.

Enters: nothing. Leaves: `CORE`, names of overloads as `add.Tensor`, and `WHOLE`, names of ops that have no
decomposition although ours are written with other ops, or are expressions of one element.
"""

from __future__ import annotations

CORE = frozenset("""
    _adaptive_avg_pool2d.default _adaptive_avg_pool2d_backward.default _adaptive_avg_pool3d.default
    _cdist_forward.default _embedding_bag.default _fft_c2r.default _fft_r2c.default _local_scalar_dense.default
    _log_softmax.default _native_batch_norm_legit.default _native_batch_norm_legit.no_stats
    _native_batch_norm_legit_no_training.default _pdist_forward.default _softmax.default _to_copy.default
    abs.default acos.default acosh.default add.Scalar add.Tensor addmm.default alias.default amax.default
    amin.default any.default any.dim any.dims arange.start_step argmax.default argmin.default as_strided.default
    asin.default asinh.default atan.default atan2.default atanh.default avg_pool2d.default
    avg_pool2d_backward.default avg_pool3d.default bitwise_and.Scalar bitwise_and.Tensor bitwise_not.default
    bitwise_or.Scalar bitwise_or.Tensor bitwise_xor.Scalar bitwise_xor.Tensor bmm.default cat.default ceil.default
    clamp.Tensor clamp.default clone.default col2im.default constant_pad_nd.default convolution.default
    convolution_backward.default copy.default cos.default cosh.default cumsum.default diagonal.default div.Scalar
    div.Scalar_mode div.Tensor div.Tensor_mode elu.default embedding.default embedding_dense_backward.default
    empty.memory_format empty_strided.default eq.Scalar eq.Tensor erf.default exp.default expand.default
    expm1.default fill.Scalar flip.default floor.default fmod.Scalar fmod.Tensor full.default full_like.default
    gather.default ge.Scalar ge.Tensor gelu.default grid_sampler_2d.default gt.Scalar gt.Tensor hardtanh.default
    index.Tensor index_put.default index_select.default isinf.default isnan.default le.Scalar le.Tensor
    leaky_relu.default log.default log10.default log1p.default log2.default logical_and.default logical_not.default
    logical_or.default logical_xor.default lt.Scalar lt.Tensor masked_scatter.default max.dim
    max_pool2d_with_indices.default max_pool2d_with_indices_backward.default max_pool3d_with_indices.default
    maximum.default mean.default mean.dim min.dim minimum.default mm.default mul.Scalar mul.Tensor
    native_dropout.default native_group_norm.default native_group_norm_backward.default native_layer_norm.default
    native_layer_norm_backward.default ne.Scalar ne.Tensor neg.default nonzero.default permute.default pow.Scalar
    pow.Tensor_Scalar pow.Tensor_Tensor prod.default prod.dim_int rand.default randn.default randperm.default
    reciprocal.default reflection_pad1d.default reflection_pad2d.default reflection_pad3d.default relu.default
    remainder.Scalar remainder.Tensor repeat.default replication_pad2d.default replication_pad3d.default
    round.default rsqrt.default scalar_tensor.default scatter.src scatter.value scatter_add.default
    scatter_reduce.two select.int select_scatter.default sigmoid.default sign.default sin.default sinh.default
    slice.Tensor slice_scatter.default sort.default split_with_sizes.default sqrt.default squeeze.dim squeeze.dims
    sub.Scalar sub.Tensor sum.dim_IntList sym_numel.default sym_size.int sym_storage_offset.default sym_stride.int
    tan.default tanh.default topk.default trunc.default unsqueeze.default upsample_bilinear2d.vec
    upsample_nearest2d.vec var.correction var.dim view.default where.self
""".split())

WHOLE = frozenset("""
    _ctc_loss _ctc_loss_backward _efficient_attention_forward _flash_attention_forward _grouped_mm _int_mm
    _native_batch_norm_legit_functional _scaled_mm _scaled_mm_v2 _unique _unique2 _upsample_bicubic2d_aa
    _upsample_bilinear2d_aa _upsample_lanczos2d_aa adaptive_max_pool2d adaptive_max_pool3d alpha_dropout angle
    as_strided_scatter bernoulli binomial bitwise_left_shift bitwise_right_shift bucketize cholesky_solve coalesce
    complex copysign diagonal_scatter digamma dist embedding_renorm erfc erfinv exp2 feature_alpha_dropout
    feature_dropout fmax fmin fractional_max_pool2d fractional_max_pool3d frexp gcd histc histogram hypot i0 igamma
    igammac index_reduce istft kthvalue lcm lgamma linalg_eig linalg_ldl_solve linalg_lstsq linalg_lu
    linalg_lu_solve linalg_matrix_exp linalg_solve_triangular lu_unpack masked_select median mode multinomial
    nanmedian nanquantile native_batch_norm nextafter normal polar polygamma quantile searchsorted segment_reduce
    signbit special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1
    special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v
    special_chebyshev_polynomial_w special_digamma special_erfcx special_erfinv special_gammaln
    special_hermite_polynomial_h special_hermite_polynomial_he special_i0 special_i0e special_i1 special_i1e
    special_laguerre_polynomial_l special_legendre_polynomial_p special_log_ndtr special_modified_bessel_i0
    special_modified_bessel_i1 special_modified_bessel_k0 special_modified_bessel_k1 special_ndtr special_ndtri
    special_polygamma special_psi special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1
    special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u
    special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w special_spherical_bessel_j0
    special_zeta stft to_dense to_padded_tensor triangular_solve tril_indices triu_indices upsample_bicubic2d
""".split())
