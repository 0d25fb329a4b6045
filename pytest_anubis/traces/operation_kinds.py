"""Which recorded operations may be replayed, and of what kind each is.

An operation that is in none of these tables is not run: a trace is a file from elsewhere, and an operation
might open, map or load something. Names are those of torch's namespace ``aten``; the in-place form (``add_``)
and the form that writes into an argument (``add.out``) belong to the plain name.
"""

from __future__ import annotations

import enum
import re
from functools import cache


class Kind(enum.Enum):
    """What limits an operation: matrix units, memory bandwidth, random access, the host, or the network."""

    MATRIX = "matrix"
    CONVOLUTION = "convolution"
    POINTWISE = "pointwise"
    NORMALISATION = "normalisation"
    EMBEDDING = "embedding"
    COPY = "copy"
    # No work of the device: a view, an empty tensor, a value that the host reads.
    BETWEEN = "between"
    COLLECTIVE = "collective"


_NAMES = {
    Kind.MATRIX: """
        mm addmm bmm baddbmm addbmm matmul linear linear_backward mv addmv dot vdot inner outer addr einsum
        tensordot chain_matmul linalg_vecdot bilinear _trilinear _addmm_activation _scaled_mm _int_mm
        _grouped_mm _scaled_grouped_mm mkldnn_linear scaled_dot_product_attention
        _scaled_dot_product_attention_math _scaled_dot_product_flash_attention_for_cpu
        _scaled_dot_product_flash_attention_for_cpu_backward _scaled_dot_product_flash_attention
        _scaled_dot_product_flash_attention_backward _scaled_dot_product_efficient_attention
        _scaled_dot_product_efficient_attention_backward _native_multi_head_attention
        lstm gru rnn_tanh rnn_relu lstm_cell gru_cell mkldnn_rnn_layer mkldnn_rnn_layer_backward
    """,
    Kind.CONVOLUTION: """
        convolution _convolution conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
        convolution_backward convolution_overrideable mkldnn_convolution cudnn_convolution
        cudnn_convolution_transpose miopen_convolution miopen_convolution_transpose
        miopen_depthwise_convolution _conv_depthwise2d conv_depthwise3d slow_conv2d_forward thnn_conv2d im2col
        col2im
    """,
    Kind.NORMALISATION: """
        batch_norm native_batch_norm native_batch_norm_backward _native_batch_norm_legit
        _native_batch_norm_legit_no_training _batch_norm_with_update batch_norm_backward
        _batch_norm_impl_index cudnn_batch_norm cudnn_batch_norm_backward miopen_batch_norm
        miopen_batch_norm_backward layer_norm native_layer_norm native_layer_norm_backward group_norm
        native_group_norm native_group_norm_backward instance_norm rms_norm _fused_rms_norm
        _fused_rms_norm_backward local_response_norm
    """,
    Kind.EMBEDDING: """
        embedding embedding_backward embedding_dense_backward embedding_sparse_backward embedding_bag
        _embedding_bag _embedding_bag_forward_only _embedding_bag_backward _embedding_bag_dense_backward
        _embedding_bag_per_sample_weights_backward index_select index_select_backward index index_put
        _index_put_impl index_add index_copy index_fill gather gather_backward scatter scatter_add
        scatter_reduce take take_along_dim put masked_select masked_select_backward
        masked_scatter masked_scatter_backward masked_fill nonzero one_hot _unsafe_index _unsafe_index_put
    """,
    Kind.COPY: """
        copy clone contiguous cat concat concatenate stack hstack vstack to _to_copy type_as fill zero zeros
        zeros_like ones ones_like full full_like new_zeros new_ones new_full repeat repeat_interleave tile
        flip roll pad constant_pad_nd reshape flatten unflatten_dense_tensors flatten_dense_tensors
        slice_backward select_backward slice_scatter select_scatter diagonal_backward unfold_backward
        as_strided_copy expand_copy view_copy tril triu arange linspace eye scalar_tensor _pin_memory
        pin_memory _foreach_copy _foreach_zero _reshape_copy float half bfloat16 double
    """,
    Kind.BETWEEN: """
        view _unsafe_view view_as reshape_as t transpose permute movedim swapaxes numpy_T mT adjoint detach
        alias lift lift_fresh as_strided slice select narrow expand expand_as broadcast_to squeeze unsqueeze
        unbind split split_with_sizes chunk tensor_split unsafe_split unsafe_chunk unsafe_split_with_sizes
        diagonal unfold unflatten ravel empty empty_like empty_strided new_empty new_empty_strided
        resize resolve_conj resolve_neg item _local_scalar_dense is_nonzero equal _reshape_alias real
        broadcast_tensors meshgrid result_type _has_compatible_shallow_copy_type is_same_size requires_grad
        output_nr _version
    """,
    Kind.POINTWISE: """
        add sub rsub mul div true_divide floor_divide remainder fmod neg abs sign sgn pow square sqrt rsqrt
        exp exp2 expm1 log log2 log10 log1p xlogy sin cos tan asin acos atan atan2 sinh cosh tanh erf erfc
        erfinv reciprocal sigmoid logit relu relu6 leaky_relu elu selu celu gelu silu mish hardtanh hardswish
        hardsigmoid softplus softsign prelu glu threshold clamp clamp_min clamp_max clip minimum maximum fmin
        fmax where lerp addcmul addcdiv floor ceil round trunc frac nan_to_num isnan isinf isfinite eq ne lt
        le gt ge logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_xor bitwise_not
        bitwise_left_shift bitwise_right_shift __and__ __or__ __xor__ __lshift__ __rshift__ polar complex
        tanh_backward sigmoid_backward threshold_backward gelu_backward silu_backward elu_backward
        leaky_relu_backward hardtanh_backward hardswish_backward hardsigmoid_backward softplus_backward
        mish_backward glu_backward logit_backward rrelu_with_noise
        sum mean prod var std var_mean std_mean norm linalg_vector_norm _foreach_norm amax amin max min
        aminmax argmax argmin all any logsumexp cumsum cumprod cummax cummin logcumsumexp count_nonzero
        median mode topk sort argsort kthvalue unique unique_dim _unique2 searchsorted bucketize histc
        bincount value_selecting_reduction_backward cumsum_backward
        softmax _softmax _softmax_backward_data log_softmax _log_softmax _log_softmax_backward_data
        _masked_softmax _safe_softmax masked_softmax
        cross_entropy_loss nll_loss nll_loss_nd nll_loss_forward nll_loss_backward nll_loss2d
        nll_loss2d_forward nll_loss2d_backward mse_loss mse_loss_backward l1_loss smooth_l1_loss
        smooth_l1_loss_backward huber_loss huber_loss_backward kl_div binary_cross_entropy
        binary_cross_entropy_backward binary_cross_entropy_with_logits cosine_similarity soft_margin_loss
        margin_ranking_loss pairwise_distance cdist _cdist_forward
        max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool2d_with_indices_backward
        max_pool3d_with_indices max_pool3d_with_indices_backward mkldnn_max_pool2d avg_pool1d avg_pool2d
        avg_pool3d avg_pool2d_backward avg_pool3d_backward adaptive_avg_pool1d adaptive_avg_pool2d
        adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d _adaptive_avg_pool2d_backward
        _adaptive_avg_pool3d_backward mkldnn_adaptive_avg_pool2d mkldnn_adaptive_avg_pool2d_backward
        adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool2d_backward
        upsample_nearest1d upsample_nearest2d upsample_nearest2d_backward upsample_bilinear2d
        upsample_bilinear2d_backward upsample_bicubic2d grid_sampler_2d
        affine_grid_generator pixel_shuffle pixel_unshuffle channel_shuffle
        dropout native_dropout native_dropout_backward alpha_dropout feature_dropout _fused_dropout
        bernoulli normal uniform random rand randn randint rand_like randn_like randint_like randperm
        multinomial exponential geometric log_normal cauchy
        _foreach_add _foreach_sub _foreach_mul _foreach_div _foreach_addcmul _foreach_addcdiv _foreach_sqrt
        _foreach_neg _foreach_lerp _foreach_pow _foreach_reciprocal _foreach_maximum _foreach_minimum
        _foreach_abs _foreach_exp _foreach_clamp_min _foreach_clamp_max _foreach_sign _foreach_max
        _fused_adam _fused_adamw _fused_sgd _fused_adagrad _amp_foreach_non_finite_check_and_unscale
        _amp_update_scale
    """,
}
_KIND_OF = {name: kind for kind, names in _NAMES.items() for name in names.split()}

ANY_ORDER = frozenset((
    "put", "bincount", "histc", "cumsum", "cumprod", "logcumsumexp", "kthvalue", "median", "nll_loss2d",
    "nll_loss2d_forward", "adaptive_max_pool2d_backward", "_adaptive_avg_pool2d_backward",
    "_adaptive_avg_pool3d_backward", "avg_pool3d_backward", "max_pool3d_with_indices_backward",
    "upsample_bilinear2d_backward", "_embedding_bag_backward", "_embedding_bag_dense_backward",
    "_scaled_dot_product_flash_attention_backward", "_scaled_dot_product_efficient_attention_backward",
    "_native_multi_head_attention",
))  # fmt: skip
"""Operations that may give other bits every time, even where torch is set to be deterministic: its mode that
only warns keeps the quick backward of attention."""

UNCHECKED = {
    "max_pool2d_with_indices_backward": ("indices",),
    "max_pool3d_with_indices_backward": ("indices",),
    "adaptive_max_pool2d_backward": ("indices",),
    "_embedding_bag_backward": ("offset2bag", "bag_size", "maximum_indices"),
    "_embedding_bag_dense_backward": ("offset2bag", "bag_size", "maximum_indices"),
}
"""Arguments by which an operation reaches into memory without a check, so that no trace may choose them."""

INDEX_MAKERS = (
    "max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d", "_embedding_bag",
    "embedding_bag", "_embedding_bag_forward_only",
)  # fmt: skip
"""Operations whose results are such arguments."""

FREE_OF_WORK = frozenset({"record_stream", "promote_types", "can_cast", "set_"})
"""Operations of the host's bookkeeping that a replay leaves out. What ``set_`` gives a tensor, such as memory
that a loader's process has filled, is there before the step."""

_SCHEMA = re.compile(r"([A-Za-z_]\w{0,99})::(\w{1,150})(?:\.(\w{1,100}))?\(")


@cache
def operation_name(schema: str) -> tuple[str, str, str]:
    """Return namespace, name and overload of a schema, such as ``aten``, ``add_`` and ``Tensor``.

    All three are empty if the text is no schema; the overload is ``default`` if the schema names none.
    """
    found = _SCHEMA.match(schema)
    return (found[1], found[2], found[3] or "default") if found else ("", "", "")


def plain_name(name: str) -> str:
    """Return the name without the underscore of the in-place form: ``add`` of ``add_``."""
    return name if name.startswith("__") else name.rstrip("_")


def kind_of(schema: str) -> Kind | None:
    """Return the kind of an operation; None if it may not be replayed."""
    space, name, _ = operation_name(schema)
    if space == "c10d":
        return Kind.COLLECTIVE
    return _KIND_OF.get(plain_name(name)) if space == "aten" else None
